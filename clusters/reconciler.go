package clusters

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"
	"sigs.k8s.io/multicluster-runtime/pkg/multicluster"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
)

// SecretCache is what the hub's cache must be told of Secrets: only those of the namespace that the selector
// chooses. So a label that is removed arrives as a deletion.
func SecretCache(namespace string, selector labels.Selector) cache.ByObject {
	return cache.ByObject{Namespaces: map[string]cache.Config{namespace: {LabelSelector: selector}}}
}

// Reconciler keeps a member for each Secret, and a MemberCluster for each member. It waits for no member.
type Reconciler struct {
	hub       client.Client
	namespace string
	provider  *Provider
}

// +kubebuilder:rbac:groups="",namespace=fleetwright-system,resources=secrets,verbs=get;list;watch
// +kubebuilder:rbac:groups=fleetwright.dev,resources=memberclusters,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=fleetwright.dev,resources=memberclusters/status,verbs=patch

// SetupWithManager adds the Reconciler of the Secrets in a namespace of the hub. Members are engaged with aware,
// by the elected leader only.
func (p *Provider) SetupWithManager(hub manager.Manager, aware multicluster.Aware, namespace string) error {
	p.aware = aware
	if err := hub.Add(manager.RunnableFunc(p.drain)); err != nil {
		return err
	}
	r := &Reconciler{hub: hub.GetClient(), namespace: namespace, provider: p}
	toSecret := handler.EnqueueRequestsFromMapFunc(func(_ context.Context, mc client.Object) []reconcile.Request {
		return []reconcile.Request{r.request(mc.GetName())}
	})
	return ctrl.NewControllerManagedBy(hub).Named("membercluster").
		For(&corev1.Secret{}).
		Watches(&v1alpha1.MemberCluster{}, toSecret).
		WatchesRawSource(source.Func(r.listen)).
		Complete(r)
}

// drain waits, at the end of the process, for the members to be let go of.
func (p *Provider) drain(ctx context.Context) error {
	<-ctx.Done()
	p.running.Wait()
	return nil
}

// listen queues a member's Secret when something is known anew of the member.
func (r *Reconciler) listen(_ context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
	r.provider.changed = func(name multicluster.ClusterName) { queue.Add(r.request(name.String())) }
	return nil
}

func (r *Reconciler) request(name string) reconcile.Request {
	return reconcile.Request{NamespacedName: types.NamespacedName{Namespace: r.namespace, Name: name}}
}

// Reconcile brings the member and the MemberCluster in line with a Secret.
func (r *Reconciler) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	name := multicluster.ClusterName(request.Name)
	secret := &corev1.Secret{}
	err := r.hub.Get(ctx, request.NamespacedName, secret)
	switch {
	case apierrors.IsNotFound(err), err == nil && !secret.DeletionTimestamp.IsZero():
		r.provider.forget(name)
		return reconcile.Result{}, r.remove(ctx, request.Name)
	case err != nil:
		return reconcile.Result{}, fmt.Errorf("read Secret: %w", err)
	}
	member := r.provider.ensure(name)
	member.expect(targetOf(secret))
	return reconcile.Result{}, r.publish(ctx, secret, member.known())
}

// remove deletes the MemberCluster that was made from a Secret of this namespace. One that an administrator
// made ahead of its Secret stays.
func (r *Reconciler) remove(ctx context.Context, name string) error {
	mc := &v1alpha1.MemberCluster{}
	if err := r.hub.Get(ctx, client.ObjectKey{Name: name}, mc); err != nil {
		return client.IgnoreNotFound(err)
	}
	if from := mc.Status.SecretRef; from == nil || from.Namespace != r.namespace {
		return nil
	}
	if err := r.hub.Delete(ctx, mc, client.Preconditions{UID: &mc.UID}); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("delete MemberCluster: %w", err)
	}
	return nil
}

// publish writes what is known of a member to its MemberCluster, when that says something else.
func (r *Reconciler) publish(ctx context.Context, secret *corev1.Secret, known snapshot) error {
	mc := &v1alpha1.MemberCluster{}
	err := r.hub.Get(ctx, client.ObjectKey{Name: secret.Name}, mc)
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("read MemberCluster: %w", err)
	}
	if apierrors.IsNotFound(err) || !holdsLabels(mc, secret.Labels) {
		return r.apply(ctx, secret) // what it makes comes back by the watch, and gets its status then
	}
	updated := mc.DeepCopy()
	updated.Status = statusOf(mc, secret, known)
	if equality.Semantic.DeepEqual(mc.Status, updated.Status) {
		return nil
	}
	if err := r.hub.Status().Patch(ctx, updated, client.MergeFrom(mc)); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("write the status of MemberCluster: %w", err)
	}
	return nil
}

// apply makes the MemberCluster, or gives it the labels of its Secret.
func (r *Reconciler) apply(ctx context.Context, secret *corev1.Secret) error {
	mc := &unstructured.Unstructured{}
	mc.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("MemberCluster"))
	mc.SetName(secret.Name)
	mc.SetLabels(secret.Labels)
	err := r.hub.Apply(ctx, client.ApplyConfigurationFromUnstructured(mc), client.FieldOwner(v1alpha1.ManagedBy), client.ForceOwnership)
	if err != nil {
		return fmt.Errorf("apply MemberCluster: %w", err)
	}
	return nil
}
