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
)

// edit changes the MemberCluster as an administrator does.
func (m *member) edit(t *testing.T, change func(*v1alpha1.MemberCluster)) {
	t.Helper()
	mc := m.memberCluster(t)
	before := mc.DeepCopy()
	change(mc)
	if err := m.hub.admin.Patch(ctx, mc, client.MergeFrom(before)); err != nil {
		t.Fatal(err)
	}
}

// editStatus changes the status of the MemberCluster.
func (m *member) editStatus(t *testing.T, change func(*v1alpha1.MemberClusterStatus)) {
	t.Helper()
	mc := m.memberCluster(t)
	before := mc.DeepCopy()
	change(&mc.Status)
	if err := m.hub.admin.Status().Patch(ctx, mc, client.MergeFrom(before)); err != nil {
		t.Fatal(err)
	}
}

// missedLongAgo sets the time since which the Secret is missing to before any grace period.
func (m *member) missedLongAgo(t *testing.T) {
	t.Helper()
	m.editStatus(t, func(s *v1alpha1.MemberClusterStatus) {
		s.SecretMissingSince = &metav1.Time{Time: time.Now().Add(-time.Hour).Truncate(time.Second)}
	})
}

// deleteMemberCluster deletes the MemberCluster as an administrator does.
func (m *member) deleteMemberCluster(t *testing.T) {
	t.Helper()
	if err := m.hub.admin.Delete(ctx, m.memberCluster(t)); err != nil {
		t.Fatal(err)
	}
}

// isGone waits until the MemberCluster does not exist.
func (m *member) isGone(t *testing.T) {
	t.Helper()
	eventually(t, soon, func() error {
		if mc := m.memberCluster(t); mc.Name != "" {
			return fmt.Errorf("MemberCluster %s is still there: %s", m.name, summary(mc))
		}
		return nil
	})
}

// said changes the fields of a member that administrators own.
func said(mc *v1alpha1.MemberCluster) {
	mc.Spec.Unschedulable = true
	mc.Spec.Taints = []v1alpha1.Taint{{Key: "maintenance", Effect: v1alpha1.TaintNoSchedule}}
	mc.Labels["team"] = "red"
}

func TestAMemberClusterOutlivesItsSecret(t *testing.T) {
	t.Parallel()

	t.Run("with all that was said about the cluster, and continues when the Secret is back", func(t *testing.T) {
		t.Parallel()
		w := shared(t)
		m := w.newMember(t, w.operator, "outlives")
		e := m.join(t)
		m.edit(t, said)
		tombstone := v1alpha1.AbandonedAppService{Namespace: "shop", Name: "web", UID: "1"}
		m.editStatus(t, func(s *v1alpha1.MemberClusterStatus) { s.Abandoned = []v1alpha1.AbandonedAppService{tombstone} })
		before := m.memberCluster(t)
		m.remove(t)
		m.ends(t, e, soon)
		m.shows(t, soon, detached)
		if mc := m.memberCluster(t); mc.HasSecret() || mc.Status.CredentialsExpirationTime != nil || mc.Status.ClusterID != before.Status.ClusterID {
			t.Errorf("its status is %+v", mc.Status)
		}
		m.create(t, m.kubeconfig(t))
		m.engaged(t, 2, soon)
		after := m.memberCluster(t)
		if after.UID != before.UID || !after.Spec.Unschedulable || len(after.Spec.Taints) != 1 || after.Labels["team"] != "red" ||
			len(after.Status.Abandoned) != 1 || !after.HasSecret() {
			t.Errorf("it was %+v\nand is %+v", before, after)
		}
	})

	t.Run("with its identity: another cluster behind the Secret that returns is not the member until that is acknowledged", func(t *testing.T) {
		t.Parallel()
		w := shared(t)
		m := w.newMember(t, w.operator, "outlives-identity")
		m.join(t)
		m.remove(t)
		m.shows(t, soon, detached)
		m.front.become("quite another")
		m.create(t, m.kubeconfig(t))
		m.shows(t, soon, "Ready False IdentityChanged, CredentialsValid Unknown NotVerified")
		m.neverEngaged(t, 1)
		m.accept(t, "quite another")
		m.engaged(t, 2, retried)
	})

	t.Run("until it is deleted after the grace period, if nobody has said anything about the cluster", func(t *testing.T) {
		t.Parallel()
		w := shared(t)
		m := w.newMember(t, w.own(t, "fleet-short-grace", func(o *setup) { o.SecretGrace = 3 * time.Second }), "outlives-shortly")
		m.join(t)
		m.remove(t)
		m.shows(t, soon, detached)
		since := m.memberCluster(t).Status.SecretMissingSince.Time
		m.isGone(t)
		if lasted := time.Since(since); lasted < 3*time.Second {
			t.Errorf("it was deleted after %s", lasted)
		}
	})

	for name, say := range map[string]func(*testing.T, *member){
		"cordoned": func(t *testing.T, m *member) {
			m.edit(t, func(mc *v1alpha1.MemberCluster) { mc.Spec.Unschedulable = true })
		},
		"tainted": func(t *testing.T, m *member) {
			m.edit(t, func(mc *v1alpha1.MemberCluster) {
				mc.Spec.Taints = []v1alpha1.Taint{{Key: "maintenance", Effect: v1alpha1.TaintNoExecute}}
			})
		},
		"labelled": func(t *testing.T, m *member) {
			m.edit(t, func(mc *v1alpha1.MemberCluster) { mc.Labels["team"] = "red" })
		},
		"annotated": func(t *testing.T, m *member) {
			m.edit(t, func(mc *v1alpha1.MemberCluster) { mc.Annotations["example.com/contact"] = "red" })
		},
		"with-a-tombstone": func(t *testing.T, m *member) {
			m.editStatus(t, func(s *v1alpha1.MemberClusterStatus) {
				s.Abandoned = []v1alpha1.AbandonedAppService{{Namespace: "shop", Name: "web", UID: "1"}}
			})
		},
	} {
		t.Run("for good, if it is "+name, func(t *testing.T) {
			t.Parallel()
			w := shared(t)
			m := w.newMember(t, w.operator, "outlives-"+name)
			// A copied label of the Secret does not count as an administrator's edit.
			m.create(t, m.kubeconfig(t), "env", "test")
			m.engaged(t, 1, soon)
			say(t, m)
			m.remove(t)
			m.shows(t, soon, detached)
			m.missedLongAgo(t)
			m.seen(t)
			if m.memberCluster(t).Name == "" {
				t.Fatal("the MemberCluster was deleted")
			}
			if len(m.memberCluster(t).Status.Abandoned) > 0 {
				m.editStatus(t, func(s *v1alpha1.MemberClusterStatus) { s.Abandoned = nil })
			} else { // a single edit, because the MemberCluster is deleted at once
				m.edit(t, func(mc *v1alpha1.MemberCluster) {
					mc.Spec = v1alpha1.MemberClusterSpec{}
					delete(mc.Labels, "team")
					delete(mc.Annotations, "example.com/contact")
				})
			}
			m.isGone(t)
		})
	}

	t.Run("not if it is deleted by hand", func(t *testing.T) {
		t.Parallel()
		w := shared(t)
		m := w.newMember(t, w.operator, "outlives-by-hand")
		m.join(t)
		m.edit(t, said)
		m.remove(t)
		m.shows(t, soon, detached)
		m.deleteMemberCluster(t)
		m.isGone(t)
		m.seen(t)
		m.isGone(t)
	})
}

// seen waits until the operator has reconciled all earlier changes of this member. It creates
// another Secret, which is reconciled after them.
func (m *member) seen(t *testing.T) {
	t.Helper()
	next := m.newMember(t, m.operator, m.name+"-next")
	next.create(t, []byte("no kubeconfig"))
	next.shows(t, soon, "Ready False NoConnection, CredentialsValid False KubeconfigMalformed")
}

// The status stores the time, so a restart of the operator neither loses it nor starts the grace
// period over.
func TestTheGraceOfASecretLastsOverARestart(t *testing.T) {
	t.Parallel()
	w := shared(t)
	const fleet = "fleet-grace-restart"
	o := w.own(t, fleet)
	m, longGone := w.newMember(t, o, "grace-restart"), w.newMember(t, o, "grace-over")
	for _, m := range []*member{m, longGone} {
		m.join(t)
		m.remove(t)
		m.shows(t, soon, detached)
	}
	since := m.memberCluster(t).Status.SecretMissingSince
	if err := o.stop(); err != nil {
		t.Fatal(err)
	}
	longGone.missedLongAgo(t)
	w.own(t, fleet)
	longGone.isGone(t)
	if mc := m.memberCluster(t); !mc.Status.SecretMissingSince.Equal(since) {
		t.Errorf("its Secret is missing since %s, it was %s", mc.Status.SecretMissingSince, since)
	}
}

// A Secret that was deleted while the operator was down counts as missing from the time at which
// the operator notices. The same applies to a Secret whose namespace is no longer a source.
func TestASecretThatWentWhileTheOperatorWasAway(t *testing.T) {
	t.Parallel()
	w := shared(t)
	if err := w.grant("fleet-away"); err != nil {
		t.Fatal(err)
	}
	for from, name := range map[string]string{"fleet-away": "away", "elsewhere": "of-another-namespace"} {
		mc := &unstructured.Unstructured{}
		mc.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("MemberCluster"))
		mc.SetName(name)
		mc.SetAnnotations(map[string]string{v1alpha1.AnnotationSecret: from + "/" + name})
		mc.SetLabels(map[string]string{fleetLabel: "fleet-away"})
		applied := client.ApplyConfigurationFromUnstructured(mc)
		if err := w.hub.admin.Apply(ctx, applied, client.FieldOwner(v1alpha1.ManagedBy), client.ForceOwnership); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = w.hub.admin.Delete(ctx, mc) })
	}
	o := w.own(t, "fleet-away", func(o *setup) { o.SecretGrace = time.Second })
	for _, name := range []string{"away", "of-another-namespace"} {
		(&member{world: w, operator: o, name: name}).isGone(t)
	}
}

// An operator that starts without the namespace of the Secrets detaches the members, and their
// MemberClusters keep their identities.
func TestANamespaceThatIsNoSourceAnyMore(t *testing.T) {
	t.Parallel()
	w := shared(t)
	const fleet, wrong = "fleet-dropped", "fleet-dropped-wrong"
	o := w.own(t, fleet)
	m, twin := w.newMember(t, o, "dropped"), w.newMember(t, o, "dropped-twin")
	m.join(t)
	before := m.memberCluster(t)
	role := &rbacv1.Role{}
	if err := errors.Join(o.stop(), w.grant(wrong), fromFile("../config/rbac/role.yaml", role)); err != nil {
		t.Fatal(err)
	}
	m.make(t, w.hub, &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: wrong, Name: fleet},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: o.user}},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: role.Name},
	})
	next := w.own(t, fleet, func(o *setup) { o.sources[0].Namespace = wrong })
	m.shows(t, soon, detached)
	twin.operator = &operator{namespace: wrong, engagements: next.engagements}
	twin.front.become(m.front.identity())
	secret := &corev1.Secret{Data: map[string][]byte{"kubeconfig": twin.kubeconfig(t)}}
	secret.Namespace, secret.Name, secret.Labels = wrong, twin.name, map[string]string{selectedLabel: "true", fleetLabel: fleet}
	twin.make(t, w.hub, secret)
	twin.shows(t, soon, "Ready False DuplicateCluster, CredentialsValid Unknown NotVerified")
	if err := next.stop(); err != nil {
		t.Fatal(err)
	}
	m.operator = w.own(t, fleet)
	m.engaged(t, 1, soon)
	if after := m.memberCluster(t); after.UID != before.UID || after.Status.ClusterID != before.Status.ClusterID || !after.HasSecret() {
		t.Errorf("it was %+v\nand is %+v", before, after)
	}
}

// The metrics for alerts report a member as down as long as its MemberCluster exists.
func TestAMemberIsDownWhileItsSecretIsMissing(t *testing.T) {
	t.Parallel()
	w := shared(t)
	m := w.newMember(t, w.operator, "measured")
	e := m.join(t)
	m.measures(t, map[string]float64{"up": 1, "connections_total": 1, "credential_expiry_timestamp_seconds": -1, "probe_latency_seconds": -1})
	m.remove(t)
	m.ends(t, e, soon)
	m.measures(t, map[string]float64{"up": 0, "connections_total": 1})
	m.deleteMemberCluster(t)
	m.measures(t, map[string]float64{})
}

// measures waits until the metrics of the member have these values; -1 stands for any value.
func (m *member) measures(t *testing.T, want map[string]float64) {
	t.Helper()
	eventually(t, soon, func() error {
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

// An operator that once starts with a wrong selector detaches every member. No administrator's
// setting is lost, however long the mistake stays unnoticed.
func TestAWrongSelector(t *testing.T) {
	t.Parallel()
	w := shared(t)
	const fleet = "fleet-selector"
	o := w.own(t, fleet)
	members := []*member{w.newMember(t, o, "selector-plain"), w.newMember(t, o, "selector-cordoned"), w.newMember(t, o, "selector-long")}
	uids, ids := map[string]types.UID{}, map[string]types.UID{}
	for _, m := range members {
		m.join(t)
		if m.name != "selector-plain" {
			m.edit(t, said)
		}
		mc := m.memberCluster(t)
		uids[m.name], ids[m.name] = mc.UID, mc.Status.ClusterID
	}
	if err := o.stop(); err != nil {
		t.Fatal(err)
	}
	wrong := w.own(t, fleet, func(o *setup) { o.sources[0].Selector = labels.SelectorFromSet(labels.Set{"no-such": "label"}) })
	for _, m := range members {
		m.shows(t, soon, detached)
	}
	members[2].missedLongAgo(t)
	members[2].operator = wrong
	eventually(t, soon, func() error {
		if mc := members[2].memberCluster(t); mc.Name == "" || mc.HasSecret() {
			return errors.New("it does not show that its Secret was missing for an hour")
		}
		return nil
	})
	if err := wrong.stop(); err != nil {
		t.Fatal(err)
	}
	right := w.own(t, fleet)
	for _, m := range members {
		m.operator = right
		m.engaged(t, 1, soon)
		mc := m.memberCluster(t)
		if mc.UID != uids[m.name] || mc.Status.ClusterID != ids[m.name] || mc.Spec.Unschedulable != (m.name != "selector-plain") || !mc.HasSecret() {
			t.Errorf("%s is %+v", m.name, mc)
		}
	}
}

// The MemberCluster owns the identity: while it exists, another Secret that leads to the same
// cluster cannot take the identity, even though the member is not connected.
func TestAnIdentityBelongsToTheMemberCluster(t *testing.T) {
	t.Parallel()
	const duplicate = "Ready False DuplicateCluster, CredentialsValid Unknown NotVerified"

	t.Run("while the member is not connected", func(t *testing.T) {
		t.Parallel()
		w := shared(t)
		victim, other := w.newMember(t, w.operator, "owner-lost"), w.newMember(t, w.operator, "owner-taker")
		id := victim.front.identity()
		e := victim.join(t)
		// The member is disconnected, and its MemberCluster keeps the old identity.
		victim.front.become("somewhere else")
		victim.ends(t, e, noticed)
		other.front.become(id)
		other.create(t, other.kubeconfig(t))
		other.shows(t, soon, duplicate)
		other.says(t, "is already member owner-lost")
		other.neverEngaged(t, 0)
	})

	t.Run("while its Secret is missing, also over a restart", func(t *testing.T) {
		t.Parallel()
		w := shared(t)
		const fleet = "fleet-owner-restart"
		o := w.own(t, fleet)
		victim, other := w.newMember(t, o, "owner-detached"), w.newMember(t, o, "owner-renamed")
		other.front.become(victim.front.identity())
		victim.join(t)
		victim.remove(t)
		victim.shows(t, soon, detached)
		if err := o.stop(); err != nil {
			t.Fatal(err)
		}
		next := w.own(t, fleet)
		victim.operator, other.operator = next, next
		other.create(t, other.kubeconfig(t)) // as if a Secret was renamed
		other.shows(t, soon, duplicate)
		other.says(t, "kubectl delete membercluster owner-detached")
		other.neverEngaged(t, 0)
		victim.deleteMemberCluster(t)
		other.engaged(t, 1, retried)
	})
}

// A Secret that now describes another member detaches the member that it described before.
func TestASecretThatMakesAnotherMember(t *testing.T) {
	t.Parallel()
	w := shared(t)
	argo := func(o *setup) { o.sources[0].Format = "ArgoCD" }
	o := w.own(t, "fleet-argo-renamed", argo)
	before, after := w.newMember(t, o, "argo-before"), w.newMember(t, o, "argo-after")
	secret := &corev1.Secret{Data: map[string][]byte{"name": []byte("argo-before")}}
	secret.Namespace, secret.Name = "fleet-argo-renamed", "argo"
	secret.Labels = map[string]string{"argocd.argoproj.io/secret-type": "cluster", fleetLabel: "fleet-argo-renamed"}
	before.make(t, w.hub, secret)
	before.shows(t, soon, "Ready False NoConnection, CredentialsValid False KubeconfigMalformed")
	secret.Data["name"] = []byte("argo-after")
	if err := w.hub.admin.Update(ctx, secret); err != nil {
		t.Fatal(err)
	}
	before.shows(t, soon, detached)
	after.shows(t, soon, "Ready False NoConnection, CredentialsValid False KubeconfigMalformed")
}
