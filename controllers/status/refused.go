package status

import (
	"errors"
	"net/http"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/rollout"
)

// effects say what is not done while the hub refuses objects, by reason.
var effects = map[string]string{
	v1alpha1.ReasonSlicesRefused:    "the hub refuses an AppServiceSlice, so the plan is not complete",
	v1alpha1.ReasonRevisionsRefused: "the hub refuses a ControllerRevision, so the edit is not delivered",
}

// WithRefusal returns the status with conditions that say that the hub refuses objects. The reason
// is SlicesRefused or RevisionsRefused. It reports false for an error that may be temporary, such
// as a conflict or a timeout.
func WithRefusal(app *v1alpha1.AppService, current v1alpha1.AppServiceStatus, reason string, refusal error, now metav1.Time) (v1alpha1.AppServiceStatus, bool) {
	var answer apierrors.APIStatus
	if !errors.As(refusal, &answer) {
		return current, false
	}
	switch code := answer.Status().Code; {
	case code < 400, code >= 500, code == http.StatusConflict, code == http.StatusTooManyRequests, code == http.StatusUnauthorized:
		return current, false
	}
	message := effects[reason] + ": change the permission, the quota, the policy or the webhook that refuses it; " + rollout.BoundMessage(refusal.Error())
	in := report{Input: rollout.Input{App: app, Now: now}}
	next := current
	next.Conditions = slices.DeleteFunc(slices.Clone(current.Conditions), func(c metav1.Condition) bool {
		return !slices.Contains([]string{v1alpha1.ConditionPlaced, v1alpha1.ConditionSuspended, v1alpha1.ConditionConfigured}, c.Type)
	})
	refused := []metav1.Condition{
		condition(v1alpha1.ConditionReady, metav1.ConditionFalse, reason, message),
		condition(v1alpha1.ConditionStalled, metav1.ConditionTrue, reason, message),
	}
	if app.Spec.Rollout != nil {
		refused = append(refused, condition(v1alpha1.ConditionRolledOut, metav1.ConditionFalse, reason, message))
	}
	next.Conditions = append(next.Conditions, in.keepTimes(refused)...)
	return next, true
}
