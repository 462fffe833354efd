package stages

import (
	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/rollout/wording"
)

// takeOver lets entries take over the revisions that their clusters run, where a restore of the hub
// has taken back what it had assigned: the target, or the stable revision. If a cluster had lost
// the target that way, the hub has forgotten a failure or an abort. Then the rollout is halted, and
// a person decides.
// docs/decisions/an-entry-takes-over-what-its-cluster-runs.md says why.
func (r *Rollout) takeOver() {
	var lost []*cluster
	isRollingOut := r.status.isRollingOut()
	for _, c := range r.clusters {
		if !c.IsTakenBack() {
			continue
		}
		if isRollingOut && c.Entry.Revision == r.status.Revision {
			lost = append(lost, c)
		}
		r.takeOverBy(c, c.Seen.StampedRevision)
	}
	if len(lost) == 0 {
		return
	}
	r.status.FailedRevision = r.status.Revision
	r.status.FailedStage = lost[0].stage.Name
	r.status.FailedClusters, r.status.FailedReason = wording.FirstNames(namesOf(lost)), v1alpha1.ReasonTakenBack
	r.status.ReturnFailedClusters, r.status.ReturnFailedReason = nil, ""
	r.status.setPhase(v1alpha1.RolloutHalted)
}

// takeOverBy sets the revision of an entry to the one that its cluster runs. It is not known whether that
// is available there. Revisions other than the target and the stable one are not taken over: the entry
// keeps what the hub wants.
func (r *Rollout) takeOverBy(c *cluster, revision int64) {
	isTarget := revision == r.status.Revision && r.status.Phase != v1alpha1.RolloutRollingBack && r.status.Phase != v1alpha1.RolloutRolledBack
	if !isTarget && revision != r.status.StableRevision {
		return
	}
	c.ForgetAvailability()
	c.Entry.UnavailableSince = &r.now
	if isTarget {
		c.recordPlace(revision)
	}
	c.Reassign(revision)
}
