package placement

import (
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
)

// IsAffected reports whether a change of a member may change the plan or the status of an
// AppService. The member before the change is nil if the member is new, and the member after the
// change is nil if it is gone.
//
// A member that comes or goes affects every AppService, because its status counts the clusters that
// are not chosen. Any other change affects an AppService that has an entry for the member, whose
// placement may choose the member, or whose placement excludes the member for another reason than
// before. While an AppService is being deleted, every member may affect it, because its status may
// be lost.
func IsAffected(app *v1alpha1.AppService, before, after *v1alpha1.MemberCluster) bool {
	if before == nil || after == nil {
		return true // also the number of excluded clusters changes
	}
	resized := !equality.Semantic.DeepEqual(before.Status.Allocatable, after.Status.Allocatable)
	if !isRelevant(before, after) && !(resized && app.Spec.ReplicaPolicy != nil && app.Spec.ReplicaPolicy.Weights == v1alpha1.WeightsAllocatable) {
		return false
	}
	if !app.DeletionTimestamp.IsZero() || app.Status.Cluster(after.Name) != nil {
		return true
	}
	fits, err := compile(app.Spec.Placement)
	if err != nil {
		return false // there is no plan, so only the entries depend on members
	}
	reasonBefore, requirementBefore := fits.reason(candidate{member: before})
	reasonAfter, requirementAfter := fits.reason(candidate{member: after})
	return reasonBefore == "" || reasonBefore != reasonAfter || requirementBefore != requirementAfter
}

// isRelevant reports whether a change of a member may affect any AppService, its resources aside.
func isRelevant(before, after *v1alpha1.MemberCluster) bool {
	return before.UID != after.UID ||
		before.IsReady() != after.IsReady() ||
		before.HasSecret() != after.HasSecret() ||
		before.DeletionTimestamp.IsZero() != after.DeletionTimestamp.IsZero() ||
		!maps.Equal(before.Labels, after.Labels) ||
		!slices.Equal(before.Status.Abandoned, after.Status.Abandoned) ||
		!equality.Semantic.DeepEqual(before.Spec, after.Spec)
}
