package placement_test

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"k8s.io/apimachinery/pkg/labels"
	"pgregory.net/rapid"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/placement"
)

func TestDecide_does_not_depend_on_the_order_of_the_members(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		app, fleet := anyApp().Draw(t, "app"), anyFleet().Draw(t, "fleet")
		shuffled := rapid.Permutation(fleet).Draw(t, "shuffled")
		if diff := cmp.Diff(decide(t, app, fleet), decide(t, app, shuffled)); diff != "" {
			t.Fatalf("plans differ (-sorted +shuffled):\n%s", diff)
		}
	})
}

func TestDecide_is_deterministic_and_does_not_change_its_input(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		app, fleet := anyApp().Draw(t, "app"), anyFleet().Draw(t, "fleet")
		appBefore, fleetBefore := app.DeepCopy(), deepCopy(fleet)
		first := decide(t, app, fleet)
		if diff := cmp.Diff(first, decide(t, app, fleet)); diff != "" {
			t.Fatalf("plans differ (-first +second):\n%s", diff)
		}
		if diff := cmp.Diff(appBefore, app) + cmp.Diff(fleetBefore, fleet); diff != "" {
			t.Fatalf("the input changed (-before +after):\n%s", diff)
		}
	})
}

func TestDecide_has_one_decision_for_each_member_and_name(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		app, fleet := anyApp().Draw(t, "app"), anyFleet().Draw(t, "fleet")
		want := clusterNames(app)
		for _, member := range fleet {
			want = append(want, member.Name)
		}
		slices.Sort(want)
		var got []string
		for _, decision := range decide(t, app, fleet) {
			got = append(got, decision.Cluster)
		}
		if diff := cmp.Diff(slices.Compact(want), got, cmpopts.EquateEmpty()); diff != "" {
			t.Fatalf("clusters (-want +got):\n%s", diff)
		}
	})
}

// Invariant 2: an AppService is never removed from a cluster because of the state of the cluster.
func TestDecide_never_excludes_a_matching_cluster_with_an_entry(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		app, fleet := anyApp().Draw(t, "app"), anyFleet().Draw(t, "fleet")
		plan := decide(t, app, fleet)
		for i := range fleet {
			member := &fleet[i]
			if app.Status.Cluster(member.Name) != nil && fits(app, member) && !plan.Find(member.Name).Chosen() {
				t.Fatalf("%s has an entry and matches, and is not chosen: %+v", member.Name, plan.Find(member.Name))
			}
		}
	})
}

func TestDecide_never_chooses_a_cluster_that_does_not_match(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		app, fleet := anyApp().Draw(t, "app"), anyFleet().Draw(t, "fleet")
		for _, decision := range decide(t, app, fleet) {
			i := slices.IndexFunc(fleet, func(m v1alpha1.MemberCluster) bool { return m.Name == decision.Cluster })
			if decision.Chosen() && (i < 0 || !fits(app, &fleet[i])) {
				t.Fatalf("%s does not match, and is chosen", decision.Cluster)
			}
			if want := replicasOf(app, decision); decision.Replicas != want {
				t.Fatalf("%s has %d replicas, want %d", decision.Cluster, decision.Replicas, want)
			}
		}
	})
}

func decide(t *rapid.T, app *v1alpha1.AppService, fleet []v1alpha1.MemberCluster) placement.Plan {
	plan, err := placement.Decide(app, fleet)
	if err != nil {
		t.Fatal(err)
	}
	return plan
}

// fits reports whether a cluster matches. It is implemented independently of the package.
func fits(app *v1alpha1.AppService, member *v1alpha1.MemberCluster) bool {
	if names := clusterNames(app); len(names) > 0 && !slices.Contains(names, member.Name) {
		return false
	}
	if app.Spec.Placement == nil || app.Spec.Placement.ClusterSelector == nil {
		return true
	}
	return labels.SelectorFromSet(app.Spec.Placement.ClusterSelector.MatchLabels).Matches(labels.Set(member.Labels))
}

func clusterNames(app *v1alpha1.AppService) []string {
	if app.Spec.Placement == nil {
		return nil
	}
	return slices.Clone(app.Spec.Placement.ClusterNames)
}

func replicasOf(app *v1alpha1.AppService, decision placement.Decision) int32 {
	if !decision.Chosen() {
		return 0
	}
	return app.DesiredReplicas()
}

func deepCopy(fleet []v1alpha1.MemberCluster) []v1alpha1.MemberCluster {
	list := v1alpha1.MemberClusterList{Items: fleet}
	return list.DeepCopy().Items
}

// Generators of any AppService and any fleet. They use few names and labels, so that these often
// match.

var anyName = rapid.SampledFrom([]string{"a", "a-1", "b", "c", "d", "e", "f"})

func anyApp() *rapid.Generator[*v1alpha1.AppService] {
	return rapid.Custom(func(t *rapid.T) *v1alpha1.AppService {
		app := app(withEntries(rapid.SliceOfDistinct(anyName, rapid.ID[string]).Draw(t, "entries")...))
		if rapid.Bool().Draw(t, "has replicas") {
			replicas(rapid.Int32Range(0, 3).Draw(t, "replicas"))(app)
		}
		if rapid.Bool().Draw(t, "names clusters") {
			named(rapid.SliceOfDistinct(anyName, rapid.ID[string]).Draw(t, "names")...)(app)
		}
		if rapid.Bool().Draw(t, "selects clusters") {
			selected(v1alpha1.ClusterSelector{MatchLabels: anyLabels.Draw(t, "selector")})(app)
		}
		return app
	})
}

func anyFleet() *rapid.Generator[[]v1alpha1.MemberCluster] {
	anyMember := rapid.Custom(func(t *rapid.T) v1alpha1.MemberCluster {
		member := member(anyName.Draw(t, "name"))
		member.Labels = anyLabels.Draw(t, "labels")
		for _, change := range rapid.SliceOf(rapid.SampledFrom([]func(*v1alpha1.MemberCluster){deleting, unschedulable, notReady, neverReady})).Draw(t, "state") {
			change(&member)
		}
		return member
	})
	return rapid.SliceOfDistinct(anyMember, func(m v1alpha1.MemberCluster) string { return m.Name })
}

var anyLabels = rapid.MapOfN(rapid.SampledFrom([]string{"tier", "zone"}), rapid.SampledFrom([]string{"x", "y"}), 0, 2)
