package delivery

import (
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/internal/wait"
)

// BenchmarkReconcile_that_changes_nothing measures the reconcile that follows an event of a member
// which runs what it should. The objects are those of a real API server.
func BenchmarkReconcile_that_changes_nothing(b *testing.B) {
	member, _ := connected(b.Context(), b, memberConfig)
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "bench-"}}
	if err := onMember.Create(b.Context(), namespace); err != nil {
		b.Fatal(err)
	}
	app := &v1alpha1.AppService{}
	app.Namespace, app.Name, app.UID, app.Generation = namespace.Name, "web", "uid-1", 1
	app.Spec = v1alpha1.AppServiceSpec{
		Image:    "web:1",
		Replicas: new(int32(3)),
		Env:      []corev1.EnvVar{{Name: "A", Value: "1"}, {Name: "B", Value: "2"}},
		Ports:    []v1alpha1.ServicePort{{Name: "http", Port: 80, TargetPort: intstr.FromInt32(8080)}},
		Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{
			corev1.ResourceCPU: resource.MustParse("250m"), corev1.ResourceMemory: resource.MustParse("64Mi"),
		}},
		ReadinessProbe: &corev1.Probe{ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: "/", Port: intstr.FromInt32(8080)}}},
	}
	mc := &v1alpha1.MemberCluster{ObjectMeta: metav1.ObjectMeta{Name: "east", Labels: map[string]string{"region": "eu"}}}
	app.Status.Clusters = []v1alpha1.ClusterStatus{{Name: mc.Name, Generation: 1, Revision: 1, Replicas: 3}}
	r, err := delivererOf(hubCached, testHubID, newRecorder()).reconciler(b.Context(), "east", member)
	if err != nil {
		b.Fatal(err)
	}
	reconcile := func() error {
		t := task{app: app, spec: &app.Spec, entry: app.Status.Cluster(mc.Name), member: mc, memory: r.memories.of(app)}
		var err error
		if t.objects, err = r.reader.fromCache(b.Context(), app, t.entry); err != nil {
			return err
		}
		changed, err := r.renderAndMaintain(b.Context(), t)
		if err == nil && changed {
			err = errors.New("something was changed")
		}
		return err
	}
	wait.Eventually(b, reconcile)
	for name, changed := range map[string][]string{
		"of no object": nil, "of the Deployment": {"Deployment"}, "of both objects": {"Deployment", "Service"},
	} {
		b.Run("after a change "+name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				for _, kind := range changed { // as if it had another version
					delete(r.memories.of(app).objects, kind)
				}
				if err := reconcile(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
