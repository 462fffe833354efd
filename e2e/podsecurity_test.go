package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/e2e/framework"
)

const (
	enforce      = "pod-security.kubernetes.io/enforce"
	podViolation = `violates PodSecurity "baseline:`
)

// labelNamespace sets the label of a namespace on the hub.
func (f *fleet) labelNamespace(t *testing.T, name, level string) {
	t.Helper()
	patch := client.RawPatch("application/merge-patch+json", fmt.Appendf(nil, `{"metadata":{"labels":{%q:%q}}}`, enforce, level))
	if err := f.Hub.Client.Patch(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, patch); err != nil {
		t.Fatal(err)
	}
}

// onHostNetwork runs the pods of some clusters, or of all, in the network of the node.
func onHostNetwork(members ...string) framework.Change {
	o := deploymentPatch("/spec/template/spec/hostNetwork", "true")
	o.Name, o.ClusterNames = "net", members
	return overrides(o)
}

func (f *fleet) expectHostNetwork(t *testing.T, app *v1alpha1.AppService, want map[string]bool) {
	t.Helper()
	f.Eventually(t, fmt.Sprintf("the pods in the network of the node: %v", want), func(ctx context.Context) error {
		got := map[string]bool{}
		for name, member := range f.Members {
			deployment := &appsv1.Deployment{}
			if err := member.Client.Get(ctx, client.ObjectKeyFromObject(app), deployment); client.IgnoreNotFound(err) != nil {
				return err
			} else if err == nil {
				got[name] = deployment.Spec.Template.Spec.HostNetwork
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			return fmt.Errorf("(-want +got):\n%s", diff)
		}
		return nil
	})
}

// TestPodSecurity tries to get to the nodes of the members, by both walls.
func TestPodSecurity(t *testing.T) {
	f := testFleet(t, onKind)
	guarded := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "guarded", Labels: map[string]string{enforce: "baseline", "team": "a"}}}
	if err := f.Hub.Client.Create(t.Context(), guarded); err != nil {
		t.Fatal(err)
	}
	all := map[string]bool{"north": false, "south": false, "east": false}
	app := f.CreateApp(t, framework.NewAppService("guarded", "net", framework.Image("web:1")))
	f.awaitReady(t, app, "north", "south", "east")

	t.Run("the hub refuses a template that is forbidden everywhere, and the rest of the edit takes effect", func(t *testing.T) {
		f.EditApp(t, app, framework.Replicas(3), onHostNetwork())
		f.Eventually(t, "the edit to be refused", func(ctx context.Context) error {
			f.RefreshApp(t, app)
			if !app.Status.Rollout.SpecRefused || !strings.Contains(readyMessage(app), podViolation) {
				return fmt.Errorf("Ready says %q", readyMessage(app))
			}
			return nil
		})
		f.awaitEntries(t, app, allReady("north", "south", "east"))
		for name, member := range f.Members {
			deployment := &appsv1.Deployment{}
			if err := member.Client.Get(t.Context(), client.ObjectKeyFromObject(app), deployment); err != nil || *deployment.Spec.Replicas != 3 {
				t.Errorf("%s has %v replicas, want 3 (%v)", name, deployment.Spec.Replicas, err)
			}
		}
		f.expectHostNetwork(t, app, all)
	})
	t.Run("an override that is forbidden fails its cluster only", func(t *testing.T) {
		f.EditApp(t, app, onHostNetwork("east"), framework.AddEnv("STEP", "2"))
		entries := allReady("north", "south")
		entries["east"] = entry{v1alpha1.ClusterFailed, v1alpha1.ReasonPodSecurityRefused}
		f.awaitEntries(t, app, entries)
		f.expectHostNetwork(t, app, all)
	})
	t.Run("the namespaces that were created on the members have the labels of pod security, and no others", func(t *testing.T) {
		for name, member := range f.Members {
			created := &corev1.Namespace{}
			if err := member.Client.Get(t.Context(), client.ObjectKey{Name: "guarded"}, created); err != nil {
				t.Fatal(err)
			}
			want := map[string]string{enforce: "baseline", v1alpha1.LabelManagedBy: v1alpha1.ManagedBy, corev1.LabelMetadataName: "guarded"}
			if diff := cmp.Diff(want, created.Labels); diff != "" {
				t.Errorf("%s (-want +got):\n%s", name, diff)
			}
		}
	})
	t.Run("a member refuses the pods when the hub does not", func(t *testing.T) {
		f.labelNamespace(t, "guarded", "privileged")
		f.Eventually(t, "east to report that its pods are refused", func(ctx context.Context) error {
			f.RefreshApp(t, app)
			if east := app.Status.Cluster("east"); east.Reason != v1alpha1.ReasonPodsRefused || !strings.Contains(east.Message, podViolation) {
				return fmt.Errorf("east is %s %s: %s", east.Phase, east.Reason, east.Message)
			}
			return nil
		})
		f.expectHostNetwork(t, app, map[string]bool{"north": false, "south": false, "east": true})
	})
}
