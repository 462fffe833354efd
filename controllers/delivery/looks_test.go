package delivery

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
)

// A process that has waited for the Lease for a long time knows no more than one that has just
// started.
func TestLook_begins_when_the_process_leads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLooks()
		time.Sleep(time.Hour)
		leads := time.Now()
		first := l.of("app")
		if first.Since.Time.Before(leads.Truncate(time.Second)) {
			t.Errorf("the look began at %s, and the process leads since %s", first.Since, leads)
		}
		time.Sleep(time.Minute)
		if again := l.of("app"); again != first {
			t.Errorf("the look changed from %v to %v", first, again)
		}
	})
}

// What a process has created itself, or what is new since it leads, is no question. Each rewind is a
// new look, and what was new before it is not new any more.
func TestLooks_begin_again_when_an_AppService_goes_back(t *testing.T) {
	of := func(uid types.UID, version string, clusters ...string) *v1alpha1.AppService {
		app := &v1alpha1.AppService{}
		app.Namespace, app.Name, app.UID, app.ResourceVersion = "shop", "web", uid, version
		app.Status.ObservedGeneration = int64(min(1, len(clusters)))
		for _, name := range clusters {
			app.Status.Clusters = append(app.Status.Clusters, v1alpha1.ClusterStatus{Name: name})
		}
		return app
	}
	sliceOf := func(version string, clusters ...string) *v1alpha1.AppServiceSlice {
		slice := &v1alpha1.AppServiceSlice{AppService: v1alpha1.AppServiceReference{Name: "web", UID: "uid-1"}, Clusters: of("", "", clusters...).Status.Clusters}
		slice.Namespace, slice.UID, slice.ResourceVersion = "shop", "slice-1", version
		return slice
	}
	d := &Deliverer{looks: newLooks()}
	update := func(before, after *v1alpha1.AppService) func() { return func() { d.noteUpdated(before, after) } }
	inSlices := d.sliceEvents()
	last := d.looks.of("uid-1")
	steps := []struct {
		name  string
		do    func()
		again bool     // another look begins
		isNew []string // of east and west
	}{
		{"the start", func() {}, false, nil},
		{"a cluster that is placed later is new", update(of("uid-1", "5", "east"), of("uid-1", "6", "east", "west")), false, []string{"west"}},
		{"the same versions", update(of("uid-1", "6", "east", "west"), of("uid-1", "6", "east", "west")), false, []string{"west"}},
		{"an earlier version", update(of("uid-1", "10", "west"), of("uid-1", "9", "east", "west")), true, nil},
		{"a cluster in a slice is new", func() { inSlices.OnUpdate(sliceOf("11"), sliceOf("12", "east")) }, false, []string{"east"}},
		{"a slice of an earlier version", func() { inSlices.OnUpdate(sliceOf("13", "east"), sliceOf("7", "east", "west")) }, false, []string{"east"}},
		{"another earlier version", update(of("uid-1", "14", "east"), of("uid-1", "8", "east", "west")), true, nil},
		{"an AppService that a restore brings back", func() { d.looks.noteAdded(of("uid-1", "20", "east")) }, true, nil},
		{"an AppService that nobody has planned", func() { d.looks.noteAdded(of("uid-1", "21")) }, false, []string{"east", "west"}},
		{"it goes back", update(of("uid-1", "22"), of("uid-1", "3", "east")), true, nil},
	}
	for _, step := range steps {
		step.do()
		if now := d.looks.of("uid-1"); (now.ID != last.ID) != step.again {
			t.Errorf("%s: the look was %s, and is %s", step.name, last.ID, now.ID)
		}
		last = d.looks.of("uid-1")
		var isNew []string
		for _, name := range []string{"east", "west"} {
			if d.looks.isNew("uid-1", name) {
				isNew = append(isNew, name)
			}
		}
		if !slices.Equal(isNew, step.isNew) {
			t.Errorf("%s: %v are new, want %v", step.name, isNew, step.isNew)
		}
	}
	if other := d.looks.of("uid-2"); other.ID != d.looks.start().ID {
		t.Errorf("another AppService has the look %s", other.ID)
	}
}
