package object

import (
	"context"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
)

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

// difference returns how an object differs from its desired state. Fields that the member is known
// to discard are not missing.
func (m *Member) difference(facts Facts, desired *unstructured.Unstructured) (difference, error) {
	existing := facts.Existing.Object
	missing, err := m.Differ.missing(existing, desired)
	if err != nil {
		return difference{}, err
	}
	found := difference{desired: desired, missing: missing, complete: missing.Empty()}
	known := facts.Pruned.from(existing, time.Now())
	if found.complete || known.Empty() {
		return found, nil
	}
	absent, err := m.Differ.absent(existing, desired)
	if err != nil {
		return difference{}, err
	}
	found.missing = missing.Leaves().Difference(known.Intersection(absent))
	return found, nil
}

// discarded returns the fields that the member has discarded from an object: they are desired and
// absent, and Fleetwright still owns them. When another manager removes a field, by any request,
// the API server also removes it from the fields that Fleetwright owns.
// docs/decisions/a-pruned-field-is-no-drift.md says why.
func (m *Member) discarded(existing client.Object, desired *unstructured.Unstructured) (*fieldpath.Set, error) {
	entries := existing.GetManagedFields()
	own := slices.IndexFunc(entries, isOwn)
	if own < 0 {
		return fieldpath.NewSet(), nil
	}
	owned, err := fieldsOf(entries[own])
	if err != nil {
		return nil, err
	}
	absent, err := m.Differ.absent(existing, desired)
	if err != nil {
		return nil, err
	}
	return absent.Intersection(owned), nil
}

// correct applies fields that another manager has changed. Fields that the member discards are
// left: to apply them again would change nothing.
func (m *Member) correct(ctx context.Context, facts Facts, existing Existing, desired *unstructured.Unstructured, missing *fieldpath.Set) (Result, error) {
	discarded, err := m.discarded(existing.Object, desired)
	if err != nil {
		return Result{}, err
	}
	changed := missing.Leaves().Difference(discarded)
	switch {
	case !changed.Empty():
		return m.correctDrift(ctx, facts, existing, desired, changed)
	case needsStamp(facts, existing.Object):
		return m.applyTo(ctx, existing.Object, desired, Updated)
	}
	return m.recheckPruned(ctx, facts, existing, desired, discarded)
}

// correctDrift applies fields that another manager has changed, unless that was done too often.
func (m *Member) correctDrift(ctx context.Context, facts Facts, existing Existing, desired *unstructured.Unstructured, changed *fieldpath.Set) (Result, error) {
	drift := Result{Object: existing.Object, Managers: managersOf(existing.Object, changed), Fields: FieldNames(changed)}
	if facts.CorrectionDelay > 0 {
		return blocked(&Blocker{Reason: v1alpha1.ReasonFieldConflict, Retry: facts.CorrectionDelay, Message: drift.Drift() + " repeatedly, so it is now reverted less often: stop that manager, or change the AppService"})
	}
	result, err := m.applyTo(ctx, existing.Object, desired, Corrected)
	result.Managers, result.Fields = drift.Managers, drift.Fields
	return result, err
}

// Drift describes who has changed what of the object.
func (r Result) Drift() string {
	return fmt.Sprintf("%s changed %s of %s %s", r.Managers, r.Fields, KindOf(r.Object), r.Object.GetName())
}

// recheckPruned handles an object that lacks only fields that the member discards. If that is news,
// and every PruneRetry, it asks the member whether it would keep them.
func (m *Member) recheckPruned(ctx context.Context, facts Facts, existing Existing, desired *unstructured.Unstructured, discarded *fieldpath.Set) (Result, error) {
	now := time.Now()
	unchanged := Result{Action: Unchanged, Object: existing.Object}
	if discarded.Difference(facts.Pruned.from(existing.Object, now)).Empty() {
		return unchanged, nil // the cache was behind
	}
	keeps, err := m.wouldKeep(ctx, desired, discarded)
	if err != nil {
		return Result{}, err
	}
	// Also if the member would keep the fields: if it does not, they are not applied again before
	// the retry.
	pruned := &Pruned{Hash: existing.GetAnnotations()[v1alpha1.AnnotationHash], Fields: discarded, Retry: now.Add(PruneRetry)}
	if !keeps {
		unchanged.Pruned = pruned
		return unchanged, nil
	}
	result, err := m.applyTo(ctx, existing.Object, desired, Updated)
	result.Pruned = pruned
	return result, err
}

// wouldKeep reports whether the member would keep any of the fields, by a dry run.
func (m *Member) wouldKeep(ctx context.Context, desired *unstructured.Unstructured, discarded *fieldpath.Set) (bool, error) {
	answer, err := m.dryRun(ctx, desired)
	switch {
	case apierrors.IsForbidden(err), apierrors.IsInvalid(err), apierrors.IsBadRequest(err):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("ask whether the fields of %s would be kept: %w", desired.GetKind(), err)
	}
	absent, err := m.Differ.absent(answer, desired)
	if err != nil {
		return false, err
	}
	return !discarded.Difference(absent).Empty(), nil
}
