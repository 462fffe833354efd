package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// Rollout defines how an edit of the template reaches the clusters: stage by stage, and back if it
// fails. The template is the fields that define a pod or its Service. How many pods run, where, and
// by which policy is not part of it: such an edit takes effect on all clusters at once.
//
// +kubebuilder:validation:XValidation:rule="!has(self.stages) || self.stages.all(s, self.stages.exists_one(t, t.name == s.name))",message="two stages have the same name: rename one of them"
type Rollout struct {
	// Stages run one after another. A cluster belongs to the first stage that matches it.
	// The clusters that no stage matches form the last stage, "(rest)".
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=16
	Stages []RolloutStage `json:"stages,omitempty"`

	// RolloutPace has the defaults of the stages.
	RolloutPace `json:",inline"`

	// ProgressDeadlineSeconds is how long a cluster may take to become available with a revision.
	// It defaults to 300 more than spec.progressDeadlineSeconds.
	// +optional
	ProgressDeadlineSeconds *int32 `json:"progressDeadlineSeconds,omitempty"`

	// OnFailure defines what happens when a revision fails.
	// Rollback returns all clusters to the stable revision; the spec does not change.
	// Pause leaves each cluster as it is, and waits for a person.
	// +optional
	// +kubebuilder:default=Rollback
	OnFailure RolloutFailurePolicy `json:"onFailure,omitempty"`

	// Paused stops the rollout, or the rollback: no cluster gets another revision.
	// +optional
	Paused bool `json:"paused,omitempty"`
}

// RolloutStage is a group of clusters that get a revision together.
//
// +kubebuilder:validation:XValidation:rule="!has(self.spreadKey) || has(self.limit)",message="spreadKey needs limit: set limit, or remove spreadKey"
type RolloutStage struct {
	// Name identifies the stage, for example in the annotation fleetwright.dev/approve.
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",message="the name of a stage must be lower-case letters, digits and '-', and start and end with a letter or digit, such as eu-west"
	Name string `json:"name"`

	ClusterMatch `json:",inline"`

	// Limit is how many of the matching clusters belong to the stage.
	// Clusters of earlier stages do not count.
	// It is a number, or a percentage, which is rounded up. The others belong to later stages.
	// +optional
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:XValidation:rule="type(self) == int ? self >= 1 : self == '100%' || self.size() in [2, 3] && self.endsWith('%') && self >= '1' && self < ':' && (self.size() == 2 || self.charAt(1) >= '0' && self.charAt(1) <= '9')",message="limit must be a number of clusters, 1 or more, without quotes, or a percentage from 1% to 100%"
	Limit *intstr.IntOrString `json:"limit,omitempty"`

	// SpreadKey is a label of MemberClusters, such as a region.
	// The clusters of the stage are spread over the values of the label. It requires limit.
	// +optional
	// +kubebuilder:validation:MaxLength=317
	SpreadKey string `json:"spreadKey,omitempty"`

	// Approval is Required if the stage begins only after an approval.
	// A person or a program approves it by the annotation fleetwright.dev/approve.
	// +optional
	Approval RolloutApproval `json:"approval,omitempty"`

	// SoakSeconds is how long the rollout waits before the next stage begins.
	// The time starts when no cluster of the stage is updating, and at least one is available.
	// +optional
	// +kubebuilder:validation:XValidation:rule="self >= 0",message="soakSeconds must be zero or more"
	SoakSeconds *int32 `json:"soakSeconds,omitempty"`

	// RolloutPace overrides the defaults for the stage.
	RolloutPace `json:",inline"`
}

// RolloutPace limits how fast a stage updates its clusters, and how many of them may fail.
type RolloutPace struct {
	// MaxUnavailable is how many clusters of a stage may be unavailable at the same time.
	// A cluster is unavailable from when it gets the revision until it is available with it.
	// Clusters that are down already count too, but one more may always be updated.
	// It is a number, or a percentage, which is rounded down to at least one. It defaults to 25%.
	// A stage begins with one cluster, and then updates one more than are available, up to this.
	// +optional
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:XValidation:rule="type(self) == int ? self >= 1 : self == '100%' || self.size() in [2, 3] && self.endsWith('%') && self >= '1' && self < ':' && (self.size() == 2 || self.charAt(1) >= '0' && self.charAt(1) <= '9')",message="maxUnavailable must be a number of clusters, 1 or more, without quotes, or a percentage from 1% to 100%"
	MaxUnavailable *intstr.IntOrString `json:"maxUnavailable,omitempty"`

	// MinReadySeconds is how long a cluster must be Ready without a break to be available.
	// It defaults to 60.
	// +optional
	// +kubebuilder:validation:XValidation:rule="self >= 0",message="minReadySeconds must be zero or more"
	MinReadySeconds *int32 `json:"minReadySeconds,omitempty"`

	// MaxFailures is how many clusters of a stage may fail before the rollout fails.
	// It is a number, or a percentage, which is rounded down. It defaults to 0.
	// +optional
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:XValidation:rule="type(self) == int ? self >= 0 : self == '100%' || self.size() in [2, 3] && self.endsWith('%') && self >= '0' && self < ':' && (self.size() == 2 || self.charAt(1) >= '0' && self.charAt(1) <= '9')",message="maxFailures must be a number of clusters, 0 or more, without quotes, or a percentage from 0% to 100%"
	MaxFailures *intstr.IntOrString `json:"maxFailures,omitempty"`
}

// RolloutApproval says whether a stage needs approval.
// +kubebuilder:validation:Enum=Required
type RolloutApproval string

// ApprovalRequired: the stage begins after an approval.
const ApprovalRequired RolloutApproval = "Required"

// RolloutFailurePolicy defines what happens when a revision fails.
// +kubebuilder:validation:Enum=Rollback;Pause
type RolloutFailurePolicy string

const (
	// RolloutRollback returns all clusters to the stable revision.
	RolloutRollback RolloutFailurePolicy = "Rollback"
	// RolloutPause leaves each cluster as it is.
	RolloutPause RolloutFailurePolicy = "Pause"
)

// RolloutStatus describes the revisions of an AppService, and the rollout of the latest one.
type RolloutStatus struct {
	// Revision is the number of the revision that has the template of the spec.
	// The ControllerRevision NAME-NUMBER stores it.
	// It is absent if the hub refused to store it.
	// If the spec is refused, or waits for a source, it is the revision before that edit.
	// +optional
	Revision int64 `json:"revision,omitempty"`
	// PodSecurity is the Pod Security Standard that the pod template must comply with on every cluster.
	// It is that of the namespace when the template was new, or a later one that allows more.
	// It is absent if all was allowed then, or if an older version of Fleetwright made the revision.
	// +optional
	PodSecurity *PodSecurity `json:"podSecurity,omitempty"`
	// SpecRefused is true if the Pod Security Standard forbids the pod template on every cluster.
	// The spec has no revision then, and revision is the one before that edit.
	// +optional
	SpecRefused bool `json:"specRefused,omitempty"`
	// ChangedSources are the names of the sources whose content the revision changes.
	// It is empty if the revision changes anything else compared with the stable revision.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	ChangedSources []string `json:"changedSources,omitempty"`
	// LatestRevision is the latest revision, if the spec has returned to an older one.
	// A new revision gets a higher number.
	// +optional
	LatestRevision int64 `json:"latestRevision,omitempty"`
	// StableRevision is the last revision that went through all stages.
	// New clusters start with it, and a rollback returns to it.
	// +optional
	StableRevision int64 `json:"stableRevision,omitempty"`
	// PreviousRevision is the stable revision before stableRevision.
	// +optional
	PreviousRevision int64 `json:"previousRevision,omitempty"`
	// FailedRevision is the last revision that failed or was aborted. No cluster gets it again.
	// +optional
	FailedRevision int64 `json:"failedRevision,omitempty"`
	// SameRevisions are earlier revisions with the same template that clusters had when it came back.
	// A Ready cluster that has one of them keeps it until it gets the revision.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	SameRevisions []int64 `json:"sameRevisions,omitempty"`
	// FailedStage is the stage in which the revision failed. It is absent if a user aborted it.
	// +optional
	FailedStage string `json:"failedStage,omitempty"`
	// FailedClusters are the first five clusters on which the revision failed, by name.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=5
	FailedClusters []string `json:"failedClusters,omitempty"`
	// FailedReason is the reason of the first of these clusters when the revision failed.
	// +optional
	FailedReason string `json:"failedReason,omitempty"`
	// ReturnFailedClusters are the first five Ready clusters on which the stable revision failed too.
	// While there are any, no other Ready cluster returns to it.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=5
	ReturnFailedClusters []string `json:"returnFailedClusters,omitempty"`
	// ReturnFailedReason is the reason of the first of these clusters when it failed.
	// +optional
	ReturnFailedReason string `json:"returnFailedReason,omitempty"`
	// Phase is Progressing, Completed, Halted, RollingBack or RolledBack.
	// +optional
	Phase RolloutPhase `json:"phase,omitempty"`
	// Since is when the phase began.
	// +optional
	Since *metav1.Time `json:"since,omitempty"`
	// Paused is true while no cluster gets another revision.
	// It is if the rollout is paused, the AppService is suspended or has no plan, or the hub is behind.
	// It is also true while the selector of a stage is invalid.
	// +optional
	Paused bool `json:"paused,omitempty"`
	// Undo is true if the revision has the template of the previous stable revision.
	// Such a rollout needs no approval and does not soak.
	// +optional
	Undo bool `json:"undo,omitempty"`
	// RetryRefused is true if fleetwright.dev/retry named the revision before this status showed it.
	// It never counts, unless it is removed and set again.
	// +optional
	RetryRefused bool `json:"retryRefused,omitempty"`
	// Strategy is a hash of what the stages match, and of which stages need approval.
	// If it changes, the stages are judged again.
	// +optional
	Strategy string `json:"strategy,omitempty"`
	// PausedStrategy is the hash of the stages that this status shows and that are not judged yet.
	// They are judged when the pause is over.
	// +optional
	PausedStrategy string `json:"pausedStrategy,omitempty"`
	// Stages has an entry for each stage, in their order. It is present only with spec.rollout.
	// +optional
	// +listType=map
	// +listMapKey=name
	Stages []RolloutStageStatus `json:"stages,omitempty"`
}

// IsHalted reports whether no other cluster gets another revision until a user acts: the revision
// failed, and is not rolled back, or the stable revision fails too where it returned.
func (s *RolloutStatus) IsHalted() bool {
	isReturning := s.Phase == RolloutProgressing && s.Revision == s.StableRevision // by an edit
	return s.Phase == RolloutHalted || isReturning && len(s.ReturnFailedClusters) > 0
}

// ActiveStage returns the stage whose turn it is, or nil if there is none. A completed rollout has one
// if clusters joined a stage that was Skipped. After a failure, it is the stage in which it ended.
func (s *RolloutStatus) ActiveStage() *RolloutStageStatus {
	for i := range s.Stages {
		switch stage := &s.Stages[i]; stage.Phase {
		case StageAwaitingApproval, StageProgressing, StageSoaking:
			return stage
		}
	}
	return nil
}

// IsOpen reports whether clusters get the revision, or wait for it. They do not while they return to the
// stable revision.
func (s *RolloutStatus) IsOpen() bool {
	return s.Phase == RolloutProgressing && s.Revision != s.StableRevision || s.Phase == RolloutCompleted && s.ActiveStage() != nil
}

// PodSecurity is a level of the Pod Security Standards in one of their versions.
type PodSecurity struct {
	// Level is baseline or restricted.
	Level PodSecurityLevel `json:"level"`
	// Version is the minor version of Kubernetes that defines the level, such as v1.36.
	// +kubebuilder:validation:Pattern=`^v1\.[0-9]+$`
	// +kubebuilder:validation:MaxLength=16
	Version string `json:"version"`
}

// PodSecurityLevel is a level that forbids something.
// +kubebuilder:validation:Enum=baseline;restricted
type PodSecurityLevel string

const (
	// PodSecurityBaseline forbids known ways from a pod to its node.
	PodSecurityBaseline PodSecurityLevel = "baseline"
	// PodSecurityRestricted also demands the best practices for pods.
	PodSecurityRestricted PodSecurityLevel = "restricted"
)

// RolloutPhase is the state of a rollout.
// +kubebuilder:validation:Enum=Progressing;Completed;Halted;RollingBack;RolledBack
type RolloutPhase string

const (
	// RolloutProgressing: clusters get the revision, stage by stage.
	RolloutProgressing RolloutPhase = "Progressing"
	// RolloutCompleted: the revision went through all stages.
	RolloutCompleted RolloutPhase = "Completed"
	// RolloutHalted: the revision failed, and each cluster keeps what it has.
	// It is also the phase of a rollback while the stable revision fails on clusters that returned.
	RolloutHalted RolloutPhase = "Halted"
	// RolloutRollingBack: the revision failed, and the clusters return to the stable revision.
	RolloutRollingBack RolloutPhase = "RollingBack"
	// RolloutRolledBack: the revision failed, and the clusters run the stable revision.
	RolloutRolledBack RolloutPhase = "RolledBack"
)

// RolloutStageStatus is the state of a stage.
type RolloutStageStatus struct {
	// Name is the name of the stage. "(rest)" is that of the clusters that no other stage matches.
	Name string `json:"name"`
	// Phase is Pending, Skipped, AwaitingApproval, Progressing, Soaking or Completed.
	Phase RolloutStagePhase `json:"phase"`
	// Since is when the phase began.
	Since metav1.Time `json:"since"`
	// Approved is true if the stage is approved for the revision.
	// Until the stage begins, an approval is withdrawn by removing its annotation.
	// +optional
	Approved bool `json:"approved,omitempty"`
	// ApprovalRefused is true if fleetwright.dev/approve named both before this status showed them.
	// It never counts, unless it is removed and set again.
	// +optional
	ApprovalRefused bool `json:"approvalRefused,omitempty"`
	// PromotionRefused is the same for the annotation fleetwright.dev/promote.
	// +optional
	PromotionRefused bool `json:"promotionRefused,omitempty"`
	// StableSkipped is true if no cluster was in the stage when the stable revision was rolled out.
	// If the stage needs approval, a new cluster waits for it instead of starting with that revision.
	// +optional
	StableSkipped bool `json:"stableSkipped,omitempty"`
	// Promoted is true if a user ended the stage for the revision.
	// +optional
	Promoted bool `json:"promoted,omitempty"`
	// Clusters is the number of clusters in the stage.
	// +optional
	Clusters int32 `json:"clusters,omitempty"`
	// UpToDate is the number of these clusters that have the revision.
	// +optional
	UpToDate int32 `json:"upToDate,omitempty"`
	// Available is the number of these clusters that are available with the revision.
	// +optional
	Available int32 `json:"available,omitempty"`
	// Failed is the number of these clusters on which the revision failed.
	// +optional
	Failed int32 `json:"failed,omitempty"`
}

// RolloutStagePhase is the state of a stage.
// +kubebuilder:validation:Enum=Pending;Skipped;AwaitingApproval;Progressing;Soaking;Completed
type RolloutStagePhase string

const (
	// StagePending: the stages before this one are not completed.
	StagePending RolloutStagePhase = "Pending"
	// StageSkipped: no cluster is in the stage.
	StageSkipped RolloutStagePhase = "Skipped"
	// StageAwaitingApproval: the stage begins after an approval.
	StageAwaitingApproval RolloutStagePhase = "AwaitingApproval"
	// StageProgressing: the clusters of the stage get the revision.
	StageProgressing RolloutStagePhase = "Progressing"
	// StageSoaking: the clusters are available, and the rollout waits.
	StageSoaking RolloutStagePhase = "Soaking"
	// StageCompleted: the stage has proven the revision for the next one.
	StageCompleted RolloutStagePhase = "Completed"
)
