package e2e

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/e2e/environment"
)

// background is for what must also work in a test's clean-up.
var background = context.Background()

// eventually waits until check returns nil, and says how long that took. When it does not within the bound,
// the test ends with what check said last, and with a view of the fleet.
func eventually(t *testing.T, what string, check func() error) time.Duration {
	t.Helper()
	return eventuallyWithin(t, patience, what, check)
}

func eventuallyWithin(t *testing.T, bound time.Duration, what string, check func() error) time.Duration {
	t.Helper()
	begun := time.Now()
	if err := environment.Await(background, bound, what, func(context.Context) error { return check() }); err != nil {
		theFleet.dump(t)
		t.Fatal(err)
	}
	return time.Since(begun)
}

// stays fails the test as soon as check does not return nil.
func stays(t *testing.T, during time.Duration, what string, check func() error) {
	t.Helper()
	for end := time.Now().Add(during); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		if err := check(); err != nil {
			t.Fatalf("%s, for %s: %v", what, during, err)
		}
	}
}

// awaitReady waits until these members and no others run what the AppService says, and the hub says so.
func (f *fleet) awaitReady(t *testing.T, app *v1alpha1.AppService, members ...string) time.Duration {
	t.Helper()
	return f.awaitReadyWithin(t, patience, app, members...)
}

func (f *fleet) awaitReadyWithin(t *testing.T, bound time.Duration, app *v1alpha1.AppService, members ...string) time.Duration {
	t.Helper()
	what := fmt.Sprintf("AppService %s to run on %v and on no other", app.Name, members)
	took := eventuallyWithin(t, bound, what, func() error {
		var problems []error
		for name, member := range f.members {
			if slices.Contains(members, name) {
				problems = append(problems, runs(member, app))
			} else {
				problems = append(problems, f.gone(member, app))
			}
		}
		phases := map[string]v1alpha1.ClusterPhase{}
		for _, name := range members {
			phases[name] = v1alpha1.ClusterReady
		}
		return errors.Join(append(problems, f.reports(app, metav1.ConditionTrue, phases))...)
	})
	f.refresh(t, app)
	want := fmt.Sprintf("%d/%d", len(members), len(members))
	if got := app.Status.Summary.Display; got != want {
		t.Errorf("AppService %s is Ready and shows %q, want %q", app.Name, got, want)
	}
	return took
}

// runs is nil when the member has the Deployment and the Service that the AppService asks for, and all pods
// are available.
func runs(member *cluster, app *v1alpha1.AppService) error {
	if err := has(member, app); err != nil {
		return err
	}
	deployment := &appsv1.Deployment{}
	if err := member.api.Get(background, client.ObjectKeyFromObject(app), deployment); err != nil {
		return fmt.Errorf("%s: %w", member.Name(), err)
	}
	status, want := deployment.Status, app.DesiredReplicas()
	if status.ObservedGeneration != deployment.Generation || status.Replicas != want || status.UpdatedReplicas != want || status.AvailableReplicas != want {
		return fmt.Errorf("%s: of %d replicas %d are there, %d of them updated, %d available", member.Name(), want,
			status.Replicas, status.UpdatedReplicas, status.AvailableReplicas)
	}
	return nil
}

// declared is what an AppService says and a Deployment and a Service show.
type declared struct {
	Image    string
	Replicas int32
	Env      []corev1.EnvVar
	Ports    []int32
}

// has is nil when the member's objects say what the AppService says, whether or not the pods run already.
func has(member *cluster, app *v1alpha1.AppService) error {
	deployment, service := &appsv1.Deployment{}, &corev1.Service{}
	key := client.ObjectKeyFromObject(app)
	if err := errors.Join(member.api.Get(background, key, deployment), member.api.Get(background, key, service)); err != nil {
		return fmt.Errorf("%s: %w", member.Name(), err)
	}
	pod := deployment.Spec.Template
	container := pod.Spec.Containers[0]
	got := declared{Image: container.Image, Replicas: *deployment.Spec.Replicas, Env: container.Env}
	want := declared{Image: app.Spec.Image, Replicas: app.DesiredReplicas(), Env: app.Spec.Env}
	for _, port := range service.Spec.Ports {
		got.Ports = append(got.Ports, port.Port)
	}
	for _, port := range app.Spec.Ports {
		want.Ports = append(want.Ports, port.Port)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		return fmt.Errorf("%s (-declared +there):\n%s", member.Name(), diff)
	}
	if !labels.SelectorFromSet(service.Spec.Selector).Matches(labels.Set(pod.Labels)) {
		return fmt.Errorf("%s: the Service selects %v, the pods have %v", member.Name(), service.Spec.Selector, pod.Labels)
	}
	return nil
}

// gone is nil when the member has nothing of the AppService.
func (f *fleet) gone(member *cluster, app *v1alpha1.AppService) error {
	deployment, service := &appsv1.Deployment{}, &corev1.Service{}
	for _, object := range []client.Object{deployment, service} {
		object.SetNamespace(app.Namespace)
		object.SetName(app.Name)
	}
	return errors.Join(f.absent(member, deployment), f.absent(member, service))
}

// reports is nil when the status is about the present generation, Ready has this value, and there are these
// rows and no others.
func (f *fleet) reports(app *v1alpha1.AppService, ready metav1.ConditionStatus, phases map[string]v1alpha1.ClusterPhase) error {
	now := &v1alpha1.AppService{}
	if err := f.hub.api.Get(background, client.ObjectKeyFromObject(app), now); err != nil {
		return err
	}
	var problems []error
	if now.Status.ObservedGeneration != now.Generation {
		problems = append(problems, fmt.Errorf("the status is about generation %d, not %d", now.Status.ObservedGeneration, now.Generation))
	}
	if c := meta.FindStatusCondition(now.Status.Conditions, v1alpha1.ConditionReady); c == nil || c.Status != ready {
		problems = append(problems, fmt.Errorf("want Ready=%s, the condition is %+v", ready, c))
	}
	got := map[string]v1alpha1.ClusterPhase{}
	for _, row := range now.Status.Clusters {
		got[row.Name] = row.Phase
	}
	if !maps.Equal(got, phases) {
		problems = append(problems, fmt.Errorf("want the rows %v, got %v", phases, got))
	}
	return errors.Join(problems...)
}

// phase is that of a member's row, or a word for its absence.
func (f *fleet) phase(app *v1alpha1.AppService, member string) v1alpha1.ClusterPhase {
	now := &v1alpha1.AppService{}
	if err := f.hub.api.Get(background, client.ObjectKeyFromObject(app), now); err != nil {
		return v1alpha1.ClusterPhase(err.Error())
	}
	if row := now.Status.Cluster(member); row != nil {
		return row.Phase
	}
	return "no row"
}
