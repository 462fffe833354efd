package delivery

import (
	"context"
	"errors"
	"net/http"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	selection "k8s.io/apimachinery/pkg/fields"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/internal/wait"
)

// createAutoscaler creates a HorizontalPodAutoscaler on the member; the test acts as its
// controller.
func (s *setup) createAutoscaler(changes ...func(*autoscalingv2.HorizontalPodAutoscaler)) *autoscalingv2.HorizontalPodAutoscaler {
	s.Helper()
	scaler := &autoscalingv2.HorizontalPodAutoscaler{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.app.Namespace, Name: "any"},
		Spec: autoscalingv2.HorizontalPodAutoscalerSpec{
			ScaleTargetRef: autoscalingv2.CrossVersionObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Name: s.app.Name},
			MaxReplicas:    9,
		},
	}
	for _, change := range changes {
		change(scaler)
	}
	s.must(onMember.Create(s.Context(), scaler))
	return scaler
}

// scale sets the replicas as the autoscaler's controller does.
func (s *setup) scale(replicas int32) {
	s.Helper()
	scale := &autoscalingv1.Scale{ObjectMeta: metav1.ObjectMeta{Namespace: s.app.Namespace, Name: s.app.Name}, Spec: autoscalingv1.ScaleSpec{Replicas: replicas}}
	s.must(onMember.SubResource("scale").Update(s.Context(), s.deployment(), client.WithSubResourceBody(scale), client.FieldOwner("kube-controller-manager")))
}

// expectNeverFewer fails the test at its end if the Deployment had fewer replicas at any time from
// now on.
func (s *setup) expectNeverFewer(replicas int32) {
	s.Helper()
	watcher, err := client.NewWithWatch(onMember.config, client.Options{Scheme: kinds})
	s.must(err)
	ctx, cancel := context.WithCancel(context.Background())
	watch, err := watcher.Watch(ctx, &appsv1.DeploymentList{}, &client.ListOptions{
		Namespace: s.app.Namespace, FieldSelector: selection.OneTermEqualSelector("metadata.name", s.app.Name),
	})
	s.must(err)
	end := make(chan string)
	go func() {
		defer close(end)
		for event := range watch.ResultChan() {
			if d, isOne := event.Object.(*appsv1.Deployment); isOne {
				if *d.Spec.Replicas < replicas {
					s.Errorf("generation %d has %d replicas", d.Generation, *d.Spec.Replicas)
				}
				if d.Annotations["last"] != "" {
					return
				}
			}
		}
		s.Error("the watch ended early")
	}()
	s.Cleanup(func() {
		defer cancel()
		d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: s.app.Namespace, Name: s.app.Name}}
		last := client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"annotations":{"last":"one"}}}`))
		if err := onMember.Patch(context.Background(), d, last); err != nil {
			s.Error(err)
			return
		}
		<-end
	})
}

func withReplicas(n int32) func(*v1alpha1.AppService) {
	return func(app *v1alpha1.AppService) { app.Spec.Replicas = new(n) }
}

func withExternalScaling(app *v1alpha1.AppService) { app.Spec.ExternallyScaled = true }

func editImage(app *v1alpha1.AppService) { app.Spec.Image = "web:2" }

func TestAutoscaler_keeps_the_replicas(t *testing.T) {
	t.Parallel()
	s := deliveredSetup(t, withReplicas(3))
	scaler := s.createAutoscaler()
	s.expectNeverFewer(3)
	s.scale(7)
	s.expectReadyWith(7)
	s.expectWorkload("7 × web:1 A=1; ClusterIP 80→8080/TCP")
	s.sent.reset()
	s.scale(8)
	s.expectReadyWith(8)
	s.scale(3) // happens to be the planned number
	s.expectReadyWith(3)
	s.scale(7)
	s.expectReadyWith(7)
	s.expectNoRequests(t, "PATCH")

	s.edit(editImage)
	s.plan()
	s.expectReadyWith(7)
	s.expectWorkload("7 × web:2 A=1; ClusterIP 80→8080/TCP")
	s.edit(withReplicas(4))
	s.plan()
	s.expectReadyWith(7)
	s.restart()
	s.expectReadyWith(7)
	s.expectNoRequests(t, "PATCH")
	if got := s.correctionCount(); got > 0 {
		t.Errorf("counted %v corrections", got)
	}

	// Without the autoscaler, the AppService owns the replicas again.
	s.must(onMember.Delete(t.Context(), scaler))
	s.edit(func(app *v1alpha1.AppService) { app.Spec.Image = "web:3" })
	s.plan()
	s.expectReport(s.ready())
	s.expectWorkload("4 × web:3 A=1; ClusterIP 80→8080/TCP")
}

// Invariant 2: the member's cache does not yet show that the autoscaler has just scaled, and
// another field must be sent.
func TestAutoscaler_is_not_undone_by_a_stale_cache(t *testing.T) {
	t.Parallel()
	s := deliveredSetup(t, withReplicas(3))
	s.createAutoscaler()
	s.disengage()
	s.connect()
	s.edit(editImage)
	s.plan()
	cached := s.deployment()
	s.expectNeverFewer(3)
	s.scale(7)
	s.expectNeverFewer(7)
	_, _, _ = s.reconcileWith(hubCached, staleCluster{s.member, []client.Object{cached}})
	_, _, err := s.reconcileOnce()
	s.must(err)
	s.expectWorkload("7 × web:2 A=1; ClusterIP 80→8080/TCP")
}

// An autoscaler matters only if it may have changed the replicas.
func TestEdit_asks_for_autoscalers_only_when_the_replicas_differ(t *testing.T) {
	t.Parallel()
	const list = "GET horizontalpodautoscalers"
	s := deliveredSetup(t, withReplicas(3))
	s.disengage()
	s.connect()
	w := s.newReconciler()
	s.edit(editImage)
	s.plan()
	w.reconcileOnce()
	s.expectRequests("PATCH deployments/web")

	s.sent.reset()
	s.edit(withReplicas(4))
	s.plan()
	w.reconcileOnce()
	s.expectRequests(list, "PATCH deployments/web")
	s.expectWorkload("4 × web:2 A=1; ClusterIP 80→8080/TCP")

	// The Deployment has changed since the cache has seen it, so its replicas may have changed too.
	s.sent.reset()
	cached := s.deployment()
	s.edit(func(app *v1alpha1.AppService) { app.Spec.Image = "web:3" })
	s.plan()
	d := s.deployment()
	s.changeByOther(d, func() { d.Annotations["example.com/note"] = "any" })
	s.catchUp()
	_, _, err := s.reconcileWith(hubCached, staleCluster{s.member, []client.Object{cached}})
	s.must(err)
	s.expectRequests("PATCH deployments/web", list, "PATCH deployments/web")
	s.expectWorkload("4 × web:3 A=1; ClusterIP 80→8080/TCP")
}

// An autoscaler that cannot be listed may exist: raised replicas stay, and only an edit changes
// them.
func TestAutoscaler_that_cannot_be_listed_keeps_the_replicas(t *testing.T) {
	t.Parallel()
	s := deliveredSetup(t, withReplicas(3))
	s.createAutoscaler()
	s.sent.answers(refuse("GET horizontalpodautoscalers", http.StatusForbidden, "no"))
	s.expectNeverFewer(3)
	s.scale(7)
	s.expectNeverFewer(7)
	_, _, err := s.reconcileOnce()
	s.must(err)
	_, _, err = s.reconcileOnce()
	s.must(err)
	s.expectWorkload("7 × web:1 A=1; ClusterIP 80→8080/TCP")
}

func TestExternallyScaled_AppService(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		change func(*setup)
		least  int32 // the lowest number at any time
		want   string
	}{
		"keeps its replicas when drift is corrected": {
			func(s *setup) {
				s.changeImageByOther("bad:1")
				wait.Eventually(s.T, func() error {
					if s.correctionCount() == 0 {
						return errors.New("nothing was corrected")
					}
					return nil
				})
			}, 3,
			"3 × web:1 A=1; ClusterIP 80→8080/TCP",
		},
		"keeps its replicas when another manager removes the label, and an edit follows": {
			func(s *setup) {
				d := s.deployment()
				s.changeByOther(d, func() { delete(d.Labels, v1alpha1.LabelAppService) })
				s.edit(editImage)
				s.plan()
			}, 3,
			"3 × web:2 A=1; ClusterIP 80→8080/TCP",
		},
		"keeps its current replicas when it is edited": {
			func(s *setup) { s.scale(7); s.edit(editImage); s.plan() }, 3,
			"7 × web:2 A=1; ClusterIP 80→8080/TCP",
		},
		"keeps its replicas through two edits": {
			func(s *setup) {
				s.edit(editImage)
				s.plan()
				s.expectReport(s.ready())
				s.edit(func(app *v1alpha1.AppService) { app.Spec.Env = nil })
				s.plan()
			}, 3,
			"3 × web:2; ClusterIP 80→8080/TCP",
		},
		"follows spec.replicas again when it is no longer externally scaled": {
			func(s *setup) {
				s.scale(7)
				s.edit(func(app *v1alpha1.AppService) { app.Spec.ExternallyScaled, app.Spec.Replicas = false, new(int32(5)) })
				s.plan()
			}, 3,
			"5 × web:1 A=1; ClusterIP 80→8080/TCP",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := deliveredSetup(t, withReplicas(3), withExternalScaling)
			s.expectWorkload("3 × web:1 A=1; ClusterIP 80→8080/TCP")
			s.expectNeverFewer(test.least)
			test.change(s)
			s.expectReady()
			s.expectWorkload(test.want)
			s.sent.reset()
			_, _, err := s.reconcileOnce()
			s.must(err)
			s.expectNoRequests(t, "PATCH")
		})
	}
}

// The first edit after the AppService becomes externally scaled gives up the replicas before any
// other manager owns them.
func TestAppService_that_becomes_externally_scaled_keeps_its_replicas(t *testing.T) {
	t.Parallel()
	s := deliveredSetup(t, withReplicas(3))
	s.expectNeverFewer(3)
	s.edit(withExternalScaling)
	s.plan()
	s.expectReport(s.ready())
	s.scale(7)
	s.expectReadyWith(7)
	s.sent.reset()
	s.restart()
	s.expectReadyWith(7)
	s.expectNoRequests(t, "PATCH")
}
