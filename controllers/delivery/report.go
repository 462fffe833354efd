package delivery

import (
	"context"
	"fmt"
	"slices"
	"time"

	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/delivery/object"
	"github.com/fleetwright/fleetwright/controllers/observation"
	"github.com/fleetwright/fleetwright/controllers/revision"
)

// observe reports what the member runs, after the given generation was applied.
func (r *reconciler) observe(ctx context.Context, t task, applied int64) (reconcile.Result, error) {
	seen := observation.Observation{Phase: v1alpha1.ClusterProgressing, Reason: v1alpha1.ReasonRollingOut, Applied: applied}
	if !t.objects.isOwned("Deployment") {
		r.report(t, seen)
		return reconcile.Result{}, nil
	}
	seen, err := seen.WithDeployment(t.objects.deployment)
	if err != nil {
		return reconcile.Result{}, err
	}
	listed := t.memory.pods.listed
	seen, again := podReader{r.memories.pods}.diagnose(ctx, t, seen)
	if t.memory.pods.listed.After(listed) {
		if err := r.restoreCopies(ctx, t); err != nil {
			return r.handleError(ctx, t, err)
		}
	}
	seen, again = t.memory.withPruned(seen, again)
	r.report(t, seen)
	return reconcile.Result{RequeueAfter: again}, nil
}

// report reports an observation for the task's entry.
func (r *reconciler) report(t task, seen observation.Observation) {
	seen.UID, seen.Generation, seen.Message = t.app.UID, t.entry.Generation, sanitize(seen.Message)
	if t.objects.isOwned("Deployment") {
		seen = seen.WithCounts(t.objects.deployment)
		seen.Configuration = t.serials()
		if stamped := revision.Of(t.objects.deployment); stamped != t.entry.Revision {
			seen.StampedRevision = stamped
		}
	}
	if t.objects.isOwned("Service") {
		seen = seen.WithService(t.objects.service)
	}
	seen.Look = r.looks.of(t.app.UID)
	seen.Revision, seen.Planned, seen.Placement = t.entry.Revision, t.entry.Replicas, t.objects.placement()
	if seen.Phase != t.entry.Phase || seen.Reason != t.entry.Reason {
		t.traced.SetOutcome(string(seen.Phase), seen.Reason)
	}
	r.engagement.report(client.ObjectKeyFromObject(t.app), r.cluster, seen)
}

// reportUnplanned reports objects of an AppService, or of an earlier one, that has no entry for
// this member: the status was lost, as by a restore. Objects that are being deleted are not
// reported, nor those that the tombstone of an earlier AppService covers.
func (r *reconciler) reportUnplanned(t task) {
	if t.app == nil || t.entry != nil {
		return
	}
	isUnplanned := func(e object.Existing) bool {
		return !e.IsBeingDeleted() && (e.IsOwned() || e.Owner == object.PreviousAppService && !t.member.IsAbandoned(e.Stamp.UID))
	}
	if !slices.ContainsFunc(t.objects.all(), isUnplanned) {
		return
	}
	seen := observation.Observation{UID: t.app.UID, Found: true, Placement: t.objects.placement(), Look: r.looks.of(t.app.UID)}
	if t.objects.deployment != nil {
		seen.Planned = ptr.Deref(t.objects.deployment.Spec.Replicas, 1)
		seen.Revision = revision.Of(t.objects.deployment)
	}
	r.engagement.report(client.ObjectKeyFromObject(t.app), r.cluster, seen)
}

// reportBlocked reports a blocker, and checks again later: it may be of a kind that is not watched.
func (r *reconciler) reportBlocked(ctx context.Context, t task, blocker *object.Blocker) (reconcile.Result, error) {
	if blocker.Reason == v1alpha1.ReasonHubBehind {
		return r.reportHubBehind(ctx, t)
	}
	phase := v1alpha1.ClusterFailed
	switch {
	case t.entry.Phase == v1alpha1.ClusterRemoving:
		phase = v1alpha1.ClusterRemoving
	case blocker.Transient:
		phase = v1alpha1.ClusterProgressing
	}
	r.report(t, observation.Observation{Phase: phase, Reason: blocker.Reason, Message: blocker.Message})
	return reconcile.Result{RequeueAfter: blocker.RetryAfter(blockerRetry)}, nil
}

// withPruned adds to an observation what the member discards, and returns when to check again. The
// workload runs otherwise, so delivery continues.
func (m *memory) withPruned(seen observation.Observation, again time.Duration) (observation.Observation, time.Duration) {
	what, next := m.describePruned()
	if what == "" {
		return seen, again
	}
	message := fmt.Sprintf("the member discards %s, because of its Kubernetes version, a feature gate or an admission webhook: remove these fields for this cluster by an override", what)
	if seen.Message != "" && seen.Reason != v1alpha1.ReasonRollingOut {
		message += fmt.Sprintf("; %s: %s", seen.Reason, seen.Message)
	}
	seen.Phase, seen.Reason, seen.Message, seen.Container = v1alpha1.ClusterFailed, v1alpha1.ReasonRefused, message, ""
	if wait := max(time.Second, time.Until(next)); again == 0 || wait < again {
		again = wait
	}
	return seen, again
}
