package delivery

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/delivery/object"
	"github.com/fleetwright/fleetwright/controllers/workload"
)

// maintain makes the member hold the copies and the desired objects, and deletes what is not desired:
// the unwanted optional objects first, the copies last. It reports whether any of the objects changed.
// A blocker is returned as an error.
// docs/decisions/the-deployment-is-applied-first.md says why.
func (r *reconciler) maintain(ctx context.Context, t task, desired workload.Workload, unwanted []object.Existing) (changed bool, err error) {
	if err := r.deleteOptional(ctx, t, unwanted); err != nil {
		return false, err
	}
	ensured, err := r.copies.Ensure(ctx, t.copyFacts())
	if err != nil {
		return false, err
	}
	deployment, err := r.ensure(ctx, t, desired.Deployment)
	if err == nil && deployment.Action == object.Create {
		err = r.ensureCopiesOf(ctx, t, deployment.UID)
	}
	if err != nil {
		return false, err
	}
	others, err := r.maintainOthers(ctx, t, desired)
	changed = len(unwanted) > 0 || deployment.IsChange() || others
	if err != nil || ensured.Outdated != nil || changed || deployment.Action != object.Unchanged {
		return changed, cmp.Or(err, ensured.Outdated)
	}
	// The Deployment in the cache has its desired state and its record.
	if r.deleteCopies(ctx, t) {
		_, err = r.ensure(ctx, t, desired.Deployment) // with the shorter record
	}
	return false, err
}

// deleteOptional deletes optional objects. It comes before the Deployment, which lists them. It
// waits for an autoscaler that is not gone at once: it must be gone before Fleetwright sets the
// replicas.
func (r *reconciler) deleteOptional(ctx context.Context, t task, unwanted []object.Existing) error {
	for _, existing := range unwanted {
		if err := r.remover.delete(ctx, t, existing); err != nil {
			return err
		}
		kind := object.KindOf(existing)
		if kind == "HorizontalPodAutoscaler" {
			isGone, err := r.reader.isGone(ctx, existing)
			if err != nil {
				return err
			}
			if !isGone {
				return &object.Blocker{Reason: v1alpha1.ReasonRollingOut, Transient: true, Retry: removalPoll, Message: fmt.Sprintf(
					"waiting for the member to finish deleting %s %s", kind, existing.GetName())}
			}
		}
		t.memory.ofKind(kind).isUnlisted = false
	}
	return nil
}

// maintainOthers ensures the objects beside the Deployment. If no Service is desired, it deletes
// the Service of the AppService or of an earlier one of its name. It reports whether anything
// changed.
func (r *reconciler) maintainOthers(ctx context.Context, t task, desired workload.Workload) (changed bool, err error) {
	if desired.Service == nil {
		if changed, err = r.remover.deleteService(ctx, t); err != nil {
			return changed, err
		}
	}
	others := []*unstructured.Unstructured{desired.Service}
	for _, k := range optionalKinds {
		others = append(others, k.desired(desired))
	}
	for _, one := range others {
		if one == nil {
			continue
		}
		result, err := r.ensure(ctx, t, one)
		if changed = changed || result.IsChange(); err != nil {
			return changed, err
		}
	}
	return changed, nil
}

// ensure ensures one object, and returns what came of it.
func (r *reconciler) ensure(ctx context.Context, t task, desired *unstructured.Unstructured) (object.Result, error) {
	kind := desired.GetKind()
	existing := t.objects.facts[kind]
	if t.memory.awaitsCache(kind, existing) {
		return object.Result{}, errStale
	}
	if existing == nil && isOptional(kind) {
		t.memory.ofKind(kind).isUnlisted = true
	}
	result, err := r.takeSteps(ctx, t, desired)
	if err != nil {
		return object.Result{}, err
	}
	t.memory.ofKind(kind).Memory = result.Memory
	r.note(ctx, t, kind, result)
	if result.Action == object.Blocked {
		return object.Result{}, result.Blocker
	}
	return result, nil
}

// takeSteps decides on an object and does what was decided, until nothing more is to be read for
// it.
func (r *reconciler) takeSteps(ctx context.Context, t task, desired *unstructured.Unstructured) (object.Result, error) {
	facts := t.factsOf(desired.GetKind(), r.hubID)
	for range object.MaxSteps {
		step, err := object.Decide(facts, desired)
		if err == nil && step.Action == object.Adopt {
			err = r.prepareAdoption(ctx, t, step)
		}
		if err != nil {
			return object.Result{}, err
		}
		result, err := r.objects.Do(ctx, step)
		if err != nil || result.Live == nil {
			return result, err
		}
		facts.Live = *result.Live
	}
	return object.Result{}, fmt.Errorf("decide on %s: it needs more than %d steps", desired.GetKind(), object.MaxSteps)
}

// factsOf returns the facts about the object of a kind.
func (t task) factsOf(kind, hubID string) object.Facts {
	now, record := time.Now(), ""
	if kind == "Deployment" {
		record = t.copyFacts().DesiredAnnotation()
	}
	return object.Facts{
		HubID:           hubID,
		App:             t.app,
		Entry:           t.entry,
		Existing:        t.objects.facts[kind],
		KeepsSelector:   workload.HasOwnSelector(t.objects.deployment),
		HasRolledOut:    kind == "Service" && t.app.Spec.ConflictPolicy != v1alpha1.ConflictFail && t.objects.hasRolledOut(),
		VerifyCached:    isOptional(kind),
		CorrectionDelay: t.memory.drift.wait(now),
		Copies:          record,
		Memory:          t.memory.ofKind(kind).Memory,
		Now:             now,
	}
}

// note remembers, counts and announces what was done to the object of a kind. The kind in the
// answer of a member may be anything.
func (r *reconciler) note(ctx context.Context, t task, kind string, result object.Result) {
	if result.IsApplied() {
		ctrl.LoggerFrom(ctx).Info("Applied", "kind", kind, "generation", t.app.Generation)
	}
	switch result.Action {
	case object.Record:
		t.memory.records.note(result.Object, result.Generation, time.Now())
	case object.Create:
		t.memory.ofKind(kind).createTime = time.Now()
	case object.Correct:
		t.memory.drift.corrected(time.Now())
		corrections.WithLabelValues(r.cluster).Inc()
		r.announcer.dueTo(result.Managers, result.Fields).announce(t.app, result.Object, v1alpha1.ReasonDriftCorrected, "Correct", "%s; the change was reverted", result.Drift())
	case object.Adopt:
		note, owner := "%s %s was adopted for AppService %s", client.ObjectKeyFromObject(t.app).String()
		if result.PreviousUID != "" {
			note, owner = "%s %s was inherited from the AppService with UID %s", string(result.PreviousUID)
		}
		r.announcer.announce(t.app, result.Object, v1alpha1.ReasonAdopted, "Adopt", note, object.KindOf(result.Object), result.Object.GetName(), owner)
	}
}
