package stages

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
)

// Input is what the revisions of the clusters depend on, apart from the entry plans.
type Input struct {
	// App is the AppService with its current status. It has the stages, the annotations of users, and
	// the status of the rollout.
	App *v1alpha1.AppService
	Revisions
	// Hold is whether clusters may get another revision, apart from a pause of the rollout.
	Hold Hold
	// Recovery is what is known after the status was lost.
	Recovery Recovery
	// Now is the time of the decision.
	Now metav1.Time
	// ObservedSince is when this process began to observe the members. It may be zero.
	ObservedSince metav1.Time
	// SeenSince is since when this process has had observations of the AppService without a break, by
	// cluster. Time before it does not count as minReadySeconds.
	SeenSince map[string]metav1.Time
	// Answers are the times at which the members last answered a request, by cluster.
	Answers map[string]metav1.Time
}

// Revisions are the revision of the spec, and what is known of the others.
type Revisions struct {
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
	// SpecRefusal is why pod security refuses the pod template of the spec on every cluster, or "".
	SpecRefusal string
	// WasSpecRefused is set if an earlier plan refused the pod template of this spec, and it still has no
	// revision.
	WasSpecRefused bool
	// PodSecurity is what the pod template of Revision must comply with, or nil.
	PodSecurity *v1alpha1.PodSecurity
	// Refusals are the revisions that single clusters must not get.
	Refusals Refusals
	// AreSnapshotsUnlisted is set if it is not known which snapshots of configuration exist. No cluster
	// gets another revision then.
	AreSnapshotsUnlisted bool
}

// Recovery is what is known after the status was lost. The members know which revision they run, and
// not all of them report at once. Until they have, no revision is the target or the stable one.
type Recovery struct {
	// IsRecovering is set if the status was lost, and it is not decided yet which revision is stable.
	IsRecovering bool
	// AwaitsReports is set while clusters have not reported what they run.
	AwaitsReports bool
	// SilentCandidates is the number of clusters that have not reported, and have neither an entry nor a
	// place in the plan: they are excluded only because they are not Ready.
	SilentCandidates int
}

// RevisionOrigin says where a new revision of the spec comes from.
type RevisionOrigin int

const (
	// RevisionEdited: an edit made the template.
	RevisionEdited RevisionOrigin = iota
	// RevisionUndone: an edit returned to the template of the previous stable revision.
	RevisionUndone
	// RevisionRetried: the template failed, and the annotation retry asks for it again.
	RevisionRetried
)
