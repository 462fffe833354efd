package rollout

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
)

// needsAcknowledgement reports whether the removal is held until somebody accepts it. One that is held because clusters changed stays held,
// even when it is the only one left, and whatever is edited.
func (t *removalBudget) needsAcknowledgement(e *entryPlan) bool {
	switch transition := e.entry.Transition; {
	case !isUnintended(e):
		return false
	case transition.Cause == v1alpha1.CauseDrift:
		return transition.Type == v1alpha1.TransitionRemovalNeedsApproval || t.unintended > t.maxConcurrent
	}
	return true
}

// isLast reports whether the plan chooses no cluster, and no other than this is known to be ready.
func (t *removalBudget) isLast(e *entryPlan) bool {
	if t.chooses || !t.in.mayServe(e) {
		return false
	}
	return !slices.ContainsFunc(t.plans, func(other entryPlan) bool { return other.entry.Name != e.entry.Name && isServing(&other) })
}

// acknowledge marks the removals that the annotation accepts: those that are held, when it covers all of them, and then those that wait.
func (t *removalBudget) acknowledge() {
	number, _ := t.in.acceptedRemovals()
	left := int(number - t.counted.Accepted)
	var asking, others []*entryPlan
	for _, e := range t.leaving {
		switch {
		case e.entry.Transition.Accepted:
		case t.needsAcknowledgement(e), t.isLast(e):
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
			t.unintended--
		}
		e.entry.Transition.Accepted = true
		t.counted.Accepted++
		t.counted.AcceptedGeneration = t.in.App.Generation
	}
}

// acceptedRemovals returns how many removals the annotation accepts at the present generation, or 0 and what is wrong with its value.
func (in Input) acceptedRemovals() (accepted int32, annotationError string) {
	value, found := in.App.Annotations[v1alpha1.AnnotationAcceptRemovals]
	if !found {
		return 0, ""
	}
	count, of, _ := strings.Cut(value, "@")
	number, err := strconv.ParseInt(count, 10, 32)
	generation, generationErr := strconv.ParseInt(of, 10, 64)
	switch {
	case err != nil || generationErr != nil || number < 1:
		return 0, fmt.Sprintf("is %.32q, not NUMBER@GENERATION", value)
	case generation != in.App.Generation:
		return 0, fmt.Sprintf("is %.32q, and the AppService is at generation %d", value, in.App.Generation)
	}
	return int32(number), ""
}
