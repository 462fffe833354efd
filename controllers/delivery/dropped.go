package delivery

import (
	"context"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/observation"
)

// dropRetry is how often a member is asked whether it would keep what it dropped: it may have been upgraded.
const dropRetry = 10 * time.Minute

// lacking returns the fields that are wanted and that an object does not hold, but for those of which it is known that the member drops them.
func (r *reconciler) lacking(t task, existing client.Object, want *unstructured.Unstructured) (*fieldpath.Set, error) {
	lacking, err := r.comparer.difference(existing, want)
	if err != nil {
		return nil, err
	}
	if lacking.Empty() {
		t.memory.forgetPruned(kindOf(existing))
		return lacking, nil
	}
	known := t.memory.prunedFrom(existing, time.Now())
	if known.Empty() {
		return lacking, nil
	}
	absent, err := r.comparer.absent(existing, want)
	if err != nil {
		return nil, err
	}
	return lacking.Leaves().Difference(known.Intersection(absent)), nil
}

// dropped returns the fields that a member has dropped from an object, as the member itself has it: they are wanted, they are not there, and we still
// hold them. Where somebody has taken a field away, by whatever request, the API server has taken it from what we hold as well. It drops
// without a word what it knows and a feature gate turns off, and so may an admission webhook.
func (r *reconciler) dropped(existing client.Object, want *unstructured.Unstructured) (*fieldpath.Set, error) {
	entries := existing.GetManagedFields()
	own := slices.IndexFunc(entries, isOwn)
	if own < 0 {
		return fieldpath.NewSet(), nil
	}
	ours, err := held(entries[own])
	if err != nil {
		return nil, err
	}
	absent, err := r.comparer.absent(existing, want)
	if err != nil {
		return nil, err
	}
	return absent.Intersection(ours), nil
}

// correct puts back what somebody has changed of an object, and leaves what the member drops: to send that again would change nothing.
func (r *reconciler) correct(ctx context.Context, t task, existing client.Object, want *unstructured.Unstructured, missing *fieldpath.Set) (sent bool, err error) {
	dropped, err := r.dropped(existing, want)
	if err != nil {
		return false, err
	}
	switch changed := missing.Leaves().Difference(dropped); {
	case !changed.Empty():
		return true, r.putBack(ctx, t, existing, want, changed)
	case needsStamp(t.app, existing):
		return true, r.change(ctx, t, existing, want)
	}
	return r.leaveDropped(ctx, t, existing, want, dropped)
}

// leaveDropped leaves an object that lacks nothing but what the member drops. When that is new, and each dropRetry after, the member is asked
// whether it is still so.
func (r *reconciler) leaveDropped(ctx context.Context, t task, existing client.Object, want *unstructured.Unstructured, dropped *fieldpath.Set) (sent bool, err error) {
	now := time.Now()
	if dropped.Difference(t.memory.prunedFrom(existing, now)).Empty() {
		return false, nil // the cache was behind
	}
	keeps, err := r.wouldKeep(ctx, want, dropped)
	if err != nil {
		return false, err
	}
	if keeps {
		if err := r.change(ctx, t, existing, want); err != nil {
			return true, err
		}
	}
	// Also where it would keep them: if it does not, it is not sent them more often.
	t.memory.rememberPruned(existing, dropped, now.Add(dropRetry))
	return keeps, nil
}

// wouldKeep asks the member, by a dry run, whether it would keep any of the fields that it dropped.
func (r *reconciler) wouldKeep(ctx context.Context, want *unstructured.Unstructured, dropped *fieldpath.Set) (bool, error) {
	answer := want.DeepCopy()
	err := r.member.Apply(ctx, client.ApplyConfigurationFromUnstructured(answer), client.FieldOwner(v1alpha1.ManagedBy), client.ForceOwnership, client.DryRunAll)
	switch {
	case apierrors.IsForbidden(err), apierrors.IsInvalid(err), apierrors.IsBadRequest(err):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("ask whether %s would be kept: %w", want.GetKind(), err)
	}
	absent, err := r.comparer.absent(answer, want)
	if err != nil {
		return false, err
	}
	return !dropped.Difference(absent).Empty(), nil
}

// withDropped adds to an observation what the member drops of the objects, and returns when to look again. It runs all else, so it is only said: nothing
// is held up by it.
func (r *reconciler) withDropped(t task, seen observation.Observation, again time.Duration) (observation.Observation, time.Duration) {
	what, next := t.memory.describePruned()
	if what == "" {
		return seen, again
	}
	message := fmt.Sprintf("the member drops %s: its Kubernetes version, a feature gate or an admission webhook takes that out; leave it out there by an override", what)
	if seen.Message != "" && seen.Reason != v1alpha1.ReasonRollingOut {
		message += fmt.Sprintf("; %s: %s", seen.Reason, seen.Message)
	}
	seen.Phase, seen.Reason, seen.Message = v1alpha1.ClusterFailed, v1alpha1.ReasonRefused, message
	if wait := max(time.Second, time.Until(next)); again == 0 || wait < again {
		again = wait
	}
	return seen, again
}

// isOwn tells whether an entry is the one of what we apply.
func isOwn(e metav1.ManagedFieldsEntry) bool {
	return e.Manager == v1alpha1.ManagedBy && e.Operation == metav1.ManagedFieldsOperationApply && e.Subresource == ""
}
