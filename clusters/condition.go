package clusters

import (
	"errors"
	"net/http"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/clusters/kubeconfig"
	"github.com/fleetwright/fleetwright/clusters/transport"
)

// conditionState is the status, reason and message of a condition.
type conditionState struct {
	status          metav1.ConditionStatus
	reason, message string
}

// conditionFor returns the state of the member's Ready condition for a connection error.
func conditionFor(err error) conditionState {
	var refusal *kubeconfig.RejectedError
	if errors.As(err, &refusal) {
		return conditionState{metav1.ConditionFalse, v1alpha1.ReasonNoConnection, refusal.Message}
	}
	var wrong *identityError
	if errors.As(err, &wrong) {
		return conditionState{metav1.ConditionFalse, wrong.reason, wrong.message}
	}
	switch code := transport.StatusCode(err); {
	case code == http.StatusUnauthorized:
		return conditionState{metav1.ConditionFalse, v1alpha1.ReasonUnauthorized, "the member rejects the credentials; renew the Secret's kubeconfig"}
	case code == http.StatusForbidden:
		return conditionState{metav1.ConditionFalse, v1alpha1.ReasonForbidden, "the credentials lack a permission: " + transport.SafeMessage(err)}
	case code != 0:
		return conditionState{metav1.ConditionUnknown, v1alpha1.ReasonUnhealthy, transport.SafeMessage(err)}
	case errors.Is(err, transport.ErrNotAPIServer):
		return conditionState{metav1.ConditionUnknown, v1alpha1.ReasonUnhealthy, transport.ErrNotAPIServer.Error()}
	case transport.IsWrongServer(err):
		return conditionState{metav1.ConditionUnknown, v1alpha1.ReasonUnhealthy, "the server is not the member: " + transport.SafeMessage(err)}
	case transport.CredentialAlert(err) != "":
		return conditionState{metav1.ConditionFalse, v1alpha1.ReasonUnauthorized, transport.SafeMessage(err) + "; renew the Secret's kubeconfig"}
	case transport.RemoteAlert(err) != "":
		return conditionState{metav1.ConditionUnknown, v1alpha1.ReasonUnhealthy, "cannot connect to the member: " + transport.SafeMessage(err)}
	case transport.IsNetworkError(err):
		return conditionState{metav1.ConditionUnknown, v1alpha1.ReasonUnreachable, "the member does not answer: " + transport.SafeMessage(err)}
	}
	return conditionState{metav1.ConditionUnknown, v1alpha1.ReasonUnhealthy, transport.SafeMessage(err)}
}
