package clusters_test

import (
	"errors"
	"fmt"
	"maps"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/discovery"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/multicluster-runtime/pkg/multicluster"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/internal/wait"
)

func TestSecret_describes_a_member(t *testing.T) {
	t.Parallel()
	t.Run("and the member is connected and engaged", func(t *testing.T) {
		t.Parallel()
		env := sharedEnv(t)
		m := env.newMember(t, env.operator, "becomes")
		m.createDeployment(t, "becomes-app")
		e := m.join(t)
		m.checkContinues(t, e)
		e.checkDeployment(t, "becomes-app")
		var apps appsv1.DeploymentList
		if err := e.cluster.GetClient().List(ctx, &apps, client.MatchingFields{imageIndex: "becomes-app"}); err != nil || len(apps.Items) != 1 {
			t.Errorf("the index returns %d Deployments, %v", len(apps.Items), err)
		}
		if err := env.operator.provider.IndexField(ctx, &appsv1.Deployment{}, "late", images); err == nil {
			t.Error("IndexField does not fail after a member has connected")
		}
		mc := m.memberCluster(t)
		condition := func(kind, reason, message string) metav1.Condition {
			return metav1.Condition{Type: kind, Status: metav1.ConditionTrue, Reason: reason, Message: message, ObservedGeneration: 1}
		}
		ends := mc.Status.CredentialsExpirationTime
		if ends == nil || time.Until(ends.Time) <= 0 {
			t.Fatalf("the expiration time of the credentials is %v", ends)
		}
		server, err := discovery.NewDiscoveryClientForConfigOrDie(env.member.environment.Config).ServerVersion()
		if err != nil {
			t.Fatal(err)
		}
		want := v1alpha1.MemberClusterStatus{
			ObservedGeneration:        1,
			ClusterID:                 m.proxy.identity(),
			Version:                   server.GitVersion,
			CredentialsExpirationTime: ends,
			Conditions: []metav1.Condition{
				condition(v1alpha1.ConditionReady, v1alpha1.ReasonConnected, "the member answers and its caches are synced"),
				condition(v1alpha1.ConditionCredentialsValid, v1alpha1.ReasonAccepted, "the kubeconfig is in use"), // the token is new, and valid for an hour
				condition(v1alpha1.ConditionAllocatableKnown, v1alpha1.ReasonNodesListed, "the sum over the nodes that accept pods"),
			},
		}
		wait.Eventually(t, func() error { // the cluster info is read after the engagement
			if diff := cmp.Diff(want, m.memberCluster(t).Status, cmpopts.IgnoreFields(metav1.Condition{}, "LastTransitionTime")); diff != "" {
				return fmt.Errorf("(-want +got)\n%s", diff)
			}
			return nil
		})
	})

	t.Run("with a server URL that ends with a slash", func(t *testing.T) {
		t.Parallel()
		env := sharedEnv(t)
		m := env.newMember(t, env.operator, "slash")
		m.join(t, withServer(m.link.address+"/"))
	})

	t.Run("only with the selected label and in the selected namespace", func(t *testing.T) {
		t.Parallel()
		env := sharedEnv(t)
		unlabelled, elsewhere := env.newMember(t, env.operator, "unlabelled"), env.newMember(t, &operator{namespace: "default"}, "elsewhere")
		elsewhere.createSecret(t, elsewhere.kubeconfig(t))
		unlabelled.createSecret(t, unlabelled.kubeconfig(t), selectedLabel, "false")
		env.newMember(t, env.operator, "joins-later").join(t)
		for _, m := range []*testMember{unlabelled, elsewhere} {
			if accepted, _ := m.link.connectionCounts(); accepted > 0 || m.memberCluster(t).Name != "" {
				t.Errorf("Secret %s became a member", m.name)
			}
		}
	})

	t.Run("and its labels are copied to the MemberCluster and removed from it", func(t *testing.T) {
		t.Parallel()
		env := sharedEnv(t)
		m := env.newMember(t, env.operator, "labels")
		m.createSecret(t, m.kubeconfig(t), "env", "test", "zone", "east")
		m.waitForEngagement(t, 1)
		has := func(want map[string]string) {
			t.Helper()
			want = maps.Clone(want)
			want[selectedLabel], want[fleetLabel] = "true", namespace
			wait.Eventually(t, func() error {
				if diff := cmp.Diff(want, m.memberCluster(t).Labels); diff != "" {
					return errors.New(diff)
				}
				return nil
			})
		}
		has(map[string]string{"env": "test", "zone": "east"})
		mc := m.memberCluster(t)
		byAdmin := mc.DeepCopy()
		byAdmin.Labels["team"], byAdmin.Spec.Unschedulable = "red", true
		if err := env.hub.admin.Patch(ctx, byAdmin, client.MergeFrom(mc)); err != nil {
			t.Fatal(err)
		}
		m.updateSecret(t, func(s *corev1.Secret) { s.Labels["env"], s.Labels["tier"] = "prod", "1" })
		has(map[string]string{"env": "prod", "zone": "east", "tier": "1", "team": "red"})
		m.updateSecret(t, func(s *corev1.Secret) { delete(s.Labels, "zone") })
		has(map[string]string{"env": "prod", "tier": "1", "team": "red"})
		byAdmin = m.memberCluster(t)
		mc = byAdmin.DeepCopy()
		byAdmin.Labels["env"] = "other"
		if err := env.hub.admin.Patch(ctx, byAdmin, client.MergeFrom(mc)); err != nil {
			t.Fatal(err)
		}
		has(map[string]string{"env": "prod", "tier": "1", "team": "red"})
		if !m.memberCluster(t).Spec.Unschedulable {
			t.Error("the administrator's spec was changed")
		}
	})

	t.Run("and labels of tools are not copied, and removed if an older version copied them", func(t *testing.T) {
		t.Parallel()
		env := sharedEnv(t)
		m := env.newMember(t, env.operator, "tool-labels")
		m.createSecret(t, m.kubeconfig(t), "env", "test", "argocd.argoproj.io/instance", "fleet", "app.kubernetes.io/instance", "fleet")
		m.waitForEngagement(t, 1)
		want := map[string]string{"env": "test", selectedLabel: "true", fleetLabel: namespace}
		if diff := cmp.Diff(want, m.memberCluster(t).Labels); diff != "" {
			t.Errorf("(-want +got)\n%s", diff)
		}
		before := &unstructured.Unstructured{} // as an older version applied the MemberCluster
		before.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("MemberCluster"))
		before.SetName(m.name)
		before.SetAnnotations(map[string]string{v1alpha1.AnnotationSecret: m.secretKey().String()})
		before.SetLabels(map[string]string{"env": "test", selectedLabel: "true", fleetLabel: namespace, "argocd.argoproj.io/instance": "fleet", "app.kubernetes.io/instance": "fleet"})
		applied := client.ApplyConfigurationFromUnstructured(before)
		if err := env.hub.admin.Apply(ctx, applied, client.FieldOwner(v1alpha1.ManagedBy), client.ForceOwnership); err != nil {
			t.Fatal(err)
		}
		wait.Eventually(t, func() error {
			if diff := cmp.Diff(want, m.memberCluster(t).Labels); diff != "" {
				return errors.New(diff)
			}
			return nil
		})
	})

	ends := map[string]struct {
		name string
		end  func(*testing.T, *testMember)
	}{
		"is deleted": {"deleted", func(t *testing.T, m *testMember) { m.deleteSecret(t) }},
		"loses its label": {"label-gone", func(t *testing.T, m *testMember) {
			m.updateSecret(t, func(s *corev1.Secret) { delete(s.Labels, selectedLabel) })
		}},
		"gets another label": {"label-changed", func(t *testing.T, m *testMember) {
			m.updateSecret(t, func(s *corev1.Secret) { s.Labels[selectedLabel] = "false" })
		}},
		"is deleted and has a finalizer": {"held", func(t *testing.T, m *testMember) {
			m.updateSecret(t, func(s *corev1.Secret) { s.Finalizers = []string{"example.com/held"} })
			m.deleteSecret(t)
			t.Cleanup(func() { m.updateSecret(t, func(s *corev1.Secret) { s.Finalizers = nil }) })
		}},
	}
	for name, test := range ends {
		t.Run("until it "+name, func(t *testing.T) {
			t.Parallel()
			env := sharedEnv(t)
			m := env.newMember(t, env.operator, test.name)
			e := m.join(t)
			test.end(t, m)
			m.waitForEnd(t, e)
			m.waitForConditions(t, summarySecretMissing)
			wait.Eventually(t, func() error {
				if _, err := env.operator.provider.Get(ctx, multicluster.ClusterName(m.name)); !errors.Is(err, multicluster.ErrClusterNotFound) {
					return fmt.Errorf("the provider still has the member: %w", err)
				}
				if _, open := m.link.connectionCounts(); open > 0 {
					return fmt.Errorf("%d connections are open", open)
				}
				return nil
			})
		})
	}

	t.Run("again after it is deleted and created again", func(t *testing.T) {
		t.Parallel()
		env := sharedEnv(t)
		m := env.newMember(t, env.operator, "again")
		first := m.join(t)
		m.deleteSecret(t)
		m.waitForEnd(t, first)
		m.createSecret(t, m.kubeconfig(t))
		second := m.waitForEngagement(t, 2)
		m.checkContinues(t, second)
	})

	t.Run("again after it is deleted during the engagement, and the late end of Engage changes nothing", func(t *testing.T) {
		t.Parallel()
		env := sharedEnv(t)
		m := env.newMember(t, env.operator, "late")
		first := env.operator.recorder.blockNext(m.name)
		m.createSecret(t, m.kubeconfig(t))
		<-first.called
		m.waitForConditions(t, "Ready Unknown Connecting, CredentialsValid Unknown NotVerified")
		m.deleteSecret(t)
		m.waitForConditions(t, summarySecretMissing)
		m.createSecret(t, m.kubeconfig(t))
		second := m.waitForEngagement(t, 1)
		close(first.resume)
		<-first.returned
		m.waitForReconcile(t) // meanwhile the first attempt ends
		wait.Eventually(t, func() error {
			if _, open := m.link.connectionCounts(); open != 1 {
				return fmt.Errorf("%d connections are open", open)
			}
			return nil
		})
		m.checkContinues(t, second)
	})
}

func TestMemberCluster_can_be_changed_by_an_administrator(t *testing.T) {
	t.Parallel()
	t.Run("who deletes it: it is created again, and the engagement continues", func(t *testing.T) {
		t.Parallel()
		env := sharedEnv(t)
		m := env.newMember(t, env.operator, "by-hand")
		e := m.join(t)
		before := m.memberCluster(t)
		if err := env.hub.admin.Delete(ctx, before); err != nil {
			t.Fatal(err)
		}
		wait.Eventually(t, func() error {
			if mc := m.memberCluster(t); mc.UID == before.UID || conditionSummary(mc) != summaryConnected || mc.Status.ClusterID != m.proxy.identity() {
				return fmt.Errorf("the MemberCluster is %+v", mc)
			}
			return nil
		})
		m.checkContinues(t, e)
	})

	t.Run("who created it before the Secret: it keeps its spec", func(t *testing.T) {
		t.Parallel()
		env := sharedEnv(t)
		m := env.newMember(t, env.operator, "ahead")
		mc := &v1alpha1.MemberCluster{ObjectMeta: metav1.ObjectMeta{Name: m.name}, Spec: v1alpha1.MemberClusterSpec{Unschedulable: true}}
		if err := env.hub.admin.Create(ctx, mc); err != nil {
			t.Fatal(err)
		}
		m.join(t)
		if now := m.memberCluster(t); now.UID != mc.UID || !now.Spec.Unschedulable {
			t.Errorf("the MemberCluster is %+v", now)
		}
	})
}
