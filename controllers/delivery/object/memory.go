package object

import (
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
)

// Memory is what the last step for an object leaves to the next decision. It saves requests and
// comparisons; nothing depends on it that cannot be decided again.
type Memory struct {
	// Pruned are the fields that the member discards.
	Pruned Pruned
	// applied is the hash of the object that was applied last.
	applied string
	// converged is the last comparison that found nothing to do.
	converged comparison
}

// PruneRetry is when to ask a member again whether it keeps a field: it may have been upgraded.
const PruneRetry = 10 * time.Minute

// Pruned are the fields that a member discards from one object, as that was applied. The API server
// discards fields that it does not know, and without a word those that a feature gate turns off; an
// admission webhook may discard any field.
type Pruned struct {
	Fields *fieldpath.Set
	// Hash is the hash of the object that was applied.
	Hash string
	// Retry is when to ask the member again.
	Retry time.Time
}

// IsEmpty reports whether the member discards nothing.
func (p Pruned) IsEmpty() bool { return p.Fields == nil || p.Fields.Empty() }

// from returns the fields that are known to be discarded from an object. It returns none when it is
// time to ask the member again, or when another object was applied since.
func (p Pruned) from(existing client.Object, now time.Time) *fieldpath.Set {
	if p.Fields == nil || !now.Before(p.Retry) || p.Hash != existing.GetAnnotations()[v1alpha1.AnnotationHash] {
		return fieldpath.NewSet()
	}
	return p.Fields
}
