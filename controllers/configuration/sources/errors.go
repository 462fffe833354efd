package sources

import (
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"strings"
	"syscall"

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
	return &configuration.Problem{
		Reason:  v1alpha1.ReasonConfigurationForbidden,
		Message: fmt.Sprintf("the hub refuses what Fleetwright needs: %s: ask an administrator to grant config/propagation in namespace %s, or to check its quotas and admission policies", shorten(refusal), namespace),
	}
}

// failureOf returns the problem of a source because of an error that may be temporary.
func failureOf(err error) *configuration.Problem {
	return &configuration.Problem{
		Reason:  v1alpha1.ReasonConfigurationUnavailable,
		Message: fmt.Sprintf("the hub gave no usable answer: %s: it is tried again by itself; if it lasts, check the API server of the hub and its webhooks", shorten(err)),
	}
}

// ownAddress matches the address from which the hub has called a webhook, whose port differs each time.
var ownAddress = regexp.MustCompile(`\S+:\d+->`)

// shorten returns the text of an error, cut to maxRefusal. Network errors have ports that differ each
// time: they are left out.
func shorten(err error) string {
	text := err.Error()
	var request *url.Error
	var number syscall.Errno
	switch {
	case !errors.As(err, &request):
	case errors.As(err, &number):
		text = strings.Replace(text, request.Error(), number.Error(), 1)
	case request.Timeout():
		text = strings.Replace(text, request.Error(), "timed out", 1)
	default:
		text = strings.Replace(text, request.Error(), "the connection was lost", 1)
	}
	text = ownAddress.ReplaceAllString(text, "")
	if len(text) > maxRefusal {
		text = strings.ToValidUTF8(text[:maxRefusal], "") + "…"
	}
	return text
}
