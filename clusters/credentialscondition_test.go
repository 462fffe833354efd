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

func TestCredentialsConditionFollowsTheExpiry(t *testing.T) {
	const week = 7 * 24 * time.Hour
	end := time.Date(2030, 1, 2, 3, 4, 5, 0, time.FixedZone("", 3600))
	var (
		soon    = conditionState{metav1.ConditionTrue, v1alpha1.ReasonExpiringSoon, "the credentials end at 2030-01-02T02:04:05Z; renew the Secret's kubeconfig"}
		expired = conditionState{metav1.ConditionFalse, v1alpha1.ReasonExpired, "the credentials ended at 2030-01-02T02:04:05Z; renew the Secret's kubeconfig"}
		refused = conditionState{metav1.ConditionFalse, v1alpha1.ReasonExecRefused, "no exec"}
	)
	tests := map[string]struct {
		given       conditionState
		expiry, now time.Time
		want        conditionState
		recheck     time.Duration
	}{
		"no end that is known":           {accepted, time.Time{}, end, accepted, 0},
		"a month ahead":                  {accepted, end, end.Add(-30 * 24 * time.Hour), accepted, 23*24*time.Hour + time.Second},
		"just more than a week ahead":    {accepted, end, end.Add(-week - 1), accepted, time.Second + 1},
		"a week ahead":                   {accepted, end, end.Add(-week), soon, week + time.Second},
		"just ahead":                     {accepted, end, end.Add(-1), soon, time.Second + 1},
		"at the end":                     {accepted, end, end, expired, time.Second},
		"long after the end":             {accepted, end, end.Add(week), expired, 0},
		"refused, which counts for more": {refused, end, end.Add(-1), refused, time.Second + 1},
		"nothing known of them yet":      {conditionState{}, end, end.Add(-1), conditionState{}, time.Second + 1},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			expires := kubeconfig.Expiry{End: test.expiry, Warning: test.expiry.Add(-week)}
			if got := test.given.at(expires, test.now); got != test.want {
				t.Errorf("got %+v, want %+v", got, test.want)
			}
			recheck := recheckAfter(expires, test.now)
			if recheck != test.recheck {
				t.Errorf("looked at again after %s, want %s", recheck, test.recheck)
			}
			if then := test.now.Add(recheck); recheck > 0 && test.want == accepted && test.given.at(expires, then) == accepted {
				t.Errorf("looked at again at %s, when nothing has changed", then)
			}
		})
	}
}

// If a member refuses credentials that have expired, the reason is Expired, whatever the member
// says about them.
func TestRefusedCredentialsThatHaveEndedAreExpired(t *testing.T) {
	refused := &transport.StatusError{Code: http.StatusUnauthorized}
	ended, valid := testcert.New(-time.Hour).TLS(), certificateA().TLS()
	for name, test := range map[string]struct {
		err  error
		with *kubeconfig.Config
		want string
	}{
		"a certificate that has ended":                   {refused, &kubeconfig.Config{Certificate: &ended}, v1alpha1.ReasonExpired},
		"a token that has ended":                         {refused, &kubeconfig.Config{Token: jwt(`{"exp":981173106}`)}, v1alpha1.ReasonExpired},
		"a certificate that has not":                     {refused, &kubeconfig.Config{Certificate: &valid}, v1alpha1.ReasonUnauthorized},
		"a token that does not say":                      {refused, &kubeconfig.Config{Token: "canary"}, v1alpha1.ReasonUnauthorized},
		"a token that has ended, of one who is away":     {context.DeadlineExceeded, &kubeconfig.Config{Token: jwt(`{"exp":981173106}`)}, v1alpha1.ReasonNotVerified},
		"a certificate that has ended, by a TLS alert":   {remoteAlert(45), &kubeconfig.Config{Certificate: &ended}, v1alpha1.ReasonExpired},
		"a certificate that has not ended, by TLS alert": {remoteAlert(42), &kubeconfig.Config{Certificate: &valid}, v1alpha1.ReasonUnauthorized},
	} {
		t.Run(name, func(t *testing.T) {
			var s snapshot
			if s.failed(test.err, test.with, false); s.credentials.reason != test.want {
				t.Errorf("got %+v", s.credentials)
			}
		})
	}
}

// jwt returns a token with these claims; no code verifies its signature.
func jwt(claims string) string {
	return "canary." + base64.RawURLEncoding.EncodeToString([]byte(claims)) + ".canary"
}

// remoteAlert returns an alert that a server sent.
func remoteAlert(alert tls.AlertError) error { return &net.OpError{Op: "remote error", Err: alert} }
