package delivery

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/entries"
	"github.com/fleetwright/fleetwright/controllers/entries/appslice"
	"github.com/fleetwright/fleetwright/controllers/observation"
	"github.com/fleetwright/fleetwright/internal/wait"
)

// startedInSlices returns a setup whose entries are in AppServiceSlices, and a running operator.
func startedInSlices(t *testing.T, changes ...func(*v1alpha1.AppService)) *setup {
	s := newSetup(t, changes...)
	s.inSlices = true
	s.start()
	return s
}

// deliveredInSlices returns a setup with an AppService that its member runs, and whose entries are
// in AppServiceSlices.
func deliveredInSlices(t *testing.T, changes ...func(*v1alpha1.AppService)) *setup {
	s := startedInSlices(t, changes...)
	s.plan()
	s.expectReport(s.ready())
	return s
}

// writeSlices acts as the planner: it writes the slices that differ from these entries.
func (s *setup) writeSlices(all []v1alpha1.ClusterStatus) {
	s.Helper()
	stored, err := entries.ReadSlices(s.Context(), onHub, s.app)
	s.must(err)
	for slot, want := range appslice.Split(s.app, all) {
		switch have := stored[slot]; {
		case have == nil:
			left := &v1alpha1.AppServiceSlice{ObjectMeta: metav1.ObjectMeta{Namespace: want.Namespace, Name: want.Name}}
			s.must(client.IgnoreNotFound(onHub.Delete(s.Context(), left)))
			s.must(onHub.Create(s.Context(), want))
		case !appslice.IsStored(have, want):
			s.must(onHub.Update(s.Context(), appslice.Replace(have, want)))
		}
	}
}

// compareSlices returns an error unless the cache of the hub has the AppService's slices as they
// are.
func (s *setup) compareSlices() error {
	versions := func(from client.Reader) map[string]string {
		var list v1alpha1.AppServiceSliceList
		s.must(from.List(s.Context(), &list, client.InNamespace(s.app.Namespace)))
		versions := map[string]string{}
		for _, slice := range list.Items {
			versions[slice.Name] = slice.ResourceVersion
		}
		return versions
	}
	if diff := cmp.Diff(versions(onHub), versions(hubCached.GetClient())); diff != "" {
		return fmt.Errorf("slices (-server +cache):\n%s", diff)
	}
	return nil
}

// entry returns the entry of the member on the hub, or nil.
func (s *setup) entry() *v1alpha1.ClusterStatus {
	s.Helper()
	entry, _, err := entries.Of(s.Context(), onHub, s.app, s.cluster)
	s.must(err)
	return entry
}

// slice returns the slice of the member on the hub.
func (s *setup) slice() *v1alpha1.AppServiceSlice {
	s.Helper()
	slice := &v1alpha1.AppServiceSlice{}
	key := client.ObjectKey{Namespace: s.app.Namespace, Name: v1alpha1.SliceName(s.app.Name, v1alpha1.SlotOf(s.cluster))}
	s.must(onHub.Get(s.Context(), key, slice))
	return slice
}

// deleteSlice deletes the slice of the member, as a user may do.
func (s *setup) deleteSlice() { s.must(onHub.Delete(s.Context(), s.slice())) }

// replaceSlice replaces the slice of the member by one with the same entries that belongs to
// another AppService.
func (s *setup) replaceSlice() {
	s.Helper()
	slice := s.slice()
	s.deleteSlice()
	slice.UID, slice.ResourceVersion, slice.AppService.UID = "", "", "another"
	s.must(onHub.Create(s.Context(), slice))
}

func withBehindEntry(entry *v1alpha1.ClusterStatus) { *entry = withHubBehind(*entry) }

func TestSlices_are_delivered(t *testing.T) {
	t.Parallel()
	s := deliveredInSlices(t)
	s.expectWorkload(running)
	s.expectAtRestAlsoAfterRestart()

	s.editTemplate(editImage)
	s.storeRevision() // delivery may see the slice before the status, and then reads the revision
	s.plan()
	s.expectReport(s.ready())
	s.expectWorkload("1 × web:2 A=1; ClusterIP 80→8080/TCP")

	s.plan(withPhase(v1alpha1.ClusterRemoving), enteredNow)
	s.expectReport(s.removing(s.confirmed))
	s.expectWorkload("no Deployment; no Service")
	s.restart()
	s.expectReport(s.removing(s.confirmed))
	s.expectNoRequests(t, "DELETE", "PATCH", "POST")
}

func TestEntries_move_to_slices_and_back_without_a_change(t *testing.T) {
	t.Parallel()
	s := deliveredSetup(t)
	for _, inSlices := range []bool{true, false} {
		s.catchUp()
		s.sent.reset()
		s.inSlices = inSlices
		s.plan()
		seen, _, err := s.reconcileOnce()
		s.must(err)
		if diff := cmp.Diff(s.ready(), seen); diff != "" {
			t.Errorf("in slices: %v: reported (-want +got):\n%s", inSlices, diff)
		}
		s.expectNoRequests(t, "DELETE", "PATCH", "POST")
	}
}

// Invariant 2, with stale slices in the cache: a live read of the slice verifies the deletion
// first.
func TestRemoval_that_the_slice_does_not_verify_deletes_nothing(t *testing.T) {
	t.Parallel()
	tests := map[string]func(*setup){
		"after the entry was planned again":             func(s *setup) { s.plan() },
		"after the entry was removed":                   func(s *setup) { s.writeEntries() },
		"after the entry became Detached":               func(s *setup) { s.plan(withPhase(v1alpha1.ClusterDetached)) },
		"after this cluster was found ahead of the hub": func(s *setup) { s.plan(withPhase(v1alpha1.ClusterRemoving), withBehindEntry) },
		"after another cluster was found ahead of the hub": func(s *setup) {
			s.app.Status.Summary.HubBehind = 1
			s.plan(withPhase(v1alpha1.ClusterRemoving))
		},
		"after the slice was deleted":                     (*setup).deleteSlice,
		"after a slice of another AppService replaced it": (*setup).replaceSlice,
		"after the entries moved back": func(s *setup) {
			s.inSlices = false
			s.plan()
		},
	}
	for name, change := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := deliveredInSlices(t)
			s.end()
			s.plan(withPhase(v1alpha1.ClusterRemoving))
			cached := []client.Object{s.app.DeepCopy(), s.slice()}
			change(s)
			s.connect() // with an up-to-date cache, a removal may continue after an edit
			_, _, _ = s.reconcileWith(staleCluster{hubCached, cached}, s.member)
			if got := s.describeWorkload(); got != running {
				t.Error("the member runs", got)
			}
			s.expectNoRequests(t, "DELETE")
		})
	}
}

// Invariant 2: a missing slice is no evidence that it had no entry for this member.
func TestMissing_slice(t *testing.T) {
	t.Parallel()
	tests := map[string]func(*setup){"that was deleted": (*setup).deleteSlice, "that another AppService has": (*setup).replaceSlice}
	for name, remove := range tests {
		t.Run(name+" changes nothing", func(t *testing.T) {
			t.Parallel()
			s := deliveredInSlices(t)
			s.end()
			s.connect()
			w := s.newReconciler()
			w.reconcileOnce()
			s.sent.reset()
			remove(s)
			s.edit(editImage)
			before, memory := len(w.reported.all(s.key(), s.cluster)), w.memories.of(s.app)
			w.reconcileOnce()
			if all := w.reported.all(s.key(), s.cluster); len(all) != before {
				t.Errorf("reported %+v", all[before:])
			}
			if w.memories.of(s.app) != memory {
				t.Error("the memory of the AppService is lost")
			}
			s.expectWorkload(running)
			s.expectRequests()
		})
		t.Run(name+" returns without the entry", func(t *testing.T) {
			t.Parallel()
			s := deliveredInSlices(t)
			s.restart() // the new operator has sent nothing, so it does not reconcile again by itself
			s.expectReport(s.ready())
			remove(s)
			s.catchUp()
			if seen := s.reported.last(s.key(), s.cluster); seen.Found {
				t.Errorf("reported %+v while the slice is missing", seen)
			}
			s.writeEntries()
			s.expectReport(observation.Observation{UID: s.app.UID, Found: true, Revision: 1, Planned: 1})
			s.expectWorkload(running)
			s.expectNoRequests(t, "DELETE", "PATCH", "POST")
		})
		t.Run(name+" returns while no operator runs", func(t *testing.T) {
			t.Parallel()
			s := deliveredInSlices(t)
			s.end()
			remove(s)
			s.writeEntries()
			s.catchUp()
			s.start()
			s.expectReport(observation.Observation{UID: s.app.UID, Found: true, Revision: 1, Planned: 1})
			s.expectNoRequests(t, "DELETE", "PATCH", "POST")
		})
	}
}

// While the hub is behind any cluster, nothing changes. The slice of a cluster has only its own
// entries, so the summary says it for all others.
func TestHubBehind_in_slices_holds(t *testing.T) {
	t.Parallel()
	tests := map[string]func(s *setup, isBehind bool){
		"the cluster itself": func(s *setup, isBehind bool) {
			s.plan(func(entry *v1alpha1.ClusterStatus) {
				if isBehind {
					withBehindEntry(entry)
				}
			})
		},
		"all other clusters": func(s *setup, isBehind bool) {
			s.app.Status.Summary.HubBehind = 0
			if isBehind {
				s.app.Status.Summary.HubBehind = 1
			}
			s.plan()
		},
	}
	for name, plan := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := deliveredInSlices(t)
			s.restart()
			s.expectReport(s.ready())
			plan(s, true)
			s.edit(editImage)
			plan(s, true)
			_, _, err := s.reconcileOnce()
			s.must(err)
			s.expectNoRequests(t, "DELETE", "PATCH", "POST")
			s.expectWorkload(running)

			plan(s, false)
			s.expectReport(s.ready())
			s.expectWorkload("1 × web:2 A=1; ClusterIP 80→8080/TCP")
		})
	}
}

// inSlices returns an AppService whose entries are in slices, and the slices.
func inSlices(app *v1alpha1.AppService) (*v1alpha1.AppService, appslice.Slices) {
	split := appslice.Split(app, app.Status.Clusters)
	app.Status.Summary.Clusters = int32(len(app.Status.Clusters))
	app.Status.ClustersIn, app.Status.Clusters = v1alpha1.ClustersInSlices, nil
	return app, split
}

// sameSlot returns the name of a cluster in the slot of another one.
func sameSlot(cluster string) string {
	for i := 0; ; i++ {
		if name := fmt.Sprintf("%s-%d", cluster, i); v1alpha1.SlotOf(name) == v1alpha1.SlotOf(cluster) {
			return name
		}
	}
}

// A change of the slices, or of an AppService whose entries are in slices, enqueues only the
// members that it concerns.
func TestDispatch_of_slices(t *testing.T) {
	t.Parallel()
	ready, removing := v1alpha1.ClusterReady, v1alpha1.ClusterRemoving
	beside := sameSlot("east")
	members := []string{"east", beside, "west"}
	// change dispatches the change of one slice from these entries of it to those.
	change := func(d *Deliverer, from, to []v1alpha1.ClusterStatus, changes ...func(after *v1alpha1.AppServiceSlice)) {
		slot := v1alpha1.SlotOf("east")
		_, before := inSlices(app(from...))
		_, after := inSlices(app(to...))
		before[slot].UID, after[slot].UID = "slice-1", "slice-1"
		for _, change := range changes {
			change(after[slot])
		}
		d.sliceEvents().OnUpdate(before[slot], after[slot])
	}
	list := func(all ...v1alpha1.ClusterStatus) []v1alpha1.ClusterStatus { return all }
	both := list(entry("east", ready, 2), entry("west", ready, 2))
	stored, hub := inSlices(app(both...))
	edited := stored.DeepCopy()
	edited.Generation++
	behind := stored.DeepCopy()
	behind.Status.Summary.HubBehind = 1
	counted := stored.DeepCopy()
	counted.Status.Summary.Ready = 1
	behindOne := behind.DeepCopy()
	behindOne.Status.Summary.HubBehind = 2
	unrecorded := stored.DeepCopy()
	unrecorded.Status.PlannedSpecs = []v1alpha1.PlannedSpec{{Generation: 1}}
	recorded := stored.DeepCopy()
	recorded.Status.PlannedSpecs = []v1alpha1.PlannedSpec{{Generation: 2}, {Generation: 1}}
	_, partly := inSlices(app(entry("east", ready, 2), entry("west", ready, 1)))

	tests := map[string]struct {
		dispatch func(d *Deliverer)
		hub      appslice.Slices // the slices in the cache
		want     []string
	}{
		"a changed entry": {
			dispatch: func(d *Deliverer) {
				change(d, list(entry("east", ready, 2), entry(beside, ready, 2)), list(entry("east", removing, 2), entry(beside, ready, 2)))
			},
			want: []string{"east"},
		},
		"an observation": {
			dispatch: func(d *Deliverer) {
				change(d, list(entry("east", ready, 2)), list(entry("east", v1alpha1.ClusterFailed, 2)))
			},
		},
		"one more entry": {
			dispatch: func(d *Deliverer) {
				change(d, list(entry("east", ready, 2)), list(entry("east", ready, 2), entry(beside, ready, 2)))
			},
			want: []string{beside},
		},
		"a lost entry": {
			dispatch: func(d *Deliverer) {
				change(d, list(entry("east", ready, 2), entry(beside, ready, 2)), list(entry(beside, ready, 2)))
			},
			want: []string{"east"},
		},
		"a removed entry": {
			dispatch: func(d *Deliverer) {
				change(d, list(entry("east", removing, 2), entry(beside, ready, 2)), list(entry(beside, ready, 2)))
			},
		},
		"a new slice": {
			dispatch: func(d *Deliverer) { d.sliceEvents().OnAdd(hub[v1alpha1.SlotOf("east")], false) },
			want:     []string{"east", beside},
		},
		"a slice that replaces another one": { // a watch that lists again shows the last state only
			dispatch: func(d *Deliverer) {
				change(d, nil, nil, func(after *v1alpha1.AppServiceSlice) { after.UID = "slice-2" })
			},
			want: []string{"east", beside},
		},
		"a slice of another AppService that becomes a slice of this one": {
			dispatch: func(d *Deliverer) {
				_, before := inSlices(app(entry("east", ready, 2)))
				_, after := inSlices(app(entry("east", ready, 2)))
				slot := v1alpha1.SlotOf("east")
				before[slot].AppService.UID = "another"
				d.sliceEvents().OnUpdate(before[slot], after[slot])
			},
			want: []string{"east", beside},
		},
		"a deleted slice": {
			dispatch: func(d *Deliverer) { d.sliceEvents().OnDelete(hub[v1alpha1.SlotOf("east")]) },
		},
		"entries that move to slices with a new one": {
			dispatch: func(d *Deliverer) { d.dispatch(t.Context(), app(both[0]), stored) },
			hub:      hub,
			want:     []string{"east", "west"},
		},
		"entries that move to slices that the cache does not have yet": {
			dispatch: func(d *Deliverer) { d.dispatch(t.Context(), app(both...), stored) },
			want:     []string{"east", "west"},
		},
		"entries that move back": {
			dispatch: func(d *Deliverer) { d.dispatch(t.Context(), stored, app(both...)) },
			want:     []string{"east", "west"},
		},
		"an edit": {
			dispatch: func(d *Deliverer) { d.dispatch(t.Context(), stored, edited) },
			hub:      hub,
			want:     []string{"east", "west"},
		},
		"a status that records the edit after the slices": {
			dispatch: func(d *Deliverer) { d.dispatch(t.Context(), unrecorded, recorded) },
			hub:      partly,
			want:     []string{"east"},
		},
		"a summary": {
			dispatch: func(d *Deliverer) { d.dispatch(t.Context(), stored, counted) },
			hub:      hub,
		},
		"a hub that is behind one cluster stops all": {
			dispatch: func(d *Deliverer) { d.dispatch(t.Context(), stored, behind) },
			hub:      hub,
			want:     []string{"east", "west"},
		},
		"a hub that is behind one more cluster": {
			dispatch: func(d *Deliverer) { d.dispatch(t.Context(), behind, behindOne) },
			hub:      hub,
		},
		"a hub that is no longer behind": {
			dispatch: func(d *Deliverer) { d.dispatch(t.Context(), behind, stored) },
			hub:      hub,
			want:     []string{"east", "west"},
		},
		"a deleted AppService": { // its slices may be gone, so any member may have had an entry
			dispatch: func(d *Deliverer) { d.dispatchDeleted(stored) },
			want:     members,
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			var cached []client.Object
			for _, slice := range test.hub {
				if slice != nil {
					slice = slice.DeepCopy()
					slice.UID = "slice-1"
					cached = append(cached, slice)
				}
			}
			d := delivererOf(staleCluster{hubCached, cached}, testHubID, nil)
			for _, member := range members {
				d.engagements[(&setup{cluster: member}).clusterName()] = []*engagement{idleEngagement(nil)}
			}
			test.dispatch(d)
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

func TestTombstone_with_an_AppService_in_slices(t *testing.T) {
	t.Parallel()
	const waits, done = true, false
	// placedHere makes the AppService want this member.
	placedHere := func(app *v1alpha1.AppService) { app.Spec.Placement = nil }
	tests := map[string]struct {
		recreated bool // the tombstone is of an earlier AppService of that name
		spec      func(*v1alpha1.AppService)
		given     func(*setup)
		deletes   bool
		waits     bool
	}{
		"of the same UID with an entry": {given: func(s *setup) { s.plan() }, waits: done},
		"of the same UID with a Removing entry": {
			given: func(s *setup) { s.plan(withPhase(v1alpha1.ClusterRemoving)) },
			waits: waits,
		},
		"of the same UID without an entry":         {given: func(s *setup) { s.writeEntries() }, waits: waits},
		"of the same UID without the slice":        {given: func(s *setup) { s.plan(); s.deleteSlice() }, waits: waits},
		"of the same UID with a replaced slice":    {given: func(s *setup) { s.plan(); s.replaceSlice() }, waits: waits},
		"of an earlier AppService with an entry":   {recreated: true, given: func(s *setup) { s.plan() }, waits: waits},
		"of an earlier AppService without a slice": {recreated: true, given: func(s *setup) { s.plan(); s.deleteSlice() }, waits: waits},
		"of an earlier AppService with a Removing entry": {
			recreated: true,
			given:     func(s *setup) { s.plan(withPhase(v1alpha1.ClusterRemoving)) },
			deletes:   true,
			waits:     waits,
		},
		"of an earlier AppService with a Removing entry of a cluster that is ahead of the hub": {
			recreated: true,
			given:     func(s *setup) { s.plan(withPhase(v1alpha1.ClusterRemoving), withBehindEntry) },
			waits:     waits,
		},
		"of an earlier AppService while another cluster is ahead of the hub": {
			recreated: true,
			given: func(s *setup) {
				s.app.Status.Summary.HubBehind = 1
				s.plan(withPhase(v1alpha1.ClusterRemoving))
			},
			waits: waits,
		},
		"of an earlier AppService that is about to be placed here": {
			recreated: true,
			spec:      placedHere,
			given:     func(s *setup) { s.writeEntries() },
			waits:     waits,
		},
		"of an earlier AppService that is placed elsewhere": {
			recreated: true,
			spec:      func(app *v1alpha1.AppService) { app.Spec.Placement = onClusters("elsewhere") },
			given:     func(s *setup) { s.writeEntries() },
			deletes:   true,
			waits:     waits,
		},
		"of an earlier AppService whose only cluster is another one": {
			recreated: true,
			given:     func(s *setup) { s.keepOnOther() },
			deletes:   true,
			waits:     waits,
		},
		"of an earlier AppService whose only cluster has no slice": {
			recreated: true,
			given: func(s *setup) {
				other := s.keepOnOther()
				other.deleteSlice()
			},
			waits: waits,
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := deliveredInSlices(t)
			s.end()
			uid := s.app.UID
			if test.recreated {
				s.recreateApp(func(app *v1alpha1.AppService) {
					if test.spec != nil {
						test.spec(app)
					}
				})
			}
			test.given(s)
			s.connect()
			w := s.newReconciler()
			s.catchUp()
			left, err := w.tombstones.processOne(t.Context(), v1alpha1.AbandonedAppService{Namespace: s.app.Namespace, Name: s.app.Name, UID: uid})
			s.must(err)
			if got := left > 0; got != test.waits {
				t.Errorf("%d objects are left", left)
			}
			deletes := slices.ContainsFunc(s.sent.all(), func(request string) bool { return strings.HasPrefix(request, "DELETE ") })
			if deletes != test.deletes {
				t.Errorf("sent %v", s.sent.all())
			}
		})
	}
}

func onClusters(names ...string) *v1alpha1.Placement {
	return &v1alpha1.Placement{ClusterMatch: v1alpha1.ClusterMatch{ClusterNames: names}}
}

// keepOnOther places the AppService on this or another member, and plans it on the other one. Both
// are Ready. It returns the setup of the other one.
func (s *setup) keepOnOther() *setup {
	s.Helper()
	// A name that is later in the alphabet: only its entry makes placement choose it.
	other := s.onOtherMember("west")
	s.edit(func(app *v1alpha1.AppService) {
		app.Spec.Placement = onClusters(s.cluster, other.cluster)
		app.Spec.Placement.Limit = new(int32(1))
	})
	for _, name := range []string{s.cluster, other.cluster} {
		mc := &v1alpha1.MemberCluster{}
		s.must(onHub.Get(s.Context(), client.ObjectKey{Name: name}, mc))
		meta.SetStatusCondition(&mc.Status.Conditions, metav1.Condition{Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue, Reason: "Probed"})
		s.must(onHub.Status().Update(s.Context(), mc))
		wait.Eventually(s.T, func() error {
			cached := &v1alpha1.MemberCluster{}
			if err := hubCached.GetClient().Get(s.Context(), client.ObjectKey{Name: name}, cached); err != nil || !cached.IsReady() {
				return errors.Join(err, fmt.Errorf("the cache has %+v", cached.Status))
			}
			return nil
		})
	}
	s.plan(func(entry *v1alpha1.ClusterStatus) { entry.Name = other.cluster })
	return other
}
