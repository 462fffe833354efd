package status

import (
	"fmt"
	"math"
	"slices"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/rollout"
	"github.com/fleetwright/fleetwright/controllers/workload"
)

// Compute returns the status of an AppService for a decision that was made from this input.
// Clusters has all entries, even if they are to be stored in AppServiceSlices.
func Compute(in rollout.Input, decision rollout.Decision) v1alpha1.AppServiceStatus {
	next, clustersIn := slices.Clone(decision.Entries), v1alpha1.ClustersIn("")
	var worst []v1alpha1.ClusterStatus
	if in.BelongInSlices(len(next)) {
		clustersIn = v1alpha1.ClustersInSlices
		limitTextsOfSlices(next)
		worst = worstOf(next)
	} else {
		limitTexts(pointersTo(next), objectBudget)
	}
	summary := summarize(in, next)
	generation, conditions := in.App.Generation, nextConditions(in, decision, next, summary)
	if in.RevisionRefused != nil { // the plan is not that of the spec, until the hub stores its revision
		generation, conditions = in.App.Status.ObservedGeneration, withRefusedRevision(in, conditions)
	}
	sources, serial := nextConfiguration(in, next)
	return v1alpha1.AppServiceStatus{
		ObservedGeneration:  generation,
		Conditions:          keepTimes(in.App, in.Now, conditions),
		Replicas:            scaleReplicas(in.App, next),
		AvailableReplicas:   availableReplicas(in, next),
		Selector:            labels.SelectorFromSet(workload.Selector(in.App.Name)).String(),
		Summary:             summary,
		Placement:           nextPlacement(in, decision),
		Rollout:             decision.Rollout,
		Configuration:       sources,
		ConfigurationSerial: serial,
		Removals:            decision.Removals,
		PlannedSpecs:        decision.PlannedSpecs,
		AcceptedStamps:      decision.AcceptedStamps,
		ClustersIn:          clustersIn,
		WorstClusters:       worst,
		Clusters:            next,
	}
}

// nextPlacement returns why clusters are not in the plan, the hash of the placement from which the plan
// was made, and the number of placements. An AppService that is being deleted has no plan.
func nextPlacement(in rollout.Input, decision rollout.Decision) v1alpha1.PlacementStatus {
	if in.App.IsDeleting() {
		return v1alpha1.PlacementStatus{Count: decision.PlacementCount}
	}
	return v1alpha1.PlacementStatus{
		Excluded: in.Plan.Excluded(), SpecHash: decision.PlacementHash, ReplicasHash: decision.ReplicasHash, Count: decision.PlacementCount,
	}
}

// summarize counts the cluster statuses. The ready replicas of a cluster are current only while its
// MemberCluster is Ready. Otherwise they count as last known ready replicas.
func summarize(in rollout.Input, entries []v1alpha1.ClusterStatus) v1alpha1.ClusterSummary {
	var sum v1alpha1.ClusterSummary
	upToDate := 0
	for _, entry := range entries {
		if entry.HubBehind != nil {
			sum.HubBehind++
		}
		if isObservable(in, entry.Name) {
			sum.ReadyReplicas = addSaturating(sum.ReadyReplicas, entry.ReadyReplicas)
		} else {
			sum.LastKnownReadyReplicas = addSaturating(sum.LastKnownReadyReplicas, entry.ReadyReplicas)
		}
		switch entry.Phase {
		case v1alpha1.ClusterReady:
			sum.Ready++
		case v1alpha1.ClusterPending, v1alpha1.ClusterProgressing:
			sum.Progressing++
		case v1alpha1.ClusterFailed:
			sum.Failed++
		case v1alpha1.ClusterUnknown:
			sum.Unknown++
		case v1alpha1.ClusterDetached:
			sum.Detached++
			continue
		case v1alpha1.ClusterRemoving:
			sum.Removing++
			continue
		}
		sum.Clusters++
		if isUpToDate(entry, in.Revision) && !in.IsSpecPending {
			upToDate++
		}
		sum.Replicas = addSaturating(sum.Replicas, entry.Replicas)
	}
	sum.Display = fmt.Sprintf("%d/%d", sum.Ready, sum.Clusters)
	if in.Revision > 0 {
		sum.UpToDate = fmt.Sprintf("%d/%d", upToDate, sum.Clusters)
	}
	return sum
}

// availableReplicas returns the number of available pods. It counts the clusters whose ready pods are
// in readyReplicas of the summary.
func availableReplicas(in rollout.Input, entries []v1alpha1.ClusterStatus) *int32 {
	var sum int32
	for i := range entries {
		if isObservable(in, entries[i].Name) {
			sum = addSaturating(sum, entries[i].CurrentAvailableReplicas())
		}
	}
	return &sum
}

// isObservable reports whether the entry of a cluster is current.
func isObservable(in rollout.Input, cluster string) bool {
	member := in.Members[cluster]
	return member != nil && member.IsReady()
}

// isUpToDate reports whether the latest revision is applied on the cluster of an entry.
func isUpToDate(entry v1alpha1.ClusterStatus, latest int64) bool {
	return entry.Revision == latest && entry.ObservedGeneration >= entry.Generation
}

// addSaturating adds without overflow.
func addSaturating(a, b int32) int32 {
	return int32(min(int64(a)+int64(b), math.MaxInt32))
}
