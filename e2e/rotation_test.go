package e2e

import (
	"fmt"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/e2e/environment"
)

// A member's token is renewed, and the one before it taken out of use, while an AppService runs: see docs/install.md.
func TestRotation(t *testing.T) {
	f := theFleet
	app := f.declare(t, "rotated")
	f.awaitReady(t, app, "north", "south", "east")
	before, connections := f.readySince(t, "north"), f.connections(t, "north")
	t.Cleanup(func() { f.rejoin(t, "north") })

	f.renew(t, "north", time.Hour)
	expected := time.Now().Add(time.Hour)
	eventually(t, "the metrics to tell when the new token ends", func() error {
		at, err := value(f.metrics(t)["fleetwright_member_credential_expiry_timestamp_seconds"], "member", "north")
		if err == nil && time.Unix(int64(at), 0).Sub(expected).Abs() > time.Minute {
			err = fmt.Errorf("it ends at %s, not about %s", time.Unix(int64(at), 0), expected)
		}
		return err
	})

	// The token before it is no longer valid as soon as its Secret is gone.
	old := &corev1.Secret{}
	old.Namespace, old.Name = environment.SecretNamespace, environment.MemberAccount
	if err := f.members["north"].api.Delete(t.Context(), old); err != nil {
		t.Fatal(err)
	}
	f.edit(t, app, env("ROTATED", "yes"))
	f.awaitReady(t, app, "north", "south", "east")
	stays(t, 12*time.Second, "north is Ready", func() error {
		if f.phase(app, "north") != v1alpha1.ClusterReady {
			return fmt.Errorf("its row is %s", f.phase(app, "north"))
		}
		return nil
	})
	if after := f.readySince(t, "north"); !after.Equal(&before) {
		t.Errorf("north was not Ready for a moment: it is since %s, and was since %s", after, before)
	}
	if after := f.connections(t, "north"); after != connections {
		t.Errorf("north was connected %v times, and now %v", connections, after)
	}
}

// renew gives the hub a new token of a member, for a time.
func (f *fleet) renew(t *testing.T, member string, lifetime time.Duration) {
	t.Helper()
	kubeconfig, err := f.members[member].MemberKubeconfig(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	account := &corev1.ServiceAccount{}
	account.Namespace, account.Name = environment.SecretNamespace, environment.MemberAccount
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: new(int64(lifetime.Seconds()))}}
	if err := f.members[member].api.SubResource("token").Create(t.Context(), account, request); err != nil {
		t.Fatal(err)
	}
	if kubeconfig, err = environment.WithToken(kubeconfig, request.Status.Token); err != nil {
		t.Fatal(err)
	}
	if err := environment.JoinWith(t.Context(), f.hub.api, member, kubeconfig, map[string]string{"region": regions[member]}); err != nil {
		t.Fatal(err)
	}
}

// readySince is when a member became Ready.
func (f *fleet) readySince(t *testing.T, member string) metav1.Time {
	t.Helper()
	found := &v1alpha1.MemberCluster{}
	if err := f.hub.api.Get(t.Context(), client.ObjectKey{Name: member}, found); err != nil {
		t.Fatal(err)
	}
	ready := meta.FindStatusCondition(found.Status.Conditions, v1alpha1.ConditionReady)
	if ready == nil || ready.Status != metav1.ConditionTrue {
		t.Fatalf("%s is not Ready: %+v", member, ready)
	}
	return ready.LastTransitionTime
}

// connections is how often the leader has connected to a member.
func (f *fleet) connections(t *testing.T, member string) float64 {
	t.Helper()
	n, err := value(f.metrics(t)["fleetwright_member_connections_total"], "member", member)
	if err != nil {
		t.Fatal(err)
	}
	return n
}
