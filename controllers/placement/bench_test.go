package placement_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/placement"
	"github.com/fleetwright/fleetwright/internal/growth"
)

// decisions are AppServices of all kinds, for a fleet of any size.
var decisions = map[string]func(n int32, all []string) *v1alpha1.AppService{
	"everywhere": func(int32, []string) *v1alpha1.AppService { return app() },
	"new":        func(int32, []string) *v1alpha1.AppService { return app(selected(matching("tier", "prod"))) },
	"with entries": func(_ int32, all []string) *v1alpha1.AppService {
		return app(selected(matching("tier", "prod")), withEntries(all...))
	},
	"with entries and names": func(_ int32, all []string) *v1alpha1.AppService {
		return app(named(all...), withEntries(all...))
	},
	"limited and spread": func(n int32, _ []string) *v1alpha1.AppService { return app(limited(n/3), spread("region")) },
	"limited and spread, with entries": func(n int32, all []string) *v1alpha1.AppService {
		return app(limited(n/3), spread("region"), withEntries(all...))
	},
	"divided by Allocatable": func(n int32, _ []string) *v1alpha1.AppService { return app(divided(17*n), byAllocatable) },
	"divided by Allocatable, with entries": func(n int32, all []string) *v1alpha1.AppService {
		return app(divided(17*n), byAllocatable, withEntries(all...))
	},
	"divided with bounds": func(n int32, _ []string) *v1alpha1.AppService {
		return app(divided(17*n, regional(1), regional(2), regional(3), regional(4), regional(5)), byAllocatable)
	},
	"divided autoscaling": func(n int32, _ []string) *v1alpha1.AppService {
		return app(divided(17*n), byAllocatable, autoscaling(17*n, 40*n))
	},
}

// regional returns the bounds of the replicas in a region of a regionalFleet.
func regional(i int) v1alpha1.ReplicaRule {
	r := v1alpha1.ReplicaRule{Name: memberName(i)}
	selector := matching("region", memberName(i))
	r.ClusterSelector = &selector
	atLeast(int32(i))(&r)
	atMost(int32(5 + 10*i))(&r)
	return r
}

// regionalFleet returns a fleet in seven regions, and the names of its members.
func regionalFleet(clusters int) (fleet []v1alpha1.MemberCluster, names []string) {
	fleet = shuffled(fleetOf(clusters, func(i int) v1alpha1.MemberCluster {
		m := member(memberName(i), cpu(fmt.Sprint(4+i%97)))
		m.Labels = map[string]string{"tier": "prod", "region": memberName(i % 7)}
		return m
	}))
	for _, m := range fleet {
		names = append(names, m.Name)
	}
	return fleet, names
}

func TestDecide_grows_linearly(t *testing.T) {
	for name, appFor := range decisions {
		t.Run(name, func(t *testing.T) {
			growth.CheckLinear(t, func(clusters int) func() {
				fleet, names := regionalFleet(clusters)
				app := appFor(int32(clusters), names)
				return func() {
					if _, err := placement.Decide(app, fleet); err != nil {
						t.Fatal(err)
					}
				}
			})
		})
	}
}

func BenchmarkDecide(b *testing.B) {
	for name, appFor := range decisions {
		for _, clusters := range []int{10, 100, 1000, 10000} {
			fleet, names := regionalFleet(clusters)
			b.Run(fmt.Sprintf("%s on %d", name, clusters), func(b *testing.B) { decideAgain(b, fleet, appFor(int32(clusters), names)) })
		}
	}
}

// BenchmarkDecide_for_1000_AppServices measures the time to plan all AppServices again, for example
// after a restart.
func BenchmarkDecide_for_1000_AppServices(b *testing.B) {
	fleet := shuffled(fleetOf(100, func(i int) v1alpha1.MemberCluster {
		return member(memberName(i), label("region", memberName(i%7)), cpu(fmt.Sprint(4+i%97)))
	}))
	var everywhere, mixed []*v1alpha1.AppService
	for i := range 1000 {
		for _, a := range []*v1alpha1.AppService{
			app(), app(limited(10), spread("region")), app(divided(500), byAllocatable), app(limited(20), divided(100), autoscaling(100, 300)),
		} {
			a.Name = memberName(i)
			mixed = append(mixed, a)
		}
		everywhere = append(everywhere, app())
	}
	b.Run("everywhere on 100", func(b *testing.B) { decideAgain(b, fleet, everywhere...) })
	b.Run("of four kinds on 100", func(b *testing.B) { decideAgain(b, fleet, mixed[:1000]...) })
}

// BenchmarkDecide_when_most_clusters_are_not_Ready measures the rounds of a division in the worst
// case.
func BenchmarkDecide_when_most_clusters_are_not_Ready(b *testing.B) {
	fleet := fleetOf(1000, func(i int) v1alpha1.MemberCluster { return member(memberName(i), cpu(fmt.Sprint(1+i*i%997))) })
	app := app(divided(12000), byAllocatable)
	plan, err := placement.Decide(app, fleet)
	if err != nil {
		b.Fatal(err)
	}
	for i, decision := range plan {
		withEntry(decision.Cluster, decision.Replicas)(app)
		if i%100 > 0 {
			notReady(&fleet[i])
		}
	}
	more := int32(12900)
	app.Spec.Replicas = &more
	decideAgain(b, fleet, app)
}

func decideAgain(b *testing.B, fleet []v1alpha1.MemberCluster, apps ...*v1alpha1.AppService) {
	b.ReportAllocs()
	for b.Loop() {
		for _, app := range apps {
			if _, err := placement.Decide(app, fleet); err != nil {
				b.Fatal(err)
			}
		}
	}
}

func shuffled(fleet []v1alpha1.MemberCluster) []v1alpha1.MemberCluster {
	rand.New(rand.NewPCG(1, 2)).Shuffle(len(fleet), func(i, j int) { fleet[i], fleet[j] = fleet[j], fleet[i] })
	return fleet
}
