package clusters

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"strings"
	"time"
)

// The warning about credentials begins when less than a tenth of their lifetime is left, and at most maxWarning before they expire. Whatever
// renews short-lived credentials does so earlier: a kubelet renews a token when a fifth of its lifetime is left. If the beginning of the
// lifetime is not known, the warning begins maxWarning before the end, because a warning too early costs less than none.
const (
	maxWarning   = 7 * 24 * time.Hour
	warningShare = 10
)

// expiry is when credentials end, and from when on that is warned of. The zero value stands for credentials that do not say.
type expiry struct{ end, warning time.Time }

// newExpiry returns the expiry of credentials that are valid between two times. The beginning may be zero.
func newExpiry(begin, end time.Time) expiry {
	if end.IsZero() {
		return expiry{}
	}
	ahead := maxWarning
	if lifetime := end.Sub(begin); !begin.IsZero() && lifetime > 0 {
		ahead = min(ahead, lifetime/warningShare)
	}
	return expiry{end: end, warning: end.Add(-ahead)}
}

func (e expiry) equal(other expiry) bool {
	return e.end.Equal(other.end) && e.warning.Equal(other.warning)
}

// maxExpiry is the end of the year 9999, in seconds since 1970: later times have no text in RFC 3339.
const maxExpiry = 253402300799

// expiry returns that of the credentials which end first. A token is read, not verified: what it says serves as a reminder only.
func (t *target) expiry() expiry {
	token := tokenExpiry(t.token)
	if t.certificate == nil || t.certificate.Leaf == nil {
		return token
	}
	leaf := t.certificate.Leaf
	if token.end.IsZero() || leaf.NotAfter.Before(token.end) {
		return newExpiry(leaf.NotBefore, leaf.NotAfter)
	}
	return token
}

// hasEnded reports whether the credentials have ended, by their own word.
func (t *target) hasEnded(now time.Time) bool {
	end := t.expiry().end
	return !end.IsZero() && !now.Before(end)
}

// tokenExpiry returns what the claims of a JSON Web Token say (RFC 7519, section 4.1): exp, and iat or else nbf for the beginning.
func tokenExpiry(token string) expiry {
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return expiry{}
	}
	payload, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		return expiry{}
	}
	var claims struct {
		Expiry    float64 `json:"exp"`
		IssuedAt  float64 `json:"iat"`
		NotBefore float64 `json:"nbf"`
	}
	if json.Unmarshal(payload, &claims) != nil {
		return expiry{}
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
