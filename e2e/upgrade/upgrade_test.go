package upgrade

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/e2e/framework"
	"github.com/fleetwright/fleetwright/internal/environment"
	"github.com/fleetwright/fleetwright/internal/sample"
	"github.com/fleetwright/fleetwright/internal/wait"
)

// TestUpgrade upgrades the fleet of the last release to the current CRDs and operator. Each step
// continues where the previous one ended.
func TestUpgrade(t *testing.T) {
	if *recordFlag != "" {
		t.Skip("a release is being recorded")
	}
	if number, isSample := sample.Number(); isSample && number%2 == 1 {
		t.Skip("the sample has a part of e2e/crash instead; both: make e2e SAMPLE=0")
	}
	f := &upgradedFleet{fleet: newFleet(t, "north", "south"), release: lastRelease(t)}
	f.restore(t)
	f.installCRDs(t, "-k", config+"/crd")
	for _, step := range []struct {
		name string
		do   func(*testing.T)
	}{
		{"the new CRDs serve the stored objects unchanged", func(t *testing.T) { f.expectKept(t, f.Hub, hubKinds) }},
		{"the new CRDs accept the stored objects as new ones", f.expectAccepted},
		{"applying the samples again changes nothing", f.expectSamplesUnchanged},
		{"the new operator reconciles everything and changes nothing", f.expectQuiet},
		{"it delivers an edit, and removes fields and objects", f.expectEdited},
		{"it removes everything", f.expectRemoved},
	} {
		if !t.Run(step.name, step.do) {
			return
		}
	}
	clusters, err := env.Clusters()
	if err := errors.Join(err, environment.Denied(t.Context(), clusters...)); err != nil {
		t.Error(err)
	}
}

// expectAccepted creates each of the hub's objects under another name, in a dry run: an update
// would not validate unchanged fields.
func (f *upgradedFleet) expectAccepted(t *testing.T) {
	for _, before := range f.before[framework.HubName] {
		if before.GetKind() == namespaceKind.Kind {
			continue
		}
		created := &unstructured.Unstructured{Object: map[string]any{"spec": before.Object["spec"]}}
		created.SetGroupVersionKind(before.GroupVersionKind())
		created.SetNamespace(before.GetNamespace())
		created.SetName("new-" + before.GetName())
		if err := f.Hub.Client.Create(t.Context(), created, client.DryRunAll, client.FieldValidation("Strict")); err != nil {
			t.Error(err)
		}
	}
}

// expectSamplesUnchanged applies the samples of the recording again, in a dry run. Samples that
// were edited or deleted since are left out.
func (f *upgradedFleet) expectSamplesUnchanged(t *testing.T) {
	samples, err := readObjects(filepath.Join(f.release, "samples.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	applied := 0
	for i := range samples {
		sample := &samples[i]
		current := sample.DeepCopy()
		if err := f.Hub.Client.Get(t.Context(), client.ObjectKeyFromObject(sample), current); apierrors.IsNotFound(err) {
			continue
		} else if err != nil {
			t.Fatal(err)
		}
		if current.GetGeneration() > 1 {
			continue
		}
		applied++
		if err := f.Hub.Client.Apply(t.Context(), client.ApplyConfigurationFromUnstructured(sample), client.FieldOwner("kubectl"), client.DryRunAll); err != nil {
			t.Error(err)
			continue
		}
		for _, change := range changedFields("", stableFields(*current), stableFields(*sample)) {
			t.Errorf("%s %s: %s", sample.GetKind(), sample.GetName(), change)
		}
	}
	t.Logf("%d of %d were applied", applied, len(samples))
}

// expectEdited removes fields from AppServices with every kind of field. That they are removed from
// the members depends on the managedFields that the last release left there.
func (f *upgradedFleet) expectEdited(t *testing.T) {
	for _, name := range []string{"patched", "adopted"} {
		f.editRare(t, name, func(s *v1alpha1.AppServiceSpec) {
			s.Image, s.Env, s.Args, s.DisruptionBudget = "registry.example/library/web:3", nil, nil, nil
			s.Overrides = nil
		})
	}
	for _, name := range []string{"patched", "adopted"} {
		f.Eventually(t, name+" to be edited", func(ctx context.Context) error { return f.checkEdited(ctx, name) })
	}
}

// checkEdited returns an error unless the members show the edit of expectEdited.
func (f *upgradedFleet) checkEdited(ctx context.Context, name string) error {
	key, app := client.ObjectKey{Namespace: "rare", Name: name}, &v1alpha1.AppService{}
	if err := f.Hub.Client.Get(ctx, key, app); err != nil {
		return err
	}
	if err := framework.IsReady(app); err != nil {
		return err
	}
	for _, member := range f.Members {
		deployment, err := member.Deployment(ctx, app)
		if err != nil {
			return err
		}
		type rendered struct {
			Image string
			Args  []string
			Env   []corev1.EnvVar
			DNS   corev1.DNSPolicy
		}
		container := deployment.Spec.Template.Spec.Containers[0]
		got := rendered{container.Image, container.Args, container.Env, deployment.Spec.Template.Spec.DNSPolicy}
		if diff := cmp.Diff(rendered{Image: app.Spec.Image, DNS: corev1.DNSClusterFirst}, got); diff != "" {
			return fmt.Errorf("%s (-want +got):\n%s", member.Name(), diff)
		}
		if err := member.Client.Get(ctx, key, &policyv1.PodDisruptionBudget{}); err == nil {
			return fmt.Errorf("%s still has the PodDisruptionBudget", member.Name())
		} else if !apierrors.IsNotFound(err) {
			return fmt.Errorf("%s: %w", member.Name(), err)
		}
	}
	return nil
}

// expectRemoved deletes all AppServices. Their objects are deleted, except orphaned ones; the
// objects of others stay.
func (f *upgradedFleet) expectRemoved(t *testing.T) {
	kubectl(t, f.Hub, "annotate", "appservice", "--all", "--all-namespaces", v1alpha1.AnnotationAbandon+"=edge-1")
	kubectl(t, f.Hub, "delete", "appservice", "--all", "--all-namespaces", "--timeout="+wait.Patience.String())
	for _, member := range f.Members {
		objects, err := listObjects(t.Context(), member, memberKinds)
		if err != nil {
			t.Fatal(err)
		}
		var left []string
		for _, object := range objects {
			if _, managed := object.GetAnnotations()[v1alpha1.AnnotationUID]; managed {
				t.Errorf("%s still has %s %s", member.Name(), object.GetKind(), object.GetName())
			}
			if object.GetKind() == "Deployment" {
				left = append(left, object.GetName())
			}
		}
		want := map[string][]string{"north": {"autoscaled", "taken"}, "south": {"autoscaled"}}[member.Name()]
		if diff := cmp.Diff(want, left); diff != "" {
			t.Errorf("Deployments on %s (-want +got):\n%s", member.Name(), diff)
		}
	}
}
