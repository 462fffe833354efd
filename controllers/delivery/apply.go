package delivery

import (
	"context"
	"errors"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/delivery/object"
	"github.com/fleetwright/fleetwright/controllers/observation"
	"github.com/fleetwright/fleetwright/controllers/podsecurity"
	"github.com/fleetwright/fleetwright/controllers/workload"
)

// apply makes the member hold the desired objects, and deletes what is not desired. It reports
// whether anything changed. A blocker is returned as an error.
// docs/decisions/the-deployment-is-applied-first.md says why.
func (r *reconciler) apply(ctx context.Context, t task) (changed bool, err error) {
	desired, err := render(t, r.hubID)
	if err != nil {
		return false, err
	}
	if err := r.reader.addOptional(ctx, t, desired); err != nil {
		return false, err
	}
	var outdated error // why a copy keeps an older content
	deploymentIsUnchanged := false
	steps := []func() (bool, error){
		func() (bool, error) { return r.deleteOptional(ctx, t, desired) },
		func() (_ bool, err error) { outdated, err = r.applyCopies(ctx, t); return false, err },
		func() (bool, error) {
			result, err := r.ensureResult(ctx, t, desired.Deployment)
			if err != nil {
				return false, err
			}
			deploymentIsUnchanged = result.Action == object.Unchanged
			if result.Action == object.Created {
				err = r.applyCopiesOfNew(ctx, t, result.UID)
			}
			return result.IsChange(), err
		},
		func() (bool, error) { return r.applyService(ctx, t, desired.Service) },
	}
	for _, k := range optionalKinds {
		if one := k.desired(desired); one != nil {
			steps = append(steps, func() (bool, error) { return r.ensure(ctx, t, one) })
		}
	}
	for _, step := range steps {
		did, err := step()
		if changed = changed || did; err != nil {
			return changed, err
		}
	}
	if outdated != nil || changed || !deploymentIsUnchanged || !t.hasCopies() {
		return changed, outdated
	}
	// The Deployment in the cache has its desired state and its record.
	if r.pruneCopies(ctx, t) {
		_, err = r.ensure(ctx, t, desired.Deployment) // with the shorter record
	}
	t.forgetGone()
	return false, err
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

// applyService ensures the Service. If none is desired, it deletes the Service of the AppService or
// of an earlier one of its name.
func (r *reconciler) applyService(ctx context.Context, t task, desired *unstructured.Unstructured) (changed bool, err error) {
	if desired != nil {
		return r.ensure(ctx, t, desired)
	}
	t.memory.setPruned("Service", object.Pruned{})
	service := t.objects.facts["Service"]
	if service == nil || !service.IsManagedByThisHub() {
		return false, nil
	}
	return true, r.remover.deleteUnwanted(ctx, t, *service)
}

// ensure ensures one object, and records what came of it. It reports whether the member may have
// changed.
func (r *reconciler) ensure(ctx context.Context, t task, desired *unstructured.Unstructured) (changed bool, err error) {
	result, err := r.ensureResult(ctx, t, desired)
	return result.IsChange(), err
}

// ensureResult ensures one object, and returns what came of it.
func (r *reconciler) ensureResult(ctx context.Context, t task, desired *unstructured.Unstructured) (object.Result, error) {
	kind := desired.GetKind()
	existing := t.objects.facts[kind]
	if t.memory.awaitsCache(kind, existing) {
		return object.Result{}, errStale
	}
	record := ""
	if kind == "Deployment" && t.hasCopies() {
		record = t.copyAnnotation()
	}
	if existing == nil && isOptional(kind) {
		t.memory.created[kind] = true
	}
	result, err := r.objects.Ensure(ctx, object.Facts{
		App:             t.app,
		Entry:           t.entry,
		Existing:        existing,
		Deployment:      t.objects.deployment,
		HasRolledOut:    t.objects.hasRolledOut,
		VerifyCached:    isOptional(kind),
		AppliedHash:     t.memory.applied[kind],
		Pruned:          t.memory.pruned[kind],
		Complete:        t.memory.complete[kind],
		CorrectionDelay: t.memory.drift.wait(time.Now()),
		Copies:          record,
		Verify:          func(ctx context.Context) error { return r.remover.verifyWithHub(ctx, t) },
		BeforeAdopt: func(ctx context.Context, existing client.Object) error {
			if kind != "Deployment" {
				return nil
			}
			return r.applyCopiesOfNew(ctx, t, existing.GetUID())
		},
		OnRestart: func(existing client.Object, change string) {
			r.announcer.announce(t.app, existing, v1alpha1.ReasonAdoptionRestartsPods, "Adopt",
				"adopting %s %s replaces its pods, because its pod template changes: %s", kind, existing.GetName(), change)
		},
	}, desired)
	t.memory.complete[kind] = result.Complete
	if err != nil {
		return object.Result{}, err
	}
	r.record(ctx, t, kind, result)
	if result.Action == object.Blocked {
		return object.Result{}, result.Blocker
	}
	return result, nil
}

// record remembers, counts and announces what was done to an object.
func (r *reconciler) record(ctx context.Context, t task, kind string, result object.Result) {
	if result.AppliedHash != "" {
		t.memory.applied[kind] = result.AppliedHash
		ctrl.LoggerFrom(ctx).Info("Applied", "kind", kind, "generation", t.app.Generation)
	}
	if result.Pruned != nil {
		t.memory.setPruned(kind, *result.Pruned)
	}
	switch result.Action {
	case object.Recorded:
		t.memory.copies.noteRecorded(result.Object.GetGeneration(), result.Generation, time.Now())
	case object.Created:
		t.memory.unseen[kind] = time.Now()
	case object.Corrected:
		t.memory.drift.corrected(time.Now())
		corrections.WithLabelValues(r.cluster).Inc()
		r.announcer.announce(t.app, result.Object, v1alpha1.ReasonDriftCorrected, "Correct", "%s; the change was reverted", result.Drift())
	case object.Adopted:
		note, owner := "%s %s was adopted for AppService %s", client.ObjectKeyFromObject(t.app).String()
		if result.PreviousUID != "" {
			note, owner = "%s %s was inherited from the AppService with UID %s", string(result.PreviousUID)
		}
		r.announcer.announce(t.app, result.Object, v1alpha1.ReasonAdopted, "Adopt", note, kind, result.Object.GetName(), owner)
	}
}

// hasRolledOut reports whether the Deployment belongs to the AppService and is completely
// available.
func (o objects) hasRolledOut() bool {
	if !o.isOwned("Deployment") {
		return false
	}
	seen, err := observation.Observation{}.WithDeployment(o.deployment)
	return err == nil && seen.Phase == v1alpha1.ClusterReady
}
