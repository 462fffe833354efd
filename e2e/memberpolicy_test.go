package e2e

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/config/member"
	"github.com/fleetwright/fleetwright/e2e/framework"
	"github.com/fleetwright/fleetwright/internal/environment"
)

// The objects that the policy refuses in TestMemberPolicy: the test asks for it.
const (
	withoutConsent = "without-consent" // a Deployment that is to be adopted
	withoutLabels  = "without-labels"  // a Namespace
)

// isProvoked reports whether a member denied a request because TestMemberPolicy wants that.
func isProvoked(request *environment.Request) bool {
	isNamed := request.Object.Name == withoutConsent || request.Object.Name == withoutLabels
	return isNamed && strings.Contains(request.Response.Message, member.PolicyName+"/")
}

// TestMemberPolicy tests a member with config/member/policy, which the rest of the suite has only in
// `make e2e-restricted`. Each step continues where the previous one ended. A cluster of its own would
// take most of the time, so east has the policy until the test ends.
func TestMemberPolicy(t *testing.T) {
	f := testFleet(t, onKind)
	east := f.Members["east"]
	f.restrict(t, east)

	app := f.createApp(t, "restricted", framework.OnClusters("east"), autoscaling(2, 5), disruptionBudget(1))
	t.Run("an AppService is delivered and edited", func(t *testing.T) {
		f.awaitOptionalObjects(t, app, map[string]optionalObjects{"east": {Replicas: 2, Min: 2, Max: 5, MaxUnavailable: 1}})
		f.EditApp(t, app, framework.Image("web:2"), framework.Ports(80, 81))
		f.awaitDelivered(t, app, "east")
	})

	t.Run("an adoption waits for the consent of the member", func(t *testing.T) {
		existing := newDeployment(withoutConsent)
		if err := east.Client.Create(t.Context(), existing); err != nil {
			t.Fatal(err)
		}
		adopting := f.createApp(t, withoutConsent, framework.OnClusters("east"), func(s *v1alpha1.AppServiceSpec) { s.ConflictPolicy = v1alpha1.ConflictAdopt })
		f.Eventually(t, "the refusal to be reported", func(ctx context.Context) error {
			current := &v1alpha1.AppService{}
			if err := f.Hub.Client.Get(ctx, client.ObjectKeyFromObject(adopting), current); err != nil {
				return err
			}
			entry := current.Status.Cluster("east")
			if entry == nil || entry.Reason != v1alpha1.ReasonAdoptionNotAllowed || !strings.Contains(entry.Message, "kubectl label namespace "+namespace+" fleetwright.dev/adoption=allowed") {
				return fmt.Errorf("the entry is %+v", entry)
			}
			return nil
		})
		labelAdoption(t, east, `"allowed"`)
		t.Cleanup(func() { labelAdoption(t, east, `null`) })
		f.EditApp(t, adopting, framework.AddEnv("AGREED", "yes")) // which is delivered at once
		f.awaitReady(t, adopting, "east")
		f.DeleteApp(t, adopting)
	})

	t.Run("a deletion removes everything", func(t *testing.T) {
		f.DeleteApp(t, app)
		if err := checkRemoved(t.Context(), east, app); err != nil {
			t.Error(err)
		}
		if left, err := f.optionalObjects(t.Context(), "east", app); err != nil || left != (optionalObjects{}) {
			t.Errorf("east still has %+v: %v", left, err)
		}
	})
}

// newDeployment returns a Deployment that belongs to nobody.
func newDeployment(name string) *appsv1.Deployment {
	labels := map[string]string{"app": name}
	deployment := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	deployment.Spec.Selector = &metav1.LabelSelector{MatchLabels: labels}
	deployment.Spec.Template.Labels = labels
	deployment.Spec.Template.Spec.Containers = []corev1.Container{{Name: "app", Image: "mine:1"}}
	return deployment
}

// labelAdoption sets the label with which the namespace of the tests agrees to adoptions, or removes it.
func labelAdoption(t *testing.T, c *framework.Cluster, value string) {
	t.Helper()
	label := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":{"`+v1alpha1.LabelAdoption+`":`+value+`}}}`))
	if err := c.Client.Patch(context.Background(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}, label); err != nil {
		t.Fatal(err)
	}
}

// restrict applies the policy on a member until the test ends. It waits until the API server of the
// member enforces it, and at the end until it does not any more.
func (f *fleet) restrict(t *testing.T, c *framework.Cluster) {
	t.Helper()
	if err := environment.Restrict(t.Context(), c.Client, config); err != nil {
		t.Fatal(err)
	}
	if os.Getenv(environment.Restricted) == "" { // otherwise each member has it always
		t.Cleanup(func() {
			objects, err := member.Policy()
			for _, object := range objects {
				err = errors.Join(err, c.Client.Delete(context.Background(), object))
			}
			if err != nil {
				t.Fatal(err)
			}
			f.awaitPolicy(t, c, false)
		})
	}
	f.awaitPolicy(t, c, true)
}

// awaitPolicy waits until the API server of a member enforces the policy, or does not.
func (f *fleet) awaitPolicy(t *testing.T, c *framework.Cluster, enforced bool) {
	t.Helper()
	kubeconfig, err := environment.RequestAccountKubeconfig(context.Background(), c.Kubeconfig(), environment.MemberAccount)
	if err != nil {
		t.Fatal(err)
	}
	user, err := environment.NewClient(kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	f.Eventually(t, fmt.Sprintf("%s to enforce the policy: %t", c.Name(), enforced), func(ctx context.Context) error {
		err := user.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: withoutLabels}}, client.DryRunAll)
		if isRefused := err != nil && strings.Contains(err.Error(), member.PolicyName); isRefused != enforced {
			return fmt.Errorf("the answer to a Namespace without labels: %w", err)
		}
		return nil
	})
}
