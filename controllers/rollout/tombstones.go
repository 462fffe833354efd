package rollout

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
)

// IsAbandoned reports whether the annotation abandons a cluster. The annotation has no effect while
// the AppService is suspended or the hub is behind, because an abandoned workload is removed later.
func (in Input) IsAbandoned(cluster string) bool {
	if in.abandoned != nil {
		return in.abandoned[cluster]
	}
	return in.abandonedClusters()[cluster]
}

// AbandonCommand returns the command that abandons clusters. It returns "" while the annotation has
// no effect. The command replaces an earlier value, because the removals from the clusters in that
// value do not wait any more.
func (in Input) AbandonCommand(clusters []string) string {
	if in.IsSuspended() || in.App.Status.IsHubBehind() {
		return ""
	}
	overwrite := ""
	if _, isSet := in.App.Annotations[v1alpha1.AnnotationAbandon]; isSet {
		overwrite = " --overwrite"
	}
	return fmt.Sprintf("kubectl annotate appservice %s -n %s%s %s=%s", in.App.Name, in.App.Namespace, overwrite, v1alpha1.AnnotationAbandon, strings.Join(clusters, ","))
}

// abandonedClusters returns the clusters that the annotation abandons. It is never nil.
func (in Input) abandonedClusters() map[string]bool {
	abandoned := map[string]bool{}
	names := in.App.Annotations[v1alpha1.AnnotationAbandon]
	if names == "" || in.IsSuspended() || in.App.Status.IsHubBehind() {
		return abandoned
	}
	for name := range strings.SplitSeq(names, ",") {
		abandoned[strings.TrimSpace(name)] = true
	}
	return abandoned
}

// isRemovalAbandoned reports whether a Removing entry ends because its cluster is abandoned, and
// either has a tombstone or keeps its workload.
func (in Input) isRemovalAbandoned(previous *v1alpha1.ClusterStatus, member *v1alpha1.MemberCluster) bool {
	return previous.Phase == v1alpha1.ClusterRemoving && in.IsAbandoned(previous.Name) && (in.IsOrphaning() || HasTombstone(member, in.App.UID))
}

// TombstoneOf returns the tombstone of the AppService for a cluster. Unless the AppService is being
// deleted, it ends one placement.
func (in Input) TombstoneOf(cluster string) v1alpha1.AbandonedAppService {
	tombstone := v1alpha1.AbandonedAppService{Namespace: in.App.Namespace, Name: in.App.Name, UID: in.App.UID}
	if entry := in.App.Status.Cluster(cluster); entry != nil && !in.IsDeleting() {
		tombstone.Placement = &entry.Placement
	}
	return tombstone
}

// HasTombstone reports whether a MemberCluster has a tombstone of an AppService.
func HasTombstone(member *v1alpha1.MemberCluster, app types.UID) bool {
	return slices.ContainsFunc(member.Status.Abandoned, func(a v1alpha1.AbandonedAppService) bool { return a.UID == app })
}

// TombstonesToAdd returns the clusters whose MemberClusters need a tombstone before their entries
// are dropped.
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

// isDetachmentOver reports whether the entry of a Detached cluster no longer waits for the cluster
// to return.
func (in Input) isDetachmentOver(entry *v1alpha1.ClusterStatus) bool {
	return entry.Phase == v1alpha1.ClusterDetached &&
		(in.IsAbandoned(entry.Name) || in.IsDeleting() && in.Now.Sub(entry.LastTransitionTime.Time) >= detachedGrace)
}

// needsTombstone reports whether a Detached cluster may return with a workload whose removal was
// decided, and its MemberCluster has no tombstone yet. While the hub is behind, nothing is removed,
// so TombstonesToAdd does not return such a cluster.
func (in Input) needsTombstone(entry *v1alpha1.ClusterStatus) bool {
	member := in.Secretless[entry.Name]
	return member != nil && !in.IsOrphaning() && !HasTombstone(member, in.App.UID) &&
		(in.IsDeleting() || entry.Transition.Type == v1alpha1.TransitionRemoving)
}

// TombstonesOfLostStatus returns the unreachable clusters, if the AppService is being deleted and
// its status was lost. It is unknown whether these clusters run the AppService, so it is removed
// from them when they return. Reachable clusters are asked instead: see Recover.
func (in Input) TombstonesOfLostStatus() []string {
	var names []string
	if !in.IsStatusLost() || in.IsOrphaning() {
		return nil
	}
	for _, members := range []map[string]*v1alpha1.MemberCluster{in.Members, in.Secretless} {
		for name, member := range members {
			if (in.Members[name] == nil || !member.IsReady()) && in.App.Status.Cluster(name) == nil && !HasTombstone(member, in.App.UID) {
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
	if in.isNeverPlanned() || in.App.Status.IsHubBehind() || in.IsOrphaning() {
		return nil // the entries of a lost status are not written yet
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

// TombstonesToRemove returns the clusters that have a tombstone and an entry that is to run the
// AppService again.
func (in Input) TombstonesToRemove(entries []v1alpha1.ClusterStatus) []string {
	var names []string
	for _, entry := range entries {
		if member := in.Members[entry.Name]; member != nil && IsPlanned(entry) && HasTombstone(member, in.App.UID) {
			names = append(names, entry.Name)
		}
	}
	return names
}
