package rollup

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
)

// abandons tells whether the AppService's annotation says to let go of a cluster. While it is suspended it waits: what is let go of is
// removed. It waits, too, while the hub is behind.
func (in Input) abandons(cluster string) bool {
	if in.suspended() {
		return false
	}
	for name := range strings.SplitSeq(in.App.Annotations[v1alpha1.AnnotationAbandon], ",") {
		if strings.TrimSpace(name) == cluster {
			return !in.App.Status.IsHubBehind()
		}
	}
	return false
}

// letsGo tells whether a row that is Removing is let go of: somebody said so, and what may be left there is on record, or is
// meant to be left.
func (in Input) letsGo(previous *v1alpha1.ClusterStatus, member *v1alpha1.MemberCluster) bool {
	return previous.Phase == v1alpha1.ClusterRemoving && in.abandons(previous.Name) && (in.orphans() || remembers(member, in.App.UID))
}

func (in Input) orphans() bool { return in.App.Spec.DeletionPolicy == v1alpha1.DeletionOrphan }

// remembers tells whether a member has on record that it was let go of.
func remembers(member *v1alpha1.MemberCluster, app types.UID) bool {
	return slices.ContainsFunc(member.Status.Abandoned, func(a v1alpha1.AbandonedAppService) bool { return a.UID == app })
}

// ToRemember returns the clusters whose entries go once their MemberClusters have a tombstone.
func (in Input) ToRemember() []string {
	var names []string
	for i := range in.App.Status.Clusters {
		row := &in.App.Status.Clusters[i]
		switch member := in.Members[row.Name]; {
		case member == nil:
			if in.maySkip(row) && in.needsTombstone(row) && !in.App.Status.IsHubBehind() {
				names = append(names, row.Name)
			}
		case !in.removes(*row), !in.abandons(row.Name), in.orphans(), remembers(member, in.App.UID):
		default:
			if seen := in.observation(row.Name); seen == nil || !member.IsReady() || !answers(*seen, row) {
				names = append(names, row.Name)
			}
		}
	}
	return names
}

// maySkip reports whether a cluster that left the fleet is waited for no more.
func (in Input) maySkip(row *v1alpha1.ClusterStatus) bool {
	return row.Phase == v1alpha1.ClusterDetached &&
		(in.abandons(row.Name) || in.deleting() && in.Now.Sub(row.LastTransitionTime.Time) >= detachedGrace)
}

// needsTombstone reports whether a cluster that left the fleet may come back with a workload that was to be removed, and its MemberCluster does not
// say so yet. While the hub is behind, nothing is removed, so nothing may say so.
func (in Input) needsTombstone(row *v1alpha1.ClusterStatus) bool {
	member := in.Secretless[row.Name]
	return member != nil && !in.orphans() && !remembers(member, in.App.UID) &&
		(in.deleting() || row.Transition.Type == v1alpha1.TransitionRemoving)
}

// memberCluster returns the MemberCluster of that name, with a Secret or without, or nil.
func (in Input) memberCluster(name string) *v1alpha1.MemberCluster {
	if member := in.Members[name]; member != nil {
		return member
	}
	return in.Secretless[name]
}

// ToRememberLost returns the clusters that cannot be reached, for an AppService that is deleted and whose status was lost: whether they run it
// is not known, so it is removed from them when they are back. Those that can be reached are asked: see Recover.
func (in Input) ToRememberLost() []string {
	var names []string
	if !in.StatusLost() || in.orphans() {
		return nil
	}
	for _, members := range []map[string]*v1alpha1.MemberCluster{in.Members, in.Secretless} {
		for name, member := range members {
			if (in.Members[name] == nil || !member.IsReady()) && !remembers(member, in.App.UID) {
				names = append(names, name)
			}
		}
	}
	slices.Sort(names)
	return names
}

// ToRememberSwept returns the clusters that it was being removed from when its namespace or its CRD began to go as well: somebody has meant
// that removal, and nobody follows it up when the AppService is gone. While the hub is behind, nobody knows what was meant.
func (in Input) ToRememberSwept() []string {
	var names []string
	if in.StatusLost() || in.App.Status.IsHubBehind() || in.orphans() {
		return nil // without a status, its entries are not written yet
	}
	for i := range in.App.Status.Clusters {
		row := &in.App.Status.Clusters[i]
		member, seen := in.memberCluster(row.Name), in.observation(row.Name)
		removing := row.Phase == v1alpha1.ClusterRemoving || row.Phase == v1alpha1.ClusterDetached && row.Transition.Type == v1alpha1.TransitionRemoving
		if !removing || member == nil || remembers(member, in.App.UID) {
			continue
		}
		if seen == nil || !answers(*seen, row) {
			names = append(names, row.Name)
		}
	}
	return names
}

// ToForget are the clusters whose MemberClusters have on record that they were let go of, and that have a row to run it again.
func (in Input) ToForget(rows []v1alpha1.ClusterStatus) []string {
	var names []string
	for _, row := range rows {
		if member := in.Members[row.Name]; member != nil && planned(row) && remembers(member, in.App.UID) {
			names = append(names, row.Name)
		}
	}
	return names
}
