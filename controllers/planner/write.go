package planner

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/status"
)

// writer writes what was planned: the status with its slices, the finalizer and the tombstones.
type writer struct {
	hub   client.Client
	store *store
}

// writeStatus writes a changed status and the slices that changed. It returns errGone if the
// AppService is gone.
//
// If the entries are in slices, the order is: first the parts of the status that limit later plans
// and delivery, then the slices, and then the rest of the status. A crash in between never makes a
// later plan exceed a limit, and the status never claims a plan that is not in the slices.
func (w *writer) writeStatus(ctx context.Context, app *v1alpha1.AppService, next v1alpha1.AppServiceStatus, unwritten []*v1alpha1.AppServiceSlice) error {
	current, version := app.Status, app.ResourceVersion
	if len(unwritten) > 0 {
		if isRefused(current) { // what is refused again must not be counted again
			if err := w.store.isStillRefused(ctx, unwritten[0]); err != nil {
				return w.reportRefusal(ctx, app, version, current, v1alpha1.ReasonSlicesRefused, err)
			}
		}
		limits := withLimits(current, next)
		var err error
		if version, err = w.patchStatus(ctx, app, version, current, limits); err != nil {
			return orGone(err)
		}
		current = limits
		if err := w.store.write(ctx, unwritten); err != nil {
			return w.reportRefusal(ctx, app, version, current, v1alpha1.ReasonSlicesRefused, err)
		}
	}
	_, err := w.patchStatus(ctx, app, version, current, next)
	return orGone(err)
}

// errGone is returned if the AppService whose status is written is gone.
var errGone = errors.New("the AppService is gone")

// orGone returns the error of a write of the status, or errGone if it was not found.
func orGone(err error) error {
	if apierrors.IsNotFound(err) {
		return errGone
	}
	return err
}

// withLimits returns the current status with those parts of the next one that limit later plans and
// delivery: counted removals and placements, planned specs, accepted stamps, that the hub is behind
// a cluster, the revision, and the snapshots of the configuration.
func withLimits(current, next v1alpha1.AppServiceStatus) v1alpha1.AppServiceStatus {
	wasPaused := current.Rollout.Paused
	current.Rollout, current.Configuration, current.ConfigurationSerial = next.Rollout, next.Configuration, next.ConfigurationSerial
	current.Rollout.Paused = wasPaused || next.Rollout.Paused // until the clocks that start again are written
	current.Removals, current.PlannedSpecs, current.AcceptedStamps = next.Removals, next.PlannedSpecs, next.AcceptedStamps
	current.Placement.Count = next.Placement.Count
	current.Summary.HubBehind = max(current.Summary.HubBehind, next.Summary.HubBehind)
	return current
}

// isRefused reports whether the hub refused slices at the last write.
func isRefused(current v1alpha1.AppServiceStatus) bool {
	return reasonOf(current.Conditions) == v1alpha1.ReasonSlicesRefused
}

// patchStatus changes the status of an AppService from one status to another, and returns its new
// resource version. It sends nothing if both are stored alike.
func (w *writer) patchStatus(ctx context.Context, app *v1alpha1.AppService, version string, from, to v1alpha1.AppServiceStatus) (string, error) {
	patch, err := statusPatch(version, from, to)
	if err != nil || patch == nil {
		return version, err
	}
	written := &v1alpha1.AppService{ObjectMeta: metav1.ObjectMeta{Namespace: app.Namespace, Name: app.Name}}
	if err := w.hub.Status().Patch(ctx, written, patch); err != nil {
		return version, fmt.Errorf("write the status: %w", err)
	}
	w.store.versions.recordApp(app, written.ResourceVersion)
	return written.ResourceVersion, nil
}

// dropClustersIn corrects the status of an AppService whose entries an older version has written,
// although they were in slices. The slices are left over then.
func (w *writer) dropClustersIn(ctx context.Context, app *v1alpha1.AppService) error {
	next := app.Status
	next.ClustersIn, next.WorstClusters = "", nil
	_, err := w.patchStatus(ctx, app, app.ResourceVersion, app.Status, next)
	return err
}

// reportRefusal says in the conditions that the hub refuses slices or revisions, for example
// because of a quota or an admission webhook. The entries that would need them are as they were, so
// nothing else is delivered. It returns errRefused, or the error itself if that may be temporary.
func (w *writer) reportRefusal(ctx context.Context, app *v1alpha1.AppService, version string, current v1alpha1.AppServiceStatus, reason string, refusal error) error {
	next, isRefused := status.WithRefusal(app, current, reason, refusal, metav1.Now().Rfc3339Copy())
	if !isRefused {
		return refusal
	}
	if _, err := w.patchStatus(ctx, app, version, current, next); err != nil {
		return errors.Join(refusal, err)
	}
	return errRefused
}

// setFinalizer adds or removes our finalizer, and changes nothing else. It returns the AppService
// as the hub has it now.
func (w *writer) setFinalizer(ctx context.Context, app *v1alpha1.AppService, change func(client.Object, string) bool) (*v1alpha1.AppService, error) {
	updated := app.DeepCopy()
	if !change(updated, v1alpha1.Finalizer) {
		return app, nil
	}
	patch := client.MergeFromWithOptions(app, client.MergeFromWithOptimisticLock{})
	if err := w.hub.Patch(ctx, updated, patch); err != nil {
		return nil, fmt.Errorf("write the finalizer: %w", err)
	}
	return updated, nil
}
