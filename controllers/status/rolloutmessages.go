package status

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/rollout"
	"github.com/fleetwright/fleetwright/controllers/rollout/stages"
	"github.com/fleetwright/fleetwright/controllers/rollout/wording"
)

// The messages of a rollout contain no times, so that they change only when a user would notice.
// Where a user can do something, they end with that, literally.

// targetName returns the revision that the clusters get, and what it changes if that is only the
// configuration: "revision 8 (configuration: settings)".
func targetName(state *v1alpha1.RolloutStatus) string {
	name := "revision " + strconv.FormatInt(state.Revision, 10)
	if changed := state.ChangedSources; len(changed) > 0 {
		name += fmt.Sprintf(" (configuration: %s)", wording.CapNames(changed))
	}
	return name
}

// hasNamedStages reports whether spec.rollout has stages. Otherwise there is only one, which has no name.
func hasNamedStages(spec *v1alpha1.Rollout) bool { return spec != nil && len(spec.Stages) > 0 }

// pauseMessage says why a rollout is paused and how to continue it.
func pauseMessage(in rollout.Input, outcome *stages.Outcome) string {
	spec := in.App.Spec.Rollout
	switch {
	case in.App.IsSuspended():
		return "it is paused by spec.suspend: set that to false"
	case in.PlanError != nil:
		return "it is paused, because spec.placement is invalid: correct it"
	case outcome.StageError != nil:
		return fmt.Sprintf("it is paused, because stage %s is invalid: correct spec.rollout", outcome.StageError.Stage)
	case spec != nil && spec.Paused && outcome.IsPauseRequested:
		return fmt.Sprintf("it is paused: set spec.rollout.paused to false, and remove the annotation %s", v1alpha1.AnnotationPause)
	case spec != nil && spec.Paused:
		return "it is paused: set spec.rollout.paused to false"
	case outcome.IsPauseRequested:
		return fmt.Sprintf("it is paused: remove the annotation %s", v1alpha1.AnnotationPause)
	}
	return "it is paused, because the hub is behind a cluster: the condition Ready says how to accept that"
}

// annotate returns which annotation to set.
func annotate(annotation string, revision int64, stage string) string {
	value := strconv.FormatInt(revision, 10)
	if stage != "" {
		value += "/" + stage
	}
	return fmt.Sprintf("annotate the AppService with %s=%s", annotation, value)
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
func requestErrors(all []stages.RequestError) string {
	var text strings.Builder
	for i, e := range all {
		if i == maxRequestErrors {
			fmt.Fprintf(&text, "; %d more values of annotations have no effect", len(all)-i)
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
	case e.Problem == stages.RequestTooEarly && e.Annotation == v1alpha1.AnnotationRetry:
		return fmt.Sprintf("it was set before the status showed that revision %s failed: remove it, and set it again if you still want it", number)
	case e.Problem == stages.RequestTooEarly:
		return fmt.Sprintf("it was set before the status showed revision %s: remove it, and set it again if you still want it", number)
	case e.Problem == stages.RequestOfNewerRevision && stopsRollout(e.Annotation):
		return fmt.Sprintf("there is no revision %s yet", number)
	case e.Problem == stages.RequestOfNewerRevision:
		return fmt.Sprintf("there is no revision %s, and it will not count for a later one", number)
	case e.Problem == stages.RequestOfStableRevision:
		return fmt.Sprintf("revision %s is the stable one: change the spec to leave it, as kubectl appsvc rollout undo does", number)
	case e.Problem == stages.RequestOfUnknownStage:
		return "spec.rollout has no stage " + stage
	case e.Annotation == v1alpha1.AnnotationApprove:
		return "it must be REVISION/STAGE, such as 7/eu"
	case e.Annotation == v1alpha1.AnnotationPromote:
		return "it must be REVISION or REVISION/STAGE, such as 7 or 7/eu"
	}
	return "it must be REVISION, such as 7"
}
