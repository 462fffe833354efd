package timetravel

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/e2e/framework"
)

// namespace is the namespace of all AppServices and their objects.
const namespace = "default"

// workload is what a member has of an AppService.
type workload struct {
	Deployment, Service types.UID
	Image               string
	Replicas            int32
}

// workloads returns what a member has, by the name of the AppService.
func (f *fleet) workloads(ctx context.Context, member string) (map[string]workload, error) {
	deployments, services := &appsv1.DeploymentList{}, &corev1.ServiceList{}
	managed := client.MatchingLabels{v1alpha1.LabelManagedBy: v1alpha1.ManagedBy}
	api := f.Members[member].Client
	if err := errors.Join(api.List(ctx, deployments, client.InNamespace(namespace), managed), api.List(ctx, services, client.InNamespace(namespace), managed)); err != nil {
		return nil, fmt.Errorf("%s: %w", member, err)
	}
	found := map[string]workload{}
	for i := range deployments.Items {
		d := &deployments.Items[i]
		found[d.Name] = workload{Deployment: d.UID, Image: d.Spec.Template.Spec.Containers[0].Image, Replicas: *d.Spec.Replicas}
	}
	for i := range services.Items {
		w := found[services.Items[i].Name]
		w.Service = services.Items[i].UID
		found[services.Items[i].Name] = w
	}
	return found, nil
}

// inventory is what the members have, by member and AppService.
type inventory map[string]map[string]workload

func (f *fleet) inventory(t *testing.T) inventory {
	t.Helper()
	all := inventory{}
	for _, name := range f.MemberNames() {
		found, err := f.workloads(t.Context(), name)
		if err != nil {
			t.Fatal(err)
		}
		all[name] = found
	}
	return all
}

// expectKept fails the test if the members lack an object that they had, if it was replaced, or if
// it has fewer replicas.
func (f *fleet) expectKept(t *testing.T, before inventory) {
	t.Helper()
	for member, now := range f.inventory(t) {
		for name, was := range before[member] {
			is := now[name]
			if is.Deployment != was.Deployment || is.Service != was.Service || is.Replicas < was.Replicas {
				t.Errorf("%s had %s as %+v, and has %+v", member, name, was, is)
			}
		}
	}
}

// expectNoDeletion fails the test if the operator has deleted anything on a member after the first
// seen requests, by the audit logs.
func (f *fleet) expectNoDeletion(t *testing.T, seen map[string]int) {
	t.Helper()
	for name, deletions := range f.deletions(t) {
		for _, deletion := range deletions[seen[name]:] {
			t.Errorf("%s: %s", name, deletion)
		}
	}
}

// deletions returns the operator's deletions on each member so far, without those of copies: it deletes
// the copy of a content that nothing needs any more.
func (f *fleet) deletions(t *testing.T) map[string][]string {
	t.Helper()
	all := map[string][]string{}
	for _, name := range f.MemberNames() {
		requests, err := f.Members[name].Requests(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		all[name] = nil
		for i := range requests {
			if strings.HasPrefix(requests[i].Verb, "delete") && requests[i].Object.Resource != "configmaps" {
				all[name] = append(all[name], requests[i].String())
			}
		}
	}
	return all
}

func (f *fleet) countDeletions(t *testing.T) map[string]int {
	t.Helper()
	counts := map[string]int{}
	for name, deletions := range f.deletions(t) {
		counts[name] = len(deletions)
	}
	return counts
}

// create creates an AppService, which the test need not delete.
func (f *fleet) create(t *testing.T, name string, changes ...framework.Change) *v1alpha1.AppService {
	t.Helper()
	app := framework.NewAppService(namespace, name, changes...)
	if err := f.Hub.Client.Create(t.Context(), app); err != nil {
		t.Fatal(err)
	}
	return app
}

// awaitReady waits until AppServices are Ready on exactly these members. A member whose Secret is
// gone may have an entry that is Detached.
func (f *fleet) awaitReady(t *testing.T, apps []*v1alpha1.AppService, members ...string) {
	t.Helper()
	f.Eventually(t, fmt.Sprintf("AppServices to be Ready on %v", members), func(ctx context.Context) error {
		var errs []error
		for _, app := range apps {
			errs = append(errs, f.checkReadyOn(ctx, app, members))
		}
		return errors.Join(errs...)
	})
}

func (f *fleet) checkReadyOn(ctx context.Context, app *v1alpha1.AppService, members []string) error {
	current, err := f.ReadApp(ctx, app)
	if err != nil {
		return err
	}
	if err := framework.IsReady(current); err != nil {
		return fmt.Errorf("%s: %w", app.Name, err)
	}
	var names []string
	for _, entry := range current.Status.Clusters {
		if entry.Phase != v1alpha1.ClusterDetached {
			names = append(names, entry.Name)
		}
	}
	if diff := cmp.Diff(members, names); diff != "" {
		return fmt.Errorf("entries of %s (-want +got):\n%s", app.Name, diff)
	}
	for _, member := range members {
		found, err := f.workloads(ctx, member)
		if err != nil {
			return err
		}
		if got := found[app.Name]; got.Image != current.Spec.Image || got.Replicas != *current.Spec.Replicas || got.Service == "" {
			return fmt.Errorf("%s has %s as %+v", member, app.Name, got)
		}
	}
	return nil
}

// awaitReason waits until the condition Ready of an AppService has a reason, and returns its message.
func (f *fleet) awaitReason(t *testing.T, app *v1alpha1.AppService, reason string) (message string) {
	t.Helper()
	f.Eventually(t, app.Name+" to be "+reason, func(ctx context.Context) error {
		current, err := f.ReadApp(ctx, app)
		if err != nil {
			return err
		}
		ready := meta.FindStatusCondition(current.Status.Conditions, v1alpha1.ConditionReady)
		if ready == nil || ready.Reason != reason {
			return fmt.Errorf("the condition Ready is %+v", ready)
		}
		message = ready.Message
		return nil
	})
	return message
}

// annotateAsPrinted sets the annotation that a message of the AppService names, with its value.
func (f *fleet) annotateAsPrinted(t *testing.T, app *v1alpha1.AppService, annotation, message string) {
	t.Helper()
	_, value, found := strings.Cut(message, annotation+"=")
	if !found {
		t.Fatalf("the message of %s names no %s: %s", app.Name, annotation, message)
	}
	value, _, _ = strings.Cut(value, " ")
	value = strings.TrimRight(value, ".,;")
	f.Hub.Kubectl(t, *binFlag, "annotate", "--overwrite", "--namespace", namespace, "appservice", app.Name, annotation+"="+value)
}
