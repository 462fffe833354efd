package object

import (
	"reflect"
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
	// Kept is what the object has of the fields. Another manager may remove more from a list that is
	// compared as a whole.
	Kept any
	// Hash is the hash of the object that was applied.
	Hash string
	// Retry is when to ask the member again.
	Retry time.Time
}

// IsEmpty reports whether the member discards nothing.
func (p Pruned) IsEmpty() bool { return p.Fields == nil || p.Fields.Empty() }

// from returns the fields that are known to be discarded from an object, which was compared. It returns
// none when it is time to ask the member again, when another object was applied since, or when the
// object has something else of the fields.
func (p Pruned) from(existing client.Object, found difference, now time.Time) *fieldpath.Set {
	isKnown := p.Fields != nil && now.Before(p.Retry) && p.Hash == existing.GetAnnotations()[v1alpha1.AnnotationHash]
	if !isKnown || !reflect.DeepEqual(p.Kept, found.kept(p.Fields)) {
		return fieldpath.NewSet()
	}
	return p.Fields.Intersection(found.absent)
}
