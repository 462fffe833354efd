package planner

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/entries"
	"github.com/fleetwright/fleetwright/controllers/entries/appslice"
	"github.com/fleetwright/fleetwright/controllers/observation"
	"github.com/fleetwright/fleetwright/internal/wait"
)

// sliceThreshold is the threshold of the tests of slices. Four clusters are above it, and the
// entries move back when there are two.
const sliceThreshold = 3

var four = []string{"east", "north", "south", "west"}

// newSliced returns a scene with an AppService that four members run, with its entries in slices.
func newSliced(t *testing.T) *fixture {
	s := newFixture(t)
	s.stop()
	s.options.SliceThreshold = sliceThreshold
	for _, member := range four {
		s.join(member)
	}
	s.start()
	s.createApp()
	s.reportReady(four...)
	s.waitForSlices(v1alpha1.SliceCount)
	return s
}

// listSlices returns the slices in the namespace of the AppService.
func (s *fixture) listSlices() []v1alpha1.AppServiceSlice {
	s.Helper()
	var list v1alpha1.AppServiceSliceList
	s.must(s.hub.List(s.Context(), &list, client.InNamespace(s.app.Namespace)))
	return list.Items
}

// slicesReader returns AppServiceSlices that were listed with one request. Package entries gets them
// one by one, which is only fast from a cache.
type slicesReader struct {
	client.Reader
	slices map[string]*v1alpha1.AppServiceSlice
}

// listSlicesReader lists the slices of the namespace.
func (s *fixture) listSlicesReader() slicesReader {
	s.Helper()
	r := slicesReader{s.hub, map[string]*v1alpha1.AppServiceSlice{}}
	for _, slice := range s.listSlices() {
		r.slices[slice.Name] = &slice
	}
	return r
}

// Get is part of [client.Reader].
func (r slicesReader) Get(_ context.Context, key client.ObjectKey, object client.Object, _ ...client.GetOption) error {
	slice := r.slices[key.Name]
	if slice == nil {
		return apierrors.NewNotFound(v1alpha1.GroupVersion.WithResource("appserviceslices").GroupResource(), key.Name)
	}
	slice.DeepCopyInto(object.(*v1alpha1.AppServiceSlice))
	return nil
}

// waitForSlices waits until there are this many slices.
func (s *fixture) waitForSlices(want int) {
	s.Helper()
	wait.Eventually(s.T, func() error {
		if got := len(s.listSlices()); got != want {
			return fmt.Errorf("%d slices, want %d", got, want)
		}
		return nil
	})
}

// slice returns the slice that a member belongs to.
func (s *fixture) slice(member string) *v1alpha1.AppServiceSlice {
	s.Helper()
	slice := &v1alpha1.AppServiceSlice{}
	s.must(s.hub.Get(s.Context(), client.ObjectKey{Namespace: s.app.Namespace, Name: v1alpha1.SliceName(s.app.Name, v1alpha1.SlotOf(member))}, slice))
	return slice
}

// allReady returns the entries of members that are Ready.
func (s *fixture) allReady(members ...string) []v1alpha1.ClusterStatus {
	var all []v1alpha1.ClusterStatus
	for _, member := range members {
		all = append(all, s.entry(member, v1alpha1.ClusterReady))
	}
	return all
}

func TestEntries_move_to_slices_and_back(t *testing.T) {
	t.Parallel()
	s := newSliced(t)
	raw := &v1alpha1.AppService{}
	s.must(s.hub.Get(t.Context(), s.key(), raw))
	if raw.Status.ClustersIn != v1alpha1.ClustersInSlices || len(raw.Status.Clusters) != 0 || raw.Status.Summary.Display != "4/4" {
		t.Errorf("the status is %+v", raw.Status)
	}
	slice := s.slice("east")
	if slice.Labels[v1alpha1.LabelAppService] != "web" || slice.Labels[v1alpha1.LabelSlot] != "26" || slice.Summary.Display != "1/1" ||
		slice.AppService.UID != s.app.UID || len(slice.OwnerReferences) != 1 || slice.OwnerReferences[0].UID != s.app.UID {
		t.Errorf("the slice is %+v", slice)
	}
	s.waitForCache()
	s.checkMemberCounts(four...)

	s.edit(annotate(v1alpha1.AnnotationAcceptRemovals, "2@2"))
	s.edit(onlyOn("east", "north"))
	s.report("east", s.readyObservation())
	s.report("north", s.readyObservation())
	removing := func(member string) v1alpha1.ClusterStatus {
		return s.entry(member, v1alpha1.ClusterRemoving, atGeneration(1), applied(1, 2))
	}
	s.waitForEntries(s.entry("east", v1alpha1.ClusterReady), s.entry("north", v1alpha1.ClusterReady), removing("south"), removing("west"))
	for _, member := range []string{"south", "west"} {
		s.report(member, s.removalConfirmed(s.transitionTime(member)))
	}
	s.waitForEntries(s.allReady("east", "north")...)
	if s.app.Status.ClustersIn != "" {
		t.Errorf("two entries are in %s", s.app.Status.ClustersIn)
	}
	s.waitForSlices(0)
	s.checkMemberCounts("east", "north")
}

// checkMemberCounts waits until exactly these of the four MemberClusters count one AppService.
func (s *fixture) checkMemberCounts(members ...string) {
	s.Helper()
	var apps v1alpha1.AppServiceList
	var parts v1alpha1.AppServiceSliceList
	s.must(s.hub.List(s.Context(), &apps, client.InNamespace(s.app.Namespace)))
	s.must(s.hub.List(s.Context(), &parts, client.InNamespace(s.app.Namespace)))
	want := map[string]int32{}
	for _, member := range members {
		want[member] = 1
	}
	if diff := cmp.Diff(want, countByCluster(apps.Items, parts.Items)); diff != "" {
		s.Errorf("AppServices of each member (-want +got):\n%s", diff)
	}
}

// Invariant 5: a restart writes nothing, and a changed entry writes one slice and the AppService.
func TestChange_of_an_entry_in_a_slice_writes_this_slice_and_the_AppService(t *testing.T) {
	t.Parallel()
	s := newSliced(t)
	s.restart()
	s.reconcileOnce()
	s.checkWrites()
	failed := s.readyObservation()
	failed.Phase, failed.Reason, failed.Message = v1alpha1.ClusterFailed, v1alpha1.ReasonRefused, "no"
	s.report("east", failed)
	s.waitForEntries(append([]v1alpha1.ClusterStatus{s.entry("east", v1alpha1.ClusterFailed, withReason(v1alpha1.ReasonRefused, "no"))}, s.allReady("north", "south", "west")...)...)
	wait.Eventually(t, func() error {
		s.readApp()
		if worst := s.app.Status.WorstClusters; len(worst) != 1 || worst[0].Name != "east" {
			return fmt.Errorf("the worst clusters are %+v", worst)
		}
		return nil
	})
	s.checkWrites("PUT appserviceslices/web-26", statusWrite)
}

// Invariant 8: the entry is in its slice before the status says that the generation is planned.
// What limits later plans is written first.
func TestSlices_are_written_before_the_status(t *testing.T) {
	t.Parallel()
	s := newSliced(t)
	s.sent.reset()
	s.edit(func(app *v1alpha1.AppService) { app.Spec.Image = "web:2" })
	old := func(entry *v1alpha1.ClusterStatus) { applied(1, 2)(entry) }
	var want []v1alpha1.ClusterStatus
	for _, member := range four {
		want = append(want, s.entry(member, v1alpha1.ClusterProgressing, old))
	}
	s.waitForEntries(want...)
	writes := s.sent.list()
	if len(writes) != 7 || writes[0].line != revisionWrite || writes[1].line != statusWrite || writes[6].line != statusWrite {
		t.Fatalf("writes %v", s.sent.lines())
	}
	if first := writes[1].body; !strings.Contains(first, "plannedSpecs") || !strings.Contains(first, `"revision":2`) || strings.Contains(first, `"observedGeneration":2`) {
		t.Errorf("first write of the status %s", first)
	}
	if !strings.Contains(writes[6].body, `"observedGeneration":2`) {
		t.Errorf("last write %s", writes[6].body)
	}
}

// Each of these is done by a person, or by a tool that prunes what it does not know.
func TestSlices_are_corrected(t *testing.T) {
	t.Parallel()
	update := func(change func(*v1alpha1.AppServiceSlice)) func(*fixture) {
		return func(s *fixture) {
			slice := s.slice("east")
			change(slice)
			s.must(s.hub.Update(s.Context(), slice))
		}
	}
	east := v1alpha1.ClusterStatus{Name: "east", Phase: v1alpha1.ClusterReady, LastTransitionTime: metav1.Now(), Replicas: 9}
	tests := map[string]func(*fixture){
		"an entry that occurs twice": update(func(slice *v1alpha1.AppServiceSlice) { slice.Clusters = append(slice.Clusters, east) }),
		"an entry of another slot": update(func(slice *v1alpha1.AppServiceSlice) {
			slice.Clusters = append(slice.Clusters, v1alpha1.ClusterStatus{Name: "west", Phase: v1alpha1.ClusterFailed, LastTransitionTime: metav1.Now()})
		}),
		"no label":                          update(func(slice *v1alpha1.AppServiceSlice) { slice.Labels = nil }),
		"a senseless slot":                  update(func(slice *v1alpha1.AppServiceSlice) { slice.Slot, slice.Labels[v1alpha1.LabelSlot] = 63, "no" }),
		"the slot label of another slice":   update(func(slice *v1alpha1.AppServiceSlice) { slice.Labels[v1alpha1.LabelSlot] = "7" }),
		"no owner":                          update(func(slice *v1alpha1.AppServiceSlice) { slice.OwnerReferences = nil }),
		"the UID of another AppService":     update(func(slice *v1alpha1.AppServiceSlice) { slice.AppService.UID = "uid-of-another" }),
		"a slice that was deleted":          func(s *fixture) { s.must(s.hub.Delete(s.Context(), s.slice("east"))) },
		"an empty slice that was deleted":   func(s *fixture) { s.must(s.hub.Delete(s.Context(), s.slice("member-in-slot-of-nobody"))) },
		"a slice that lost all its entries": update(func(slice *v1alpha1.AppServiceSlice) { slice.Clusters = nil }),
	}
	for name, damage := range tests {
		t.Run(name, func(t *testing.T) {
			s := newSliced(t)
			damage(s)
			wait.Eventually(t, func() error {
				s.readApp()
				want := appslice.Split(s.app, s.app.Status.Clusters)
				stored, err := entries.ReadSlices(t.Context(), s.listSlicesReader(), s.app)
				s.must(err)
				for slot := range want {
					if !appslice.IsStored(stored[slot], want[slot]) {
						return fmt.Errorf("slice %d is not corrected:\n%s", slot, cmp.Diff(want[slot], stored[slot]))
					}
				}
				if s.app.Status.Cluster("east") == nil || len(s.app.Status.Clusters) != 4 {
					return fmt.Errorf("entries %+v", s.app.Status.Clusters)
				}
				return nil
			})
		})
	}
}

// The name of a slice may be taken by one that a previous AppService left.
func TestSlices_of_a_previous_AppService_are_replaced(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	s.stop()
	s.options.SliceThreshold = sliceThreshold
	previous := s.app.DeepCopy()
	previous.UID = "uid-of-another"
	left := appslice.Split(previous, []v1alpha1.ClusterStatus{{Name: "east", Phase: v1alpha1.ClusterReady, LastTransitionTime: metav1.Now()}})[v1alpha1.SlotOf("east")]
	s.must(s.hub.Create(t.Context(), left))
	for _, member := range four {
		s.join(member)
	}
	s.start()
	s.createApp()
	s.reportReady(four...)
	if slice := s.slice("east"); slice.AppService.UID != s.app.UID {
		t.Errorf("the slice belongs to %s", slice.AppService.UID)
	}
}

// Slices that no status names are left over from a crash, or from a hub that was restored.
func TestLeftover_slices_are_deleted(t *testing.T) {
	t.Parallel()
	s := newRunning(t, "east")
	for _, slice := range appslice.Split(s.app, []v1alpha1.ClusterStatus{{Name: "west", Phase: v1alpha1.ClusterReady, LastTransitionTime: metav1.Now()}}) {
		s.must(s.hub.Create(t.Context(), slice))
	}
	s.waitForSlices(0)
	s.waitForEntries(s.allReady("east")...)
}

// An older version does not know slices. It has removed the AppService from all clusters, and written a
// status without entries. What the slices still have is older, also the removal of a cluster that has
// joined again since.
func TestSlices_of_before_a_rollback_are_not_the_record(t *testing.T) {
	t.Parallel()
	s := newSlicedRemoving(t)
	s.stop()
	s.edit(onlyOn("nowhere"))
	raw := &v1alpha1.AppService{}
	s.must(s.hub.Get(t.Context(), s.key(), raw))
	raw.Status.ObservedGeneration, raw.Status.Summary = raw.Generation, v1alpha1.ClusterSummary{Display: "0/0"}
	s.must(s.hub.Status().Update(t.Context(), raw))
	if all, _, err := entries.Read(t.Context(), s.hub, raw); err != nil || len(all) > 0 {
		t.Errorf("delivery acts on entries that the older version has removed: %+v (%v)", all, err)
	}
	s.start()
	s.waitForSlices(0)
	s.waitForEntries()
	if s.app.Status.ClustersIn != "" {
		t.Errorf("no entries are in %s", s.app.Status.ClustersIn)
	}
}

// A plan from slices that are older than the planner's own last write could exceed a limit, and
// would have no conflict.
func TestSlices_that_are_stale_are_not_planned_from(t *testing.T) {
	t.Parallel()
	s := newSliced(t)
	s.stop()
	r := s.reconciler(s.hub)
	_, err := r.Reconcile(t.Context(), s.request()) // reads the versions
	s.must(err)
	stale := &staleSlices{Client: s.hub, slice: s.slice("east")}
	r.hub, r.store.hub = stale, stale
	failed := s.readyObservation()
	failed.Phase, failed.Reason = v1alpha1.ClusterFailed, v1alpha1.ReasonRefused
	r.observations.Report(s.key(), "east", failed)
	r.throttle.forget(s.app.UID)
	_, err = r.Reconcile(t.Context(), s.request()) // writes the slice, which the cache does not show
	s.must(err)
	for range 2 {
		r.throttle.forget(s.app.UID)
		result, err := r.Reconcile(t.Context(), s.request())
		s.must(err)
		if result.RequeueAfter != staleRetry {
			t.Fatalf("the planner planned from a stale slice: %+v", result)
		}
		stale.slice = nil // the cache does not even have it
	}
	stale.isCurrent = true
	r.throttle.forget(s.app.UID)
	result, err := r.Reconcile(t.Context(), s.request())
	s.must(err)
	if result.RequeueAfter == staleRetry {
		t.Error("the planner still waits")
	}
}

// A new process reads the versions of the slices once, because the last one may have written them
// just before.
func TestSlices_that_another_process_wrote_are_not_planned_from_while_the_cache_is_behind(t *testing.T) {
	t.Parallel()
	s := newSliced(t)
	s.stop()
	stale := &staleSlices{Client: s.hub, slice: s.slice("east")}
	newer := s.slice("east")
	newer.Clusters[0].ReadyReplicas = 1
	s.must(s.hub.Update(t.Context(), newer))
	r := s.reconciler(stale)
	result, err := r.Reconcile(t.Context(), s.request())
	s.must(err)
	if result.RequeueAfter != staleRetry {
		t.Errorf("the planner planned from a stale slice: %+v", result)
	}
}

// The planner must not wait for ever for a version that no cache will ever show.
func TestPlanner_does_not_wait_for_versions_that_the_hub_does_not_have(t *testing.T) {
	t.Parallel()
	tests := map[string]func(*fixture, *Reconciler){
		"a hub that was restored has lower versions": func(s *fixture, r *Reconciler) {
			r.store.versions.recordApp(s.app, "999999999999")
		},
		"a slice has a lower version": func(s *fixture, r *Reconciler) {
			slice := s.slice("east")
			slice.ResourceVersion = "999999999999"
			r.store.versions.recordSlice(slice)
		},
		"a copy of a slice under another name": func(s *fixture, r *Reconciler) {
			copied := s.slice("east")
			copied.Name, copied.ResourceVersion, copied.UID = "web-copy", "", ""
			s.must(s.hub.Create(s.Context(), copied))
			r.store.versions.forgetSlices(s.app.UID)
		},
	}
	for name, confuse := range tests {
		t.Run(name, func(t *testing.T) {
			s := newSliced(t)
			s.stop()
			r := s.reconciler(s.hub)
			_, err := r.Reconcile(t.Context(), s.request())
			s.must(err)
			confuse(s, r)
			wait.Eventually(t, func() error {
				r.throttle.forget(s.app.UID)
				result, err := r.Reconcile(t.Context(), s.request())
				s.must(err)
				if result.RequeueAfter == staleRetry {
					return errors.New("the planner waits for its own write")
				}
				return nil
			})
		})
	}
}

// The response to the request that writes a slice may be lost.
func TestSlice_whose_response_was_lost_is_read_live(t *testing.T) {
	t.Parallel()
	s := newSliced(t)
	s.sent.loseResponses("/appserviceslices/web-26")
	failed := s.readyObservation()
	failed.Phase, failed.Reason = v1alpha1.ClusterFailed, v1alpha1.ReasonRefused
	s.report("east", failed)
	rest := s.allReady("north", "south", "west")
	s.waitForEntries(append([]v1alpha1.ClusterStatus{s.entry("east", v1alpha1.ClusterFailed, withReason(v1alpha1.ReasonRefused, ""))}, rest...)...)
	s.sent.loseResponses("")
	s.report("east", s.readyObservation())
	s.waitForEntries(s.allReady(four...)...)
}

// The cache shares memory with the entries that are written.
func TestWrite_of_a_slice_does_not_modify_its_entries(t *testing.T) {
	t.Parallel()
	s := newSliced(t)
	s.stop()
	addresses := []string{"10.0.0.1", "10.0.0.2"}
	all := []v1alpha1.ClusterStatus{{Name: "east", Phase: v1alpha1.ClusterReady, LastTransitionTime: metav1.Now(), Addresses: addresses}}
	want := appslice.Split(s.app, all)[v1alpha1.SlotOf("east")]
	slice := appslice.Replace(s.slice("east"), want)
	s.must(newStore(s.hub, s.hub).write(t.Context(), []*v1alpha1.AppServiceSlice{slice}))
	if &slice.Clusters[0].Addresses[0] != &addresses[0] || slice.ManagedFields == nil && slice.ResourceVersion == s.slice("east").ResourceVersion {
		t.Errorf("the response was decoded into the slice: %+v", slice)
	}
}

// Delivery holds all clusters by the summary, so a crash after the slices must not lose it.
func TestLimits_are_written_before_the_slices(t *testing.T) {
	current := v1alpha1.AppServiceStatus{ObservedGeneration: 1, Summary: v1alpha1.ClusterSummary{HubBehind: 1, Ready: 4}}
	next := v1alpha1.AppServiceStatus{
		ObservedGeneration: 2, Summary: v1alpha1.ClusterSummary{HubBehind: 2, Ready: 3}, Removals: v1alpha1.RemovalsStatus{Accepted: 1},
		PlannedSpecs: []v1alpha1.PlannedSpec{{Generation: 2}}, AcceptedStamps: []string{"a"},
	}
	want := next
	want.ObservedGeneration, want.Summary.Ready = 1, 4
	if diff := cmp.Diff(want, withLimits(current, next)); diff != "" {
		t.Errorf("limits (-want +got):\n%s", diff)
	}
	next.Summary.HubBehind = 0
	if got := withLimits(current, next).Summary.HubBehind; got != 1 {
		t.Errorf("the hold ends before the entries are written: %d", got)
	}
}

// staleSlices is a cache that is behind in the slice of the member east: it has an older version of
// it, or none.
type staleSlices struct {
	client.Client
	slice     *v1alpha1.AppServiceSlice
	isCurrent bool
}

func (c *staleSlices) Get(ctx context.Context, key client.ObjectKey, into client.Object, options ...client.GetOption) error {
	slice, isSlice := into.(*v1alpha1.AppServiceSlice)
	if !isSlice || c.isCurrent || key.Name != v1alpha1.SliceName("web", v1alpha1.SlotOf("east")) {
		return c.Client.Get(ctx, key, into, options...)
	}
	if c.slice == nil {
		return apierrors.NewNotFound(v1alpha1.GroupVersion.WithResource("appserviceslices").GroupResource(), key.Name)
	}
	c.slice.DeepCopyInto(slice)
	return nil
}

// A quota, a policy or a webhook may refuse slices. Then nothing is lost, and a condition says so.
func TestHub_that_refuses_slices(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	s.stop()
	s.options.SliceThreshold = sliceThreshold
	const counted = "count/appserviceslices.fleetwright.dev"
	none := corev1.ResourceList{counted: resource.MustParse("0")}
	quota := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Namespace: s.app.Namespace, Name: "none"}, Spec: corev1.ResourceQuotaSpec{Hard: none}}
	s.must(s.hub.Create(t.Context(), quota))
	quota.Status = corev1.ResourceQuotaStatus{Hard: none, Used: none}
	s.must(s.hub.Status().Update(t.Context(), quota)) // there is no quota controller
	trial := appslice.Split(s.app, nil)[0]
	trial.OwnerReferences = nil       // the AppService does not exist yet
	wait.Eventually(t, func() error { // until the API server knows the quota
		if err := s.hub.Create(t.Context(), trial.DeepCopy(), client.DryRunAll); !apierrors.IsForbidden(err) {
			return fmt.Errorf("the quota does not apply yet: %v", err) //nolint:errorlint // There may be no error.
		}
		return nil
	})
	for _, member := range four[:3] {
		s.join(member)
	}
	s.start()
	s.createApp()
	s.reportReady(four[:3]...)
	s.join("west")
	wait.Eventually(t, func() error {
		s.readApp()
		for _, condition := range s.app.Status.Conditions {
			if condition.Type == v1alpha1.ConditionStalled && condition.Reason == v1alpha1.ReasonSlicesRefused && strings.Contains(condition.Message, "exceeded quota") {
				return nil
			}
		}
		return fmt.Errorf("conditions %+v", s.app.Status.Conditions)
	})
	s.waitForEntries(s.allReady(four[:3]...)...)
	s.sent.reset()
	for range 5 { // what is refused is not tried again for each observation
		progressing := s.readyObservation()
		progressing.Phase = v1alpha1.ClusterProgressing
		s.report("east", progressing)
		s.report("east", s.readyObservation())
	}
	s.waitForCache()
	if lines := s.sent.lines(); len(lines) > 1 {
		t.Errorf("refused again: %v", lines)
	}
	s.must(s.hub.Delete(t.Context(), quota))
	s.waitForEntries(append(s.allReady(four[:3]...), s.entry("west", v1alpha1.ClusterPending))...)
	if s.app.Status.ClustersIn != v1alpha1.ClustersInSlices {
		t.Error("the entries are not in slices")
	}
}

func TestDeletion_of_an_AppService_with_slices(t *testing.T) {
	t.Parallel()
	s := newSliced(t)
	s.setReady("west", metav1.ConditionFalse)
	s.waitForEntries(append(s.allReady(four[:3]...), s.unknownEntry("west"))...)
	s.delete()
	s.waitForEntries(s.removingEntry("east"), s.removingEntry("north"), s.removingEntry("south"), s.unreachableEntry("west"))
	for _, member := range four[:3] {
		s.report(member, s.removalConfirmed(s.transitionTime(member)))
	}
	s.waitForEntries(s.unreachableEntry("west"))
	s.waitForSlices(0) // one entry has moved back
	s.waitForTombstones()
	s.edit(annotate(v1alpha1.AnnotationAbandon, "west"))
	s.waitForDeletion()
	s.waitForTombstones(s.tombstone())
	if left := s.listSlices(); len(left) != 0 {
		t.Errorf("%d slices are left", len(left))
	}
}

// A slice may be deleted by hand, or first by a deletion in the foreground. The planner knows what
// it had.
func TestSlice_that_is_deleted_while_the_planner_runs_loses_no_entry(t *testing.T) {
	t.Parallel()
	s := newSliced(t)
	want := s.slice("east").Clusters
	s.must(s.hub.Delete(t.Context(), s.slice("east")))
	wait.Eventually(t, func() error {
		slice := &v1alpha1.AppServiceSlice{}
		if err := s.hub.Get(t.Context(), client.ObjectKey{Namespace: s.app.Namespace, Name: v1alpha1.SliceName("web", v1alpha1.SlotOf("east"))}, slice); err != nil {
			return err
		}
		if diff := cmp.Diff(want, slice.Clusters); diff != "" {
			return fmt.Errorf("entries (-before +after):\n%s", diff)
		}
		return nil
	})
	for _, member := range four {
		s.must(s.hub.Delete(t.Context(), s.slice(member)))
	}
	s.delete()
	s.waitForEntries(s.removingEntry("east"), s.removingEntry("north"), s.removingEntry("south"), s.removingEntry("west"))
}

// If a slice was deleted while no planner ran, its entries are lost, but for those that the status names
// as the worst. So every cluster is asked.
func TestDeletion_while_a_slice_is_missing_asks_every_cluster(t *testing.T) {
	t.Parallel()
	s := newSliced(t)
	s.setReady("west", metav1.ConditionFalse)
	s.waitForEntries(append(s.allReady(four[:3]...), s.unknownEntry("west"))...)
	s.stop()
	for _, member := range []string{"east", "west"} {
		s.must(s.hub.Delete(t.Context(), s.slice(member)))
	}
	s.must(s.hub.Delete(t.Context(), s.app))
	s.start()
	s.readApp()
	asked := s.removingEntry("east")
	asked.Revision, asked.Replicas, asked.ObservedGeneration, asked.ReadyReplicas = 0, 0, 0, 0
	s.waitForEntries(asked, s.removingEntry("north"), s.removingEntry("south"), s.unreachableEntry("west"))
}

// The namespace controller deletes the objects of a namespace in any order. A removal that a user has
// asked for is completed, although its entry is deleted before the planner sees the deletion of the
// AppService.
func TestNamespace_deletion_that_deletes_the_slices_first_loses_no_removal(t *testing.T) {
	t.Parallel()
	s := newSlicedRemoving(t)
	s.must(s.hub.Delete(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.app.Namespace}}))
	s.deleteSlices()
	wait.Eventually(t, func() error { return s.checkStalled(v1alpha1.ReasonSlicesRefused) })
	s.must(s.hub.Delete(t.Context(), s.app))
	s.waitForDeletion()
	s.waitForTombstones(s.tombstone())
}

// The same while no planner runs. The status has the last state of the entries that are not Ready.
func TestNamespace_deletion_that_deletes_the_slices_while_no_planner_runs_loses_no_removal(t *testing.T) {
	t.Parallel()
	s := newSlicedRemoving(t)
	s.stop()
	s.must(s.hub.Delete(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.app.Namespace}}))
	s.deleteSlices()
	s.must(s.hub.Delete(t.Context(), s.app))
	s.start()
	s.waitForDeletion()
	s.waitForTombstones(s.tombstone())
}

// newSlicedRemoving returns a scene with entries in slices, in which an edit removes the AppService
// from west.
func newSlicedRemoving(t *testing.T) *fixture {
	t.Helper()
	s := newSliced(t)
	s.edit(onlyOn("east", "north", "south"))
	for _, member := range four[:3] {
		s.report(member, s.readyObservation())
	}
	s.waitForEntries(append(s.allReady(four[:3]...), s.entry("west", v1alpha1.ClusterRemoving, atGeneration(1), applied(1, 2)))...)
	return s
}

// A removal that was in progress goes on, and one of which nothing is known needs approval: delivery
// finds the workload where no entry is.
func TestSlices_that_are_deleted_while_no_planner_runs(t *testing.T) {
	t.Parallel()
	s := newSlicedRemoving(t)
	west := *s.app.Status.Cluster("west")
	s.stop()
	s.deleteSlices()
	s.edit(onlyOn("east", "north"))
	s.start()
	wait.Eventually(t, func() error {
		s.readApp()
		if got := s.app.Status.Cluster("west"); got == nil || !cmp.Equal(*got, west) {
			return fmt.Errorf("the entry of west (-want +got):\n%s", cmp.Diff(&west, got))
		}
		return nil
	})
	s.report("south", observation.Observation{UID: s.app.UID, Found: true, Planned: 2, Revision: 1, Placement: 1})
	wait.Eventually(t, func() error {
		s.readApp()
		if south := s.app.Status.Cluster("south"); south == nil || south.Transition.Type != v1alpha1.TransitionRemovalNeedsApproval {
			return fmt.Errorf("the entry of south is %+v", south)
		}
		return nil
	})
	s.report("west", s.removalConfirmed(west.LastTransitionTime))
	wait.Eventually(t, func() error {
		if s.readApp(); s.app.Status.Cluster("west") != nil {
			return errors.New("the removal from west is not completed")
		}
		return nil
	})
}

// The operator is killed at every request while the entries move to slices, and back.
func TestCrash_at_any_request_while_entries_move(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	s.stop()
	s.options.SliceThreshold = sliceThreshold
	for _, member := range four[:3] {
		s.join(member)
	}
	s.must(s.hub.Create(t.Context(), s.app))
	s.reconcileUntilKilled(1000)
	s.readApp()
	check := func(phase string, killed, want int) {
		t.Helper()
		s.readApp()
		var names []string
		for _, entry := range s.app.Status.Clusters {
			names = append(names, entry.Name)
		}
		if missing := slices.DeleteFunc(slices.Clone(four[:want]), func(name string) bool { return slices.Contains(names, name) }); len(missing) > 0 {
			t.Fatalf("%s, killed after %d writes: there is no entry for %v", phase, killed, missing)
		}
	}
	s.join("west")
	killed := 0
	for ; s.reconcileUntilKilled(killed); killed += 9 {
		check("moving to slices", killed, 3)
	}
	check("moved to slices", killed, 4)
	if s.app.Status.ClustersIn != v1alpha1.ClustersInSlices || len(s.listSlices()) != v1alpha1.SliceCount {
		t.Fatalf("%d entries in %q, %d slices", len(s.app.Status.Clusters), s.app.Status.ClustersIn, len(s.listSlices()))
	}
	for _, member := range four[2:] {
		s.detach(member)
	}
	s.edit(annotate(v1alpha1.AnnotationAbandon, "south,west"))
	s.reconcileUntilKilled(1000) // Detached
	for killed = 0; s.reconcileUntilKilled(killed); killed += 9 {
		check("moving back", killed, 2)
	}
	check("moved back", killed, 2)
	if s.app.Status.ClustersIn != "" || len(s.app.Status.Clusters) != 2 || len(s.listSlices()) != 0 {
		t.Errorf("%d entries in %q, %d slices", len(s.app.Status.Clusters), s.app.Status.ClustersIn, len(s.listSlices()))
	}
}

// reconcileUntilKilled reconciles with a new process until nothing is left to do, or until it has
// sent this many writes. It reports whether it was killed.
func (s *fixture) reconcileUntilKilled(writes int) bool {
	s.Helper()
	var left atomic.Int64
	left.Store(int64(writes))
	var wasKilled atomic.Bool
	config := rest.CopyConfig(s.hub.granted)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(r *http.Request) (*http.Response, error) {
			if r.Method != http.MethodGet && left.Add(-1) < 0 {
				wasKilled.Store(true)
				return nil, context.Canceled
			}
			return next.RoundTrip(r)
		})
	})
	c, err := client.New(config, client.Options{Scheme: kinds})
	s.must(err)
	r := s.reconciler(c)
	var list v1alpha1.AppServiceSliceList
	s.must(s.hub.List(s.Context(), &list, client.InNamespace(s.app.Namespace)))
	for i := range list.Items { // as the events of the start
		r.store.noteSlice(&list.Items[i])
	}
	for sent := int64(-1); sent != left.Load() && !wasKilled.Load(); {
		sent = left.Load()
		r.throttle.forget(s.app.UID)
		if _, err := r.Reconcile(s.Context(), s.request()); err != nil && !wasKilled.Load() {
			s.Fatal(err)
		}
	}
	return wasKilled.Load()
}
