package command_test

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
)

// TestDoctor examines a member without an operator: the test writes its status.
func TestDoctor(t *testing.T) {
	m := newMember(t)
	deleteSecret(t, "east")
	createLease(t, time.Now().Add(time.Minute)) // it does not end during the test
	if got := m.run(t, "join", "east", "--allow-loopback", "--timeout", "0"); got.code != 0 {
		t.Fatal(got)
	}
	m.connect(t, "east")()
	expires := configOf(t, readSecret(t, "east")).Expiry().End
	changeStatus := func(t *testing.T, change func(*v1alpha1.MemberClusterStatus)) {
		t.Helper()
		status := m.connectedStatus(expires)
		change(&status)
		setMemberStatus(t, "east", status)
	}
	changeStatus(t, func(*v1alpha1.MemberClusterStatus) {})

	t.Run("a cluster without a fault", func(t *testing.T) {
		m.run(t, "doctor", "east").checkGolden(t, "doctor")
	})

	t.Run("a permission that is missing", func(t *testing.T) {
		role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "fleetwright-member"}}
		if err := m.Get(t.Context(), client.ObjectKeyFromObject(role), role); err != nil {
			t.Fatal(err)
		}
		all := role.DeepCopy()
		role.Rules = role.Rules[:len(role.Rules)-1] // create events
		if err := m.Update(t.Context(), role); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			all.ResourceVersion = role.ResourceVersion
			if err := m.Update(context.Background(), all); err != nil {
				t.Error(err)
			}
		})
		eventually(t, func() bool { // the API server takes a moment to read a changed role
			got := m.run(t, "doctor", "east")
			text := strings.Join(strings.Fields(got.out), " ")
			return got.code == 3 && strings.Contains(text, "create events.events.k8s.io. Run: kubectl appsvc join east --allow-loopback --name east") && strings.Contains(got.out, "FAIL  permissions ")
		})
	})

	t.Run("a token that it may not request", func(t *testing.T) {
		role := &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: secretNamespace, Name: "fleetwright-token"}}
		if err := m.Get(t.Context(), client.ObjectKeyFromObject(role), role); err != nil {
			t.Fatal(err)
		}
		all := role.DeepCopy()
		role.Rules = nil
		if err := m.Update(t.Context(), role); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			all.ResourceVersion = role.ResourceVersion
			if err := m.Update(context.Background(), all); err != nil {
				t.Error(err)
			}
		})
		eventually(t, func() bool {
			text := strings.Join(strings.Fields(m.run(t, "doctor", "east").out), " ")
			return strings.Contains(text, "FAIL permissions 1 of 31 are missing: create serviceaccounts/token in fleetwright-system. Run: ")
		})
	})

	t.Run("an operator that does not run", func(t *testing.T) {
		lease := &coordinationv1.Lease{}
		key := client.ObjectKey{Namespace: secretNamespace, Name: "fleetwright"}
		if err := hub.Get(t.Context(), key, lease); err != nil {
			t.Fatal(err)
		}
		renewed := lease.Spec.RenewTime
		update := func(at *metav1.MicroTime) {
			lease.Spec.RenewTime = at
			if err := hub.Update(context.Background(), lease); err != nil {
				t.Fatal(err)
			}
		}
		t.Cleanup(func() { update(renewed) })
		update(&metav1.MicroTime{Time: time.Now().Add(-time.Hour)})
		got := m.run(t, "doctor", "east")
		if text := strings.Join(strings.Fields(got.out), " "); got.code != 3 || !strings.HasPrefix(text, "FAIL operator the operator has not renewed its Lease for 60m, so what you see may be old") {
			t.Error(got)
		}
	})

	t.Run("a user who may not read the Lease", func(t *testing.T) {
		user := userOf(t, hubEnvironment, "doctor-viewer")
		createAll(t, hub,
			&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "doctor-viewer"}, Rules: []rbacv1.PolicyRule{{APIGroups: []string{v1alpha1.GroupVersion.Group}, Resources: []string{"memberclusters"}, Verbs: []string{"get"}}}},
			&rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "doctor-viewer"}, Subjects: []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: "doctor-viewer"}},
				RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "doctor-viewer"}})
		file := m.contexts(t, map[string][]byte{"hub": user, "east": m.environment.KubeConfig})
		eventually(t, func() bool {
			got := runAs(t, file, "doctor", "east")
			return got.code == 0 && strings.HasPrefix(strings.Join(strings.Fields(got.out), " "), "note operator whether the operator runs is not known: you may not get the Lease")
		})
	})

	t.Run("a cluster that was never connected", func(t *testing.T) {
		t.Cleanup(func() { changeStatus(t, func(*v1alpha1.MemberClusterStatus) {}) })
		changeStatus(t, func(status *v1alpha1.MemberClusterStatus) { status.ClusterID = "" })
		got := m.run(t, "doctor", "east", "--member-context", "east")
		if text := strings.Join(strings.Fields(got.out), " "); got.code != 0 || !strings.Contains(text, "note identity the hub has never been connected to the cluster; the kube-system namespace of context east has UID UID ok permissions") {
			t.Error(got)
		}
	})

	t.Run("contexts in another file", func(t *testing.T) {
		got := runAs(t, hubKubeconfig, "doctor", "east", "--member-kubeconfig", m.kubeconfig)
		if got.code != 0 || !strings.Contains(got.out, "ok    context         east leads to the cluster\n") {
			t.Error(got)
		}
	})

	t.Run("what the hub reports", func(t *testing.T) {
		t.Cleanup(func() { changeStatus(t, func(*v1alpha1.MemberClusterStatus) {}) })
		changeStatus(t, func(status *v1alpha1.MemberClusterStatus) {
			status.Conditions[0].Status, status.Conditions[0].Reason = metav1.ConditionFalse, v1alpha1.ReasonUnreachable
			status.Conditions[0].Message = "dial tcp: i/o timeout"
			status.Conditions[1].Reason = v1alpha1.ReasonExpiringSoon
			status.Conditions[1].Message = "the credentials expire soon"
			status.Conditions = append(status.Conditions, metav1.Condition{Type: v1alpha1.ConditionAllocatableKnown,
				Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonForbidden, Message: "nodes is forbidden", LastTransitionTime: metav1.Now()})
		})
		m.run(t, "doctor", "east").checkGolden(t, "doctor-hub")
	})

	t.Run("a member that does not answer, by its name", func(t *testing.T) {
		file := m.editKubeconfig(t, func(c *clientcmdapi.Config) { c.Clusters["east"].Server = "https://127.0.0.1:1" })
		runAs(t, file, "doctor", "east").scrub().checkGolden(t, "doctor-unreachable")
	})

	t.Run("no context leads to the cluster", func(t *testing.T) {
		file := m.editKubeconfig(t, func(c *clientcmdapi.Config) {
			c.AuthInfos["old"] = &clientcmdapi.AuthInfo{Token: "old"}
			c.Contexts = map[string]*clientcmdapi.Context{"hub": c.Contexts["hub"], "west": {Cluster: "hub", AuthInfo: "old"}}
		})
		runAs(t, file, "doctor", "east").scrub().checkGolden(t, "doctor-no-context")
	})

	for name, test := range map[string]struct {
		edit func(*clientcmdapi.Config)
		args []string
		want string
	}{
		"a context that leads to another cluster": {args: []string{"--member-context", "hub"}, want: "FAIL identity context hub leads to another cluster (UID UID) than east (UID UID)"},
		"a context that does not exist":           {args: []string{"--member-context", "west"}, want: `FAIL context there is no context "west" in your kubeconfig; it has: east, hub`},
		"a name without an address": {
			edit: func(c *clientcmdapi.Config) { c.Clusters["east"].Server = "https://east.invalid:6443" },
			args: []string{"--member-context", "east"},
			want: "FAIL DNS east.invalid has no address",
		},
		"a proxy of the environment": { // suite_test.go sets it
			edit: func(c *clientcmdapi.Config) { c.Clusters["east"].Server = "https://proxied.invalid:6443" },
			args: []string{"--member-context", "east"},
			want: "note network context east uses a proxy, so DNS, TCP and TLS are not checked",
		},
		"another authority": {
			edit: func(c *clientcmdapi.Config) {
				c.Clusters["east"].CertificateAuthorityData = c.Clusters["hub"].CertificateAuthorityData
			},
			args: []string{"--member-context", "east"},
			want: "FAIL TLS tls: failed to verify certificate: x509: certificate signed by unknown authority",
		},
		"credentials that are not accepted": {
			edit: func(c *clientcmdapi.Config) { c.AuthInfos["east"] = &clientcmdapi.AuthInfo{Token: "old"} },
			args: []string{"--member-context", "east"},
			want: "FAIL authentication the cluster of context east does not accept its credentials: log in again",
		},
	} {
		t.Run(name, func(t *testing.T) {
			file := m.kubeconfig
			if test.edit != nil {
				file = m.editKubeconfig(t, test.edit)
			}
			got := runAs(t, file, append([]string{"doctor", "east"}, test.args...)...).scrub()
			if got.code != 3 || got.errOut != "" || !strings.Contains(strings.Join(strings.Fields(got.out), " "), test.want) {
				t.Errorf("got exit code %d and\n%s%s\nwant\n%s", got.code, got.out, got.errOut, test.want)
			}
		})
	}

	t.Run("a cluster to which the hub was never connected", func(t *testing.T) {
		t.Cleanup(func() { changeStatus(t, func(*v1alpha1.MemberClusterStatus) {}) })
		changeStatus(t, func(status *v1alpha1.MemberClusterStatus) { status.ClusterID = "" })
		got := m.run(t, "doctor", "east")
		if text := strings.Join(strings.Fields(got.out), " "); got.code != 0 || !strings.Contains(text, "note identity the hub has never been connected to the cluster") {
			t.Error(got)
		}
	})

	t.Run("a member that stops answering", func(t *testing.T) {
		file := m.throughProxy(t, m.environment, "east", func(_ http.ResponseWriter, request *http.Request) bool {
			if !strings.HasSuffix(request.URL.Path, "/namespaces/kube-system") {
				return false
			}
			<-request.Context().Done()
			return true
		})
		got := runAs(t, file, "doctor", "east", "--member-context", "east", "--request-timeout", "1s").scrub()
		if got.code != 3 || !strings.Contains(strings.Join(strings.Fields(got.out), " "), "FAIL identity the cluster of context east: https://ADDRESS does not answer") {
			t.Error(got)
		}
	})

	t.Run("a Secret that join did not write", func(t *testing.T) {
		byHand := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: secretNamespace, Name: "by-hand"}}
		if err := hub.Create(t.Context(), byHand, client.FieldOwner("kubectl-create")); err != nil {
			t.Fatal(err)
		}
		deleteSecret(t, byHand.Name)
		create(t, &v1alpha1.MemberCluster{}, `{metadata: {name: by-hand}, status: {credentialsExpirationTime: "2020-01-01T00:00:00Z"}}`)
		got := m.run(t, "doctor", "by-hand", "--member-context", "east")
		if text := strings.Join(strings.Fields(got.out), " "); !strings.Contains(text, `Write new ones to Secret fleetwright-system/by-hand ("Rotate credentials" in docs/maintenance.md)`) {
			t.Error(got)
		}
	})

	for _, name := range []string{"west", "EAST"} {
		t.Run("a cluster that does not exist, "+name, func(t *testing.T) {
			m.run(t, "doctor", name).check(t, result{code: 1, errOut: "error: the hub has no cluster " + name + ": see kubectl appsvc clusters\n"})
		})
	}

	t.Run("permissions in some namespaces", func(t *testing.T) {
		ensureNamespace(t, m, "shop")
		if got := m.run(t, "join", "east", "--allow-loopback", "--timeout", "0", "--force", "--namespaces", "shop"); got.code != 0 {
			t.Fatal(got)
		}
		eventually(t, func() bool {
			text := strings.Join(strings.Fields(m.run(t, "doctor", "east").out), " ")
			return strings.Contains(text, "that Fleetwright needs, writing in shop only")
		})
	})
}
