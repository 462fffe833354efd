package delivery

import (
	"fmt"
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
)

const running = "1 × web:1 A=1; ClusterIP 80→8080/TCP"

// removing returns the expected report for an entry that is Removing.
func (s *scene) removing(changes ...func(*observation.Observation)) observation.Observation {
	seen := observation.Observation{UID: s.app.UID, Generation: s.app.Generation, Planned: s.planned(), Phase: v1alpha1.ClusterRemoving}
	for _, change := range changes {
		change(&seen)
	}
	return seen
}

// gone sets GoneSince to the value that confirms the current entry.
func (s *scene) gone(seen *observation.Observation) {
	seen.GoneSince = s.app.Status.Cluster(s.cluster).LastTransitionTime
}

func since(age time.Duration) func(*v1alpha1.ClusterStatus) {
	return func(row *v1alpha1.ClusterStatus) {
		row.LastTransitionTime = metav1.NewTime(time.Now().Add(-age)).Rfc3339Copy()
	}
}

// beingDeleted adds the planner's finalizer to the AppService and deletes it.
func (s *scene) beingDeleted() {
	s.Helper()
	s.edit(func(app *v1alpha1.AppService) { app.Finalizers = []string{v1alpha1.Finalizer} })
	s.must(onHub.Delete(s.Context(), s.app))
	s.must(onHub.Get(s.Context(), s.key(), s.app))
}

func TestRemoving_entry_deletes_everything_and_confirms_that_entry(t *testing.T) {
	tests := map[string]func(*scene){
		"when the plan no longer has the cluster": func(*scene) {},
		"when the AppService is being deleted":    (*scene).beingDeleted,
	}
	for name, given := range tests {
		t.Run(name, func(t *testing.T) {
			s := delivered(t)
			given(s)
			s.plan(inPhase(v1alpha1.ClusterRemoving), since(time.Hour))
			s.reports(s.removing(s.gone))
			s.runs("no Deployment; no Service")

			// After a restart, the operator confirms the removal again, and sends nothing.
			s.restart()
			s.reports(s.removing(s.gone))
			s.sendsNo(s.T, "DELETE", "PATCH", "POST")
		})
	}
}

// sendsNo fails the test if the member received a request with one of these prefixes.
func (o *operator) sendsNo(t *testing.T, beginnings ...string) {
	t.Helper()
	for _, request := range o.sent.all() {
		if slices.ContainsFunc(beginnings, func(b string) bool { return strings.HasPrefix(request, b) }) {
			t.Error("sent", request)
		}
	}
}

func TestRemoving_entry_is_confirmed_when_nothing_is_left(t *testing.T) {
	s := delivered(t)
	held := s.deployment()
	s.someone(held, func() { held.Finalizers = append(held.Finalizers, "example.com/hold") })
	s.plan(inPhase(v1alpha1.ClusterRemoving))
	s.reports(s.removing(func(seen *observation.Observation) {
		seen.Message = "waiting for the member to finish deleting: Deployment"
		seen.Replicas, seen.ReadyReplicas = 1, 1
	}))
	eventually(t, func() error {
		if s.service() != nil {
			return fmt.Errorf("the Service is still there")
		}
		return nil
	})
	_, result, err := s.look()
	s.must(err)
	if result.RequeueAfter != removalPoll {
		t.Error("looks again after", result.RequeueAfter)
	}
	for _, seen := range s.told.all(s.key(), s.cluster) {
		if !seen.GoneSince.IsZero() {
			t.Errorf("reported %+v while a Deployment is left", seen)
		}
	}
	held = s.deployment()
	s.someone(held, func() { held.Finalizers = nil })
	s.reports(s.removing(s.gone))
}

func TestRemoving_entry_leaves_foreign_objects_and_the_namespace(t *testing.T) {
	for kind, object := range deliveredKinds {
		t.Run(kind, func(t *testing.T) {
			s := declared(t)
			was := s.somebodys(object, nil, nil)
			s.plan()
			if kind == "Service" { // the Deployment is ours
				s.reports(s.failed(v1alpha1.ReasonConflict, `Service web exists and does not belong to this AppService: it is managed by "somebody"`+adoptable), whateverRuns)
			}
			s.plan(inPhase(v1alpha1.ClusterRemoving))
			s.reports(s.removing(s.gone))
			s.untouched(was)
			s.sendsNo(t, "DELETE namespaces")
			if kind == "Service" && s.deployment() != nil {
				t.Error("our Deployment is left")
			}
		})
	}
}

// Invariant 2: a missing AppService or a missing entry never triggers a deletion.
func TestWithout_evidence_nothing_is_deleted(t *testing.T) {
	tests := map[string]func(*scene){
		"when the hub has no such AppService": func(s *scene) {
			s.must(onHub.Delete(s.Context(), s.app))
		},
		"when the AppService has no rows, as after a restore": func(s *scene) { s.writeRows() },
		"when there is no row of this member": func(s *scene) {
			s.plan(func(row *v1alpha1.ClusterStatus) { row.Name = "west-of-" + s.app.Namespace })
		},
		"when the row is Detached": func(s *scene) { s.plan(inPhase(v1alpha1.ClusterDetached)) },
		"when the AppService is being deleted and the row is not Removing": (*scene).beingDeleted,
		"when it is another AppService of that name": func(s *scene) {
			s.must(onHub.Delete(s.Context(), s.app))
			s.app.UID, s.app.ResourceVersion = "", ""
			s.must(onHub.Create(s.Context(), s.app))
			s.plan(inPhase(v1alpha1.ClusterRemoving))
		},
		"when it is another AppService of that name that is not planned yet": func(s *scene) {
			s.must(onHub.Delete(s.Context(), s.app))
			s.app.UID, s.app.ResourceVersion, s.app.Spec.Ports, s.app.Spec.Replicas = "", "", nil, new(int32(0))
			s.must(onHub.Create(s.Context(), s.app))
			s.plan(plannedFor(s.app.Generation - 1))
		},
	}
	for name, given := range tests {
		t.Run(name, func(t *testing.T) {
			s := delivered(t)
			given(s)
			_, _, err := s.look()
			s.must(err)
			s.restart()
			_, _, err = s.look()
			s.must(err)
			s.sendsNo(t, "DELETE", "PATCH", "POST")
			if got := s.outline(); got != running {
				t.Error("the member runs", got)
			}
		})
	}
}

// Invariant 2, with a stale cache: a live read of the hub verifies the deletion first.
func TestRemoval_that_the_hub_does_not_verify_deletes_nothing(t *testing.T) {
	tests := map[string]func(*scene){
		"since the row is planned again": func(s *scene) { s.plan() },
		"since the row is gone":          func(s *scene) { s.writeRows() },
		"since the row is Detached":      func(s *scene) { s.plan(inPhase(v1alpha1.ClusterDetached)) },
		"since it was edited, and is not planned yet": func(s *scene) {
			s.edit(func(app *v1alpha1.AppService) { app.Spec.Image = "web:2" })
		},
		"since the AppService is gone": func(s *scene) { s.must(onHub.Delete(s.Context(), s.app)) },
		"since it is another AppService of that name": func(s *scene) {
			s.must(onHub.Delete(s.Context(), s.app))
			s.app.UID, s.app.ResourceVersion = "", ""
			s.must(onHub.Create(s.Context(), s.app))
			s.plan(inPhase(v1alpha1.ClusterRemoving))
		},
	}
	for name, since := range tests {
		t.Run(name, func(t *testing.T) {
			s := delivered(t)
			s.end()
			s.plan(inPhase(v1alpha1.ClusterRemoving))
			cached := s.app.DeepCopy()
			since(s)
			s.connect() // with an up-to-date cache, a removal may continue after an edit
			_, _, _ = s.lookThrough(behind{hubCached, []client.Object{cached}}, s.member)
			if got := s.outline(); got != running {
				t.Error("the member runs", got)
			}
			s.sendsNo(t, "DELETE")
		})
	}
}

func TestService_is_not_deleted_on_the_word_of_the_cache(t *testing.T) {
	s := delivered(t)
	s.edit(func(app *v1alpha1.AppService) { app.Spec.Ports = nil })
	s.end()
	s.plan()
	cached := s.app.DeepCopy()
	s.edit(func(app *v1alpha1.AppService) {
		app.Spec.Ports = []v1alpha1.ServicePort{{Port: 80, TargetPort: intstr.FromInt32(8080)}}
	})
	s.start()
	_, _, err := s.lookThrough(behind{hubCached, []client.Object{cached}}, s.member)
	s.must(err)
	s.sendsNo(t, "DELETE")
	if s.service() == nil {
		t.Error("the Service is deleted")
	}
}

// Invariant 8: after a crash in the middle of a removal, the next operator removes everything that
// is left.
func TestRemoval_continues_after_a_crash(t *testing.T) {
	s := delivered(t)
	s.sent.answers(refusing("DELETE services/web", 500, "crashed"))
	s.plan(inPhase(v1alpha1.ClusterRemoving))
	eventually(t, func() error {
		if got := s.outline(); got != "no Deployment; ClusterIP 80→8080/TCP" {
			return fmt.Errorf("the member runs %s", got)
		}
		return nil
	})
	s.restart()
	s.reports(s.removing(s.gone))
	if diff := cmp.Diff([]string{"DELETE services/web"}, s.sent.writes()); diff != "" {
		t.Errorf("sent after the crash (-want +got):\n%s", diff)
	}
}
