package stages

import (
	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/rollout/entryplan"
)

// atOnce is the rollout of an AppService without spec.rollout.
type atOnce struct {
	scope
	in Input
}

// assign assigns the target to all clusters, unless it is the failed revision of a rollout.
func (d atOnce) assign() {
	before := d.status.RolloutStatus
	d.status.RolloutStatus = v1alpha1.RolloutStatus{
		Revision: d.in.Revision, LatestRevision: before.LatestRevision, StableRevision: before.StableRevision,
		PreviousRevision: before.PreviousRevision, FailedRevision: before.FailedRevision, ChangedSources: before.ChangedSources,
	}
	hasFailed := d.in.Revision == before.FailedRevision
	if hasFailed { // only another template ends it, or a retry that counts
		d.status.Phase, d.status.Since, d.status.RetryRefused = before.Phase, before.Since, before.RetryRefused
		d.status.FailedStage, d.status.FailedClusters, d.status.FailedReason = before.FailedStage, before.FailedClusters, before.FailedReason
	}
	for _, c := range d.clusters {
		revision := d.in.Revision
		switch {
		case hasFailed:
			revision = d.revisionAfterFailure(c)
		case d.judge.contents.isMissing(revision) && c.Entry.Revision == 0: // a new cluster gets the one that exists
			revision = d.judge.contents.stable()
		}
		d.assigner.assignAtOnce(c, revision)
	}
	if d.status.Phase == v1alpha1.RolloutRollingBack && d.assigner.hold != Frozen && d.judge.contents.stable() != 0 {
		d.status.setPhase(v1alpha1.RolloutRolledBack)
	}
}

// revisionAfterFailure returns the revision of a cluster after the revision of the spec has failed.
func (d atOnce) revisionAfterFailure(c *cluster) int64 {
	if d.status.Phase == v1alpha1.RolloutHalted && c.Entry.Revision != 0 {
		return c.Entry.Revision
	}
	return d.judge.contents.stable()
}

// adopt makes the target stable that reached the clusters at once, when all that can be
// observed are Ready with it. That is no reason to write the status: it changes in the write that
// records the last of them as Ready. Otherwise adoptStable decides before the next edit.
func (d atOnce) adopt(entries []v1alpha1.ClusterStatus) {
	if d.in.Revision == 0 || d.in.App.IsDeleting() || d.in.App.Spec.Rollout != nil || d.status.Phase != "" || d.status.StableRevision == d.status.Revision {
		return
	}
	isWritten := d.in.App.Status.ObservedGeneration != d.in.App.Generation || len(entries) != len(d.in.App.Status.Clusters)
	ready := 0
	for _, entry := range entries {
		previous := d.in.App.Status.Cluster(entry.Name)
		isWritten = isWritten || previous == nil || previous.Phase != entry.Phase || previous.Revision != entry.Revision || previous.ReadyReplicas != entry.ReadyReplicas
		if !entryplan.IsPlanned(entry) || entryplan.AwaitsRemoval(entry) || entry.Phase == v1alpha1.ClusterUnknown {
			continue
		}
		if entry.Phase != v1alpha1.ClusterReady || entry.Revision != d.status.Revision {
			return
		}
		if entry.ReadyReplicas > 0 { // otherwise it is no evidence
			ready++
		}
	}
	if isWritten && ready > 0 {
		d.status.adopt(d.status.Revision)
	}
}
