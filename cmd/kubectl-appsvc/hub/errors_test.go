package hub

import (
	"crypto/tls"
	"fmt"
	"net"
	"net/url"
	"testing"
)

// Go's HTTP client puts the name of its own function before an alert that arrives before it has sent
// the request.
func TestUnreachable_describes_a_TLS_alert_always_alike(t *testing.T) {
	alert := &net.OpError{Op: "remote error", Err: tls.AlertError(116)}
	want := "the request to https://east:6443 failed: remote error: tls: certificate required"
	for _, err := range []error{alert, fmt.Errorf("readLoopPeekFailLocked: %w", alert)} {
		if got := unreachable(&url.Error{Op: "Get", URL: "https://east:6443/version", Err: err}); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
