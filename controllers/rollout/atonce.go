package rollout

import "github.com/fleetwright/fleetwright/api/v1alpha1"

// assignAtOnce assigns the target to all clusters, unless it is the failed revision of a rollout. It
// is the rollout of an AppService without spec.rollout.
func (r *revisions) assignAtOnce() {
	before := r.status
	r.status = v1alpha1.RolloutStatus{
		Revision: r.in.Revision, LatestRevision: before.LatestRevision, StableRevision: before.StableRevision,
		PreviousRevision: before.PreviousRevision, FailedRevision: before.FailedRevision, ChangedSources: before.ChangedSources,
	}
	hasFailed := r.in.Revision == before.FailedRevision
	if hasFailed { // only another template ends it
		r.status.Phase, r.status.Since = before.Phase, before.Since
		r.status.FailedStage, r.status.FailedClusters, r.status.FailedReason = before.FailedStage, before.FailedClusters, before.FailedReason
	}
	for _, c := range r.clusters {
		c.entry.UnavailableSince, c.entry.ReadySince, c.entry.AvailableReplicas = nil, nil, 0
		c.entry.Impaired, c.entry.Returned, c.entry.Stage = false, false, ""
		revision := r.in.Revision
		switch {
		case hasFailed:
			revision = r.revisionAfterFailure(c)
		case r.isMissing(revision) && c.entry.Revision == 0: // a new cluster gets the one that exists
			revision = r.stable()
		}
		if !r.isFrozen && revision != 0 && revision != c.entry.Revision && !r.isMissing(revision) && !r.isUnread(c) && !r.isRefused(c, revision) {
			r.in.reassign(c.entryPlan, revision)
		}
	}
	if r.status.Phase == v1alpha1.RolloutRollingBack && !r.isFrozen && r.stable() != 0 {
		r.setPhase(v1alpha1.RolloutRolledBack)
	}
}

// revisionAfterFailure returns the revision of a cluster after the revision of the spec has failed.
func (r *revisions) revisionAfterFailure(c *stagedCluster) int64 {
	if r.status.Phase == v1alpha1.RolloutHalted && c.entry.Revision != 0 {
		return c.entry.Revision
	}
	return r.stable()
}

// adoptStable makes the revision that the clusters run the stable one, before another replaces it,
// and before the first rollout in stages. It applies if the revision reached the clusters at once:
// no rollout has proven it then, but the clusters that can be observed are Ready with it: all of
// them if another revision is stable, which the clusters could return to; otherwise at least half.
// A revision that failed in stages is never adopted.
//
// It also applies if there was no status. An older version of Fleetwright wrote entries without a
// revision, which have the first one; and after a loss of the status, the entries have the revisions
// that were found on the clusters. Of two revisions that are equally frequent, the lower one is
// adopted: the higher one may be in a rollout that has not proven it.
func (r *revisions) adoptStable() {
	s := &r.status
	isReplaced := r.in.Revision != s.Revision || r.in.App.Spec.Rollout != nil
	if s.Phase != "" || !isReplaced || s.Revision != 0 && s.StableRevision == s.Revision {
		return
	}
	size, counts, most := 0, map[int64]int{}, int64(0)
	for _, c := range r.clusters {
		if c.previous == nil || !IsPlanned(*c.previous) {
			continue
		}
		isFirst := s.Revision == 0
		if c.previous.Phase == v1alpha1.ClusterUnknown && !isFirst {
			continue // it may have got the revision since it was Ready
		}
		if c.previous.Phase == v1alpha1.ClusterReady && c.previous.ReadyReplicas == 0 {
			continue // without pods, it is no evidence
		}
		size++
		wasReady := c.previous.Phase == v1alpha1.ClusterReady || isFirst && c.previous.LastKnownPhase == v1alpha1.ClusterReady
		wasFound := isFirst && c.previous.Generation == 0
		if revision := c.entry.Revision; revision != 0 && revision != s.FailedRevision && (wasReady || wasFound) {
			counts[revision]++
			if counts[revision] > counts[most] || counts[revision] == counts[most] && revision < most {
				most = revision
			}
		}
	}
	isProven := 2*counts[most] >= size
	if s.StableRevision != 0 {
		isProven = counts[most] == size
	}
	if most != 0 && most != s.StableRevision && isProven {
		r.adopt(most)
	}
}

// adopt makes a revision the stable one.
func (r *revisions) adopt(revision int64) {
	r.status.PreviousRevision, r.status.StableRevision = r.status.StableRevision, revision
}

// adoptAtOnce makes the target stable that reached the clusters at once, when all that can be
// observed are Ready with it. That is no reason to write the status: it changes in the write that
// records the last of them as Ready. Otherwise adoptStable decides before the next edit.
func (r *revisions) adoptAtOnce(entries []v1alpha1.ClusterStatus) {
	if r.in.Revision == 0 || r.in.IsDeleting() || r.in.App.Spec.Rollout != nil || r.status.Phase != "" || r.status.StableRevision == r.status.Revision {
		return
	}
	isWritten := r.in.App.Status.ObservedGeneration != r.in.App.Generation || len(entries) != len(r.in.App.Status.Clusters)
	ready := 0
	for _, entry := range entries {
		previous := r.in.App.Status.Cluster(entry.Name)
		isWritten = isWritten || previous == nil || previous.Phase != entry.Phase || previous.Revision != entry.Revision || previous.ReadyReplicas != entry.ReadyReplicas
		if !IsPlanned(entry) || awaitsRemoval(entry) || entry.Phase == v1alpha1.ClusterUnknown {
			continue
		}
		if entry.Phase != v1alpha1.ClusterReady || entry.Revision != r.status.Revision {
			return
		}
		if entry.ReadyReplicas > 0 { // otherwise it is no evidence
			ready++
		}
	}
	if isWritten && ready > 0 {
		r.adopt(r.status.Revision)
	}
}
