package delivery

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/internal/wait"
)

func (s *setup) namespaceOn(cluster client.Client) *corev1.Namespace {
	s.Helper()
	namespace := &corev1.Namespace{}
	s.must(cluster.Get(s.Context(), client.ObjectKey{Name: s.app.Namespace}, namespace))
	return namespace
}

func (s *setup) labelOnHub(labels map[string]string) {
	s.Helper()
	namespace := s.namespaceOn(onHub)
	before := namespace.DeepCopy()
	for key, value := range labels {
		metav1.SetMetaDataLabel(&namespace.ObjectMeta, key, value)
	}
	s.must(onHub.Patch(s.Context(), namespace, client.MergeFrom(before)))
}

// The member itself refuses what the level forbids, also to who does not go through the hub.
func TestNamespace_that_is_created_gets_the_pod_security_of_the_hub(t *testing.T) {
	s := newSetup(t)
	s.labelOnHub(map[string]string{
		"pod-security.kubernetes.io/enforce": "baseline", "pod-security.kubernetes.io/enforce-version": "v1.30",
		"cost-center": "7", "team.example.com/name": "a", "team": "b", v1alpha1.LabelManagedBy: "helm",
	})
	s.start()
	s.plan()
	s.expectReport(s.ready())
	want := map[string]string{
		"pod-security.kubernetes.io/enforce": "baseline", "pod-security.kubernetes.io/enforce-version": "v1.30",
		"cost-center": "7", "team.example.com/name": "a", v1alpha1.LabelManagedBy: v1alpha1.ManagedBy, corev1.LabelMetadataName: s.app.Namespace,
	}
	if diff := cmp.Diff(want, s.namespaceOn(onMember).Labels); diff != "" {
		t.Errorf("labels on the member (-want +got):\n%s", diff)
	}
	pod := func(hostNetwork bool) error {
		return onMember.Create(t.Context(), &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{GenerateName: "web-", Namespace: s.app.Namespace},
			Spec: corev1.PodSpec{
				HostNetwork: hostNetwork, AutomountServiceAccountToken: new(false),
				Containers: []corev1.Container{{Name: "app", Image: "web:1"}},
			},
		})
	}
	refused := `violates PodSecurity "baseline:v1.30": host namespaces (hostNetwork=true)`
	if err := pod(true); !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), refused) {
		t.Errorf("the member answered %v, want %q", err, refused)
	}
	if err := pod(false); err != nil && strings.Contains(err.Error(), "PodSecurity") {
		t.Error(err)
	}
}

// Others on the member may have set labels of their own, so they are written once and never again.
func TestNamespace_that_exists_keeps_its_labels(t *testing.T) {
	s := newSetup(t)
	s.labelOnHub(map[string]string{"pod-security.kubernetes.io/enforce": "baseline"})
	own := map[string]string{"pod-security.kubernetes.io/enforce": "privileged"}
	s.must(onMember.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.app.Namespace, Labels: own}}))
	before := s.namespaceOn(onMember)
	s.start()
	s.plan()
	s.expectReport(s.ready())
	s.labelOnHub(map[string]string{"pod-security.kubernetes.io/enforce": "restricted"})
	if _, _, err := s.reconcileOnce(); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(before.ObjectMeta, s.namespaceOn(onMember).ObjectMeta); diff != "" {
		t.Errorf("the namespace (-before +after):\n%s", diff)
	}
}

// The planner checked the template before a label of the MemberCluster made another override match.
func TestTemplate_that_a_new_label_of_the_member_makes_forbidden_is_not_applied(t *testing.T) {
	s := startedSetup(t, func(app *v1alpha1.AppService) {
		app.Spec.Overrides = []v1alpha1.Override{{
			Name:         "net",
			ClusterMatch: v1alpha1.ClusterMatch{ClusterSelector: &v1alpha1.ClusterSelector{MatchLabels: map[string]string{"region": "us"}}},
			Patches: []v1alpha1.Patch{{Target: v1alpha1.PatchDeployment, Operations: []v1alpha1.PatchOperation{
				{Op: "add", Path: "/spec/template/spec/hostNetwork", Value: &v1alpha1.JSON{Raw: []byte("true")}},
			}}},
		}}
	})
	s.app.Status.Rollout.PodSecurity = &v1alpha1.PodSecurity{Level: v1alpha1.PodSecurityBaseline, Version: "v1.36"}
	s.plan()
	s.expectReport(s.ready())
	before := s.deployment()
	member := &v1alpha1.MemberCluster{}
	s.must(onHub.Get(t.Context(), client.ObjectKey{Name: s.cluster}, member))
	member.Labels["region"] = "us"
	s.must(onHub.Update(t.Context(), member))
	want := s.ready()
	want.Phase, want.Reason = v1alpha1.ClusterFailed, v1alpha1.ReasonPodSecurityRefused
	want.Message = `violates PodSecurity "baseline:v1.36": host namespaces (hostNetwork=true); the cluster keeps what it runs`
	want.Applied = 0
	s.expectReport(want)
	if got := s.deployment(); got.Generation != before.Generation {
		t.Errorf("the Deployment was changed: %v", got.Spec.Template.Spec.HostNetwork)
	}

	s.edit(func(app *v1alpha1.AppService) { app.Spec.Replicas = new(int32(2)) })
	s.app.Status.Rollout.PodSecurity = nil // as that of a revision from before an upgrade
	s.plan()
	wait.Eventually(t, func() error {
		if !s.deployment().Spec.Template.Spec.HostNetwork {
			return errors.New("the pods are not in the network of the node")
		}
		return nil
	})

	// What runs goes on, also under a policy that forbids it.
	wait.Eventually(t, func() error { return s.compareVersions(s.member.GetClient(), onMember, &appsv1.Deployment{}) })
	s.edit(func(app *v1alpha1.AppService) { app.Spec.Replicas = new(int32(3)) })
	s.app.Status.Rollout.PodSecurity = &v1alpha1.PodSecurity{Level: v1alpha1.PodSecurityBaseline, Version: "v1.36"}
	s.plan()
	wait.Eventually(t, func() error {
		if got := *s.deployment().Spec.Replicas; got != 3 {
			return fmt.Errorf("%d replicas", got)
		}
		return nil
	})
}

func TestParseNamespaceLabels(t *testing.T) {
	got, err := ParseNamespaceLabels("cost-center, team.example.com/,")
	if diff := cmp.Diff(NamespaceLabels{"cost-center", "team.example.com/"}, got); diff != "" || err != nil {
		t.Error(diff, err)
	}
	for text, want := range map[string]string{
		"a b":                          `"a b" is neither the key of a label nor a prefix that ends with a slash`,
		"team.*":                       `"team.*" is neither`,
		"fleetwright.dev/":             `"fleetwright.dev/" belongs to Fleetwright`,
		"app.kubernetes.io/managed-by": `"app.kubernetes.io/managed-by" belongs to Fleetwright`,
	} {
		if _, err := ParseNamespaceLabels(text); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
}
