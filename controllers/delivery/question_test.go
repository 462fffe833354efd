package delivery

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
)

// What is missing at the first look may have been moved by an edit that a restore of the hub took back.
func TestMissing_workload_is_created(t *testing.T) {
	t.Parallel()
	wasThere := func(r *reconciler, t *task) {
		there := *t
		there.objects.deployment = &appsv1.Deployment{}
		r.mayCreate(there)
	}
	hasNew := func(cluster string) func(*reconciler, *task) {
		return func(r *reconciler, t *task) {
			r.looks.noteEntries(t.app.UID, nil, []v1alpha1.ClusterStatus{{Name: cluster}})
		}
	}
	tests := map[string]struct {
		given func(*reconciler, *task)
		want  bool
	}{
		"but not at the first look":             {given: func(*reconciler, *task) {}},
		"if it was there before":                {given: wasThere, want: true},
		"but not if it was there a look before": {given: func(r *reconciler, t *task) { wasThere(r, t); r.looks.noteRewound(t.app.UID) }},
		"if the planner has answered":           {given: func(r *reconciler, t *task) { t.entry.Recreate = r.looks.of(t.app.UID).ID }, want: true},
		"but not by an answer to another look":  {given: func(_ *reconciler, t *task) { t.entry.Recreate = "another" }},
		"if the AppService is new":              {given: func(r *reconciler, _ *task) { r.looks.noteAdded(app()) }, want: true},
		"if the entry is new":                   {given: hasNew("east"), want: true},
		"but not if another entry is new":       {given: hasNew("west")},
		"if no delivery has succeeded": {
			given: func(_ *reconciler, t *task) { t.entry.Phase, t.entry.ObservedGeneration = v1alpha1.ClusterFailed, 0 }, want: true,
		},
		"but not if a later one has failed": {given: func(_ *reconciler, t *task) { t.entry.Phase = v1alpha1.ClusterFailed }},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			planned := entry("east", v1alpha1.ClusterReady, 2)
			planned.ObservedGeneration = 2
			r := &reconciler{cluster: "east", looks: newLooks()}
			missing := &task{app: app(planned), entry: &planned, memory: &memory{}}
			test.given(r, missing)
			for range 2 { // what is created is not asked for again
				if got := r.mayCreate(*missing); got != test.want {
					t.Errorf("got %t", got)
				}
			}
		})
	}
}
