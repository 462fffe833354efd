package object

import (
	"maps"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/workload"
)

// compared is an object that a member is deleting. So there is nothing to do: Decide returns
// Unchanged if the object holds every desired field, and otherwise Blocked.
type compared struct {
	*testing.T
	facts    Facts
	desired  *unstructured.Unstructured
	existing client.Object
	adopted  *appsv1.Deployment
}

// newCompared returns an object that holds every desired field.
func newCompared(t *testing.T, kind string) *compared {
	c := &compared{T: t}
	c.facts.HubID = "hub-1"
	c.facts.App, c.facts.Entry = &v1alpha1.AppService{}, &v1alpha1.ClusterStatus{Name: "east", Replicas: 2}
	c.facts.App.Namespace, c.facts.App.Name, c.facts.App.UID, c.facts.App.Generation = "shop", "web", "uid-1", 1
	c.facts.App.Spec.Image, c.facts.App.Spec.Ports = "web:1", []v1alpha1.ServicePort{{Port: 80}}
	c.facts.App.Spec.ExternallyScaled = true // otherwise it must be known whether there are autoscalers
	c.existing = map[string]client.Object{"Deployment": &appsv1.Deployment{}, "Service": &corev1.Service{}}[kind]
	c.render(kind)
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(c.desired.Object, c.existing); err != nil {
		t.Fatal(err)
	}
	c.existing.SetUID("object-1")
	c.existing.SetResourceVersion("7")
	c.existing.SetDeletionTimestamp(new(metav1.Now()))
	return c
}

func (c *compared) render(kind string) {
	c.Helper()
	rendered, err := workload.Render(c.facts.App, c.facts.Entry, &v1alpha1.MemberCluster{}, "hub-1", nil)
	if err == nil {
		rendered, err = rendered.KeepSelector(c.adopted, nil)
	}
	if err != nil {
		c.Fatal(err)
	}
	c.desired = map[string]*unstructured.Unstructured{"Deployment": rendered.Deployment, "Service": rendered.Service}[kind]
}

// replace replaces the object by a copy, as the cache does after an event.
func (c *compared) replace() { c.existing = c.existing.DeepCopyObject().(client.Object) }

// expect ensures the object, and remembers the comparison as delivery does.
func (c *compared) expect(want Action) {
	c.Helper()
	existing := Inspect("hub-1", c.facts.App, c.facts.Entry, c.existing)
	existing.Newer = false
	c.facts.Existing = &existing
	step, err := Decide(c.facts, c.desired)
	if err != nil {
		c.Fatal(err)
	}
	if step.Action != want {
		c.Errorf("got %s, want %s", step.Action, want)
	}
	c.facts.Memory = step.Memory
}

func drift(c *compared) {
	c.existing.(*appsv1.Deployment).Spec.Template.Spec.Containers[0].Image = "bad:1"
}

func scaleToZero(c *compared) { c.existing.(*appsv1.Deployment).Spec.Replicas = new(int32(0)) }

// Each case changes one thing that the result of the comparison depends on, so that the object
// lacks a desired field.
func TestComparison_is_repeated(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		kind   string
		before func(*compared)
		change func(*compared)
	}{
		"after the object has changed":                       {change: func(c *compared) { c.replace(); drift(c); c.existing.SetResourceVersion("8") }},
		"of an object that took its place":                   {change: func(c *compared) { c.replace(); drift(c); c.existing.SetUID("object-2") }},
		"of a restored member's object, at the same version": {change: func(c *compared) { c.replace(); drift(c) }},
		"after a label of the object has changed": {change: func(c *compared) {
			c.replace()
			c.existing.SetLabels(map[string]string{v1alpha1.LabelManagedBy: v1alpha1.ManagedBy})
		}},
		"after an annotation of the object has changed": {change: func(c *compared) {
			c.replace()
			c.existing.SetAnnotations(maps.Clone(c.existing.GetAnnotations()))
			delete(c.existing.GetAnnotations(), "team")
		}, before: func(c *compared) {
			c.existing.GetAnnotations()["team"] = "a"
			annotations := c.desired.GetAnnotations()
			annotations["team"] = "a"
			c.desired.SetAnnotations(annotations)
		}},
		"with another desired state": {change: func(c *compared) {
			c.facts.App.Spec.Ports[0].Port = 81
			c.render("Service")
		}, kind: "Service"},
		"with another selector": {change: func(c *compared) {
			c.facts.KeepsSelector, c.adopted = true, &appsv1.Deployment{}
			c.adopted.Name = "web"
			c.adopted.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": "adopted"}}
			c.render("Service")
		}, kind: "Service"},
		"with other initial replicas": {
			before: func(c *compared) {
				scaleToZero(c)
				c.facts.Entry.MaxReplicas, c.facts.Entry.Replicas = 9, 0
			},
			change: func(c *compared) { c.facts.Entry.Replicas = 2 },
		},
		"when an autoscaler comes": {
			before: scaleToZero,
			change: func(c *compared) { c.facts.Entry.MaxReplicas = 9 },
		},
		"when the hub cannot account for the stamp any more": {
			kind: "Service",
			before: func(c *compared) {
				annotations := c.existing.GetAnnotations()
				annotations[v1alpha1.AnnotationGeneration], annotations[v1alpha1.AnnotationSpecHash] = "1", "hash-1"
				c.facts.App.Status.PlannedSpecs = []v1alpha1.PlannedSpec{{Generation: 1, Hash: "hash-1"}}
			},
			change: func(c *compared) {
				c.facts.App.Status.PlannedSpecs = []v1alpha1.PlannedSpec{{Generation: 1, Hash: "hash-2"}}
			},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if test.kind == "" {
				test.kind = "Deployment"
			}
			c := newCompared(t, test.kind)
			if test.before != nil {
				test.before(c)
			}
			c.expect(Unchanged)
			test.change(c)
			c.expect(Blocked)
			c.expect(Blocked)
		})
	}
}

// The object in memory is changed in place, which no cache does, so only a comparison shows it.
func TestComparison_that_found_nothing_to_do_is_not_repeated(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*compared){
		"of the same object": func(*compared) {},
		"of an object with another status": func(c *compared) {
			c.replace()
			c.existing.SetResourceVersion("8")
			c.existing.(*appsv1.Deployment).Status.ReadyReplicas = 1
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newCompared(t, "Deployment")
			c.expect(Unchanged)
			drift(c)
			change(c)
			c.expect(Unchanged)
			if c.facts.Memory.converged.object != c.existing {
				t.Error("the memory keeps an object that the cache has replaced")
			}
			c.facts.Memory = Memory{}
			c.expect(Blocked)
		})
	}
}

// An autoscaler that scaled the Deployment may be gone when the next event comes.
func TestComparison_that_found_an_autoscaler_is_repeated_after_an_event(t *testing.T) {
	t.Parallel()
	c := newCompared(t, "Deployment")
	c.facts.App.Spec.ExternallyScaled = false
	c.render("Deployment")
	without, err := workload.WithoutReplicas(c.desired)
	if err != nil {
		t.Fatal(err)
	}
	c.existing.SetAnnotations(without.GetAnnotations())
	c.existing.(*appsv1.Deployment).Spec.Replicas = new(int32(9))
	c.facts.Live.Scaling = Scaled
	c.expect(Unchanged)
	c.facts.Live = Live{}
	c.replace()
	c.expect(Unchanged) // the same version
	c.replace()
	c.existing.SetResourceVersion("8")
	c.expect(NeedLive)
}
