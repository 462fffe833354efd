package planner

import (
	"cmp"
	"context"
	"errors"
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
	"github.com/fleetwright/fleetwright/controllers/planner/revise"
	"github.com/fleetwright/fleetwright/controllers/revision/reader"
	"github.com/fleetwright/fleetwright/controllers/rollout"
	"github.com/fleetwright/fleetwright/controllers/status"
	"github.com/fleetwright/fleetwright/controllers/tracing"
)

// Reconciler plans AppServices. A plan has these phases: it gathers what it depends on, it finds the
// revision of the spec, it decides, it writes, and it announces.
type Reconciler struct {
	hub          client.Client
	sharedReads  *sharedReads // from the API server, not from the cache
	observations *Observations
	store        *store
	throttle     *throttle
	gatherer     *gatherer
	reviser      *reviser
	writer       *writer
	announcer    *announcer
	telemetry    *telemetry
}

func newReconciler(hub client.Client, live client.Reader, events events.EventRecorder, observations *Observations, options Options) *Reconciler {
	store, throttle := newStore(hub, live), newThrottle()
	return &Reconciler{
		hub: hub, sharedReads: newSharedReads(live), observations: observations, store: store, throttle: throttle, telemetry: newTelemetry(hub),
		gatherer: &gatherer{
			fleet: &fleet{hub: hub}, observations: observations, sliceThreshold: options.SliceThreshold, lastAnswer: options.LastAnswer,
			observedSince: sync.OnceValue(func() metav1.Time { return metav1.Now().Rfc3339Copy() }),
		},
		reviser: &reviser{
			revisions: &revisionStore{hub: hub, live: live}, contents: cmp.Or(options.Revisions, reader.New(live, reader.NeverRestored)),
			policies: &policies{hub: hub, live: live, byDefault: options.PodSecurityLevel},
			sources:  options.Sources, known: newKnownRevisions(), histories: newHistories(), throttle: throttle,
		},
		writer:    &writer{hub: hub, store: store},
		announcer: &announcer{events: events, outliers: knownOutliers{apps: map[types.NamespacedName][]outlier{}}},
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
		r.announcer.outliers.replace(request.NamespacedName, nil)
		r.reviser.forget(request.NamespacedName)
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
		if app, err = r.begin(ctx, app); err != nil {
			return reconcile.Result{}, client.IgnoreNotFound(err)
		}
	}
	started := time.Now()
	r.telemetry.recordGeneration(app, started)
	if wait := r.untilPlan(app, started); wait > 0 {
		return reconcile.Result{RequeueAfter: wait}, nil
	}
	if app.Status.ClustersIn == v1alpha1.ClustersInSlices && !app.Status.HasSlices() {
		return reconcile.Result{RequeueAfter: staleRetry}, r.writer.dropClustersIn(ctx, app)
	}
	have, err := r.store.read(ctx, app)
	if err != nil {
		return reconcile.Result{}, err
	}
	in, err := r.gather(ctx, have, seen, metav1.NewTime(started).Rfc3339Copy())
	if err != nil {
		return reconcile.Result{}, err
	}
	gathering := time.Since(started)
	if deleted, err := r.deletedNamespaceOrCRD(ctx, in); err != nil {
		return reconcile.Result{}, err
	} else if deleted != nil {
		return reconcile.Result{}, r.releaseWithNamespaceOrCRD(ctx, have.app, in, deleted)
	}
	if in, err = r.prepare(ctx, have.app, in); err != nil {
		return reconcile.Result{}, err
	}
	if awaitsFirstContent(in) {
		r.reviser.finishConfiguration(ctx, in)
		return reconcile.Result{RequeueAfter: cmp.Or(in.Configuration.RecheckAfter, staleRetry)}, nil
	}
	p := r.decide(have, in, gathering)
	return r.carryOut(ctx, p)
}

// begin adds our finalizer to a new AppService.
func (r *Reconciler) begin(ctx context.Context, app *v1alpha1.AppService) (*v1alpha1.AppService, error) {
	begun, err := r.writer.setFinalizer(ctx, app, controllerutil.AddFinalizer)
	if err != nil {
		return nil, err
	}
	r.gatherer.begun.Store(begun.UID, true)
	r.store.versions.recordApp(begun, begun.ResourceVersion)
	return begun, nil
}

// untilPlan returns the time until an AppService may be planned; 0 if it may be planned now.
func (r *Reconciler) untilPlan(app *v1alpha1.AppService, now time.Time) time.Duration {
	if wait := r.throttle.untilPlan(app.UID, now); wait > 0 && !r.isUnplanned(app, now) {
		return wait
	}
	return r.throttle.untilRetry(app, now)
}

// gather returns the input of a plan, without what members cannot have reported.
func (r *Reconciler) gather(ctx context.Context, have stored, seen map[string]observation.Observation, now metav1.Time) (rollout.Input, error) {
	r.observations.dropUnanswered(have.app, seen)
	r.announcer.announceOutliers(have.app, withoutOutliers(have.app, seen))
	return r.gatherer.gather(ctx, have, seen, now)
}

// prepare writes what the plan depends on, and adds it to the input: tombstones and the revision of
// the spec.
func (r *Reconciler) prepare(ctx context.Context, app *v1alpha1.AppService, in rollout.Input) (rollout.Input, error) {
	if err := r.writer.addTombstones(ctx, &in, slices.Concat(in.TombstonesToAdd(), in.TombstonesOfLostStatus())); err != nil {
		return in, err
	}
	revised, err := r.reviser.revise(ctx, in)
	if unrevised := (unrevisedError{}); errors.As(err, &unrevised) {
		return in, r.writer.reportRefusal(ctx, app, app.ResourceVersion, app.Status, v1alpha1.ReasonRevisionsRefused, unrevised.cause)
	} else if err != nil {
		return in, err
	}
	return revised.addTo(in), nil
}

// planned is a plan that was made.
type planned struct {
	// have is what the hub has, and next the status to write.
	have     stored
	in       rollout.Input
	decision rollout.Decision
	next     v1alpha1.AppServiceStatus
	// unwritten are the slices that differ from the stored ones.
	unwritten []*v1alpha1.AppServiceSlice
}

// decide makes the plan. Gathering is how long it took to gather the input.
func (r *Reconciler) decide(have stored, in rollout.Input, gathering time.Duration) planned {
	started := time.Now()
	decision := rollout.Plan(in)
	p := planned{have: have, in: in, decision: decision, next: status.Compute(in, decision)}
	r.throttle.recordPlan(have.app.UID, time.Now(), gathering+time.Since(started)) // without the requests in between
	p.unwritten = have.unwritten(&p.next)
	return p
}

// isChanged reports whether the plan differs from what the hub has.
func (p planned) isChanged() bool {
	return len(p.unwritten) > 0 || !equality.Semantic.DeepEqual(p.have.app.Status, p.next)
}

// carryOut writes a plan, if it is due.
func (r *Reconciler) carryOut(ctx context.Context, p planned) (reconcile.Result, error) {
	app, now := p.have.app, time.Now()
	isChanged := p.isChanged()
	if app.IsDeleting() && len(p.next.Clusters) == 0 && (!isChanged || hasOnlyOurFinalizer(app)) {
		return reconcile.Result{}, r.release(ctx, p)
	}
	if !isChanged {
		r.throttle.recordUnchanged(app.UID)
	} else if wait := r.untilWrite(p, now); wait > 0 { // the tombstones stay until the entries can be written
		return reconcile.Result{RequeueAfter: earlier(wait, recheckAfter(p.in, p.decision))}, nil
	}
	if err := r.writer.removeTombstones(ctx, &p.in, p.in.TombstonesToRemove(p.next.Clusters)); err != nil {
		return reconcile.Result{}, err
	}
	if isChanged {
		restore := r.observations.drop(client.ObjectKeyFromObject(app), p.decision.StaleObservations)
		if err := r.write(ctx, p); err != nil {
			restore()
			return reconcile.Result{}, err
		}
	}
	if err := r.store.deleteLeftovers(ctx, app); err != nil {
		return reconcile.Result{}, err
	}
	r.reviser.finishConfiguration(ctx, p.in)
	return reconcile.Result{RequeueAfter: recheckAfter(p.in, p.decision)}, nil
}

// untilWrite returns the time until a changed status may be written; 0 if it may be written now.
func (r *Reconciler) untilWrite(p planned, now time.Time) time.Duration {
	app := p.have.app
	if r.isUnplanned(app, now) {
		return 0
	}
	if p.isAvailability() {
		if wait := r.throttle.untilAvailability(app.UID, now); wait > 0 {
			return wait
		}
	}
	if r.throttle.isDelivering(app.UID, now) && p.isProgress() {
		return cmp.Or(r.throttle.untilWrite(app.UID, now, statusInterval), r.throttle.progress.until(app.UID, now))
	}
	return r.throttle.untilWrite(app.UID, now, gapOf(app, p.decision))
}

// write writes a changed status and the slices that changed, and then announces the changes.
func (r *Reconciler) write(ctx context.Context, p planned) error {
	app, now := p.have.app, time.Now()
	err := r.writer.writeStatus(ctx, app, p.next, p.unwritten)
	switch {
	case errors.Is(err, errGone):
		r.throttle.forget(app.UID)
		return nil
	case err != nil:
		return err
	}
	r.throttle.recordWrite(app.UID, now)
	r.throttle.recordDelivery(p, now)
	r.telemetry.recordStatus(app, p.next, now)
	tracing.FromContext(ctx).SetOutcome("", reasonOf(p.next.Conditions))
	r.announcer.announce(p)
	r.telemetry.recordRollout(p.in.App, p.decision)
	return nil
}

// isUnplanned reports whether an AppService was edited since it was planned. An edit whose revision
// the hub refuses was planned, but for its template.
func (r *Reconciler) isUnplanned(app *v1alpha1.AppService, now time.Time) bool {
	return revise.IsEdited(app) && r.throttle.refusedRevision(app, now) == nil
}

// hasOnlyOurFinalizer reports whether our finalizer is the only one. Then an AppService that is being
// deleted goes with it, and nobody reads a last status.
func hasOnlyOurFinalizer(app *v1alpha1.AppService) bool {
	return len(app.Finalizers) == 1 && controllerutil.ContainsFinalizer(app, v1alpha1.Finalizer)
}

// release removes the finalizer of an AppService that no cluster runs any more.
func (r *Reconciler) release(ctx context.Context, p planned) error {
	in := p.in
	r.throttle.forget(in.App.UID)
	r.gatherer.begun.Delete(in.App.UID)
	r.store.forget(in.App)
	r.telemetry.forget(in.App.UID)
	if !controllerutil.ContainsFinalizer(in.App, v1alpha1.Finalizer) {
		return nil // other finalizers remain
	}
	if _, err := r.writer.setFinalizer(ctx, in.App, controllerutil.RemoveFinalizer); err != nil {
		return client.IgnoreNotFound(err) // deleted and announced before
	}
	r.announcer.announceChanges(in, p.next)
	return nil
}
