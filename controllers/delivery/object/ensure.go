package object

import (
	"context"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/workload"
)

// DeletionPoll is when to check again whether the member has finished deleting an object.
const DeletionPoll = 10 * time.Second

// Member is a member on which objects are ensured.
type Member struct {
	HubID  string
	Differ Differ
	// Client writes to the member. Nothing is read by it.
	Client client.Client
	// Live reads from the member itself.
	Live client.Reader
	// NamespaceLabels returns the labels that a namespace gets when it is created. It may be nil.
	NamespaceLabels func(ctx context.Context, namespace string) (map[string]string, error)
	// OnApply is called for each apply, with its error and its duration. It may be nil.
	OnApply func(err error, took time.Duration)
}

// Facts are what Ensure decides on. They are gathered once for each reconcile. All functions are
// required.
type Facts struct {
	App   *v1alpha1.AppService
	Entry *v1alpha1.ClusterStatus
	// Existing is the object in the member's cache; nil if there is none.
	Existing *Existing
	// Deployment is the Deployment of the AppService's name; nil if there is none. A Service
	// follows it.
	Deployment *appsv1.Deployment
	// HasRolledOut reports whether the Deployment is owned and completely available.
	HasRolledOut func() bool
	// VerifyCached is set for an object whose watch may have ended unnoticed: its cached copy is
	// compared with the member itself before the object is changed.
	VerifyCached bool
	// AppliedHash is the hash of the object that was applied last; empty if that is not known.
	AppliedHash string
	// Pruned are the fields that the member is known to discard.
	Pruned Pruned
	// Complete is the last comparison if it found nothing to do; otherwise nil.
	Complete *Comparison
	// CorrectionDelay is how long drift must not be corrected.
	CorrectionDelay time.Duration
	// Copies is the record of copies that the Deployment must have; empty if there are none. It is
	// compared with the record that the Deployment has, and a difference is no drift.
	Copies string
	// Verify reads the hub live, and fails if the hub does not confirm what is about to be done.
	// Adoption cannot be undone, so a cache is not enough for it.
	Verify func(context.Context) error
	// BeforeAdopt is called before an unmanaged object, or that of an earlier AppService, is changed,
	// after everything was checked. An error leaves the object as it is.
	BeforeAdopt func(ctx context.Context, existing client.Object) error
	// OnRestart is called before an adoption that replaces pods, with the reason for it.
	OnRestart func(existing client.Object, change string)

	// cacheIsBehind is set if Existing is not the version that the member has.
	cacheIsBehind bool
}

// Action is what Ensure did.
type Action string

const (
	// Unchanged: the object holds every desired field, or lacks only what the member discards.
	Unchanged Action = "Unchanged"
	// Stale: the member's cache is behind the member. The watch brings the next try.
	Stale Action = "Stale"
	// Created: there was no object.
	Created Action = "Created"
	// Updated: the desired state had changed.
	Updated Action = "Updated"
	// Recorded: only the record of copies differed. The pods of the Deployment stay, so it is no
	// change for those who watch its rollout.
	Recorded Action = "Recorded"
	// Corrected: another manager had changed the object. Managers and Fields name it.
	Corrected Action = "Corrected"
	// Adopted: the object was unmanaged, or had a PreviousUID.
	Adopted Action = "Adopted"
	// Blocked: nothing was done; Blocker says why.
	Blocked Action = "Blocked"
)

// Result is what Ensure did to an object, and what it found out.
type Result struct {
	Action Action
	// Object is the object before the action; nil if there was none.
	Object client.Object
	// Managers changed the Fields of a Corrected object.
	Managers, Fields string
	// PreviousUID is the UID of the AppService that an Adopted object was inherited from.
	PreviousUID types.UID
	// UID is the UID of a Created object.
	UID types.UID
	// Generation is the generation of a Deployment after it was Recorded, or 0 if the member has
	// another version of it.
	Generation int64
	// Blocker is set if the action is Blocked.
	Blocker *Blocker
	// AppliedHash is the hash of the object that was applied; empty if none was.
	AppliedHash string
	// Pruned is set if it is newly known which fields the member discards.
	Pruned *Pruned
	// Complete is the comparison if it found nothing to do, and need not be repeated; otherwise
	// nil.
	Complete *Comparison
}

// IsChange reports whether the member may have changed, other than by a record.
func (r Result) IsChange() bool {
	return r.Action != "" && r.Action != Unchanged && r.Action != Recorded
}

func blocked(blocker *Blocker) (Result, error) {
	return Result{Action: Blocked, Blocker: blocker}, nil
}

// Ensure makes an object of a member hold the desired fields. It returns a conflict error if the
// member has another object than the cache shows.
func (m *Member) Ensure(ctx context.Context, facts Facts, desired *unstructured.Unstructured) (Result, error) {
	if facts.Existing == nil {
		if desired.GetKind() == "Deployment" {
			// The initial replicas of an autoscaled Deployment are not compared later.
			desired = workload.WithReplicas(desired, facts.Entry.Replicas)
		}
		return m.create(ctx, facts, desired)
	}
	if facts.Existing.Newer {
		return blocked(facts.Existing.Blocker(facts.App.Spec.ConflictPolicy))
	}
	comparison := comparisonOf(facts, desired)
	if comparison.isRepeated(facts.Complete) && !needsStamp(facts, facts.Existing.Object) && !needsRecord(facts) {
		return Result{Action: Unchanged, Object: facts.Existing.Object, Complete: comparison}, nil
	}
	found, err := m.compare(ctx, facts, desired)
	if err != nil {
		return Result{}, err
	}
	if found.missing.Empty() && !needsStamp(facts, facts.Existing.Object) {
		result := Result{Action: Unchanged, Object: facts.Existing.Object}
		if needsRecord(facts) {
			var err error
			if result.Generation, err = m.writeRecord(ctx, facts, found); err != nil {
				return Result{}, err
			}
			result.Action = Recorded
		}
		if found.complete {
			result.Complete, result.Pruned = comparison, &Pruned{}
		}
		return result, nil
	}
	result, err := m.update(ctx, facts, found)
	if found.onlyVersion != "" && apierrors.IsConflict(err) {
		facts.cacheIsBehind = true
		return m.Ensure(ctx, facts, desired)
	}
	if err != nil {
		return Result{}, err
	}
	if found.complete && result.Pruned == nil {
		result.Pruned = &Pruned{}
	}
	return result, nil
}

// update changes an object that lacks fields, or has a stamp to replace.
func (m *Member) update(ctx context.Context, facts Facts, found difference) (Result, error) {
	existing, desired, missing := *facts.Existing, found.desired, found.missing
	if existing.IsBeingDeleted() {
		return blocked(&Blocker{Reason: v1alpha1.ReasonRollingOut, Transient: true, Retry: DeletionPoll, Message: fmt.Sprintf(
			"the member is deleting %s %s; Fleetwright creates it again afterwards", KindOf(existing.Object), existing.GetName())})
	}
	wasApplied := facts.AppliedHash != "" && facts.AppliedHash == hashOf(desired)
	drifted := !missing.Empty() && (isDrift(existing, desired) || wasApplied)
	if !existing.IsOwned() || drifted || facts.VerifyCached {
		// An adoption and a correction are reported, so the cache is not trusted: it may be behind
		// the last apply.
		current, currentMissing, err := m.reread(ctx, existing.Object, desired)
		switch {
		case err != nil:
			return Result{}, err
		case current == nil || currentMissing.Empty() && !needsStamp(facts, current):
			return m.handleStaleCache(ctx, facts, current, desired)
		}
		existing, missing = Inspect(m.HubID, facts.App, facts.Entry, current), currentMissing
		drifted = drifted || isDrift(existing, desired)
		if blocker := existing.Blocker(facts.App.Spec.ConflictPolicy); blocker != nil {
			return blocked(blocker)
		}
	}
	stamped := stamp(facts, desired)
	stamped.SetUID(existing.GetUID()) // an object that took its place is not changed
	stamped.SetResourceVersion(found.onlyVersion)
	switch {
	case existing.Owner == Unmanaged:
		return m.adopt(ctx, facts, existing, stamped)
	case existing.Owner == PreviousAppService:
		return m.inherit(ctx, facts, existing, stamped)
	case drifted:
		return m.correct(ctx, facts, existing, stamped, missing)
	}
	return m.applyTo(ctx, existing.Object, stamped, Updated)
}

// handleStaleCache handles an object that is gone or complete on the member itself, given its
// current state. The watch will report that, except perhaps for an object with VerifyCached, which
// is created here.
func (m *Member) handleStaleCache(ctx context.Context, facts Facts, current client.Object, desired *unstructured.Unstructured) (Result, error) {
	switch {
	case !facts.VerifyCached:
		return Result{Action: Stale}, nil
	case current != nil:
		return Result{Action: Unchanged, Object: current}, nil
	}
	return m.create(ctx, facts, desired)
}

// reread returns an object as the member itself has it, with its managed fields, which the cache
// drops, and the fields that it lacks. It returns nil if the object is gone.
func (m *Member) reread(ctx context.Context, existing client.Object, desired *unstructured.Unstructured) (client.Object, *fieldpath.Set, error) {
	current := existing.DeepCopyObject().(client.Object)
	if err := m.Live.Get(ctx, client.ObjectKeyFromObject(existing), current); apierrors.IsNotFound(err) {
		return nil, nil, nil
	} else if err != nil {
		return nil, nil, fmt.Errorf("read %s: %w", KindOf(existing), err)
	}
	current.GetObjectKind().SetGroupVersionKind(existing.GetObjectKind().GroupVersionKind())
	missing, err := m.Differ.missing(current, desired)
	return current, missing, err
}

// hashOf returns the hash of a desired object.
func hashOf(desired *unstructured.Unstructured) string {
	return desired.GetAnnotations()[v1alpha1.AnnotationHash]
}

// isDrift reports whether an object was applied as desired before. If it lacks a field then,
// another manager has changed it. A difference with another hash is an update that was not applied yet.
func isDrift(existing client.Object, desired *unstructured.Unstructured) bool {
	return existing.GetAnnotations()[v1alpha1.AnnotationHash] == hashOf(desired)
}
