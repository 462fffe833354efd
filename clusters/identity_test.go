package clusters_test

import (
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/clusters/kubeconfig"
)

// A Secret whose connection failed is retried within this time.
const retried = time.Minute

// accept acknowledges that the member is now another cluster.
func (m *member) accept(t *testing.T, id types.UID) {
	t.Helper()
	mc := m.memberCluster(t)
	before := mc.DeepCopy()
	mc.Annotations[v1alpha1.AnnotationAcceptIdentity] = string(id)
	if err := m.hub.admin.Patch(ctx, mc, client.MergeFrom(before)); err != nil {
		t.Fatal(err)
	}
}

// consumes waits until the used acknowledgement of an identity is removed.
func (m *member) consumes(t *testing.T) {
	t.Helper()
	eventually(t, soon, func() error {
		if accepted, found := m.memberCluster(t).Annotations[v1alpha1.AnnotationAcceptIdentity]; found {
			return fmt.Errorf("%s still accepts %q", m.name, accepted)
		}
		return nil
	})
}

// is waits until the MemberCluster reports an identity.
func (m *member) is(t *testing.T, id types.UID) {
	t.Helper()
	eventually(t, soon, func() error {
		if shown := m.memberCluster(t).Status.ClusterID; shown != id {
			return fmt.Errorf("%s is %q, want %q", m.name, shown, id)
		}
		return nil
	})
}

// neverEngaged checks that the member has had at most since engagements.
func (m *member) neverEngaged(t *testing.T, since int) {
	t.Helper()
	if now := len(m.operator.engagements.of(m.name)); now > since {
		t.Errorf("%s was engaged %d times more", m.name, now-since)
	}
}

func TestIdentityIsPinned(t *testing.T) {
	t.Parallel()
	const changed = "Ready False IdentityChanged, CredentialsValid "

	t.Run("another cluster behind the same Secret is not the member until that is acknowledged", func(t *testing.T) {
		t.Parallel()
		w := shared(t)
		m := w.newMember(t, w.operator, "pinned")
		first := m.join(t)
		old := m.front.identity()
		m.front.become("another")
		m.ends(t, first, noticed)
		m.shows(t, soon, changed+"True Accepted")
		m.is(t, old)
		m.accept(t, "a third one")
		m.neverEngaged(t, 1)
		if m.memberCluster(t).Annotations[v1alpha1.AnnotationAcceptIdentity] != "a third one" {
			t.Error("an acknowledgement that was not used is gone")
		}
		m.accept(t, "another")
		m.engaged(t, 2, retried)
		m.is(t, "another")
		m.consumes(t)
		m.front.become(old) // the acknowledgement does not cover this identity
		m.shows(t, noticed, changed+"True Accepted")
		m.neverEngaged(t, 2)
		m.front.become("another")
		m.engaged(t, 3, retried)
	})

	t.Run("another cluster after a restart of the operator is not the member", func(t *testing.T) {
		t.Parallel()
		w := shared(t)
		o := w.own(t, "fleet-pinned")
		m := w.newMember(t, o, "pinned-restart")
		m.join(t)
		if err := o.stop(); err != nil {
			t.Fatal(err)
		}
		m.front.become("another")
		m.operator = w.own(t, "fleet-pinned")
		m.shows(t, soon, changed+"Unknown NotVerified")
		m.neverEngaged(t, 0)
	})

	t.Run("a new kubeconfig for another cluster changes nothing until that is acknowledged", func(t *testing.T) {
		t.Parallel()
		w := shared(t)
		m := w.newMember(t, w.operator, "pinned-moves")
		e := m.join(t)
		next := w.newMember(t, w.operator, "pinned-next")
		m.replace(t, next.kubeconfig(t))
		m.shows(t, soon, "Ready True Connected, CredentialsValid Unknown NotVerified")
		m.goesOn(t, e)
		m.accept(t, next.front.identity())
		e = m.engaged(t, 2, soon)
		m.is(t, next.front.identity())
		m.consumes(t)
		m.goesOn(t, e)
	})

	t.Run("another cluster that was acknowledged ahead is connected anew, not taken for the old one", func(t *testing.T) {
		t.Parallel()
		w := shared(t)
		m := w.newMember(t, w.operator, "pinned-ahead")
		e := m.join(t)
		m.accept(t, "another")
		m.front.become("another")
		m.ends(t, e, noticed)
		m.engaged(t, 2, retried)
		m.is(t, "another")
	})

	t.Run("credentials that are rotated on another cluster that was acknowledged connect it anew", func(t *testing.T) {
		t.Parallel()
		w := shared(t)
		slowly := func(o *setup) { o.ProbeInterval = time.Hour }
		m := w.newMember(t, w.own(t, "fleet-slow-probes", slowly), "pinned-rotated")
		e := m.join(t)
		m.accept(t, "another")
		m.front.become("another")
		m.replace(t, m.kubeconfig(t))
		m.engaged(t, 2, soon)
		m.ends(t, e, soon)
		m.is(t, "another")
	})
}

func TestNoTwoMembersAreTheSameCluster(t *testing.T) {
	t.Parallel()
	const duplicate = "Ready False DuplicateCluster, CredentialsValid Unknown NotVerified"

	t.Run("the second Secret of a cluster waits until the MemberCluster of the first is gone", func(t *testing.T) {
		t.Parallel()
		w := shared(t)
		first, second := w.newMember(t, w.operator, "twin-first"), w.newMember(t, w.operator, "twin-second")
		second.front.become(first.front.identity())
		e := first.join(t)
		second.create(t, second.kubeconfig(t))
		second.shows(t, soon, duplicate)
		second.is(t, "")
		first.goesOn(t, e)
		second.replace(t, second.kubeconfig(t)) // tried at once
		second.shows(t, soon, duplicate)
		second.neverEngaged(t, 0)
		first.remove(t)
		first.ends(t, e, soon)
		second.says(t, "If this Secret replaces it: kubectl delete membercluster twin-first")
		second.neverEngaged(t, 0)
		first.deleteMemberCluster(t)
		second.engaged(t, 1, retried)
	})

	t.Run("after a restart the one that was the cluster before is it again", func(t *testing.T) {
		t.Parallel()
		w := shared(t)
		for i := range 3 { // repeated, because the order may be right by chance
			namespace := fmt.Sprintf("fleet-twins-%d", i)
			o := w.own(t, namespace)
			first, second := w.newMember(t, o, fmt.Sprintf("twin-z-%d", i)), w.newMember(t, o, fmt.Sprintf("twin-a-%d", i))
			second.front.become(first.front.identity())
			first.join(t)
			if err := o.stop(); err != nil {
				t.Fatal(err)
			}
			second.create(t, second.kubeconfig(t))
			next := w.own(t, namespace)
			first.operator, second.operator = next, next
			first.engaged(t, 1, soon)
			second.shows(t, soon, duplicate)
			second.neverEngaged(t, 0)
		}
	})

	t.Run("one that cannot be connected does not keep another from it", func(t *testing.T) {
		t.Parallel()
		w := shared(t)
		forbidden, able := w.newStranger(t, w.operator, "twin-forbidden"), w.newMember(t, w.operator, "twin-able")
		forbidden.allowIdentityOnly(t)
		able.front.become(forbidden.front.identity())
		forbidden.create(t, forbidden.kubeconfig(t))
		forbidden.shows(t, soon, "Ready False Forbidden, CredentialsValid Unknown NotVerified")
		able.create(t, able.kubeconfig(t))
		e := able.engaged(t, 1, retried)
		forbidden.shows(t, retried, duplicate)
		able.goesOn(t, e)
	})

	t.Run("a member that moves to another's cluster stays where it is", func(t *testing.T) {
		t.Parallel()
		w := shared(t)
		one, other := w.newMember(t, w.operator, "twin-one"), w.newMember(t, w.operator, "twin-other")
		e, others := one.join(t), other.join(t)
		one.accept(t, other.front.identity())
		one.replace(t, other.kubeconfig(t))
		one.shows(t, soon, "Ready True Connected, CredentialsValid Unknown NotVerified")
		one.goesOn(t, e)
		other.goesOn(t, others)
	})
}

// A member that alternates its responses cannot cause endless connection attempts and status
// writes.
func TestAMemberThatAlternatesItsAnswersIsTriedMoreAndMoreSeldom(t *testing.T) {
	t.Parallel()
	w := shared(t)
	owner, liar := w.newMember(t, w.operator, "alternates-owner"), w.newMember(t, w.operator, "alternates")
	liar.front.become(owner.front.identity())
	owner.join(t)
	var probes atomic.Int64
	liar.front.fail(func(w http.ResponseWriter, r *http.Request) bool {
		if !asksIdentity(r) || probes.Add(1)%2 == 1 {
			return false
		}
		w.WriteHeader(http.StatusInternalServerError)
		return true
	})
	liar.create(t, liar.kubeconfig(t))
	begun := time.Now()
	eventually(t, soon, func() error {
		if lasted := time.Since(begun); lasted < 10*time.Second {
			return fmt.Errorf("only %s have passed", lasted)
		}
		return nil
	})
	// After 0, 1, 3 and 7 seconds, with a quarter of jitter.
	if tried := probes.Load(); tried < 3 || tried > 6 {
		t.Errorf("it was tried %d times within 10 seconds", tried)
	}
	liar.front.fail(nil)
	liar.shows(t, retried, "Ready False DuplicateCluster, CredentialsValid Unknown NotVerified")
	owner.remove(t)
	owner.shows(t, soon, detached)
	owner.deleteMemberCluster(t)
	liar.engaged(t, 1, soon)
}

// Two Secrets describe a member of the same name: the Secret that had the name first is used.
func TestTwoSecretsOfOneName(t *testing.T) {
	t.Parallel()
	w := shared(t)
	both := func(o *setup) {
		o.sources = append(o.sources, kubeconfig.Source{Namespace: "fleet-names", Format: kubeconfig.FormatClusterAPI})
	}
	m := w.newMember(t, w.own(t, "fleet-names", both), "names")
	e := m.join(t)
	other := &corev1.Secret{Type: "cluster.x-k8s.io/secret", Data: map[string][]byte{"value": m.kubeconfig(t)}}
	other.Namespace, other.Name = "fleet-names", "names-kubeconfig"
	other.Labels = map[string]string{fleetLabel: "fleet-names"}
	m.make(t, w.hub, other)
	eventually(t, soon, func() error {
		for _, event := range m.events(t) {
			if event.Regarding.Name == other.Name && event.Reason == v1alpha1.ReasonNameConflict {
				return nil
			}
		}
		return errors.New("no event tells that the name is taken")
	})
	m.goesOn(t, e)
	m.shows(t, 0, joined)
	m.remove(t)
	m.ends(t, e, soon)
	m.engaged(t, 2, 2*time.Minute) // from the other Secret
}
