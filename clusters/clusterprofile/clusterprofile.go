// Package clusterprofile publishes each MemberCluster as a ClusterProfile of the Cluster Inventory
// API (https://github.com/kubernetes-sigs/cluster-inventory-api), so that other tools on the hub
// can find the clusters. All ClusterProfiles are in one namespace, and have the name and the labels
// of the member, except labels of tools. A ClusterProfile follows its MemberCluster: its content is
// updated and it is deleted with the MemberCluster.
//
// A ClusterProfile holds no credentials. Its access provider kubeconfig-secretreader has the address
// and the CA of the API server, and names the Secret with the kubeconfig. A tool that may read that
// Secret can connect to the member with the plugin of that name.
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

// propertyID names the property that holds the cluster's identity: the UID of its kube-system
// namespace, with the name from KEP-2149.
const propertyID = "cluster.clusterset.k8s.io"

// Reconciler maintains a ClusterProfile for each MemberCluster.
type Reconciler struct {
	hub     client.Client
	events  events.EventRecorder
	options Options
}

// Options configure the Reconciler.
type Options struct {
	// Namespace of the ClusterProfiles.
	Namespace string
	// SecretRules select the Secrets of the members.
	SecretRules kubeconfig.SecretRules
	// Policy decides which kubeconfigs are accepted.
	Policy kubeconfig.Policy
}

// +kubebuilder:rbac:groups="",namespace=fleetwright-system,resources=secrets,verbs=list;watch
// +kubebuilder:rbac:groups=multicluster.x-k8s.io,namespace=fleetwright-system,resources=clusterprofiles,verbs=list;watch;create;patch
// +kubebuilder:rbac:groups=multicluster.x-k8s.io,namespace=fleetwright-system,resources=clusterprofiles/status,verbs=patch
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// SetupWithManager adds the Reconciler to the hub's manager. It returns an error if the hub lacks the
// CRD. The cache of the manager has the Secrets that the rules select.
func SetupWithManager(hub manager.Manager, options Options) error {
	kind := clusterinventory.GroupVersion.WithKind("ClusterProfile")
	if _, err := hub.GetRESTMapper().RESTMapping(schema.GroupKind{Group: kind.Group, Kind: kind.Kind}, kind.Version); err != nil {
		return fmt.Errorf("the hub lacks the CRD of ClusterProfile, sigs.k8s.io/cluster-inventory-api: %w", err)
	}
	r := &Reconciler{hub: hub.GetClient(), events: hub.GetEventRecorder("fleetwright"), options: options}
	return ctrl.NewControllerManagedBy(hub).Named("clusterprofile").
		For(&v1alpha1.MemberCluster{}).
		Watches(&clusterinventory.ClusterProfile{}, handler.EnqueueRequestsFromMapFunc(r.toMember)).
		Watches(&corev1.Secret{}, handler.EnqueueRequestsFromMapFunc(r.toMemberOfSecret)).
		Complete(r)
}

// toMember maps a ClusterProfile to the MemberCluster with its name, also if another manager owns
// the ClusterProfile: after the deletion of that profile, the profile of the MemberCluster can be
// created.
func (r *Reconciler) toMember(_ context.Context, profile client.Object) []reconcile.Request {
	if profile.GetNamespace() != r.options.Namespace {
		return nil
	}
	return []reconcile.Request{{NamespacedName: client.ObjectKey{Name: profile.GetName()}}}
}

// errForeign prevents writes to a ClusterProfile that belongs to another cluster manager.
var errForeign = errors.New("the ClusterProfile belongs to another cluster manager")

// Reconcile updates the ClusterProfile of a MemberCluster. The MemberCluster owns it, so the
// garbage collector of the hub deletes it with its owner.
func (r *Reconciler) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	member := &v1alpha1.MemberCluster{}
	if err := r.hub.Get(ctx, request.NamespacedName, member); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	secret, err := r.secretOf(ctx, member)
	if err != nil {
		return reconcile.Result{}, fmt.Errorf("read Secret: %w", err)
	}
	access, err := accessProvider(member, secret, r.options.Policy)
	if err != nil {
		return reconcile.Result{}, err
	}
	profile := &clusterinventory.ClusterProfile{ObjectMeta: metav1.ObjectMeta{Namespace: r.options.Namespace, Name: member.Name}}
	_, err = controllerutil.CreateOrPatch(ctx, r.hub, profile, func() error {
		if profile.UID != "" && isForeign(profile) {
			return errForeign
		}
		describe(profile, member)
		profile.Status.AccessProviders = withAccess(profile.Status.AccessProviders, access)
		// If OwnerReferencesPermissionEnforcement is on, blocking the owner's deletion would
		// require more permissions.
		return controllerutil.SetControllerReference(member, profile, r.hub.Scheme(), controllerutil.WithBlockOwnerDeletion(false))
	})
	switch {
	case errors.Is(err, errForeign):
		r.events.Eventf(member, profile, corev1.EventTypeWarning, v1alpha1.ReasonClusterProfileConflict, "Publish",
			"ClusterProfile %s/%s belongs to cluster manager %q and is not changed; rename the member, or delete that ClusterProfile",
			profile.Namespace, profile.Name, managerOf(profile))
		return reconcile.Result{}, nil
	case err != nil:
		return reconcile.Result{}, fmt.Errorf("write ClusterProfile: %w", err)
	}
	return reconcile.Result{}, nil
}

// isForeign reports whether a ClusterProfile belongs to another cluster manager. Its spec, which is
// immutable, or its label names the manager. The label does not count if a MemberCluster owns the
// profile, because the label was changed later.
func isForeign(profile *clusterinventory.ClusterProfile) bool {
	if owner := metav1.GetControllerOf(profile); owner != nil && owner.Kind == "MemberCluster" {
		return profile.Spec.ClusterManager.Name != v1alpha1.ManagedBy
	}
	return managerOf(profile) != v1alpha1.ManagedBy
}

// managerOf returns the other cluster manager that the spec or the label of a ClusterProfile names,
// or Fleetwright if neither names another.
func managerOf(profile *clusterinventory.ClusterProfile) string {
	if name := profile.Spec.ClusterManager.Name; name != v1alpha1.ManagedBy {
		return name
	}
	return cmp.Or(profile.Labels[clusterinventory.LabelClusterManagerKey], v1alpha1.ManagedBy)
}

// describe sets the labels and the status of the profile from the member.
func describe(profile *clusterinventory.ClusterProfile, member *v1alpha1.MemberCluster) {
	// The profile belongs to Fleetwright, and has only the member's labels.
	profile.Labels = kubeconfig.CopyLabels(member.Labels)
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

// properties returns the cluster's identity and the allocatable resources of its nodes. A property
// whose value is unchanged keeps its time.
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
