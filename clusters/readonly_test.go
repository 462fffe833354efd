package clusters_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/internal/wait"
)

// A process beside the operator gets the members that the operator has accepted. It may read
// MemberClusters and their Secrets, and nothing else.
func TestReadOnly_provider_follows_the_operator(t *testing.T) {
	t.Parallel()
	env := sharedEnv(t)
	o := env.newOperator(t, "fleet-followed")
	follower := env.newFollower(t, o)
	m := env.newMember(t, o, "followed")
	m.join(t)
	e := follower.waitForEngagements(t, m, 1)

	next, _ := m.newToken(t) // a rotation
	m.replaceKubeconfig(t, m.kubeconfig(t, withToken(next)))
	m.waitForCredential(t, e, m.user(), tokenID(next))
	m.link.setMode(t, modeRefuse) // an outage
	m.waitForEnd(t, e)
	m.link.setMode(t, modePass)
	e = follower.waitForEngagements(t, m, 2)

	m.proxy.setIdentity("another")
	m.waitForEnd(t, e)
	m.acceptIdentity(t, "another")
	e = follower.waitForEngagements(t, m, 3)

	m.replaceKubeconfig(t, []byte("nonsense"))
	waitForLogLine(t, "The kubeconfig is rejected", "cluster="+m.name)
	if e.ctx.Err() != nil {
		t.Error("a rejected kubeconfig ends the connection")
	}
	m.deleteSecret(t)
	m.waitForEnd(t, e)
	if writes := env.hub.writeRequests(follower); len(writes) > 0 {
		t.Errorf("it writes to the hub: %v", writes)
	}
}

// A process beside the operator connects to no member that the operator has not accepted: it could be
// any cluster, or one that is a member already.
func TestReadOnly_provider_connects_to_no_member_that_is_not_accepted(t *testing.T) {
	t.Parallel()
	env := sharedEnv(t)
	o := env.newOperator(t, "fleet-not-accepted")
	follower := env.newFollower(t, o)
	first, twin := env.newMember(t, o, "accepted"), env.newMember(t, o, "not-accepted")
	first.join(t)
	e := follower.waitForEngagements(t, first, 1)
	twin.proxy.setIdentity(first.proxy.identity())
	twin.createSecret(t, twin.kubeconfig(t))
	twin.waitForConditions(t, "Ready False DuplicateCluster, CredentialsValid Unknown NotVerified")

	o.exit() // so that only the follower reacts
	<-o.ended
	late := env.newMember(t, o, "accepted-late")
	late.createSecret(t, late.kubeconfig(t))
	first.editMemberCluster(t, func(mc *v1alpha1.MemberCluster) { mc.Annotations[v1alpha1.AnnotationSecret] = "elsewhere/accepted" })
	first.waitForEnd(t, e)
	if all := follower.recorder.engagements(twin.name); len(all) > 0 {
		t.Errorf("it was engaged with the member that is not accepted: %v", all)
	}

	accepted := time.Now()
	late.accept(t)
	if e := follower.waitForEngagements(t, late, 1); e.at.Before(accepted) {
		t.Errorf("it was engaged with a member %s before that was accepted", accepted.Sub(e.at))
	}
}

// accept creates the MemberCluster of a member as the operator does after the first connection.
func (m *testMember) accept(t *testing.T) {
	t.Helper()
	mc := &v1alpha1.MemberCluster{ObjectMeta: metav1.ObjectMeta{
		Name:        m.name,
		Labels:      map[string]string{fleetLabel: m.operator.namespace},
		Annotations: map[string]string{v1alpha1.AnnotationSecret: m.secretKey().String()},
	}}
	m.createObject(t, m.hub, mc)
	mc.Status.ClusterID = m.proxy.identity()
	if err := m.hub.admin.Status().Update(ctx, mc); err != nil {
		t.Fatal(err)
	}
}

// newFollower runs a ReadOnly provider with the Secrets of an operator.
func (env *testEnv) newFollower(t *testing.T, o *operator) *operator {
	t.Helper()
	name := "follower-of-" + o.namespace
	user := rbacv1.Subject{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: name}
	read := []string{"get", "list", "watch"}
	cluster, local := metav1.ObjectMeta{Name: name}, metav1.ObjectMeta{Namespace: o.namespace, Name: name}
	for _, object := range []client.Object{
		&rbacv1.ClusterRole{ObjectMeta: cluster, Rules: []rbacv1.PolicyRule{
			{APIGroups: []string{v1alpha1.GroupVersion.Group}, Resources: []string{"memberclusters"}, Verbs: read},
		}},
		&rbacv1.ClusterRoleBinding{ObjectMeta: cluster, Subjects: []rbacv1.Subject{user}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name}},
		&rbacv1.Role{ObjectMeta: local, Rules: []rbacv1.PolicyRule{{APIGroups: []string{corev1.GroupName}, Resources: []string{"secrets"}, Verbs: read}}},
		&rbacv1.RoleBinding{ObjectMeta: local, Subjects: []rbacv1.Subject{user}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: name}},
	} {
		if err := env.hub.admin.Create(ctx, object); err != nil {
			t.Fatal(err)
		}
	}
	follower, err := startOperatorOn(env.hub.userConfig(name), o.namespace, func(with *setup) { with.ReadOnly = true })
	if err != nil {
		t.Fatal(err)
	}
	follower.user = name
	t.Cleanup(func() {
		if err := follower.stop(); err != nil {
			t.Error(err)
		}
	})
	return follower
}

// waitForEngagements waits until an operator has been engaged with a member that many times, and returns
// the last of these engagements.
func (o *operator) waitForEngagements(t *testing.T, m *testMember, times int) (last engagement) {
	t.Helper()
	wait.Eventually(t, func() error {
		all := o.recorder.engagements(m.name)
		if len(all) != times {
			return fmt.Errorf("%d engagements with %s, want %d", len(all), m.name, times)
		}
		last = all[times-1]
		return nil
	})
	return last
}

// waitForLogLine waits until a line of the log contains these texts.
func waitForLogLine(t *testing.T, texts ...string) {
	t.Helper()
	wait.Eventually(t, func() error {
		if !slices.ContainsFunc(operatorLog.lines(), func(line string) bool {
			return !slices.ContainsFunc(texts, func(text string) bool { return !strings.Contains(line, text) })
		}) {
			return fmt.Errorf("no line of the log contains %q", texts)
		}
		return nil
	})
}
