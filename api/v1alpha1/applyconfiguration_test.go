package v1alpha1_test

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	applyv1alpha1 "github.com/fleetwright/fleetwright/api/v1alpha1/applyconfiguration/api/v1alpha1"
)

// typedApp is an AppService as a Go client builds it: with types of our own, of core/v1, and with
// those whose JSON is not that of their Go fields.
func typedApp() *applyv1alpha1.AppServiceApplyConfiguration {
	return applyv1alpha1.AppService("typed", "default").
		WithLabels(map[string]string{"team": "shop"}).
		WithSpec(applyv1alpha1.AppServiceSpec().
			WithImage("registry.example/web:1").
			WithEnv(corev1.EnvVar{Name: "A", Value: "a"}).
			WithResources(corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1")}}).
			WithPorts(applyv1alpha1.ServicePort().WithName("http").WithPort(80).WithTargetPort(intstr.FromInt32(8080)).WithProtocol(corev1.ProtocolTCP)).
			WithPlacement(applyv1alpha1.Placement().
				WithClusterNames("east", "west").
				WithClusterSelector(applyv1alpha1.ClusterSelector().WithMatchLabels(map[string]string{"tier": "prod"}))).
			WithOverrides(applyv1alpha1.Override().WithName("eu").WithClusterNames("east").
				WithPatches(applyv1alpha1.Patch().WithTarget(v1alpha1.PatchDeployment).
					WithOperations(applyv1alpha1.PatchOperation().WithOp("add").WithPath("/spec/paused").WithValue(v1alpha1.JSON{Raw: []byte("false")})))))
}

func TestApplyConfiguration_applies_and_extracts_an_AppService(t *testing.T) {
	if err := hub.Apply(t.Context(), typedApp(), client.FieldOwner("shop")); err != nil {
		t.Fatal(err)
	}
	app := &v1alpha1.AppService{}
	if err := hub.Get(t.Context(), client.ObjectKey{Namespace: "default", Name: "typed"}, app); err != nil {
		t.Fatal(err)
	}
	if got := app.Spec.Overrides[0].Patches[0].Operations[0].Value; string(got.Raw) != "false" {
		t.Errorf("the value of the patch is %s", got.Raw)
	}
	extracted, err := applyv1alpha1.ExtractAppService(app, "shop")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(asYAML(t, typedApp()), asYAML(t, extracted)); diff != "" {
		t.Errorf("extracted (-applied +extracted):\n%s", diff)
	}
	// Extract, modify, apply: what the configuration no longer has is removed.
	extracted.Spec.Env = nil
	if err := hub.Apply(t.Context(), extracted, client.FieldOwner("shop")); err != nil {
		t.Fatal(err)
	}
	if err := hub.Get(t.Context(), client.ObjectKeyFromObject(app), app); err != nil {
		t.Fatal(err)
	}
	if len(app.Spec.Env) != 0 || app.Spec.Image != "registry.example/web:1" {
		t.Errorf("after the second apply: env %v, image %q", app.Spec.Env, app.Spec.Image)
	}
}

func TestApplyConfiguration_applies_and_extracts_a_MemberCluster(t *testing.T) {
	build := func() *applyv1alpha1.MemberClusterApplyConfiguration {
		return applyv1alpha1.MemberCluster("typed").WithLabels(map[string]string{"tier": "prod"}).
			WithSpec(applyv1alpha1.MemberClusterSpec().WithUnschedulable(true).
				WithTaints(applyv1alpha1.Taint().WithKey("maintenance").WithEffect(v1alpha1.TaintNoSchedule)))
	}
	if err := hub.Apply(t.Context(), build(), client.FieldOwner("admin")); err != nil {
		t.Fatal(err)
	}
	member := &v1alpha1.MemberCluster{}
	if err := hub.Get(t.Context(), client.ObjectKey{Name: "typed"}, member); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = hub.Delete(context.Background(), member) })
	extracted, err := applyv1alpha1.ExtractMemberCluster(member, "admin")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(asYAML(t, build()), asYAML(t, extracted)); diff != "" {
		t.Errorf("extracted (-applied +extracted):\n%s", diff)
	}
}
