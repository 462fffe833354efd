package main

import (
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

func named[T client.Object](object T, name string) T {
	object.SetName(name)
	return object
}

func deployment(name, image string) *appsv1.Deployment {
	d := named(&appsv1.Deployment{}, name)
	d.Spec.Template.Spec.Containers = []corev1.Container{{Image: image}}
	return d
}

func isDone(e *expectation) bool {
	select {
	case <-e.done:
		return true
	default:
		return false
	}
}

func TestExpect_counts_each_object_once_from_now_on(t *testing.T) {
	o, apps := newObserver(), batch("a", 1)
	name := apps[0].Name
	o.see("east", watch.Event{Type: watch.Added, Object: deployment(name, "x")}) // too early
	e := o.expect(2, isObject(apps))
	for range 3 {
		o.see("west", watch.Event{Type: watch.Modified, Object: deployment(name, "x")})
	}
	o.see("west", watch.Event{Type: watch.Added, Object: named(&corev1.Service{}, "another")})
	o.see("east", watch.Event{Type: watch.Deleted, Object: deployment(name, "x")})
	if isDone(e) {
		t.Fatal("done with one object of two")
	}
	begin := time.Now()
	o.see("west", watch.Event{Type: watch.Added, Object: named(&corev1.Service{}, name)})
	if !isDone(e) {
		t.Fatal("not done with two objects")
	}
	if e.last.Before(begin) {
		t.Errorf("the last change was at %s, want the time of the last one, %s", e.last, begin)
	}
}

func TestExpectState_counts_what_is_there(t *testing.T) {
	o, apps := newObserver(), batch("a", 1)
	o.see("east", watch.Event{Type: watch.Added, Object: deployment(apps[0].Name, apps[0].Image)})
	if e := o.expectState(1, hasImage(apps)); !isDone(e) {
		t.Error("not done with the state that was there")
	}
	e := o.expectState(1, hasImage(withImage(apps, image("2"))))
	if isDone(e) {
		t.Error("done with another image")
	}
	o.see("east", watch.Event{Type: watch.Modified, Object: deployment(apps[0].Name, image("2"))})
	if !isDone(e) {
		t.Error("not done with the new image")
	}
}

func TestAwait_ends_when_a_watch_fails(t *testing.T) {
	o := newObserver()
	e := o.expect(1, isObject(batch("a", 1)))
	o.see("east", watch.Event{Type: watch.Error, Object: nil})
	if _, err := o.await(t.Context(), e, "it"); err == nil || !strings.Contains(err.Error(), "east") {
		t.Errorf("got %v, want an error that names the cluster", err)
	}
}
