package rollout

import (
	"slices"
	"time"
)

// This file decides what happens to the revisions of an AppService whose status was lost, as by a
// backup without status. The members know which revision they run, and not all of them report at
// once. Until they have, no revision is the target or the stable one, and no cluster gets another
// revision.

// isRecovering reports whether the status was lost, and it is not decided yet which revision is
// stable. The finalizer shows that the AppService was planned, or was about to be planned by
// another process. While revisions are frozen, status.rollout has the time since then, and no
// revision.
// docs/decisions/a-lost-status-freezes-revisions.md says why.
func (in Input) isRecovering() bool {
	state := in.App.Status.Rollout
	isUnwritten := in.App.Status.ObservedGeneration <= 0 && in.hasFinalizer() && !in.IsNew
	return state.Revision == 0 && (state.Since != nil || isUnwritten)
}

// AwaitsReports reports whether the status was lost, and clusters of the AppService have not
// reported what they run. The wait ends as that for the creation of what is missing: see
// answerMissing.
func (in Input) AwaitsReports() bool {
	if in.IsDeleting() || !in.isRecovering() {
		return false
	}
	since := in.recoveringSince()
	return !in.isPast(since) && !in.silenceOf(in.silentClusters()).isExplained(since)
}

// recoveringSince returns since when this process waits for the reports.
func (in Input) recoveringSince() time.Time {
	if since := in.App.Status.Rollout.Since; since != nil {
		return latest(*since, in.ObservedSince).Time
	}
	return in.Now.Time
}

// silentClusters returns the clusters that this process has not observed, of those with an entry,
// those in the plan, and those that are not in the plan only because they are not Ready.
func (in Input) silentClusters() []string {
	names := append(in.clusterNames(), in.NotReadyCandidates(false)...)
	return slices.DeleteFunc(names, func(name string) bool { return in.ObservationOf(name) != nil })
}

// recover sets the revisions of entries to those that their clusters run, after the status was
// lost. While it waits for reports, it records since when.
func (r *revisions) recover(plans []entryPlan) {
	if !r.in.isRecovering() || r.in.IsDeleting() {
		return
	}
	for i := range plans {
		if e := &plans[i]; e.seen != nil && e.entry.Revision == 0 && e.seen.StampedRevision != 0 && IsPlanned(e.entry) {
			r.in.reassign(e, e.seen.StampedRevision)
		}
	}
	if r.in.AwaitsReports() && r.status.Since == nil {
		r.status.Since = &r.in.Now
	}
}

// adoptRecovered makes the revision the stable one that at least half of the clusters run, after
// the status was lost. Of two revisions that are equally frequent, it is the lower one: the higher
// one may be in a rollout that has not proven it. If a cluster is silent, more than half must run
// it.
func (r *revisions) adoptRecovered() {
	size, silent, counts, most := 0, 0, map[int64]int{}, int64(0)
	for _, c := range r.clusters {
		switch revision := c.entry.Revision; {
		case revision != 0:
			size++
			counts[revision]++
			if counts[revision] > counts[most] || counts[revision] == counts[most] && revision < most {
				most = revision
			}
		case c.seen == nil:
			size, silent = size+1, silent+1
		}
	}
	for _, name := range r.in.silentClusters() {
		if r.in.App.Status.Cluster(name) == nil && !r.in.Plan.Find(name).Chosen() {
			size, silent = size+1, silent+1
		}
	}
	if most != 0 && 2*counts[most] >= size+min(1, silent) {
		r.adopt(most)
	}
}

// recoveryDeadlines returns when the wait for reports ends.
func (in Input) recoveryDeadlines() []time.Time {
	if !in.AwaitsReports() {
		return nil
	}
	return []time.Time{in.recoveringSince().Add(ReportTimeout)}
}
