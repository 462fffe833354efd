package clusters

import (
	"context"
	"crypto/tls"
	"encoding/base64"
	"net"
	"net/http"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/clusters/internal/testcert"
	"github.com/fleetwright/fleetwright/clusters/kubeconfig"
	"github.com/fleetwright/fleetwright/clusters/transport"
)

func TestCredentialsValid_follows_the_expiry(t *testing.T) {
	const week = 7 * 24 * time.Hour
	end := time.Date(2030, 1, 2, 3, 4, 5, 0, time.FixedZone("", 3600))
	var (
		expiring = conditionState{metav1.ConditionTrue, v1alpha1.ReasonExpiringSoon, "the credentials expire at 2030-01-02T02:04:05Z; renew the Secret's kubeconfig"}
		expired  = conditionState{metav1.ConditionFalse, v1alpha1.ReasonExpired, "the credentials expired at 2030-01-02T02:04:05Z; renew the Secret's kubeconfig"}
		refused  = conditionState{metav1.ConditionFalse, v1alpha1.ReasonExecRefused, "no exec"}
	)
	tests := map[string]struct {
		given       conditionState
		expiry, now time.Time
		want        conditionState
		recheck     time.Duration
	}{
		"no known expiry":            {credentialsAccepted, time.Time{}, end, credentialsAccepted, 0},
		"a month before the expiry":  {credentialsAccepted, end, end.Add(-30 * 24 * time.Hour), credentialsAccepted, 23*24*time.Hour + time.Second},
		"just before the warning":    {credentialsAccepted, end, end.Add(-week - 1), credentialsAccepted, time.Second + 1},
		"at the warning":             {credentialsAccepted, end, end.Add(-week), expiring, week + time.Second},
		"just before the expiry":     {credentialsAccepted, end, end.Add(-1), expiring, time.Second + 1},
		"at the expiry":              {credentialsAccepted, end, end, expired, time.Second},
		"long after the expiry":      {credentialsAccepted, end, end.Add(week), expired, 0},
		"refused for another reason": {refused, end, end.Add(-1), refused, time.Second + 1},
		"not known yet":              {conditionState{}, end, end.Add(-1), conditionState{}, time.Second + 1},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			expires := kubeconfig.Expiry{End: test.expiry, Warning: test.expiry.Add(-week)}
			if got := (snapshot{credentials: test.given, expiry: expires}).credentialsAt(test.now); got != test.want {
				t.Errorf("got %+v, want %+v", got, test.want)
			}
			recheck := recheckAfter(expires, test.now)
			if recheck != test.recheck {
				t.Errorf("rechecked after %s, want %s", recheck, test.recheck)
			}
			if then := test.now.Add(recheck); recheck > 0 && test.want == credentialsAccepted && (snapshot{credentials: test.given, expiry: expires}).credentialsAt(then) == credentialsAccepted {
				t.Errorf("rechecked at %s, when the state is still the same", then)
			}
		})
	}
}

func TestCredentials_that_are_refused_after_their_expiry_are_Expired(t *testing.T) {
	refused := &transport.StatusError{Code: http.StatusUnauthorized}
	expired, valid := testcert.New(-time.Hour).TLS(), certificateA().TLS()
	for name, test := range map[string]struct {
		err  error
		with *kubeconfig.Config
		want string
	}{
		"an expired certificate":                       {refused, &kubeconfig.Config{Certificate: &expired}, v1alpha1.ReasonExpired},
		"an expired token":                             {refused, &kubeconfig.Config{Token: jwt(`{"exp":981173106}`)}, v1alpha1.ReasonExpired},
		"a valid certificate":                          {refused, &kubeconfig.Config{Certificate: &valid}, v1alpha1.ReasonUnauthorized},
		"a token without an expiry":                    {refused, &kubeconfig.Config{Token: "canary"}, v1alpha1.ReasonUnauthorized},
		"an expired token of an unreachable member":    {context.DeadlineExceeded, &kubeconfig.Config{Token: jwt(`{"exp":981173106}`)}, v1alpha1.ReasonNotVerified},
		"an expired certificate, refused by TLS alert": {remoteAlert(45), &kubeconfig.Config{Certificate: &expired}, v1alpha1.ReasonExpired},
		"a valid certificate, refused by TLS alert":    {remoteAlert(42), &kubeconfig.Config{Certificate: &valid}, v1alpha1.ReasonUnauthorized},
	} {
		t.Run(name, func(t *testing.T) {
			var s snapshot
			if s.recordFailure(test.err, test.with, false); s.credentials.reason != test.want {
				t.Errorf("got %+v", s.credentials)
			}
		})
	}
}

// jwt returns a token with these claims. No code verifies its signature.
func jwt(claims string) string {
	return "canary." + base64.RawURLEncoding.EncodeToString([]byte(claims)) + ".canary"
}

// remoteAlert returns an alert that a server sent.
func remoteAlert(alert tls.AlertError) error { return &net.OpError{Op: "remote error", Err: alert} }
