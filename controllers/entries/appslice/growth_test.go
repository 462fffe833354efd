package appslice

import (
	"fmt"
	"testing"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/internal/growth"
)

// operations are what is done with this number of entries.
var operations = map[string]func(clusters int) func(){
	"Split": func(n int) func() {
		all := readyEntries(n)
		return func() { Split(web, all) }
	},
	"Join": func(n int) func() {
		stored := Split(web, readyEntries(n))
		return func() { Join(stored) }
	},
	"IsStored": func(n int) func() {
		stored, want := Split(web, readyEntries(n)), Split(web, readyEntries(n))
		return func() {
			for i := range stored {
				IsStored(stored[i], want[i])
			}
		}
	},
	"Replace": func(n int) func() {
		stored, want := Split(web, readyEntries(n)), Split(web, readyEntries(n))
		return func() {
			for i := range stored {
				Replace(stored[i], want[i])
			}
		}
	},
}

func readyEntries(n int) []v1alpha1.ClusterStatus {
	all := make([]v1alpha1.ClusterStatus, n)
	for i := range all {
		all[i] = v1alpha1.ClusterStatus{Name: fmt.Sprintf("member-%04d", i), Phase: v1alpha1.ClusterReady, Replicas: 2, ReadyReplicas: 2}
	}
	return all
}

func TestSlices_grow_linearly(t *testing.T) {
	for name, prepare := range operations {
		t.Run(name, func(t *testing.T) { growth.CheckLinear(t, prepare) })
	}
}

func BenchmarkSlices(b *testing.B) {
	for name, prepare := range operations {
		for _, clusters := range []int{10, 100, 1000, 10000} {
			do := prepare(clusters)
			b.Run(fmt.Sprintf("%s of %d", name, clusters), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					do()
				}
			})
		}
	}
}
