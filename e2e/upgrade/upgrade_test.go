package upgrade

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/e2e/environment"
)

// The last release's fleet gets the present CRDs and operator. Each step goes on from the one before.
func TestUpgrade(t *testing.T) {
	if *recordFlag != "" {
		t.Skip("it is being recorded")
	}
	f := &upgraded{fleet: newFleet(t, "north", "south"), release: lastRelease(t)}
	f.restore(t)
	f.installCRDs(t, "-k", config+"/crd")
	for _, step := range []struct {
		name string
		do   func(*testing.T)
	}{
		{"the new CRDs serve what is stored, as it was", func(t *testing.T) { f.wantKept(t, f.hub, kindsOfHub) }},
		{"and would take it if it were new", f.wantTaken},
		{"what was applied changes nothing when it is applied again", f.wantSamples},
		{"the new operator looks at all of it, and changes nothing", f.wantQuiet},
		{"it takes an edit to the members, and takes away what is no longer wanted", f.wantEdited},
		{"it takes all away", f.wantRemoved},
	} {
		if !t.Run(step.name, step.do) {
			return
		}
	}
	clusters, err := theEnvironment.Clusters()
	if err := errors.Join(err, environment.Denied(t.Context(), clusters...)); err != nil {
		t.Error(err)
	}
}

// wantTaken makes each of the hub's objects once more, in a dry run: of an update, an API server does not look at what is as it was.
func (f *upgraded) wantTaken(t *testing.T) {
	for _, was := range f.were["hub"] {
		if was.GetKind() == namespaces.Kind {
			continue
		}
		again := &unstructured.Unstructured{Object: map[string]any{"spec": was.Object["spec"]}}
		again.SetGroupVersionKind(was.GroupVersionKind())
		again.SetNamespace(was.GetNamespace())
		again.SetName("again-" + was.GetName())
		if err := f.hub.api.Create(t.Context(), again, client.DryRunAll, client.FieldValidation("Strict")); err != nil {
			t.Error(err)
		}
	}
}

// wantSamples applies what the release was recorded with, in a dry run. What was edited since, or is gone, is left out.
func (f *upgraded) wantSamples(t *testing.T) {
	samples, err := read(filepath.Join(f.release, "samples.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	applied := 0
	for i := range samples {
		sample := &samples[i]
		now := sample.DeepCopy()
		if err := f.hub.api.Get(t.Context(), client.ObjectKeyFromObject(sample), now); apierrors.IsNotFound(err) {
			continue
		} else if err != nil {
			t.Fatal(err)
		}
		if now.GetGeneration() > 1 {
			continue
		}
		applied++
		if err := f.hub.api.Apply(t.Context(), client.ApplyConfigurationFromUnstructured(sample), client.FieldOwner("kubectl"), client.DryRunAll); err != nil {
			t.Error(err)
			continue
		}
		for _, change := range lost("", lasting(*now), lasting(*sample)) {
			t.Errorf("%s %s: %s", sample.GetKind(), sample.GetName(), change)
		}
	}
	t.Logf("%d of %d were applied", applied, len(samples))
}

// wantEdited edits what has marks of all sorts: that fields go from a member needs the managers that the last release has left there.
func (f *upgraded) wantEdited(t *testing.T) {
	for _, name := range []string{"patched", "adopted"} {
		f.edit(t, name, func(s *v1alpha1.AppServiceSpec) {
			s.Image, s.Env, s.Args, s.DisruptionBudget = "registry.example/library/web:3", nil, nil, nil
			s.Overrides = nil
		})
	}
	for _, name := range []string{"patched", "adopted"} {
		eventually(t, name+" to be edited", func(ctx context.Context) error { return f.edited(ctx, name) })
	}
}

func (f *upgraded) edited(ctx context.Context, name string) error {
	key, app := client.ObjectKey{Namespace: "rare", Name: name}, &v1alpha1.AppService{}
	if err := f.hub.api.Get(ctx, key, app); err != nil {
		return err
	}
	if app.Status.ObservedGeneration != app.Generation || !meta.IsStatusConditionTrue(app.Status.Conditions, v1alpha1.ConditionReady) {
		return fmt.Errorf("at generation %d its status is %+v", app.Generation, app.Status)
	}
	for _, member := range f.members {
		deployment := &appsv1.Deployment{}
		if err := member.api.Get(ctx, key, deployment); err != nil {
			return fmt.Errorf("%s: %w", member.Name(), err)
		}
		type shown struct {
			Image string
			Args  []string
			Env   []corev1.EnvVar
			DNS   corev1.DNSPolicy
		}
		container := deployment.Spec.Template.Spec.Containers[0]
		got := shown{container.Image, container.Args, container.Env, deployment.Spec.Template.Spec.DNSPolicy}
		if diff := cmp.Diff(shown{Image: app.Spec.Image, DNS: corev1.DNSClusterFirst}, got); diff != "" {
			return fmt.Errorf("%s (-edited +there):\n%s", member.Name(), diff)
		}
		if err := member.api.Get(ctx, key, &policyv1.PodDisruptionBudget{}); err == nil {
			return fmt.Errorf("%s still has a PodDisruptionBudget of it", member.Name())
		} else if !apierrors.IsNotFound(err) {
			return fmt.Errorf("%s: %w", member.Name(), err)
		}
	}
	return nil
}

// wantRemoved deletes all AppServices. What they were on members goes with them, but for what is orphaned; what was somebody else's stays.
func (f *upgraded) wantRemoved(t *testing.T) {
	f.hub.kubectl(t, "annotate", "appservice", "--all", "--all-namespaces", v1alpha1.AnnotationAbandon+"=edge-1")
	f.hub.kubectl(t, "delete", "appservice", "--all", "--all-namespaces", "--timeout=60s")
	for _, member := range f.members {
		now, err := member.objects(t.Context(), kindsOfMember)
		if err != nil {
			t.Fatal(err)
		}
		var left []string
		for _, object := range now {
			if _, marked := object.GetAnnotations()[v1alpha1.AnnotationUID]; marked {
				t.Errorf("%s is left with %s %s", member.Name(), object.GetKind(), object.GetName())
			}
			if object.GetKind() == "Deployment" {
				left = append(left, object.GetName())
			}
		}
		want := map[string][]string{"north": {"autoscaled", "taken"}, "south": {"autoscaled"}}[member.Name()]
		if diff := cmp.Diff(want, left); diff != "" {
			t.Errorf("Deployments on %s (-want +there):\n%s", member.Name(), diff)
		}
	}
}
