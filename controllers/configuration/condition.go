package configuration

import (
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
)

// severities are the reasons of sources, the most severe first.
var severities = []string{
	v1alpha1.ReasonHubBehind, v1alpha1.ReasonSnapshotMissing, v1alpha1.ReasonNameTaken,
	v1alpha1.ReasonTypeRefused, v1alpha1.ReasonTooLarge, v1alpha1.ReasonPropagationDisabled,
	v1alpha1.ReasonConfigurationForbidden, v1alpha1.ReasonConfigurationUnavailable, v1alpha1.ReasonNotPropagated,
	v1alpha1.ReasonConfigurationMissing, v1alpha1.ReasonSourceDeleted, v1alpha1.ReasonConfigurationChangesOften, v1alpha1.ReasonConfigurationChanged,
}

// maxOthers is the maximum number of other sources that a message names.
const maxOthers = 4

// blocker returns why there must not be a new revision: a source has no content that a cluster can
// get. It returns nil if all have one.
func blocker(sources []*source, others int) *Problem {
	if others > 0 {
		return tooManyProblem(others)
	}
	var worst *Problem
	for _, s := range sources {
		problem := s.explain()
		if s.isHeld || s.hasContent() || problem == nil {
			continue
		}
		if worst == nil || slices.Index(severities, problem.Reason) < slices.Index(severities, worst.Reason) {
			worst = problem
		}
	}
	return worst
}

// delayed returns why a change is not used yet that would be, had a request not failed, or had other
// sources not changed too often.
func delayed(sources []*source) *Problem {
	for _, s := range sources {
		isSeen := s.hub.Presence == PresenceFound || s.hub.Presence == PresenceAbsent
		if (s.isFailed || s.isDelayed) && !s.isHeld && isSeen && s.mayDiffer() {
			return s.explain()
		}
	}
	return nil
}

func tooManyProblem(others int) *Problem {
	return &Problem{v1alpha1.ReasonTooLarge, fmt.Sprintf("spec.configuration and the overrides have %d sources, and %d are allowed: remove some, or divide the AppService; there is no new revision until then", MaxSources+others, MaxSources)}
}

// configured returns the condition Configured, without its time and generation, or nil if the spec
// has no configuration.
func configured(next []v1alpha1.ConfigurationStatus, hasSources bool, others int) *metav1.Condition {
	if !hasSources {
		return nil
	}
	var bad []v1alpha1.ConfigurationStatus
	for _, reason := range severities {
		for _, status := range next {
			if status.Reason == reason {
				bad = append(bad, status)
			}
		}
	}
	condition := &metav1.Condition{Type: v1alpha1.ConditionConfigured, Status: metav1.ConditionFalse}
	switch {
	case others > 0:
		condition.Reason, condition.Message = v1alpha1.ReasonTooLarge, tooManyProblem(others).Message
	case len(bad) > 0:
		condition.Reason, condition.Message = bad[0].Reason, bad[0].Message+otherSources(bad[1:])
	default:
		condition.Status, condition.Reason = metav1.ConditionTrue, v1alpha1.ReasonConfigured
		condition.Message = "the snapshots have the present content of all sources"
	}
	return condition
}

// otherSources returns the sources after the first that have a reason.
func otherSources(bad []v1alpha1.ConfigurationStatus) string {
	if len(bad) == 0 {
		return ""
	}
	names := make([]string, 0, maxOthers)
	for _, status := range bad[:min(len(bad), maxOthers)] {
		names = append(names, fmt.Sprintf("%s (%s)", Ref{status.Kind, status.From}.describe(), status.Reason))
	}
	message := "; also " + strings.Join(names, ", ")
	if len(bad) > maxOthers {
		message += fmt.Sprintf(" and %d more", len(bad)-maxOthers)
	}
	return message
}
