package v1alpha1_test

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
)

// applyTyped applies a typed object as a Go client does.
func applyTyped(t *testing.T, object client.Object) {
	t.Helper()
	converted, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	if err != nil {
		t.Fatal(err)
	}
	applied := client.ApplyConfigurationFromUnstructured(&unstructured.Unstructured{Object: converted})
	if err := hub.Apply(t.Context(), applied, client.FieldOwner("client")); err != nil {
		t.Fatal(err)
	}
}

// fieldsOwned returns the fields that the client owns.
func fieldsOwned(t *testing.T, object client.Object) string {
	t.Helper()
	if err := hub.Get(t.Context(), client.ObjectKeyFromObject(object), object); err != nil {
		t.Fatal(err)
	}
	for _, entry := range object.GetManagedFields() {
		if entry.Manager == "client" {
			var fields map[string]any
			if err := json.Unmarshal(entry.FieldsV1.GetRawBytes(), &fields); err != nil {
				t.Fatal(err)
			}
			return asYAML(t, fields)
		}
	}
	return ""
}

func TestTypedObjects_are_applied_without_the_fields_that_are_not_set(t *testing.T) {
	app := &v1alpha1.AppService{
		TypeMeta:   metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: "AppService"},
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "typed", Labels: map[string]string{"team": "shop"}},
		Spec: v1alpha1.AppServiceSpec{
			Image:     "registry.example/web:1",
			Env:       []corev1.EnvVar{{Name: "A", Value: "a"}},
			Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1")}},
			Ports:     []v1alpha1.ServicePort{{Name: "http", Port: 80, TargetPort: intstr.FromInt32(8080)}},
			Placement: &v1alpha1.Placement{ClusterMatch: v1alpha1.ClusterMatch{ClusterNames: []string{"east", "west"}}},
			Overrides: []v1alpha1.Override{{Name: "eu", ClusterMatch: v1alpha1.ClusterMatch{ClusterNames: []string{"east"}}, Patches: []v1alpha1.Patch{{
				Target:     v1alpha1.PatchDeployment,
				Operations: []v1alpha1.PatchOperation{{Op: "add", Path: "/spec/paused", Value: &v1alpha1.JSON{Raw: []byte("false")}}},
			}}}},
		},
	}
	applyTyped(t, app.DeepCopy())
	want := `
f:metadata: {f:labels: {f:team: {}}}
f:spec:
  f:image: {}
  f:env: {'k:{"name":"A"}': {.: {}, f:name: {}, f:value: {}}}
  f:resources: {f:requests: {f:cpu: {}}}
  f:ports: {'k:{"port":80,"protocol":"TCP"}': {.: {}, f:name: {}, f:port: {}, f:targetPort: {}}}
  f:placement: {f:clusterNames: {'v:"east"': {}, 'v:"west"': {}}}
  f:overrides: {'k:{"name":"eu"}': {.: {}, f:name: {}, f:clusterNames: {'v:"east"': {}}, f:patches: {}}}
`
	stored := app.DeepCopy()
	if diff := cmp.Diff(asYAML(t, parseYAML(t, want)), fieldsOwned(t, stored)); diff != "" {
		t.Errorf("owned fields of the AppService (-want +got):\n%s", diff)
	}
	if got := stored.Spec.Overrides[0].Patches[0].Operations[0].Value; string(got.Raw) != "false" {
		t.Errorf("the value of the patch is %s", got.Raw)
	}

	app.Spec.Env = nil
	applyTyped(t, app.DeepCopy())
	if fieldsOwned(t, stored); len(stored.Spec.Env) != 0 || stored.Spec.Image != app.Spec.Image {
		t.Errorf("after an apply without env: env %v, image %q", stored.Spec.Env, stored.Spec.Image)
	}

	member := &v1alpha1.MemberCluster{
		TypeMeta:   metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: "MemberCluster"},
		ObjectMeta: metav1.ObjectMeta{Name: "typed"},
		Spec:       v1alpha1.MemberClusterSpec{Taints: []v1alpha1.Taint{{Key: "maintenance", Effect: v1alpha1.TaintNoSchedule}}},
	}
	applyTyped(t, member)
	t.Cleanup(func() { _ = hub.Delete(context.Background(), member) })
	want = `f:spec: {f:taints: {'k:{"effect":"NoSchedule","key":"maintenance"}': {.: {}, f:effect: {}, f:key: {}}}}`
	if diff := cmp.Diff(asYAML(t, parseYAML(t, want)), fieldsOwned(t, member)); diff != "" {
		t.Errorf("owned fields of the MemberCluster (-want +got):\n%s", diff)
	}
}
