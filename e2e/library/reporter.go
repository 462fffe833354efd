package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	mcbuilder "sigs.k8s.io/multicluster-runtime/pkg/builder"
	mchandler "sigs.k8s.io/multicluster-runtime/pkg/handler"
	mcmanager "sigs.k8s.io/multicluster-runtime/pkg/manager"
	"sigs.k8s.io/multicluster-runtime/pkg/multicluster"
	mcreconcile "sigs.k8s.io/multicluster-runtime/pkg/reconcile"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
)

// annotation says how many pods and Deployments a member has.
const annotation = "example.com/pods"

// reporter writes the annotation of each member.
type reporter struct{ fleet mcmanager.Manager }

// setUpReporter adds the reporter to a manager. Each event of a member enqueues the same request, because
// the annotation is about the whole member.
func setUpReporter(m mcmanager.Manager) error {
	wholeMember := mchandler.EnqueueRequestsFromMapFunc(func(context.Context, client.Object) []reconcile.Request {
		return []reconcile.Request{{NamespacedName: types.NamespacedName{Name: "member"}}}
	})
	return mcbuilder.ControllerManagedBy(m).Named("reporter").
		Watches(&corev1.Pod{}, wholeMember, mcbuilder.WithPredicates(readinessChanges())).
		WatchesMetadata(deploymentMetadata(), wholeMember).
		Complete(&reporter{fleet: m})
}

// resync is how often the report of a member is compared with it. An object that is deleted while the
// member is away causes no event.
const resync = time.Minute

// Reconcile writes the annotation of one member, if it has changed.
func (r *reporter) Reconcile(ctx context.Context, request mcreconcile.Request) (ctrl.Result, error) {
	member, err := r.fleet.GetCluster(ctx, request.ClusterName)
	if errors.Is(err, multicluster.ErrClusterNotFound) {
		return r.whileJoined(ctx, request)
	}
	if err != nil {
		return ctrl.Result{}, err
	}
	var pods corev1.PodList
	if err := member.GetClient().List(ctx, &pods); err != nil {
		return ctrl.Result{}, err
	}
	deployments := &metav1.PartialObjectMetadataList{TypeMeta: metav1.TypeMeta{APIVersion: "apps/v1", Kind: "DeploymentList"}}
	if err := member.GetClient().List(ctx, deployments); err != nil {
		return ctrl.Result{}, err
	}
	notReady := 0
	for i := range pods.Items {
		if !isReady(&pods.Items[i]) {
			notReady++
		}
	}
	report := fmt.Sprintf("%d of %d not ready, of %d Deployments", notReady, len(pods.Items), len(deployments.Items))
	return ctrl.Result{RequeueAfter: resync}, r.annotate(ctx, request.ClusterName.String(), report)
}

// whileJoined repeats the request of a member that is not connected, until its MemberCluster is deleted.
func (r *reporter) whileJoined(ctx context.Context, request mcreconcile.Request) (ctrl.Result, error) {
	err := r.fleet.GetLocalManager().GetClient().Get(ctx, client.ObjectKey{Name: request.ClusterName.String()}, &v1alpha1.MemberCluster{})
	if err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	return ctrl.Result{RequeueAfter: resync}, nil
}

// annotate writes the annotation. A merge patch creates no MemberCluster.
func (r *reporter) annotate(ctx context.Context, name, report string) error {
	hub := r.fleet.GetLocalManager().GetClient()
	found := &v1alpha1.MemberCluster{}
	if err := hub.Get(ctx, client.ObjectKey{Name: name}, found); err != nil {
		return client.IgnoreNotFound(err)
	}
	if found.Annotations[annotation] == report {
		return nil
	}
	annotated := found.DeepCopy()
	metav1.SetMetaDataAnnotation(&annotated.ObjectMeta, annotation, report)
	return client.IgnoreNotFound(hub.Patch(ctx, annotated, client.MergeFrom(found)))
}

// readinessChanges drops the updates of pods that leave them ready, or not ready.
func readinessChanges() predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		return isReady(e.ObjectOld.(*corev1.Pod)) != isReady(e.ObjectNew.(*corev1.Pod))
	}}
}

func isReady(pod *corev1.Pod) bool {
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodReady {
			return condition.Status == corev1.ConditionTrue
		}
	}
	return false
}

// onlyReadiness drops from a pod what the reporter does not read, so that a cache holds a tenth of it.
func onlyReadiness(object any) (any, error) {
	if pod, is := object.(*corev1.Pod); is {
		pod.ManagedFields, pod.Annotations, pod.Spec = nil, nil, corev1.PodSpec{}
		pod.Status = corev1.PodStatus{Conditions: pod.Status.Conditions}
	}
	return object, nil
}
