package object

import (
	"reflect"
	"slices"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
)

// correct decides on an object that lacks fields although it was applied as desired: another
// manager has changed them, or the member discards them. To apply those again would change nothing.
func (d *decision) correct() (Step, error) {
	found, err := diff(d.current.Object, d.stamp())
	if err != nil {
		return Step{}, err
	}
	discarded, err := discardedFields(d.current.Object, found)
	if err != nil {
		return Step{}, err
	}
	changed := d.missing.Leaves().Difference(discarded)
	switch {
	case !changed.Empty():
		return d.correctDrift(changed), nil
	case d.current.needsStamp:
		return d.applyStep(Update), nil
	}
	return d.recheckPruned(discarded, found)
}

// correctDrift applies fields that another manager has changed, unless that was done too often.
func (d *decision) correctDrift(changed *fieldpath.Set) Step {
	step := d.applyStep(Correct)
	step.Managers, step.Fields = managersOf(d.current.Object, changed), FieldNames(changed)
	if d.CorrectionDelay > 0 {
		return d.blocked(&Blocker{Reason: v1alpha1.ReasonFieldConflict, Retry: d.CorrectionDelay, Message: step.Drift() + " repeatedly, so it is now reverted less often: stop that manager, or change the AppService"})
	}
	return step
}

// discardedFields returns the fields that the member has discarded from an object: they are desired
// and absent, and Fleetwright still owns them. When another manager removes a field, by any request,
// the API server also removes it from the fields that Fleetwright owns. So it does if another manager
// changes anything in a list that is compared as a whole.
// docs/decisions/a-pruned-field-is-no-drift.md says why.
func discardedFields(existing client.Object, found difference) (*fieldpath.Set, error) {
	entries := existing.GetManagedFields()
	own := slices.IndexFunc(entries, isOwn)
	if own < 0 {
		return fieldpath.NewSet(), nil
	}
	owned, err := fieldsOf(entries[own])
	if err != nil {
		return nil, err
	}
	return found.absent.Intersection(owned), nil
}

// recheckPruned decides on an object that lacks only fields that the member discards. If that is
// news, and every PruneRetry, the member is asked whether it would keep them.
func (d *decision) recheckPruned(discarded *fieldpath.Set, found difference) (Step, error) {
	if discarded.Difference(d.Memory.Pruned.from(d.current.Object, found, d.Now)).Empty() {
		return d.step(Unchanged), nil // the cache was behind
	}
	if !d.isAnswered() {
		return d.dryRun("ask whether the fields of " + d.desired.GetKind() + " would be kept"), nil
	}
	kept := found.kept(discarded)
	wouldKeep, err := d.wouldKeep(discarded, kept)
	if err != nil {
		return Step{}, err
	}
	step := d.step(Unchanged)
	if wouldKeep {
		step = d.applyStep(Update)
	}
	// Also if the member would keep the fields: if it does not, they are not applied again before
	// the retry.
	step.Memory.Pruned = Pruned{Fields: discarded, Kept: kept, Hash: d.current.GetAnnotations()[v1alpha1.AnnotationHash], Retry: d.Now.Add(PruneRetry)}
	return step, nil
}

// isAnswered reports whether the member has answered a dry run.
func (d *decision) isAnswered() bool { return d.Live.Answer != nil || d.Live.Refusal != nil }

// dryRun returns a step that asks the member what an apply would give.
func (d *decision) dryRun(question string) Step {
	step := d.applyStep(NeedLive)
	step.Need, step.question = NeedDryRun, question
	return step
}

// wouldKeep reports whether the member would have something else of the fields than it kept.
func (d *decision) wouldKeep(discarded *fieldpath.Set, kept any) (bool, error) {
	if d.Live.Answer == nil { // the member refuses the apply
		return false, nil
	}
	found, err := diff(d.Live.Answer, d.stamp())
	if err != nil {
		return false, err
	}
	return !reflect.DeepEqual(kept, found.kept(discarded)), nil
}
