package kubeconfig

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"strings"
	"time"
)

// The warning about credentials begins when less than a tenth of their lifetime is left, and at
// most maxWarning before they expire. Tools that renew short-lived credentials do so earlier: a
// kubelet renews a token when a fifth of its lifetime is left. If the beginning of the lifetime is
// not known, the warning begins maxWarning before the end, because an early warning is better than
// no warning.
const (
	maxWarning   = 7 * 24 * time.Hour
	warningShare = 10
)

// Expiry is the time at which credentials expire. The zero value means that the credentials name no
// expiry.
type Expiry struct {
	// End is the time of expiry, and Warning the time at which the warning begins.
	End, Warning time.Time
}

// newExpiry returns the expiry of credentials that are valid between two times. The beginning may
// be zero.
func newExpiry(begin, end time.Time) Expiry {
	if end.IsZero() {
		return Expiry{}
	}
	ahead := maxWarning
	if lifetime := end.Sub(begin); !begin.IsZero() && lifetime > 0 {
		ahead = min(ahead, lifetime/warningShare)
	}
	return Expiry{End: end, Warning: end.Add(-ahead)}
}

// Equal reports whether two expiries are equal.
func (e Expiry) Equal(other Expiry) bool {
	return e.End.Equal(other.End) && e.Warning.Equal(other.Warning)
}

// maxExpiry is the end of the year 9999, in seconds since 1970: RFC 3339 cannot represent later
// times.
const maxExpiry = 253402300799

// Expiry returns the expiry of the token or of the certificate, whichever expires first. It does
// not verify the token's signature, because the result serves as a reminder only.
func (c *Config) Expiry() Expiry {
	token := tokenExpiry(c.Token)
	if c.Certificate == nil || c.Certificate.Leaf == nil {
		return token
	}
	leaf := c.Certificate.Leaf
	if token.End.IsZero() || leaf.NotAfter.Before(token.End) {
		return newExpiry(leaf.NotBefore, leaf.NotAfter)
	}
	return token
}

// HasExpired reports whether the credentials have expired according to their own expiry.
func (c *Config) HasExpired(now time.Time) bool {
	end := c.Expiry().End
	return !end.IsZero() && !now.Before(end)
}

// tokenExpiry returns the expiry in the claims of a JSON Web Token (RFC 7519, section 4.1): exp for
// the end, and iat or else nbf for the beginning.
func tokenExpiry(token string) Expiry {
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return Expiry{}
	}
	payload, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		return Expiry{}
	}
	var claims struct {
		Expiry    float64 `json:"exp"`
		IssuedAt  float64 `json:"iat"`
		NotBefore float64 `json:"nbf"`
	}
	if json.Unmarshal(payload, &claims) != nil {
		return Expiry{}
	}
	return newExpiry(cmp.Or(claimedTime(claims.IssuedAt), claimedTime(claims.NotBefore)), claimedTime(claims.Expiry))
}

// claimedTime returns the time of a claim, or the zero time if there is no such time.
func claimedTime(seconds float64) time.Time {
	if seconds <= 0 || seconds > maxExpiry {
		return time.Time{}
	}
	return time.Unix(int64(seconds), 0).UTC()
}
