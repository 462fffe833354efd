package placement

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
)

// Decision is the decision for one cluster.
type Decision struct {
	// Cluster is the name of a MemberCluster, or a name in clusterNames that no MemberCluster has.
	Cluster string
	// Reason is the reason why the cluster is not chosen; empty if it is chosen.
	Reason string
	// Requirement is the requirement that the cluster does not meet, if the reason refers to one:
	// labels such as region=eu, a taint such as gpu:NoSchedule, or limit=3.
	Requirement string
	// Replicas is the number of pods that a chosen cluster runs; the initial number if the cluster
	// is autoscaled.
	Replicas int32
	// MinReplicas and MaxReplicas are the bounds of the autoscaler of the cluster; 0 if
	// spec.autoscaling gives the cluster no autoscaler.
	MinReplicas, MaxReplicas int32
	// Weight is the CPU of the cluster in thousandths, from which its share was computed; 0 unless
	// spec.replicaPolicy.weights is Allocatable.
	Weight int64
}

// Chosen reports whether the cluster is in the plan.
func (d Decision) Chosen() bool { return d.Reason == "" }

// Plan contains one decision for each cluster, sorted by the name of the cluster.
type Plan []Decision

// Decide returns the plan of an AppService over all members. It fails only if a selector of the
// AppService is invalid. Callers must then draw no conclusion for any cluster.
func Decide(app *v1alpha1.AppService, members []v1alpha1.MemberCluster) (Plan, error) {
	fits, err := compile(app.Spec.Placement)
	if err != nil {
		return nil, err
	}
	replicas, err := compileReplicaPolicy(&app.Spec)
	if err != nil {
		return nil, err
	}
	plan := make(Plan, 0, len(members))
	candidates := make([]candidate, 0, len(members))
	for _, c := range candidatesFor(app, members) {
		if reason, requirement := fits.reason(c); reason != "" {
			plan = append(plan, Decision{Cluster: c.member.Name, Reason: reason, Requirement: requirement})
		} else {
			candidates = append(candidates, c)
		}
	}
	chosen, beyond := limit(app.Spec.Placement, candidates)
	for _, c := range beyond {
		plan = append(plan, Decision{Cluster: c.member.Name, Reason: v1alpha1.ReasonLimitReached, Requirement: fmt.Sprintf("limit=%d", *app.Spec.Placement.Limit)})
	}
	plan = append(plan, replicas.decide(app, chosen)...)
	plan = append(plan, fits.missing(members)...)
	slices.SortFunc(plan, func(a, b Decision) int { return cmp.Compare(a.Cluster, b.Cluster) })
	return plan, nil
}

// candidate is a member and its entry of the AppService.
type candidate struct {
	member   *v1alpha1.MemberCluster
	entry    *v1alpha1.ClusterStatus // nil for a newcomer
	standing standing
	rank     uint64
}

func candidatesFor(app *v1alpha1.AppService, members []v1alpha1.MemberCluster) []candidate {
	entries := make(map[string]*v1alpha1.ClusterStatus, len(app.Status.Clusters))
	for i := range app.Status.Clusters {
		entries[app.Status.Clusters[i].Name] = &app.Status.Clusters[i]
	}
	ranks := RanksOf(app)
	candidates := make([]candidate, len(members))
	for i := range members {
		member, entry := &members[i], entries[members[i].Name]
		candidates[i] = candidate{member: member, entry: entry, standing: standingOf(entry), rank: ranks.Of(member.Name)}
	}
	return candidates
}

// runs reports whether the cluster runs the AppService, either in its plan or until the removal
// starts.
func (c candidate) runs() bool { return c.standing <= removalPending }

// Find returns the decision for the named cluster. Without one, it returns a decision that does not
// choose the cluster.
func (p Plan) Find(cluster string) Decision {
	i, found := slices.BinarySearchFunc(p, cluster, func(d Decision, name string) int { return cmp.Compare(d.Cluster, name) })
	if !found {
		return Decision{Cluster: cluster, Reason: v1alpha1.ReasonNoSuchCluster}
	}
	return p[i]
}
