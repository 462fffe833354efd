package rollout

import (
	"fmt"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
)

// Refusals are the violations of pod security, by revision and then by cluster. They have no
// revision that its cluster runs: what runs is never refused.
type Refusals map[int64]map[string]Refusal

// Refusal says why a cluster must not get a revision.
type Refusal struct {
	// Violation is what the pods of the revision violate there.
	Violation string
	// IsByLaterPolicy is set if the pods comply with the policy of the revision. The present policy
	// forbids them, because the cluster does not run the AppService yet.
	IsByLaterPolicy bool
}

// Of returns why a cluster must not get a revision, or "".
func (r Refusals) Of(revision int64, cluster string) string { return r[revision][cluster].Violation }

// recordPodSecurity records what the revision of the spec must comply with, and whether the spec has
// none because it is refused.
func (r *revisions) recordPodSecurity() {
	if !r.in.IsDeleting() {
		r.status.PodSecurity, r.status.SpecRefused = r.in.PodSecurity, r.in.SpecRefusal != ""
	}
}

// isRefused reports whether pod security refuses a revision on a cluster.
func (r *revisions) isRefused(c *stagedCluster, revision int64) bool {
	return c.entry.Revision != revision && r.in.Refusals.Of(revision, c.entry.Name) != ""
}

// hasRefusedTarget reports whether it is the turn of a cluster and pod security refuses the target
// there. The target has failed on this cluster, although it never got it. A policy that is later than the
// target says nothing about it.
func (r *revisions) hasRefusedTarget(c *stagedCluster) bool {
	return r.mustNotGetTarget(c) && !r.in.Refusals[r.status.Revision][c.entry.Name].IsByLaterPolicy
}

// mustNotGetTarget reports whether it is the turn of a cluster and it must not get the target.
func (r *revisions) mustNotGetTarget(c *stagedCluster) bool {
	return c.stage.isActive() && r.isRefused(c, r.status.Revision)
}

// explainRefused makes the entries Failed of the clusters that would get a revision now if pod
// security did not refuse it there. They keep what they run: delivery goes on with the revision that
// they have. While a cluster may become available with that, its entry keeps the observed phase, because
// minReadySeconds count from the beginning of the phase.
func (r *revisions) explainRefused() {
	for _, c := range r.clusters {
		revision := r.dueRevision(c)
		mayBecomeAvailable := c.entry.UnavailableSince != nil && (c.entry.Phase == v1alpha1.ClusterReady || r.isInTransit(c))
		if c.entry.Phase == v1alpha1.ClusterUnknown || revision == 0 || !r.isRefused(c, revision) || mayBecomeAvailable {
			continue
		}
		keeps := "does not get the AppService"
		if c.entry.Revision != 0 {
			keeps = fmt.Sprintf("keeps revision %d", c.entry.Revision)
		}
		c.isReadyRefused = c.entry.Phase == v1alpha1.ClusterReady
		c.entry.Phase, c.entry.Reason = v1alpha1.ClusterFailed, v1alpha1.ReasonPodSecurityRefused
		c.entry.Message = BoundMessage(fmt.Sprintf("revision %d %s; the cluster %s", revision, r.in.Refusals.Of(revision, c.entry.Name), keeps))
	}
}

// dueRevision returns the revision that a cluster is to have at present, or 0 if it waits for its
// turn.
func (r *revisions) dueRevision(c *stagedCluster) int64 {
	s := &r.status
	isStaged := r.in.App.Spec.Rollout != nil
	switch {
	case isStaged && c.stage == nil: // no stage can be determined
		return 0
	case s.Phase == v1alpha1.RolloutRollingBack, s.Phase == v1alpha1.RolloutRolledBack:
		return r.stable()
	case s.Phase == v1alpha1.RolloutHalted && c.entry.Revision != 0:
		return 0
	case s.Phase == v1alpha1.RolloutHalted:
		return r.stable()
	case !isStaged, c.stage.isActive():
		return s.Revision
	case c.entry.Revision == 0 && r.startsWithStable(c):
		return r.stable()
	}
	return 0
}
