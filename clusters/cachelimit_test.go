package clusters

import (
	"runtime"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// newDeployment returns a Deployment with that many containers, each with a text.
func newDeployment(containers, text int) *appsv1.Deployment {
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{
		Name: "a", Labels: map[string]string{"a": "b"}, CreationTimestamp: metav1.NewTime(time.Now()),
		ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "a", FieldsV1: metav1.NewFieldsV1(strings.Repeat("x", text))}},
	}}
	for range containers {
		d.Spec.Template.Spec.Containers = append(d.Spec.Template.Spec.Containers, corev1.Container{
			Image:     strings.Repeat("x", text),
			Resources: corev1.ResourceRequirements{Limits: corev1.ResourceList{"cpu": resource.MustParse("1")}},
		})
	}
	return d
}

// The counted weight is at least what the runtime measures, and not much more.
func TestTheWeightOfAnObjectIsItsMemory(t *testing.T) {
	for name, build := range map[string]func() *appsv1.Deployment{
		"an empty one":                 func() *appsv1.Deployment { return &appsv1.Deployment{} },
		"a usual one":                  func() *appsv1.Deployment { return newDeployment(2, 100) },
		"one of many empty containers": func() *appsv1.Deployment { return newDeployment(1000, 0) },
		"one of much text":             func() *appsv1.Deployment { return newDeployment(10, 10_000) },
	} {
		t.Run(name, func(t *testing.T) {
			const count = 200
			var before, after runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&before)
			all := [count]*appsv1.Deployment{}
			for i := range all {
				all[i] = build()
			}
			runtime.GC()
			runtime.ReadMemStats(&after)
			actual := (int64(after.HeapAlloc) - int64(before.HeapAlloc)) / count
			if got := weightOf(all[0]); got < actual*3/4 || got > 2*actual+2*objectOverhead {
				t.Errorf("it weighs %d, and takes up %d", got, actual)
			}
			runtime.KeepAlive(all)
		})
	}
}

func TestACacheIsBounded(t *testing.T) {
	exceeded := 0
	small, large := newDeployment(1, 100), newDeployment(1, 10_000)
	l := &cacheLimit{most: 2*weightOf(large) + weightOf(small), onExceeded: func() { exceeded++ }}
	for i, step := range []struct {
		object, before *appsv1.Deployment
		fits           bool
	}{
		{large, nil, true}, {large, nil, true}, {small, nil, true}, {small, nil, false},
		{large, large, true}, {large, small, false}, {small, large, true}, {large, small, true}, {nil, large, true}, {large, nil, true}, {small, nil, false},
	} {
		exceeded = 0
		var object, before any
		if step.object != nil {
			object = step.object
		}
		if step.before != nil {
			before = step.before
		}
		if fits := l.add(object, before); fits != step.fits || (exceeded == 0) != step.fits || !fits && l.err() == nil {
			t.Errorf("step %d: %t, %d times exceeded, %v", i, fits, exceeded, l.err())
		}
	}
	if l.used.Load() != l.most {
		t.Errorf("%d used, want %d", l.used.Load(), l.most)
	}
}

func BenchmarkWeightOf(b *testing.B) {
	object := newDeployment(3, 500)
	for b.Loop() {
		weightOf(object)
	}
}
