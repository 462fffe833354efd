package rollout

import (
	"cmp"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/configuration"
	"github.com/fleetwright/fleetwright/controllers/entries/appslice"
	"github.com/fleetwright/fleetwright/controllers/observation"
	"github.com/fleetwright/fleetwright/controllers/placement"
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
	// Revision is the number of the revision that has the template of the spec.
	// It is the stable revision if the spec has its template. If it is 0, no revision changes.
	Revision int64
	// Origin says where the revision comes from, if the status does not have it yet.
	Origin RevisionOrigin
	// ChangedSources are the names of the sources whose content a new revision changes, if it changes
	// nothing else.
	ChangedSources []string
	// SameRevisions are the other revisions with the same template that entries have, if the status does
	// not have the revision yet.
	SameRevisions []int64
	// IsStableMissing is set if the ControllerRevision of the stable revision is missing, or a snapshot
	// that it names. No cluster gets this revision then.
	IsStableMissing bool
	// IsRevisionMissing is set if a snapshot that the revision names is missing, or if the content of
	// the revision is needed and cannot be read. No cluster gets this revision then, and those that have
	// it keep it.
	IsRevisionMissing bool
	// AreRevisionsUnread is set if the content of a revision that clusters may get cannot be read at
	// present. New clusters get no revision then, because it may not comply with pod security there.
	AreRevisionsUnread bool
	// Configuration is what was decided about spec.configuration. It is nil for an AppService without
	// configuration, and while the AppService is being deleted.
	Configuration *configuration.Decision
	// RevisionRefused is why the hub refuses to store the revision of the spec, or to return
	// revisions, or nil. Revision is the one of the status then, whose rollout goes on.
	RevisionRefused error
	// IsSpecPending is set if the spec has no revision yet, because it waits for its configuration or
	// is refused. Revision is the one before that edit then, or 0.
	IsSpecPending bool
	// SpecRefusal is why pod security refuses the pod template of the spec on every cluster, or "".
	SpecRefusal string
	// PodSecurity is what the pod template of Revision must comply with, or nil.
	PodSecurity *v1alpha1.PodSecurity
	// Refusals are the revisions that single clusters must not get.
	Refusals Refusals
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

// IsDeleting reports whether the AppService is being deleted.
func (in Input) IsDeleting() bool { return !in.App.DeletionTimestamp.IsZero() }

// IsSuspended reports whether spec.suspend forbids changes on every cluster. A deletion is never
// suspended.
func (in Input) IsSuspended() bool { return in.App.Spec.Suspend && !in.IsDeleting() }

// IsDivided reports whether the clusters divide the replicas.
func (in Input) IsDivided() bool {
	policy := in.App.Spec.ReplicaPolicy
	return policy != nil && policy.Type == v1alpha1.ReplicasDivided
}

// IsOrphaning reports whether a removal leaves the workload running.
func (in Input) IsOrphaning() bool { return in.App.Spec.DeletionPolicy == v1alpha1.DeletionOrphan }

// acceptsUnready reports whether the annotation accept-unready ends the wait for surging clusters.
func (in Input) acceptsUnready() bool {
	return in.App.Annotations[v1alpha1.AnnotationAcceptUnready] == "true"
}

// ObservationOf returns the observation of a cluster, or nil if there is none for this AppService.
func (in Input) ObservationOf(cluster string) *observation.Observation {
	seen, found := in.Observations[cluster]
	if !found || seen.UID != in.App.UID {
		return nil
	}
	return &seen
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

// MemberCluster returns the MemberCluster with that name, with or without a Secret, or nil.
func (in Input) MemberCluster(name string) *v1alpha1.MemberCluster {
	if member := in.Members[name]; member != nil {
		return member
	}
	return in.Secretless[name]
}

// BelongInSlices reports whether this number of next entries is to be stored in AppServiceSlices.
func (in Input) BelongInSlices(count int) bool {
	return appslice.BelongInSlices(count, cmp.Or(in.SliceThreshold, appslice.DefaultThreshold), in.App.Status.ClustersIn == v1alpha1.ClustersInSlices)
}

// IsPlanned reports whether the AppService is to run on the cluster of an entry.
func IsPlanned(entry v1alpha1.ClusterStatus) bool {
	return entry.Phase != v1alpha1.ClusterRemoving && entry.Phase != v1alpha1.ClusterDetached
}
