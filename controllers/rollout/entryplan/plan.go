package entryplan

import (
	"sort"
	"sync"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/observation"
	"github.com/fleetwright/fleetwright/controllers/placement"
)

// Plan is the next entry of one cluster, before scale-downs and removals are decided, with the
// facts for these decisions.
type Plan struct {
	// Entry is the next entry, and Previous the present one, or nil for a new entry.
	Entry    v1alpha1.ClusterStatus
	Previous *v1alpha1.ClusterStatus
	// Seen is the observation of the cluster, or nil.
	Seen *observation.Observation
	// Member is nil if the cluster is not a member.
	Member *v1alpha1.MemberCluster
	// IsLeaving is set if the cluster is no longer in the plan, and its removal has not started.
	IsLeaving bool
	// LowerTarget is the final decision for the cluster if it is lower than the entry, otherwise nil.
	LowerTarget *placement.Decision
	// IsReassigned is set if the cluster gets another revision, so its phase begins now.
	IsReassigned bool
	// IsStale is set if its observation is of an earlier time when the cluster had this revision.
	IsStale bool
	// IsReadyRefused is set if the cluster is Ready with what it keeps, and the entry is Failed
	// because pod security refuses another revision there.
	IsReadyRefused bool

	in *Input
}

// Find returns the plan of a cluster's entry, which must exist. The plans are sorted by name.
func Find(plans []Plan, name string) *Plan {
	i := sort.Search(len(plans), func(i int) bool { return plans[i].Entry.Name >= name })
	return &plans[i]
}

// IsPlanned reports whether the AppService is to run on the cluster of an entry.
func IsPlanned(entry v1alpha1.ClusterStatus) bool {
	return entry.Phase != v1alpha1.ClusterRemoving && entry.Phase != v1alpha1.ClusterDetached
}

// AwaitsRemoval reports whether the cluster left the plan and its removal has not started.
func AwaitsRemoval(entry v1alpha1.ClusterStatus) bool {
	return entry.Transition.Type == v1alpha1.TransitionRemovalPending || entry.Transition.Type == v1alpha1.TransitionRemovalNeedsApproval
}

// PlanAll returns the plans of clusters that are chosen or have an entry, except for entries that end.
func (in *Input) PlanAll(names []string) []Plan {
	mostLeaving, highestPlacement := sync.OnceValue(in.mostReplicasLeaving), sync.OnceValue(in.highestPlacement)
	plans := make([]Plan, 0, len(names))
	for _, name := range names {
		if e := in.planEntry(name, mostLeaving, highestPlacement); e != nil {
			plans = append(plans, *e)
		}
	}
	return plans
}
