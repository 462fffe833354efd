package status_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/util/intstr"
	"pgregory.net/rapid"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/entries/appslice"
	"github.com/fleetwright/fleetwright/controllers/observation"
	"github.com/fleetwright/fleetwright/controllers/placement"
	"github.com/fleetwright/fleetwright/controllers/rollout"
	. "github.com/fleetwright/fleetwright/controllers/rollout/rollouttest"
	"github.com/fleetwright/fleetwright/controllers/status"
	"github.com/fleetwright/fleetwright/internal/growth"
)

// All entries are a part of one object in the hub's etcd, which accepts 1.5 MiB. Therefore an entry
// must stay small.
func TestCompute_for_a_thousand_clusters_is_small(t *testing.T) {
	const clusters = 1000
	tests := map[string]struct {
		in    rollout.Input
		limit int // maximum size of the whole status, in bytes
	}{
		"Ready":   {readyFleet(clusters, atRevision(12)), 190_000},
		"Unknown": {readyFleet(clusters, allUnreachable), 350_000},
		"Pending": {readyFleet(clusters, Restarted, func(in *rollout.Input) { in.App.Status.Clusters = nil }), 220_000},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			status := StatusOf(test.in)
			if got := status.Clusters[0]; string(got.Phase) != name || got.Revision != test.in.Revision {
				t.Fatalf("entries are %s with revision %d, want %s with %d", got.Phase, got.Revision, name, test.in.Revision)
			}
			size := len(toJSON(t, status))
			t.Logf("%d entries: %d bytes, %d for each; the first: %s", clusters, size, size/clusters, toJSON(t, status.Clusters[0]))
			if size >= test.limit {
				t.Errorf("%d bytes, want less than %d", size, test.limit)
			}
		})
	}
}

// The schema allows 16 stages.
func TestStages_of_a_status_are_small(t *testing.T) {
	for _, test := range []struct{ length, limit int }{{12, 3000}, {63, 4000}} {
		in := readyFleet(1000, atRevision(12))
		in.App.Spec.Rollout = &v1alpha1.Rollout{}
		for i := range 16 {
			name := fmt.Sprintf("s%02d", i) + strings.Repeat("x", test.length-3)
			in.App.Spec.Rollout.Stages = append(in.App.Spec.Rollout.Stages, v1alpha1.RolloutStage{Name: name, Limit: new(intstr.FromInt32(50))})
		}
		in.Revision = 13
		stages := StatusOf(in).Rollout.Stages
		for i := range stages {
			stage := &stages[i]
			stage.Phase, stage.Approved, stage.UpToDate, stage.Available = v1alpha1.StageCompleted, true, stage.Clusters, stage.Clusters
		}
		size := len(toJSON(t, stages))
		t.Logf("%d stages with names of %d characters: %d bytes", len(stages), test.length, size)
		if len(stages) != 17 || size >= test.limit {
			t.Errorf("%d stages with names of %d characters: %d bytes, want less than %d", len(stages), test.length, size, test.limit)
		}
	}
}

// Data that members report has a budget. Without it, one bad edit would produce a status that etcd
// refuses.
func TestCompute_for_thousands_of_failures_fits_into_etcd(t *testing.T) {
	tests := map[string]func(name string, i int) observation.Observation{
		"one reason": func(name string, i int) observation.Observation {
			return Observation(v1alpha1.ClusterFailed, Reporting(v1alpha1.ReasonRefused, strings.Repeat("x", 1020)+fmt.Sprint(i%10)))
		},
		"many reasons, and characters of six bytes": func(name string, i int) observation.Observation {
			return Observation(v1alpha1.ClusterFailed, Reporting(fmt.Sprintf("Reason%d", i%30), strings.Repeat("<", 1100)))
		},
		"long host names": func(name string, i int) observation.Observation {
			failed := Observation(v1alpha1.ClusterFailed, Reporting(v1alpha1.ReasonRolloutFailed, strings.Repeat("x", 1024)))
			for a := range 8 {
				failed.Addresses = append(failed.Addresses, fmt.Sprintf("%d.%s.example.com", a, strings.Repeat(name+".", 20)))
			}
			return failed
		},
	}
	places := map[string]struct{ clusters, threshold, limit int }{
		"in the status": {3000, 3000, 1_000_000},
		"in slices":     {10_000, 1000, 350_000},
	}
	for name, observe := range tests {
		for place, p := range places {
			t.Run(name+" "+place, func(t *testing.T) {
				in := NewInput()
				in.SliceThreshold = p.threshold
				for i := range p.clusters {
					name := fmt.Sprintf("member-%04d", i)
					in.Plan = append(in.Plan, placement.Decision{Cluster: name, Replicas: 2})
					Reachable(name)(&in)
					Observed(name, observe(name, i))(&in)
				}
				in = Next(in, Later(time.Minute))
				size := largestObject(t, in.App)
				t.Logf("%d bytes", size)
				if size >= p.limit {
					t.Errorf("%d bytes, want less than %d", size, p.limit)
				}
				if in.App.Status.Clusters[0].Message == "" && !strings.HasPrefix(name, "many reasons") {
					t.Error("no message is left, although there is space for one of 64 characters")
				}
				if diff := cmp.Diff(in.App.Status, StatusOf(in)); diff != "" {
					t.Errorf("the next status differs (-first +second):\n%s", diff)
				}
			})
		}
	}
}

// largestObject returns the size of the largest object that stores the status, in bytes of JSON.
func largestObject(t *testing.T, app *v1alpha1.AppService) int {
	if app.Status.ClustersIn != v1alpha1.ClustersInSlices {
		return len(toJSON(t, app))
	}
	rest := *app
	rest.Status.Clusters = nil
	size := len(toJSON(t, rest))
	for _, slice := range appslice.Split(app, app.Status.Clusters) {
		size = max(size, len(toJSON(t, slice)))
	}
	return size
}

// Without this, one entry that changes often would write all slices.
func TestChange_of_one_entry_changes_one_slice(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := NewInput()
		in.SliceThreshold = 1
		for i := range rapid.IntRange(2, 200).Draw(t, "clusters") {
			name := fmt.Sprintf("member-%d", i)
			in.Plan = append(in.Plan, placement.Decision{Cluster: name, Replicas: 2})
			Reachable(name)(&in)
			Observed(name, drawObservation(t))(&in)
		}
		slices.SortFunc(in.Plan, func(a, b placement.Decision) int { return strings.Compare(a.Cluster, b.Cluster) })
		in = Next(in)
		changed := rapid.SampledFrom(in.App.Status.Clusters).Draw(t, "changed").Name
		next := Next(in, Later(time.Minute), Observed(changed, drawObservation(t)))
		next = Next(next)
		before, after := appslice.Split(in.App, in.App.Status.Clusters), appslice.Split(in.App, next.App.Status.Clusters)
		for slot := range before {
			if int32(slot) != v1alpha1.SlotOf(changed) && !appslice.IsStored(before[slot], after[slot]) {
				t.Fatalf("%s changed, and slice %d too:\n%s", changed, slot, cmp.Diff(before[slot], after[slot]))
			}
		}
	})
}

func drawObservation(t *rapid.T) observation.Observation {
	if rapid.Bool().Draw(t, "is ready") {
		return Observation(v1alpha1.ClusterReady)
	}
	message := strings.Repeat("x", rapid.SampledFrom([]int{1, 1000}).Draw(t, "length"))
	return Observation(v1alpha1.ClusterFailed, Reporting(rapid.SampledFrom([]string{"A", "B"}).Draw(t, "reason"), message))
}

func TestCompute_shows_the_worst_entries_of_a_sliced_AppService(t *testing.T) {
	in := NewInput()
	in.SliceThreshold = 3
	for i := range 30 {
		Chosen(fmt.Sprintf("ready-%02d", i))(&in)
		Observed(fmt.Sprintf("ready-%02d", i), Observation(v1alpha1.ClusterReady))(&in)
	}
	for i := range 5 {
		Chosen(fmt.Sprintf("failed-%02d", i))(&in)
		Observed(fmt.Sprintf("failed-%02d", i), Observation(v1alpha1.ClusterFailed, Reporting("Refused", "no")))(&in)
		Chosen(fmt.Sprintf("gone-%02d", i))(&in)
		Unreachable(fmt.Sprintf("gone-%02d", i))(&in)
	}
	in = Next(in)
	var worst []string
	for _, entry := range in.App.Status.WorstClusters {
		worst = append(worst, entry.Name)
	}
	want := []string{"failed-00", "failed-01", "failed-02", "failed-03", "failed-04", "gone-00", "gone-01", "gone-02", "gone-03", "gone-04"}
	if diff := cmp.Diff(want, worst); diff != "" {
		t.Errorf("worst (-want +got):\n%s", diff)
	}
	for i := range 30 {
		Observed(fmt.Sprintf("ready-%02d", i), Observation(v1alpha1.ClusterFailed, Reporting("Refused", "no")))(&in)
	}
	if n := len(StatusOf(in).WorstClusters); n != 20 {
		t.Errorf("%d worst entries, want 20", n)
	}
	in.SliceThreshold = 1000
	if s := StatusOf(in); s.ClustersIn != "" || s.WorstClusters != nil || len(s.Clusters) != 40 {
		t.Errorf("40 entries are in %q, with %d worst entries", s.ClustersIn, len(s.WorstClusters))
	}
}

// The longest texts on a thousand clusters are shortened on all of them alike, and nothing else is.
func TestStatus_shortens_the_texts_of_all_clusters_in_fixed_steps(t *testing.T) {
	in := NewInput()
	for i := range 1000 {
		name := fmt.Sprintf("member-%04d", i)
		Chosen(name)(&in)
		failed := Observation(v1alpha1.ClusterFailed, Reporting(fmt.Sprintf("Reason%d", i/50), strings.Repeat("ü", 1024)))
		for a := range 8 {
			failed.Addresses = append(failed.Addresses, fmt.Sprintf("%d.%s", a, strings.Repeat("x", 250)))
		}
		Observed(name, failed)(&in)
	}
	in = Next(in, Later(time.Minute))
	first := in.App.Status.Clusters[0]
	for _, entry := range in.App.Status.Clusters {
		if len(entry.Addresses) != 2 || len([]rune(entry.Message)) != 128 || entry.Phase != v1alpha1.ClusterFailed || entry.Reason == "" {
			t.Fatalf("entry %+v, first %+v", entry, first)
		}
	}
	if size := len(toJSON(t, in.App.Status.Clusters)); size > 1_000_000 || size < 500_000 {
		t.Errorf("the entries have %d bytes", size)
	}
	if diff := cmp.Diff(in.App.Status, StatusOf(in)); diff != "" {
		t.Errorf("the next status is another (-first +second):\n%s", diff)
	}
}

// Every entry that the schema allows fits, and what was shortened is not shortened again.
func TestStatus_of_any_entries_fits_the_budget(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := NewInput()
		texts := rapid.StringOf(rapid.SampledFrom([]rune{'x', '<', '"', '\\', 'ü', '\n', '\u2028', '\U0001F600'}))
		message := strings.Repeat(texts.Draw(t, "message"), 1+rapid.IntRange(0, 2000).Draw(t, "repeated"))
		address := strings.Repeat("a", rapid.IntRange(1, 253).Draw(t, "address"))
		reasons := rapid.IntRange(1, 100).Draw(t, "reasons")
		clusters := rapid.IntRange(1, 1000).Draw(t, "clusters")
		name := strings.Repeat("n", rapid.IntRange(0, 240).Draw(t, "name"))
		for i := range clusters {
			cluster := fmt.Sprintf("%s-%04d", name, i)
			Chosen(cluster)(&in)
			seen := Observation(v1alpha1.ClusterFailed, Reporting(fmt.Sprintf("Reason%d", i%reasons), message))
			seen.Addresses = slices.Repeat([]string{address}, rapid.IntRange(0, 8).Draw(t, "addresses"))
			Observed(cluster, seen)(&in)
		}
		in = Next(in, Later(time.Minute))
		content, err := json.Marshal(in.App.Status.Clusters)
		if err != nil {
			t.Fatal(err)
		}
		if len(content) > 1_000_000 {
			t.Fatalf("the entries have %d bytes", len(content))
		}
		if diff := cmp.Diff(in.App.Status, StatusOf(in)); diff != "" {
			t.Fatalf("the next status is another (-first +second):\n%s", diff)
		}
	})
}

// A cluster that fails or recovers changes the text of at most one other cluster.
func TestCompute_drops_few_messages_when_one_cluster_changes(t *testing.T) {
	failed := readyFleet(60, func(in *rollout.Input) {
		for name := range in.Members {
			Observed(name, Observation(v1alpha1.ClusterFailed, Reporting(v1alpha1.ReasonRefused, "because "+name)))(in)
		}
	})
	before := Next(failed)
	for _, entry := range before.App.Status.Clusters {
		if entry.Phase != v1alpha1.ClusterFailed || entry.Reason != v1alpha1.ReasonRefused {
			t.Fatalf("entry %+v", entry)
		}
		if hasText := entry.Message != ""; hasText != (entry.Name < "member-0050") {
			t.Errorf("%s has the message %q", entry.Name, entry.Message)
		}
	}
	after := StatusOf(Next(before, Observed("member-0007", Observation(v1alpha1.ClusterReady)), Later(time.Minute)))
	var changed []string
	for _, entry := range after.Clusters {
		if diff := cmp.Diff(*before.App.Status.Cluster(entry.Name), entry); diff != "" {
			changed = append(changed, entry.Name)
		}
	}
	if diff := cmp.Diff([]string{"member-0007", "member-0050"}, changed); diff != "" {
		t.Errorf("changed (-want +got):\n%s", diff)
	}
}

// An event has the full message even if the budget of the status dropped it.
func TestChanges_have_the_messages_that_the_budget_drops(t *testing.T) {
	in := readyFleet(60, func(in *rollout.Input) {
		for name := range in.Members {
			Observed(name, Observation(v1alpha1.ClusterFailed, Reporting(v1alpha1.ReasonRefused, "because "+name)))(in)
		}
	})
	for _, change := range status.Changes(in, StatusOf(in)) {
		if want := "because " + change.Clusters[0]; change.Message != want {
			t.Errorf("%s: %q, want %q", change.Clusters[0], change.Message, want)
		}
	}
}

// fleets are inputs of any number of clusters.
var fleets = map[string]func(clusters int) rollout.Input{
	"at rest":          func(n int) rollout.Input { return readyFleet(n) },
	"all unreachable":  func(n int) rollout.Input { return readyFleet(n, allUnreachable) },
	"a new generation": func(n int) rollout.Input { return readyFleet(n, func(in *rollout.Input) { in.App.Generation++ }) },
	"deleted":          func(n int) rollout.Input { return readyFleet(n, Deleting) },
	"all failed": func(n int) rollout.Input {
		return readyFleet(n, func(in *rollout.Input) {
			for name := range in.Members {
				Observed(name, Observation(v1alpha1.ClusterFailed, Reporting(v1alpha1.ReasonRefused, "because "+name)))(in)
			}
		})
	},
}

func TestCompute_grows_linearly(t *testing.T) {
	for name, fleet := range fleets {
		t.Run(name, func(t *testing.T) {
			growth.CheckLinear(t, func(clusters int) func() {
				in := fleet(clusters)
				decision := rollout.Plan(in)
				return func() { status.Compute(in, decision) }
			})
		})
	}
}

func TestChanges_grow_linearly(t *testing.T) {
	for name, fleet := range fleets {
		t.Run(name, func(t *testing.T) {
			growth.CheckLinear(t, func(clusters int) func() {
				in := fleet(clusters)
				next := StatusOf(in)
				return func() { status.Changes(in, next) }
			})
		})
	}
}

func BenchmarkCompute(b *testing.B) {
	for name, fleet := range fleets {
		for _, clusters := range []int{10, 100, 1000, 10000} {
			in := fleet(clusters)
			decision := rollout.Plan(in)
			b.Run(fmt.Sprintf("%s on %d", name, clusters), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					status.Compute(in, decision)
				}
			})
		}
	}
}

// readyFleet returns an input that runs on this number of clusters and is at rest.
func readyFleet(clusters int, changes ...func(*rollout.Input)) rollout.Input {
	in := NewInput()
	for i := range clusters {
		name := fmt.Sprintf("member-%04d", i)
		Reachable(name)(&in)
		Observed(name, Observation(v1alpha1.ClusterReady))(&in)
		in.Plan = append(in.Plan, placement.Decision{Cluster: name, Replicas: 2}) // sorted by name
	}
	return Next(Next(in), append(changes, Later(time.Minute))...)
}

// atRevision makes all clusters of a fleet run a revision.
func atRevision(number int64) func(*rollout.Input) {
	return func(in *rollout.Input) {
		in.Revision = number
		for name := range in.Members {
			Observed(name, Observation(v1alpha1.ClusterReady, AnsweringRevision(number)))(in)
		}
		*in = Next(*in)
	}
}

func allUnreachable(in *rollout.Input) {
	for name := range in.Members {
		Unreachable(name)(in)
	}
}

func toJSON(t *testing.T, value any) []byte {
	t.Helper()
	content, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return content
}
