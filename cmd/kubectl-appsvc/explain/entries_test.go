package explain_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/cmd/kubectl-appsvc/explain"
)

// TestEntries explains without MemberClusters: what the status has, and not what the spec asks for.
func TestEntries(t *testing.T) {
	app := &v1alpha1.AppService{}
	app.Spec.Placement = &v1alpha1.Placement{Limit: new(int32(2))}
	app.Status.Clusters = []v1alpha1.ClusterStatus{
		{Name: "east", Replicas: 3, Phase: v1alpha1.ClusterReady},
		{Name: "gone", Phase: v1alpha1.ClusterDetached},
		{Name: "left", Phase: v1alpha1.ClusterProgressing, Transition: v1alpha1.ClusterTransition{Type: v1alpha1.TransitionRemovalPending}},
		{Name: "oslo", Phase: v1alpha1.ClusterRemoving},
	}
	app.Status.Placement.Excluded = []v1alpha1.ExcludedClusters{
		{Reason: v1alpha1.ReasonClusterNotReady, Count: 1, Examples: []string{"berlin"}},
		{Reason: v1alpha1.ReasonLimitReached, Count: 1, Examples: []string{"dallas"}, Requirements: []string{"limit=2"}},
		{Reason: v1alpha1.ReasonSelectorMismatch, Count: 9, Examples: []string{"left", "rome"}, Requirements: []string{"region=eu", "gpu"}},
		{Reason: "Later", Count: 1, Examples: []string{"west"}},
	}
	var got []string
	for _, c := range explain.Entries(app) {
		if c.Chosen == (c.Reason != "") || (c.Entry == nil) != (app.Status.Cluster(c.Name) == nil) {
			t.Errorf("%+v", c)
		}
		got = append(got, c.Name+" "+c.Reason+": "+c.Because)
	}
	want := []string{
		"berlin ClusterNotReady: it is not Ready, and the AppService does not run there yet",
		"dallas LimitReached: spec.placement.limit is 2, and others are chosen",
		"east : the operator has placed it there",
		"gone ClusterDetached: its MemberCluster is deleted; what runs there is left running",
		"left SelectorMismatch: it does not meet spec.placement.clusterSelector: region=eu or gpu",
		"oslo Removing: the operator has taken it out of the plan",
		"rome SelectorMismatch: it does not meet spec.placement.clusterSelector: region=eu or gpu",
		"west Later: Later",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
