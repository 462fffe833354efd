package removal

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/rollout/entryplan"
)

// needsAcknowledgement reports whether a removal is held until a user approves it. A removal that
// is held because clusters changed remains held, even if it is the only one left and regardless of
// later edits.
func (b *budget) needsAcknowledgement(e *entryplan.Plan) bool {
	switch transition := e.Entry.Transition; {
	case !isUnintended(e):
		return false
	case transition.Cause == v1alpha1.CauseClustersChanged:
		return transition.Type == v1alpha1.TransitionRemovalNeedsApproval || b.unintended > b.maxConcurrent
	}
	return true
}

// isLast reports whether the plan has no cluster on which pods are to run, and no cluster other
// than this one is known to be ready.
// docs/decisions/removals-without-an-edit-keep-ready-replicas.md says why.
func (b *budget) isLast(e *entryplan.Plan) bool {
	if b.planCanServe || !mayServe(b.in.App, e) {
		return false
	}
	others := b.serving
	if isServing(b.in.App, e) {
		others--
	}
	return others == 0
}

// acknowledge marks the removals that the annotation approves: first the held removals, but only if
// the number covers all of them, then the waiting removals.
func (b *budget) acknowledge() {
	number, _ := acceptedRemovals(b.in.App)
	left := int(number - b.counted.Accepted)
	var asking, others []*entryplan.Plan
	for _, e := range b.leaving {
		switch {
		case e.Entry.Transition.Accepted:
		case b.isAsking(e):
			asking = append(asking, e)
		default:
			others = append(others, e)
		}
	}
	if left <= 0 || left < len(asking) {
		return
	}
	all := slices.Concat(asking, others)
	for _, e := range all[:min(left, len(all))] {
		if isUnintended(e) {
			b.unintended--
		}
		b.counted.accept(e)
	}
}

// isAsking reports whether a user must approve a removal, and has not.
func (b *budget) isAsking(e *entryplan.Plan) bool {
	return !e.Entry.Transition.Accepted && (b.needsAcknowledgement(e) || b.isLast(e))
}

// countAsking returns the number of removals that a user must approve.
func (b *budget) countAsking() int {
	asking := 0
	for _, e := range b.leaving {
		if b.isAsking(e) {
			asking++
		}
	}
	return asking
}

// acceptedRemovals returns the number of removals that the annotation approves for the current
// generation, or 0 and what is wrong with its value.
// docs/decisions/accept-removals-is-bound-to-a-generation.md says why.
func acceptedRemovals(app *v1alpha1.AppService) (accepted int32, annotationError string) {
	value, found := app.Annotations[v1alpha1.AnnotationAcceptRemovals]
	if !found {
		return 0, ""
	}
	count, of, _ := strings.Cut(value, "@")
	number, err := strconv.ParseInt(count, 10, 32)
	generation, generationErr := strconv.ParseInt(of, 10, 64)
	switch {
	case err != nil || generationErr != nil || number < 1:
		return 0, fmt.Sprintf("is %.32q, not NUMBER@GENERATION", value)
	case generation != app.Generation:
		return 0, fmt.Sprintf("is %.32q, but the AppService has generation %d", value, app.Generation)
	}
	return int32(number), ""
}
