package kubeconfig

import (
	"encoding/base64"
	"fmt"
	"testing"
	"time"

	"k8s.io/client-go/tools/clientcmd/api"

	"github.com/fleetwright/fleetwright/clusters/internal/testcert"
)

// jwt returns a token with these claims. No code verifies its signature.
func jwt(claims string) string {
	return "canary." + base64.RawURLEncoding.EncodeToString([]byte(claims)) + ".canary"
}

func token(token string) edit {
	return onUser(func(user *api.AuthInfo) { user.Token = token })
}

func TestExpiry_is_the_earliest_of_token_and_certificate(t *testing.T) {
	pair := testcert.New(time.Hour)
	notAfter := pair.TLS().Leaf.NotAfter
	withPair := certificate(pair.Certificate, pair.Key)
	before, after := time.Date(2001, 2, 3, 4, 5, 6, 0, time.UTC), time.Date(2201, 2, 3, 4, 5, 6, 0, time.UTC)
	const endsBefore, endsAfter = `{"exp":981173106}`, `{"exp":7292520306}`
	tests := map[string]struct {
		edits []edit
		want  time.Time
	}{
		"a token with exp":                   {[]edit{token(jwt(endsBefore))}, before},
		"a token with more claims":           {[]edit{token(jwt(`{"iss":"canary","exp":981173106.75,"aud":["canary"]}`))}, before},
		"a token without exp":                {[]edit{token(jwt(`{"iss":"canary"}`))}, time.Time{}},
		"an exp that is zero":                {[]edit{token(jwt(`{"exp":0}`))}, time.Time{}},
		"an exp before 1970":                 {[]edit{token(jwt(`{"exp":-1}`))}, time.Time{}},
		"an exp after the year 9999":         {[]edit{token(jwt(`{"exp":1e300}`))}, time.Time{}},
		"an exp that is not a number":        {[]edit{token(jwt(`{"exp":"981173106"}`))}, time.Time{}},
		"claims that are not JSON":           {[]edit{token(jwt(canary))}, time.Time{}},
		"claims that are not base64":         {[]edit{token("canary.!.canary")}, time.Time{}},
		"a token of two parts":               {[]edit{token("canary.canary")}, time.Time{}},
		"an opaque token":                    {nil, time.Time{}},
		"a certificate":                      {[]edit{withoutToken, withPair}, notAfter},
		"a certificate and an opaque token":  {[]edit{withPair}, notAfter},
		"a certificate and an earlier token": {[]edit{withPair, token(jwt(endsBefore))}, before},
		"a certificate and a later token":    {[]edit{withPair, token(jwt(endsAfter))}, notAfter},
		"a token that expires late":          {[]edit{token(jwt(endsAfter))}, after},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			target, rejected := parse(kubeconfig(t, test.edits...), Policy{})
			if rejected != nil {
				t.Fatal(rejected)
			}
			if got := target.Expiry().End; !got.Equal(test.want) {
				t.Errorf("got %s, want %s", got, test.want)
			}
		})
	}
}

// The warning time is a share of the lifetime. Otherwise an hourly token would always cause a
// warning, or at each rotation, which a kubelet makes when a fifth of the lifetime is left.
func TestWarning_begins_a_share_of_the_lifetime_before_the_expiry(t *testing.T) {
	const day = 24 * time.Hour
	const end = 7292520306 // in 2201
	ends := time.Unix(end, 0)
	year := testcert.NewFor(ends.Add(-400*day), ends)
	tests := map[string]struct {
		edits []edit
		want  time.Duration // before the end
	}{
		"an hourly token":                      {[]edit{token(jwt(claims(end, "iat", time.Hour)))}, 6 * time.Minute},
		"a token of ten minutes":               {[]edit{token(jwt(claims(end, "iat", 10*time.Minute)))}, time.Minute},
		"a token of a day":                     {[]edit{token(jwt(claims(end, "iat", day)))}, day / 10},
		"a token of 70 days":                   {[]edit{token(jwt(claims(end, "iat", 70*day)))}, 7 * day},
		"a token of ten years":                 {[]edit{token(jwt(claims(end, "iat", 3650*day)))}, 365 * day},
		"a token with nbf only":                {[]edit{token(jwt(claims(end, "nbf", time.Hour)))}, 6 * time.Minute},
		"a token without a beginning":          {[]edit{token(jwt(fmt.Sprintf(`{"exp":%d}`, end)))}, 7 * day},
		"a token without a lifetime":           {[]edit{token(jwt(claims(end, "iat", 0)))}, 7 * day},
		"a token that begins after its expiry": {[]edit{token(jwt(claims(end, "iat", -time.Hour)))}, 7 * day},
		"a certificate of a year":              {[]edit{withoutToken, certificate(year.Certificate, year.Key)}, 40 * day},
		"an hourly token and a later certificate": {
			[]edit{certificate(year.Certificate, year.Key), token(jwt(claims(end-1, "iat", time.Hour)))}, 6 * time.Minute,
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			target, rejected := parse(kubeconfig(t, test.edits...), Policy{})
			if rejected != nil {
				t.Fatal(rejected)
			}
			expires := target.Expiry()
			if got := expires.End.Sub(expires.Warning); got != test.want {
				t.Errorf("the warning begins %s before the expiry, want %s", got, test.want)
			}
		})
	}
	if got := (&Config{}).Expiry(); got != (Expiry{}) {
		t.Errorf("the expiry of credentials without one is %+v", got)
	}
}

// claims returns the claims of a token that expires at a time and began one lifetime earlier.
func claims(end int64, begin string, lifetime time.Duration) string {
	return fmt.Sprintf(`{"exp":%d,%q:%d}`, end, begin, end-int64(lifetime.Seconds()))
}
