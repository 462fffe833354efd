package status

import (
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/configuration"
	"github.com/fleetwright/fleetwright/controllers/rollout"
)

// ConfigurationSteps returns the changes of the configuration to report once after a status was
// written: another content, and why the present content of a source cannot be used. They never have
// content.
func ConfigurationSteps(from rollout.Input, decision rollout.Decision, next v1alpha1.AppServiceStatus) []RolloutStep {
	in := report{from, decision}
	if in.Configuration == nil {
		return nil
	}
	var steps []RolloutStep
	if in.Rollout.Revision != in.App.Status.Rollout.Revision && len(in.Rollout.ChangedSources) > 0 {
		steps = append(steps, RolloutStep{Reason: v1alpha1.ReasonConfigurationChanged, Message: in.target() + " has another content of its configuration"})
	}
	for _, source := range next.Configuration {
		previous := in.previousSource(configuration.Ref{Kind: source.Kind, From: source.From})
		if previous != nil && previous.Serial != 0 && source.Serial != previous.Serial && source.UpToDate != "" {
			steps = append(steps, RolloutStep{
				Reason:  v1alpha1.ReasonConfigurationChanged,
				Message: fmt.Sprintf("%s %s has another content, serial %d, which reaches all clusters at once", source.Kind, source.From, source.Serial),
			})
		}
	}
	return append(steps, in.configuredStep(next)...)
}

// configuredStep returns the step for a change of the condition Configured. While changes are
// collected, there is none: they are used within seconds.
func (in report) configuredStep(next v1alpha1.AppServiceStatus) []RolloutStep {
	before := meta.FindStatusCondition(in.App.Status.Conditions, v1alpha1.ConditionConfigured)
	after := meta.FindStatusCondition(next.Conditions, v1alpha1.ConditionConfigured)
	switch {
	case after == nil || after.Reason == v1alpha1.ReasonConfigurationChanged:
	case after.Status == metav1.ConditionFalse && (before == nil || before.Reason != after.Reason):
		return []RolloutStep{{Reason: after.Reason, Message: after.Message, Bad: true}}
	case after.Status == metav1.ConditionTrue && before != nil && before.Status == metav1.ConditionFalse && before.Reason != v1alpha1.ReasonConfigurationChanged:
		return []RolloutStep{{Reason: after.Reason, Message: after.Message}}
	}
	return nil
}
