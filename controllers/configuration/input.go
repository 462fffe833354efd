package configuration

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
)

// Input is everything that a decision depends on.
type Input struct {
	// App and UID identify the AppService.
	App types.NamespacedName
	UID types.UID
	// OperatorNamespace is the namespace of Fleetwright. Nothing leaves it.
	OperatorNamespace string
	// Spec is the configuration in the spec.
	Spec Template
	// Status is status.configuration.
	Status []v1alpha1.ConfigurationStatus
	// Serial is status.configurationSerial.
	Serial int64
	// Accepted is the value of the annotation accept-configuration.
	Accepted string
	// Sources are the objects on the hub. A source that is not in the map was not looked up yet.
	Sources map[Ref]Source
	// Snapshots are all objects with the label of the AppService whose names are those of
	// snapshots, and each object with the name of a snapshot to create.
	Snapshots []Snapshot
	// Unlisted are the kinds whose snapshots could not be listed yet. Snapshots that a status or a
	// revision names must be in Snapshots nevertheless.
	Unlisted []v1alpha1.ConfigurationKind
	// Revisions are all stored revisions of the AppService.
	Revisions []Revision
	// Revision is the revision of the spec, from status.rollout. It is 0 before the first, and if
	// the status was lost.
	Revision int64
	// InUse are the revisions that the status and its entries name.
	InUse []int64
	// Serials are the highest serials that members have reported for their copies, without outliers.
	Serials map[Ref]int64
	// Memory is the memory of the last decision in this process, or the zero value.
	Memory Memory
	// Now is the time of the decision.
	Now time.Time
}

// Template is the configuration in a spec or in the template of a revision.
type Template struct {
	// Entries are spec.configuration.
	Entries []v1alpha1.ConfigurationSource
	// Overrides are the configurations of spec.overrides.
	Overrides [][]v1alpha1.ConfigurationOverride
	// PullSecrets are spec.imagePullSecrets.
	PullSecrets []corev1.LocalObjectReference
}

// Presence says whether a source can be used.
type Presence string

const (
	// PresenceUnknown: nothing is known about the source yet. It is the zero value.
	PresenceUnknown Presence = ""
	// PresenceFound: the source exists.
	PresenceFound Presence = "Found"
	// PresenceAbsent: the source does not exist. A live read has confirmed it.
	PresenceAbsent Presence = "Absent"
	// PresenceForbidden: the operator must not read or copy this kind in the namespace.
	PresenceForbidden Presence = "Forbidden"
	// PresenceDisabled: the flag --propagate-from does not name the namespace.
	PresenceDisabled Presence = "Disabled"
)

// Source is what is known about a source. It never has its content.
type Source struct {
	Presence Presence
	// Version is UID/resourceVersion.
	Version string
	// IsLabelled is set if the source has the label propagate=true.
	IsLabelled bool
	// IsKubeconfig is set if the source is a Secret with the kubeconfig of a member.
	IsKubeconfig bool
	// Problem is why the source cannot be read, or its snapshot cannot be created, until somebody
	// changes something. It is nil if there is none.
	Problem *Problem

	// Failure is why the source could not be read, or its snapshot could not be created, because of
	// an error that may be temporary. It is nil if it may be tried now.
	Failure *Problem

	// Digest is the digest of the content of this version, or the zero value if it was not read.
	// What was read of a version must be given until the source has another version.
	Digest Digest
	// EqualTo is the name of a stored snapshot that has the same content, byte by byte, with
	// another digest, because the key has changed. It is empty if there is none.
	EqualTo string
	// Type is the type of a Secret that was read.
	Type corev1.SecretType
	// Size is the size of the content that was read.
	Size int64
}

// Snapshot describes an object with the name of a snapshot, from its metadata.
type Snapshot struct {
	Ref
	Name string
	UID  types.UID
	// Owner is the UID of the AppService that controls the object, if any.
	Owner types.UID
	// CreationTime is when the object was created.
	CreationTime metav1.Time
	// Digest, Type, Size and Serial are from its annotations.
	Digest Digest
	Type   corev1.SecretType
	Size   int64
	Serial int64
}

// Named is a snapshot that a revision names. It is stored in the ControllerRevision.
type Named struct {
	Kind     v1alpha1.ConfigurationKind `json:"kind"`
	From     string                     `json:"from"`
	Snapshot string                     `json:"snapshot"`
}

// ref returns the source of the snapshot.
func (n Named) ref() Ref { return Ref{n.Kind, n.From} }

// Revision is a stored revision of the AppService.
type Revision struct {
	Number int64
	// Configuration are the snapshots that the revision names.
	Configuration []Named
	// Template is the configuration in its template.
	Template Template
}

// Memory is what the decisions of a process remember. It is lost with the process: changes are then
// collected again.
type Memory struct {
	// Versions are the versions of changed sources that are being collected.
	Versions map[Ref]string
	// First and Last are when the first and the last of these changes were seen.
	First, Last time.Time
	// Paid is when the last change will have been paid for, if each costs [changeInterval].
	Paid time.Time
	// Reads are those of each source.
	Reads map[Ref]Reads
}

// Reads is what is remembered of the reads of a source.
type Reads struct {
	// Version is the last version that was read.
	Version string
	// Paid is when the last read will have been paid for, if each costs [readInterval].
	Paid time.Time
	// ChangesPaid is when the last change that was used will have been paid for, if each costs
	// [changeInterval].
	ChangesPaid time.Time
	// IsWaiting is set if there were too many changes, and that of the source is to be read or used later.
	IsWaiting bool
	// OftenUntil is until when a source that has waited still counts as one that changes often.
	OftenUntil time.Time
}

// Decision is the result of Decide.
type Decision struct {
	// Read are the sources whose content must be read now. Decide again afterwards.
	Read []Ref
	// Create are the snapshots to create before anything names them.
	Create []Creation
	// Status is the next status.configuration, sorted.
	Status []v1alpha1.ConfigurationStatus
	// Serial is the next status.configurationSerial.
	Serial int64
	// Configuration are the snapshots that the next revision names, sorted.
	Configuration []Named
	// NeedsRevision is set if Configuration differs from that of the revision of the spec.
	NeedsRevision bool
	// Blocker is why there must not be a new revision now, or nil.
	Blocker *Problem
	// Delayed is why a change that was seen is used later, although nobody may have to act: a request
	// has failed, or other sources have changed too often. It is nil if no change is used later.
	Delayed *Problem
	// IsCollecting is set while changes are collected or read. A new revision should wait.
	IsCollecting bool
	// IsStalled is set if a source has been missing for ten minutes.
	IsStalled bool
	// Configured is the condition, or nil without any source.
	Configured *metav1.Condition
	// Lost are the snapshots that revisions in use name, and that do not exist. No cluster must get
	// such a revision.
	Lost []Named
	// AreUnlisted is set while it is not known whether the snapshots exist that revisions in use name.
	// No cluster must get another revision until then.
	AreUnlisted bool
	// Prune are the snapshots to delete by UID, after the status was written.
	Prune []Snapshot
	// Memory is the next memory.
	Memory Memory
	// RecheckAfter is the time after which the decision may differ although no input changes, or 0.
	RecheckAfter time.Duration
}

// Creation is a snapshot to create from the content of a source.
type Creation struct {
	Ref
	Name   string
	Serial int64
}

// Problem is why something does not continue.
type Problem struct {
	// Reason is one of the documented reasons.
	Reason string
	// Message explains it and names the next step.
	Message string
}
