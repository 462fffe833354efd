package planner

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/configuration/sources"
	"github.com/fleetwright/fleetwright/controllers/observation"
	"github.com/fleetwright/fleetwright/controllers/placement"
	"github.com/fleetwright/fleetwright/controllers/revision/reader"
	"github.com/fleetwright/fleetwright/controllers/rollout"
	"github.com/fleetwright/fleetwright/controllers/status"
	"github.com/fleetwright/fleetwright/controllers/tracing"
)

// Reconciler plans AppServices.
type Reconciler struct {
	hub          client.Client
	live         client.Reader // reads from the API server, not from the cache
	sharedReads  *sharedReads  // from the API server, not from the cache
	fleet        *fleet
	revisions    *reader.Reader
	events       events.EventRecorder
	observations *Observations
	store        *store
	histories    *histories
	throttle     throttle
	// observedSince returns when this process began to plan. A replica that does not lead observes
	// nothing.
	observedSince func() metav1.Time
	options       Options
	telemetry     *telemetry
	outliers      knownOutliers
	// begun has the UIDs of AppServices that got their finalizer from this process, until they have a
	// status.
	begun sync.Map
}

func newReconciler(hub client.Client, live client.Reader, events events.EventRecorder, observations *Observations, options Options) *Reconciler {
	return &Reconciler{
		observedSince: sync.OnceValue(func() metav1.Time { return metav1.Now().Rfc3339Copy() }),
		hub:           hub, live: live, sharedReads: newSharedReads(live), fleet: &fleet{hub: hub}, revisions: cmp.Or(options.Revisions, reader.New(live, reader.NeverRestored)), events: events, observations: observations,
		store: newStore(hub, live), histories: newHistories(), throttle: newThrottle(), options: options, telemetry: newTelemetry(hub),
		outliers: knownOutliers{apps: map[types.NamespacedName][]outlier{}},
	}
}

// +kubebuilder:rbac:groups=fleetwright.dev,resources=appservices,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=fleetwright.dev,resources=appservices/status,verbs=patch
// +kubebuilder:rbac:groups=fleetwright.dev,resources=appserviceslices,verbs=get;list;watch;create;update;delete
// +kubebuilder:rbac:groups=fleetwright.dev,resources=memberclusters,verbs=get;list;watch
// +kubebuilder:rbac:groups=fleetwright.dev,resources=memberclusters/status,verbs=patch
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// Reconcile updates the status of one AppService. It does not copy the AppService of the cache,
// because that may have a thousand entries. The AppService must not be modified.
func (r *Reconciler) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	seen := r.observations.of(request.NamespacedName) // before the AppService: see dropUnanswered
	app := &v1alpha1.AppService{}
	if err := r.hub.Get(ctx, request.NamespacedName, app, client.UnsafeDisableDeepCopy); err != nil {
		r.observations.forgetApp(request.NamespacedName)
		r.store.forgetDeleted(request.NamespacedName)
		r.histories.forget(request.NamespacedName)
		r.outliers.replace(request.NamespacedName, nil)
		r.options.Sources.Forget(request.NamespacedName)
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	ctx, record := tracing.Start(ctx, tracing.Work{Name: "plan", App: app, Settled: isSettled(app)})
	result, err := r.plan(ctx, app, seen)
	record.End(err)
	switch {
	case err == nil:
	case errors.Is(ctx.Err(), context.Canceled): // this process ends
		return reconcile.Result{}, nil
	case errors.Is(err, sources.ErrNotSynced): // it is enqueued when they are
		return reconcile.Result{RequeueAfter: time.Second}, nil
	case errors.Is(err, errStaleCache):
		return reconcile.Result{RequeueAfter: staleRetry}, nil
	case errors.Is(err, errRefused):
		r.throttle.recordRefusal(app, time.Now())
		return reconcile.Result{RequeueAfter: refusedRetry}, nil
	case apierrors.IsConflict(err):
		// Another client wrote first. The cache will receive that version shortly.
		r.throttle.allowPlan(app.UID)
		return reconcile.Result{RequeueAfter: 100 * time.Millisecond}, nil
	default:
		r.throttle.allowPlan(app.UID) // the work queue backs off instead
	}
	return result, err
}

// plan plans one AppService and writes the result. Each record is written before anything that
// depends on it. The AppService is as the cache has it, without the entries of its slices.
func (r *Reconciler) plan(ctx context.Context, app *v1alpha1.AppService, seen map[string]observation.Observation) (reconcile.Result, error) {
	if !app.IsDeleting() && !controllerutil.ContainsFinalizer(app, v1alpha1.Finalizer) {
		var err error
		if app, err = r.setFinalizer(ctx, app, controllerutil.AddFinalizer); err != nil {
			return reconcile.Result{}, client.IgnoreNotFound(err)
		}
		r.begun.Store(app.UID, true)
		r.store.versions.recordApp(app, app.ResourceVersion)
	}
	started := time.Now()
	r.telemetry.recordGeneration(app, started)
	if wait := r.throttle.untilPlan(app.UID, started); wait > 0 && !r.isUnplanned(app, started) {
		return reconcile.Result{RequeueAfter: wait}, nil
	}
	if wait := r.throttle.untilRetry(app, started); wait > 0 {
		return reconcile.Result{RequeueAfter: wait}, nil
	}
	if app.Status.ClustersIn == v1alpha1.ClustersInSlices && !app.Status.HasSlices() {
		return reconcile.Result{RequeueAfter: staleRetry}, r.dropClustersIn(ctx, app)
	}
	have, err := r.store.read(ctx, app)
	if err != nil {
		return reconcile.Result{}, err
	}
	app = have.app
	r.observations.dropUnanswered(app, seen)
	in, err := r.gather(ctx, have, seen, metav1.NewTime(started).Rfc3339Copy())
	if err != nil {
		return reconcile.Result{}, err
	}
	gathering := time.Since(started)
	if deleted, err := r.deletedNamespaceOrCRD(ctx, in); err != nil {
		return reconcile.Result{}, err
	} else if deleted != nil {
		return reconcile.Result{}, r.releaseWithNamespaceOrCRD(ctx, app, in, deleted)
	}
	if err := r.addTombstones(ctx, &in, slices.Concat(in.TombstonesToAdd(), in.TombstonesOfLostStatus())); err != nil {
		return reconcile.Result{}, err
	}
	if err := r.revise(ctx, app, &in); err != nil {
		return reconcile.Result{}, err
	}
	if err := r.refuse(ctx, &in); err != nil {
		return reconcile.Result{}, err
	}
	if awaitsFirstContent(in) {
		r.finishConfiguration(ctx, in)
		return reconcile.Result{RequeueAfter: cmp.Or(in.Configuration.RecheckAfter, staleRetry)}, nil
	}
	return r.decide(ctx, have, in, gathering)
}

// decide makes the plan and writes it. Gathering is how long it took to gather the input.
func (r *Reconciler) decide(ctx context.Context, have stored, in rollout.Input, gathering time.Duration) (reconcile.Result, error) {
	app, started := have.app, time.Now()
	decision := rollout.Plan(in)
	next := status.Compute(in, decision)
	r.throttle.recordPlan(app.UID, time.Now(), gathering+time.Since(started)) // without the requests in between
	if app.IsDeleting() && len(next.Clusters) == 0 {
		return reconcile.Result{}, r.release(ctx, in, next)
	}
	unwritten := have.unwritten(&next)
	isChanged := len(unwritten) > 0 || !equality.Semantic.DeepEqual(app.Status, next)
	if wait := r.throttle.untilWrite(app.UID, time.Now(), gapOf(app, decision)); isChanged && wait > 0 && !r.isUnplanned(app, started) {
		return reconcile.Result{RequeueAfter: wait}, nil // the tombstones stay until the entries can be written
	}
	if err := r.removeTombstones(ctx, &in, in.TombstonesToRemove(next.Clusters)); err != nil {
		return reconcile.Result{}, err
	}
	if isChanged {
		restore := r.observations.drop(client.ObjectKeyFromObject(app), decision.StaleObservations)
		if err := r.write(ctx, app, in, decision, next, unwritten); err != nil {
			restore()
			return reconcile.Result{}, err
		}
	}
	if err := r.store.deleteLeftovers(ctx, app); err != nil {
		return reconcile.Result{}, err
	}
	r.finishConfiguration(ctx, in)
	return reconcile.Result{RequeueAfter: recheckAfter(in, decision)}, nil
}

// gather reads the inputs of the status and computes the plan. All plans share the members, which
// must not be modified.
func (r *Reconciler) gather(ctx context.Context, have stored, seen map[string]observation.Observation, now metav1.Time) (rollout.Input, error) {
	members, err := r.fleet.snapshot(ctx)
	if err != nil {
		return rollout.Input{}, err
	}
	r.announceOutliers(have.app, withoutOutliers(have.app, seen))
	_, isNew := r.begun.Load(have.app.UID)
	if have.app.Status.ObservedGeneration > 0 {
		r.begun.Delete(have.app.UID)
	}
	in := rollout.Input{
		App:              have.app,
		IsNew:            isNew,
		Members:          members.members,
		Secretless:       members.secretless,
		Observations:     seen,
		Now:              now,
		ObservedSince:    r.observedSince(),
		SeenSince:        r.seenSince(have.app, seen),
		Unreachable:      r.unreachable(seen),
		SliceThreshold:   r.options.SliceThreshold,
		HasMissingSlices: have.hasMissing,
		Answers:          r.answers(have.app, seen, now),
	}.Recover()
	in.Plan, in.PlanError = placement.Decide(in.App, members.all)
	return in, nil
}

// seenSince returns since when each member has been observed, which only a rollout in stages needs, and
// where a workload is missing.
func (r *Reconciler) seenSince(app *v1alpha1.AppService, seen map[string]observation.Observation) map[string]metav1.Time {
	if app.Spec.Rollout == nil && !isAsking(seen) {
		return nil
	}
	return r.observations.sinceOf(client.ObjectKeyFromObject(app))
}

// unreachable returns when members were found unreachable, if a workload is missing. A lost status needs
// that too: see awaitsReports.
func (r *Reconciler) unreachable(seen map[string]observation.Observation) map[string]metav1.Time {
	if !isAsking(seen) {
		return nil
	}
	return r.observations.foundUnreachable()
}

// answers returns when each observed member has last answered, which only a rollout in stages needs.
func (r *Reconciler) answers(app *v1alpha1.AppService, seen map[string]observation.Observation, now metav1.Time) map[string]metav1.Time {
	if app.Spec.Rollout == nil {
		return nil
	}
	answers := make(map[string]metav1.Time, len(seen))
	for name := range seen {
		answers[name] = now
		if r.options.LastAnswer != nil {
			answers[name] = metav1.NewTime(r.options.LastAnswer(name))
		}
	}
	return answers
}

// write writes a changed status and the slices that changed, and then announces the changes.
//
// If the entries are in slices, the order is: first the parts of the status that limit later plans
// and delivery, then the slices, and then the rest of the status. A crash in between never makes a
// later plan exceed a limit, and the status never claims a plan that is not in the slices.
func (r *Reconciler) write(ctx context.Context, app *v1alpha1.AppService, in rollout.Input, decision rollout.Decision, next v1alpha1.AppServiceStatus, unwritten []*v1alpha1.AppServiceSlice) error {
	now := time.Now()
	current, version := app.Status, app.ResourceVersion
	if len(unwritten) > 0 {
		if isRefused(current) { // what is refused again must not be counted again
			if err := r.store.isStillRefused(ctx, unwritten[0]); err != nil {
				return r.reportRefusal(ctx, app, version, current, v1alpha1.ReasonSlicesRefused, err)
			}
		}
		limits := withLimits(current, next)
		var err error
		if version, err = r.patchStatus(ctx, app, version, current, limits); err != nil {
			return client.IgnoreNotFound(err)
		}
		current = limits
		if err := r.store.write(ctx, unwritten); err != nil {
			return r.reportRefusal(ctx, app, version, current, v1alpha1.ReasonSlicesRefused, err)
		}
	}
	if _, err := r.patchStatus(ctx, app, version, current, next); err != nil {
		return client.IgnoreNotFound(err)
	}
	r.throttle.recordWrite(app.UID, now)
	r.telemetry.recordStatus(app, next, now)
	tracing.FromContext(ctx).SetOutcome("", reasonOf(next.Conditions))
	r.announce(in, next)
	r.announceConfiguration(in, decision, next)
	r.announceRefusal(in)
	r.announceRollout(in, decision)
	r.telemetry.recordRollout(in.App, decision)
	return nil
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
func (r *Reconciler) patchStatus(ctx context.Context, app *v1alpha1.AppService, version string, from, to v1alpha1.AppServiceStatus) (string, error) {
	patch, err := statusPatch(version, from, to)
	if err != nil || patch == nil {
		return version, err
	}
	written := &v1alpha1.AppService{ObjectMeta: metav1.ObjectMeta{Namespace: app.Namespace, Name: app.Name}}
	if err := r.hub.Status().Patch(ctx, written, patch); err != nil {
		return version, fmt.Errorf("write the status: %w", err)
	}
	r.store.versions.recordApp(app, written.ResourceVersion)
	return written.ResourceVersion, nil
}

// dropClustersIn corrects the status of an AppService whose entries an older version has written,
// although they were in slices. The slices are left over then.
func (r *Reconciler) dropClustersIn(ctx context.Context, app *v1alpha1.AppService) error {
	next := app.Status
	next.ClustersIn, next.WorstClusters = "", nil
	_, err := r.patchStatus(ctx, app, app.ResourceVersion, app.Status, next)
	return err
}

// reportRefusal says in the conditions that the hub refuses slices or revisions, for example
// because of a quota or an admission webhook. The entries that would need them are as they were, so
// nothing else is delivered. It returns errRefused, or the error itself if that may be temporary.
func (r *Reconciler) reportRefusal(ctx context.Context, app *v1alpha1.AppService, version string, current v1alpha1.AppServiceStatus, reason string, refusal error) error {
	next, isRefused := status.WithRefusal(app, current, reason, refusal, metav1.Now().Rfc3339Copy())
	if !isRefused {
		return refusal
	}
	if _, err := r.patchStatus(ctx, app, version, current, next); err != nil {
		return errors.Join(refusal, err)
	}
	return errRefused
}

// isEdited reports whether the AppService was edited or deleted since its status was written.
func isEdited(app *v1alpha1.AppService) bool { return app.Status.ObservedGeneration != app.Generation }

// isUnplanned reports whether an AppService was edited since it was planned. An edit whose revision
// the hub refuses was planned, but for its template.
func (r *Reconciler) isUnplanned(app *v1alpha1.AppService, now time.Time) bool {
	return isEdited(app) && r.throttle.refusedRevision(app, now) == nil
}

// release removes the finalizer of an AppService that no cluster runs any more.
func (r *Reconciler) release(ctx context.Context, in rollout.Input, next v1alpha1.AppServiceStatus) error {
	r.throttle.forget(in.App.UID)
	r.begun.Delete(in.App.UID)
	r.store.forget(in.App)
	r.telemetry.forget(in.App.UID)
	if !controllerutil.ContainsFinalizer(in.App, v1alpha1.Finalizer) {
		return nil // other finalizers remain
	}
	if _, err := r.setFinalizer(ctx, in.App, controllerutil.RemoveFinalizer); err != nil {
		return client.IgnoreNotFound(err) // deleted and announced before
	}
	r.announce(in, next)
	return nil
}

// setFinalizer adds or removes our finalizer, and changes nothing else. It returns the AppService
// as the hub has it now.
func (r *Reconciler) setFinalizer(ctx context.Context, app *v1alpha1.AppService, change func(client.Object, string) bool) (*v1alpha1.AppService, error) {
	updated := app.DeepCopy()
	if !change(updated, v1alpha1.Finalizer) {
		return app, nil
	}
	patch := client.MergeFromWithOptions(app, client.MergeFromWithOptimisticLock{})
	if err := r.hub.Patch(ctx, updated, patch); err != nil {
		return nil, fmt.Errorf("write the finalizer: %w", err)
	}
	return updated, nil
}
