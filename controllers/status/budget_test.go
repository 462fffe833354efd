package status

import (
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
)

// The sizes of texts and entries are computed without encoding them.
func TestSizes_are_upper_bounds(t *testing.T) {
	for _, text := range []string{"", "x", "<>&", "\"\\", "ü", "\n\u2028", "\U0001F600", "\xff"} {
		content, err := json.Marshal(text)
		if err != nil {
			t.Fatal(err)
		}
		if got, want := encodedSize(text), len(content)-2; got < want {
			t.Errorf("%q: %d bytes, and JSON has %d", text, got, want)
		}
	}
	for _, entry := range []v1alpha1.ClusterStatus{largestStaying, largestLeaving} {
		const rest = 100 << 10                                   // the spec, the conditions, and 35 bytes of managed fields for each entry
		if size := 1300 * fixedSize(&entry); size > 3<<19-rest { // the largest --slice-threshold, in the 1.5 MiB of etcd
			t.Errorf("1300 of the largest entries without texts have %d bytes, %d each", size, fixedSize(&entry))
		}
	}
	plain := v1alpha1.ClusterStatus{
		Name: "n", Generation: math.MaxInt64, Replicas: math.MaxInt32, Phase: v1alpha1.ClusterProgressing, LastTransitionTime: metav1.Now(),
		ObservedGeneration: math.MaxInt64, ReadyReplicas: math.MaxInt32, UnreadyReplicas: math.MaxInt32, Reason: "R", Message: "m", Addresses: []string{"a"},
	}
	for _, entry := range []v1alpha1.ClusterStatus{largest(), plain, largestStaying, largestLeaving} {
		content, err := json.Marshal(entry)
		if err != nil {
			t.Fatal(err)
		}
		if got, want := fixedSize(&entry)+len(entry.Message)+3*len(entry.Addresses), len(content); got < want {
			t.Errorf("%d bytes, and JSON has %d: %s", got, want, content)
		}
	}
}

const (
	maxCount = 9_999_999_999 // more edits, revisions or placements than a hub ever counts
	maxPods  = 1_000_000     // as many pods as an observation has at most
)

// largestStaying and largestLeaving are the largest entries of clusters that stay in the plan and
// leave it, without texts. The one that stays has readySince, and so it has no availableReplicas.
var (
	largestStaying = v1alpha1.ClusterStatus{
		Name: strings.Repeat("n", 253), Generation: maxCount, Replicas: math.MaxInt32, MinReplicas: math.MaxInt32, MaxReplicas: math.MaxInt32,
		Weight: maxCount, Surging: true, Phase: v1alpha1.ClusterProgressing, LastTransitionTime: metav1.Now(),
		ObservedGeneration: maxCount, ReadyReplicas: maxPods, UnreadyReplicas: maxPods, Reason: v1alpha1.ReasonHubBehind,
		ObservedAvailableReplicas: new(int32(maxPods)),
		Revision:                  maxCount, Placement: maxCount, Recreate: "0123456789-1234", Stage: strings.Repeat("s", 63), StageRevision: maxCount,
		Impaired: true, Returned: true, UnavailableSince: new(metav1.Now()), ReadySince: new(metav1.Now()),
		HubBehind: &v1alpha1.HubBehind{Kind: "Deployment", Generation: maxCount, UID: "12345678-1234-1234-1234-123456789012", Accept: "p1234567890-01234567", Revision: maxCount},
	}
	largestLeaving = v1alpha1.ClusterStatus{
		Name: strings.Repeat("n", 253), Generation: maxCount, Replicas: math.MaxInt32, MinReplicas: math.MaxInt32, MaxReplicas: math.MaxInt32,
		Weight: maxCount, Phase: v1alpha1.ClusterProgressing, LastTransitionTime: metav1.Now(), LastKnownPhase: v1alpha1.ClusterProgressing,
		Transition:         v1alpha1.ClusterTransition{Type: v1alpha1.TransitionRemovalNeedsApproval, Cause: v1alpha1.CauseDisplaced, Accepted: true},
		ObservedGeneration: maxCount, ReadyReplicas: maxPods, UnreadyReplicas: maxPods, Reason: v1alpha1.ReasonRemovalNeedsApproval,
		ObservedAvailableReplicas: new(int32(maxPods)),
		Revision:                  maxCount, Placement: maxCount, AvailableReplicas: math.MaxInt32,
		HubBehind: &v1alpha1.HubBehind{Kind: "HorizontalPodAutoscaler", Generation: maxCount, UID: "12345678-1234-1234-1234-123456789012", Accept: "p1234567890-01234567", Placement: maxCount},
	}
)

// largest returns an entry in which each field is set but the texts.
func largest() v1alpha1.ClusterStatus {
	entry, leaving := *largestStaying.DeepCopy(), largestLeaving.DeepCopy()
	entry.LastKnownPhase, entry.Transition = leaving.LastKnownPhase, leaving.Transition
	entry.AvailableReplicas, entry.ReadyReplicas, entry.UnreadyReplicas = math.MaxInt32, math.MaxInt32, math.MaxInt32
	entry.ObservedAvailableReplicas = new(int32(math.MinInt32))
	entry.HubBehind.Kind, entry.HubBehind.Placement, entry.HubBehind.CreationTime = leaving.HubBehind.Kind, maxCount, new(metav1.Now())
	entry.HubBehind.Accept = strings.Repeat("a", 100)
	for _, number := range []*int64{&entry.Generation, &entry.ObservedGeneration, &entry.Weight, &entry.Revision, &entry.Placement, &entry.HubBehind.Generation, &entry.HubBehind.Revision, &entry.HubBehind.Placement} {
		*number = math.MaxInt64
	}
	return entry
}

// A new field must be in the estimate.
func TestSizes_know_each_field(t *testing.T) {
	entry := largest()
	entry.Message, entry.Addresses = "m", []string{"a"}
	for _, value := range []reflect.Value{reflect.ValueOf(entry), reflect.ValueOf(*entry.HubBehind), reflect.ValueOf(entry.Transition)} {
		for i := range value.NumField() {
			if value.Field(i).IsZero() {
				t.Errorf("%s.%s is not in the largest entry", value.Type(), value.Type().Field(i).Name)
			}
		}
	}
}

// Each field adds at least what it adds to the JSON. The estimate of a whole entry has some bytes to spare,
// so it does not show that a field is missing.
func TestSizes_count_each_field(t *testing.T) {
	whole := largest()
	size := func(entry v1alpha1.ClusterStatus) (estimated, encoded int) {
		content, err := json.Marshal(entry)
		if err != nil {
			t.Fatal(err)
		}
		return fixedSize(&entry), len(content)
	}
	estimated, encoded := size(whole)
	for i := range reflect.TypeFor[v1alpha1.ClusterStatus]().NumField() {
		without := *whole.DeepCopy()
		field := reflect.ValueOf(&without).Elem().Field(i)
		field.SetZero()
		name := reflect.TypeFor[v1alpha1.ClusterStatus]().Field(i).Name
		if name == "LastTransitionTime" { // it is always there
			continue
		}
		if e, j := size(without); estimated-e < encoded-j {
			t.Errorf("%s adds %d bytes to the estimate, and %d to the JSON", name, estimated-e, encoded-j)
		}
	}
}

// Entries with any values of the schema fit into their object, nothing but texts is shortened, and
// what was shortened is not shortened again.
func TestLimitTexts_of_any_entries(t *testing.T) {
	entry := largest()
	largestEntry := fixedSize(&entry)
	rapid.Check(t, func(t *rapid.T) {
		object := rapid.SampledFrom([]struct{ entries, budget int }{{1000, objectBudget}, {250, sliceBudget}}).Draw(t, "object")
		kinds := rapid.SliceOfN(rapid.Custom(drawEntry), 1, 5).Draw(t, "kinds of entries")
		all := make([]v1alpha1.ClusterStatus, rapid.IntRange(1, object.entries).Draw(t, "entries"))
		for i := range all {
			all[i] = *kinds[i%len(kinds)].DeepCopy()
			all[i].Name = fmt.Sprintf("%.248s-%04d", all[i].Name, i)
		}
		before := make([]v1alpha1.ClusterStatus, len(all))
		for i := range all {
			before[i] = *all[i].DeepCopy()
		}
		limitTexts(pointersTo(all), object.budget)
		content, err := json.Marshal(all)
		if err != nil {
			t.Fatal(err)
		}
		if most := max(object.budget, largestEntry*len(all)); len(content) > most {
			t.Fatalf("%d entries have %d bytes, want at most %d", len(all), len(content), most)
		}
		for i := range all {
			if diff := cmp.Diff(withoutTexts(before[i]), withoutTexts(all[i])); diff != "" {
				t.Fatalf("more than the texts changed (-before +after):\n%s", diff)
			}
			isStart := strings.HasPrefix(before[i].Message, strings.TrimSuffix(all[i].Message, "…"))
			if n := len(all[i].Addresses); !isStart || !slices.Equal(before[i].Addresses[:n], all[i].Addresses) {
				t.Fatalf("the texts are others: %+v, before: %+v", all[i], before[i])
			}
		}
		again := slices.Clone(all)
		limitTexts(pointersTo(again), object.budget)
		if diff := cmp.Diff(all, again); diff != "" {
			t.Fatalf("shortened twice (-once +twice):\n%s", diff)
		}
	})
}

func withoutTexts(entry v1alpha1.ClusterStatus) v1alpha1.ClusterStatus {
	entry.Message, entry.Addresses = "", nil
	return entry
}

// drawEntry returns an entry with any values that the schema allows.
func drawEntry(t *rapid.T) v1alpha1.ClusterStatus {
	phases := rapid.SampledFrom([]v1alpha1.ClusterPhase{v1alpha1.ClusterReady, v1alpha1.ClusterProgressing, v1alpha1.ClusterFailed, v1alpha1.ClusterRemoving})
	text := func(name string, most int) string {
		part := rapid.StringOfN(rapid.RuneFrom([]rune{'x', '<', '"', '\\', 'ü', '\n', '\u2028', '\U0001F600'}), 1, 9, -1).Draw(t, name)
		return string([]rune(strings.Repeat(part, most))[:rapid.IntRange(0, most).Draw(t, name+" length")])
	}
	entry := v1alpha1.ClusterStatus{
		Name: strings.Repeat("n", rapid.IntRange(1, 248).Draw(t, "name")), Phase: phases.Draw(t, "phase"), LastTransitionTime: metav1.Unix(rapid.Int64Range(0, 4e9).Draw(t, "time"), 0),
		Generation: rapid.Int64Range(0, math.MaxInt64).Draw(t, "generation"), Replicas: rapid.Int32Range(0, math.MaxInt32).Draw(t, "replicas"),
		MinReplicas: rapid.Int32().Draw(t, "minimum"), MaxReplicas: rapid.Int32().Draw(t, "maximum"), Weight: rapid.Int64().Draw(t, "weight"),
		Surging: rapid.Bool().Draw(t, "surging"), ObservedGeneration: rapid.Int64().Draw(t, "observed"),
		ReadyReplicas: rapid.Int32().Draw(t, "ready"), UnreadyReplicas: rapid.Int32().Draw(t, "unready"),
		ObservedAvailableReplicas: rapid.Ptr(rapid.Int32(), true).Draw(t, "available now"),
		Reason:                    rapid.SampledFrom([]string{"", v1alpha1.ReasonRemovalNeedsApproval, v1alpha1.ReasonRefused}).Draw(t, "reason"),
		Message:                   text("message", 1024), Stage: strings.Repeat("s", rapid.IntRange(0, 63).Draw(t, "stage")), StageRevision: rapid.Int64().Draw(t, "stageRevision"),
		Revision: rapid.Int64().Draw(t, "revision"), Placement: rapid.Int64().Draw(t, "number of the placement"), AvailableReplicas: rapid.Int32().Draw(t, "available"),
		Impaired: rapid.Bool().Draw(t, "impaired"), Returned: rapid.Bool().Draw(t, "returned"),
	}
	for i := range rapid.IntRange(0, 8).Draw(t, "addresses") {
		entry.Addresses = append(entry.Addresses, fmt.Sprintf("%d.%s", i, strings.Repeat("a", rapid.IntRange(0, 251).Draw(t, "address"))))
	}
	if rapid.Bool().Draw(t, "is leaving") {
		entry.LastKnownPhase = phases.Draw(t, "last known phase")
		entry.Transition = v1alpha1.ClusterTransition{Type: v1alpha1.TransitionRemovalNeedsApproval, Cause: v1alpha1.CauseClustersChanged, Accepted: rapid.Bool().Draw(t, "accepted")}
	}
	if rapid.Bool().Draw(t, "is behind") {
		entry.HubBehind = &v1alpha1.HubBehind{Kind: "HorizontalPodAutoscaler", Generation: math.MaxInt64, UID: "12345678-1234-1234-1234-123456789012", Accept: strings.Repeat("a", rapid.IntRange(0, 100).Draw(t, "accept"))}
	}
	return entry
}

// After a restart, each entry has its shortened texts until its cluster is observed. In any order in
// which that happens, the entries stay as they were written.
func TestLimitTexts_stay_after_a_restart(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		full := make([]v1alpha1.ClusterStatus, rapid.IntRange(100, 400).Draw(t, "entries"))
		length, addresses := rapid.IntRange(1, 1024).Draw(t, "message"), rapid.IntRange(0, 8).Draw(t, "addresses")
		for i := range full {
			full[i] = v1alpha1.ClusterStatus{Name: fmt.Sprintf("m-%04d", i), Phase: v1alpha1.ClusterFailed, Reason: fmt.Sprint(i % 30), Message: strings.Repeat("x", length+i%3)}
			for a := range addresses {
				full[i].Addresses = append(full[i].Addresses, fmt.Sprintf("%d.%s", a, strings.Repeat("a", 40)))
			}
		}
		written := slices.Clone(full)
		limitTexts(pointersTo(written), sliceBudget)
		observed := rapid.IntRange(0, len(full)).Draw(t, "observed again")
		restarted := slices.Concat(full[:observed], written[observed:])
		limitTexts(pointersTo(restarted), sliceBudget)
		if diff := cmp.Diff(written, restarted); diff != "" {
			t.Errorf("the texts changed after a restart (-written +restarted):\n%s", diff)
		}
	})
}
