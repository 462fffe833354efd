package rollout

import (
	"slices"
	"time"

	"github.com/fleetwright/fleetwright/controllers/rollout/stages"
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
	isUnwritten := in.App.Status.ObservedGeneration <= 0 && hasFinalizer(in.App) && !in.IsNew
	return state.Revision == 0 && (state.Since != nil || isUnwritten)
}

// AwaitsReports reports whether the status was lost, and clusters of the AppService have not
// reported what they run. The wait ends as that for the creation of what is missing: see
// answerMissing.
func (in Input) AwaitsReports() bool {
	if in.App.IsDeleting() || !in.isRecovering() {
		return false
	}
	since := in.recoveringSince()
	return !isPast(in.Now, since) && !silenceOf(in.Unreachable, in.silentClusters()).isExplained(since)
}

// recoveringSince returns since when this process waits for the reports.
func (in Input) recoveringSince() time.Time {
	if since := in.App.Status.Rollout.Since; since != nil {
		if since.Before(&in.ObservedSince) {
			return in.ObservedSince.Time
		}
		return since.Time
	}
	return in.Now.Time
}

// silentClusters returns the clusters that this process has not observed, of those with an entry,
// those in the plan, and those that are not in the plan only because they are not Ready.
func (in Input) silentClusters() []string {
	names := append(in.clusterNames(), in.NotReadyCandidates(false)...)
	return slices.DeleteFunc(names, func(name string) bool { return in.ObservationOf(name) != nil })
}

// recoveryDeadlines returns when the wait for reports ends.
func (in Input) recoveryDeadlines() []time.Time {
	if !in.AwaitsReports() {
		return nil
	}
	return []time.Time{in.recoveringSince().Add(ReportTimeout)}
}

// recovery returns what is known after the status was lost.
func (in Input) recovery() stages.Recovery {
	if !in.isRecovering() {
		return stages.Recovery{}
	}
	recovery := stages.Recovery{IsRecovering: true, AwaitsReports: in.AwaitsReports()}
	for _, name := range in.silentClusters() {
		if in.App.Status.Cluster(name) == nil && !in.Plan.Find(name).Chosen() {
			recovery.SilentCandidates++
		}
	}
	return recovery
}
