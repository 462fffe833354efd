package rollout

import (
	"slices"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/lineage"
)

// Decision is the result of Plan for one AppService.
type Decision struct {
	// Entries are the next entries of status.clusters, sorted by name. The total size of their
	// messages is not bounded yet.
	Entries []v1alpha1.ClusterStatus
	// Removals is the next value of the removal counters.
	Removals v1alpha1.RemovalsStatus
	// PlannedSpecs is the next history of planned specs.
	PlannedSpecs []v1alpha1.PlannedSpec
	// PlacementHash is the hash of the spec.placement that chose the clusters.
	PlacementHash string
	// ReplicasHash is the hash of the fields that set the replicas of each cluster.
	ReplicasHash string
	// PlacementCount is the highest number of a placement.
	PlacementCount int64
	// AcceptedStamps are the stamps that are accepted by a digest.
	AcceptedStamps []string
	// Rollout is the next status of the rollout.
	Rollout v1alpha1.RolloutStatus
	// Transitions are the steps of the rollout to report after the status was written.
	Transitions []Transition
	// RequestErrors are the values of annotations that have no effect on the rollout.
	RequestErrors []RequestError
	// IsPauseRequested is set if the annotation pause names the revision of the spec.
	IsPauseRequested bool
	// StageError is set if a stage has an invalid selector. Every cluster keeps its revision then.
	StageError *StageError
	// WaitingStage is the stage whose clusters cannot prove the target at present, because too many
	// cannot be reached or are broken. It is "" if there is none.
	WaitingStage string
	// LostClusters are the clusters of WaitingStage that became unreachable after they got the target,
	// and did not return, sorted.
	LostClusters []string
	// IdleClusters are the clusters of WaitingStage that have the target and have run no pods with it,
	// sorted. If all stages are over, they are those of all stages.
	IdleClusters []string
	// StoppedOn are the clusters of WaitingStage on which the target failed after the rollout was
	// completed, sorted.
	StoppedOn []string
	// StaleObservations are the clusters whose observations must be dropped when the status is
	// written: they name the revision that the cluster gets now, and are from before it.
	StaleObservations []string
	// Notes explain to users which scale-downs and removals are pending, for all clusters together.
	Notes []string
	// AwaitsAnswers is set if a cluster that can be reached has not answered its next entry yet.
	AwaitsAnswers bool
	// RecheckAfter is the time after which the decision may differ although no input changes, or 0
	// if time alone changes nothing.
	RecheckAfter time.Duration
}

// Plan computes the next entries of an AppService. It does not change its input.
func Plan(in Input) Decision {
	// 1. Restore lost entries, and read the accepted stamps.
	in = in.Recover().withAcceptedStamps()
	// 2. Plan the entry of each cluster independently of all other clusters.
	plans := in.planEntries()
	// 3. Decide which revision each cluster is to run.
	revisions := in.planRevisions(plans)
	revisions.recordPodSecurity()
	revisions.explainRefused()
	// 4. Scale down as far as the ready replicas on other clusters allow.
	limit := &brake{in: in, counted: in.removals()}
	notes := in.scaleDown(plans, limit)
	// 5. Start removals as far as the policies allow.
	removals, removalNotes := in.remove(plans, limit)
	// 6. Decide where a workload that is missing is created again.
	reportDeadlines := in.answerMissing(plans)
	// 7. Explain on entries what they wait for: while the hub is behind a cluster, on all entries.
	in.explainPending(plans)
	in.holdBehind(plans)
	// 8. Set the transition time on entries whose phase changed.
	entries := in.finish(plans)
	deadlines := append(in.deadlines(entries, removals), revisions.finish(entries)...)
	deadlines = append(deadlines, append(reportDeadlines, in.recoveryDeadlines()...)...)
	decision := Decision{
		Rollout:          revisions.status,
		Transitions:      transitions(in.App.Status.Rollout, revisions.status),
		RequestErrors:    revisions.requests.Errors,
		IsPauseRequested: revisions.requests.IsPaused,
		StageError:       revisions.stageError,

		StaleObservations: staleObservations(plans),
		Entries:           entries,
		Removals:          removals,
		PlannedSpecs:      lineage.Planned(in.App),
		PlacementHash:     in.placementHash(),
		ReplicasHash:      in.replicasHash(),
		PlacementCount:    HighestPlacementOf(in.App.Status.Placement.Count, entries),
		AcceptedStamps:    in.App.Status.AcceptedStamps,
		Notes:             append(notes, removalNotes...),
		AwaitsAnswers:     slices.ContainsFunc(plans, awaitsAnswer),
		RecheckAfter:      in.recheckAfter(deadlines),
	}
	revisions.setWaiting(&decision)
	return decision
}

// withAcceptedStamps returns the input with the stamps that the annotation accepts by a digest.
func (in Input) withAcceptedStamps() Input {
	stamps := lineage.AcceptedStamps(in.App)
	if slices.Equal(stamps, in.App.Status.AcceptedStamps) {
		return in
	}
	in.App = in.App.DeepCopy()
	in.App.Status.AcceptedStamps = stamps
	return in
}

// placementHash returns the hash of the placement that the next status is planned with. A status
// that an older version wrote gets its hash with the next edit, so that an upgrade writes nothing.
func (in Input) placementHash() string {
	if in.PlanError != nil || in.App.Status.ObservedGeneration == in.App.Generation {
		return in.App.Status.Placement.SpecHash
	}
	return lineage.PlacementHash(in.App)
}

// replicasHash returns the hash of the fields that set replicas in the same way.
func (in Input) replicasHash() string {
	if in.PlanError != nil || in.App.Status.ObservedGeneration == in.App.Generation {
		return in.App.Status.Placement.ReplicasHash
	}
	return lineage.ReplicasHash(in.App)
}

// planEntries returns an entry plan for each cluster that is chosen or has an entry, except for
// entries that end.
func (in Input) planEntries() []entryPlan {
	names := in.clusterNames()
	mostLeaving, highestPlacement := sync.OnceValue(in.mostReplicasLeaving), sync.OnceValue(in.highestPlacement)
	plans := make([]entryPlan, 0, len(names))
	for _, name := range names {
		if e := in.planEntry(name, mostLeaving, highestPlacement); e != nil {
			plans = append(plans, *e)
		}
	}
	return plans
}

// awaitsAnswer reports whether the cluster can be reached, and no observation answers its entry.
func awaitsAnswer(e entryPlan) bool {
	return e.member != nil && e.member.IsReady() && IsPlanned(e.entry) && (e.seen == nil || !answers(*e.seen, e.entry))
}

// finish returns the entries of all plans with their transition times.
func (in Input) finish(plans []entryPlan) []v1alpha1.ClusterStatus {
	if len(plans) == 0 {
		return nil
	}
	entries := make([]v1alpha1.ClusterStatus, len(plans))
	for i := range plans {
		e := &plans[i]
		entries[i] = e.entry
		entries[i].LastTransitionTime = in.transitionTime(e)
	}
	return entries
}

// clusterNames returns the names of the clusters that have an entry or are chosen, sorted.
func (in Input) clusterNames() []string {
	names := make([]string, 0, len(in.App.Status.Clusters)+len(in.Plan))
	for i := range in.App.Status.Clusters {
		names = append(names, in.App.Status.Clusters[i].Name)
	}
	for _, decision := range in.Plan {
		if decision.Chosen() && !in.IsDeleting() && !in.IsSuspended() && in.Members[decision.Cluster] != nil {
			names = append(names, decision.Cluster)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// transitionTime returns the LastTransitionTime of an entry. Times have whole
// seconds, but two transitions of an entry never have the same time, because delivery confirms a
// removal by the time of the entry that requested it: with equal times, the confirmation of an earlier
// removal would confirm a later one too.
//
// An entry that gets another revision begins its phase again. If it is Unknown, it keeps its time,
// which is the age of the observed state.
//
// If the clock was set back since the transition, the phase begins now. Otherwise the time would
// begin to count in the middle of the phase, when the clock reaches it. A removal keeps its time, by
// which delivery knows it.
func (in Input) transitionTime(e *entryPlan) metav1.Time {
	phase, previous := e.entry.Phase, e.previous
	switch {
	case previous == nil:
		return in.Now
	case previous.Phase == phase && phase == v1alpha1.ClusterRemoving:
		return previous.LastTransitionTime
	case isFromOtherClock(previous.LastTransitionTime, in.Now):
		return in.Now
	case previous.Phase == phase && (!e.isReassigned || phase == v1alpha1.ClusterUnknown):
		return previous.LastTransitionTime
	case previous.LastTransitionTime.Before(&in.Now):
		return in.Now
	}
	next := metav1.NewTime(previous.LastTransitionTime.Add(time.Second))
	if isFromOtherClock(next, in.Now) { // the next decision would change it
		return in.Now
	}
	return next
}

// isFromOtherClock reports whether a time is so far in the future that the clock was set back since
// then.
func isFromOtherClock(t, now metav1.Time) bool { return t.Sub(now.Time) > time.Minute }
