package status

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/configuration"
	"github.com/fleetwright/fleetwright/controllers/rollout"
	"github.com/fleetwright/fleetwright/controllers/rollout/wording"
)

// ConfigurationStep is a change of the configuration that is reported to users once.
type ConfigurationStep struct {
	// Reason is a reason of an event.
	Reason string
	// Subject is the revision or the source that the step is about, or "" if it is about all sources.
	Subject string
	Message string
	// Bad reports whether a user may have to act.
	Bad bool
}

// ConfigurationSteps returns the steps of the configuration to report after the status of a decision
// was written: another content, and why the present content of a source is not used. They never have
// content.
func ConfigurationSteps(in rollout.Input, decision rollout.Decision, next v1alpha1.AppServiceStatus) []ConfigurationStep {
	if in.Configuration == nil {
		return nil
	}
	var steps []ConfigurationStep
	var changed []string
	for _, source := range next.Configuration {
		previous := previousSource(in.App, configuration.Ref{Kind: source.Kind, From: source.From})
		isChanged := previous != nil && previous.Snapshot != "" && previous.Snapshot != source.Snapshot
		switch {
		case isChanged && source.UpToDate != "": // it is updated in place
			name := fmt.Sprintf("%s %s", source.Kind, source.From)
			steps = append(steps, ConfigurationStep{
				Reason: v1alpha1.ReasonConfigurationChanged, Subject: fmt.Sprintf("serial %d of %s", source.Serial, name),
				Message: fmt.Sprintf("%s has another content, serial %d, which reaches all clusters at once", name, source.Serial),
			})
		case isChanged && !slices.Contains(changed, source.From):
			changed = append(changed, source.From)
		}
	}
	if len(changed) > 0 && decision.Rollout.Revision != in.App.Status.Rollout.Revision {
		subject := fmt.Sprintf("revision %d", decision.Rollout.Revision)
		steps = append(steps, ConfigurationStep{
			Reason: v1alpha1.ReasonConfigurationChanged, Subject: subject,
			Message: fmt.Sprintf("%s has another content of %s", subject, wording.CapNames(changed)),
		})
	}
	return append(steps, configuredStep(in.App.Status.Conditions, next.Conditions)...)
}

// configuredStep returns the step for a change of the condition Configured. While changes are
// collected, there is none: they are used within seconds.
func configuredStep(previous, next []metav1.Condition) []ConfigurationStep {
	before := meta.FindStatusCondition(previous, v1alpha1.ConditionConfigured)
	after := meta.FindStatusCondition(next, v1alpha1.ConditionConfigured)
	switch {
	case after == nil || after.Reason == v1alpha1.ReasonConfigurationChanged:
	case after.Status == metav1.ConditionFalse && (before == nil || before.Reason != after.Reason):
		return []ConfigurationStep{{Reason: after.Reason, Message: after.Message, Bad: true}}
	case after.Status == metav1.ConditionTrue && before != nil && before.Status == metav1.ConditionFalse && before.Reason != v1alpha1.ReasonConfigurationChanged:
		return []ConfigurationStep{{Reason: after.Reason, Message: after.Message}}
	}
	return nil
}
