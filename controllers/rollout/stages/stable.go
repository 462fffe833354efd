package stages

import (
	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/rollout/entryplan"
)

// adoptProven makes a revision the stable one that the clusters have proven, if it is not stable yet.
func (r *Rollout) adoptProven() {
	if r.in.Recovery.IsRecovering {
		r.adoptRecovered()
	} else {
		r.adoptStable()
	}
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
func (r *Rollout) adoptStable() {
	s := r.status
	isReplaced := r.in.Revision != s.Revision || r.in.App.Spec.Rollout != nil
	if s.Phase != "" || !isReplaced || s.Revision != 0 && s.StableRevision == s.Revision {
		return
	}
	size, counts, most := 0, map[int64]int{}, int64(0)
	for _, c := range r.clusters {
		if c.Previous == nil || !entryplan.IsPlanned(*c.Previous) {
			continue
		}
		isFirst := s.Revision == 0
		if c.Previous.Phase == v1alpha1.ClusterUnknown && !isFirst {
			continue // it may have got the revision since it was Ready
		}
		if c.Previous.Phase == v1alpha1.ClusterReady && c.Previous.ReadyReplicas == 0 {
			continue // without pods, it is no evidence
		}
		size++
		wasReady := c.Previous.Phase == v1alpha1.ClusterReady || isFirst && c.Previous.LastKnownPhase == v1alpha1.ClusterReady
		wasFound := isFirst && c.Previous.Generation == 0
		if revision := c.Entry.Revision; revision != 0 && revision != s.FailedRevision && (wasReady || wasFound) {
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
		r.status.adopt(most)
	}
}

// adoptRecovered makes the revision the stable one that at least half of the clusters run, after
// the status was lost. Of two revisions that are equally frequent, it is the lower one: the higher
// one may be in a rollout that has not proven it. If a cluster is silent, more than half must run
// it.
func (r *Rollout) adoptRecovered() {
	size, silent, counts, most := 0, 0, map[int64]int{}, int64(0)
	for _, c := range r.clusters {
		switch revision := c.Entry.Revision; {
		case revision != 0:
			size++
			counts[revision]++
			if counts[revision] > counts[most] || counts[revision] == counts[most] && revision < most {
				most = revision
			}
		case c.Seen == nil:
			size, silent = size+1, silent+1
		}
	}
	size, silent = size+r.in.Recovery.SilentCandidates, silent+r.in.Recovery.SilentCandidates
	if most != 0 && 2*counts[most] >= size+min(1, silent) {
		r.status.adopt(most)
	}
}
