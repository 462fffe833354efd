package clusters

import (
	"context"
	"crypto/tls"
	"encoding/base64"
	"fmt"
	"net"
	"net/http"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd/api"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
)

// jwt is a token with claims; nobody checks its signature.
func jwt(claims string) string {
	return "canary." + base64.RawURLEncoding.EncodeToString([]byte(claims)) + ".canary"
}

func token(token string) edit {
	return onUser(func(user *api.AuthInfo) { user.Token = token })
}

func TestExpiryIsTheEarliestEndThatTheCredentialsName(t *testing.T) {
	pair := newPair(time.Hour)
	notAfter := pair.tls().Leaf.NotAfter
	withPair := certificate(pair.certificate, pair.key)
	before, after := time.Date(2001, 2, 3, 4, 5, 6, 0, time.UTC), time.Date(2201, 2, 3, 4, 5, 6, 0, time.UTC)
	const endsBefore, endsAfter = `{"exp":981173106}`, `{"exp":7292520306}`
	tests := map[string]struct {
		edits []edit
		want  time.Time
	}{
		"a token that ends":                         {[]edit{token(jwt(endsBefore))}, before},
		"a token that ends, with more claims":       {[]edit{token(jwt(`{"iss":"canary","exp":981173106.75,"aud":["canary"]}`))}, before},
		"a token without exp":                       {[]edit{token(jwt(`{"iss":"canary"}`))}, time.Time{}},
		"an exp that is zero":                       {[]edit{token(jwt(`{"exp":0}`))}, time.Time{}},
		"an exp before 1970":                        {[]edit{token(jwt(`{"exp":-1}`))}, time.Time{}},
		"an exp beyond all time":                    {[]edit{token(jwt(`{"exp":1e300}`))}, time.Time{}},
		"an exp that is no number":                  {[]edit{token(jwt(`{"exp":"981173106"}`))}, time.Time{}},
		"claims that are not JSON":                  {[]edit{token(jwt(canary))}, time.Time{}},
		"claims that are not base64":                {[]edit{token("canary.!.canary")}, time.Time{}},
		"a token of two parts":                      {[]edit{token("canary.canary")}, time.Time{}},
		"an opaque token":                           {nil, time.Time{}},
		"a certificate":                             {[]edit{withoutToken, withPair}, notAfter},
		"a certificate and an opaque token":         {[]edit{withPair}, notAfter},
		"a certificate and a token that is earlier": {[]edit{withPair, token(jwt(endsBefore))}, before},
		"a certificate and a token that is later":   {[]edit{withPair, token(jwt(endsAfter))}, notAfter},
		"a token that ends late":                    {[]edit{token(jwt(endsAfter))}, after},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			target, refusal := parse(newKubeconfig(t, test.edits...), Policy{})
			if refusal != nil {
				t.Fatal(refusal)
			}
			if got := target.expiry().end; !got.Equal(test.want) {
				t.Errorf("got %s, want %s", got, test.want)
			}
		})
	}
}

// The warning is a share of the lifetime: an hourly token must not be warned of for ever, nor at each rotation, which a kubelet makes when
// a fifth of the lifetime is left.
func TestCredentialsAreWarnedOfBeforeTheyEnd(t *testing.T) {
	const day = 24 * time.Hour
	const end = 7292520306 // in 2201
	ends := time.Unix(end, 0)
	year := newPairFor(ends.Add(-400*day), ends)
	tests := map[string]struct {
		edits []edit
		want  time.Duration // before the end
	}{
		"an hourly token":                              {[]edit{token(jwt(claims(end, "iat", time.Hour)))}, 6 * time.Minute},
		"a token of ten minutes":                       {[]edit{token(jwt(claims(end, "iat", 10*time.Minute)))}, time.Minute},
		"a token of a day":                             {[]edit{token(jwt(claims(end, "iat", day)))}, day / 10},
		"a token of 70 days":                           {[]edit{token(jwt(claims(end, "iat", 70*day)))}, 7 * day},
		"a token of ten years":                         {[]edit{token(jwt(claims(end, "iat", 3650*day)))}, 7 * day},
		"a token that says only from when it is valid": {[]edit{token(jwt(claims(end, "nbf", time.Hour)))}, 6 * time.Minute},
		"a token that does not say when it began":      {[]edit{token(jwt(fmt.Sprintf(`{"exp":%d}`, end)))}, 7 * day},
		"a token that begins when it ends":             {[]edit{token(jwt(claims(end, "iat", 0)))}, 7 * day},
		"a token that begins after it ends":            {[]edit{token(jwt(claims(end, "iat", -time.Hour)))}, 7 * day},
		"a certificate of a year":                      {[]edit{withoutToken, certificate(year.certificate, year.key)}, 7 * day},
		"an hourly token, which ends first, and a certificate": {
			[]edit{certificate(year.certificate, year.key), token(jwt(claims(end-1, "iat", time.Hour)))}, 6 * time.Minute,
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			target, refusal := parse(newKubeconfig(t, test.edits...), Policy{})
			if refusal != nil {
				t.Fatal(refusal)
			}
			expires := target.expiry()
			if got := expires.end.Sub(expires.warning); got != test.want {
				t.Errorf("warned of %s before the end, want %s", got, test.want)
			}
		})
	}
	if got := (&target{}).expiry(); got != (expiry{}) {
		t.Errorf("credentials that do not say when they end: %+v", got)
	}
}

// claims of a token that ends at a time and began so long before that.
func claims(end int64, begin string, lifetime time.Duration) string {
	return fmt.Sprintf(`{"exp":%d,%q:%d}`, end, begin, end-int64(lifetime.Seconds()))
}

func TestVerdictOnCredentialsFollowsTheirEnd(t *testing.T) {
	const week = 7 * 24 * time.Hour
	end := time.Date(2030, 1, 2, 3, 4, 5, 0, time.FixedZone("", 3600))
	var (
		soon    = verdict{metav1.ConditionTrue, v1alpha1.ReasonExpiringSoon, "the credentials end at 2030-01-02T02:04:05Z; renew the Secret's kubeconfig"}
		expired = verdict{metav1.ConditionFalse, v1alpha1.ReasonExpired, "the credentials ended at 2030-01-02T02:04:05Z; renew the Secret's kubeconfig"}
		refused = verdict{metav1.ConditionFalse, v1alpha1.ReasonExecRefused, "no exec"}
	)
	tests := map[string]struct {
		given       verdict
		expiry, now time.Time
		want        verdict
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
		"nothing known of them yet":      {verdict{}, end, end.Add(-1), verdict{}, time.Second + 1},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			expires := newExpiry(time.Time{}, test.expiry)
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

// A client certificate or a token that has ended is not accepted, whatever the member says of it.
func TestRefusedCredentialsThatHaveEndedAreExpired(t *testing.T) {
	refused := &statusError{code: http.StatusUnauthorized}
	ended, valid := newPair(-time.Hour).tls(), identityA().tls()
	for name, test := range map[string]struct {
		err  error
		with *target
		want string
	}{
		"a certificate that has ended":                   {refused, &target{certificate: &ended}, v1alpha1.ReasonExpired},
		"a token that has ended":                         {refused, &target{token: jwt(`{"exp":981173106}`)}, v1alpha1.ReasonExpired},
		"a certificate that has not":                     {refused, &target{certificate: &valid}, v1alpha1.ReasonUnauthorized},
		"a token that does not say":                      {refused, &target{token: "canary"}, v1alpha1.ReasonUnauthorized},
		"a token that has ended, of one who is away":     {context.DeadlineExceeded, &target{token: jwt(`{"exp":981173106}`)}, v1alpha1.ReasonNotVerified},
		"a certificate that has ended, by a TLS alert":   {remote(45), &target{certificate: &ended}, v1alpha1.ReasonExpired},
		"a certificate that has not ended, by TLS alert": {remote(42), &target{certificate: &valid}, v1alpha1.ReasonUnauthorized},
	} {
		t.Run(name, func(t *testing.T) {
			var s snapshot
			if s.failed(test.err, test.with, false); s.credentials.reason != test.want {
				t.Errorf("got %+v", s.credentials)
			}
		})
	}
}

// remote is an alert that a server has sent.
func remote(alert tls.AlertError) error { return &net.OpError{Op: "remote error", Err: alert} }
