package lineage_test

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/lineage"
)

func TestIsAhead_of_a_removal(t *testing.T) {
	began := created.Add(time.Hour)
	entryOf := func(phase v1alpha1.ClusterPhase, placement int64) *v1alpha1.ClusterStatus {
		return &v1alpha1.ClusterStatus{Name: "east", Phase: phase, Placement: placement, LastTransitionTime: metav1.NewTime(began)}
	}
	removing := func(placement int64) *v1alpha1.ClusterStatus { return entryOf(v1alpha1.ClusterRemoving, placement) }
	stampOf := func(placement int64, age time.Duration) lineage.Stamp {
		return lineage.Stamp{UID: "uid-1", Generation: 5, SpecHash: "e", Placement: placement, ObjectCreated: began.Add(age)}
	}
	tests := map[string]struct {
		entry    *v1alpha1.ClusterStatus
		stamp    lineage.Stamp
		deleting bool
		want     string // a part of the message; empty if it is not ahead
	}{
		"an object of the same placement":                          {entry: removing(2), stamp: stampOf(2, -time.Hour)},
		"an object of the same placement that was created again":   {entry: removing(2), stamp: stampOf(2, time.Second)},
		"an object of an earlier placement":                        {entry: removing(2), stamp: stampOf(1, -time.Hour)},
		"an object of a later placement":                           {entry: removing(2), stamp: stampOf(3, -time.Hour), want: "Deployment was applied for placement 3, "},
		"an entry without a number":                                {entry: removing(0), stamp: stampOf(1, -time.Hour), want: "Deployment was applied for placement 1, "},
		"without numbers, an older object":                         {entry: removing(0), stamp: stampOf(0, -time.Second)},
		"without numbers, an object of the same second":            {entry: removing(0), stamp: stampOf(0, 0)},
		"without numbers, a younger object":                        {entry: removing(0), stamp: stampOf(0, time.Second), want: "Deployment was created at 2026-01-02T13:00:01Z, "},
		"a younger object without a number":                        {entry: removing(2), stamp: stampOf(0, time.Second), want: "Deployment was created at 2026-01-02T13:00:01Z, "},
		"an absurd number on an older object":                      {entry: removing(2), stamp: stampOf(9e12, -time.Second)},
		"an absurd number on a younger object":                     {entry: removing(2), stamp: stampOf(9e12, time.Second), want: "Deployment was created at 2026-01-02T13:00:01Z, "},
		"the deletion of the AppService":                           {entry: removing(2), stamp: stampOf(3, time.Second), deleting: true},
		"the deletion of the AppService, an object without number": {entry: removing(0), stamp: stampOf(0, time.Second), deleting: true},
		"an entry of the plan":                                     {entry: entryOf(v1alpha1.ClusterReady, 2), stamp: stampOf(3, time.Second)},
		"no entry":                                                 {stamp: stampOf(3, time.Second)},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			app := planned(5, plannedSpec(5, "e"))
			if test.deleting {
				app.DeletionTimestamp = &created
			}
			if got := lineage.IsAhead(app, test.entry, test.stamp); got != (test.want != "") {
				t.Fatalf("it is ahead: %v", got)
			}
			if test.want == "" {
				return
			}
			behind := lineage.Behind(app, test.entry, map[string]lineage.Stamp{"Deployment": test.stamp})
			if message := lineage.BehindMessage(behind); !strings.Contains(message, test.want) || !strings.HasSuffix(message, "="+behind.Accept) {
				t.Error(message)
			}
			app.Annotations = map[string]string{v1alpha1.AnnotationAcceptHub: test.stamp.Token()}
			if !lineage.IsAhead(app, test.entry, test.stamp) {
				t.Error("the token of its spec accepts it")
			}
			app.Annotations[v1alpha1.AnnotationAcceptHub] = behind.Accept
			if lineage.IsAhead(app, test.entry, test.stamp) || !lineage.IsAccepted(app, behind) {
				t.Error("it is ahead after it was accepted")
			}
			later := test.stamp
			later.Placement, later.ObjectCreated = later.Placement+4, later.ObjectCreated.Add(time.Second)
			if !lineage.IsAhead(app, test.entry, later) {
				t.Error("the loss of another restore is accepted")
			}
		})
	}
}

// Both the spec and the placement of an object may be lost. One value accepts both.
func TestBehind_accepts_a_lost_spec_and_a_lost_placement(t *testing.T) {
	app := planned(5, plannedSpec(5, "e"))
	entry := &v1alpha1.ClusterStatus{Name: "east", Phase: v1alpha1.ClusterRemoving, Placement: 1}
	stamp := lineage.Stamp{UID: "uid-1", Generation: 6, SpecHash: "f", Placement: 2}
	behind := lineage.Behind(app, entry, map[string]lineage.Stamp{"Deployment": stamp})
	app.Annotations = map[string]string{v1alpha1.AnnotationAcceptHub: behind.Accept}
	if lineage.IsAhead(app, entry, stamp) || strings.Count(behind.Accept, ",") != 1 {
		t.Errorf("%q does not accept both", behind.Accept)
	}
}

func TestIsRemovalWithdrawn(t *testing.T) {
	entry := &v1alpha1.ClusterStatus{Phase: v1alpha1.ClusterReady, Placement: 3}
	for placement, want := range map[int64]bool{0: false, 2: true, 3: false, 4: false} {
		if got := lineage.IsRemovalWithdrawn(entry, lineage.Stamp{Placement: placement}); got != want {
			t.Errorf("placement %d: got %v, want %v", placement, got, want)
		}
	}
	if lineage.IsRemovalWithdrawn(&v1alpha1.ClusterStatus{Phase: v1alpha1.ClusterRemoving, Placement: 3}, lineage.Stamp{Placement: 2}) {
		t.Error("an entry that is Removing needs no stamp")
	}
}

func TestIsAfterTombstone(t *testing.T) {
	of := func(placement *int64) v1alpha1.AbandonedAppService {
		return v1alpha1.AbandonedAppService{UID: "uid-1", Placement: placement}
	}
	stamp := lineage.Stamp{UID: "uid-1", Placement: 2}
	for name, test := range map[string]struct {
		tombstone v1alpha1.AbandonedAppService
		want      bool
	}{
		"of an earlier placement":                  {of(new(int64(1))), true},
		"of an earlier placement without a number": {of(new(int64(0))), true},
		"of the same placement":                    {of(new(int64(2))), false},
		"of a deletion, or of an older version":    {of(nil), false},
	} {
		if got := lineage.IsAfterTombstone(test.tombstone, stamp); got != test.want {
			t.Errorf("%s: got %v, want %v", name, got, test.want)
		}
	}
	if lineage.IsAfterTombstone(of(new(int64(1))), lineage.Stamp{UID: "uid-1", Placement: 9e12}) {
		t.Error("an absurd number counts as a later placement")
	}
}
