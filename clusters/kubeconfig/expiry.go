package kubeconfig

import "time"

// The warning about credentials begins when less than a tenth of their lifetime is left. Renewals
// of tokens happen earlier: Fleetwright renews a token before half of its lifetime has passed, and
// a kubelet when a fifth is left. If the beginning of the lifetime is not known, the warning begins
// defaultWarning before the end, because an early warning is better than no warning.
const (
	warningShare   = 10
	defaultWarning = 7 * 24 * time.Hour
)

// Expiry is the time at which credentials expire. The zero value means that the credentials name no
// expiry.
type Expiry struct {
	// End is the time of expiry, and Warning the time at which the warning begins.
	End, Warning time.Time
}

// newExpiry returns the expiry of credentials that are valid between two times. The beginning may
// be zero.
// docs/decisions/the-expiry-warning-is-a-share-of-the-lifetime.md says why.
func newExpiry(begin, end time.Time) Expiry {
	if end.IsZero() {
		return Expiry{}
	}
	ahead := defaultWarning
	if lifetime := end.Sub(begin); !begin.IsZero() && lifetime > 0 {
		ahead = lifetime / warningShare
	}
	return Expiry{End: end, Warning: end.Add(-ahead)}
}

// Equal reports whether two expiries are equal.
func (e Expiry) Equal(other Expiry) bool {
	return e.End.Equal(other.End) && e.Warning.Equal(other.Warning)
}

// Expiry returns the expiry of the token or of the certificate, whichever expires first. It does
// not verify the token's signature, because the result serves as a reminder only.
func (c *Config) Expiry() Expiry {
	claimed := claimsOf(c.Token)
	token := newExpiry(claimed.begin(), claimed.end())
	if c.Certificate == nil || c.Certificate.Leaf == nil {
		return token
	}
	leaf := c.Certificate.Leaf
	if token.End.IsZero() || leaf.NotAfter.Before(token.End) {
		return newExpiry(leaf.NotBefore, leaf.NotAfter)
	}
	return token
}

// Lifetime returns the lifetime that the token states, or 0 if it states none.
func (c *Config) Lifetime() time.Duration {
	claimed := claimsOf(c.Token)
	if claimed.begin().IsZero() || claimed.end().IsZero() {
		return 0
	}
	return claimed.end().Sub(claimed.begin())
}

// HasExpired reports whether the credentials have expired according to their own expiry.
func (c *Config) HasExpired(now time.Time) bool {
	end := c.Expiry().End
	return !end.IsZero() && !now.Before(end)
}
