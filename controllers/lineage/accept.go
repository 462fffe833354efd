package lineage

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
)

// maxList is the maximum size of a list of tokens in a message, in bytes. A longer list is named by
// a digest, so that one annotation value always accepts the whole list.
const maxList = 400

// Behind returns a description of the objects that are ahead of the hub on the cluster of an entry,
// which are given by kind. It returns nil if there are none.
func Behind(app *v1alpha1.AppService, entry *v1alpha1.ClusterStatus, ahead map[string]Stamp) *v1alpha1.HubBehind {
	var behind *v1alpha1.HubBehind
	var tokens []string
	kinds := make([]string, 0, len(ahead))
	for kind := range ahead {
		kinds = append(kinds, kind)
	}
	slices.Sort(kinds)
	for _, kind := range kinds {
		stamp := ahead[kind]
		tokens = append(tokens, tokensFor(app, entry, stamp)...)
		if behind != nil && behind.Generation >= stamp.Generation {
			continue
		}
		behind = describe(app, entry, stamp)
		behind.Kind = kind
	}
	if behind != nil {
		behind.Accept = Join(tokens)
	}
	return behind
}

// describe returns a description of one stamp that is ahead.
func describe(app *v1alpha1.AppService, entry *v1alpha1.ClusterStatus, stamp Stamp) *v1alpha1.HubBehind {
	behind := &v1alpha1.HubBehind{Generation: stamp.Generation}
	switch {
	case stamp.UID != app.UID:
		behind.UID = stamp.UID[:min(len(stamp.UID), maxUID)]
	case !isSpecPlanned(app, stamp):
	case hasLaterRevision(app, stamp):
		behind.Revision = stamp.Revision
	case isAfterRemoval(app, entry, stamp) && plausiblePlacement(app, entry, stamp) == 0:
		behind.CreationTime = &metav1.Time{Time: stamp.ObjectCreated}
	case isAfterRemoval(app, entry, stamp):
		behind.Placement = stamp.Placement
	}
	return behind
}

// tokensFor returns the values with which a user accepts all that is ahead in a stamp.
func tokensFor(app *v1alpha1.AppService, entry *v1alpha1.ClusterStatus, stamp Stamp) []string {
	if stamp.UID != app.UID || !isAfterRemoval(app, entry, stamp) {
		return []string{tokenFor(app, stamp)}
	}
	tokens := []string{stamp.placementToken()}
	if !IsPlanned(app, stamp) {
		tokens = append(tokens, tokenFor(app, stamp))
	}
	return tokens
}

// IsAccepted reports whether a user has accepted every stamp that a cluster status lists as
// ahead.
func IsAccepted(app *v1alpha1.AppService, behind *v1alpha1.HubBehind) bool {
	for token := range strings.SplitSeq(behind.Accept, ",") {
		if !accepts(app, token) {
			return false
		}
	}
	return true
}

// Join returns the tokens as one list. An element may itself be a joined list.
func Join(tokens []string) string { return strings.Join(split(tokens), ",") }

// split returns the single tokens, sorted and without duplicates. An element may be a joined list.
func split(tokens []string) []string {
	all := strings.Split(strings.Join(tokens, ","), ",")
	slices.SortFunc(all, func(a, b string) int { return cmp.Or(cmp.Compare(len(a), len(b)), cmp.Compare(a, b)) })
	return slices.Compact(all)
}

// AcceptValue returns the value of the annotation accept-hub that accepts all these tokens: their
// list, or a digest if the list is too long for a message.
func AcceptValue(tokens []string) string {
	if list := Join(tokens); len(list) <= maxList {
		return list
	}
	return digest(tokens)
}

// AcceptedStamps returns, for the next status, the tokens that the annotation accepts by a digest:
// all tokens that the status lists as ahead, or the tokens that it accepted before. The status must
// list these tokens, because the entries no longer show them after the members have been changed.
func AcceptedStamps(app *v1alpha1.AppService) []string {
	var tokens []string
	for i := range app.Status.Clusters {
		if behind := app.Status.Clusters[i].HubBehind; behind != nil {
			tokens = append(tokens, behind.Accept)
		}
	}
	for _, tokens := range [][]string{tokens, app.Status.AcceptedStamps} {
		if len(tokens) > 0 && isAnnotated(app, digest(tokens)) {
			return split(tokens)
		}
	}
	return nil
}

// accepts reports whether the annotation accepts a stamp, by its token or by the digest of a list
// that is in the status.
func accepts(app *v1alpha1.AppService, token string) bool {
	listed := app.Status.AcceptedStamps
	return isAnnotated(app, token) || slices.Contains(listed, token) && isAnnotated(app, digest(listed))
}

// isAnnotated reports whether the annotation accept-hub contains a token or a digest.
func isAnnotated(app *v1alpha1.AppService, token string) bool {
	for accepted := range strings.SplitSeq(app.Annotations[v1alpha1.AnnotationAcceptHub], ",") {
		if strings.TrimSpace(accepted) == token {
			return true
		}
	}
	return false
}

// digest returns the value with which a user accepts these stamps and no others.
func digest(tokens []string) string {
	sum := sha256.Sum256([]byte(Join(tokens)))
	return "all-" + hex.EncodeToString(sum[:8])
}
