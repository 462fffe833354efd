package appslice

import (
	"cmp"
	"fmt"
	"slices"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
)

var web = &v1alpha1.AppService{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: "uid-1"}}

func TestJoin_returns_what_Split_was_given(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		all := drawEntries(t)
		if diff := gocmp.Diff(all, Join(Split(web, all)), cmpopts.EquateEmpty()); diff != "" {
			t.Fatalf("entries (-want +got):\n%s", diff)
		}
	})
}

func drawEntries(t *rapid.T) []v1alpha1.ClusterStatus {
	all := make([]v1alpha1.ClusterStatus, rapid.IntRange(0, 300).Draw(t, "entries"))
	phases := []v1alpha1.ClusterPhase{v1alpha1.ClusterReady, v1alpha1.ClusterFailed, v1alpha1.ClusterUnknown, v1alpha1.ClusterRemoving}
	for i := range all {
		all[i] = v1alpha1.ClusterStatus{Name: fmt.Sprintf("member-%d", i), Phase: rapid.SampledFrom(phases).Draw(t, "phase")}
		all[i].ObservedAvailableReplicas = rapid.Ptr(rapid.Int32Range(0, 2), true).Draw(t, "available pods")
	}
	slices.SortFunc(all, func(a, b v1alpha1.ClusterStatus) int { return cmp.Compare(a.Name, b.Name) })
	return all
}

func TestJoin_ignores_entries_that_were_edited_by_hand(t *testing.T) {
	east := v1alpha1.ClusterStatus{Name: "east", Replicas: 2}
	stored := Split(web, []v1alpha1.ClusterStatus{east})
	home := v1alpha1.SlotOf("east")
	other := (home + 1) % v1alpha1.SliceCount
	stored[home].Clusters = append(stored[home].Clusters, v1alpha1.ClusterStatus{Name: "east", Replicas: 7})
	stored[other].Clusters = append(stored[other].Clusters, v1alpha1.ClusterStatus{Name: "east", Replicas: 9})
	stored[(home+2)%v1alpha1.SliceCount] = nil
	stored[home].Slot = other
	if diff := gocmp.Diff([]v1alpha1.ClusterStatus{east}, Join(stored)); diff != "" {
		t.Errorf("entries (-want +got):\n%s", diff)
	}
	if n := stored.Missing(); n != 1 {
		t.Errorf("%d slices are missing, want 1", n)
	}
}

func TestMissing_slices_have_the_last_known_entries(t *testing.T) {
	east, west := v1alpha1.ClusterStatus{Name: "east", Replicas: 2}, v1alpha1.ClusterStatus{Name: "west", Replicas: 2}
	app := web.DeepCopy()
	for _, worst := range []v1alpha1.ClusterStatus{east, west} {
		worst.Phase = v1alpha1.ClusterFailed
		app.Status.WorstClusters = append(app.Status.WorstClusters, worst)
	}
	stored := Split(app, []v1alpha1.ClusterStatus{east, west})
	stored[v1alpha1.SlotOf("west")], stored[0] = nil, nil
	complete := stored.WithLastKnown(app)
	if diff := gocmp.Diff([]v1alpha1.ClusterStatus{east, app.Status.WorstClusters[1]}, Join(complete)); diff != "" {
		t.Errorf("entries (-want +got):\n%s", diff)
	}
	if stored[v1alpha1.SlotOf("west")] != nil || complete[0] != nil {
		t.Error("the stored slices were modified, or an empty one was added")
	}
}

func TestIsStored(t *testing.T) {
	want := Split(web, []v1alpha1.ClusterStatus{{Name: "east", Phase: v1alpha1.ClusterFailed}})[v1alpha1.SlotOf("east")]
	if want.Summary != (v1alpha1.SliceSummary{Display: "0/1", Failed: 1}) {
		t.Errorf("summary %+v", want.Summary)
	}
	changes := map[string]func(*v1alpha1.AppServiceSlice){
		"":            func(s *v1alpha1.AppServiceSlice) { s.Labels["team"] = "a" },
		"an entry":    func(s *v1alpha1.AppServiceSlice) { s.Clusters[0].Replicas = 7 },
		"pods of it":  func(s *v1alpha1.AppServiceSlice) { s.Clusters[0].ObservedAvailableReplicas = new(int32) },
		"its entries": func(s *v1alpha1.AppServiceSlice) { s.Clusters = nil },
		"its slot":    func(s *v1alpha1.AppServiceSlice) { s.Labels[v1alpha1.LabelSlot] = "x" },
		"its label":   func(s *v1alpha1.AppServiceSlice) { delete(s.Labels, v1alpha1.LabelAppService) },
		"its owner":   func(s *v1alpha1.AppServiceSlice) { s.OwnerReferences = nil },
		"its summary": func(s *v1alpha1.AppServiceSlice) { s.Summary.Failed = 0 },
		"its UID":     func(s *v1alpha1.AppServiceSlice) { s.AppService.UID = types.UID("uid-2") },
	}
	for name, change := range changes {
		stored := want.DeepCopy()
		change(stored)
		if got := IsStored(stored, want); got != (name == "") {
			t.Errorf("%q differs: IsStored returns %v", name, got)
		}
		if name != "its UID" && !IsStored(Replace(stored, want), want) {
			t.Errorf("%q differs: Replace does not correct it", name)
		}
	}
	if IsStored(nil, want) {
		t.Error("a missing slice is stored")
	}
}

func TestBelongInSlices_has_hysteresis(t *testing.T) {
	for _, test := range []struct {
		count, threshold int
		in, want         bool
	}{
		{1000, 1000, false, false}, {1001, 1000, false, true}, {800, 1000, true, true}, {799, 1000, true, false},
		{3, 3, false, false}, {4, 3, false, true}, {3, 3, true, true}, {2, 3, true, false},
		{0, 1, true, false}, {1, 1, true, true}, {2, 1, false, true},
	} {
		if got := BelongInSlices(test.count, test.threshold, test.in); got != test.want {
			t.Errorf("%d entries, threshold %d, in slices %v: %v", test.count, test.threshold, test.in, got)
		}
	}
}
