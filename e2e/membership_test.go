package e2e

import (
	"context"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterinventory "sigs.k8s.io/cluster-inventory-api/apis/v1alpha1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/e2e/framework"
	"github.com/fleetwright/fleetwright/internal/environment"
)

// TestMembership tests that a fourth cluster joins, is detached and joins again. The AppService is
// not edited.
func TestMembership(t *testing.T) {
	f := testFleet(t, onKind)
	west := f.addCluster(t, "west")
	app := f.createApp(t, "membership")
	f.awaitReady(t, app, "north", "south", "east")
	generation := app.Generation
	join := func(t *testing.T) {
		t.Helper()
		f.Join(t, "west", map[string]string{corev1.LabelTopologyRegion: "us"})
	}

	t.Run("delivers to a cluster when its Secret is created", func(t *testing.T) {
		join(t)
		t.Logf("4/4 Ready %s after the Secret", framework.Round(f.awaitReady(t, app, "north", "south", "east", "west")))
		if app.Generation != generation {
			t.Errorf("the AppService is at generation %d, it was %d", app.Generation, generation)
		}
	})

	t.Run("publishes a ClusterProfile until the MemberCluster is deleted", func(t *testing.T) {
		profile := &clusterinventory.ClusterProfile{}
		profile.Namespace, profile.Name = environment.SecretNamespace, "west"
		f.Eventually(t, "the ClusterProfile of west to be healthy", func(ctx context.Context) error {
			if err := f.Hub.Client.Get(ctx, client.ObjectKeyFromObject(profile), profile); err != nil {
				return err
			}
			if !meta.IsStatusConditionTrue(profile.Status.Conditions, clusterinventory.ClusterConditionControlPlaneHealthy) || profile.Labels[corev1.LabelTopologyRegion] != "us" {
				return fmt.Errorf("its labels are %v, its status %+v", profile.Labels, profile.Status)
			}
			if access := profile.Status.AccessProviders; len(access) != 1 || access[0].Cluster.Server == "" || len(access[0].Cluster.CertificateAuthorityData) == 0 {
				return fmt.Errorf("its access providers are %+v", access)
			}
			return nil
		})
		f.removeMember(t, "west")
		f.Eventually(t, "the ClusterProfile of west to be gone", func(ctx context.Context) error { return f.Hub.CheckAbsent(ctx, profile) })
		join(t)
		f.awaitReady(t, app, "north", "south", "east", "west")
	})

	t.Run("keeps the MemberCluster and the workload when the Secret is deleted", func(t *testing.T) {
		f.detach(t, "west")
		f.Eventually(t, "the entry of west to be Detached, and not to count", func(ctx context.Context) error {
			return f.checkStatus(ctx, app, metav1.ConditionTrue, map[string]v1alpha1.ClusterPhase{
				"north": v1alpha1.ClusterReady, "south": v1alpha1.ClusterReady, "east": v1alpha1.ClusterReady, "west": v1alpha1.ClusterDetached,
			})
		})
		framework.Consistently(t, 5*time.Second, "west runs the AppService without its Secret", func(ctx context.Context) error { return checkRunning(ctx, west, app) })
	})

	t.Run("manages the workload again when the Secret is back", func(t *testing.T) {
		join(t)
		f.awaitReady(t, app, "north", "south", "east", "west")
	})
}
