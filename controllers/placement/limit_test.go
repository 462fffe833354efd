package placement_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/placement"
)

func TestDecide_respects_the_limit(t *testing.T) {
	no := func(cluster string) placement.Decision { return excluded(cluster, v1alpha1.ReasonLimitReached) }
	abc := members(member("a"), member("b"), member("c"))
	runCases(t, map[string]decideCase{
		"a limit above the number of clusters": {
			app: app(limited(4)), members: abc, want: placement.Plan{chosen("a", 1), chosen("b", 1), chosen("c", 1)},
		},
		"clusters with an entry come before new clusters": {
			app: app(limited(1), withEntry("b", 1)), members: abc, want: placement.Plan{no("a"), chosen("b", 1), no("c")},
		},
		"clusters with an entry that are not Ready come before new clusters": {
			app:     app(limited(1), withEntry("b", 1)),
			members: members(member("a"), member("b", notReady)),
			want:    placement.Plan{no("a"), chosen("b", 1)},
		},
		"a Detached entry counts as running": {
			app: app(limited(1), withEntry("a", 1, removalPending), withEntry("b", 1, detached)), members: abc, want: placement.Plan{no("a"), chosen("b", 1), no("c")},
		},
		"pending removals come after running and before Removing clusters": {
			app:     app(limited(2), withEntry("a", 1, removing), withEntry("b", 1, removalPending), withEntry("c", 1)),
			members: abc,
			want:    placement.Plan{no("a"), chosen("b", 1), chosen("c", 1)},
		},
		"removals that need approval count as pending removals": {
			app: app(limited(1), withEntry("a", 1, removing), withEntry("c", 1, removalNeedsApproval)), members: abc, want: placement.Plan{no("a"), no("b"), chosen("c", 1)},
		},
		"pending removals of unreachable clusters come after running clusters": {
			app:     app(limited(1), withEntry("a", 1, removalPending, unknown), withEntry("b", 1, unknown)),
			members: members(member("a", notReady), member("b", notReady)),
			want:    placement.Plan{no("a"), chosen("b", 1)},
		},
		"surging clusters come before pending removals": {
			app:     app(limited(1), withEntry("a", 1, removalPending), withEntry("c", 1, surging)),
			members: abc, want: placement.Plan{no("a"), no("b"), chosen("c", 1)},
		},
		"an unreachable cluster counts as running": {
			app:     app(limited(1), withEntry("a", 1, unknown), withEntry("b", 1, removalPending)),
			members: members(member("a", notReady), member("b")),
			want:    placement.Plan{chosen("a", 1), no("b")},
		},
		"Removing clusters come before new clusters": {
			app: app(limited(1), withEntry("b", 1, removing)), members: abc, want: placement.Plan{no("a"), chosen("b", 1), no("c")},
		},
		"excluded clusters do not count": {
			app:     app(named("a", "b"), limited(1), withEntry("c", 1)),
			members: members(member("a", noExecute("gpu")), member("b"), member("c")),
			want:    placement.Plan{excluded("a", v1alpha1.ReasonTaintNotTolerated), chosen("b", 1), excluded("c", v1alpha1.ReasonNotNamed)},
		},
		"new clusters that are not Ready do not count": {
			app:     app(limited(1)),
			members: members(member("a", notReady), member("b")),
			want:    placement.Plan{excluded("a", v1alpha1.ReasonClusterNotReady), chosen("b", 1)},
		},
		"names without a member do not count": {
			app:     app(named("a", "z"), limited(1)),
			members: members(member("a")),
			want:    placement.Plan{chosen("a", 1), excluded("z", v1alpha1.ReasonNoSuchCluster)},
		},
		"only chosen clusters divide the replicas": {
			app: app(limited(1), divided(5), withEntry("b", 5)), members: abc, want: placement.Plan{no("a"), chosen("b", 5), no("c")},
		},
	})
}

func TestDecide_spreads_the_chosen_clusters(t *testing.T) {
	// Two regions have four clusters each, one region has one, and two clusters have no region.
	var fleet []v1alpha1.MemberCluster
	for _, name := range []string{"eu-1", "eu-2", "eu-3", "eu-4", "us-1", "us-2", "us-3", "us-4", "ap-1"} {
		fleet = append(fleet, member(name, label("region", name[:2])))
	}
	fleet = append(fleet, member("none-1"), member("none-2", label("region", "")))
	tests := map[string]struct {
		limit   int32
		running []string
		want    map[string]int
	}{
		"one cluster of each value":                                 {4, nil, map[string]int{"eu": 1, "us": 1, "ap": 1, "no": 1}},
		"a value without further clusters":                          {7, nil, map[string]int{"eu": 2, "us": 2, "ap": 1, "no": 2}},
		"as evenly as possible":                                     {9, nil, map[string]int{"eu": 3, "us": 3, "ap": 1, "no": 2}},
		"clusters with an entry count":                              {6, []string{"eu-1", "eu-2", "eu-3"}, map[string]int{"eu": 3, "us": 1, "ap": 1, "no": 1}},
		"clusters with an entry stay, even if the spread is uneven": {3, []string{"eu-1", "eu-2", "eu-3"}, map[string]int{"eu": 3}},
		"surplus clusters with an entry are spread":                 {3, []string{"eu-1", "eu-2", "eu-3", "eu-4", "us-1"}, map[string]int{"eu": 2, "us": 1}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got := map[string]int{}
			for _, cluster := range clustersOf(t, app(limited(test.limit), spread("region"), withEntries(test.running...)), fleet) {
				got[cluster[:2]]++
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("clusters by region (-want +got):\n%s", diff)
			}
		})
	}
}

func TestDecide_without_a_spread_key_chooses_by_rank(t *testing.T) {
	fleet := fleetOf(50, func(i int) v1alpha1.MemberCluster { return member(memberName(i), label("region", memberName(i/25))) })
	unlabelled := fleetOf(50, func(i int) v1alpha1.MemberCluster { return member(memberName(i)) })
	want := clustersOf(t, app(limited(7)), unlabelled)
	for what, got := range map[string][]string{
		"no key":                    clustersOf(t, app(limited(7)), fleet),
		"a key that no cluster has": clustersOf(t, app(limited(7), spread("zone")), fleet),
	} {
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", what, diff)
		}
	}
}

func TestDecide_changes_as_few_clusters_as_possible(t *testing.T) {
	fleet := fleetOf(50, func(i int) v1alpha1.MemberCluster { return member(memberName(i), label("region", memberName(i%3))) })
	limitOf := func(n int32, clusters []string) *v1alpha1.AppService {
		return app(limited(n), spread("region"), withEntries(clusters...))
	}
	first := clustersOf(t, limitOf(6, nil), fleet)
	without := func(name string) []v1alpha1.MemberCluster {
		return slices.DeleteFunc(slices.Clone(fleet), func(m v1alpha1.MemberCluster) bool { return m.Name == name })
	}
	lower, higher := clustersOf(t, limitOf(4, first), fleet), clustersOf(t, limitOf(8, first), fleet)
	moved := clustersOf(t, limitOf(6, first), without(first[2]))
	// A lower limit chooses a subset of the running clusters, and a higher limit chooses all of them.
	// If a cluster is removed, all other running clusters stay.
	if !subset(lower, first) || !subset(first, higher) || len(lower) != 4 || len(higher) != 8 {
		t.Errorf("with limit 6 %v, with limit 4 %v, with limit 8 %v", first, lower, higher)
	}
	if gone := slices.Delete(slices.Clone(first), 2, 3); !subset(gone, moved) || len(moved) != 6 {
		t.Errorf("%v without %s: %v", first, first[2], moved)
	}
	if joined := clustersOf(t, limitOf(6, first), append(slices.Clone(fleet), member("z-new", label("region", "new")))); !slices.Equal(first, joined) {
		t.Errorf("%v, and %v after a cluster joined", first, joined)
	}
	// The order of new clusters does not depend on which clusters are added or removed: removing a
	// cluster that was not chosen changes nothing.
	unused := slices.IndexFunc(fleet, func(m v1alpha1.MemberCluster) bool { return !slices.Contains(first, m.Name) })
	if again := clustersOf(t, limitOf(6, nil), without(fleet[unused].Name)); !slices.Equal(first, again) {
		t.Errorf("%v; without %s %v", first, fleet[unused].Name, again)
	}
}

func TestDecide_does_not_prefer_some_clusters_for_all_AppServices(t *testing.T) {
	const apps, clusters, limit = 1000, 20, 2
	fleet := fleetOf(clusters, func(i int) v1alpha1.MemberCluster { return member(memberName(i)) })
	for _, names := range []func(i int) (namespace, name string){
		func(i int) (string, string) { return "default", fmt.Sprintf("app-%d", i) },
		func(i int) (string, string) { return fmt.Sprintf("team-%d", i), "app" },
	} {
		load := map[string]int{}
		for i := range apps {
			app := app(limited(limit))
			app.Namespace, app.Name = names(i)
			for _, cluster := range clustersOf(t, app, fleet) {
				load[cluster]++
			}
		}
		// The mean is 100 per cluster. The standard deviation is under 10, and the test allows 40,
		// which is four standard deviations.
		for cluster, n := range load {
			if n < 60 || n > 140 {
				t.Errorf("%s was chosen %d times of %d", cluster, n, apps*limit)
			}
		}
		if len(load) != clusters {
			t.Errorf("%d of %d clusters were chosen", len(load), clusters)
		}
	}
}

// clustersOf returns the clusters that a plan chooses.
func clustersOf(t *testing.T, app *v1alpha1.AppService, fleet []v1alpha1.MemberCluster) []string {
	t.Helper()
	plan, err := placement.Decide(app, fleet)
	if err != nil {
		t.Fatal(err)
	}
	var clusters []string
	for _, decision := range plan {
		if decision.Chosen() {
			clusters = append(clusters, decision.Cluster)
		}
	}
	return clusters
}

func fleetOf(n int, nth func(i int) v1alpha1.MemberCluster) []v1alpha1.MemberCluster {
	fleet := make([]v1alpha1.MemberCluster, n)
	for i := range fleet {
		fleet[i] = nth(i)
	}
	return fleet
}

func memberName(i int) string { return fmt.Sprintf("member-%04d", i) }

func subset(some, all []string) bool {
	return !slices.ContainsFunc(some, func(one string) bool { return !slices.Contains(all, one) })
}
