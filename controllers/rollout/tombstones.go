package rollout

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
)

// IsAbandoned reports whether the annotation abandons a cluster. It has no effect while the AppService is suspended or the hub is behind,
// because what is abandoned is removed later.
func (in Input) IsAbandoned(cluster string) bool {
	if in.IsSuspended() {
		return false
	}
	for name := range strings.SplitSeq(in.App.Annotations[v1alpha1.AnnotationAbandon], ",") {
		if strings.TrimSpace(name) == cluster {
			return !in.App.Status.IsHubBehind()
		}
	}
	return false
}

// isRemovalAbandoned reports whether a Removing entry ends because its cluster is abandoned and has a tombstone, or keeps its workload.
func (in Input) isRemovalAbandoned(previous *v1alpha1.ClusterStatus, member *v1alpha1.MemberCluster) bool {
	return previous.Phase == v1alpha1.ClusterRemoving && in.IsAbandoned(previous.Name) && (in.IsOrphaning() || HasTombstone(member, in.App.UID))
}

// HasTombstone reports whether a MemberCluster has a tombstone of an AppService.
func HasTombstone(member *v1alpha1.MemberCluster, app types.UID) bool {
	return slices.ContainsFunc(member.Status.Abandoned, func(a v1alpha1.AbandonedAppService) bool { return a.UID == app })
}

// TombstonesToAdd returns the clusters whose entries go once their MemberClusters have a tombstone.
func (in Input) TombstonesToAdd() []string {
	var names []string
	for i := range in.App.Status.Clusters {
		entry := &in.App.Status.Clusters[i]
		switch member := in.Members[entry.Name]; {
		case member == nil:
			if in.isDetachmentOver(entry) && in.needsTombstone(entry) && !in.App.Status.IsHubBehind() {
				names = append(names, entry.Name)
			}
		case !in.isRemoving(*entry), !in.IsAbandoned(entry.Name), in.IsOrphaning(), HasTombstone(member, in.App.UID):
		default:
			if seen := in.ObservationOf(entry.Name); seen == nil || !member.IsReady() || !ConfirmsRemoval(*seen, entry) {
				names = append(names, entry.Name)
			}
		}
	}
	return names
}

// isDetachmentOver reports whether a cluster that left the fleet is waited for no more.
func (in Input) isDetachmentOver(entry *v1alpha1.ClusterStatus) bool {
	return entry.Phase == v1alpha1.ClusterDetached &&
		(in.IsAbandoned(entry.Name) || in.IsDeleting() && in.Now.Sub(entry.LastTransitionTime.Time) >= detachedGrace)
}

// needsTombstone reports whether a cluster that left the fleet may come back with a workload that was to be removed, and its MemberCluster does not
// say so yet. While the hub is behind, nothing is removed, so nothing may say so.
func (in Input) needsTombstone(entry *v1alpha1.ClusterStatus) bool {
	member := in.Secretless[entry.Name]
	return member != nil && !in.IsOrphaning() && !HasTombstone(member, in.App.UID) &&
		(in.IsDeleting() || entry.Transition.Type == v1alpha1.TransitionRemoving)
}

// TombstonesOfLostStatus returns the clusters that cannot be reached, for an AppService that is deleted and whose status was lost: whether they run it
// is not known, so it is removed from them when they are back. Those that can be reached are asked: see Recover.
func (in Input) TombstonesOfLostStatus() []string {
	var names []string
	if !in.IsStatusLost() || in.IsOrphaning() {
		return nil
	}
	for _, members := range []map[string]*v1alpha1.MemberCluster{in.Members, in.Secretless} {
		for name, member := range members {
			if (in.Members[name] == nil || !member.IsReady()) && !HasTombstone(member, in.App.UID) {
				names = append(names, name)
			}
		}
	}
	slices.Sort(names)
	return names
}

// TombstonesOfTermination returns the clusters that it was being removed from when its namespace or its CRD began to go as well: somebody has meant
// that removal, and nobody follows it up when the AppService is gone. While the hub is behind, nobody knows what was meant.
func (in Input) TombstonesOfTermination() []string {
	var names []string
	if in.IsStatusLost() || in.App.Status.IsHubBehind() || in.IsOrphaning() {
		return nil // without a status, its entries are not written yet
	}
	for i := range in.App.Status.Clusters {
		entry := &in.App.Status.Clusters[i]
		member, seen := in.MemberCluster(entry.Name), in.ObservationOf(entry.Name)
		removing := entry.Phase == v1alpha1.ClusterRemoving || entry.Phase == v1alpha1.ClusterDetached && entry.Transition.Type == v1alpha1.TransitionRemoving
		if !removing || member == nil || HasTombstone(member, in.App.UID) {
			continue
		}
		if seen == nil || !ConfirmsRemoval(*seen, entry) {
			names = append(names, entry.Name)
		}
	}
	return names
}

// TombstonesToRemove returns the clusters that have a tombstone and an entry to run the AppService again.
func (in Input) TombstonesToRemove(entries []v1alpha1.ClusterStatus) []string {
	var names []string
	for _, entry := range entries {
		if member := in.Members[entry.Name]; member != nil && IsPlanned(entry) && HasTombstone(member, in.App.UID) {
			names = append(names, entry.Name)
		}
	}
	return names
}
