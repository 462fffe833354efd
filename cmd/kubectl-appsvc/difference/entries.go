package difference

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/placement"
	"github.com/fleetwright/fleetwright/controllers/revision"
)

// BetweenEntries is [Between] for a caller who may not read MemberClusters. It compares the clusters
// that have an entry, and knows only their names: what depends on labels, taints or the capacity of
// clusters counts as unchanged.
func BetweenEntries(before, after *v1alpha1.AppService, history []revision.Stored, contents Contents, standard Standard) ([]Cluster, error) {
	planned := withStatusOf(before, after)
	members := membersOf(planned)
	named := planned.DeepCopy()
	if p := planned.Spec.Placement; p != nil {
		named.Spec.Placement = &v1alpha1.Placement{ClusterMatch: v1alpha1.ClusterMatch{ClusterNames: p.ClusterNames}}
	}
	plan, err := placement.Decide(named, members)
	if err != nil {
		return nil, err
	}
	if planned.DividesReplicas() {
		keepShares(plan, planned)
	}
	return compare(before, planned, members, plan, history, contents, standard), nil
}

// membersOf returns a MemberCluster, with its name only, for each cluster that has the AppService and
// is to keep it.
func membersOf(app *v1alpha1.AppService) []v1alpha1.MemberCluster {
	var members []v1alpha1.MemberCluster
	for i := range app.Status.Clusters {
		if entry := &app.Status.Clusters[i]; entry.Phase != v1alpha1.ClusterRemoving && entry.Phase != v1alpha1.ClusterDetached {
			members = append(members, v1alpha1.MemberCluster{ObjectMeta: metav1.ObjectMeta{Name: entry.Name}})
		}
	}
	return members
}

// keepShares gives each cluster the share of the replicas that the operator has planned for it.
func keepShares(plan placement.Plan, app *v1alpha1.AppService) {
	for i := range plan {
		if entry := app.Status.Cluster(plan[i].Cluster); entry != nil && plan[i].Chosen() {
			plan[i].Replicas, plan[i].MinReplicas, plan[i].MaxReplicas = entry.Replicas, entry.MinReplicas, entry.MaxReplicas
		}
	}
}
