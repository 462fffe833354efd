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
	"github.com/fleetwright/fleetwright/e2e/framework"
)

// inRegion places the AppService on the clusters of a region.
func inRegion(region string) framework.Change {
	return framework.Placement(v1alpha1.Placement{ClusterMatch: v1alpha1.ClusterMatch{
		ClusterSelector: &v1alpha1.ClusterSelector{MatchLabels: map[string]string{corev1.LabelTopologyRegion: region}},
	}})
}

// createApp creates an AppService in the tests' namespace. It is deleted when the test ends.
func (f *fleet) createApp(t *testing.T, name string, changes ...framework.Change) *v1alpha1.AppService {
	t.Helper()
	return f.CreateApp(t, framework.NewAppService(namespace, name, changes...))
}

// awaitReady waits until the AppService runs on these members and on no others, and its status
// reports that. It returns how long that took.
func (f *fleet) awaitReady(t *testing.T, app *v1alpha1.AppService, members ...string) time.Duration {
	t.Helper()
	what := fmt.Sprintf("AppService %s to run on %v and on no other", app.Name, members)
	took := f.Eventually(t, what, func(ctx context.Context) error {
		var errs []error
		for name, member := range f.Members {
			if slices.Contains(members, name) {
				errs = append(errs, checkRunning(ctx, member, app))
			} else {
				errs = append(errs, checkRemoved(ctx, member, app))
			}
		}
		phases := map[string]v1alpha1.ClusterPhase{}
		for _, name := range members {
			phases[name] = v1alpha1.ClusterReady
		}
		return errors.Join(append(errs, f.checkStatus(ctx, app, metav1.ConditionTrue, phases))...)
	})
	f.RefreshApp(t, app)
	want := fmt.Sprintf("%d/%d", len(members), len(members))
	if got := app.Status.Summary.Display; got != want {
		t.Errorf("AppService %s is Ready and displays %q, want %q", app.Name, got, want)
	}
	return took
}

// checkRunning returns an error unless the member has the objects of the AppService and all pods
// are available.
func checkRunning(ctx context.Context, member *framework.Cluster, app *v1alpha1.AppService) error {
	if err := checkObjects(ctx, member, app); err != nil {
		return err
	}
	deployment, err := member.Deployment(ctx, app)
	if err != nil {
		return err
	}
	status, want := deployment.Status, app.DesiredReplicas()
	if status.ObservedGeneration != deployment.Generation || status.Replicas != want || status.UpdatedReplicas != want || status.AvailableReplicas != want {
		return fmt.Errorf("%s: want %d replicas, there are %d: %d updated, %d available", member.Name(), want,
			status.Replicas, status.UpdatedReplicas, status.AvailableReplicas)
	}
	return nil
}

// rendered has the fields of a Deployment and a Service that come from an AppService.
type rendered struct {
	Image    string
	Replicas int32
	Env      []corev1.EnvVar
	Ports    []int32
}

// checkObjects returns an error unless the member's Deployment and Service match the AppService.
// The pods need not run yet.
func checkObjects(ctx context.Context, member *framework.Cluster, app *v1alpha1.AppService) error {
	deployment, service := &appsv1.Deployment{}, &corev1.Service{}
	key := client.ObjectKeyFromObject(app)
	if err := errors.Join(member.Client.Get(ctx, key, deployment), member.Client.Get(ctx, key, service)); err != nil {
		return fmt.Errorf("%s: %w", member.Name(), err)
	}
	pod := deployment.Spec.Template
	container := pod.Spec.Containers[0]
	got := rendered{Image: container.Image, Replicas: *deployment.Spec.Replicas, Env: container.Env}
	want := rendered{Image: app.Spec.Image, Replicas: app.DesiredReplicas(), Env: app.Spec.Env}
	for _, port := range service.Spec.Ports {
		got.Ports = append(got.Ports, port.Port)
	}
	for _, port := range app.Spec.Ports {
		want.Ports = append(want.Ports, port.Port)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		return fmt.Errorf("%s (-want +got):\n%s", member.Name(), diff)
	}
	if !labels.SelectorFromSet(service.Spec.Selector).Matches(labels.Set(pod.Labels)) {
		return fmt.Errorf("%s: the Service selects %v, the pods have %v", member.Name(), service.Spec.Selector, pod.Labels)
	}
	return nil
}

// checkRemoved returns an error if the member still has an object of the AppService.
func checkRemoved(ctx context.Context, member *framework.Cluster, app *v1alpha1.AppService) error {
	deployment, service := &appsv1.Deployment{}, &corev1.Service{}
	for _, object := range []client.Object{deployment, service} {
		object.SetNamespace(app.Namespace)
		object.SetName(app.Name)
	}
	return errors.Join(member.CheckAbsent(ctx, deployment), member.CheckAbsent(ctx, service))
}

// checkStatus returns an error unless the status is of the present generation, the condition Ready
// has this value, and the AppService has these entries and no others.
func (f *fleet) checkStatus(ctx context.Context, app *v1alpha1.AppService, ready metav1.ConditionStatus, phases map[string]v1alpha1.ClusterPhase) error {
	current, err := f.ReadApp(ctx, app)
	if err != nil {
		return err
	}
	errs := []error{framework.IsObserved(current)}
	if c := meta.FindStatusCondition(current.Status.Conditions, v1alpha1.ConditionReady); c == nil || c.Status != ready {
		errs = append(errs, fmt.Errorf("want Ready=%s, the condition is %+v", ready, c))
	}
	got := map[string]v1alpha1.ClusterPhase{}
	for _, cluster := range current.Status.Clusters {
		got[cluster.Name] = cluster.Phase
	}
	if !maps.Equal(got, phases) {
		errs = append(errs, fmt.Errorf("want the clusters %v, got %v", phases, got))
	}
	return errors.Join(errs...)
}

// checkPhase returns an error unless the AppService has this phase on a member.
func (f *fleet) checkPhase(ctx context.Context, app *v1alpha1.AppService, member string, want v1alpha1.ClusterPhase) error {
	current, err := f.ReadApp(ctx, app)
	if err != nil {
		return err
	}
	switch cluster := current.Status.Cluster(member); {
	case cluster == nil:
		return fmt.Errorf("there is no entry for %s", member)
	case cluster.Phase != want:
		return fmt.Errorf("%s is %s, want %s", member, cluster.Phase, want)
	}
	return nil
}

// entry is the part of an entry of an AppService that is the same in each run.
type entry struct {
	Phase  v1alpha1.ClusterPhase
	Reason string
}

// allReady returns the entries of an AppService that is Ready on these members.
func allReady(members ...string) map[string]entry {
	entries := map[string]entry{}
	for _, name := range members {
		entries[name] = entry{Phase: v1alpha1.ClusterReady}
	}
	return entries
}

// awaitEntries waits until the AppService has these entries and no others, for the present
// generation.
func (f *fleet) awaitEntries(t *testing.T, app *v1alpha1.AppService, want map[string]entry) {
	t.Helper()
	f.Eventually(t, fmt.Sprintf("AppService %s to have the entries %v", app.Name, want), func(context.Context) error {
		f.RefreshApp(t, app)
		got := map[string]entry{}
		for _, cluster := range app.Status.Clusters {
			got[cluster.Name] = entry{cluster.Phase, cluster.Reason}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			return fmt.Errorf("(-want +got):\n%s", diff)
		}
		return framework.IsObserved(app)
	})
}

// readyMessage returns the message of the condition Ready while that is not true.
func readyMessage(app *v1alpha1.AppService) string {
	c := meta.FindStatusCondition(app.Status.Conditions, v1alpha1.ConditionReady)
	if c == nil || c.Status == metav1.ConditionTrue {
		return ""
	}
	return c.Message
}
