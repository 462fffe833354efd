package planner

import (
	"errors"
	"fmt"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"golang.org/x/time/rate"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/configuration/sources"
	"github.com/fleetwright/fleetwright/internal/wait"
)

// Transitions are tested in package rollout.
var withoutTimes = cmpopts.IgnoreFields(v1alpha1.ClusterStatus{}, "LastTransitionTime", "Transition", "Placement")

// waitForEntries waits until the AppService has exactly these entries, and reads it.
func (s *fixture) waitForEntries(entries ...v1alpha1.ClusterStatus) {
	s.Helper()
	wait.Eventually(s.T, func() error {
		s.readApp()
		if diff := cmp.Diff(entries, s.app.Status.Clusters, withoutTimes); diff != "" {
			return fmt.Errorf("entries (-want +got):\n%s", diff)
		}
		// The status is written after the slices, and says what is in them.
		count := func(phase v1alpha1.ClusterPhase) (number int32) {
			for _, entry := range entries {
				if entry.Phase == phase {
					number++
				}
			}
			return number
		}
		if sum := s.app.Status.Summary; sum.Ready != count(v1alpha1.ClusterReady) || sum.Unknown != count(v1alpha1.ClusterUnknown) || sum.Removing != count(v1alpha1.ClusterRemoving) {
			return fmt.Errorf("the status has the summary %+v", sum)
		}
		return nil
	})
}

// checkCondition fails the test if a condition of the AppService, as last read, differs.
func (s *fixture) checkCondition(condition string, status metav1.ConditionStatus, reason, message string) {
	s.Helper()
	got := meta.FindStatusCondition(s.app.Status.Conditions, condition)
	if got == nil {
		s.Errorf("there is no condition %s", condition)
		return
	}
	want := metav1.Condition{Type: condition, Status: status, Reason: reason, Message: message, ObservedGeneration: s.app.Generation}
	if diff := cmp.Diff(want, *got, cmpopts.IgnoreFields(metav1.Condition{}, "LastTransitionTime")); diff != "" {
		s.Errorf("condition (-want +got):\n%s", diff)
	}
}

// transitionTime returns the lastTransitionTime of a member's entry.
func (s *fixture) transitionTime(member string) metav1.Time {
	s.Helper()
	entry := s.app.Status.Cluster(member)
	if entry == nil {
		s.Fatalf("there is no entry for %s", member)
	}
	return entry.LastTransitionTime
}

// waitForDeletion waits until the AppService is deleted.
func (s *fixture) waitForDeletion() {
	s.Helper()
	wait.Eventually(s.T, s.checkDeleted)
}

// checkDeleted returns an error while the AppService exists.
func (s *fixture) checkDeleted() error {
	err := s.hub.Get(s.Context(), s.key(), &v1alpha1.AppService{})
	if err == nil {
		return errors.New("the AppService still exists")
	}
	return client.IgnoreNotFound(err)
}

// waitForCache waits until the planner's cache is up to date.
func (s *fixture) waitForCache() {
	s.Helper()
	wait.Eventually(s.T, func() error {
		cached, direct := s.versions(s.client), s.versions(s.hub)
		if diff := cmp.Diff(direct, cached); diff != "" {
			return fmt.Errorf("versions (-hub +cache):\n%s", diff)
		}
		return nil
	})
}

// reconcileOnce reconciles the AppService once with an up-to-date cache.
func (s *fixture) reconcileOnce() reconcile.Result {
	s.Helper()
	s.waitForCache()
	r := s.reconciler(s.client)
	result, err := r.Reconcile(s.Context(), s.request())
	s.must(err)
	return result
}

// reconciler returns a second Reconciler for the test to call. Its events are dropped. It has Sources
// of its own, because only one goroutine at a time may decide about an AppService.
func (s *fixture) reconciler(hubClient client.Client) *Reconciler {
	s.Helper()
	if s.secondSources == nil {
		s.secondSources = s.newSources(s.Context(), s.hub.granted)
		other := &v1alpha1.AppService{ObjectMeta: metav1.ObjectMeta{Namespace: s.app.Namespace, Name: "other"}}
		wait.Eventually(s.T, func() error { // until they have synced
			_, err := s.secondSources.Decide(s.Context(), sources.Request{App: other})
			return err
		})
	}
	options := s.options
	options.Sources = s.secondSources
	return newReconciler(hubClient, s.hub, events.NewFakeRecorder(100), s.observations, options)
}

// versions returns the resource versions of all objects that the planner reads.
func (s *fixture) versions(from client.Reader) map[string]string {
	s.Helper()
	var apps v1alpha1.AppServiceList
	var members v1alpha1.MemberClusterList
	var parts v1alpha1.AppServiceSliceList
	versions := map[string]string{}
	if err := errors.Join(from.List(s.Context(), &apps, client.InNamespace(s.app.Namespace)), from.List(s.Context(), &parts, client.InNamespace(s.app.Namespace)), from.List(s.Context(), &members)); err != nil {
		versions["error"] = err.Error() // the cache has not started yet
	}
	for _, app := range apps.Items {
		versions["AppService "+app.Name] = app.ResourceVersion
	}
	for _, slice := range parts.Items {
		versions["AppServiceSlice "+slice.Name] = slice.ResourceVersion
	}
	for _, member := range members.Items {
		versions["MemberCluster "+member.Name] = member.ResourceVersion
	}
	return versions
}

// checkWrites fails the test if the planner sent other writes since its start.
func (s *fixture) checkWrites(want ...string) {
	s.Helper()
	if diff := cmp.Diff(want, s.sent.lines()); diff != "" {
		s.Errorf("sent to the hub (-want +got):\n%s", diff)
	}
}

// delayWrites delays the writes of an AppService that do not follow from an edit by an hour.
func (t *throttle) delayWrites(app types.UID) {
	t.of(app).writes = rate.NewLimiter(rate.Every(time.Hour), 1)
	t.recordWrite(app, time.Now())
}
