package e2e

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
)

// change is something to say of an AppService, when it is declared or later.
type change func(*v1alpha1.AppServiceSpec)

func image(name string) change {
	return func(s *v1alpha1.AppServiceSpec) { s.Image = name }
}

func replicas(n int32) change {
	return func(s *v1alpha1.AppServiceSpec) { s.Replicas = &n }
}

func env(name, value string) change {
	return func(s *v1alpha1.AppServiceSpec) { s.Env = append(s.Env, corev1.EnvVar{Name: name, Value: value}) }
}

// onlyEnv is env in the place of all that was there.
func onlyEnv(name, value string) change {
	return func(s *v1alpha1.AppServiceSpec) { s.Env = []corev1.EnvVar{{Name: name, Value: value}} }
}

func ports(numbers ...int32) change {
	return func(s *v1alpha1.AppServiceSpec) {
		s.Ports = nil
		for _, number := range numbers {
			s.Ports = append(s.Ports, v1alpha1.ServicePort{Name: fmt.Sprintf("port-%d", number), Port: number})
		}
	}
}

func onClusters(names ...string) change {
	return func(s *v1alpha1.AppServiceSpec) {
		s.Placement = &v1alpha1.Placement{ClusterMatch: v1alpha1.ClusterMatch{ClusterNames: names}}
	}
}

func inRegion(region string) change {
	return func(s *v1alpha1.AppServiceSpec) {
		s.Placement = &v1alpha1.Placement{ClusterMatch: v1alpha1.ClusterMatch{ClusterSelector: &v1alpha1.ClusterSelector{MatchLabels: map[string]string{"region": region}}}}
	}
}

func everywhere(s *v1alpha1.AppServiceSpec) { s.Placement = nil }

// appService is one of two replicas and one port, on every member.
func appService(name string, changes ...change) *v1alpha1.AppService {
	app := &v1alpha1.AppService{}
	app.Namespace, app.Name = namespace, name
	for _, change := range append([]change{image("web:1"), replicas(2), ports(80)}, changes...) {
		change(&app.Spec)
	}
	return app
}

// declare creates an AppService that ends with the test.
func (f *fleet) declare(t *testing.T, name string, changes ...change) *v1alpha1.AppService {
	t.Helper()
	return f.declareIn(t, namespace, name, changes...)
}

// declareIn is declare in another namespace.
func (f *fleet) declareIn(t *testing.T, namespace, name string, changes ...change) *v1alpha1.AppService {
	t.Helper()
	app := appService(name, changes...)
	app.Namespace = namespace
	if err := f.hub.api.Create(t.Context(), app); err != nil {
		t.Fatalf("declare AppService %s: %v", name, err)
	}
	t.Cleanup(func() { f.remove(t, app) })
	return app
}

// remove deletes an AppService and waits until it is gone. It may be gone already.
func (f *fleet) remove(t *testing.T, app *v1alpha1.AppService) {
	t.Helper()
	if err := f.hub.api.Delete(background, app); client.IgnoreNotFound(err) != nil {
		t.Errorf("delete AppService %s: %v", app.Name, err)
	}
	eventually(t, "AppService "+app.Name+" to be gone", func() error { return f.absent(f.hub, app) })
}

// edit changes the spec, and brings app up to date.
func (f *fleet) edit(t *testing.T, app *v1alpha1.AppService, changes ...change) {
	t.Helper()
	f.refresh(t, app)
	patch := client.MergeFrom(app.DeepCopy())
	for _, change := range changes {
		change(&app.Spec)
	}
	if err := f.hub.api.Patch(t.Context(), app, patch); err != nil {
		t.Fatalf("edit AppService %s: %v", app.Name, err)
	}
}

func (f *fleet) refresh(t *testing.T, app *v1alpha1.AppService) {
	t.Helper()
	if err := f.hub.api.Get(t.Context(), client.ObjectKeyFromObject(app), app); err != nil {
		t.Fatalf("get AppService %s: %v", app.Name, err)
	}
}

// absent is nil when the cluster has no such object.
func (f *fleet) absent(c *cluster, object client.Object) error {
	found, ok := object.DeepCopyObject().(client.Object)
	if !ok {
		return fmt.Errorf("%T is no object", object)
	}
	switch err := c.api.Get(background, client.ObjectKeyFromObject(object), found); {
	case apierrors.IsNotFound(err):
		return nil
	case err != nil:
		return fmt.Errorf("%s: %w", c.Name(), err)
	default:
		return fmt.Errorf("%s still has %T %s", c.Name(), object, object.GetName())
	}
}
