package configuration

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// KnownReason returns the reason of an error of an API server if Kubernetes defines it, and otherwise
// "". An admission webhook chooses the reason and the message of a refusal, and may quote the object.
// So nothing else of an error about a Secret is shown, beside the code.
func KnownReason(reason metav1.StatusReason) metav1.StatusReason {
	switch reason {
	case metav1.StatusReasonUnauthorized, metav1.StatusReasonForbidden, metav1.StatusReasonNotFound, metav1.StatusReasonAlreadyExists,
		metav1.StatusReasonConflict, metav1.StatusReasonInvalid, metav1.StatusReasonServerTimeout, metav1.StatusReasonTimeout,
		metav1.StatusReasonTooManyRequests, metav1.StatusReasonBadRequest, metav1.StatusReasonMethodNotAllowed,
		metav1.StatusReasonNotAcceptable, metav1.StatusReasonRequestEntityTooLarge, metav1.StatusReasonUnsupportedMediaType,
		metav1.StatusReasonInternalError, metav1.StatusReasonExpired, metav1.StatusReasonServiceUnavailable, metav1.StatusReasonStoreReadError:
		return reason
	}
	return metav1.StatusReasonUnknown
}
