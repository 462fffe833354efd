package sources

import (
	"errors"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/configuration"
)

// hideContent returns an error of the API server with what was being done. Of an error about a Secret,
// only what cannot quote the object is kept.
func hideContent(doing string, kind v1alpha1.ConfigurationKind, err error) error {
	var answer apierrors.APIStatus
	if err == nil || kind != v1alpha1.ConfigurationSecret || !errors.As(err, &answer) {
		return wrap(doing, err)
	}
	status := answer.Status()
	hidden := metav1.Status{Status: metav1.StatusFailure, Code: status.Code, Reason: configuration.KnownReason(status.Reason)}
	hidden.Message = strings.TrimSpace(fmt.Sprintf("%s (%d)", hidden.Reason, status.Code))
	if status.Details != nil {
		hidden.Details = &metav1.StatusDetails{RetryAfterSeconds: status.Details.RetryAfterSeconds}
	}
	return wrap(doing, &apierrors.StatusError{ErrStatus: hidden})
}

func wrap(doing string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", doing, err)
}

// isRefusal reports whether only a change on the hub can end an error: of a permission, a quota or an
// admission policy.
func isRefusal(err error) bool {
	return apierrors.IsForbidden(err) || apierrors.IsInvalid(err) || apierrors.IsBadRequest(err) || apierrors.IsRequestEntityTooLargeError(err)
}

// maxRefusal is the maximum length of an error in a message. A webhook can send any.
const maxRefusal = 300

// problemOf returns the problem of a source because of a refusal by the hub.
func problemOf(namespace string, refusal error) *configuration.Problem {
	text := refusal.Error()
	if len(text) > maxRefusal {
		text = strings.ToValidUTF8(text[:maxRefusal], "") + "…"
	}
	return &configuration.Problem{
		Reason:  v1alpha1.ReasonConfigurationForbidden,
		Message: fmt.Sprintf("the hub refuses what Fleetwright needs: %s: ask an administrator to grant config/propagation in namespace %s, or to check its quotas and admission policies", text, namespace),
	}
}
