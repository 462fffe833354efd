package delivery

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	dto "github.com/prometheus/client_model/go"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/internal/wait"
)

// correctionCount returns the number of corrections on the member.
func (s *setup) correctionCount() float64 {
	s.Helper()
	var metric dto.Metric
	s.must(corrections.WithLabelValues(s.cluster).Write(&metric))
	return metric.GetCounter().GetValue()
}

// changeImageByOther changes the image on the member with another field manager.
func (s *setup) changeImageByOther(image string) {
	s.Helper()
	d := s.deployment()
	s.changeByOther(d, func() { d.Spec.Template.Spec.Containers[0].Image = image })
}

func TestDrift_is_corrected_counted_and_announced_once(t *testing.T) {
	t.Parallel()
	s := deliveredSetup(t)
	delivered, spoiled := s.deployment(), s.deployment()
	s.changeByOther(spoiled, func() {
		containers := spoiled.Spec.Template.Spec.Containers
		containers[0].Env = nil
		containers = append(containers, corev1.Container{Name: "sidecar", Image: "sidecar:1"}) // it stays
		spoiled.Spec.Template.Spec.Containers = containers
	})
	wait.Eventually(t, func() error {
		if s.correctionCount() == 0 {
			return errors.New("nothing was corrected")
		}
		return nil
	})
	s.expectWorkload(strings.Replace(running, "A=1", "A=1 sidecar:1", 1))
	s.expectReport(s.ready())
	corrected := s.deployment()
	corrected.Spec.Template.Spec.Containers = corrected.Spec.Template.Spec.Containers[:1]
	if diff := cmp.Diff(delivered.Spec, corrected.Spec); diff != "" {
		t.Errorf("the member runs (-want +got):\n%s", diff)
	}
	// A stale cache that still shows the drift causes no second correction.
	_, _, err := s.reconcileWith(hubCached, staleCluster{s.member, []client.Object{spoiled}})
	s.must(err)
	if got := s.correctionCount(); got != 1 {
		t.Errorf("counted %v corrections, want 1", got)
	}
	s.expectEvents(v1alpha1.ReasonDriftCorrected, `an unknown manager changed spec.template.spec.containers[name="app"].env[name="A"].name, `+
		`spec.template.spec.containers[name="app"].env[name="A"].value of Deployment web; the change was reverted`)
}

// The recorder merges events that differ only in their notes: without the manager, the second event would
// say that the first one changed the image twice.
func TestDrift_by_another_manager_is_another_event(t *testing.T) {
	t.Parallel()
	s := deliveredSetup(t)
	patch := client.RawPatch("application/strategic-merge-patch+json", []byte(`{"spec":{"template":{"spec":{"containers":[{"name":"app","image":"theirs:1"}]}}}}`))
	var notes []string
	for i, manager := range []string{"editor", "rival", "rival"} {
		s.must(onMember.Patch(t.Context(), s.deployment(), patch, client.FieldOwner(manager)))
		wait.Eventually(t, func() error {
			if got := int(s.correctionCount()); got != i+1 {
				return fmt.Errorf("%d corrections, want %d", got, i+1)
			}
			return nil
		})
		s.expectWorkload(running)
		notes = append(notes, manager+` changed spec.template.spec.containers[name="app"].image of Deployment web; the change was reverted`)
		s.expectEvents(v1alpha1.ReasonDriftCorrected, notes...)
	}
}

// Ports that another manager has changed can only be replaced as a whole. The AppService still owns
// them.
func TestPort_that_was_corrected_is_removed_by_an_edit(t *testing.T) {
	t.Parallel()
	for kind, nodePort := range map[string]int32{"ClusterIP": 0, "NodePort": 30073} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			s := deliveredSetup(t, func(app *v1alpha1.AppService) {
				app.Spec.Ports = []v1alpha1.ServicePort{{Name: "a", Port: 80, TargetPort: intstr.FromInt32(8080), NodePort: nodePort}, {Name: "b", Port: 81, TargetPort: intstr.FromInt32(8081)}}
			})
			service := s.service()
			// A patch would keep the old ports, because their names are in use.
			service.Spec.Type = corev1.ServiceTypeClusterIP
			service.Spec.Ports = []corev1.ServicePort{{Name: "a", Port: 90}, {Name: "b", Port: 91}}
			s.must(onMember.Update(t.Context(), service, client.FieldOwner("editor")))
			s.expectWorkload("1 × web:1 A=1; " + kind + " 80→8080/TCP 81→8081/TCP")
			s.edit(func(app *v1alpha1.AppService) { app.Spec.Ports = app.Spec.Ports[:1] })
			s.plan()
			s.expectReport(s.ready())
			s.expectWorkload("1 × web:1 A=1; " + kind + " 80→8080/TCP")
		})
	}
}

// contend reverts the image after each correction, until the context ends.
func (s *setup) contend(ctx context.Context, ended chan<- error) {
	patch := client.RawPatch("application/strategic-merge-patch+json", []byte(`{"spec":{"template":{"spec":{"containers":[{"name":"app","image":"rival:1"}]}}}}`))
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for ; ctx.Err() == nil; <-tick.C {
		var d appsv1.Deployment
		err := onMember.Get(ctx, s.key(), &d)
		if err == nil && d.Spec.Template.Spec.Containers[0].Image != "rival:1" {
			err = onMember.Patch(ctx, &d, patch, client.FieldOwner("rival"))
		}
		if ctx.Err() == nil && err != nil {
			ended <- err
			return
		}
	}
	ended <- nil
}

func TestContention_delays_corrections(t *testing.T) {
	t.Parallel()
	s := deliveredSetup(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan error, 1)
	go s.contend(ctx, ended)
	contended := s.failed(v1alpha1.ReasonFieldConflict, `rival changed spec.template.spec.containers[name="app"].image of Deployment web repeatedly, `+
		"so it is now reverted less often: stop that manager, or change the AppService")
	s.expectReport(contended, ignoreReplicas)
	cancel()
	s.must(<-ended)
	if got := s.correctionCount(); got != maxCorrections {
		t.Errorf("corrected %v times, want %d", got, maxCorrections)
	}

	// An event of the member does not end the delay.
	count := len(s.reported.all(s.key(), s.cluster))
	s.sent.reset()
	d := s.deployment()
	s.changeByOther(d, func() { d.Annotations["note"] = "again" })
	wait.Eventually(t, func() error {
		if len(s.reported.all(s.key(), s.cluster)) == count {
			return errors.New("it was not reconciled again")
		}
		return nil
	})
	s.expectReport(contended, ignoreReplicas)
	s.expectNoRequests(t, "PATCH")

	// The delay does not apply to an edit.
	s.edit(func(app *v1alpha1.AppService) { app.Spec.Image = "web:2" })
	s.plan()
	s.expectReport(s.ready())
	s.expectWorkload("1 × web:2 A=1; ClusterIP 80→8080/TCP")
}

// testTime is when the contention of a test begins.
var testTime = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

// delayAfter returns the delay after corrections at these times.
func delayAfter(corrections ...time.Duration) time.Duration {
	var b driftBackoff
	var last time.Time
	for _, after := range corrections {
		last = testTime.Add(after)
		b.corrected(last)
	}
	return b.wait(last)
}

func TestDriftBackoff(t *testing.T) {
	t.Parallel()
	minutes := func(m ...time.Duration) []time.Duration {
		all := []time.Duration{0, 1, 2, 3, 4} // five corrections at once
		for _, m := range m {
			all = append(all, m*time.Minute+4)
		}
		return all
	}
	tests := map[string]struct {
		corrections []time.Duration
		want        time.Duration
	}{
		"none":                               {nil, 0},
		"four at once":                       {minutes()[:4], 0},
		"five at once":                       {minutes(), time.Minute},
		"five in exactly a minute":           {[]time.Duration{0, 1, 2, 3, time.Minute}, time.Minute},
		"five in more than a minute":         {[]time.Duration{0, 1, 2, 3, time.Minute + 1}, 0},
		"of many, five in a minute":          {[]time.Duration{0, time.Hour, time.Hour + 1, time.Hour + 2, time.Hour + 3, time.Hour + 4}, time.Minute},
		"one more after the delay":           {minutes(1), 2 * time.Minute},
		"two more, each after the delay":     {minutes(1, 3), 4 * time.Minute},
		"many more, up to the longest delay": {minutes(1, 3, 7, 15, 25, 35), maxDriftDelay},
		"one after another minute of rest":   {minutes(3), 2 * time.Minute},
		"one after a longer rest":            {minutes(4), 0},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if got := delayAfter(test.corrections...); got != test.want {
				t.Errorf("got %v, want %v", got, test.want)
			}
		})
	}
	t.Run("ends in time", func(t *testing.T) {
		var b driftBackoff
		for range maxCorrections {
			b.corrected(testTime)
		}
		got := []time.Duration{b.wait(testTime), b.wait(testTime.Add(59 * time.Second)), b.wait(testTime.Add(time.Minute))}
		if diff := cmp.Diff([]time.Duration{time.Minute, time.Second, 0}, got); diff != "" {
			t.Errorf("waits (-want +got):\n%s", diff)
		}
	})
}

func TestContention_that_has_ended_is_corrected_after_the_delay(t *testing.T) {
	t.Parallel()
	s := deliveredSetup(t)
	s.disengage()
	s.connect()
	w := s.newReconciler()
	for range maxCorrections {
		w.memories.of(s.app).drift.corrected(time.Now())
	}
	s.changeImageByOther("bad:1")
	seen, result := w.reconcileOnce()
	if seen.Reason != v1alpha1.ReasonFieldConflict || result.RequeueAfter <= 0 || result.RequeueAfter > minDriftDelay {
		t.Errorf("reported %+v, and requeued after %v", seen, result.RequeueAfter)
	}
	w.memories.of(s.app).drift.until = time.Now()
	w.reconcileOnce()
	s.expectWorkload(running)
}

// A manager that also rewrites the hash hides that the object was applied before.
func TestContention_with_a_manager_that_rewrites_the_hash_delays_corrections(t *testing.T) {
	t.Parallel()
	s := deliveredSetup(t)
	s.disengage()
	s.connect()
	w := s.newReconciler()
	s.edit(editImage)
	s.plan()
	w.reconcileOnce()
	for range maxCorrections {
		s.rewriteHash(nil)
		seen, _ := w.reconcileOnce()
		if seen.Reason == v1alpha1.ReasonFieldConflict {
			t.Fatalf("reported %+v", seen)
		}
	}
	s.rewriteHash(nil)
	seen, result := w.reconcileOnce()
	if seen.Reason != v1alpha1.ReasonFieldConflict || !strings.Contains(seen.Message, "metadata.annotations") || result.RequeueAfter <= 0 {
		t.Errorf("reported %+v, and requeued after %s", seen, result.RequeueAfter)
	}
}

// rewriteHash replaces the hash of the applied object on the Deployment; nil removes it.
func (s *setup) rewriteHash(hash *string) {
	s.Helper()
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": map[string]any{v1alpha1.AnnotationHash: hash}}})
	s.must(err)
	s.must(onMember.Patch(s.Context(), s.deployment(), client.RawPatch(types.MergePatchType, patch), client.FieldOwner("rewriter")))
}
