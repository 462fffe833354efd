package delivery

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/delivery/object"
	"github.com/fleetwright/fleetwright/controllers/podsecurity"
	"github.com/fleetwright/fleetwright/controllers/workload"
)

// maintain makes the member hold the desired objects, and deletes what is not desired. It reports
// whether anything changed. A blocker is returned as an error.
// docs/decisions/the-deployment-is-applied-first.md says why.
func (r *reconciler) maintain(ctx context.Context, t task, desired workload.Workload) (changed bool, err error) {
	changed, err = r.deleteOptional(ctx, t, desired)
	if err != nil {
		return changed, err
	}
	ensured, err := r.copies.Ensure(ctx, t.copyFacts())
	if err != nil {
		return changed, err
	}
	deployment, err := r.ensure(ctx, t, desired.Deployment)
	changed = changed || deployment.IsChange()
	if err == nil && deployment.Action == object.Create {
		err = r.ensureCopiesOf(ctx, t, deployment.UID)
	}
	if err != nil {
		return changed, err
	}
	didOthers, err := r.maintainOthers(ctx, t, desired)
	changed = changed || didOthers
	isAtRest := !changed && deployment.Action == object.Unchanged
	if err != nil || ensured.Outdated != nil || !isAtRest || !t.copyFacts().Any() {
		return changed, cmp.Or(err, ensured.Outdated)
	}
	// The Deployment in the cache has its desired state and its record.
	if r.pruneCopies(ctx, t) {
		_, err = r.ensure(ctx, t, desired.Deployment) // with the shorter record
	}
	t.copyFacts().ForgetGone()
	return false, err
}

// maintainOthers ensures the objects beside the Deployment. If no Service is desired, it deletes the
// Service of the AppService or of an earlier one of its name. It reports whether anything changed.
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

// render returns the desired objects of a task.
func render(t task, hubID string) (workload.Workload, error) {
	app := *t.app
	app.Spec = *t.spec
	desired, err := workload.Render(&app, t.entry, t.member, hubID, t.copyNames)
	if workload.IsInvalid(err) {
		return desired, &object.Blocker{Reason: v1alpha1.ReasonInvalidOverride, Message: err.Error()}
	}
	if err != nil {
		return desired, err
	}
	if refusal, err := refusalOf(t, desired); err != nil {
		return desired, err
	} else if refusal != "" {
		return desired, &object.Blocker{Reason: v1alpha1.ReasonPodSecurityRefused, Message: refusal + "; the cluster keeps what it runs"}
	}
	desired, err = desired.KeepSelector(t.objects.deployment, t.objects.service)
	if errors.Is(err, workload.ErrNoLabels) {
		return desired, &object.Blocker{Reason: v1alpha1.ReasonConflict, Message: err.Error()}
	}
	return desired, err
}

// refusalOf returns why the pod template of a task violates the policy of its revision, or "". The
// planner gives a cluster no such revision; but since then, a label of the MemberCluster may have
// changed, and with it the overrides that match. What runs goes on: a Deployment that was applied as it
// is desired is not checked again, nor one whose pods violate the policy in the same way.
func refusalOf(t task, desired workload.Workload) (string, error) {
	if t.podSecurity == nil {
		return "", nil
	}
	isApplied := t.objects.isOwned("Deployment") &&
		t.objects.deployment.Annotations[v1alpha1.AnnotationHash] == desired.Deployment.GetAnnotations()[v1alpha1.AnnotationHash]
	if isApplied {
		return "", nil
	}
	template, err := desired.PodTemplate()
	if err != nil {
		return "", err
	}
	refusal := podsecurity.Refusal(template, t.podSecurity)
	if refusal != "" && t.objects.isOwned("Deployment") && refusal == podsecurity.Refusal(&t.objects.deployment.Spec.Template, t.podSecurity) {
		return "", nil
	}
	return refusal, nil
}

// ensure ensures one object, and returns what came of it.
func (r *reconciler) ensure(ctx context.Context, t task, desired *unstructured.Unstructured) (object.Result, error) {
	kind := desired.GetKind()
	existing := t.objects.facts[kind]
	if t.memory.awaitsCache(kind, existing) {
		return object.Result{}, errStale
	}
	if existing == nil && isOptional(kind) {
		t.memory.created[kind] = true
	}
	result, err := r.takeSteps(ctx, t, desired)
	if err != nil {
		return object.Result{}, err
	}
	t.memory.objects[kind] = result.Memory
	r.record(ctx, t, kind, result)
	if result.Action == object.Blocked {
		return object.Result{}, result.Blocker
	}
	return result, nil
}

// takeSteps decides on an object and does what was decided, until nothing more is to be read for it.
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
	now, existing, record := time.Now(), t.objects.facts[kind], ""
	if kind == "Deployment" {
		record = t.copyRecord()
	}
	return object.Facts{
		HubID:           hubID,
		App:             t.app,
		Entry:           t.entry,
		Existing:        existing,
		KeepsSelector:   workload.HasOwnSelector(t.objects.deployment),
		HasRolledOut:    kind == "Service" && t.app.Spec.ConflictPolicy != v1alpha1.ConflictFail && t.objects.hasRolledOut(),
		VerifyCached:    isOptional(kind),
		CorrectionDelay: t.memory.drift.wait(now),
		Copies:          record,
		Memory:          t.memory.objects[kind],
		Now:             now,
	}
}

// prepareAdoption does what must come before an object is adopted: the hub confirms it, an adopted
// Deployment has its copies, and it is announced that pods are replaced.
func (r *reconciler) prepareAdoption(ctx context.Context, t task, step object.Step) error {
	if err := r.remover.verifyWithHub(ctx, t); err != nil {
		return err
	}
	kind := object.KindOf(step.Object)
	if kind == "Deployment" {
		if err := r.ensureCopiesOf(ctx, t, step.Object.GetUID()); err != nil {
			return err
		}
	}
	if step.Restart != "" {
		r.announcer.announce(t.app, step.Object, v1alpha1.ReasonAdoptionRestartsPods, "Adopt",
			"adopting %s %s replaces its pods, because its pod template changes: %s", kind, step.Object.GetName(), step.Restart)
	}
	return nil
}

// record remembers, counts and announces what was done to the object of a kind. The kind in the answer
// of a member may be anything.
func (r *reconciler) record(ctx context.Context, t task, kind string, result object.Result) {
	if result.IsApplied() {
		ctrl.LoggerFrom(ctx).Info("Applied", "kind", kind, "generation", t.app.Generation)
	}
	switch result.Action {
	case object.Record:
		t.memory.record.note(result.Object, result.Generation, time.Now())
	case object.Create:
		t.memory.unseen[kind] = time.Now()
	case object.Correct:
		t.memory.drift.corrected(time.Now())
		corrections.WithLabelValues(r.cluster).Inc()
		r.announcer.announce(t.app, result.Object, v1alpha1.ReasonDriftCorrected, "Correct", "%s; the change was reverted", result.Drift())
	case object.Adopt:
		note, owner := "%s %s was adopted for AppService %s", client.ObjectKeyFromObject(t.app).String()
		if result.PreviousUID != "" {
			note, owner = "%s %s was inherited from the AppService with UID %s", string(result.PreviousUID)
		}
		r.announcer.announce(t.app, result.Object, v1alpha1.ReasonAdopted, "Adopt", note, object.KindOf(result.Object), result.Object.GetName(), owner)
	}
}
