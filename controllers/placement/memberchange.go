package placement

import (
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
)

// MemberChange is a change of one MemberCluster.
type MemberChange struct {
	before, after *v1alpha1.MemberCluster
	isRelevant    bool // may affect any AppService
	isDelayed     bool // not Ready before and after, but since another time
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
	c.isDelayed = !before.IsReady() && !after.IsReady() && !readyTime(before).Equal(readyTime(after))
	c.isRelevant = c.isDelayed || before.UID != after.UID ||
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

// readyTime returns since when the Ready condition has its status, or nil without a condition.
func readyTime(member *v1alpha1.MemberCluster) *metav1.Time {
	if ready := meta.FindStatusCondition(member.Status.Conditions, v1alpha1.ConditionReady); ready != nil {
		return &ready.LastTransitionTime
	}
	return nil
}

// Cluster returns the name of the member.
func (c MemberChange) Cluster() string {
	if c.after != nil {
		return c.after.Name
	}
	return c.before.Name
}

// IsEmpty reports whether the change affects no AppService.
func (c MemberChange) IsEmpty() bool { return !c.isRelevant && !c.isResized }

// Affects reports whether the change may change the plan or the status of an AppService, which may
// have an entry for the member.
//
// A member that comes or goes affects every AppService, because its status counts the clusters that
// are not chosen. Any other change affects an AppService that has an entry for the member, or has
// or had a tombstone there, whose placement may choose the member, or whose placement excludes the
// member for another reason or since another time than before. While an AppService is being deleted,
// every member may affect it, because its status may be lost.
// docs/decisions/only-affected-appservices-are-planned.md says why.
func (c MemberChange) Affects(app *v1alpha1.AppService, hasEntry bool) bool {
	followsCapacity := app.Spec.ReplicaPolicy != nil && app.Spec.ReplicaPolicy.Weights == v1alpha1.WeightsAllocatable
	switch {
	case !c.isRelevant && !(c.isResized && followsCapacity):
		return false
	case c.comesOrGoes(), app.IsDeleting(), hasEntry, c.before.IsAbandoned(app.UID) != c.after.IsAbandoned(app.UID):
		return true
	}
	fits, err := compile(app.Spec.Placement)
	if err != nil {
		return false // there is no plan, so only the entries depend on members
	}
	before, requirementBefore := fits.reason(candidate{member: c.before})
	after, requirementAfter := fits.reason(candidate{member: c.after})
	return before == "" || before != after || requirementBefore != requirementAfter || after == v1alpha1.ReasonClusterNotReady && c.isDelayed
}
