package placement

import (
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
)

// MemberChange is a change of one MemberCluster.
type MemberChange struct {
	before, after *v1alpha1.MemberCluster
	isRelevant    bool // may affect any AppService
	isResized     bool // may affect an AppService whose replicas follow the capacity
}

// NewMemberChange returns a change. The member before the change is nil if the member is new, and
// the member after the change is nil if it is gone.
func NewMemberChange(before, after *v1alpha1.MemberCluster) MemberChange {
	c := MemberChange{before: before, after: after}
	if c.comesOrGoes() {
		c.isRelevant = true
		return c
	}
	c.isRelevant = before.UID != after.UID ||
		before.IsReady() != after.IsReady() ||
		before.HasSecret() != after.HasSecret() ||
		before.DeletionTimestamp.IsZero() != after.DeletionTimestamp.IsZero() ||
		!maps.Equal(before.Labels, after.Labels) ||
		!slices.Equal(before.Status.Abandoned, after.Status.Abandoned) ||
		!equality.Semantic.DeepEqual(before.Spec, after.Spec)
	c.isResized = !equality.Semantic.DeepEqual(before.Status.Allocatable, after.Status.Allocatable)
	return c
}

func (c MemberChange) comesOrGoes() bool { return c.before == nil || c.after == nil }

// IsEmpty reports whether the change affects no AppService.
func (c MemberChange) IsEmpty() bool { return !c.isRelevant && !c.isResized }

// Affects reports whether the change may change the plan or the status of an AppService.
//
// A member that comes or goes affects every AppService, because its status counts the clusters that
// are not chosen. Any other change affects an AppService that has an entry for the member, whose
// placement may choose the member, or whose placement excludes the member for another reason than
// before. While an AppService is being deleted, every member may affect it, because its status may
// be lost.
func (c MemberChange) Affects(app *v1alpha1.AppService) bool {
	followsCapacity := app.Spec.ReplicaPolicy != nil && app.Spec.ReplicaPolicy.Weights == v1alpha1.WeightsAllocatable
	switch {
	case !c.isRelevant && !(c.isResized && followsCapacity):
		return false
	case c.comesOrGoes(), !app.DeletionTimestamp.IsZero(), app.Status.Cluster(c.after.Name) != nil:
		return true
	}
	fits, err := compile(app.Spec.Placement)
	if err != nil {
		return false // there is no plan, so only the entries depend on members
	}
	before, requirementBefore := fits.reason(candidate{member: c.before})
	after, requirementAfter := fits.reason(candidate{member: c.after})
	return before == "" || before != after || requirementBefore != requirementAfter
}
