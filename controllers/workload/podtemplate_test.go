package workload_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/workload"
)

func memberIn(name, zone string) *v1alpha1.MemberCluster {
	return &v1alpha1.MemberCluster{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"zone": zone}}}
}

func patching(operations ...v1alpha1.PatchOperation) v1alpha1.Override {
	return v1alpha1.Override{Name: "net", Patches: []v1alpha1.Patch{{Target: v1alpha1.PatchDeployment, Operations: operations}}}
}

// Members share a template only if nothing can differ that pod security looks at.
func TestPodTemplates_are_shared(t *testing.T) {
	zone := []corev1.EnvVar{{Name: "ZONE", Value: "$(cluster.labels['zone'])"}}
	onlyEast := patching(v1alpha1.PatchOperation{Op: "add", Path: "/spec/template/spec/hostNetwork", Value: &v1alpha1.JSON{Raw: []byte("true")}})
	onlyEast.ClusterNames = []string{"east"}
	copying := patching(
		v1alpha1.PatchOperation{Op: "add", Path: "/spec/template/spec/securityContext", Value: &v1alpha1.JSON{Raw: []byte(`{"seccompProfile": {}}`)}},
		v1alpha1.PatchOperation{Op: "copy", From: "/spec/template/spec/containers/0/env/0/value", Path: "/spec/template/spec/securityContext/seccompProfile/type"},
	)
	for name, c := range map[string]struct {
		spec v1alpha1.AppServiceSpec
		want bool
	}{
		"without overrides":                          {v1alpha1.AppServiceSpec{Env: zone}, true},
		"an override of one of them":                 {v1alpha1.AppServiceSpec{Overrides: []v1alpha1.Override{onlyEast}}, false},
		"a patch that copies a label of the cluster": {v1alpha1.AppServiceSpec{Env: zone, Overrides: []v1alpha1.Override{copying}}, false},
		"a label of the cluster in an annotation":    {v1alpha1.AppServiceSpec{PodAnnotations: map[string]string{"a": "$(cluster.name)"}}, false},
	} {
		t.Run(name, func(t *testing.T) {
			app := &v1alpha1.AppService{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}, Spec: c.spec}
			app.Spec.Image = "web:1"
			templates := workload.PodTemplatesOf(app)
			east, err := templates.For(memberIn("east", "Unconfined"))
			if err != nil {
				t.Fatal(err)
			}
			west, err := templates.For(memberIn("west", "RuntimeDefault"))
			if err != nil {
				t.Fatal(err)
			}
			if got := east == west; got != c.want {
				t.Errorf("shared: %t, want %t", got, c.want)
			}
			if name == "a patch that copies a label of the cluster" && east.Spec.SecurityContext.SeccompProfile.Type != "Unconfined" {
				t.Errorf("the template of east has %+v", east.Spec.SecurityContext.SeccompProfile)
			}
		})
	}
}

// A member whose label is missing does not decide about the others.
func TestPodTemplates_after_an_error(t *testing.T) {
	app := &v1alpha1.AppService{Spec: v1alpha1.AppServiceSpec{Image: "web:1", Env: []corev1.EnvVar{{Name: "ZONE", Value: "$(cluster.labels['zone'])"}}}}
	templates := workload.PodTemplatesOf(app)
	if _, err := templates.For(&v1alpha1.MemberCluster{ObjectMeta: metav1.ObjectMeta{Name: "east"}}); !workload.IsInvalid(err) {
		t.Fatal(err)
	}
	if template, err := templates.For(memberIn("west", "a")); err != nil || len(template.Spec.Containers) != 1 {
		t.Fatal(template, err)
	}
}
