package rollout

import (
	"cmp"
	"slices"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/rollout/entryplan"
)

// IsAbandoned reports whether the annotation abandons a cluster. The annotation has no effect while
// the AppService is suspended or the hub is behind, because an abandoned workload is removed later.
func (in Input) IsAbandoned(cluster string) bool {
	if in.abandoned != nil {
		return in.abandoned[cluster]
	}
	return entryplan.Abandoned(in.App)[cluster]
}

// TombstoneOf returns the tombstone of the AppService for a cluster. Unless the AppService is being
// deleted, it ends one placement.
func (in Input) TombstoneOf(cluster string) v1alpha1.AbandonedAppService {
	tombstone := v1alpha1.AbandonedAppService{Namespace: in.App.Namespace, Name: in.App.Name, UID: in.App.UID}
	if entry := in.App.Status.Cluster(cluster); entry != nil && !in.App.IsDeleting() {
		tombstone.Placement = &entry.Placement
	}
	return tombstone
}

// TombstonesToAdd returns the clusters whose MemberClusters need a tombstone before their entries
// are dropped.
func (in Input) TombstonesToAdd() []string {
	return tombstonesFor(in, in.App.Status.Clusters)
}

func tombstonesFor(in Input, clusters []v1alpha1.ClusterStatus) []string {
	var names []string
	entries := in.entries()
	for i := range clusters {
		entry := &clusters[i]
		switch member := in.Members[entry.Name]; {
		case member == nil:
			if entries.IsDetachmentOver(entry) && entries.NeedsTombstone(entry) && !in.App.Status.IsHubBehind() {
				names = append(names, entry.Name)
			}
		case !entries.IsRemoving(*entry), !in.IsAbandoned(entry.Name), in.App.OrphansWorkloads(), member.IsAbandoned(in.App.UID):
		default:
			if seen := in.ObservationOf(entry.Name); seen == nil || !member.IsReady() || !entryplan.ConfirmsRemoval(*seen, entry) {
				names = append(names, entry.Name)
			}
		}
	}
	return names
}

// TombstonesOfLostStatus returns the unreachable clusters, if the AppService is being deleted and
// its status was lost. It is unknown whether these clusters run the AppService, so it is removed
// from them when they return. Reachable clusters are asked instead: see Recover.
func (in Input) TombstonesOfLostStatus() []string {
	var names []string
	if !in.IsStatusLost() || in.App.OrphansWorkloads() {
		return nil
	}
	for _, members := range []map[string]*v1alpha1.MemberCluster{in.Members, in.Secretless} {
		for name, member := range members {
			if (in.Members[name] == nil || !member.IsReady()) && in.App.Status.Cluster(name) == nil && !member.IsAbandoned(in.App.UID) {
				names = append(names, name)
			}
		}
	}
	slices.Sort(names)
	return names
}

// TombstonesOfTermination returns the clusters whose removal was already in progress when the
// namespace or the CRD of the AppService began to terminate. A user requested these removals, and
// no controller completes them after the AppService is gone. While the hub is behind, the user's
// intent is unknown, so it returns none.
func (in Input) TombstonesOfTermination() []string {
	var names []string
	if isNeverPlanned(in.App) || in.App.Status.IsHubBehind() || in.App.OrphansWorkloads() {
		return nil // the entries of a lost status are not written yet
	}
	for i := range in.App.Status.Clusters {
		entry := &in.App.Status.Clusters[i]
		member, seen := cmp.Or(in.Members[entry.Name], in.Secretless[entry.Name]), in.ObservationOf(entry.Name)
		removing := entry.Phase == v1alpha1.ClusterRemoving || entry.Phase == v1alpha1.ClusterDetached && entry.Transition.Type == v1alpha1.TransitionRemoving
		if !removing || member == nil || member.IsAbandoned(in.App.UID) {
			continue
		}
		if seen == nil || !entryplan.ConfirmsRemoval(*seen, entry) {
			names = append(names, entry.Name)
		}
	}
	return names
}

// TombstonesToRemove returns the clusters that have a tombstone and an entry that is to run the
// AppService again.
func (in Input) TombstonesToRemove(entries []v1alpha1.ClusterStatus) []string {
	var names []string
	for _, entry := range entries {
		if member := in.Members[entry.Name]; member != nil && entryplan.IsPlanned(entry) && member.IsAbandoned(in.App.UID) {
			names = append(names, entry.Name)
		}
	}
	return names
}
