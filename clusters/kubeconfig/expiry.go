package kubeconfig

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"strings"
	"time"
)

// The warning about credentials begins when less than a tenth of their lifetime is left, and at
// most maxWarning before they expire. Whatever renews short-lived credentials does so earlier: a
// kubelet renews a token when a fifth of its lifetime is left. If the beginning of the lifetime is
// not known, the warning begins maxWarning before the end, because a warning too early costs less
// than none.
const (
	maxWarning   = 7 * 24 * time.Hour
	warningShare = 10
)

// Expiry is when credentials expire. The zero value stands for credentials that do not say.
type Expiry struct {
	// End is when they expire, and Warning when the warning about it begins.
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

// Equal reports whether two expiries are the same.
func (e Expiry) Equal(other Expiry) bool {
	return e.End.Equal(other.End) && e.Warning.Equal(other.Warning)
}

// maxExpiry is the end of the year 9999, in seconds since 1970: later times have no text in RFC
// 3339.
const maxExpiry = 253402300799

// Expiry returns the expiry of the token or of the certificate, whichever expires first. The
// token's signature is not verified: what the token says serves as a reminder only.
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

// HasExpired reports whether the credentials say that they have expired.
func (c *Config) HasExpired(now time.Time) bool {
	end := c.Expiry().End
	return !end.IsZero() && !now.Before(end)
}

// tokenExpiry returns what the claims of a JSON Web Token say (RFC 7519, section 4.1): exp, and iat
// or else nbf for the beginning.
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

// claimedTime returns the time that a claim names; zero if there is no such time.
func claimedTime(seconds float64) time.Time {
	if seconds <= 0 || seconds > maxExpiry {
		return time.Time{}
	}
	return time.Unix(int64(seconds), 0).UTC()
}
