package e2e

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/e2e/framework"
	"github.com/fleetwright/fleetwright/internal/environment"
	"github.com/fleetwright/fleetwright/internal/tokentest"
)

// TestRotation tests that a member's token is renewed, and the old one revoked, while an AppService
// runs: see docs/maintenance.md.
func TestRotation(t *testing.T) {
	f := testFleet(t, onKind)
	app := f.createApp(t, "rotated")
	f.awaitReady(t, app, "north", "south", "east")
	before, connections := f.readySince(t, "north"), f.connections(t, "north")
	t.Cleanup(func() { f.rejoin(t, "north") })

	f.renewToken(t, "north", time.Hour)
	expected := time.Now().Add(time.Hour)
	f.Eventually(t, "the metrics to show when the new token expires", func(context.Context) error {
		at, err := seriesValue(f.metrics(t)["fleetwright_member_credential_expiry_timestamp_seconds"], "member", "north")
		if err == nil && time.Unix(int64(at), 0).Sub(expected).Abs() > time.Minute {
			err = fmt.Errorf("it expires at %s, want about %s", time.Unix(int64(at), 0), expected)
		}
		return err
	})

	// The old token becomes invalid when its Secret is deleted.
	old := &corev1.Secret{}
	old.Namespace, old.Name = environment.SecretNamespace, environment.MemberAccount
	if err := f.Members["north"].Client.Delete(t.Context(), old); err != nil {
		t.Fatal(err)
	}
	f.EditApp(t, app, framework.AddEnv("ROTATED", "yes"))
	f.awaitReady(t, app, "north", "south", "east")
	// A server may accept the deleted token for ten seconds more.
	deleted := time.Now()
	f.AwaitLook(t)
	for _, request := range requests(t, f.Members["north"]) {
		if request.At.After(deleted) && len(request.User.Extra["authentication.kubernetes.io/credential-id"]) == 0 {
			t.Errorf("the old token is used: %s", &request)
		}
	}
	if err := f.checkPhase(t.Context(), app, "north", v1alpha1.ClusterReady); err != nil {
		t.Error(err)
	}
	if after := f.readySince(t, "north"); !after.Equal(&before) {
		t.Errorf("north was not Ready for a time: it is Ready since %s, before since %s", after, before)
	}
	if after := f.connections(t, "north"); after != connections {
		t.Errorf("north connected %v times before, %v times now", connections, after)
	}
}

// TestRenewal tests that the operator renews a member's token when half of its lifetime has passed,
// while an AppService runs.
func TestRenewal(t *testing.T) {
	const lifetime = 10 * time.Hour
	f := testFleet(t)
	app := f.createApp(t, "renewed")
	f.awaitReady(t, app, "north", "south", "east")
	before, connections := f.readySince(t, "south"), f.connections(t, "south")
	t.Cleanup(func() {
		f.annotateSecret(t, "south", nil)
		f.rejoin(t, "south")
	})

	renewals := func() float64 { // of this operator; there is no series before the first
		n, _ := seriesValue(f.metrics(t)["fleetwright_member_credential_renewals_total"], "member", "south", "result", "renewed")
		return n
	}
	done := renewals()
	old := f.putDueToken(t, "south", lifetime)
	f.annotateSecret(t, "south", map[string]string{v1alpha1.AnnotationRenewToken: "true"})
	f.Eventually(t, "the token to be renewed", func(context.Context) error {
		if now := renewals(); now != done+1 {
			return fmt.Errorf("%v renewals, %v before", now, done)
		}
		at, err := seriesValue(f.metrics(t)["fleetwright_member_credential_expiry_timestamp_seconds"], "member", "south")
		if expected := time.Now().Add(lifetime); err == nil && time.Unix(int64(at), 0).Sub(expected).Abs() > time.Minute {
			err = fmt.Errorf("the token in use expires at %s, want about %s", time.Unix(int64(at), 0), expected)
		}
		return err
	})
	secret := &corev1.Secret{}
	if err := f.Hub.Client.Get(t.Context(), client.ObjectKey{Namespace: environment.SecretNamespace, Name: "south"}, secret); err != nil {
		t.Fatal(err)
	}
	if content := string(secret.Data["kubeconfig"]); strings.Contains(content, old) || secret.Labels[corev1.LabelTopologyRegion] != regions["south"] {
		t.Errorf("the Secret has the old token, or lost its labels: %v", secret.Labels)
	}
	f.EditApp(t, app, framework.AddEnv("RENEWED", "yes"))
	f.awaitReady(t, app, "north", "south", "east")
	if after := f.readySince(t, "south"); !after.Equal(&before) {
		t.Errorf("south was not Ready for a time: it is Ready since %s, before since %s", after, before)
	}
	if after := f.connections(t, "south"); after != connections {
		t.Errorf("south connected %v times before, %v times now", connections, after)
	}
}

// TestRenewalAfterKill tests that an operator that is killed while it renews a token continues from
// what it has stored, and that a restart at rest after a renewal writes nothing.
func TestRenewalAfterKill(t *testing.T) {
	const lifetime = 10 * time.Hour
	f := testFleet(t)
	t.Cleanup(func() {
		f.annotateSecret(t, "north", nil)
		f.rejoin(t, "north")
	})
	old := f.putDueToken(t, "north", lifetime)
	f.awaitNoWrites(t)
	tokens, writes := f.countRenewals(t, "north")
	f.annotateSecret(t, "north", map[string]string{v1alpha1.AnnotationRenewToken: "true"})
	f.Eventually(t, "a token to be requested", func(context.Context) error {
		if now, _ := f.countRenewals(t, "north"); now == tokens {
			return errors.New("none was requested")
		}
		return nil
	})
	restarted := time.Now()
	if err := f.Operator.Kill(t.Context()); err != nil {
		t.Fatal(err)
	}
	isStored := !strings.Contains(f.storedKubeconfig(t, "north"), old)
	t.Logf("killed after the request; the token was stored: %t", isStored)
	f.mustStartOperator(t)
	f.awaitLeader(t, restarted)
	f.Eventually(t, "the new token to be in use", func(context.Context) error {
		at, err := seriesValue(f.metrics(t)["fleetwright_member_credential_expiry_timestamp_seconds"], "member", "north")
		if expected := time.Now().Add(lifetime); err == nil && time.Unix(int64(at), 0).Sub(expected).Abs() > 2*time.Minute {
			err = fmt.Errorf("the token in use expires at %s, want about %s", time.Unix(int64(at), 0), expected)
		}
		return err
	})
	f.awaitNoWrites(t)
	tokensNow, writesNow := f.countRenewals(t, "north")
	want := 2
	if isStored {
		want = 1
	}
	if tokensNow-tokens != want || writesNow-writes != 1 {
		t.Errorf("%d tokens were requested, want %d; the Secret was written %d times", tokensNow-tokens, want, writesNow-writes)
	}

	rest := f.countWrites(t)
	restarted = time.Now()
	if err := f.Operator.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	f.mustStartOperator(t)
	f.awaitLeader(t, restarted)
	f.AwaitLook(t)
	if diff := cmp.Diff(rest, f.countWrites(t)); diff != "" {
		t.Errorf("written by a restart after the renewal (-before +after):\n%s", diff)
	}
}

// countRenewals returns how many tokens the operator requested from a member, and how often it wrote
// the member's Secret.
func (f *fleet) countRenewals(t *testing.T, member string) (tokens, writes int) {
	t.Helper()
	for _, request := range requests(t, f.Members[member]) {
		if request.IsWrite() && request.HasSucceeded() && request.Object.Resource == "serviceaccounts" && request.Object.Subresource == "token" {
			tokens++
		}
	}
	for _, request := range requests(t, f.Hub) {
		if request.IsWrite() && request.HasSucceeded() && request.Object.Resource == "secrets" && request.Object.Name == member {
			writes++
		}
	}
	return tokens, writes
}

// storedKubeconfig returns the kubeconfig in a member's Secret.
func (f *fleet) storedKubeconfig(t *testing.T, member string) string {
	t.Helper()
	secret := &corev1.Secret{}
	if err := f.Hub.Client.Get(t.Context(), client.ObjectKey{Namespace: environment.SecretNamespace, Name: member}, secret); err != nil {
		t.Fatal(err)
	}
	return string(secret.Data["kubeconfig"])
}

// putDueToken updates a member's Secret with a token whose renewal is due, and returns it.
func (f *fleet) putDueToken(t *testing.T, member string, lifetime time.Duration) string {
	t.Helper()
	key, err := f.Members[member].TokenKey(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	token, err := tokentest.Reissue(key, f.requestToken(t, member, lifetime), time.Now().Add(-lifetime*55/100), lifetime)
	if err != nil {
		t.Fatal(err)
	}
	f.putToken(t, member, token)
	return token
}

// annotateSecret sets the annotations of a member's Secret.
func (f *fleet) annotateSecret(t *testing.T, member string, annotations map[string]string) {
	t.Helper()
	secret := &corev1.Secret{}
	secret.Namespace, secret.Name = environment.SecretNamespace, member
	if err := f.Hub.Client.Get(context.Background(), client.ObjectKeyFromObject(secret), secret); err != nil {
		t.Fatal(err)
	}
	patch := client.MergeFrom(secret.DeepCopy())
	secret.Annotations = annotations
	if err := f.Hub.Client.Patch(context.Background(), secret, patch); err != nil {
		t.Fatal(err)
	}
}

// renewToken updates a member's Secret with a new token that expires.
func (f *fleet) renewToken(t *testing.T, member string, lifetime time.Duration) {
	t.Helper()
	f.putToken(t, member, f.requestToken(t, member, lifetime))
}

// requestToken returns a new token of a member's ServiceAccount.
func (f *fleet) requestToken(t *testing.T, member string, lifetime time.Duration) string {
	t.Helper()
	account := &corev1.ServiceAccount{}
	account.Namespace, account.Name = environment.SecretNamespace, environment.MemberAccount
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: new(int64(lifetime.Seconds()))}}
	if err := f.Members[member].Client.SubResource("token").Create(t.Context(), account, request); err != nil {
		t.Fatal(err)
	}
	return request.Status.Token
}

// putToken updates a member's Secret with a token.
func (f *fleet) putToken(t *testing.T, member, token string) {
	t.Helper()
	kubeconfig, err := f.Members[member].MemberKubeconfig(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if kubeconfig, err = environment.WithToken(kubeconfig, token); err != nil {
		t.Fatal(err)
	}
	if err := environment.JoinWith(t.Context(), f.Hub.Client, member, kubeconfig, map[string]string{corev1.LabelTopologyRegion: regions[member]}); err != nil {
		t.Fatal(err)
	}
}

// readySince returns when a member became Ready.
func (f *fleet) readySince(t *testing.T, member string) metav1.Time {
	t.Helper()
	found := &v1alpha1.MemberCluster{}
	if err := f.Hub.Client.Get(t.Context(), client.ObjectKey{Name: member}, found); err != nil {
		t.Fatal(err)
	}
	ready := meta.FindStatusCondition(found.Status.Conditions, v1alpha1.ConditionReady)
	if ready == nil || ready.Status != metav1.ConditionTrue {
		t.Fatalf("%s is not Ready: %+v", member, ready)
	}
	return ready.LastTransitionTime
}

// connections returns how often the leader has connected to a member.
func (f *fleet) connections(t *testing.T, member string) float64 {
	t.Helper()
	n, err := seriesValue(f.metrics(t)["fleetwright_member_connections_total"], "member", member)
	if err != nil {
		t.Fatal(err)
	}
	return n
}
