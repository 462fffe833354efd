package delivery

import (
	"net/http"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
)

// The watch of one kind may be behind that of the other: the event of the new Deployment comes
// while the cache has no Service yet.
func TestCreated_object_that_the_cache_does_not_show_yet(t *testing.T) {
	t.Parallel()
	hidden := func(s *setup) metav1.ObjectMeta {
		return metav1.ObjectMeta{Namespace: s.app.Namespace, Name: s.app.Name}
	}
	for kind, object := range map[string]func(*setup) client.Object{
		"Deployment": func(s *setup) client.Object { return &appsv1.Deployment{ObjectMeta: hidden(s)} },
		"Service":    func(s *setup) client.Object { return &corev1.Service{ObjectMeta: hidden(s)} },
	} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			s := newSetup(t)
			s.connect()
			s.plan()
			w := s.newReconciler()
			w.reconcileOnce()
			s.sent.reset()

			visible := w.reader.cached
			w.reader.cached = staleClient{s.member.GetClient(), []client.Object{object(s)}}
			if _, result := w.reconcileOnce(); result.RequeueAfter != conflictRetry {
				t.Errorf("requeued after %v", result.RequeueAfter)
			}
			s.expectRequests()

			// It may have been deleted before the cache has shown it.
			s.must(onMember.Delete(t.Context(), object(s)))
			w.memories.of(s.app).ofKind(kind).createTime = time.Now().Add(-maxCacheLag)
			w.reconcileOnce()
			s.expectWorkload(running)

			// An object that the cache has shown is created again at once.
			w.reader.cached = visible
			w.reconcileOnce()
			s.must(onMember.Delete(t.Context(), object(s)))
			w.reconcileOnce()
			s.expectWorkload(running)
		})
	}
}

// Nothing appears beside a Deployment that the member does not accept.
func TestService_is_not_created_without_its_Deployment(t *testing.T) {
	t.Parallel()
	s := newSetup(t)
	s.connect()
	s.sent.answers(refuse("PATCH deployments/web", http.StatusForbidden, "no"))
	s.plan()
	seen, _ := s.newReconciler().reconcileOnce()
	if seen.Reason != v1alpha1.ReasonRefused {
		t.Errorf("reported %+v", seen)
	}
	s.expectWorkload("no Deployment; no Service")
}
