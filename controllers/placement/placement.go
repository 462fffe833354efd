package placement

import (
	"cmp"
	"slices"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
)

// Decision is what was decided for one cluster.
type Decision struct {
	// Cluster is the name of a MemberCluster, or one that clusterNames lists and no MemberCluster has.
	Cluster string
	// Reason is why the cluster is not chosen; empty when it is.
	Reason string
	// Requirement is what the cluster does not meet, such as region=eu, where the reason is about one.
	Requirement string
	// Replicas is how many pods the cluster is to run, when it is chosen; to begin with, where it is autoscaled.
	Replicas int32
	// MinReplicas and MaxReplicas are the bounds of the cluster's autoscaler; 0 where spec.autoscaling gives it none.
	MinReplicas, MaxReplicas int32
	// Weight is the CPU of the cluster, in thousandths, that its share was computed from; 0 unless spec.replicaPolicy.weights is Allocatable.
	Weight int64
}

// Chosen reports whether the cluster is in the plan.
func (d Decision) Chosen() bool { return d.Reason == "" }

// Plan has a decision for each cluster, sorted by name.
type Plan []Decision

// Decide returns the plan for an AppService over all members. It fails only when one of its selectors cannot be understood; nothing
// may be concluded for any cluster then.
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
		plan = append(plan, Decision{Cluster: c.member.Name, Reason: v1alpha1.ReasonLimitReached})
	}
	plan = append(plan, replicas.decide(app, chosen)...)
	plan = append(plan, fits.missing(members)...)
	slices.SortFunc(plan, func(a, b Decision) int { return cmp.Compare(a.Cluster, b.Cluster) })
	return plan, nil
}

// candidate is a member, and what it has of the AppService.
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
	ranks := ranksOf(app)
	candidates := make([]candidate, len(members))
	for i := range members {
		member, entry := &members[i], entries[members[i].Name]
		candidates[i] = candidate{member: member, entry: entry, standing: standingOf(entry), rank: ranks.of(member.Name)}
	}
	return candidates
}

// runs reports whether the cluster runs the AppService, as part of its plan or until it is removed.
func (c candidate) runs() bool { return c.standing <= removalPending }

// Find returns the decision for the named cluster, or one that is not chosen.
func (p Plan) Find(cluster string) Decision {
	i, found := slices.BinarySearchFunc(p, cluster, func(d Decision, name string) int { return cmp.Compare(d.Cluster, name) })
	if !found {
		return Decision{Cluster: cluster, Reason: v1alpha1.ReasonNoSuchCluster}
	}
	return p[i]
}
