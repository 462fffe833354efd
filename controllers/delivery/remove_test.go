package delivery

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/observation"
	"github.com/fleetwright/fleetwright/internal/wait"
)

// removing returns the expected report for an entry that is Removing.
func (s *setup) removing(changes ...func(*observation.Observation)) observation.Observation {
	seen := observation.Observation{UID: s.app.UID, Generation: s.app.Generation, Revision: s.desiredRevision(), Planned: s.planned(), Phase: v1alpha1.ClusterRemoving}
	for _, change := range changes {
		change(&seen)
	}
	return seen
}

// confirmed sets GoneSince to the value that confirms the current entry.
func (s *setup) confirmed(seen *observation.Observation) {
	seen.GoneSince = s.entry().LastTransitionTime
}

func enteredNow(entry *v1alpha1.ClusterStatus) { entry.LastTransitionTime = metav1.Now().Rfc3339Copy() }

// deleteApp adds the planner's finalizer to the AppService and deletes it.
func (s *setup) deleteApp() {
	s.Helper()
	s.edit(func(app *v1alpha1.AppService) { app.Finalizers = []string{v1alpha1.Finalizer} })
	s.must(onHub.Delete(s.Context(), s.app))
	s.must(onHub.Get(s.Context(), s.key(), s.app))
}

func TestRemoving_entry_deletes_everything_and_confirms_that_entry(t *testing.T) {
	t.Parallel()
	tests := map[string]func(*setup){
		"when the plan no longer has the cluster": func(*setup) {},
		"when the AppService is being deleted":    (*setup).deleteApp,
	}
	for name, given := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := deliveredSetup(t)
			given(s)
			s.plan(withPhase(v1alpha1.ClusterRemoving), enteredNow)
			s.expectReport(s.removing(s.confirmed))
			s.expectWorkload("no Deployment; no Service")

			// After a restart, the operator confirms the removal again, and sends nothing.
			s.restart()
			s.expectReport(s.removing(s.confirmed))
			s.expectNoRequests(s.T, "DELETE", "PATCH", "POST")
		})
	}
}

func TestRemoving_entry_is_confirmed_when_nothing_is_left(t *testing.T) {
	t.Parallel()
	s := deliveredSetup(t)
	held := s.deployment()
	s.changeByOther(held, func() { held.Finalizers = append(held.Finalizers, "example.com/hold") })
	s.plan(withPhase(v1alpha1.ClusterRemoving))
	s.expectReport(s.removing(func(seen *observation.Observation) {
		seen.Message = "waiting for the member to finish deleting: Deployment"
		seen.Replicas, seen.ReadyReplicas = 1, 1
	}))
	wait.Eventually(t, func() error {
		if s.service() != nil {
			return fmt.Errorf("the Service still exists")
		}
		return nil
	})
	_, result, err := s.reconcileOnce()
	s.must(err)
	if result.RequeueAfter != removalPoll {
		t.Error("requeued after", result.RequeueAfter)
	}
	for _, seen := range s.reported.all(s.key(), s.cluster) {
		if !seen.GoneSince.IsZero() {
			t.Errorf("reported %+v while a Deployment is left", seen)
		}
	}
	held = s.deployment()
	s.changeByOther(held, func() { held.Finalizers = nil })
	s.expectReport(s.removing(s.confirmed))
}

func TestRemoving_entry_leaves_foreign_objects_and_the_namespace(t *testing.T) {
	t.Parallel()
	for kind, object := range deliveredKinds {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			s := startedSetup(t)
			was := s.createByOther(object, nil, nil)
			s.plan()
			if kind == "Service" { // the Deployment is owned
				s.expectReport(s.failed(v1alpha1.ReasonConflict, `Service web exists and does not belong to this AppService: it is managed by "creator"`+adoptable), ignoreReplicas)
			}
			s.plan(withPhase(v1alpha1.ClusterRemoving))
			s.expectReport(s.removing(s.confirmed))
			s.expectUnchanged(was)
			s.expectNoRequests(t, "DELETE namespaces")
			if kind == "Service" && s.deployment() != nil {
				t.Error("the owned Deployment is left")
			}
		})
	}
}

// Invariant 2: a missing AppService or a missing entry never triggers a deletion.
func TestWithout_evidence_nothing_is_deleted(t *testing.T) {
	t.Parallel()
	tests := map[string]func(*setup){
		"when the hub has no such AppService": func(s *setup) {
			s.must(onHub.Delete(s.Context(), s.app))
		},
		"when the AppService has no entries, as after a restore": func(s *setup) { s.writeEntries() },
		"when there is no entry of this member": func(s *setup) {
			s.plan(func(entry *v1alpha1.ClusterStatus) { entry.Name = "west-of-" + s.app.Namespace })
		},
		"when the entry is Detached":                                         func(s *setup) { s.plan(withPhase(v1alpha1.ClusterDetached)) },
		"when the AppService is being deleted and the entry is not Removing": (*setup).deleteApp,
		"when the AppService was created again": func(s *setup) {
			s.must(onHub.Delete(s.Context(), s.app))
			s.app.UID, s.app.ResourceVersion = "", ""
			s.must(onHub.Create(s.Context(), s.app))
			s.plan(withPhase(v1alpha1.ClusterRemoving))
		},
		"when the AppService was created again and is not planned yet": func(s *setup) {
			s.must(onHub.Delete(s.Context(), s.app))
			s.app.UID, s.app.ResourceVersion, s.app.Spec.Ports, s.app.Spec.Replicas = "", "", nil, new(int32(0))
			s.must(onHub.Create(s.Context(), s.app))
			s.plan(withGeneration(s.app.Generation - 1))
		},
	}
	for name, given := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := deliveredSetup(t)
			given(s)
			_, _, err := s.reconcileOnce()
			s.must(err)
			s.restart()
			_, _, err = s.reconcileOnce()
			s.must(err)
			s.expectNoRequests(t, "DELETE", "PATCH", "POST")
			if got := s.describeWorkload(); got != running {
				t.Error("the member runs", got)
			}
		})
	}
}

// Invariant 2, with a stale cache: a live read of the hub verifies the deletion first.
func TestRemoval_that_the_hub_does_not_verify_deletes_nothing(t *testing.T) {
	t.Parallel()
	tests := map[string]func(*setup){
		"after the entry was planned again": func(s *setup) { s.plan() },
		"after the entry was removed":       func(s *setup) { s.writeEntries() },
		"after the entry became Detached":   func(s *setup) { s.plan(withPhase(v1alpha1.ClusterDetached)) },
		"after an edit that is not planned yet": func(s *setup) {
			s.edit(func(app *v1alpha1.AppService) { app.Spec.Image = "web:2" })
		},
		"after the AppService was deleted": func(s *setup) { s.must(onHub.Delete(s.Context(), s.app)) },
		"after the AppService was created again": func(s *setup) {
			s.must(onHub.Delete(s.Context(), s.app))
			s.app.UID, s.app.ResourceVersion = "", ""
			s.must(onHub.Create(s.Context(), s.app))
			s.plan(withPhase(v1alpha1.ClusterRemoving))
		},
	}
	for name, change := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := deliveredSetup(t)
			s.end()
			s.plan(withPhase(v1alpha1.ClusterRemoving))
			cached := s.app.DeepCopy()
			change(s)
			s.connect() // with an up-to-date cache, a removal may continue after an edit
			_, _, _ = s.reconcileWith(staleCluster{hubCached, []client.Object{cached}}, s.member)
			if got := s.describeWorkload(); got != running {
				t.Error("the member runs", got)
			}
			s.expectNoRequests(t, "DELETE")
		})
	}
}

// A member that answers slowly leaves time in which the hub changes its mind. Each deletion has a live
// read that is at most a second old, also the last one of a removal.
func TestRemoval_is_confirmed_again_for_each_deletion(t *testing.T) {
	t.Parallel()
	whileDeleting := func(s *setup, change func()) {
		s.sent.answers(func(request string) (*http.Response, error) {
			if request == "DELETE deployments/web" {
				change()
				time.Sleep(maxVerifiedAge) // so long does the member take to answer
			}
			return nil, nil
		})
	}
	t.Run("of an entry", func(t *testing.T) {
		t.Parallel()
		s := deliveredSetup(t)
		s.disengage()
		s.connect()
		w := s.newReconciler()
		s.plan(withPhase(v1alpha1.ClusterRemoving))
		whileDeleting(s, func() { s.plan() })
		w.reconcileOnce()
		if diff := cmp.Diff([]string{"DELETE deployments/web"}, s.sent.writes()); diff != "" {
			t.Errorf("sent (-want +got):\n%s", diff)
		}
	})
	t.Run("of a tombstone", func(t *testing.T) {
		t.Parallel()
		s := deliveredSetup(t)
		s.createMemberCluster()
		s.disengage()
		s.connect()
		w := s.newReconciler()
		before := s.app.UID
		s.recreateApp(func(app *v1alpha1.AppService) { app.Spec.Placement = onClusters("elsewhere") })
		s.addTombstones(before)
		whileDeleting(s, func() { s.plan() })
		w.reconcileOnce()
		s.sent.answers(nil)
		if diff := cmp.Diff([]string{"DELETE deployments/web"}, slices.DeleteFunc(s.sent.writes(), func(r string) bool { return !strings.HasPrefix(r, "DELETE") })); diff != "" {
			t.Errorf("sent (-want +got):\n%s", diff)
		}
	})
}

func TestService_is_deleted_only_after_a_live_read_of_the_hub(t *testing.T) {
	t.Parallel()
	s := deliveredSetup(t)
	s.edit(func(app *v1alpha1.AppService) { app.Spec.Ports = nil })
	s.end()
	s.plan()
	cached := s.app.DeepCopy()
	s.edit(func(app *v1alpha1.AppService) {
		app.Spec.Ports = []v1alpha1.ServicePort{{Port: 80, TargetPort: intstr.FromInt32(8080)}}
	})
	s.start()
	_, _, err := s.reconcileWith(staleCluster{hubCached, []client.Object{cached}}, s.member)
	s.must(err)
	s.expectNoRequests(t, "DELETE")
	if s.service() == nil {
		t.Error("the Service is deleted")
	}
}

// Invariant 8: after a crash in the middle of a removal, the next operator removes everything that
// is left.
func TestRemoval_continues_after_a_crash(t *testing.T) {
	t.Parallel()
	s := deliveredSetup(t)
	s.sent.answers(refuse("DELETE services/web", 500, "crashed"))
	s.plan(withPhase(v1alpha1.ClusterRemoving))
	wait.Eventually(t, func() error {
		if got := s.describeWorkload(); got != "no Deployment; ClusterIP 80→8080/TCP" {
			return fmt.Errorf("the member runs %s", got)
		}
		return nil
	})
	s.restart()
	s.expectReport(s.removing(s.confirmed))
	if diff := cmp.Diff([]string{"DELETE services/web"}, s.sent.writes()); diff != "" {
		t.Errorf("sent after the crash (-want +got):\n%s", diff)
	}
}
