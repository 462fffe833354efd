package kubeconfig

import (
	"fmt"
	"hash/fnv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
)

// A token is renewed when between 40 % and 50 % of its lifetime has passed: renewalShare is the
// latest time, and renewalJitter is how much earlier it can be. Members that joined together would
// otherwise renew at the same moment.
const (
	renewalShare  = 0.5
	renewalJitter = 0.1
)

// Renewal says whether and when Fleetwright renews the token of a member. It is comparable. The
// zero value means that nobody asked for a renewal.
type Renewal struct {
	// Account is the ServiceAccount on the member, by the claims of the token.
	Account types.NamespacedName
	// Bound is the Secret on the member to which the token is bound, or the zero value. The renewed
	// token is bound to it too, so that deleting the Secret revokes both.
	Bound BoundSecret
	// Issued and Expires are the beginning and the end of the token's lifetime.
	Issued, Expires time.Time
	// At is when the token is renewed.
	At time.Time
	// Blocker is why there is no renewal although the Secret asks for one, or empty. It quotes
	// nothing of the Secret. The other fields are empty then.
	Blocker string
}

// BoundSecret is a Secret to which a token is bound.
type BoundSecret struct {
	Name string
	UID  types.UID
}

// IsPossible reports whether the token is renewed.
func (r Renewal) IsPossible() bool { return !r.At.IsZero() }

// Lifetime returns the lifetime of the token.
func (r Renewal) Lifetime() time.Duration { return r.Expires.Sub(r.Issued) }

// Renewal returns the renewal of the token in the Config of this Secret, which is nil if the Secret
// is rejected.
func (m *MemberSecret) Renewal(config *Config) Renewal {
	if config == nil || m.Secret.Annotations[v1alpha1.AnnotationRenewToken] != "true" {
		return Renewal{}
	}
	if m.format != FormatKubeconfig {
		return Renewal{Blocker: "the tool that created the Secret owns its content"}
	}
	if config.Certificate != nil {
		return Renewal{Blocker: "the kubeconfig has a client certificate, and only tokens are renewed"}
	}
	return newRenewal(m.Name, claimsOf(config.Token))
}

// newRenewal returns the renewal of a token with these claims.
func newRenewal(member string, claims tokenClaims) Renewal {
	account, isAccount := serviceAccount(claims.Subject)
	begin, end := claims.begin(), claims.end()
	switch {
	case !isAccount:
		return Renewal{Blocker: "the token is not a token of a ServiceAccount"}
	case end.IsZero():
		return Renewal{Blocker: "the token does not expire"}
	case begin.IsZero() || !begin.Before(end):
		return Renewal{Blocker: "the token does not say when it was issued"}
	case claims.Kubernetes.Pod != nil || claims.Kubernetes.Node != nil:
		return Renewal{Blocker: "the token is bound to a pod or a node"}
	}
	r := Renewal{Account: account, Issued: begin, Expires: end}
	if bound := claims.Kubernetes.Secret; bound != nil {
		r.Bound = BoundSecret{Name: bound.Name, UID: types.UID(bound.UID)}
	}
	share := renewalShare - renewalJitter*spread(member, end)
	r.At = begin.Add(time.Duration(share * float64(r.Lifetime())))
	return r
}

// serviceAccount returns the ServiceAccount that the subject of a token names, and false if there
// is none. The names are valid ones, because they become part of a path.
func serviceAccount(subject string) (types.NamespacedName, bool) {
	names, isAccount := strings.CutPrefix(subject, "system:serviceaccount:")
	namespace, name, complete := strings.Cut(names, ":")
	if !isAccount || !complete || len(validation.IsDNS1123Label(namespace)) > 0 || len(validation.IsDNS1123Subdomain(name)) > 0 {
		return types.NamespacedName{}, false
	}
	return types.NamespacedName{Namespace: namespace, Name: name}, true
}

// spread returns a share from 0 to 1 that differs between members and between the tokens of one
// member. It does not change with a restart.
func spread(member string, end time.Time) float64 {
	hash := fnv.New32a()
	_, _ = fmt.Fprintf(hash, "%s/%d", member, end.Unix()) // a hash returns no error
	return float64(hash.Sum32()) / (1 << 32)
}
