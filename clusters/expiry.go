package clusters

import (
	"encoding/base64"
	"encoding/json"
	"strings"
	"time"
)

// expiryWarning is how long ahead the end of credentials is warned of.
const expiryWarning = 7 * 24 * time.Hour

// maxExpiry is the end of the year 9999, in seconds since 1970: later times have no text in RFC 3339.
const maxExpiry = 253402300799

// expiry is when the credentials end; zero when they do not say. A token is read, not verified: what it says serves
// as a reminder only.
func (t *target) expiry() time.Time {
	ends := tokenExpiry(t.token)
	if t.certificate == nil || t.certificate.Leaf == nil {
		return ends
	}
	if certificate := t.certificate.Leaf.NotAfter; ends.IsZero() || certificate.Before(ends) {
		return certificate
	}
	return ends
}

// hasEnded reports whether the credentials have ended, by their own word.
func (t *target) hasEnded(now time.Time) bool {
	expiry := t.expiry()
	return !expiry.IsZero() && !now.Before(expiry)
}

// tokenExpiry is the claim exp of a JSON Web Token (RFC 7519, section 4.1.4); zero for any other token.
func tokenExpiry(token string) time.Time {
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return time.Time{}
	}
	payload, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		return time.Time{}
	}
	var claims struct {
		Expiry float64 `json:"exp"`
	}
	if json.Unmarshal(payload, &claims) != nil || claims.Expiry <= 0 || claims.Expiry > maxExpiry {
		return time.Time{}
	}
	return time.Unix(int64(claims.Expiry), 0).UTC()
}
