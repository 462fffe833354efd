package e2e

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clusterinventory "sigs.k8s.io/cluster-inventory-api/apis/v1alpha1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/e2e/environment"
)

// A fourth cluster comes, goes and comes back while an AppService runs. Nobody touches the AppService.
func TestMembership(t *testing.T) {
	f := theFleet
	west := f.addCluster(t, "west")
	app := f.declare(t, "crew")
	f.awaitReady(t, app, "north", "south", "east")
	generation := app.Generation
	join := func(t *testing.T) {
		t.Helper()
		if err := environment.Join(t.Context(), f.hub.api, west, map[string]string{"region": "us"}); err != nil {
			t.Fatal(err)
		}
	}

	t.Run("a new Secret brings the app to its cluster", func(t *testing.T) {
		join(t)
		t.Logf("4/4 Ready %s after the Secret", round(f.awaitReady(t, app, "north", "south", "east", "west")))
		if app.Generation != generation {
			t.Errorf("the AppService is at generation %d, it was %d", app.Generation, generation)
		}
	})

	t.Run("and a ClusterProfile to the hub, which goes with the MemberCluster", func(t *testing.T) {
		profile := &clusterinventory.ClusterProfile{}
		profile.Namespace, profile.Name = environment.SecretNamespace, "west"
		eventually(t, "the ClusterProfile of west to say that it is healthy", func() error {
			if err := f.hub.api.Get(t.Context(), client.ObjectKeyFromObject(profile), profile); err != nil {
				return err
			}
			if !meta.IsStatusConditionTrue(profile.Status.Conditions, clusterinventory.ClusterConditionControlPlaneHealthy) || profile.Labels["region"] != "us" {
				return fmt.Errorf("its labels are %v, its status %+v", profile.Labels, profile.Status)
			}
			return nil
		})
		f.leave(t, "west")
		eventually(t, "the ClusterProfile of west to be gone", func() error { return f.absent(f.hub, profile) })
		join(t)
		f.awaitReady(t, app, "north", "south", "east", "west")
	})

	t.Run("a Secret that is deleted leaves the MemberCluster and the workload, and the row says Detached", func(t *testing.T) {
		f.detach(t, "west")
		eventually(t, "the row of west to be Detached, and to count no more", func() error {
			return f.reports(app, metav1.ConditionTrue, map[string]v1alpha1.ClusterPhase{
				"north": v1alpha1.ClusterReady, "south": v1alpha1.ClusterReady, "east": v1alpha1.ClusterReady, "west": v1alpha1.ClusterDetached,
			})
		})
		stays(t, 5*time.Second, "west runs the app, although its Secret is gone", func() error { return runs(west, app) })
	})

	t.Run("the Secret that comes back takes the workload back", func(t *testing.T) {
		join(t)
		f.awaitReady(t, app, "north", "south", "east", "west")
	})
}

// addCluster makes one that is no member yet. It ends with the test, after the AppServices that the test
// declares later.
func (f *fleet) addCluster(t *testing.T, name string) *cluster {
	t.Helper()
	made, err := f.environment.Create(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	api, err := environment.NewClient(made.Kubeconfig())
	if err != nil {
		t.Fatal(err)
	}
	f.members[name] = &cluster{Cluster: made, api: api}
	t.Cleanup(func() {
		delete(f.members, name)
		if err := made.Delete(background); err != nil {
			t.Error(err)
		}
		f.leave(t, name)
	})
	return f.members[name]
}

// detach deletes a member's Secret, and waits until its MemberCluster, if there is one, says so.
func (f *fleet) detach(t *testing.T, name string) {
	t.Helper()
	secret, member := &corev1.Secret{}, &v1alpha1.MemberCluster{}
	secret.Namespace, secret.Name, member.Name = environment.SecretNamespace, name, name
	if err := f.hub.api.Delete(background, secret); client.IgnoreNotFound(err) != nil {
		t.Errorf("delete the Secret of %s: %v", name, err)
	}
	eventually(t, "MemberCluster "+name+" to have no Secret", func() error {
		if err := f.hub.api.Get(background, client.ObjectKeyFromObject(member), member); client.IgnoreNotFound(err) != nil {
			return err
		} else if err == nil && member.HasSecret() && member.Annotations[v1alpha1.AnnotationSecret] != "" {
			return fmt.Errorf("its status is %+v", member.Status)
		}
		return nil
	})
}

// leave removes a member for good: it deletes the Secret and what a test has said about the cluster, and the operator deletes the
// MemberCluster some time after.
func (f *fleet) leave(t *testing.T, name string) {
	t.Helper()
	f.detach(t, name)
	member := &v1alpha1.MemberCluster{}
	member.Name = name
	if err := f.hub.api.Patch(background, member, client.RawPatch(types.MergePatchType, []byte(`{"spec":null}`))); client.IgnoreNotFound(err) != nil {
		t.Errorf("clear the spec of MemberCluster %s: %v", name, err)
	}
	eventually(t, "MemberCluster "+name+" to be gone", func() error { return f.absent(f.hub, member) })
}
