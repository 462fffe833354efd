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

// newDeployment returns a Deployment with that many containers, each with an image of that length.
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

// The weight is at least three quarters of the memory that the runtime measures, and not much more.
func TestWeightOf_is_close_to_the_memory_of_the_object(t *testing.T) {
	for name, build := range map[string]func() *appsv1.Deployment{
		"an empty Deployment":        func() *appsv1.Deployment { return &appsv1.Deployment{} },
		"a usual Deployment":         func() *appsv1.Deployment { return newDeployment(2, 100) },
		"with many empty containers": func() *appsv1.Deployment { return newDeployment(1000, 0) },
		"with long texts":            func() *appsv1.Deployment { return newDeployment(10, 10_000) },
	} {
		t.Run(name, func(t *testing.T) {
			// So many that other garbage of the process does not matter.
			all := make([]*appsv1.Deployment, 32<<20/weightOf(build()))
			before := heap()
			for i := range all {
				all[i] = build()
			}
			actual := (heap() - before) / int64(len(all))
			if got := weightOf(all[0]); got < actual*3/4 || got > 2*actual+2*objectOverhead {
				t.Errorf("the weight is %d, and the memory %d", got, actual)
			}
			runtime.KeepAlive(all)
		})
	}
}

// heap returns the size of the heap. The second collection drops what is in pools.
func heap() int64 {
	var stats runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&stats)
	return int64(stats.HeapAlloc)
}

func TestCacheLimit_rejects_objects_that_do_not_fit(t *testing.T) {
	exceeded := 0
	small, large := newDeployment(1, 100), newDeployment(1, 10_000)
	l := &cacheLimit{maxBytes: 2*weightOf(large) + weightOf(small), onExceeded: func() { exceeded++ }}
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
			t.Errorf("step %d: fits %t, onExceeded was called %d times, error %v", i, fits, exceeded, l.err())
		}
	}
	if l.used.Load() != l.maxBytes {
		t.Errorf("%d bytes are used, want %d", l.used.Load(), l.maxBytes)
	}
}

func BenchmarkWeightOf(b *testing.B) {
	object := newDeployment(3, 500)
	for b.Loop() {
		weightOf(object)
	}
}
