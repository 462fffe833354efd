package delivery

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/workqueue"
	mcreconcile "sigs.k8s.io/multicluster-runtime/pkg/reconcile"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
)

// app returns an AppService of generation 2 with these entries.
func app(rows ...v1alpha1.ClusterStatus) *v1alpha1.AppService {
	app := &v1alpha1.AppService{}
	app.Namespace, app.Name, app.UID, app.Generation = "shop", "web", "uid-1", 2
	app.Status.Clusters = rows
	return app
}

func row(cluster string, phase v1alpha1.ClusterPhase, generation int64) v1alpha1.ClusterStatus {
	return v1alpha1.ClusterStatus{Name: cluster, Phase: phase, Generation: generation, Replicas: 1}
}

// ahead returns an entry whose cluster is ahead of the hub.
func ahead(row v1alpha1.ClusterStatus) v1alpha1.ClusterStatus {
	row.HubBehind = &v1alpha1.HubBehind{Kind: "Deployment", Generation: 9, Accept: "9-00000000"}
	return row
}

func TestDecide(t *testing.T) {
	deleting := app()
	deleting.DeletionTimestamp = new(metav1.Now())
	phases := []v1alpha1.ClusterPhase{
		v1alpha1.ClusterPending, v1alpha1.ClusterProgressing, v1alpha1.ClusterReady, v1alpha1.ClusterFailed,
		v1alpha1.ClusterUnknown, v1alpha1.ClusterRemoving, v1alpha1.ClusterDetached,
	}
	want := map[v1alpha1.ClusterPhase]intent{v1alpha1.ClusterRemoving: remove, v1alpha1.ClusterDetached: leave}
	for _, phase := range phases {
		for _, test := range []struct {
			name       string
			app        *v1alpha1.AppService
			generation int64
			want       intent // for phases that are not in want
		}{
			{"planned", app(), 2, maintain},
			{"of a generation that is not planned", app(), 1, await},
			{"planned for a generation that is not seen yet", app(), 3, await},
			{"being deleted", deleting, 2, await},
		} {
			t.Run(string(phase)+" "+test.name, func(t *testing.T) {
				if always, found := want[phase]; found {
					test.want = always
				}
				row := row("east", phase, test.generation)
				if got := decide(test.app, &row); got != test.want {
					t.Errorf("got %s, want %s", got, test.want)
				}
			})
		}
		row := row("east", phase, 2)
		if got := decide(nil, &row); got != leave {
			t.Errorf("%s without an AppService: got %s", phase, got)
		}
	}
	for _, phase := range phases {
		held, row := app(), row("east", phase, 2)
		suspended(held)
		if got := decide(held, &row); got != await && phase != v1alpha1.ClusterDetached {
			t.Errorf("%s while suspended: got %s", phase, got)
		}
		held.DeletionTimestamp = new(metav1.Now())
		if got := decide(held, &row); got != remove && phase == v1alpha1.ClusterRemoving {
			t.Errorf("%s while suspended and being deleted: got %s", phase, got)
		}
	}
	for _, phase := range phases {
		behind, row := app(row("east", phase, 2), ahead(row("west", v1alpha1.ClusterUnknown, 2))), row("east", phase, 2)
		if got := decide(behind, &row); got != await && phase != v1alpha1.ClusterDetached {
			t.Errorf("%s while the hub is behind another cluster: got %s", phase, got)
		}
		behind.DeletionTimestamp = new(metav1.Now())
		if got := decide(behind, &row); got != await && phase != v1alpha1.ClusterDetached {
			t.Errorf("%s while the hub is behind and it is being deleted: got %s", phase, got)
		}
	}
	if got := decide(app(), nil); got != leave {
		t.Errorf("without a row: got %s", got)
	}
	if got := decide(deleting, nil); got != leave {
		t.Errorf("being deleted, without a row: got %s", got)
	}
}

// A change of the plan enqueues only the members that it concerns.
func TestDispatch(t *testing.T) {
	ready, pending := v1alpha1.ClusterReady, v1alpha1.ClusterPending
	tests := map[string]struct {
		before, after *v1alpha1.AppService
		want          []string
	}{
		"the first plan": {
			before: app(),
			after:  app(row("east", pending, 2), row("west", pending, 2), row("unknown", pending, 2)),
			want:   []string{"east", "west"},
		},
		"nothing but what was observed": {
			before: app(row("east", pending, 2), row("west", ready, 2)),
			after:  app(row("east", ready, 2), row("west", v1alpha1.ClusterUnknown, 2)),
		},
		"one more row": {
			before: app(row("east", ready, 2)),
			after:  app(row("east", ready, 2), row("west", pending, 2)),
			want:   []string{"west"},
		},
		"one row that is Removing": {
			before: app(row("east", ready, 2), row("west", ready, 2)),
			after:  app(row("east", ready, 2), row("west", v1alpha1.ClusterRemoving, 2)),
			want:   []string{"west"},
		},
		"a row that has vanished": {
			before: app(row("east", ready, 2), row("west", ready, 2)),
			after:  app(row("east", ready, 2)),
			want:   []string{"west"},
		},
		"a row that is gone": {
			before: app(row("east", ready, 2), row("west", v1alpha1.ClusterRemoving, 2)),
			after:  app(row("east", ready, 2)),
		},
		"another generation": {
			before: func() *v1alpha1.AppService { a := app(row("east", ready, 1)); a.Generation = 1; return a }(),
			after:  app(row("east", ready, 1)),
			want:   []string{"east"},
		},
		"a stamp that is accepted": {
			before: app(row("east", ready, 2)),
			after:  func() *v1alpha1.AppService { a := app(row("east", ready, 2)); accepts("9-00000000")(a); return a }(),
			want:   []string{"east"},
		},
		"a hub that is behind one cluster stops all": {
			before: app(row("east", ready, 2), row("west", ready, 2)),
			after:  app(row("east", ready, 2), ahead(row("west", ready, 2))),
			want:   []string{"east", "west"},
		},
		"a hub that is behind one cluster more": {
			before: app(row("east", ready, 2), ahead(row("north", ready, 2)), row("west", ready, 2)),
			after:  app(row("east", ready, 2), ahead(row("north", ready, 2)), ahead(row("west", ready, 2))),
			want:   []string{"west"},
		},
		"a hub that is behind no more": {
			before: app(row("east", ready, 2), ahead(row("west", ready, 2))),
			after:  app(row("east", ready, 2), row("west", ready, 2)),
			want:   []string{"east", "west"},
		},
		"another annotation": {
			before: app(row("east", ready, 2)),
			after: func() *v1alpha1.AppService {
				a := app(row("east", ready, 2))
				a.Annotations = map[string]string{"a": "b"}
				return a
			}(),
		},
		"another AppService of that name": {
			before: func() *v1alpha1.AppService { a := app(row("east", ready, 2)); a.UID = "uid-0"; return a }(),
			after:  app(row("east", ready, 2)),
			want:   []string{"east"},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			d := New(hubCached, thisHub, nil)
			members := []string{"east", "west"}
			for _, member := range members {
				e := &engagement{queue: workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[mcreconcile.Request]())}
				d.engagements[(&scene{cluster: member}).clusterName()] = []*engagement{e}
			}
			d.dispatch(test.before, test.after)
			var got []string
			for _, member := range members {
				q := d.queueOf(&scene{cluster: member})
				if q.Len() > 0 {
					got = append(got, member)
				}
				q.ShutDown()
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("queued (-want +got):\n%s", diff)
			}
		})
	}
}
