package delivery

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	k8sruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/delivery/copies"
	"github.com/fleetwright/fleetwright/internal/growth"
	"github.com/fleetwright/fleetwright/internal/wait"
)

// cachedCopy returns an object as a member's cache holds it. The copies of two members share no
// memory.
func cachedCopy[T client.Object](object T, member string, changes ...func(T)) T {
	object.SetNamespace("shop")
	object.SetName("web")
	object.SetUID(types.UID(member))
	object.SetResourceVersion("7")
	object.SetLabels(map[string]string{"app": "web"})
	object.SetAnnotations(map[string]string{"hub": "h"})
	for _, change := range changes {
		change(object)
	}
	return object
}

func deploymentOf(member string, changes ...func(*appsv1.Deployment)) *appsv1.Deployment {
	d := &appsv1.Deployment{}
	d.Spec.Replicas = new(int32(2))
	d.Spec.Template.Spec.Containers = []corev1.Container{{Name: "web", Image: "web:1", Resources: corev1.ResourceRequirements{
		Limits: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1000m")},
	}}}
	d.Status.Conditions = []appsv1.DeploymentCondition{{
		Type: appsv1.DeploymentAvailable, Status: corev1.ConditionTrue, Reason: "MinimumReplicasAvailable", Message: "it is",
		LastUpdateTime: metav1.Unix(int64(len(member)), 0),
	}}
	return cachedCopy(d, member, changes...)
}

func serviceOf(member string, changes ...func(*corev1.Service)) *corev1.Service {
	s := &corev1.Service{}
	s.Spec.ClusterIP, s.Spec.ClusterIPs = "10.0.0."+member, []string{"10.0.0." + member}
	s.Spec.Ports = []corev1.ServicePort{{Name: "http", Port: 80}}
	return cachedCopy(s, member, changes...)
}

func TestTransform_changes_only_managed_fields(t *testing.T) {
	t.Parallel()
	replicas := func(d *appsv1.Deployment) { d.Spec.Replicas = new(int32(5)) }
	image := func(d *appsv1.Deployment) { d.Spec.Template.Spec.Containers[0].Image = "web:2" }
	quantity := func(d *appsv1.Deployment) {
		d.Spec.Template.Spec.Containers[0].Resources.Limits[corev1.ResourceCPU] = resource.MustParse("1001m")
	}
	annotated := func(d *appsv1.Deployment) { d.Annotations["by"] = "hand" }
	unready := func(d *appsv1.Deployment) { d.Status.Conditions[0].Status = corev1.ConditionFalse }
	large := func(d *appsv1.Deployment) { d.Annotations["large"] = strings.Repeat("x", 32<<10) }
	transform := Transform()
	for name, object := range map[string]client.Object{
		"the first":                  deploymentOf("1"),
		"one more":                   deploymentOf("2"),
		"other replicas":             deploymentOf("3", replicas),
		"another image":              deploymentOf("4", image),
		"a slightly larger quantity": deploymentOf("5", quantity),
		"another annotation":         deploymentOf("6", annotated),
		"another state":              deploymentOf("7", unready),
		"a large annotation":         deploymentOf("8", large),
		"no replicas, and no state":  deploymentOf("9", func(d *appsv1.Deployment) { d.Spec.Replicas, d.Status.Conditions = nil, nil }),
		"a Service":                  serviceOf("10"),
		"one more Service":           serviceOf("11"),
		"a headless Service":         serviceOf("12", func(s *corev1.Service) { s.Spec.ClusterIP, s.Spec.ClusterIPs = "None", nil }),
		"another port":               serviceOf("13", func(s *corev1.Service) { s.Spec.Ports[0].NodePort = 30000 }),
		"a Service without a spec":   serviceOf("14", func(s *corev1.Service) { s.Spec = corev1.ServiceSpec{} }),
	} {
		t.Run(name, func(t *testing.T) {
			want := object.DeepCopyObject()
			object.SetManagedFields([]metav1.ManagedFieldsEntry{{Manager: "creator"}})
			got, err := transform(object)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got.(k8sruntime.Object)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestTransform_interns_common_values(t *testing.T) {
	t.Parallel()
	transform := Transform()
	held := func(object any) any {
		t.Helper()
		got, err := transform(object)
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	container := func(d *appsv1.Deployment) *corev1.Container { return &d.Spec.Template.Spec.Containers[0] }
	first := held(deploymentOf("1")).(*appsv1.Deployment)
	second := held(deploymentOf("2", func(d *appsv1.Deployment) { d.Spec.Replicas = new(int32(7)) })).(*appsv1.Deployment)
	if container(first) != container(second) {
		t.Error("two Deployments that differ in replicas do not share their containers")
	}
	other := held(deploymentOf("3", func(d *appsv1.Deployment) { d.Spec.Template.Spec.Containers[0].Image = "web:2" })).(*appsv1.Deployment)
	if container(first) == container(other) {
		t.Error("two Deployments of different images share their containers")
	}
	a, b := held(serviceOf("1")).(*corev1.Service), held(serviceOf("2")).(*corev1.Service)
	if &a.Spec.Ports[0] != &b.Spec.Ports[0] {
		t.Error("two Services that differ in addresses do not share their ports")
	}
	a.Labels["shared"] = "yes" // no code may do this to a cached object
	if b.Labels["shared"] != "yes" {
		t.Error("two Services do not share their labels")
	}
}

// A value is known as long as an object in memory has it. A member whose Deployment changes all the time
// leaves nothing behind, nor does a member that is gone.
func TestInterner_keeps_only_what_objects_have(t *testing.T) {
	t.Parallel()
	i := newInterner()
	hold := func(d *appsv1.Deployment) *appsv1.Deployment {
		if _, err := i.transform(d); err != nil {
			t.Fatal(err)
		}
		return d
	}
	expectKnown := func(want int) {
		t.Helper()
		wait.Eventually(t, func() error {
			runtime.GC()
			i.mu.Lock()
			defer i.mu.Unlock()
			if len(i.known) != want {
				return fmt.Errorf("%d values are known, want %d", len(i.known), want)
			}
			return nil
		})
	}
	large := func(version int) func(*appsv1.Deployment) {
		return func(d *appsv1.Deployment) {
			d.Spec.Template.Spec.Containers[0].Args = []string{fmt.Sprint(version), strings.Repeat("x", 15<<10)}
		}
	}
	other := hold(deploymentOf("1", large(0)))
	changing := hold(deploymentOf("2", large(0)))
	const values = 3 // the metadata, the spec and a condition
	for version := range 1000 {
		changing = hold(deploymentOf("2", large(version+1)))
	}
	expectKnown(values + 1) // two specs
	again := hold(deploymentOf("3", large(0)))
	if &again.Spec.Template.Spec.Containers[0] != &other.Spec.Template.Spec.Containers[0] {
		t.Error("a value is forgotten that an object has")
	}
	runtime.KeepAlive(changing)
	expectKnown(values)
	runtime.KeepAlive(other)
	runtime.KeepAlive(again)
	expectKnown(0)
}

// The record of copies has the UID of its Deployment. The cached objects share their metadata anyway.
func TestTransform_interns_metadata_with_a_record_of_copies(t *testing.T) {
	t.Parallel()
	transform := Transform()
	held := func(uid, recorded string) *appsv1.Deployment {
		d := deploymentOf(uid, func(d *appsv1.Deployment) {
			d.Annotations[v1alpha1.AnnotationCopies] = "ConfigMap/web-settings-5hc9dk2m7t,Secret/web-tls-k2x7m9q4ta@12,Deployment/" + recorded
		})
		if _, err := transform(d); err != nil {
			t.Fatal(err)
		}
		return d
	}
	first, second := held("1", "1"), held("2", "2")
	first.Labels["shared"] = "yes" // no code may do this to a cached object
	if second.Labels["shared"] != "yes" {
		t.Error("two Deployments do not share their labels")
	}
	for _, d := range []*appsv1.Deployment{first, second} {
		if got := confirmedOwner(d); got != d.UID {
			t.Errorf("the record is confirmed for %q, want %q", got, d.UID)
		}
	}
	if restored := held("3", "1"); restored.Annotations[v1alpha1.AnnotationCopies] == second.Annotations[v1alpha1.AnnotationCopies] ||
		confirmedOwner(restored) != "1" {
		t.Errorf("the record of another Deployment became %s", restored.Annotations[v1alpha1.AnnotationCopies])
	}
}

func confirmedOwner(d *appsv1.Deployment) types.UID {
	return copies.ConfirmedOwner(d.Annotations[v1alpha1.AnnotationCopies], d.UID)
}

// If a member reported a limit of 1e2000000000, the hub would write that many zeros.
func TestTransform_sanitizes_impossible_quantities(t *testing.T) {
	absurd := func() *appsv1.Deployment {
		return deploymentOf("1", func(d *appsv1.Deployment) {
			spec := &d.Spec.Template.Spec
			spec.Containers[0].Resources.Limits[corev1.ResourceMemory] = resource.MustParse("1e2000000000")
			spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{SizeLimit: new(resource.MustParse("1e2000000000"))}}}}
		})
	}
	want := deploymentOf("1", func(d *appsv1.Deployment) {
		spec := &d.Spec.Template.Spec
		spec.Containers[0].Resources.Limits[corev1.ResourceMemory] = resource.Quantity{}
		spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{SizeLimit: &resource.Quantity{}}}}}
	})
	got, err := Transform()(absurd())
	if err != nil {
		t.Fatal(err)
	}
	if cost := growth.Measure(func() { _, _ = Transform()(absurd()) }); cost.CPU > time.Second {
		t.Errorf("it took %s of CPU", cost.CPU)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
