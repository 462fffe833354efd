package status

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/rollout/stages"
	"github.com/fleetwright/fleetwright/controllers/rollout/wording"
)

// The messages of a rollout contain no times, so that they change only when a user would notice.
// Where a user can do something, they end with that, literally.

// target returns the revision that the clusters get, and what it changes if that is only the
// configuration: "revision 8 (configuration: settings)".
func (in report) target() string {
	name := "revision " + strconv.FormatInt(in.Rollout.Revision, 10)
	if changed := in.Rollout.ChangedSources; len(changed) > 0 {
		name += fmt.Sprintf(" (configuration: %s)", wording.CapNames(changed))
	}
	return name
}

// completedMessage reports a revision that went through all stages.
func (in report) completedMessage(n revisionCounts) string {
	message := fmt.Sprintf("%s runs on %s", in.target(), wording.CountClusters(n.all))
	if late := n.all - n.target; late > 0 {
		message = fmt.Sprintf("%s went through all stages; %d of %s %s not run it yet", in.target(), late, wording.CountClusters(n.all), verb(late, "does", "do"))
		if in.Rollout.Paused {
			message += ", because " + in.pauseMessage()
		}
	}
	var empty []string
	for _, stage := range in.Rollout.Stages {
		if stage.Phase == v1alpha1.StageSkipped && stage.Clusters == 0 && stage.Name != stages.RestStage {
			empty = append(empty, stage.Name)
		}
	}
	if len(empty) > 0 {
		message += "; no cluster is in stage " + wording.CapNames(empty)
	}
	return message
}

// progressMessage reports how far a stage is.
func (in report) progressMessage(stage *v1alpha1.RolloutStageStatus, n revisionCounts) string {
	if stage == nil || stage.Phase == v1alpha1.StageAwaitingApproval {
		return fmt.Sprintf("%s%s has not begun%s", in.target(), in.stageName(stage), in.held(n))
	}
	return fmt.Sprintf("%s%s: %d of %s %s updated, %d %s available%s%s", in.target(), in.stageName(stage),
		stage.UpToDate, wording.CountClusters(stage.Clusters), verbIn(stage, stage.UpToDate), stage.Available, verb(stage.Available, "is", "are"), failedIn(stage), in.held(n))
}

func (in report) soakingMessage(stage *v1alpha1.RolloutStageStatus, n revisionCounts) string {
	return fmt.Sprintf("%s%s: %s%s, soaking for %d s%s; %s to end the stage now", in.target(), in.stageName(stage),
		availableIn(stage), failedIn(stage), in.soakSeconds(stage), in.held(n), in.promote(stage))
}

func (in report) approvalMessage(stage *v1alpha1.RolloutStageStatus) string {
	return fmt.Sprintf("%s waits for approval of stage %s (%s): %s", in.target(), stage.Name, wording.CountClusters(stage.Clusters),
		annotate(v1alpha1.AnnotationApprove, in.Rollout.Revision, stage.Name))
}

// waitingMessage reports a stage that has no result, or, without one, that the revision is available
// nowhere.
func (in report) waitingMessage(stage *v1alpha1.RolloutStageStatus, n revisionCounts) string {
	switch {
	case n.all == 0:
		return fmt.Sprintf("%s waits for a cluster: the condition Placed says why there is none", in.target())
	case stage == nil && len(in.IdleClusters) > 0:
		return fmt.Sprintf("%s went through all stages, but %s, or change the spec", in.target(), in.idleMessage())
	case stage == nil:
		return fmt.Sprintf("%s went through all stages, but is available on no cluster: fix the clusters that are not Ready, or change the spec", in.target())
	}
	state := fmt.Sprintf("%s%s: %s%s", in.target(), in.stageName(stage), availableIn(stage), failedIn(stage))
	if stopped := in.StoppedOn; len(stopped) > 0 {
		return fmt.Sprintf("%s, and no other cluster gets it, because it failed on %s: fix that, or change the spec", state, wording.ListClusters(stopped))
	}
	return fmt.Sprintf("%s, and %s, or %s", state, in.obstacle(stage), in.promote(stage))
}

// idleMessage says that no pods run with the target, and what to do.
func (in report) idleMessage() string {
	return fmt.Sprintf("no pods run with it on %s: scale the AppService up", wording.ListClusters(in.IdleClusters))
}

// obstacle says why a stage has no result, and what to fix.
func (in report) obstacle(stage *v1alpha1.RolloutStageStatus) string {
	switch lost, idle := in.LostClusters, in.IdleClusters; {
	case stage.Clusters == 0:
		return "its clusters have left the stage before it was completed: bring them back"
	case len(lost) > 0:
		return fmt.Sprintf("%s became unreachable after %s got it: fix %s", wording.ListClusters(lost), verb(int32(len(lost)), "it", "they"), verb(int32(len(lost)), "it", "them"))
	case len(idle) > 0 && stage.Available == 0:
		return in.idleMessage()
	}
	return "too few others can be updated: fix the clusters that are not Ready"
}

// pauseMessage says why a rollout is paused and how to continue it.
func (in report) pauseMessage() string {
	spec := in.App.Spec.Rollout
	switch {
	case in.App.IsSuspended():
		return "it is paused by spec.suspend: set that to false"
	case in.Input.PlanError != nil:
		return "it is paused, because spec.placement is invalid: correct it"
	case in.StageError != nil:
		return fmt.Sprintf("it is paused, because stage %s is invalid: correct spec.rollout", in.StageError.Stage)
	case spec != nil && spec.Paused && in.IsPauseRequested:
		return fmt.Sprintf("it is paused: set spec.rollout.paused to false, and remove the annotation %s", v1alpha1.AnnotationPause)
	case spec != nil && spec.Paused:
		return "it is paused: set spec.rollout.paused to false"
	case in.IsPauseRequested:
		return fmt.Sprintf("it is paused: remove the annotation %s", v1alpha1.AnnotationPause)
	}
	return "it is paused, because the hub is behind a cluster: the condition Ready says how to accept that"
}

// returningMessage reports clusters that return to the stable revision, and why.
func (in report) returningMessage(n revisionCounts) string {
	stable := in.Rollout.StableRevision
	switch back := fmt.Sprintf("%d of %s %s", n.returning, wording.CountClusters(n.all), verb(n.returning, "returns", "return")); {
	case !in.isGoingBack():
		return fmt.Sprintf("%s; %s to revision %d", in.failure(), back, stable)
	case n.returning == 0:
		return in.returnedMessage()
	case in.stableFailure() != "":
		return fmt.Sprintf("%s; %s to it, but %s: fix that, or change the spec", in.returnedMessage(), back, in.stableFailure())
	default:
		return fmt.Sprintf("%s; %s to it", in.returnedMessage(), back)
	}
}

func (in report) returnedMessage() string {
	if in.Configuration != nil {
		return fmt.Sprintf("the spec has the template and the configuration of revision %d again", in.Rollout.StableRevision)
	}
	return fmt.Sprintf("the spec has the template of revision %d again", in.Rollout.StableRevision)
}

func (in report) stableMissingMessage() string {
	if in.Configuration != nil && len(in.Configuration.Lost) > 0 {
		return fmt.Sprintf("a snapshot of revision %d was deleted: the condition Configured says what to do, or change the spec", in.Rollout.StableRevision)
	}
	return fmt.Sprintf("ControllerRevision %s-%d is missing or was changed: change the spec", in.App.Name, in.Rollout.StableRevision)
}

func (in report) rolledBackMessage() string {
	return fmt.Sprintf("%s and was rolled back to %d: change %s, or %s", in.failure(), in.Rollout.StableRevision, in.culprit(), in.retry())
}

// culprit returns what to change after a revision has failed.
func (in report) culprit() string {
	if len(in.Rollout.ChangedSources) > 0 {
		return "the content of " + wording.CapNames(in.Rollout.ChangedSources)
	}
	return "the spec"
}

// haltedMessage reports a revision that failed, and that is not rolled back. Without a stable
// revision, or without spec.rollout, it cannot be aborted.
func (in report) haltedMessage() string {
	if stableFails := in.stableFailure(); stableFails != "" {
		return fmt.Sprintf("%s, and %s: fix that, and the rollback continues; or change %s, or %s", in.failure(), stableFails, in.culprit(), in.retry())
	}
	message := in.failure() + ", and each cluster keeps what it runs: change " + in.culprit() + ", or "
	if stable := in.Rollout.StableRevision; stable != 0 && !in.isStableMissing() && in.App.Spec.Rollout != nil {
		return fmt.Sprintf("%s%s to return to revision %d, or with %s=%d", message, annotate(v1alpha1.AnnotationAbort, in.Rollout.Revision, ""), stable,
			v1alpha1.AnnotationRetry, in.Rollout.Revision)
	}
	return message + in.retry()
}

// stableFailure says that the stable revision fails on clusters that returned to it, or "".
func (in report) stableFailure() string {
	s := in.Rollout
	if len(s.ReturnFailedClusters) == 0 {
		return ""
	}
	return fmt.Sprintf("revision %d fails too where it returned (%s: %s), so no other Ready cluster returns to it",
		s.StableRevision, strings.Join(s.ReturnFailedClusters, ", "), reasonOfFailure(s.ReturnFailedReason))
}

// failure says where and why the revision failed.
func (in report) failure() string {
	s := in.Rollout
	if s.FailedStage == "" {
		return in.target() + " was aborted"
	}
	if s.FailedReason == v1alpha1.ReasonTakenBack {
		return fmt.Sprintf("%s was taken back on %s, by a failure or an abort that this hub has lost, as by a restore", in.target(), strings.Join(s.FailedClusters, ", "))
	}
	where := " in stage " + s.FailedStage
	if s.FailedStage == stages.RestStage && !in.hasNamedStages() {
		where = ""
	}
	return fmt.Sprintf("%s failed%s (%s: %s)", in.target(), where, strings.Join(s.FailedClusters, ", "), reasonOfFailure(s.FailedReason))
}

// reasonOfFailure returns why a revision failed. A cluster that failed at the deadline may have no other
// reason.
func reasonOfFailure(reason string) string {
	switch reason {
	case "", v1alpha1.ReasonRollingOut, v1alpha1.ReasonPending:
		return "not available in time"
	default:
		return reason
	}
}

// held returns what the clusters run that do not have the target.
func (in report) held(n revisionCounts) string {
	var parts []string
	for _, group := range []struct {
		count int32
		what  string
	}{
		{n.stable, "revision " + strconv.FormatInt(in.Rollout.StableRevision, 10)},
		{n.other, "another revision"},
		{n.none, "no revision yet"},
	} {
		switch runs := verb(group.count, "runs", "run"); {
		case group.count == 0:
		case len(parts) == 0:
			parts = append(parts, fmt.Sprintf("; %s %s %s", wording.CountClusters(group.count), runs, group.what))
		default:
			parts = append(parts, fmt.Sprintf("%d %s %s", group.count, runs, group.what))
		}
	}
	return strings.Join(parts, ", ")
}

// stageName returns ", stage NAME", or "" if there is only one stage, which has no name.
func (in report) stageName(stage *v1alpha1.RolloutStageStatus) string {
	if stage == nil || !in.hasNamedStages() {
		return ""
	}
	return ", stage " + stage.Name
}

func (in report) hasNamedStages() bool {
	return in.App.Spec.Rollout != nil && len(in.App.Spec.Rollout.Stages) > 0
}

// soakSeconds returns how long a stage soaks.
func (in report) soakSeconds(stage *v1alpha1.RolloutStageStatus) int32 {
	for _, s := range in.App.Spec.Rollout.Stages {
		if s.Name == stage.Name && s.SoakSeconds != nil {
			return *s.SoakSeconds
		}
	}
	return 0
}

// promote returns how to end a stage. The name of the last stage would need quotes in a shell; all
// stages before it are over, so that the revision alone has the same effect.
func (in report) promote(stage *v1alpha1.RolloutStageStatus) string {
	name := stage.Name
	if name == stages.RestStage {
		name = ""
	}
	return annotate(v1alpha1.AnnotationPromote, in.Rollout.Revision, name)
}

func (in report) retry() string { return annotate(v1alpha1.AnnotationRetry, in.Rollout.Revision, "") }

// annotate returns which annotation to set.
func annotate(annotation string, revision int64, stage string) string {
	value := strconv.FormatInt(revision, 10)
	if stage != "" {
		value += "/" + stage
	}
	return fmt.Sprintf("annotate the AppService with %s=%s", annotation, value)
}

func availableIn(stage *v1alpha1.RolloutStageStatus) string {
	return fmt.Sprintf("%d of %s %s available", stage.Available, wording.CountClusters(stage.Clusters), verbIn(stage, stage.Available))
}

// verbIn returns the form of "to be" for a number of the clusters of a stage: "0 of 1 cluster is".
func verbIn(stage *v1alpha1.RolloutStageStatus, n int32) string {
	if stage.Clusters == 1 {
		return "is"
	}
	return verb(n, "is", "are")
}

func failedIn(stage *v1alpha1.RolloutStageStatus) string {
	if stage.Failed == 0 {
		return ""
	}
	return fmt.Sprintf(", %d failed", stage.Failed)
}

// verb returns the form of a verb for a number.
func verb(n int32, singular, plural string) string {
	if n == 1 {
		return singular
	}
	return plural
}

// maxRequestErrors is the maximum number of values of annotations that a message explains.
const maxRequestErrors = 3

// plainValue matches values that a message can contain without quotes.
var plainValue = regexp.MustCompile(`^[A-Za-z0-9./()_-]+$`)

// requestErrors returns which values of annotations have no effect, and why. It returns "" if there
// are none.
func (in report) requestErrors() string {
	var text strings.Builder
	for i, e := range in.RequestErrors {
		if i == maxRequestErrors {
			fmt.Fprintf(&text, "; %d more values of annotations have no effect", len(in.RequestErrors)-i)
			break
		}
		value := e.Value
		if !plainValue.MatchString(value) {
			value = strconv.Quote(value)
		}
		fmt.Fprintf(&text, "; %s=%s has no effect: %s", e.Annotation, value, requestProblem(e))
	}
	return text.String()
}

// stopsRollout reports whether an annotation only stops a rollout. Such a request counts whenever it was
// set.
func stopsRollout(annotation string) bool {
	return annotation == v1alpha1.AnnotationPause || annotation == v1alpha1.AnnotationAbort
}

// requestProblem says why a value of an annotation has no effect.
func requestProblem(e stages.RequestError) string {
	number, stage, _ := strings.Cut(e.Value, "/")
	switch {
	case e.Problem == stages.RequestTooEarly && stage != "":
		return fmt.Sprintf("it was set before the status showed stage %s of revision %s: remove it, and set it again if you still want it", stage, number)
	case e.Problem == stages.RequestTooEarly:
		return fmt.Sprintf("it was set before the status showed revision %s: remove it, and set it again if you still want it", number)
	case e.Problem == stages.RequestOfNewerRevision && stopsRollout(e.Annotation):
		return fmt.Sprintf("there is no revision %s yet", number)
	case e.Problem == stages.RequestOfNewerRevision:
		return fmt.Sprintf("there is no revision %s, and it will not count for a later one", number)
	case e.Problem == stages.RequestOfUnknownStage:
		return "spec.rollout has no stage " + stage
	case e.Annotation == v1alpha1.AnnotationApprove:
		return "it must be REVISION/STAGE, such as 7/eu"
	case e.Annotation == v1alpha1.AnnotationPromote:
		return "it must be REVISION or REVISION/STAGE, such as 7 or 7/eu"
	}
	return "it must be REVISION, such as 7"
}
