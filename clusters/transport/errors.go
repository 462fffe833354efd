package transport

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"syscall"
	"unicode"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	utilnet "k8s.io/apimachinery/pkg/util/net"
)

// ErrNotAPIServer ends a response that cannot come from an API server.
var ErrNotAPIServer = errors.New("the server answers, but not as a Kubernetes API server does")

// MaxMessage is the longest message about an error, in bytes.
const MaxMessage = 512

// StatusError is a response with a code other than 200.
type StatusError struct{ Code int }

// Error returns the code and its text.
func (e *StatusError) Error() string {
	return fmt.Sprintf("the server answers %d %s", e.Code, http.StatusText(e.Code))
}

// IsClosedBeforeUse reports whether the server closed an HTTP/2 connection before the first request was
// sent. Its reason, such as a TLS alert about the client certificate, is lost then: a request that is
// already sent would return it. net/http has no value for this error.
func IsClosedBeforeUse(err error) bool {
	return err != nil && strings.Contains(err.Error(), "http2: client conn could not be established")
}

// StatusCode returns the HTTP status code in an error, or 0.
func StatusCode(err error) int {
	var answer *StatusError
	if errors.As(err, &answer) {
		return answer.Code
	}
	var status apierrors.APIStatus
	if errors.As(err, &status) {
		return int(status.Status().Code)
	}
	return 0
}

// IsNetworkError reports whether err is a network error.
func IsNetworkError(err error) bool {
	var network net.Error
	return errors.As(err, &network) || errors.Is(err, context.DeadlineExceeded) || errors.As(err, new(syscall.Errno))
}

// IsUnanswered reports whether a request got no answer: it timed out, or the connection was closed.
// A process that is too slow causes both.
func IsUnanswered(err error) bool {
	return utilnet.IsTimeout(err) || utilnet.IsProbableEOF(err) || utilnet.IsHTTP2ConnectionLost(err) || IsClosedBeforeUse(err) ||
		errors.Is(err, context.DeadlineExceeded) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, syscall.EPIPE)
}

// outOfResources are the errors of a process or a machine that can make no connection.
var outOfResources = []syscall.Errno{syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS, syscall.ENOMEM, syscall.EADDRNOTAVAIL}

// IsOutOfResources reports whether a request was not sent because this process or its machine has
// no resources for a connection.
func IsOutOfResources(err error) bool {
	var errno syscall.Errno
	return errors.As(err, &errno) && slices.Contains(outOfResources, errno)
}

// IsWrongServer reports whether the responding server is not the server of the kubeconfig, or does
// not speak TLS. The HTTP client wraps such errors in network errors.
func IsWrongServer(err error) bool {
	return errors.As(err, new(*tls.CertificateVerificationError)) || errors.As(err, new(tls.RecordHeaderError)) || errors.Is(err, http.ErrSchemeMismatch)
}

// credentialAlerts are the TLS alerts (RFC 8446, section 6.2) with which a server rejects a client
// certificate.
var credentialAlerts = map[tls.AlertError]string{
	42:  "the member rejects the client certificate as invalid",
	43:  "the member does not support the client certificate",
	44:  "the member reports that the client certificate is revoked",
	45:  "the member reports that the client certificate has expired",
	46:  "the member rejects the client certificate",
	48:  "the member does not know the authority that signed the client certificate",
	49:  "the member denies access to the client certificate",
	116: "the member requires a client certificate",
}

// CredentialAlert returns what the server's TLS alert says about the client certificate, or "" if
// the error is no such alert. With TLS 1.3 the alert arrives after the handshake, with the first
// response. Go does not export the type of the error, so the function compares its text.
func CredentialAlert(err error) string {
	text := RemoteAlert(err)
	for alert, meaning := range credentialAlerts {
		if text == alert.Error() {
			return meaning
		}
	}
	return ""
}

// RemoteAlert returns the text of a TLS alert that the server sent, or "" if the error is none.
func RemoteAlert(err error) string {
	var remote *net.OpError
	if !errors.As(err, &remote) || remote.Op != "remote error" || remote.Err == nil {
		return ""
	}
	return remote.Err.Error()
}

// SafeMessage returns a message that omits the addresses and names in network errors, because they
// come from the Secret.
func SafeMessage(err error) string {
	var (
		errno     syscall.Errno
		dns       *net.DNSError
		authority x509.UnknownAuthorityError
		name      x509.HostnameError
		invalid   x509.CertificateInvalidError
		plain     tls.RecordHeaderError
		status    apierrors.APIStatus
		limit     *LimitError
	)
	switch {
	case errors.As(err, &limit):
		return limit.Message
	case errors.Is(err, ErrQuantityTooExpensive):
		return ErrQuantityTooExpensive.Error()
	case errors.As(err, &status):
		return Sanitize(status.Status().Message)
	case errors.As(err, &errno):
		return errno.Error()
	case errors.As(err, &dns):
		return "its name cannot be resolved"
	case errors.As(err, &authority):
		return "its certificate is not signed by the CA in the kubeconfig"
	case errors.As(err, &name):
		return "its certificate is for another name than the server of the kubeconfig"
	case errors.As(err, &invalid):
		return invalidity(invalid.Reason)
	case errors.Is(err, http.ErrSchemeMismatch):
		return "it speaks plain HTTP, not HTTPS"
	case errors.As(err, &plain):
		return "it does not speak TLS"
	case CredentialAlert(err) != "":
		return CredentialAlert(err)
	case RemoteAlert(err) != "":
		return "it rejects the TLS handshake (" + RemoteAlert(err) + "); it may require a client certificate"
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, os.ErrDeadlineExceeded):
		return "timed out"
	case IsNetworkError(err):
		return "the connection failed"
	}
	return Sanitize(err.Error())
}

// invalidity returns why a certificate is invalid. The text of the error itself contains the
// current time, so it would differ each time.
func invalidity(reason x509.InvalidReason) string {
	if reason == x509.Expired {
		return "its certificate has expired or is not valid yet"
	}
	return "its certificate is not valid for a server"
}

// Sanitize returns a member's text in a form that is safe in a condition: printable, on one line,
// and at most MaxMessage bytes long.
func Sanitize(text string) string {
	text = strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return ' '
	}, text)
	return Truncate(text, MaxMessage)
}

// Truncate returns at most that many bytes of a text, with an ellipsis if it was longer.
func Truncate(text string, most int) string {
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "") + "…"
}
