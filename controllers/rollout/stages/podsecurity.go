package stages

import (
	"fmt"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/rollout/wording"
)

// recordPodSecurity records what the revision of the spec must comply with, and whether the spec has
// none because it is or was refused.
func (r *Rollout) recordPodSecurity() {
	if !r.in.App.IsDeleting() {
		r.status.PodSecurity, r.status.SpecRefused = r.in.PodSecurity, r.in.SpecRefusal != "" || r.in.WasSpecRefused
	}
}

// explainRefused makes the entries Failed of the clusters that would get a revision now if pod
// security did not refuse it there. They keep what they run: delivery goes on with the revision that
// they have. While a cluster may become available with that, its entry keeps the observed phase, because
// minReadySeconds count from the beginning of the phase.
func (r *Rollout) explainRefused() {
	for _, c := range r.clusters {
		revision := r.dueRevision(c)
		mayBecomeAvailable := c.Entry.UnavailableSince != nil && (c.Entry.Phase == v1alpha1.ClusterReady || r.judge.isInTransit(c))
		if c.Entry.Phase == v1alpha1.ClusterUnknown || revision == 0 || !r.judge.contents.isRefused(c, revision) || mayBecomeAvailable {
			continue
		}
		keeps := "does not get the AppService"
		if c.Entry.Revision != 0 {
			keeps = fmt.Sprintf("keeps revision %d", c.Entry.Revision)
		}
		c.IsReadyRefused = c.Entry.Phase == v1alpha1.ClusterReady
		c.Entry.Phase, c.Entry.Reason = v1alpha1.ClusterFailed, v1alpha1.ReasonPodSecurityRefused
		c.Entry.Message = wording.Bound(fmt.Sprintf("revision %d %s; the cluster %s", revision, r.in.Refusals.Of(revision, c.Entry.Name), keeps))
	}
}

// dueRevision returns the revision that a cluster is to have at present, or 0 if it waits for its
// turn.
func (r *Rollout) dueRevision(c *cluster) int64 {
	s := r.status
	isStaged := r.in.App.Spec.Rollout != nil
	switch {
	case isStaged && c.stage == nil: // no stage can be determined
		return 0
	case s.Phase == v1alpha1.RolloutRollingBack, s.Phase == v1alpha1.RolloutRolledBack:
		return r.judge.contents.stable()
	case s.Phase == v1alpha1.RolloutHalted && c.Entry.Revision != 0:
		return 0
	case s.Phase == v1alpha1.RolloutHalted:
		return r.judge.contents.stable()
	case !isStaged, c.stage.isActive():
		return s.Revision
	case c.Entry.Revision == 0 && r.assigner.startsWithStable(c):
		return r.judge.contents.stable()
	}
	return 0
}
