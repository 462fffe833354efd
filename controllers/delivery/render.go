package delivery

import (
	"errors"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/configuration"
	"github.com/fleetwright/fleetwright/controllers/delivery/object"
	"github.com/fleetwright/fleetwright/controllers/podsecurity"
	"github.com/fleetwright/fleetwright/controllers/workload"
)

// render returns the desired objects of a task.
func render(t task, hubID string) (workload.Workload, error) {
	app := *t.app
	app.Spec = *t.spec
	desired, err := workload.Render(&app, t.entry, t.member, hubID, t.copyNames)
	if workload.IsInvalid(err) {
		return desired, &object.Blocker{Reason: v1alpha1.ReasonInvalidOverride, Message: err.Error()}
	}
	if err != nil {
		return desired, err
	}
	if refusal, err := refusalOf(t, desired); err != nil {
		return desired, err
	} else if refusal != "" {
		return desired, &object.Blocker{Reason: v1alpha1.ReasonPodSecurityRefused, Message: refusal + "; the cluster keeps what it runs"}
	}
	desired, err = desired.KeepSelector(t.objects.deployment, t.objects.service)
	if errors.Is(err, workload.ErrNoLabels) {
		return desired, &object.Blocker{Reason: v1alpha1.ReasonConflict, Message: err.Error()}
	}
	return desired, err
}

// refusalOf returns why the pod template of a task violates the policy of its revision, or "". The
// planner gives a cluster no such revision; but since then, a label of the MemberCluster may have
// changed, and with it the overrides that match. What runs goes on: a Deployment that was applied
// as it is desired is not checked again, nor one whose pods violate the policy in the same way.
func refusalOf(t task, desired workload.Workload) (string, error) {
	if t.podSecurity == nil {
		return "", nil
	}
	isApplied := t.objects.isOwned("Deployment") &&
		t.objects.deployment.Annotations[v1alpha1.AnnotationHash] == desired.Deployment.GetAnnotations()[v1alpha1.AnnotationHash]
	if isApplied {
		return "", nil
	}
	template, err := desired.PodTemplate()
	if err != nil {
		return "", err
	}
	refusal := podsecurity.Refusal(template, t.podSecurity)
	if refusal != "" && t.objects.isOwned("Deployment") && refusal == podsecurity.Refusal(&t.objects.deployment.Spec.Template, t.podSecurity) {
		return "", nil
	}
	return refusal, nil
}

// withConfiguration returns the task with the copies that the member needs. The snapshots are those
// of its revision.
func withConfiguration(t task, named []configuration.Named) (task, error) {
	if len(t.spec.Configuration) == 0 {
		return t, nil
	}
	app := *t.app
	app.Spec = *t.spec
	var err error
	t.copyNames, t.copies, err = workload.Configuration(&app, t.member, named)
	switch {
	case workload.IsInvalid(err):
		return t, &object.Blocker{Reason: v1alpha1.ReasonInvalidOverride, Message: err.Error()}
	case errors.Is(err, workload.ErrNoSnapshot):
		return t, &object.Blocker{Reason: v1alpha1.ReasonSnapshotMissing, Message: "the cluster keeps what it runs: " + err.Error()}
	}
	return t, err
}
