package rollout

import (
	"cmp"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/configuration"
	"github.com/fleetwright/fleetwright/controllers/entries/appslice"
	"github.com/fleetwright/fleetwright/controllers/lineage"
	"github.com/fleetwright/fleetwright/controllers/observation"
	"github.com/fleetwright/fleetwright/controllers/placement"
	"github.com/fleetwright/fleetwright/controllers/rollout/entryplan"
	"github.com/fleetwright/fleetwright/controllers/rollout/removal"
	"github.com/fleetwright/fleetwright/controllers/rollout/stages"
)

// Input is everything that a status depends on.
type Input struct {
	// App is the AppService with its current status.
	App *v1alpha1.AppService
	// Plan is the placement decision for each cluster.
	Plan placement.Plan
	// PlanError is the reason why there is no plan, or nil. While it is set, every entry keeps its
	// planned state.
	PlanError error
	// Revisions are the revision of the spec, and what is known of the others.
	stages.Revisions
	// Configuration is what was decided about spec.configuration. It is nil for an AppService without
	// configuration, and while the AppService is being deleted.
	Configuration *configuration.Decision
	// RevisionRefused is why the hub refuses to store the revision of the spec, or to return
	// revisions, or nil. Revision is the one of the status then, whose rollout goes on.
	RevisionRefused error
	// IsSpecPending is set if the spec has no revision yet, because it waits for its configuration or
	// is refused. Revision is the one before that edit then, or 0.
	IsSpecPending bool
	// ObservedSince is when this process began to observe the members. Deadlines do not count the
	// time before it, because nothing may have been delivered then. It may be zero.
	ObservedSince metav1.Time
	// Members are the MemberClusters that have a Secret, by name. A MemberCluster without a Secret
	// is treated as deleted.
	Members map[string]*v1alpha1.MemberCluster
	// Secretless are the MemberClusters without a Secret, by name. They are not members, but they
	// keep tombstones.
	Secretless map[string]*v1alpha1.MemberCluster
	// Observations are the observations of the AppService since the operator started, by cluster.
	Observations map[string]observation.Observation
	// SeenSince is since when this process has had observations of the AppService without a break, by
	// cluster. Time before it does not count as minReadySeconds.
	SeenSince map[string]metav1.Time
	// Unreachable is when each member was last found unreachable, if it has not been observed since.
	// Only a missing workload and a lost status depend on that.
	Unreachable map[string]metav1.Time
	// Answers are the times at which the members last answered a request, by cluster. A revision fails
	// only where the member has answered since. An answer of the member is no news of the AppService.
	Answers map[string]metav1.Time
	// Now is the timestamp for entries that change.
	Now metav1.Time
	// SliceThreshold is the number of entries above which they move to AppServiceSlices; 0 is
	// [appslice.DefaultThreshold].
	SliceThreshold int
	// HasMissingSlices is set if an AppServiceSlice was deleted by another client, and its entries
	// are lost.
	HasMissingSlices bool

	// IsNew is set if this process has seen the AppService without our finalizer, so it was never
	// planned.
	IsNew bool

	// abandoned are the clusters that the annotation abandons. Recover sets it, so that a plan for
	// many clusters reads the annotation once.
	abandoned map[string]bool
}

// entries returns what the entries depend on, each by itself.
func (in Input) entries() *entryplan.Input {
	return &entryplan.Input{
		App: in.App, Plan: in.Plan, HasPlan: in.PlanError == nil, Revision: in.Revision, IsRecovering: in.isRecovering(), Now: in.Now,
		Members: in.Members, Secretless: in.Secretless, Observations: in.Observations, Abandoned: in.abandonedClusters(),
	}
}

// removal returns what scale-downs and removals depend on.
func (in Input) removal() removal.Input {
	return removal.Input{
		App: in.App, Plan: in.Plan, HasPlan: in.PlanError == nil, HasRevision: in.Revision != 0, Members: in.Members, Abandoned: in.abandonedClusters(), Now: in.Now,
	}
}

// abandonedClusters returns the clusters that the annotation abandons.
func (in Input) abandonedClusters() map[string]bool {
	if in.abandoned != nil {
		return in.abandoned
	}
	return entryplan.Abandoned(in.App)
}

// NotReadyCandidates returns the clusters that are excluded only because they are not Ready. If
// withinDeadline is set, it omits those that are not expected to become Ready any more.
func (in Input) NotReadyCandidates(withinDeadline bool) []string {
	return in.removal().NotReadyCandidates(withinDeadline)
}

// stages returns what the revisions of the clusters depend on.
func (in Input) stages(hold stages.Hold) stages.Input {
	revisions := in.Revisions
	revisions.AreSnapshotsUnlisted = in.Configuration != nil && in.Configuration.AreUnlisted
	return stages.Input{
		App: in.App, Revisions: revisions, Hold: hold, Recovery: in.recovery(),
		Now: in.Now, ObservedSince: in.ObservedSince, SeenSince: in.SeenSince, Answers: in.Answers,
	}
}

// hold returns whether clusters may get another revision, apart from the pause of a rollout. While
// the hub is behind a cluster, a rollback waits too: the revision that this hub takes for the stable
// one may be older than what was rolled out since. Without spec.rollout, entries get the revision of
// the spec also then, and delivery waits.
func (in Input) hold(plans []entryplan.Plan) stages.Hold {
	isBehind := func(e entryplan.Plan) bool {
		behind := e.HubBehind()
		return behind != nil && !lineage.IsAccepted(in.App, behind)
	}
	switch {
	case in.App.IsSuspended(), in.PlanError != nil:
		return stages.Frozen
	case slices.ContainsFunc(plans, isBehind):
		return stages.Paused
	}
	return stages.Released
}

// ObservationOf returns the observation of a cluster, or nil if there is none for this AppService.
func (in Input) ObservationOf(cluster string) *observation.Observation {
	return entryplan.ObservationOf(in.App, in.Observations, cluster)
}

// HighestRevision returns the highest revision that an observation names. The next revision is higher,
// because a Deployment may have the number of a revision that a restore of the hub has lost.
func (in Input) HighestRevision() int64 {
	var highest int64
	for _, seen := range in.Observations {
		highest = max(highest, seen.Revision, seen.StampedRevision)
	}
	return highest
}

// BelongInSlices reports whether this number of next entries is to be stored in AppServiceSlices.
func (in Input) BelongInSlices(count int) bool {
	return appslice.BelongInSlices(count, cmp.Or(in.SliceThreshold, appslice.DefaultThreshold), in.App.Status.ClustersIn == v1alpha1.ClustersInSlices)
}
