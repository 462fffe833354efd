package copies

import (
	"context"
	"errors"
	"time"

	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/configuration/snapshots"
	"github.com/fleetwright/fleetwright/controllers/workload"
)

// Ensurer keeps the copies on one member. It is safe for concurrent use.
type Ensurer struct {
	Writer    *Writer
	Snapshots *snapshots.Reader
	// OnApply is called for each apply, with its error and its duration.
	OnApply func(err error, took time.Duration)
	// DeletionRetry is when to try again to delete copies, after it failed.
	DeletionRetry time.Duration
}

// Result is what came of Ensure.
type Result struct {
	// Outdated is why copies that are there keep an older content; nil if none does.
	Outdated error
}

// Deletion is what came of Delete.
type Deletion struct {
	Any    bool // a copy was deleted
	Failed Key  // the copy that could not be deleted
}

// Ensure applies the needed copies that are not there, or have an older content, for the Deployment
// on the member or for its NewOwner. A Deployment that is not owned, or is being deleted, gets
// none.
func (e *Ensurer) Ensure(ctx context.Context, facts Facts) (Result, error) {
	var result Result
	for _, needed := range facts.toApply() {
		isThere := facts.Memory.isApplied(KeyOf(needed))
		err := e.apply(ctx, facts, needed, isThere)
		switch {
		case err != nil && !isThere:
			return result, err
		case err != nil:
			result.Outdated = errors.Join(result.Outdated, err)
		}
	}
	return result, nil
}

// Restore applies the copies again that may be missing, as the pods of the Deployment show. A
// member that has a newer content than the hub keeps it.
func (e *Ensurer) Restore(ctx context.Context, facts Facts, mayMiss func(workload.Copy) bool) error {
	if !facts.IsOwned || facts.Memory.owner != facts.Deployment.UID {
		return nil
	}
	var errs error
	for _, needed := range facts.Needed {
		if known := facts.Memory.known[KeyOf(needed)]; !mayMiss(needed) || known.isThere && known.serial > needed.Serial {
			continue
		}
		errs = errors.Join(errs, e.apply(ctx, facts, needed, false))
	}
	return errs
}

// apply applies one copy, or updates one that is there.
func (e *Ensurer) apply(ctx context.Context, facts Facts, needed workload.Copy, isThere bool) error {
	content, err := e.Snapshots.Content(ctx, facts.App, v1alpha1.ConfigurationKind(needed.Kind), needed.Snapshot)
	if err != nil {
		return err
	}
	defer content.Release()
	key, memory := KeyOf(needed), facts.Memory
	object := Object{
		Key:         key,
		Namespace:   facts.App.Namespace,
		AppService:  facts.App.Name,
		Deployment:  memory.owner,
		IsImmutable: needed.Serial == 0,
		Content:     content.Fields(),
	}
	var uid types.UID
	begin := time.Now()
	if isThere {
		uid, err = e.Writer.Update(ctx, object, memory.known[key].uid)
	} else {
		uid, err = e.Writer.Apply(ctx, object)
	}
	e.OnApply(err, time.Since(begin))
	if err != nil {
		memory.noteFailed(key)
		return err
	}
	memory.noteApplied(key, needed.Serial, uid)
	ctrl.LoggerFrom(ctx).Info("Applied", "kind", needed.Kind, "name", needed.Name, "serial", needed.Serial)
	return nil
}

// ErrNotVerified is what verify of Delete returns for a deletion that is not verified now. It
// ends the deletions, and it is no failure.
var ErrNotVerified = errors.New("the deletion of a copy is not verified")

// Delete deletes the copies that the member does not need any more, after the rollout of the
// Deployment is complete there: until then, a pod of an older revision may restart. The Deployment
// in the member's cache must have every desired field. verify is called before each deletion, and
// its error prevents it. An error is about the copy that is Failed. After it, nothing is deleted
// before the DeletionRetry.
func (e *Ensurer) Delete(ctx context.Context, facts Facts, verify func(context.Context) error) (result Deletion, err error) {
	facts.forgetGone()
	for _, key := range facts.toDelete() {
		err := e.Writer.Delete(ctx, facts.App.Namespace, key, facts.Memory.owner, verify)
		switch {
		case errors.Is(err, ErrNotVerified):
			return result, nil
		case err != nil:
			facts.Memory.nextDeletion = facts.Now.Add(e.DeletionRetry)
			result.Failed = key
			return result, err
		}
		result.Any = true
		facts.Memory.noteDeleted(key)
		ctrl.LoggerFrom(ctx).Info("Deleted", "kind", key.Kind, "name", key.Name)
	}
	return result, nil
}
