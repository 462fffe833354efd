package clusters_test

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/multicluster-runtime/pkg/multicluster"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/internal/wait"
)

// testMember is one member of one operator: a Secret on the hub, and a user of the members' API
// server behind a networkLink and a faultProxy.
type testMember struct {
	*testEnv
	operator *operator
	name     string
	account  *corev1.ServiceAccount
	proxy    *faultProxy // nil if the link leads to the API server directly
	link     *networkLink
	ca       []byte
}

const memberNamespace = "default" // the namespace on the member of the users and their objects

// newMember returns a member without a Secret. Cleanup removes the member with the test.
func (env *testEnv) newMember(t testing.TB, o *operator, name string) *testMember {
	t.Helper()
	m := env.newMemberWithoutRole(t, o, name)
	m.grantMemberRole(t, rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: memberNamespace, Name: name})
	return m
}

// newMemberWithoutRole returns a member whose user has no permissions on the members' API server.
func (env *testEnv) newMemberWithoutRole(t testing.TB, o *operator, name string) *testMember {
	t.Helper()
	m := &testMember{testEnv: env, operator: o, name: name, proxy: newFaultProxy(t, env.member)}
	m.ca, m.link = m.proxy.caBundle(), newNetworkLink(t, m.proxy.address())
	m.account = &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: memberNamespace, Name: name}}
	m.createObject(t, env.member, m.account)
	t.Cleanup(func() { m.deleteMember(t) })
	return m
}

// changeAddress gives the member another address. The old address continues to work.
func (m *testMember) changeAddress(t testing.TB) {
	t.Helper()
	m.link = newNetworkLink(t, m.link.server)
}

// grantMemberRole grants a user the permissions that a member must grant, as in config/member.
func (m *testMember) grantMemberRole(t testing.TB, user rbacv1.Subject) {
	t.Helper()
	m.createObject(t, m.testEnv.member, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: user.Name}, Subjects: []rbacv1.Subject{user},
		RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "fleetwright-member"},
	})
}

// createObject creates an object, and deletes it with the test.
func (m *testMember) createObject(t testing.TB, on *apiServer, object client.Object) {
	t.Helper()
	if err := on.admin.Create(ctx, object); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = on.admin.Delete(ctx, object) })
}

// newToken returns a new token of the member's user, and a function that revokes the token.
func (m *testMember) newToken(t testing.TB) (token string, revoke func()) {
	t.Helper()
	bound := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: memberNamespace, GenerateName: m.name + "-"}}
	m.createObject(t, m.testEnv.member, bound)
	ask := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{
		BoundObjectRef: &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Secret", Name: bound.Name, UID: bound.UID},
	}}
	if err := m.testEnv.member.admin.SubResource("token").Create(ctx, m.account, ask); err != nil {
		t.Fatal(err)
	}
	knownCredentials.add(ask.Status.Token[:64]) // messages are truncated
	knownCredentials.add(ask.Status.Token[strings.LastIndex(ask.Status.Token, ".")+1:])
	return ask.Status.Token, func() {
		if err := m.testEnv.member.admin.Delete(ctx, bound); err != nil {
			t.Fatal(err)
		}
	}
}

// tokenID returns the ID of a token in the audit log.
func tokenID(token string) string {
	var claims struct{ JTI string }
	payload, err := base64.RawURLEncoding.DecodeString(strings.Split(token, ".")[1])
	if err := errors.Join(err, json.Unmarshal(payload, &claims)); err != nil {
		panic(err)
	}
	return "JTI=" + claims.JTI
}

// user returns the name of the user on the member's API server.
func (m *testMember) user() string {
	return "system:serviceaccount:" + memberNamespace + ":" + m.name
}

// kubeconfigEdit changes a valid kubeconfig for a test case.
type kubeconfigEdit func(*api.Cluster, *api.AuthInfo)

func withToken(token string) kubeconfigEdit {
	return func(_ *api.Cluster, user *api.AuthInfo) { user.Token = token }
}

func withServer(address string) kubeconfigEdit {
	return func(cluster *api.Cluster, _ *api.AuthInfo) { cluster.Server = "https://" + address }
}

func withCertificate(certificate, key []byte) kubeconfigEdit {
	return func(_ *api.Cluster, user *api.AuthInfo) {
		// One line of the key is enough, because output is checked line by line.
		knownCredentials.add(strings.Split(string(key), "\n")[1])
		user.Token, user.ClientCertificateData, user.ClientKeyData = "", certificate, key
	}
}

// kubeconfig returns a kubeconfig for the member through its link, with a new token, after the
// edits.
func (m *testMember) kubeconfig(t testing.TB, edits ...kubeconfigEdit) []byte {
	t.Helper()
	token, _ := m.newToken(t)
	cluster := &api.Cluster{Server: "https://" + m.link.address, CertificateAuthorityData: m.ca}
	user := &api.AuthInfo{Token: token}
	for _, change := range edits {
		change(cluster, user)
	}
	raw, err := clientcmd.Write(api.Config{
		CurrentContext: "x",
		Contexts:       map[string]*api.Context{"x": {Cluster: "x", AuthInfo: "x"}},
		Clusters:       map[string]*api.Cluster{"x": cluster},
		AuthInfos:      map[string]*api.AuthInfo{"x": user},
	})
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// secretKey returns the key of the member's Secret.
func (m *testMember) secretKey() client.ObjectKey {
	return client.ObjectKey{Namespace: m.operator.namespace, Name: m.name}
}

// createSecret creates the member's Secret.
func (m *testMember) createSecret(t testing.TB, kubeconfig []byte, labels ...string) {
	t.Helper()
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: m.operator.namespace, Name: m.name, Labels: map[string]string{
			selectedLabel: "true", fleetLabel: m.operator.namespace,
		}},
		Data: map[string][]byte{"kubeconfig": kubeconfig},
	}
	for i := 0; i < len(labels); i += 2 {
		secret.Labels[labels[i]] = labels[i+1]
	}
	if err := m.hub.admin.Create(ctx, secret); err != nil {
		t.Fatal(err)
	}
}

// updateSecret changes the member's Secret.
func (m *testMember) updateSecret(t testing.TB, change func(*corev1.Secret)) {
	t.Helper()
	secret := &corev1.Secret{}
	if err := m.hub.admin.Get(ctx, m.secretKey(), secret); err != nil {
		t.Fatal(err)
	}
	before := secret.DeepCopy()
	change(secret)
	if err := m.hub.admin.Patch(ctx, secret, client.MergeFrom(before)); err != nil {
		t.Fatal(err)
	}
}

// replaceKubeconfig changes the content of the member's Secret.
func (m *testMember) replaceKubeconfig(t testing.TB, kubeconfig []byte) {
	t.Helper()
	m.updateSecret(t, func(secret *corev1.Secret) { secret.Data = map[string][]byte{"kubeconfig": kubeconfig} })
}

// deleteSecret deletes the member's Secret.
func (m *testMember) deleteSecret(t testing.TB) {
	t.Helper()
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: m.operator.namespace, Name: m.name}}
	if err := m.hub.admin.Delete(ctx, secret); client.IgnoreNotFound(err) != nil {
		t.Error(err)
	}
}

// deleteMember deletes the member's Secret and, as an administrator would, its MemberCluster.
func (m *testMember) deleteMember(t testing.TB) {
	m.deleteSecret(t)
	mc := &v1alpha1.MemberCluster{ObjectMeta: metav1.ObjectMeta{Name: m.name}}
	wait.Eventually(t, func() error {
		if err := m.hub.admin.Delete(ctx, mc); !apierrors.IsNotFound(err) {
			return fmt.Errorf("MemberCluster %s still exists: %w", m.name, err)
		}
		return nil
	})
}

// memberCluster returns the member's MemberCluster, or an empty one.
func (m *testMember) memberCluster(t testing.TB) *v1alpha1.MemberCluster {
	t.Helper()
	mc := &v1alpha1.MemberCluster{}
	if err := m.hub.admin.Get(ctx, client.ObjectKey{Name: m.name}, mc); client.IgnoreNotFound(err) != nil {
		t.Fatal(err)
	}
	return mc
}

// conditionSummary formats the two conditions of a MemberCluster.
func conditionSummary(mc *v1alpha1.MemberCluster) string {
	ready := cmp.Or(meta.FindStatusCondition(mc.Status.Conditions, v1alpha1.ConditionReady), &metav1.Condition{})
	credentials := cmp.Or(meta.FindStatusCondition(mc.Status.Conditions, v1alpha1.ConditionCredentialsValid), &metav1.Condition{})
	return fmt.Sprintf("Ready %s %s, CredentialsValid %s %s", ready.Status, ready.Reason, credentials.Status, credentials.Reason)
}

// summaryConnected is the conditionSummary of a healthy MemberCluster.
const summaryConnected = "Ready True Connected, CredentialsValid True Accepted"

// summarySecretMissing is the conditionSummary of a MemberCluster whose Secret is missing.
const summarySecretMissing = "Ready False SecretMissing, CredentialsValid False SecretMissing"

// waitForConditions waits until the MemberCluster has the conditions of this conditionSummary.
func (m *testMember) waitForConditions(t testing.TB, want string) {
	t.Helper()
	wait.Eventually(t, func() error { return m.compareConditions(t, want) })
}

// checkConditions checks that the MemberCluster has the conditions of this conditionSummary.
func (m *testMember) checkConditions(t testing.TB, want string) {
	t.Helper()
	if err := m.compareConditions(t, want); err != nil {
		t.Error(err)
	}
}

func (m *testMember) compareConditions(t testing.TB, want string) error {
	t.Helper()
	if mc := m.memberCluster(t); conditionSummary(mc) != want {
		return fmt.Errorf("%s has %s, want %s: %+v", m.name, conditionSummary(mc), want, mc.Status.Conditions)
	}
	return nil
}

// join creates the Secret and waits until the member is engaged and its MemberCluster is Ready.
func (m *testMember) join(t testing.TB, edits ...kubeconfigEdit) engagement {
	t.Helper()
	m.createSecret(t, m.kubeconfig(t, edits...))
	return m.waitForEngagement(t, 1)
}

// waitForEngagement waits until the member has been engaged that many times and its MemberCluster
// is Ready.
func (m *testMember) waitForEngagement(t testing.TB, times int) engagement {
	t.Helper()
	var all []engagement
	wait.Eventually(t, func() error {
		if all = m.operator.recorder.engagements(m.name); len(all) != times {
			return fmt.Errorf("%s was engaged %d times, want %d: %s", m.name, len(all), times, conditionSummary(m.memberCluster(t)))
		}
		return nil
	})
	m.waitForConditions(t, summaryConnected)
	newest := all[times-1]
	if !newest.synced {
		t.Errorf("%s was engaged before its caches had synced", m.name)
	}
	return newest
}

// checkContinues checks that an engagement is the newest, has not ended, and can read.
func (m *testMember) checkContinues(t testing.TB, e engagement) {
	t.Helper()
	all := m.operator.recorder.engagements(m.name)
	if newest := all[len(all)-1]; newest.cluster != e.cluster {
		t.Errorf("%s was engaged again", m.name)
	}
	if e.ctx.Err() != nil {
		t.Errorf("%s: the engagement has ended", m.name)
	}
	if got, err := m.operator.provider.Get(ctx, multicluster.ClusterName(m.name)); err != nil || got != e.cluster {
		t.Errorf("%s: the provider has another cluster (%v)", m.name, err)
	}
	if err := e.cluster.GetAPIReader().Get(ctx, client.ObjectKey{Name: metav1.NamespaceSystem}, &corev1.Namespace{}); err != nil {
		t.Errorf("%s: the connection does not work: %v", m.name, err)
	}
}

// waitForEnd waits until an engagement has ended.
func (m *testMember) waitForEnd(t testing.TB, e engagement) {
	t.Helper()
	wait.Receive(t, e.ctx.Done(), "the end of the engagement of "+m.name)
}

// createDeployment creates a Deployment on the member that the operator's caches select.
func (m *testMember) createDeployment(t testing.TB, name string) {
	t.Helper()
	pod := map[string]string{"app": name}
	m.createObject(t, m.testEnv.member, &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: memberNamespace, Name: name, Labels: map[string]string{v1alpha1.LabelManagedBy: v1alpha1.ManagedBy}},
		Spec: appsv1.DeploymentSpec{
			Selector: &metav1.LabelSelector{MatchLabels: pod},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: pod}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "x", Image: name}}}},
		},
	})
}

// waitForDeployment waits until the cache of an engagement has a Deployment.
func (e engagement) waitForDeployment(t testing.TB, name string) {
	t.Helper()
	wait.Eventually(t, func() error { return e.findDeployment(name) })
}

// checkDeployment checks that the cache of an engagement has a Deployment.
func (e engagement) checkDeployment(t testing.TB, name string) {
	t.Helper()
	if err := e.findDeployment(name); err != nil {
		t.Error(err)
	}
}

func (e engagement) findDeployment(name string) error {
	return e.cluster.GetClient().Get(ctx, client.ObjectKey{Namespace: memberNamespace, Name: name}, &appsv1.Deployment{})
}

// events returns the events of the hub.
func (m *testMember) events(t testing.TB) []eventsv1.Event {
	t.Helper()
	var events eventsv1.EventList
	if err := m.hub.admin.List(ctx, &events); err != nil {
		t.Fatal(err)
	}
	return events.Items
}
