package clusters_test

import (
	"errors"
	"fmt"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	mcmanager "sigs.k8s.io/multicluster-runtime/pkg/manager"
	"sigs.k8s.io/multicluster-runtime/pkg/multicluster"
	mcreconcile "sigs.k8s.io/multicluster-runtime/pkg/reconcile"

	"github.com/fleetwright/fleetwright/internal/wait"
)

// These are the cases of multicluster-runtime's tests of its providers for kubeconfigs and for namespaces, in
// their order. Two differ: this Provider has no list of its clusters, because the MemberClusters are one; and
// a Secret that leads to another cluster needs a user's consent, as TestIdentity_of_a_member_is_pinned tests.
func TestProvider_passes_the_tests_of_multicluster_runtime(t *testing.T) {
	t.Parallel()
	env := sharedEnv(t)
	var stock stockController
	var manager mcmanager.Manager
	o := env.newOperator(t, "fleet-upstream", func(with *setup) {
		with.addControllers = func(m mcmanager.Manager) error {
			manager = m
			return stock.addTo(m)
		}
	})
	island, jungle := env.newMember(t, o, "island"), env.newMember(t, o, "jungle")
	island.createDeployment(t, "crusoe") // both have the same API server
	islandEngaged := island.join(t)
	jungleEngaged := jungle.join(t)

	t.Run("runs the reconciler for existing objects", func(t *testing.T) {
		stock.expectRead(t, island, "crusoe")
		stock.expectRead(t, jungle, "crusoe")
	})
	island.createDeployment(t, "friday")
	t.Run("runs the reconciler for new objects", func(t *testing.T) {
		stock.expectRead(t, island, "friday")
	})
	t.Run("runs the reconciler for updated objects", func(t *testing.T) {
		before := stock.reads(island, "friday")
		updated := &appsv1.Deployment{}
		updated.Namespace, updated.Name = memberNamespace, "friday"
		patch := client.RawPatch(client.Merge.Type(), []byte(`{"spec": {"replicas": 3}}`))
		if err := env.member.admin.Patch(ctx, updated, patch); err != nil {
			t.Fatal(err)
		}
		wait.Eventually(t, func() error {
			if reads := stock.reads(island, "friday"); reads == before {
				return fmt.Errorf("%d reads, as before", reads)
			}
			return nil
		})
	})
	t.Run("queries one cluster via a multi-cluster index", func(t *testing.T) {
		member, err := manager.GetCluster(t.Context(), multicluster.ClusterName(island.name))
		if err != nil {
			t.Fatal(err)
		}
		for _, options := range [][]client.ListOption{{}, {client.InNamespace(memberNamespace)}} {
			var found appsv1.DeploymentList
			if err := member.GetCache().List(t.Context(), &found, append(options, client.MatchingFields{imageIndex: "friday"})...); err != nil {
				t.Fatal(err)
			}
			if len(found.Items) != 1 || found.Items[0].Name != "friday" {
				t.Errorf("the index finds %v", found.Items)
			}
		}
	})
	t.Run("reconciles objects when the Secret is updated without changing the cluster", func(t *testing.T) {
		jungle.updateSecret(t, func(secret *corev1.Secret) { secret.Annotations = map[string]string{"location": "amazon"} })
		jungle.createDeployment(t, "leopard")
		stock.expectRead(t, jungle, "leopard")
		jungle.checkContinues(t, jungleEngaged)
	})
	t.Run("removes a cluster when the Secret is deleted", func(t *testing.T) {
		island.deleteSecret(t)
		island.waitForEnd(t, islandEngaged)
		if _, err := manager.GetCluster(t.Context(), multicluster.ClusterName(island.name)); !errors.Is(err, multicluster.ErrClusterNotFound) {
			t.Errorf("GetCluster returns %v", err)
		}
	})
	for name, test := range map[string]struct {
		data   map[string][]byte
		reason string
	}{
		"without a kubeconfig":     {map[string][]byte{"other": []byte("x")}, "KubeconfigMissing"},
		"with an empty kubeconfig": {map[string][]byte{"kubeconfig": {}}, "KubeconfigMalformed"},
	} {
		t.Run("does not engage a Secret "+name, func(t *testing.T) {
			island.createSecret(t, nil)
			island.updateSecret(t, func(secret *corev1.Secret) { secret.Data = test.data })
			island.waitForConditions(t, "Ready False NoConnection, CredentialsValid False "+test.reason)
			island.checkNoCluster(t)
			island.deleteSecret(t)
			island.waitForConditions(t, summarySecretMissing)
		})
	}
}

// reads returns how often the controller has read a Deployment of a member.
func (c *stockController) reads(m *testMember, name string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.read[requestFor(m, name)]
}

// requestFor returns the request for a Deployment of a member.
func requestFor(m *testMember, name string) mcreconcile.Request {
	return mcreconcile.Request{
		ClusterName: multicluster.ClusterName(m.name),
		Request:     ctrl.Request{NamespacedName: client.ObjectKey{Namespace: memberNamespace, Name: name}},
	}
}
