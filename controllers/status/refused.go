package status

import (
	"errors"
	"net/http"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/rollout"
	"github.com/fleetwright/fleetwright/controllers/rollout/wording"
)

// effects say what is not done while the hub refuses objects, by reason.
var effects = map[string]string{
	v1alpha1.ReasonSlicesRefused:    "the hub refuses an AppServiceSlice, so the plan is not complete",
	v1alpha1.ReasonRevisionsRefused: "the hub refuses to store or return a ControllerRevision, so the new template is not delivered",
}

// IsRefusal reports whether an error is the answer of the hub that it refuses an object. It reports false
// for an error that may be temporary, such as a conflict or a timeout.
func IsRefusal(err error) bool {
	var answer apierrors.APIStatus
	if !errors.As(err, &answer) {
		return false
	}
	code := answer.Status().Code
	return code >= 400 && code < 500 && code != http.StatusConflict && code != http.StatusTooManyRequests && code != http.StatusUnauthorized
}

func refusalMessage(reason string, refusal error) string {
	return effects[reason] + ": change the permission, the quota, the policy or the webhook that refuses it; " + wording.Bound(refusal.Error())
}

// withRefusedRevision returns the conditions of an AppService whose next revision the hub refuses, or
// whose revisions it does not return. The rollout of the revision before goes on, and RolledOut describes
// it until it is over. Configured stays if the configuration could not be decided.
func withRefusedRevision(in rollout.Input, conditions []metav1.Condition) []metav1.Condition {
	message := refusalMessage(v1alpha1.ReasonRevisionsRefused, in.RevisionRefused)
	next := slices.DeleteFunc(conditions, func(c metav1.Condition) bool {
		isOver := c.Type == v1alpha1.ConditionRolledOut && c.Status == metav1.ConditionTrue
		return isOver || slices.Contains([]string{v1alpha1.ConditionReady, v1alpha1.ConditionStalled, v1alpha1.ConditionReconciling}, c.Type)
	})
	refused := []metav1.Condition{
		condition(v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonRevisionsRefused, message),
		condition(v1alpha1.ConditionStalled, metav1.ConditionTrue, v1alpha1.ReasonRevisionsRefused, message),
	}
	if configured := meta.FindStatusCondition(in.App.Status.Conditions, v1alpha1.ConditionConfigured); configured != nil && in.Configuration == nil {
		next = append(next, *configured)
	}
	if in.App.Spec.Rollout != nil && meta.FindStatusCondition(next, v1alpha1.ConditionRolledOut) == nil {
		refused = append(refused, condition(v1alpha1.ConditionRolledOut, metav1.ConditionFalse, v1alpha1.ReasonRevisionsRefused, message))
	}
	return append(next, refused...)
}

// WithRefusal returns the status with conditions that say that the hub refuses objects. The reason
// is SlicesRefused or RevisionsRefused. It reports false for an error that may be temporary, such
// as a conflict or a timeout.
func WithRefusal(app *v1alpha1.AppService, current v1alpha1.AppServiceStatus, reason string, refusal error, now metav1.Time) (v1alpha1.AppServiceStatus, bool) {
	if !IsRefusal(refusal) {
		return current, false
	}
	message := refusalMessage(reason, refusal)
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
	next.Conditions = append(next.Conditions, keepTimes(app, now, refused)...)
	return next, true
}
