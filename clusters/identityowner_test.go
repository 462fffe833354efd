package clusters_test

import (
	"testing"
)

// While a MemberCluster exists, another Secret that leads to the same cluster cannot claim its
// identity, even if the member is not connected.
func TestIdentity_belongs_to_the_MemberCluster(t *testing.T) {
	t.Parallel()
	const duplicate = "Ready False DuplicateCluster, CredentialsValid Unknown NotVerified"

	t.Run("while the member is not connected", func(t *testing.T) {
		t.Parallel()
		env := sharedEnv(t)
		victim, other := env.newMember(t, env.operator, "owner-lost"), env.newMember(t, env.operator, "owner-other")
		id := victim.proxy.identity()
		e := victim.join(t)
		// The member is disconnected, and its MemberCluster keeps the old identity.
		victim.proxy.setIdentity("somewhere else")
		victim.waitForEnd(t, e)
		other.proxy.setIdentity(id)
		other.createSecret(t, other.kubeconfig(t))
		other.waitForConditions(t, duplicate)
		other.waitForMessage(t, "is already member owner-lost")
		other.checkNotEngaged(t, 0)
	})

	t.Run("while its Secret is missing, also after a restart of the operator", func(t *testing.T) {
		t.Parallel()
		env := sharedEnv(t)
		const fleet = "fleet-owner-restart"
		o := env.newOperator(t, fleet)
		victim, other := env.newMember(t, o, "owner-detached"), env.newMember(t, o, "owner-renamed")
		other.proxy.setIdentity(victim.proxy.identity())
		victim.join(t)
		victim.deleteSecret(t)
		victim.waitForConditions(t, summarySecretMissing)
		if err := o.stop(); err != nil {
			t.Fatal(err)
		}
		next := env.newOperator(t, fleet)
		victim.operator, other.operator = next, next
		other.createSecret(t, other.kubeconfig(t)) // like a Secret that was renamed
		other.waitForConditions(t, duplicate)
		other.waitForMessage(t, "kubectl delete membercluster owner-detached")
		other.checkNotEngaged(t, 0)
		victim.deleteMemberCluster(t)
		other.waitForEngagement(t, 1)
	})
}
