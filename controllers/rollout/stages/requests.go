package stages

import (
	"slices"
	"strconv"
	"strings"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
)

const (
	// maxRequests is the maximum number of values of an annotation that are read. There is at most
	// one for each stage, and users may leave some of earlier revisions.
	maxRequests = 256
	// maxRequestErrors is the maximum number of errors that are reported for an annotation.
	maxRequestErrors = 3
	// maxRequestText is the maximum length of a value in an error.
	maxRequestText = 80
)

// requests are what users ask for by annotations, for the revision of the spec.
type requests struct {
	// Approved and Promoted are names of stages.
	Approved, Promoted map[string]bool
	// IsPromoted is set if all stages are promoted.
	IsPromoted bool
	// IsPaused and IsAborted are set if the rollout is paused or aborted.
	IsPaused, IsAborted bool
	// IsRetried is set if the revision is to be tried again when it has failed.
	IsRetried bool
	// Errors are the values that have no effect, and why.
	Errors []RequestError
}

// RequestProblem says why a value of an annotation has no effect.
type RequestProblem string

const (
	// RequestMalformed: the value has not the form REVISION or REVISION/STAGE.
	RequestMalformed RequestProblem = "Malformed"
	// RequestOfNewerRevision: the value names a revision that does not exist yet.
	RequestOfNewerRevision RequestProblem = "NewerRevision"
	// RequestOfUnknownStage: the value names a stage that spec.rollout does not have.
	RequestOfUnknownStage RequestProblem = "UnknownStage"
	// RequestTooEarly: the value was set before the status showed what it names.
	RequestTooEarly RequestProblem = "TooEarly"
	// RequestOfStableRevision: the value aborts the stable revision, which is what clusters return to.
	RequestOfStableRevision RequestProblem = "StableRevision"
)

// RequestError is a value of an annotation that has no effect.
type RequestError struct {
	// Annotation is the key.
	Annotation string
	// Value is the value, or the item of the value. It is shortened.
	Value string
	// Problem is why the value has no effect.
	Problem RequestProblem
}

// request is one value of an annotation.
type request struct {
	revision int64
	stage    string
}

// requests returns what the annotations ask for. Values for another revision that exists are ignored.
func (in Input) requests() requests {
	result := requests{Approved: map[string]bool{}, Promoted: map[string]bool{}}
	for _, found := range in.readRequests(v1alpha1.AnnotationApprove, &result) {
		if found.stage == "" {
			result.report(v1alpha1.AnnotationApprove, strconv.FormatInt(found.revision, 10), RequestMalformed)
			continue
		}
		result.Approved[found.stage] = true
	}
	for _, found := range in.readRequests(v1alpha1.AnnotationPromote, &result) {
		if found.stage == "" {
			result.IsPromoted = true
			continue
		}
		result.Promoted[found.stage] = true
	}
	result.IsPaused = in.isRequested(v1alpha1.AnnotationPause, &result)
	result.IsAborted = in.isRequested(v1alpha1.AnnotationAbort, &result)
	result.IsRetried = in.isRequested(v1alpha1.AnnotationRetry, &result)
	return result
}

// isRequested reports whether an annotation without a stage names the revision of the spec.
func (in Input) isRequested(annotation string, result *requests) bool {
	requested := false
	for _, found := range in.readRequests(annotation, result) {
		if found.stage != "" {
			result.report(annotation, in.App.Annotations[annotation], RequestMalformed)
			continue
		}
		requested = true
	}
	return requested
}

// readRequests returns the values of an annotation for the revision of the spec. It adds values that
// have no effect to the errors.
func (in Input) readRequests(annotation string, result *requests) []request {
	var found []request
	known := max(in.Revision, in.App.Status.Rollout.Revision, in.App.Status.Rollout.LatestRevision)
	items, rest := itemsOf(in.App.Annotations[annotation])
	for _, item := range items {
		number, stage, hasStage := strings.Cut(item, "/")
		revision, err := strconv.ParseInt(number, 10, 64)
		switch {
		case err != nil, revision <= 0, strconv.FormatInt(revision, 10) != number, hasStage && stage == "":
			result.report(annotation, item, RequestMalformed)
		case revision > known:
			result.report(annotation, item, RequestOfNewerRevision)
		case revision != in.Revision: // it has had its effect, or never gets one
		case hasStage && !in.hasStage(stage):
			result.report(annotation, item, RequestOfUnknownStage)
		default:
			found = append(found, request{revision, stage})
		}
	}
	if rest != "" {
		result.report(annotation, rest, RequestMalformed)
	}
	return found
}

// itemsOf returns the values in an annotation, and what is left after the first maxRequests.
func itemsOf(annotation string) (items []string, rest string) {
	rest = annotation
	for count := 0; rest != "" && count < maxRequests; count++ {
		var item string
		item, rest, _ = strings.Cut(rest, ",")
		if item = strings.TrimSpace(item); item != "" {
			items = append(items, item)
		}
	}
	return items, rest
}

// hasStage reports whether the rollout has a stage with this name.
func (in Input) hasStage(name string) bool {
	if in.App.Spec.Rollout == nil {
		return false
	}
	for _, stage := range in.App.Spec.Rollout.Stages {
		if stage.Name == name {
			return true
		}
	}
	return name == RestStage
}

// report adds an error once, unless the annotation has enough of them.
func (r *requests) report(annotation, value string, problem RequestProblem) {
	value = value[:min(len(value), maxRequestText)] // a part of a character is replaced
	next := RequestError{annotation, strings.ToValidUTF8(value, "\uFFFD"), problem}
	count := 0
	for _, reported := range r.Errors {
		if reported == next {
			return
		}
		if reported.Annotation == annotation {
			count++
		}
	}
	if count < maxRequestErrors {
		r.Errors = append(r.Errors, next)
	}
}

// RetriesRevision reports whether the annotation retry asks for the template of the failed revision
// again. The planner then stores it as a new revision, so the annotation has its effect only once.
// It has no effect before the rollback has ended, nor if it was set before the revision existed.
func RetriesRevision(app *v1alpha1.AppService) bool {
	return retries(app, &app.Status.Rollout)
}

// retries reports the same for the state that a decision leaves.
func retries(app *v1alpha1.AppService, state *v1alpha1.RolloutStatus) bool {
	failed := state.Phase == v1alpha1.RolloutHalted || state.Phase == v1alpha1.RolloutRolledBack
	items, _ := itemsOf(app.Annotations[v1alpha1.AnnotationRetry])
	isRetried := slices.Contains(items, strconv.FormatInt(state.Revision, 10))
	return failed && isRetried && !state.RetryRefused && state.Revision == state.FailedRevision
}
