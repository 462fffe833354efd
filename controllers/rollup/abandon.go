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

// ToRemember are the clusters that are let go of once their MemberClusters have it on record.
func (in Input) ToRemember() []string {
	var names []string
	for i := range in.App.Status.Clusters {
		row := &in.App.Status.Clusters[i]
		member, seen := in.Members[row.Name], in.observation(row.Name)
		if member == nil || !in.removes(*row) || !in.abandons(row.Name) || in.orphans() || remembers(member, in.App.UID) {
			continue
		}
		if seen == nil || !member.IsReady() || !answers(*seen, row) {
			names = append(names, row.Name)
		}
	}
	return names
}

// ToRememberLost are the clusters that cannot be reached, of an AppService that is deleted and whose status was lost: whether they run it
// is not known, so it is removed from them when they are back. Those that can be reached are asked: see Recover.
func (in Input) ToRememberLost() []string {
	var names []string
	if !in.StatusLost() || in.orphans() {
		return nil
	}
	for name, member := range in.Members {
		if !member.IsReady() && !remembers(member, in.App.UID) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// ToRememberSwept are the clusters that it was being removed from when its namespace or its CRD began to go as well: somebody has meant
// that removal, and nobody follows it up when the AppService is gone.
func (in Input) ToRememberSwept() []string {
	var names []string
	if in.StatusLost() { // its entries are not written yet
		return nil
	}
	for i := range in.App.Status.Clusters {
		row := &in.App.Status.Clusters[i]
		member, seen := in.Members[row.Name], in.observation(row.Name)
		if row.Phase != v1alpha1.ClusterRemoving || member == nil || in.orphans() || remembers(member, in.App.UID) {
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
