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

// WithRefusedSlices returns the status with conditions that say that the hub refuses
// AppServiceSlices. It reports false for an error that may be temporary, such as a conflict or a
// timeout.
func WithRefusedSlices(app *v1alpha1.AppService, current v1alpha1.AppServiceStatus, refusal error, now metav1.Time) (v1alpha1.AppServiceStatus, bool) {
	var answer apierrors.APIStatus
	if !errors.As(refusal, &answer) {
		return current, false
	}
	switch code := answer.Status().Code; {
	case code < 400, code >= 500, code == http.StatusConflict, code == http.StatusTooManyRequests, code == http.StatusUnauthorized:
		return current, false
	}
	message := "the hub refuses an AppServiceSlice, so the plan is not complete: change the quota, the policy or the webhook that refuses it; " + rollout.BoundMessage(refusal.Error())
	in := report{Input: rollout.Input{App: app, Now: now}}
	next := current
	next.Conditions = slices.DeleteFunc(slices.Clone(current.Conditions), func(c metav1.Condition) bool {
		return c.Type != v1alpha1.ConditionPlaced && c.Type != v1alpha1.ConditionSuspended
	})
	next.Conditions = append(next.Conditions, in.keepTimes([]metav1.Condition{
		condition(v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonSlicesRefused, message),
		condition(v1alpha1.ConditionStalled, metav1.ConditionTrue, v1alpha1.ReasonSlicesRefused, message),
	})...)
	return next, true
}
