package delivery

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
)

// app returns an AppService of generation 2 with these entries.
func app(entries ...v1alpha1.ClusterStatus) *v1alpha1.AppService {
	app := &v1alpha1.AppService{}
	app.Namespace, app.Name, app.UID, app.Generation = "shop", "web", "uid-1", 2
	app.Status.Clusters = entries
	return app
}

func entry(cluster string, phase v1alpha1.ClusterPhase, generation int64) v1alpha1.ClusterStatus {
	return v1alpha1.ClusterStatus{Name: cluster, Phase: phase, Generation: generation, Revision: 1, Replicas: 1}
}

// withHubBehind returns an entry whose cluster is ahead of the hub.
func withHubBehind(entry v1alpha1.ClusterStatus) v1alpha1.ClusterStatus {
	entry.HubBehind = &v1alpha1.HubBehind{Kind: "Deployment", Generation: 9, Accept: "9-00000000"}
	return entry
}

func TestDecide(t *testing.T) {
	t.Parallel()
	deleting := app()
	deleting.DeletionTimestamp = new(metav1.Now())
	unrecorded := app() // its slices were seen before its status
	unrecorded.Status.PlannedSpecs = []v1alpha1.PlannedSpec{{Generation: 1, Hash: "1"}}
	recorded := app()
	recorded.Status.PlannedSpecs = []v1alpha1.PlannedSpec{{Generation: 2, Hash: "2"}, {Generation: 1, Hash: "1"}}
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
			{"of a generation that is not planned", app(), 1, observeOnly},
			{"planned for a generation that is not seen yet", app(), 3, observeOnly},
			{"being deleted", deleting, 2, observeOnly},
			{"planned, and the status does not say so", unrecorded, 2, observeOnly},
			{"planned, and the status says so", recorded, 2, maintain},
		} {
			t.Run(string(phase)+" "+test.name, func(t *testing.T) {
				if always, found := want[phase]; found {
					test.want = always
				}
				entry := entry("east", phase, test.generation)
				if got := decide(test.app, &entry); got != test.want {
					t.Errorf("got %s, want %s", got, test.want)
				}
			})
		}
		entry := entry("east", phase, 2)
		if got := decide(nil, &entry); got != leave {
			t.Errorf("%s without an AppService: got %s", phase, got)
		}
	}
	for _, phase := range phases {
		held, entry := app(), entry("east", phase, 2)
		withSuspend(held)
		if got := decide(held, &entry); got != observeOnly && phase != v1alpha1.ClusterDetached {
			t.Errorf("%s while suspended: got %s", phase, got)
		}
		held.DeletionTimestamp = new(metav1.Now())
		if got := decide(held, &entry); got != remove && phase == v1alpha1.ClusterRemoving {
			t.Errorf("%s while suspended and being deleted: got %s", phase, got)
		}
	}
	for _, phase := range phases {
		behind, entry := app(entry("east", phase, 2), withHubBehind(entry("west", v1alpha1.ClusterUnknown, 2))), entry("east", phase, 2)
		if got := decide(behind, &entry); got != observeOnly && phase != v1alpha1.ClusterDetached {
			t.Errorf("%s while the hub is behind another cluster: got %s", phase, got)
		}
		behind.DeletionTimestamp = new(metav1.Now())
		if got := decide(behind, &entry); got != observeOnly && phase != v1alpha1.ClusterDetached {
			t.Errorf("%s while the hub is behind and it is being deleted: got %s", phase, got)
		}
	}
	if got := decide(app(), nil); got != leave {
		t.Errorf("without an entry: got %s", got)
	}
	if got := decide(deleting, nil); got != leave {
		t.Errorf("being deleted, without an entry: got %s", got)
	}
}

// A change of the plan enqueues only the members that it concerns.
func TestDispatch(t *testing.T) {
	t.Parallel()
	ready, pending := v1alpha1.ClusterReady, v1alpha1.ClusterPending
	tests := map[string]struct {
		before, after *v1alpha1.AppService
		want          []string
	}{
		"the first plan": {
			before: app(),
			after:  app(entry("east", pending, 2), entry("west", pending, 2), entry("unknown", pending, 2)),
			want:   []string{"east", "west"},
		},
		"only an observation": {
			before: app(entry("east", pending, 2), entry("west", ready, 2)),
			after:  app(entry("east", ready, 2), entry("west", v1alpha1.ClusterUnknown, 2)),
		},
		"one more entry": {
			before: app(entry("east", ready, 2)),
			after:  app(entry("east", ready, 2), entry("west", pending, 2)),
			want:   []string{"west"},
		},
		"one entry that is Removing": {
			before: app(entry("east", ready, 2), entry("west", ready, 2)),
			after:  app(entry("east", ready, 2), entry("west", v1alpha1.ClusterRemoving, 2)),
			want:   []string{"west"},
		},
		"a lost entry": {
			before: app(entry("east", ready, 2), entry("west", ready, 2)),
			after:  app(entry("east", ready, 2)),
			want:   []string{"west"},
		},
		"a removed entry": {
			before: app(entry("east", ready, 2), entry("west", v1alpha1.ClusterRemoving, 2)),
			after:  app(entry("east", ready, 2)),
		},
		"another generation": {
			before: func() *v1alpha1.AppService { a := app(entry("east", ready, 1)); a.Generation = 1; return a }(),
			after:  app(entry("east", ready, 1)),
			want:   []string{"east"},
		},
		"an accepted stamp": {
			before: app(entry("east", ready, 2)),
			after:  func() *v1alpha1.AppService { a := app(entry("east", ready, 2)); acceptStamp("9-00000000")(a); return a }(),
			want:   []string{"east"},
		},
		"a hub that is behind one cluster stops all": {
			before: app(entry("east", ready, 2), entry("west", ready, 2)),
			after:  app(entry("east", ready, 2), withHubBehind(entry("west", ready, 2))),
			want:   []string{"east", "west"},
		},
		"a hub that is behind one more cluster": {
			before: app(entry("east", ready, 2), withHubBehind(entry("north", ready, 2)), entry("west", ready, 2)),
			after:  app(entry("east", ready, 2), withHubBehind(entry("north", ready, 2)), withHubBehind(entry("west", ready, 2))),
			want:   []string{"west"},
		},
		"a hub that is no longer behind": {
			before: app(entry("east", ready, 2), withHubBehind(entry("west", ready, 2))),
			after:  app(entry("east", ready, 2), entry("west", ready, 2)),
			want:   []string{"east", "west"},
		},
		"another annotation": {
			before: app(entry("east", ready, 2)),
			after: func() *v1alpha1.AppService {
				a := app(entry("east", ready, 2))
				a.Annotations = map[string]string{"a": "b"}
				return a
			}(),
		},
		"another AppService of that name": {
			before: func() *v1alpha1.AppService { a := app(entry("east", ready, 2)); a.UID = "uid-0"; return a }(),
			after:  app(entry("east", ready, 2)),
			want:   []string{"east"},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			d := delivererOf(hubCached, testHubID, nil)
			members := []string{"east", "west"}
			for _, member := range members {
				d.engagements[(&setup{cluster: member}).clusterName()] = []*engagement{idleEngagement(nil)}
			}
			d.dispatch(t.Context(), test.before, test.after)
			var got []string
			for _, member := range members {
				q := d.queueOf(&setup{cluster: member})
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
