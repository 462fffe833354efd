// Package clusterprofile publishes each MemberCluster as a ClusterProfile of the Cluster Inventory
// API (https://github.com/kubernetes-sigs/cluster-inventory-api), for other tools of the hub to
// find: in one namespace, of the member's name and labels, except those of tools. What it says, and
// when it goes, follows the MemberCluster. It holds no credentials.
package clusterprofile

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/events"
	clusterinventory "sigs.k8s.io/cluster-inventory-api/apis/v1alpha1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/clusters/kubeconfig"
)

// propertyID names the property that holds the cluster's identity, the UID of its kube-system
// namespace (KEP-2149 calls it so).
const propertyID = "cluster.clusterset.k8s.io"

// Reconciler keeps a ClusterProfile for each MemberCluster.
type Reconciler struct {
	hub       client.Client
	events    events.EventRecorder
	namespace string
}

// +kubebuilder:rbac:groups=multicluster.x-k8s.io,namespace=fleetwright-system,resources=clusterprofiles,verbs=list;watch;create;patch
// +kubebuilder:rbac:groups=multicluster.x-k8s.io,namespace=fleetwright-system,resources=clusterprofiles/status,verbs=patch
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// SetupWithManager adds the Reconciler, which publishes into a namespace of the hub. It fails when
// the hub lacks the CRD.
func SetupWithManager(hub manager.Manager, namespace string) error {
	kind := clusterinventory.GroupVersion.WithKind("ClusterProfile")
	if _, err := hub.GetRESTMapper().RESTMapping(schema.GroupKind{Group: kind.Group, Kind: kind.Kind}, kind.Version); err != nil {
		return fmt.Errorf("the hub lacks the CRD of ClusterProfile, sigs.k8s.io/cluster-inventory-api: %w", err)
	}
	r := &Reconciler{hub: hub.GetClient(), events: hub.GetEventRecorder("fleetwright"), namespace: namespace}
	return ctrl.NewControllerManagedBy(hub).Named("clusterprofile").
		For(&v1alpha1.MemberCluster{}).
		Watches(&clusterinventory.ClusterProfile{}, handler.EnqueueRequestsFromMapFunc(r.toMember)).
		Complete(r)
}

// toMember maps a ClusterProfile to the MemberCluster of its name, whoever owns it: one that
// belongs to another manager may go.
func (r *Reconciler) toMember(_ context.Context, profile client.Object) []reconcile.Request {
	if profile.GetNamespace() != r.namespace {
		return nil
	}
	return []reconcile.Request{{NamespacedName: client.ObjectKey{Name: profile.GetName()}}}
}

// errForeign stops the writing of a ClusterProfile that belongs to another cluster manager.
var errForeign = errors.New("the ClusterProfile belongs to another cluster manager")

// Reconcile brings the ClusterProfile in line with its MemberCluster, which owns it: the garbage
// collector of the hub takes it away with its owner.
func (r *Reconciler) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	member := &v1alpha1.MemberCluster{}
	if err := r.hub.Get(ctx, request.NamespacedName, member); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	profile := &clusterinventory.ClusterProfile{ObjectMeta: metav1.ObjectMeta{Namespace: r.namespace, Name: member.Name}}
	_, err := controllerutil.CreateOrPatch(ctx, r.hub, profile, func() error {
		if profile.UID != "" && isForeign(profile) {
			return errForeign
		}
		describe(profile, member)
		// Where OwnerReferencesPermissionEnforcement is on, blocking the owner's deletion would
		// take more rights.
		return controllerutil.SetControllerReference(member, profile, r.hub.Scheme(), controllerutil.WithBlockOwnerDeletion(false))
	})
	switch {
	case errors.Is(err, errForeign):
		r.events.Eventf(member, profile, corev1.EventTypeWarning, v1alpha1.ReasonClusterProfileConflict, "Publish",
			"ClusterProfile %s/%s belongs to cluster manager %q and is left alone; rename the member, or delete that ClusterProfile",
			profile.Namespace, profile.Name, managerOf(profile))
		return reconcile.Result{}, nil
	case err != nil:
		return reconcile.Result{}, fmt.Errorf("write ClusterProfile: %w", err)
	}
	return reconcile.Result{}, nil
}

// isForeign reports whether a ClusterProfile belongs to another cluster manager: by its spec, which
// cannot change, or by its label, unless a MemberCluster owns it and somebody has changed the
// label.
func isForeign(profile *clusterinventory.ClusterProfile) bool {
	if owner := metav1.GetControllerOf(profile); owner != nil && owner.Kind == "MemberCluster" {
		return profile.Spec.ClusterManager.Name != v1alpha1.ManagedBy
	}
	return managerOf(profile) != v1alpha1.ManagedBy
}

// managerOf returns the cluster manager of a ClusterProfile: one that is not us, if either its spec
// or its label names one.
func managerOf(profile *clusterinventory.ClusterProfile) string {
	if name := profile.Spec.ClusterManager.Name; name != v1alpha1.ManagedBy {
		return name
	}
	return cmp.Or(profile.Labels[clusterinventory.LabelClusterManagerKey], v1alpha1.ManagedBy)
}

// describe makes the profile say what is known of the member.
func describe(profile *clusterinventory.ClusterProfile, member *v1alpha1.MemberCluster) {
	profile.Labels = kubeconfig.CopyLabels(member.Labels) // the profile is ours, and has no labels but the member's
	if profile.Labels == nil {
		profile.Labels = map[string]string{}
	}
	profile.Labels[clusterinventory.LabelClusterManagerKey] = v1alpha1.ManagedBy
	profile.Spec.ClusterManager.Name = v1alpha1.ManagedBy
	profile.Spec.DisplayName = member.Name
	profile.Status.Version.Kubernetes = member.Status.Version
	profile.Status.Properties = properties(member, profile.Status.Properties)
	if ready := meta.FindStatusCondition(member.Status.Conditions, v1alpha1.ConditionReady); ready != nil {
		meta.SetStatusCondition(&profile.Status.Conditions, metav1.Condition{
			Type:               clusterinventory.ClusterConditionControlPlaneHealthy,
			Status:             ready.Status,
			Reason:             ready.Reason,
			Message:            ready.Message,
			ObservedGeneration: profile.Generation,
		})
	}
}

// properties are the identity of the cluster and what its nodes can hold. One that says what it
// said keeps its time.
func properties(member *v1alpha1.MemberCluster, previous []clusterinventory.Property) []clusterinventory.Property {
	values := map[string]string{propertyID: string(member.Status.ClusterID)}
	for name, quantity := range member.Status.Allocatable {
		values["allocatable."+string(name)] = quantity.String()
	}
	var properties []clusterinventory.Property
	for _, name := range slices.Sorted(maps.Keys(values)) {
		if values[name] == "" {
			continue
		}
		property := clusterinventory.Property{Name: name, Value: values[name], LastObservedTime: metav1.Now()}
		if i := slices.IndexFunc(previous, func(p clusterinventory.Property) bool { return p.Name == name && p.Value == property.Value }); i >= 0 {
			property.LastObservedTime = previous[i].LastObservedTime
		}
		properties = append(properties, property)
	}
	return properties
}
