package framework

import (
	"context"
	"errors"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/entries"
)

// Change is a change of an AppService's spec.
type Change func(*v1alpha1.AppServiceSpec)

// Image sets the image.
func Image(name string) Change {
	return func(s *v1alpha1.AppServiceSpec) { s.Image = name }
}

// Replicas sets the replicas.
func Replicas(n int32) Change {
	return func(s *v1alpha1.AppServiceSpec) { s.Replicas = &n }
}

// AddEnv adds an environment variable.
func AddEnv(name, value string) Change {
	return func(s *v1alpha1.AppServiceSpec) { s.Env = append(s.Env, corev1.EnvVar{Name: name, Value: value}) }
}

// Env replaces all environment variables by one.
func Env(name, value string) Change {
	return func(s *v1alpha1.AppServiceSpec) { s.Env = []corev1.EnvVar{{Name: name, Value: value}} }
}

// Ports replaces the ports.
func Ports(numbers ...int32) Change {
	return func(s *v1alpha1.AppServiceSpec) {
		s.Ports = nil
		for _, number := range numbers {
			s.Ports = append(s.Ports, v1alpha1.ServicePort{Name: fmt.Sprintf("port-%d", number), Port: number, Protocol: corev1.ProtocolTCP})
		}
	}
}

// Placement replaces the placement.
func Placement(placement v1alpha1.Placement) Change {
	return func(s *v1alpha1.AppServiceSpec) { s.Placement = &placement }
}

// OnClusters places the AppService on the named clusters.
func OnClusters(names ...string) Change {
	return Placement(v1alpha1.Placement{ClusterMatch: v1alpha1.ClusterMatch{ClusterNames: names}})
}

// OnAllClusters removes the placement.
func OnAllClusters(s *v1alpha1.AppServiceSpec) { s.Placement = nil }

// NewAppService returns an AppService with 2 replicas and one port on every member, with changes.
func NewAppService(namespace, name string, changes ...Change) *v1alpha1.AppService {
	app := &v1alpha1.AppService{}
	app.Namespace, app.Name = namespace, name
	for _, change := range append([]Change{Image("web:1"), Replicas(2), Ports(80)}, changes...) {
		change(&app.Spec)
	}
	return app
}

// CreateApp creates an AppService, which is deleted when the test ends.
func (f *Fleet) CreateApp(t testing.TB, app *v1alpha1.AppService) *v1alpha1.AppService {
	t.Helper()
	if err := f.Hub.Client.Create(t.Context(), app); err != nil {
		t.Fatalf("create AppService %s: %v", app.Name, err)
	}
	t.Cleanup(func() { f.DeleteApp(t, app) })
	return app
}

// DeleteApp deletes an AppService and waits until it is gone. It may be gone already.
func (f *Fleet) DeleteApp(t testing.TB, app *v1alpha1.AppService) {
	t.Helper()
	if err := f.Hub.Client.Delete(context.Background(), app); client.IgnoreNotFound(err) != nil {
		t.Errorf("delete AppService %s: %v", app.Name, err)
	}
	f.Eventually(t, "AppService "+app.Name+" to be gone", func(ctx context.Context) error { return f.Hub.CheckAbsent(ctx, app) })
}

// EditApp changes the spec, and updates app from the hub.
func (f *Fleet) EditApp(t testing.TB, app *v1alpha1.AppService, changes ...Change) {
	t.Helper()
	f.RefreshApp(t, app)
	patch := client.MergeFrom(app.DeepCopy())
	for _, change := range changes {
		change(&app.Spec)
	}
	if err := f.Hub.Client.Patch(t.Context(), app, patch); err != nil {
		t.Fatalf("edit AppService %s: %v", app.Name, err)
	}
}

// RefreshApp updates app from the hub. Its status.clusters has all entries, as in [Fleet.ReadApp].
func (f *Fleet) RefreshApp(t testing.TB, app *v1alpha1.AppService) {
	t.Helper()
	current, err := f.ReadApp(t.Context(), app)
	if err != nil {
		t.Fatalf("get AppService %s: %v", app.Name, err)
	}
	*app = *current
}

// ReadApp returns an AppService as it is on the hub. Its status.clusters has all entries, even if
// the hub has them in AppServiceSlices.
func (f *Fleet) ReadApp(ctx context.Context, app *v1alpha1.AppService) (*v1alpha1.AppService, error) {
	current := &v1alpha1.AppService{}
	if err := f.Hub.Client.Get(ctx, client.ObjectKeyFromObject(app), current); err != nil {
		return nil, err
	}
	return f.withEntries(ctx, current)
}

func (f *Fleet) withEntries(ctx context.Context, app *v1alpha1.AppService) (*v1alpha1.AppService, error) {
	all, _, err := entries.Read(ctx, f.Hub.Client, app)
	if err != nil {
		return nil, err
	}
	return entries.WithEntries(app, all), nil
}

// CheckReady returns an error unless the AppService is Ready at its present generation.
func (f *Fleet) CheckReady(ctx context.Context, app *v1alpha1.AppService) error {
	current := &v1alpha1.AppService{}
	if err := f.Hub.Client.Get(ctx, client.ObjectKeyFromObject(app), current); err != nil {
		return err
	}
	return IsReady(current)
}

// IsReady returns an error unless the status is of the present generation and Ready is true.
func IsReady(app *v1alpha1.AppService) error {
	if err := IsObserved(app); err != nil {
		return err
	}
	ready := meta.FindStatusCondition(app.Status.Conditions, v1alpha1.ConditionReady)
	switch {
	case ready == nil:
		return errors.New("the AppService has no condition Ready")
	case !meta.IsStatusConditionTrue(app.Status.Conditions, v1alpha1.ConditionReady):
		return fmt.Errorf("the condition Ready is %s: %s: %s", ready.Status, ready.Reason, ready.Message)
	}
	return nil
}

// IsObserved returns an error unless the status is of the present generation.
func IsObserved(app *v1alpha1.AppService) error {
	if observed := app.Status.ObservedGeneration; observed != app.Generation {
		return fmt.Errorf("the status is of generation %d, want %d", observed, app.Generation)
	}
	return nil
}
