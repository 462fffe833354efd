package clusters

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"
	"sigs.k8s.io/multicluster-runtime/pkg/multicluster"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/clusters/kubeconfig"
)

// secretField indexes MemberClusters by the Secret from which they were created.
const secretField = "metadata.annotations.secret"

// Reconciler runs one member for each kubeconfig Secret and maintains its MemberCluster. It never
// blocks on a member.
type Reconciler struct {
	hub      client.Client
	events   events.EventRecorder
	rules    kubeconfig.SecretRules
	provider *Provider
}

// +kubebuilder:rbac:groups="",namespace=fleetwright-system,resources=secrets,verbs=list;watch;patch
// +kubebuilder:rbac:groups=fleetwright.dev,resources=memberclusters,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=fleetwright.dev,resources=memberclusters/status,verbs=patch
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// SetupWithManager adds the Reconciler for the Secrets that the rules select. Only the elected leader
// engages aware with members.
func (p *Provider) SetupWithManager(ctx context.Context, hub manager.Manager, aware multicluster.Aware, rules kubeconfig.SecretRules) error {
	p.aware = aware
	if err := hub.Add(manager.RunnableFunc(p.drain)); err != nil {
		return err
	}
	for field, extract := range map[string]client.IndexerFunc{secretField: indexedSecret, identityField: indexedIdentity} {
		if err := hub.GetFieldIndexer().IndexField(ctx, &v1alpha1.MemberCluster{}, field, extract); err != nil {
			return err
		}
	}
	r := &Reconciler{hub: hub.GetClient(), events: hub.GetEventRecorder("fleetwright"), rules: rules, provider: p}
	p.lookUpOwner, p.readSecret, p.writeSecret = r.ownerOf, r.memberSecret, r.writeSecret
	return ctrl.NewControllerManagedBy(hub).Named("membercluster").
		For(&corev1.Secret{}).
		Watches(&v1alpha1.MemberCluster{}, memberClusterHandler{handler.EnqueueRequestsFromMapFunc(r.toSecrets)}).
		WatchesRawSource(source.Func(r.listen)).
		// Two Secrets that claim the same name must not be reconciled at the same time.
		WithOptions(controller.Options{MaxConcurrentReconciles: 1}).
		Complete(r)
}

// drain waits for the manager to end, then ends the members and waits for them, because a replica
// that is no longer the leader must not act on any member.
func (p *Provider) drain(ctx context.Context) error {
	<-ctx.Done()
	p.endMembers()
	p.running.Wait()
	return nil
}

// listen enqueues the Secret of a member when its snapshot changes.
func (r *Reconciler) listen(_ context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
	r.provider.onSnapshotChange = func(secret types.NamespacedName) { queue.Add(reconcile.Request{NamespacedName: secret}) }
	return nil
}

// memberClusterHandler removes the metrics of a deleted MemberCluster before its Secret is
// reconciled.
type memberClusterHandler struct{ handler.EventHandler }

// Delete handles the deletion of a MemberCluster.
func (h memberClusterHandler) Delete(ctx context.Context, e event.DeleteEvent, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) {
	deleteMetrics(e.Object.GetName())
	h.EventHandler.Delete(ctx, e, queue)
}

// indexedSecret returns the Secret of a MemberCluster as the value of the index secretField.
func indexedSecret(mc client.Object) []string {
	if secret := mc.GetAnnotations()[v1alpha1.AnnotationSecret]; secret != "" {
		return []string{secret}
	}
	return nil
}

// toSecrets maps a MemberCluster to three kinds of Secrets: the Secret from which it was created;
// the Secret of the member with its name, because a deleted MemberCluster is created again; and the
// Secrets of the members that wait for its identity.
func (r *Reconciler) toSecrets(_ context.Context, object client.Object) []reconcile.Request {
	var requests []reconcile.Request
	if namespace, name, found := strings.Cut(object.GetAnnotations()[v1alpha1.AnnotationSecret], "/"); found {
		requests = append(requests, reconcile.Request{NamespacedName: types.NamespacedName{Namespace: namespace, Name: name}})
	}
	if secret, known := r.provider.secretKey(multicluster.ClusterName(object.GetName())); known {
		requests = append(requests, reconcile.Request{NamespacedName: secret})
	}
	for _, id := range indexedIdentity(object) {
		for _, secret := range r.provider.contenders(types.UID(id)) {
			requests = append(requests, reconcile.Request{NamespacedName: secret})
		}
	}
	return requests
}

// Reconcile updates the member and the MemberCluster of a Secret. It returns no error if the
// manager ends meanwhile.
func (r *Reconciler) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	result, err := r.reconcile(ctx, request)
	if ctx.Err() != nil && errors.Is(err, context.Canceled) {
		return reconcile.Result{}, nil
	}
	return result, err
}

func (r *Reconciler) reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	memberSecret, err := r.memberSecret(ctx, request.NamespacedName)
	if err != nil {
		return reconcile.Result{}, err
	}
	r.provider.removeMembers(request.NamespacedName, memberSecret)
	if r.provider.options.ReadOnly {
		return r.follow(ctx, memberSecret)
	}
	detachAfter, err := r.detachOthers(ctx, request.NamespacedName, memberSecret)
	if err != nil || memberSecret == nil {
		return reconcile.Result{RequeueAfter: detachAfter}, err
	}
	joinAfter, err := r.join(ctx, memberSecret)
	return reconcile.Result{RequeueAfter: sooner(detachAfter, joinAfter)}, err
}

// follow updates the member of a Secret and writes nothing. The member ends unless the operator of the hub
// has accepted it: unless its MemberCluster has an identity, and was created from this Secret. A duplicate
// is tried again after its back-off, and not at once, when the other member is deleted.
func (r *Reconciler) follow(ctx context.Context, memberSecret *kubeconfig.MemberSecret) (reconcile.Result, error) {
	if memberSecret == nil {
		return reconcile.Result{}, nil
	}
	mc := &v1alpha1.MemberCluster{}
	if err := r.hub.Get(ctx, client.ObjectKey{Name: memberSecret.Name}, mc); client.IgnoreNotFound(err) != nil {
		return reconcile.Result{}, fmt.Errorf("read MemberCluster: %w", err)
	}
	if mc.Status.ClusterID == "" || mc.Annotations[v1alpha1.AnnotationSecret] != memberSecret.Key().String() {
		r.provider.removeMembers(memberSecret.Key(), nil)
		ctrl.LoggerFrom(ctx).Info("The member waits until the operator of the hub accepts it", "cluster", memberSecret.Name)
		return reconcile.Result{}, nil
	}
	m := r.provider.ensureMember(multicluster.ClusterName(mc.Name), memberSecret.Key())
	if m == nil { // the member of the Secret that had the name before has not ended yet
		return reconcile.Result{RequeueAfter: time.Second}, nil
	}
	config, rejected := memberSecret.Parse(r.provider.options.Policy)
	before := m.shared.observed().credentials
	m.shared.setDesired(desiredState{config: config, pinned: mc.Status.ClusterID}, rejected)
	if rejected != nil && m.shared.observed().credentials != before { // the operator may have another policy
		ctrl.LoggerFrom(ctx).Info("The kubeconfig is rejected", "cluster", mc.Name, "reason", rejected.Reason, "message", rejected.Message)
	}
	return reconcile.Result{}, nil
}

// join updates the member and the MemberCluster of the Secret, and returns when to reconcile again,
// or 0 for never.
func (r *Reconciler) join(ctx context.Context, memberSecret *kubeconfig.MemberSecret) (time.Duration, error) {
	mc := &v1alpha1.MemberCluster{}
	if err := r.hub.Get(ctx, client.ObjectKey{Name: memberSecret.Name}, mc); client.IgnoreNotFound(err) != nil {
		return 0, fmt.Errorf("read MemberCluster: %w", err)
	}
	m, err := r.memberOf(ctx, mc, memberSecret)
	if err != nil {
		return 0, err
	}
	if m == nil {
		r.events.Eventf(memberSecret.Secret, nil, corev1.EventTypeWarning, v1alpha1.ReasonNameConflict, "Join",
			"MemberCluster %s was created from another Secret; rename one of the two Secrets", memberSecret.Name)
		return nameRetry, nil
	}
	contested := m.shared.observed().contestedID
	owner, err := r.ownerOf(ctx, contested)
	if err != nil {
		return 0, err
	}
	config, rejected := memberSecret.Parse(r.provider.options.Policy)
	m.shared.setDesired(desiredState{
		config:       config,
		renewal:      memberSecret.Renewal(config),
		pinned:       mc.Status.ClusterID,
		acknowledged: types.UID(mc.Annotations[v1alpha1.AnnotationAcceptIdentity]),
		rival:        rival{contested, owner},
	}, rejected)
	observed := m.shared.observed()
	if err := r.publish(ctx, memberSecret, mc, observed); err != nil {
		return 0, err
	}
	return recheckAfter(observed.expiry, time.Now()), r.consumeAcknowledgement(ctx, mc)
}

// consumeAcknowledgement removes the annotation that acknowledges an identity after the status has
// that identity. Otherwise the annotation would accept that cluster again after the member has
// become a third one.
func (r *Reconciler) consumeAcknowledgement(ctx context.Context, mc *v1alpha1.MemberCluster) error {
	acknowledged, found := mc.Annotations[v1alpha1.AnnotationAcceptIdentity]
	if !found || mc.Status.ClusterID == "" || types.UID(acknowledged) != mc.Status.ClusterID {
		return nil
	}
	updated := mc.DeepCopy()
	delete(updated.Annotations, v1alpha1.AnnotationAcceptIdentity)
	err := r.hub.Patch(ctx, updated, client.MergeFromWithOptions(mc, client.MergeFromWithOptimisticLock{}))
	switch {
	case apierrors.IsConflict(err), apierrors.IsNotFound(err):
		return nil // the cache is outdated, and its update triggers a reconciliation
	case err != nil:
		return fmt.Errorf("remove annotation %s of MemberCluster: %w", v1alpha1.AnnotationAcceptIdentity, err)
	}
	ctrl.LoggerFrom(ctx).Info("The acknowledged identity is in use", "cluster", mc.Name, "id", mc.Status.ClusterID)
	return nil
}

// sooner returns the shorter of two durations; 0 means never.
func sooner(a, b time.Duration) time.Duration {
	if a == 0 || b == 0 {
		return max(a, b)
	}
	return min(a, b)
}

// nameRetry is the delay before a Secret whose name is taken is reconciled again.
const nameRetry = time.Minute

// memberOf returns the member of a Secret, or nil if its name belongs to another Secret.
func (r *Reconciler) memberOf(ctx context.Context, mc *v1alpha1.MemberCluster, memberSecret *kubeconfig.MemberSecret) (*member, error) {
	if taken, err := r.isNameTaken(ctx, mc, memberSecret); err != nil || taken {
		return nil, err
	}
	return r.provider.ensureMember(multicluster.ClusterName(memberSecret.Name), memberSecret.Key()), nil
}

// isNameTaken reports whether the MemberCluster was created from another Secret that still
// describes a member with this name. The Secret that had the name first keeps it, also after a
// restart.
func (r *Reconciler) isNameTaken(ctx context.Context, mc *v1alpha1.MemberCluster, memberSecret *kubeconfig.MemberSecret) (bool, error) {
	namespace, name, found := strings.Cut(mc.Annotations[v1alpha1.AnnotationSecret], "/")
	key := types.NamespacedName{Namespace: namespace, Name: name}
	if !found || key == memberSecret.Key() {
		return false, nil
	}
	other, err := r.memberSecret(ctx, key)
	return other != nil && other.Name == memberSecret.Name, err
}

// memberSecret returns the member that a Secret describes, or nil if the Secret does not exist or
// no rule selects it. A namespace without a rule has no members: if an operator with other
// flags created a MemberCluster from a Secret there, that MemberCluster counts as one whose Secret
// is missing.
func (r *Reconciler) memberSecret(ctx context.Context, key types.NamespacedName) (*kubeconfig.MemberSecret, error) {
	if !r.rules.HasNamespace(key.Namespace) {
		return nil, nil // the cache does not have that namespace
	}
	secret := &corev1.Secret{}
	if err := r.hub.Get(ctx, key, secret); apierrors.IsNotFound(err) {
		return nil, nil
	} else if err != nil {
		return nil, fmt.Errorf("read Secret: %w", err)
	}
	return r.rules.Member(secret), nil
}

// publish writes the snapshot of a member to its MemberCluster, if they differ.
func (r *Reconciler) publish(ctx context.Context, memberSecret *kubeconfig.MemberSecret, mc *v1alpha1.MemberCluster, observed snapshot) error {
	if mc.UID == "" || !hasSecretLabels(mc, kubeconfig.CopyLabels(memberSecret.Secret.Labels)) || mc.Annotations[v1alpha1.AnnotationSecret] != memberSecret.Key().String() {
		// The watch reports the applied MemberCluster, whose status is then written.
		return r.apply(ctx, memberSecret)
	}
	observed.setMetrics(mc.Name)
	return r.writeStatus(ctx, mc, statusOf(mc, observed, time.Now()))
}

// writeStatus writes the status of a MemberCluster if it has changed, and emits events for the
// change.
func (r *Reconciler) writeStatus(ctx context.Context, mc *v1alpha1.MemberCluster, status v1alpha1.MemberClusterStatus) error {
	updated := mc.DeepCopy()
	updated.Status = status
	if equality.Semantic.DeepEqual(mc.Status, updated.Status) {
		return nil
	}
	err := r.hub.Status().Patch(ctx, updated, client.MergeFromWithOptions(mc, client.MergeFromWithOptimisticLock{}))
	switch {
	case apierrors.IsConflict(err), apierrors.IsNotFound(err):
		return nil // the cache is outdated, and its update triggers a reconciliation
	case err != nil:
		return fmt.Errorf("write the status of MemberCluster: %w", err)
	}
	r.announce(mc, updated)
	return nil
}

// apply creates the MemberCluster, or updates its labels and the annotation with its Secret. It sends
// only these fields. Server-side apply records which labels are ours: a label that is removed from the
// Secret is removed, and those of an administrator stay.
func (r *Reconciler) apply(ctx context.Context, memberSecret *kubeconfig.MemberSecret) error {
	mc, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&v1alpha1.MemberCluster{
		TypeMeta: metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: "MemberCluster"},
		ObjectMeta: metav1.ObjectMeta{
			Name:        memberSecret.Name,
			Labels:      kubeconfig.CopyLabels(memberSecret.Secret.Labels),
			Annotations: map[string]string{v1alpha1.AnnotationSecret: memberSecret.Key().String()},
		},
	})
	if err == nil {
		applied := client.ApplyConfigurationFromUnstructured(&unstructured.Unstructured{Object: mc})
		err = r.hub.Apply(ctx, applied, client.FieldOwner(v1alpha1.ManagedBy), client.ForceOwnership)
	}
	if err != nil {
		return fmt.Errorf("apply MemberCluster: %w", err)
	}
	return nil
}

// announce emits an event for each condition whose reason has changed.
func (r *Reconciler) announce(before, after *v1alpha1.MemberCluster) {
	for _, kind := range []string{v1alpha1.ConditionReady, v1alpha1.ConditionCredentialsValid} {
		was, is := meta.FindStatusCondition(before.Status.Conditions, kind), meta.FindStatusCondition(after.Status.Conditions, kind)
		if is != nil && kind != v1alpha1.ConditionReady && is.Reason == v1alpha1.ReasonSecretMissing {
			continue // the event of Ready has reported it
		}
		if is == nil || is.Reason == v1alpha1.ReasonConnecting || is.Reason == v1alpha1.ReasonNotVerified || was != nil && was.Reason == is.Reason {
			continue
		}
		severity := corev1.EventTypeWarning
		if is.Status == metav1.ConditionTrue && !needsAttention(is.Reason) {
			severity = corev1.EventTypeNormal
		}
		r.events.Eventf(after, nil, severity, is.Reason, "Supervise", "%s", is.Message)
	}
}

// needsAttention reports whether a condition that is True asks the user to do something.
func needsAttention(reason string) bool {
	return reason == v1alpha1.ReasonExpiringSoon || reason == v1alpha1.ReasonRenewalFailed || reason == v1alpha1.ReasonNotRenewable
}
