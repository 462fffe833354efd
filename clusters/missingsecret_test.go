package clusters_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/internal/wait"
)

// The status stores the time since which the Secret is missing, so a restart of the operator does
// not restart the grace period.
func TestGrace_period_continues_after_a_restart_of_the_operator(t *testing.T) {
	t.Parallel()
	env := sharedEnv(t)
	const fleet = "fleet-grace-restart"
	o := env.newOperator(t, fleet)
	m, longGone := env.newMember(t, o, "grace-restart"), env.newMember(t, o, "grace-over")
	for _, m := range []*testMember{m, longGone} {
		m.join(t)
		m.deleteSecret(t)
		m.waitForConditions(t, summarySecretMissing)
	}
	since := m.memberCluster(t).Status.SecretMissingSince
	if err := o.stop(); err != nil {
		t.Fatal(err)
	}
	longGone.backdateMissingSecret(t)
	m.operator = env.newOperator(t, fleet)
	longGone.waitForDeletion(t)
	m.editMemberCluster(t, func(mc *v1alpha1.MemberCluster) { mc.Spec.Unschedulable = true })
	m.waitForStatus(t)
	if mc := m.memberCluster(t); !mc.Status.SecretMissingSince.Equal(since) {
		t.Errorf("the Secret is missing since %s, want %s", mc.Status.SecretMissingSince, since)
	}
}

// waitForStatus waits until the operator has written the status for the current spec.
func (m *testMember) waitForStatus(t *testing.T) {
	t.Helper()
	wait.Eventually(t, func() error {
		if mc := m.memberCluster(t); mc.Generation == 0 || mc.Status.ObservedGeneration != mc.Generation {
			return fmt.Errorf("%s: generation %d is observed, want %d", m.name, mc.Status.ObservedGeneration, mc.Generation)
		}
		return nil
	})
}

// A Secret that was deleted while the operator was down counts as missing from the time at which
// the operator notices. The same applies to a Secret whose namespace has no rule any more.
func TestSecret_that_was_deleted_while_the_operator_was_down_is_missing(t *testing.T) {
	t.Parallel()
	env := sharedEnv(t)
	if err := env.grantOperator("fleet-away"); err != nil {
		t.Fatal(err)
	}
	for from, name := range map[string]string{"fleet-away": "away", "elsewhere": "of-another-namespace"} {
		mc := &unstructured.Unstructured{}
		mc.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("MemberCluster"))
		mc.SetName(name)
		mc.SetAnnotations(map[string]string{v1alpha1.AnnotationSecret: from + "/" + name})
		mc.SetLabels(map[string]string{fleetLabel: "fleet-away"})
		applied := client.ApplyConfigurationFromUnstructured(mc)
		if err := env.hub.admin.Apply(ctx, applied, client.FieldOwner(v1alpha1.ManagedBy), client.ForceOwnership); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = env.hub.admin.Delete(ctx, mc) })
	}
	o := env.newOperator(t, "fleet-away", func(o *setup) { o.SecretGrace = time.Second })
	for _, name := range []string{"away", "of-another-namespace"} {
		(&testMember{testEnv: env, operator: o, name: name}).waitForDeletion(t)
	}
}

// An operator that starts without the namespace of the Secrets detaches the members. Their
// MemberClusters keep their identities.
func TestMembers_of_a_namespace_that_is_no_longer_a_source_are_detached(t *testing.T) {
	t.Parallel()
	env := sharedEnv(t)
	const fleet, wrong = "fleet-dropped", "fleet-dropped-wrong"
	o := env.newOperator(t, fleet)
	m, twin := env.newMember(t, o, "dropped"), env.newMember(t, o, "dropped-twin")
	m.join(t)
	before := m.memberCluster(t)
	role := &rbacv1.Role{}
	if err := errors.Join(o.stop(), env.grantOperator(wrong), readObject("../config/rbac/role.yaml", role)); err != nil {
		t.Fatal(err)
	}
	m.createObject(t, env.hub, &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: wrong, Name: fleet},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: o.user}},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: role.Name},
	})
	next := env.newOperator(t, fleet, func(o *setup) { o.secretRules[0].Namespace = wrong })
	m.waitForConditions(t, summarySecretMissing)
	twin.operator = &operator{namespace: wrong, recorder: next.recorder}
	twin.proxy.setIdentity(m.proxy.identity())
	secret := &corev1.Secret{Data: map[string][]byte{"kubeconfig": twin.kubeconfig(t)}}
	secret.Namespace, secret.Name, secret.Labels = wrong, twin.name, map[string]string{selectedLabel: "true", fleetLabel: fleet}
	twin.createObject(t, env.hub, secret)
	twin.waitForConditions(t, "Ready False DuplicateCluster, CredentialsValid Unknown NotVerified")
	if err := next.stop(); err != nil {
		t.Fatal(err)
	}
	m.operator = env.newOperator(t, fleet)
	m.waitForEngagement(t, 1)
	if after := m.memberCluster(t); after.UID != before.UID || after.Status.ClusterID != before.Status.ClusterID || !after.HasSecret() {
		t.Errorf("the MemberCluster was %+v\nand is %+v", before, after)
	}
}

func TestMetrics_report_a_member_as_down_while_its_Secret_is_missing(t *testing.T) {
	t.Parallel()
	env := sharedEnv(t)
	m := env.newMember(t, env.operator, "metrics")
	e := m.join(t)
	m.waitForMetrics(t, map[string]float64{"up": 1, "connections_total": 1, "credential_expiry_timestamp_seconds": -1, "probe_latency_seconds": -1})
	m.deleteSecret(t)
	m.waitForEnd(t, e)
	m.waitForMetrics(t, map[string]float64{"up": 0, "connections_total": 1})
	m.deleteMemberCluster(t)
	m.waitForMetrics(t, map[string]float64{})
}

// waitForMetrics waits until the metrics of the member have these values; -1 stands for any value.
func (m *testMember) waitForMetrics(t *testing.T, want map[string]float64) {
	t.Helper()
	wait.Eventually(t, func() error {
		families, err := metrics.Registry.Gather()
		if err != nil {
			return err
		}
		got := map[string]float64{}
		for _, family := range families {
			name, ours := strings.CutPrefix(family.GetName(), "fleetwright_member_")
			for _, metric := range family.GetMetric() {
				if !ours || name == "credential_warning_timestamp_seconds" || metric.GetLabel()[0].GetValue() != m.name {
					continue
				}
				if got[name] = metric.GetGauge().GetValue() + metric.GetCounter().GetValue(); want[name] == -1 {
					got[name] = -1
				}
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			return errors.New(diff)
		}
		return nil
	})
}

// An operator that starts with a wrong selector detaches every member. No setting of an
// administrator is lost, even if the mistake is noticed late.
func TestOperator_with_a_wrong_selector_keeps_the_settings_of_administrators(t *testing.T) {
	t.Parallel()
	env := sharedEnv(t)
	const fleet = "fleet-selector"
	o := env.newOperator(t, fleet)
	members := []*testMember{env.newMember(t, o, "selector-plain"), env.newMember(t, o, "selector-cordoned"), env.newMember(t, o, "selector-long")}
	uids, ids := map[string]types.UID{}, map[string]types.UID{}
	for _, m := range members {
		m.join(t)
		if m.name != "selector-plain" {
			m.editMemberCluster(t, setByAdministrator)
		}
		mc := m.memberCluster(t)
		uids[m.name], ids[m.name] = mc.UID, mc.Status.ClusterID
	}
	if err := o.stop(); err != nil {
		t.Fatal(err)
	}
	wrong := env.newOperator(t, fleet, func(o *setup) { o.secretRules[0].Selector = labels.SelectorFromSet(labels.Set{"no-such": "label"}) })
	for _, m := range members {
		m.waitForConditions(t, summarySecretMissing)
	}
	members[2].backdateMissingSecret(t)
	members[2].editMemberCluster(t, func(mc *v1alpha1.MemberCluster) { mc.Spec.Taints = nil })
	members[2].waitForStatus(t)
	if err := wrong.stop(); err != nil {
		t.Fatal(err)
	}
	right := env.newOperator(t, fleet)
	for _, m := range members {
		m.operator = right
		m.waitForEngagement(t, 1)
		mc := m.memberCluster(t)
		if mc.UID != uids[m.name] || mc.Status.ClusterID != ids[m.name] || mc.Spec.Unschedulable != (m.name != "selector-plain") || !mc.HasSecret() {
			t.Errorf("%s is %+v", m.name, mc)
		}
	}
}

func TestSecret_that_describes_another_member_now_detaches_the_previous_one(t *testing.T) {
	t.Parallel()
	env := sharedEnv(t)
	argo := func(o *setup) { o.secretRules[0].Format = "ArgoCD" }
	o := env.newOperator(t, "fleet-argo-renamed", argo)
	before, after := env.newMember(t, o, "argo-before"), env.newMember(t, o, "argo-after")
	secret := &corev1.Secret{Data: map[string][]byte{"name": []byte("argo-before")}}
	secret.Namespace, secret.Name = "fleet-argo-renamed", "argo"
	secret.Labels = map[string]string{"argocd.argoproj.io/secret-type": "cluster", fleetLabel: "fleet-argo-renamed"}
	before.createObject(t, env.hub, secret)
	before.waitForConditions(t, "Ready False NoConnection, CredentialsValid False KubeconfigMalformed")
	secret.Data["name"] = []byte("argo-after")
	if err := env.hub.admin.Update(ctx, secret); err != nil {
		t.Fatal(err)
	}
	before.waitForConditions(t, summarySecretMissing)
	after.waitForConditions(t, "Ready False NoConnection, CredentialsValid False KubeconfigMalformed")
}
