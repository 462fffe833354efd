package rollup_test

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/rollup"
)

// A row is a part of one object in the hub's etcd, which takes 1.5 MiB: it has to stay small.
func TestStatus_of_a_thousand_clusters_is_small(t *testing.T) {
	const clusters = 1000
	tests := map[string]struct {
		in   rollup.Input
		most int // bytes of all
	}{
		"Ready":   {fleet(clusters), 150_000},
		"Unknown": {fleet(clusters, allUnreachable), 350_000},
		"Pending": {fleet(clusters, restarted, func(in *rollup.Input) { in.App.Status.Clusters = nil }), 200_000},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			status := rollup.Status(test.in)
			if got := status.Clusters[0].Phase; string(got) != name {
				t.Fatalf("rows are %s, want %s", got, name)
			}
			size := len(compact(t, status))
			t.Logf("%d rows: %d bytes, %d for each; the first: %s", clusters, size, size/clusters, compact(t, status.Clusters[0]))
			if size >= test.most {
				t.Errorf("%d bytes, want less than %d", size, test.most)
			}
		})
	}
}

func BenchmarkStatus(b *testing.B) {
	for _, clusters := range []int{10, 100, 1000} {
		for _, test := range []struct {
			name string
			in   rollup.Input
		}{
			{"at rest", fleet(clusters)},
			{"all unreachable", fleet(clusters, allUnreachable)},
			{"a new generation", fleet(clusters, func(in *rollup.Input) { in.App.Generation++ })},
		} {
			b.Run(fmt.Sprintf("%s on %d", test.name, clusters), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					rollup.Status(test.in)
				}
			})
		}
	}
}

// fleet runs on so many clusters and is at rest.
func fleet(clusters int, changes ...func(*rollup.Input)) rollup.Input {
	in := given()
	for i := range clusters {
		name := fmt.Sprintf("member-%04d", i)
		chosen(name)(&in)
		saw(name, seen(v1alpha1.ClusterReady))(&in)
	}
	return then(then(in), append(changes, later(time.Minute))...)
}

func allUnreachable(in *rollup.Input) {
	for name := range in.Members {
		unreachable(name)(in)
	}
}

func compact(t *testing.T, value any) []byte {
	t.Helper()
	content, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return content
}
