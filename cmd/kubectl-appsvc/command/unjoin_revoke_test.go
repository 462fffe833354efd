package command_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/config/member"
	"github.com/fleetwright/fleetwright/internal/wait"
)

// checkToken waits until the member accepts the kubeconfig of a Secret, or answers 401.
func checkToken(t *testing.T, secret *corev1.Secret, isValid bool) {
	t.Helper()
	c := clientOf(t, secret)
	wait.Eventually(t, func() error { // an API server caches for some seconds that a token is valid
		_, err := readClusterID(t.Context(), c)
		if isValid && err != nil || !isValid && !apierrors.IsUnauthorized(err) {
			return fmt.Errorf("the token is not valid=%t: %w", isValid, err)
		}
		return nil
	})
}

func readClusterID(ctx context.Context, c client.Client) (string, error) {
	system := &corev1.Namespace{}
	err := c.Get(ctx, client.ObjectKey{Name: metav1.NamespaceSystem}, system)
	return string(system.UID), err
}

// granted returns what the member has of config/member, except the namespace.
func (m *memberEnv) granted(t *testing.T) []string {
	t.Helper()
	var found []string
	for _, object := range allGrants(t) {
		switch err := m.Get(t.Context(), client.ObjectKeyFromObject(object), object); {
		case err == nil && object.GetKind() != "Namespace":
			found = append(found, object.GetKind()+" "+object.GetName())
		case client.IgnoreNotFound(err) != nil:
			t.Fatal(err)
		}
	}
	return slices.Compact(found)
}

// allGrants returns all objects of config/member: for all namespaces, and for the namespaces of these
// tests.
func allGrants(t *testing.T) []*unstructured.Unstructured {
	t.Helper()
	all, err := member.Policy()
	if err != nil {
		t.Fatal(err)
	}
	for _, read := range []func(...string) ([]*unstructured.Unstructured, error){member.Configuration, member.Objects} {
		for _, namespaces := range [][]string{nil, {"shop", "web"}} {
			objects, err := read(namespaces...)
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, objects...)
		}
	}
	return all
}

// lastingToken creates the Secret of config/member/token.yaml on the member, with the token that the
// controller of a real cluster would write into it, and returns the token.
func (m *memberEnv) lastingToken(t *testing.T) string {
	t.Helper()
	account := &corev1.ServiceAccount{}
	if err := m.Get(t.Context(), client.ObjectKey{Namespace: member.Namespace, Name: member.ServiceAccount}, account); err != nil {
		t.Fatal(err)
	}
	token := m.sign(t, map[string]any{
		"iss": "kubernetes/serviceaccount", "sub": "system:serviceaccount:" + member.Namespace + ":" + member.ServiceAccount,
		"kubernetes.io/serviceaccount/namespace":            member.Namespace,
		"kubernetes.io/serviceaccount/secret.name":          "fleetwright",
		"kubernetes.io/serviceaccount/service-account.name": member.ServiceAccount,
		"kubernetes.io/serviceaccount/service-account.uid":  string(account.UID),
	})
	createAll(t, m, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: member.Namespace, Name: "fleetwright", Annotations: map[string]string{corev1.ServiceAccountNameKey: member.ServiceAccount, corev1.ServiceAccountUIDKey: string(account.UID)}},
		Type:       corev1.SecretTypeServiceAccountToken,
		Data:       map[string][]byte{"token": []byte(token)},
	})
	return token
}

// sign returns a token with these claims, signed with the key of the API server.
func (m *memberEnv) sign(t *testing.T, claims map[string]any) string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(m.environment.ControlPlane.APIServer.CertDir, "sa-signer.key"))
	if err != nil {
		t.Fatal(err)
	}
	block, _ := pem.Decode(content)
	key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	payload, err := json.Marshal(claims)
	if err != nil {
		t.Fatal(err)
	}
	encode := base64.RawURLEncoding.EncodeToString
	text := encode([]byte(`{"alg":"ES256"}`)) + "." + encode(payload)
	digest := sha256.Sum256([]byte(text))
	signer, isElliptic := key.(*ecdsa.PrivateKey)
	if !isElliptic {
		t.Fatalf("the API server signs with %T", key)
	}
	r, second, err := ecdsa.Sign(rand.Reader, signer, digest[:])
	if err != nil {
		t.Fatal(err)
	}
	signature := make([]byte, 64) // RFC 7518, section 3.4
	r.FillBytes(signature[:32])
	second.FillBytes(signature[32:])
	return text + "." + encode(signature)
}

// withToken returns a copy of a Secret with another token in its kubeconfig.
func withToken(t *testing.T, secret *corev1.Secret, token string) *corev1.Secret {
	t.Helper()
	changed := secret.DeepCopy()
	changed.Data["kubeconfig"] = []byte(strings.Replace(string(secret.Data["kubeconfig"]), configOf(t, secret).Token, token, 1))
	return changed
}

// leaving joins the member with everything that a member can have, and makes the hub report that the
// Secret is missing, so that unjoin does not wait.
func (m *memberEnv) leaving(t *testing.T, args ...string) *corev1.Secret {
	t.Helper()
	ensureNamespace(t, m, "shop")
	deleteSecret(t, "east")
	m.join(t, args...)
	create(t, &v1alpha1.MemberCluster{}, fmt.Sprintf(`
metadata: {name: east, annotations: {fleetwright.dev/secret: fleetwright-system/east}}
status: {clusterID: %s, secretMissingSince: "2026-01-01T00:00:00Z"}`, m.id))
	return readSecret(t, "east")
}

// The tokens of a cluster that has left the fleet end, also one that never expires.
func TestUnjoin_revoke_ends_the_tokens(t *testing.T) {
	m := newMember(t)
	secret := m.leaving(t, "--namespaces", "shop", "--configuration", "--restrict")
	lasting := withToken(t, secret, m.lastingToken(t))
	checkToken(t, secret, true)
	checkToken(t, lasting, true)
	m.run(t, "unjoin", "east", "--retain", "--revoke", "--yes").checkGolden(t, "unjoin-revoke")
	checkToken(t, secret, false)
	checkToken(t, lasting, false)
	if found := m.granted(t); len(found) > 0 {
		t.Errorf("the member still has %v", found)
	}
	if err := m.Get(t.Context(), client.ObjectKey{Name: member.Namespace}, &corev1.Namespace{}); err != nil {
		t.Errorf("the namespace: %v", err)
	}
}

// Without --revoke, the tokens are valid until the printed command is run.
func TestUnjoin_without_revoke_changes_nothing_on_the_member(t *testing.T) {
	m := newMember(t)
	secret := m.leaving(t)
	before := m.granted(t)
	if got := m.run(t, "unjoin", "east", "--retain", "--yes"); got.code != 0 {
		t.Error(got)
	}
	checkToken(t, secret, true)
	if after := m.granted(t); !slices.Equal(after, before) {
		t.Errorf("the member had %v, and has %v", before, after)
	}
}

func TestUnjoin_revoke_is_refused_before_anything_is_changed(t *testing.T) {
	m := newMember(t)
	m.leaving(t)
	noDeletions := m.contexts(t, map[string][]byte{"hub": hubEnvironment.KubeConfig, "east": userOf(t, m.environment, "reader")})
	createAll(t, m, &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "reader"}, Rules: []rbacv1.PolicyRule{{APIGroups: []string{"*"}, Resources: []string{"*"}, Verbs: []string{"get", "list"}}}},
		&rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "reader"}, Subjects: []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: "reader"}},
			RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "reader"}})
	for name, test := range map[string]struct{ kubeconfig, want string }{
		"without a context of the cluster": {hubKubeconfig, "error: nothing was changed: no context of your kubeconfig leads to east, and --revoke needs one of an administrator of the cluster: "},
		"without the permission":           {noDeletions, `error: nothing was changed: the cluster of context east: delete serviceaccount/fleetwright in namespace fleetwright-system: serviceaccounts "fleetwright" is forbidden`},
	} {
		t.Run(name, func(t *testing.T) {
			eventually(t, func() bool { // the API server takes a moment to read new roles
				got := runAs(t, test.kubeconfig, "unjoin", "east", "--retain", "--revoke", "--yes")
				return got.code == 1 && got.out == "" && strings.HasPrefix(got.errOut, test.want)
			})
			if readSecret(t, "east") == nil {
				t.Error("the Secret is gone")
			}
		})
	}
}

// A cluster has left the fleet when the deletions on it begin. If one fails, unjoin says so, and how to
// continue.
func TestUnjoin_revoke_that_fails_says_how_to_continue(t *testing.T) {
	m := newMember(t)
	secret := m.leaving(t)
	var deletions atomic.Int32 // the first one is a dry run
	file := m.throughProxy(t, m.environment, "east", func(w http.ResponseWriter, request *http.Request) bool {
		if request.Method != http.MethodDelete || !strings.HasSuffix(request.URL.Path, "/clusterroles/"+member.Role) || deletions.Add(1) == 1 {
			return false
		}
		w.WriteHeader(http.StatusServiceUnavailable)
		return true
	})
	got := runAs(t, file, "unjoin", "east", "--retain", "--revoke", "--yes")
	if got.code != 1 || !strings.HasPrefix(got.errOut, "error: east has left the fleet, but its permissions are not all deleted: the cluster of context east: delete clusterrole/fleetwright-member: ") ||
		!strings.Contains(got.out, "--print-only member --configuration --restrict |\n") {
		t.Error(got)
	}
	checkToken(t, secret, false)
}

// If no context leads to the cluster, the printed command removes the permissions for ConfigMaps and
// Secrets too. They would be granted again, unasked, by a later join.
func TestUnjoin_prints_a_clean_up_that_is_complete(t *testing.T) {
	m := newMember(t)
	m.leaving(t, "--configuration", "--restrict")
	got := run(t, "unjoin", "east", "--retain", "--yes")
	want := "  kubectl appsvc join CONTEXT --print-only member --configuration --restrict |\n    kubectl --context CONTEXT delete --ignore-not-found -f -\n"
	if got.code != 0 || !strings.Contains(got.out, want) || !strings.Contains(got.out, "  # If it permits some namespaces only, add --namespaces with their names.\n") {
		t.Errorf("want\n%s\ngot %v", want, got)
	}
	printed := run(t, "join", "CONTEXT", "--print-only", "member", "--configuration", "--restrict")
	for _, object := range decode(t, printed.out) {
		if err := m.Delete(t.Context(), object); client.IgnoreNotFound(err) != nil {
			t.Error(err)
		}
	}
	if found := m.granted(t); len(found) > 0 {
		t.Errorf("the member still has %v", found)
	}
}
