package clusters_test

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/internal/wait"
)

// editMemberCluster changes the MemberCluster as an administrator does.
func (m *testMember) editMemberCluster(t *testing.T, change func(*v1alpha1.MemberCluster)) {
	t.Helper()
	mc := m.memberCluster(t)
	before := mc.DeepCopy()
	change(mc)
	if err := m.hub.admin.Patch(ctx, mc, client.MergeFrom(before)); err != nil {
		t.Fatal(err)
	}
}

// editStatus changes the status of the MemberCluster.
func (m *testMember) editStatus(t *testing.T, change func(*v1alpha1.MemberClusterStatus)) {
	t.Helper()
	mc := m.memberCluster(t)
	before := mc.DeepCopy()
	change(&mc.Status)
	if err := m.hub.admin.Status().Patch(ctx, mc, client.MergeFrom(before)); err != nil {
		t.Fatal(err)
	}
}

// backdateMissingSecret sets the time since which the Secret is missing to an hour ago, which is
// longer than any grace period.
func (m *testMember) backdateMissingSecret(t *testing.T) {
	t.Helper()
	m.editStatus(t, func(s *v1alpha1.MemberClusterStatus) {
		s.SecretMissingSince = &metav1.Time{Time: time.Now().Add(-time.Hour).Truncate(time.Second)}
	})
}

// deleteMemberCluster deletes the MemberCluster as an administrator does.
func (m *testMember) deleteMemberCluster(t *testing.T) {
	t.Helper()
	if err := m.hub.admin.Delete(ctx, m.memberCluster(t)); err != nil {
		t.Fatal(err)
	}
}

// waitForDeletion waits until the MemberCluster does not exist.
func (m *testMember) waitForDeletion(t *testing.T) {
	t.Helper()
	wait.Eventually(t, func() error {
		if mc := m.memberCluster(t); mc.Name != "" {
			return fmt.Errorf("MemberCluster %s still exists: %s", m.name, conditionSummary(mc))
		}
		return nil
	})
}

// setByAdministrator changes fields of a MemberCluster that administrators own.
func setByAdministrator(mc *v1alpha1.MemberCluster) {
	mc.Spec.Unschedulable = true
	mc.Spec.Taints = []v1alpha1.Taint{{Key: "maintenance", Effect: v1alpha1.TaintNoSchedule}}
	mc.Labels["team"] = "red"
}

func TestMemberCluster_outlives_its_Secret(t *testing.T) {
	t.Parallel()

	t.Run("with the settings of administrators, which still apply when the Secret returns", func(t *testing.T) {
		t.Parallel()
		env := sharedEnv(t)
		m := env.newMember(t, env.operator, "outlives")
		e := m.join(t)
		m.editMemberCluster(t, setByAdministrator)
		tombstone := v1alpha1.AbandonedAppService{Namespace: "shop", Name: "web", UID: "1"}
		m.editStatus(t, func(s *v1alpha1.MemberClusterStatus) { s.Abandoned = []v1alpha1.AbandonedAppService{tombstone} })
		before := m.memberCluster(t)
		m.deleteSecret(t)
		m.waitForEnd(t, e)
		m.waitForConditions(t, summarySecretMissing)
		if mc := m.memberCluster(t); mc.HasSecret() || mc.Status.CredentialsExpirationTime != nil || mc.Status.ClusterID != before.Status.ClusterID {
			t.Errorf("the status is %+v", mc.Status)
		}
		m.createSecret(t, m.kubeconfig(t))
		m.waitForEngagement(t, 2)
		after := m.memberCluster(t)
		if after.UID != before.UID || !after.Spec.Unschedulable || len(after.Spec.Taints) != 1 || after.Labels["team"] != "red" ||
			len(after.Status.Abandoned) != 1 || !after.HasSecret() {
			t.Errorf("the MemberCluster was %+v\nand is %+v", before, after)
		}
	})

	t.Run("with its identity: another cluster behind the Secret that returns is not engaged until it is acknowledged", func(t *testing.T) {
		t.Parallel()
		env := sharedEnv(t)
		m := env.newMember(t, env.operator, "outlives-identity")
		m.join(t)
		m.deleteSecret(t)
		m.waitForConditions(t, summarySecretMissing)
		m.proxy.setIdentity("another")
		m.createSecret(t, m.kubeconfig(t))
		m.waitForConditions(t, "Ready False IdentityChanged, CredentialsValid Unknown NotVerified")
		m.checkNotEngaged(t, 1)
		m.acceptIdentity(t, "another")
		m.waitForEngagement(t, 2)
	})

	t.Run("until the grace period ends, if it has no setting of an administrator", func(t *testing.T) {
		t.Parallel()
		env := sharedEnv(t)
		m := env.newMember(t, env.newOperator(t, "fleet-short-grace", func(o *setup) { o.SecretGrace = 3 * time.Second }), "outlives-shortly")
		m.join(t)
		m.deleteSecret(t)
		m.waitForConditions(t, summarySecretMissing)
		since := m.memberCluster(t).Status.SecretMissingSince.Time
		m.waitForDeletion(t)
		if lasted := time.Since(since); lasted < 3*time.Second {
			t.Errorf("the MemberCluster was deleted after %s", lasted)
		}
	})

	for name, say := range map[string]func(*testing.T, *testMember){
		"cordoned": func(t *testing.T, m *testMember) {
			m.editMemberCluster(t, func(mc *v1alpha1.MemberCluster) { mc.Spec.Unschedulable = true })
		},
		"tainted": func(t *testing.T, m *testMember) {
			m.editMemberCluster(t, func(mc *v1alpha1.MemberCluster) {
				mc.Spec.Taints = []v1alpha1.Taint{{Key: "maintenance", Effect: v1alpha1.TaintNoExecute}}
			})
		},
		"labelled": func(t *testing.T, m *testMember) {
			m.editMemberCluster(t, func(mc *v1alpha1.MemberCluster) { mc.Labels["team"] = "red" })
		},
		"annotated": func(t *testing.T, m *testMember) {
			m.editMemberCluster(t, func(mc *v1alpha1.MemberCluster) { mc.Annotations["example.com/contact"] = "red" })
		},
		"tombstoned": func(t *testing.T, m *testMember) {
			m.editStatus(t, func(s *v1alpha1.MemberClusterStatus) {
				s.Abandoned = []v1alpha1.AbandonedAppService{{Namespace: "shop", Name: "web", UID: "1"}}
			})
		},
	} {
		t.Run("without a time limit, if it is "+name, func(t *testing.T) {
			t.Parallel()
			env := sharedEnv(t)
			m := env.newMember(t, env.operator, "outlives-"+name)
			// A copied label of the Secret does not count as an administrator's edit.
			m.createSecret(t, m.kubeconfig(t), "env", "test")
			m.waitForEngagement(t, 1)
			say(t, m)
			m.deleteSecret(t)
			m.waitForConditions(t, summarySecretMissing)
			m.backdateMissingSecret(t)
			m.waitForReconcile(t)
			if m.memberCluster(t).Name == "" {
				t.Fatal("the MemberCluster was deleted")
			}
			if len(m.memberCluster(t).Status.Abandoned) > 0 {
				m.editStatus(t, func(s *v1alpha1.MemberClusterStatus) { s.Abandoned = nil })
			} else { // a single edit, because the MemberCluster is deleted at once
				m.editMemberCluster(t, func(mc *v1alpha1.MemberCluster) {
					mc.Spec = v1alpha1.MemberClusterSpec{}
					delete(mc.Labels, "team")
					delete(mc.Annotations, "example.com/contact")
				})
			}
			m.waitForDeletion(t)
		})
	}

	t.Run("but can be deleted by an administrator", func(t *testing.T) {
		t.Parallel()
		env := sharedEnv(t)
		m := env.newMember(t, env.operator, "outlives-by-hand")
		m.join(t)
		m.editMemberCluster(t, setByAdministrator)
		m.deleteSecret(t)
		m.waitForConditions(t, summarySecretMissing)
		m.deleteMemberCluster(t)
		m.waitForDeletion(t)
		m.waitForReconcile(t)
		m.waitForDeletion(t)
	})
}

// reconciles is the number of calls of waitForReconcile.
var reconciles atomic.Int64

// waitForReconcile waits until the operator has reconciled all earlier changes of this member. It
// creates another Secret and its MemberCluster, which are reconciled after them.
func (m *testMember) waitForReconcile(t *testing.T) {
	t.Helper()
	next := m.newMember(t, m.operator, fmt.Sprintf("%s-next-%d", m.name, reconciles.Add(1)))
	next.createSecret(t, []byte("no kubeconfig"))
	next.waitForConditions(t, "Ready False NoConnection, CredentialsValid False KubeconfigMalformed")
}
