package rollout

import (
	"slices"
	"time"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/lineage"
	"github.com/fleetwright/fleetwright/controllers/rollout/entryplan"
	"github.com/fleetwright/fleetwright/controllers/rollout/removal"
	"github.com/fleetwright/fleetwright/controllers/rollout/stages"
)

// Decision is the result of Plan for one AppService.
type Decision struct {
	// Outcome is what was decided about revisions.
	stages.Outcome
	// Entries are the next entries of status.clusters, sorted by name. The total size of their
	// messages is not bounded yet.
	Entries []v1alpha1.ClusterStatus
	// Removals is the next value of the removal counters.
	Removals v1alpha1.RemovalsStatus
	// PlannedSpecs is the next history of planned specs.
	PlannedSpecs []v1alpha1.PlannedSpec
	// PlacementHash is the hash of the spec.placement that chose the clusters.
	PlacementHash string
	// ReplicasHash is the hash of the fields that set the replicas of each cluster.
	ReplicasHash string
	// PlacementCount is the highest number of a placement.
	PlacementCount int64
	// AcceptedStamps are the stamps that are accepted by a digest.
	AcceptedStamps []string
	// StaleObservations are the clusters whose observations must be dropped when the status is
	// written: they name the revision that the cluster gets now, and are from before it.
	StaleObservations []string
	// Notes explain to users which scale-downs and removals are pending, for all clusters together.
	Notes []string
	// AwaitsAnswers is set if a cluster that can be reached has not answered its next entry yet.
	AwaitsAnswers bool
	// RecheckAfter is the time after which the decision may differ although no input changes, or 0
	// if time alone changes nothing.
	RecheckAfter time.Duration
}

// Plan computes the next entries of an AppService. It does not change its input.
func Plan(in Input) Decision {
	// 1. Restore lost entries, and read the accepted stamps.
	in = in.Recover().withAcceptedStamps()
	// 2. Plan the entry of each cluster independently of all other clusters.
	plans := in.entries().PlanAll(in.clusterNames())
	// 3. Decide which revision each cluster is to run.
	revisions := stages.Decide(in.stages(in.hold(plans)), plans)
	// 4. Start scale-downs and removals as far as the replicas elsewhere and the policies allow.
	taken := removal.Decide(in.removal(), plans)
	// 5. Decide where a workload that is missing is created again.
	reportDeadlines := in.answerMissing(plans)
	// 6. Explain on entries what they wait for: while the hub is behind a cluster, on all entries.
	in.explainPending(plans)
	holdBehind(in.App, plans)
	// 7. Set the transition time on entries whose phase changed.
	entries := entryplan.Entries(plans, in.Now)
	outcome, rolloutDeadlines := revisions.Finish(entries)
	deadlines := slices.Concat(in.removal().Deadlines(entries, taken.Removals), rolloutDeadlines, reportDeadlines, in.recoveryDeadlines(), followUps(in, entries))
	return Decision{
		Outcome:           outcome,
		StaleObservations: entryplan.StaleObservations(plans),
		Entries:           entries,
		Removals:          taken.Removals,
		PlannedSpecs:      lineage.Planned(in.App),
		PlacementHash:     placementHash(in.App, in.PlanError == nil),
		ReplicasHash:      replicasHash(in.App, in.PlanError == nil),
		PlacementCount:    entryplan.HighestPlacement(in.App.Status.Placement.Count, entries),
		AcceptedStamps:    in.App.Status.AcceptedStamps,
		Notes:             taken.Notes,
		AwaitsAnswers:     slices.ContainsFunc(plans, func(e entryplan.Plan) bool { return e.AwaitsAnswer() }),
		RecheckAfter:      recheckAfter(in.App, in.Now, deadlines),
	}
}

// withAcceptedStamps returns the input with the stamps that the annotation accepts by a digest.
func (in Input) withAcceptedStamps() Input {
	stamps := lineage.AcceptedStamps(in.App)
	if slices.Equal(stamps, in.App.Status.AcceptedStamps) {
		return in
	}
	in.App = in.App.DeepCopy()
	in.App.Status.AcceptedStamps = stamps
	return in
}

// placementHash returns the hash of the placement that the next status is planned with. A status
// that an older version wrote gets its hash with the next edit, so that an upgrade writes nothing.
func placementHash(app *v1alpha1.AppService, hasPlan bool) string {
	if !hasPlan || app.Status.ObservedGeneration == app.Generation {
		return app.Status.Placement.SpecHash
	}
	return lineage.PlacementHash(app)
}

// replicasHash returns the hash of the fields that set replicas in the same way.
func replicasHash(app *v1alpha1.AppService, hasPlan bool) string {
	if !hasPlan || app.Status.ObservedGeneration == app.Generation {
		return app.Status.Placement.ReplicasHash
	}
	return lineage.ReplicasHash(app)
}

// clusterNames returns the names of the clusters that have an entry or are chosen, sorted.
func (in Input) clusterNames() []string {
	names := make([]string, 0, len(in.App.Status.Clusters)+len(in.Plan))
	for i := range in.App.Status.Clusters {
		names = append(names, in.App.Status.Clusters[i].Name)
	}
	for _, decision := range in.Plan {
		if decision.Chosen() && !in.App.IsDeleting() && !in.App.IsSuspended() && in.Members[decision.Cluster] != nil {
			names = append(names, decision.Cluster)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}
