package clusters

import (
	"context"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/clusters/kubeconfig"
)

// detachOthers detaches the MemberClusters that were created from a Secret which no longer
// describes them: all of them if memberSecret is nil, otherwise those with another name. It returns
// when to reconcile again, or 0 for never.
// docs/decisions/a-membercluster-outlives-its-secret.md says why.
func (r *Reconciler) detachOthers(ctx context.Context, secret types.NamespacedName, memberSecret *kubeconfig.MemberSecret) (requeueAfter time.Duration, err error) {
	var members v1alpha1.MemberClusterList
	if err := r.hub.List(ctx, &members, client.MatchingFields{secretField: secret.String()}); err != nil {
		return 0, fmt.Errorf("list MemberClusters: %w", err)
	}
	for i := range members.Items {
		mc := &members.Items[i]
		if memberSecret != nil && memberSecret.Name == mc.Name {
			continue
		}
		left, err := r.detach(ctx, mc)
		if err != nil {
			return 0, err
		}
		requeueAfter = sooner(requeueAfter, left)
	}
	return requeueAfter, nil
}

// detach records in a MemberCluster that its Secret is missing. After the grace period it deletes
// the MemberCluster if that is disposable. It returns when to reconcile again, or 0 for never.
func (r *Reconciler) detach(ctx context.Context, mc *v1alpha1.MemberCluster) (requeueAfter time.Duration, err error) {
	now := metav1.Now().Rfc3339Copy()
	status := statusWithoutSecret(mc, now)
	setDetachedMetrics(mc.Name)
	if err := r.writeStatus(ctx, mc, status); err != nil {
		return 0, err
	}
	if !isDisposable(mc) {
		return 0, nil // a change of the MemberCluster triggers the next reconciliation
	}
	grace := r.provider.options.SecretGrace
	if left := grace - now.Sub(status.SecretMissingSince.Time); mc.HasSecret() || left > 0 {
		return max(left, time.Second), nil
	}
	// An administrator may cordon the cluster at this moment, so only the version that was read is
	// deleted.
	err = r.hub.Delete(ctx, mc, client.Preconditions{UID: &mc.UID, ResourceVersion: &mc.ResourceVersion})
	switch {
	case apierrors.IsConflict(err), apierrors.IsNotFound(err):
		return 0, nil // the cache is outdated, and its update triggers a reconciliation
	case err != nil:
		return 0, fmt.Errorf("delete MemberCluster: %w", err)
	}
	ctrl.LoggerFrom(ctx).Info("Deleted a MemberCluster whose Secret is missing", "cluster", mc.Name, "since", status.SecretMissingSince)
	return 0, nil
}

// statusWithoutSecret returns the status of a MemberCluster whose Secret is missing. It keeps the
// identity and the cluster info.
func statusWithoutSecret(mc *v1alpha1.MemberCluster, now metav1.Time) v1alpha1.MemberClusterStatus {
	status := *mc.Status.DeepCopy()
	status.ObservedGeneration = mc.Generation
	status.CredentialsExpirationTime = nil
	if status.SecretMissingSince == nil {
		status.SecretMissingSince = &now
	}
	secret := mc.Annotations[v1alpha1.AnnotationSecret]
	message := fmt.Sprintf("Secret %s does not exist, is not selected by the operator's flags, or describes another member; the workloads keep running. "+
		"To connect the cluster again, create the Secret. To remove the cluster permanently: kubectl delete membercluster %s", secret, mc.Name)
	for _, kind := range []string{v1alpha1.ConditionReady, v1alpha1.ConditionCredentialsValid} {
		meta.SetStatusCondition(&status.Conditions, metav1.Condition{
			Type: kind, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonSecretMissing, Message: message, ObservedGeneration: mc.Generation,
		})
	}
	return status
}

// isDisposable reports whether a MemberCluster has no setting of an administrator: no spec, no
// tombstones, and no labels or annotations except those that Fleetwright applies.
func isDisposable(mc *v1alpha1.MemberCluster) bool {
	applied := appliedLabels(mc)
	for label := range mc.Labels {
		if !slices.Contains(applied, label) {
			return false
		}
	}
	for annotation := range mc.Annotations {
		if annotation != v1alpha1.AnnotationSecret {
			return false
		}
	}
	return !mc.Spec.Unschedulable && len(mc.Spec.Taints) == 0 && len(mc.Status.Abandoned) == 0
}
