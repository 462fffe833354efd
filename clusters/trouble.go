package clusters

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"strings"
	"syscall"
	"unicode"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/clusters/kubeconfig"
)

// maxMessage is how many bytes of an error are told in a condition.
const maxMessage = 512

// statusError is an answer other than 200 to a probe.
type statusError struct{ code int }

// Error names the status.
func (e *statusError) Error() string {
	return fmt.Sprintf("the server answers %d %s", e.code, http.StatusText(e.code))
}

// verdict is the status, reason and message of a condition.
type verdict struct {
	status          metav1.ConditionStatus
	reason, message string
}

// diagnose turns the error of a connection into the verdict of the member's Ready condition.
func diagnose(err error) verdict {
	var refusal *kubeconfig.RejectedError
	if errors.As(err, &refusal) {
		return verdict{metav1.ConditionFalse, v1alpha1.ReasonNoConnection, refusal.Message}
	}
	var wrong *identityError
	if errors.As(err, &wrong) {
		return verdict{metav1.ConditionFalse, wrong.reason, wrong.message}
	}
	switch code := statusCode(err); {
	case code == http.StatusUnauthorized:
		return verdict{metav1.ConditionFalse, v1alpha1.ReasonUnauthorized, "the member refuses the credentials; renew the Secret's kubeconfig"}
	case code == http.StatusForbidden:
		return verdict{metav1.ConditionFalse, v1alpha1.ReasonForbidden, "the credentials may not do what is needed: " + describe(err)}
	case code != 0:
		return verdict{metav1.ConditionUnknown, v1alpha1.ReasonUnhealthy, describe(err)}
	case errors.Is(err, errNoAPIServer):
		return verdict{metav1.ConditionUnknown, v1alpha1.ReasonUnhealthy, errNoAPIServer.Error()}
	case isImpostor(err):
		return verdict{metav1.ConditionUnknown, v1alpha1.ReasonUnhealthy, "what answers is not the member: " + describe(err)}
	case credentialAlert(err) != "":
		return verdict{metav1.ConditionFalse, v1alpha1.ReasonUnauthorized, describe(err) + "; renew the Secret's kubeconfig"}
	case remoteAlert(err) != "":
		return verdict{metav1.ConditionUnknown, v1alpha1.ReasonUnhealthy, "the member cannot be connected to: " + describe(err)}
	case isNetwork(err):
		return verdict{metav1.ConditionUnknown, v1alpha1.ReasonUnreachable, "the member does not answer: " + describe(err)}
	}
	return verdict{metav1.ConditionUnknown, v1alpha1.ReasonUnhealthy, describe(err)}
}

// statusCode is the HTTP status in an error, or 0.
func statusCode(err error) int {
	var answer *statusError
	if errors.As(err, &answer) {
		return answer.code
	}
	var status apierrors.APIStatus
	if errors.As(err, &status) {
		return int(status.Status().Code)
	}
	return 0
}

func isNetwork(err error) bool {
	var network net.Error
	return errors.As(err, &network) || errors.Is(err, context.DeadlineExceeded) || errors.As(err, new(syscall.Errno))
}

// isImpostor tells whether something answers that is not the server of the kubeconfig, or speaks no TLS. The HTTP client
// wraps such errors in one of the network.
func isImpostor(err error) bool {
	return errors.As(err, new(*tls.CertificateVerificationError)) || errors.As(err, new(tls.RecordHeaderError)) || errors.Is(err, http.ErrSchemeMismatch)
}

// credentialAlerts are the TLS alerts (RFC 8446, section 6.2) by which a server refuses a client's certificate.
var credentialAlerts = map[tls.AlertError]string{
	42:  "the member refuses the client certificate as bad",
	43:  "the member does not support the client certificate",
	44:  "the member says that the client certificate is revoked",
	45:  "the member says that the client certificate has expired",
	46:  "the member refuses the client certificate",
	48:  "the member does not know the authority that signed the client certificate",
	49:  "the member refuses access for the client certificate",
	116: "the member demands a client certificate",
}

// credentialAlert returns what the server's TLS alert says of the client's certificate; "" if the error is none. With TLS 1.3 the alert comes
// after the handshake, with the first answer. Its type is not exported, but its text is.
func credentialAlert(err error) string {
	text := remoteAlert(err)
	for alert, meaning := range credentialAlerts {
		if text == alert.Error() {
			return meaning
		}
	}
	return ""
}

// remoteAlert returns the text of a TLS alert that the server has sent; "" if the error is none.
func remoteAlert(err error) string {
	var remote *net.OpError
	if !errors.As(err, &remote) || remote.Op != "remote error" || remote.Err == nil {
		return ""
	}
	return remote.Err.Error()
}

// describe says what is wrong without the addresses and names that errors of the network carry: they come
// from the Secret.
func describe(err error) string {
	var (
		errno     syscall.Errno
		dns       *net.DNSError
		authority x509.UnknownAuthorityError
		name      x509.HostnameError
		invalid   x509.CertificateInvalidError
		plain     tls.RecordHeaderError
		status    apierrors.APIStatus
		limit     *limitError
	)
	switch {
	case errors.As(err, &limit):
		return limit.message
	case errors.Is(err, errAbsurd):
		return errAbsurd.Error()
	case errors.As(err, &status):
		return clean(status.Status().Message)
	case errors.As(err, &errno):
		return errno.Error()
	case errors.As(err, &dns):
		return "its name cannot be resolved"
	case errors.As(err, &authority):
		return "its certificate is not signed by the CA in the kubeconfig"
	case errors.As(err, &name):
		return "its certificate is for another name than the kubeconfig's server"
	case errors.As(err, &invalid):
		return invalidity(invalid.Reason)
	case errors.Is(err, http.ErrSchemeMismatch):
		return "it speaks plain HTTP, not HTTPS"
	case errors.As(err, &plain):
		return "it does not speak TLS"
	case credentialAlert(err) != "":
		return credentialAlert(err)
	case remoteAlert(err) != "":
		return "it refuses the TLS handshake (" + remoteAlert(err) + "); it may demand a client certificate"
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, os.ErrDeadlineExceeded):
		return "timed out"
	case isNetwork(err):
		return "the connection failed"
	}
	return clean(err.Error())
}

// invalidity says why a certificate is not valid; the error itself names the present time, and would never be the same twice.
func invalidity(reason x509.InvalidReason) string {
	if reason == x509.Expired {
		return "its certificate has expired or is not valid yet"
	}
	return "its certificate is not valid for a server"
}

// clean makes a text of a member fit for a condition: printable, on one line, and bounded.
func clean(text string) string {
	text = strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return ' '
	}, text)
	return cut(text, maxMessage)
}

func cut(text string, most int) string {
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "") + "…"
}
