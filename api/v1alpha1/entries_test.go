package v1alpha1_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/entries/appslice"
)

// newSliced returns an AppService with this number of entries in slices, and its entries.
func newSliced(count int) (*v1alpha1.AppService, []v1alpha1.ClusterStatus) {
	app := &v1alpha1.AppService{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: "uid-1"}}
	app.Status.ClustersIn, app.Status.Summary.Clusters = v1alpha1.ClustersInSlices, int32(count)
	all := make([]v1alpha1.ClusterStatus, count)
	for i := range all {
		all[i] = v1alpha1.ClusterStatus{Name: fmt.Sprintf("member-%04d", i), Replicas: int32(i)}
	}
	return app, all
}

// splitList returns the slices as a client lists them.
func splitList(app *v1alpha1.AppService, all []v1alpha1.ClusterStatus) []v1alpha1.AppServiceSlice {
	var list []v1alpha1.AppServiceSlice
	for _, slice := range appslice.Split(app, all) {
		list = append(list, *slice)
	}
	return list
}

func TestEntries_of_slices_in_any_order_are_those_that_were_split(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		app, all := newSliced(rapid.IntRange(1, 300).Draw(t, "entries"))
		list := rapid.Permutation(splitList(app, all)).Draw(t, "slices")
		got, complete := app.Entries(list)
		if diff := cmp.Diff(all, got); diff != "" || !complete {
			t.Fatalf("complete: %v, entries (-want +got):\n%s", complete, diff)
		}
		missing := rapid.IntRange(0, len(list)-1).Draw(t, "missing")
		left := slices.Delete(list, missing, missing+1)
		if got, complete := app.Entries(left); complete || len(got) > len(all) {
			t.Fatalf("%d of %d entries are complete without a slice", len(got), len(all))
		}
	})
}

// The slots and the names are stored, and clients read single slices by them.
func TestSlotOf_and_SliceName_never_change(t *testing.T) {
	got := map[string]int32{}
	for _, cluster := range []string{"", "east", "west", "cluster-0001.example.com"} {
		got[cluster] = v1alpha1.SlotOf(cluster)
	}
	want := map[string]int32{"": 20, "east": 26, "west": 28, "cluster-0001.example.com": 30}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("slots (-want +got):\n%s", diff)
	}
	if got := v1alpha1.SliceName("web", 3); got != "web-3" {
		t.Errorf("slice 3 of web is named %s", got)
	}
}

func TestEntries_ignore_slices_that_are_not_those_of_the_AppService(t *testing.T) {
	for title, change := range map[string]func(*v1alpha1.AppServiceSlice){
		"of an earlier AppService of the same name": func(s *v1alpha1.AppServiceSlice) { s.AppService.UID = "uid-0" },
		"in another namespace":                      func(s *v1alpha1.AppServiceSlice) { s.Namespace = "other" },
		"with another name":                         func(s *v1alpha1.AppServiceSlice) { s.Name = "copy" },
		"with a slot that does not exist":           func(s *v1alpha1.AppServiceSlice) { s.Slot, s.Name = 64, "web-64" },
		"with a negative slot":                      func(s *v1alpha1.AppServiceSlice) { s.Slot, s.Name = -1, "web--1" },
	} {
		t.Run(title, func(t *testing.T) {
			app, all := newSliced(200)
			list := splitList(app, all)
			stranger := *list[0].DeepCopy()
			for i := range stranger.Clusters {
				stranger.Clusters[i].Replicas = 1000
			}
			change(&stranger)
			got, complete := app.Entries(append([]v1alpha1.AppServiceSlice{stranger}, list...))
			if diff := cmp.Diff(all, got); diff != "" || !complete {
				t.Errorf("complete: %v, entries (-want +got):\n%s", complete, diff)
			}
		})
	}
}

func TestEntries_that_were_edited_by_hand_are_ignored(t *testing.T) {
	app, all := newSliced(200)
	list := splitList(app, all)
	foreign := list[1].Clusters[0]
	foreign.Replicas = 1000
	list[0].Clusters = append(list[0].Clusters, foreign)
	if got, _ := app.Entries(list); cmp.Diff(all, got) != "" {
		t.Errorf("entries (-want +got):\n%s", cmp.Diff(all, got))
	}
}

// An older version of Fleetwright does not know slices, so its entries in the status are newer.
func TestEntries_in_the_status_are_the_record(t *testing.T) {
	app, all := newSliced(3)
	list := splitList(app, all)
	app.Status.Clusters = []v1alpha1.ClusterStatus{{Name: "east"}}
	for _, in := range []v1alpha1.ClustersIn{"", v1alpha1.ClustersInSlices} {
		app.Status.ClustersIn = in
		if got, complete := app.Entries(list); !complete || cmp.Diff(app.Status.Clusters, got) != "" {
			t.Errorf("complete: %v, entries %+v", complete, got)
		}
	}
}
