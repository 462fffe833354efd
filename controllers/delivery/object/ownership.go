package object

import (
	"cmp"
	"fmt"
	"strconv"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/lineage"
)

// Owner is who an object belongs to.
type Owner int

const (
	// Owned objects belong to this AppService.
	Owned Owner = iota
	// PreviousAppService objects belong to an earlier AppService of this hub, namespace and name,
	// with another UID. That AppService was deleted, or the hub was restored or rebuilt. Only one
	// AppService can have the name at a time, so the present one inherits these objects.
	PreviousAppService
	// Unmanaged objects belong to no Fleetwright. The conflict policy decides.
	Unmanaged
	// ForeignHub objects belong to another hub. They are never touched.
	ForeignHub
)

// Existing is an object on a member, with the facts about it for one AppService.
type Existing struct {
	client.Object

	Owner Owner
	// OwnedBy describes the owner for people. It is empty if the object is Owned.
	OwnedBy string
	// Stamp says for what the object was applied.
	Stamp lineage.Stamp
	// Newer reports that the object comes from a state that this hub has lost, as by a restore.
	Newer bool
	// needsStamp reports that the stamp must be replaced although nothing else differs. Either the
	// hub cannot account for the stamp: it has been accepted, or the object would be blocked, and
	// need not be accepted forever. Or a removal was withdrawn.
	needsStamp bool
}

// Inspect returns an object of a member with the facts about it, for an AppService of that
// namespace and name, and its entry for the member, which may be nil.
func Inspect(hubID string, app *v1alpha1.AppService, entry *v1alpha1.ClusterStatus, object client.Object) Existing {
	owner, by := ownerOf(hubID, app, object)
	existing := Existing{Object: object, Owner: owner, OwnedBy: by, Stamp: lineage.Of(object)}
	existing.Newer = existing.IsManagedByThisHub() && lineage.IsAhead(app, entry, existing.Stamp)
	existing.needsStamp = entry != nil && existing.Stamp.UID == app.UID &&
		(!lineage.IsPlanned(app, existing.Stamp) || lineage.IsRemovalWithdrawn(entry, existing.Stamp))
	return existing
}

// ownerOf returns the owner of an object by Fleetwright's own annotations, because other tools set
// the common labels as well.
func ownerOf(hubID string, app *v1alpha1.AppService, object client.Object) (owner Owner, by string) {
	annotations := object.GetAnnotations()
	hub, uid := annotations[v1alpha1.AnnotationHub], annotations[v1alpha1.AnnotationUID]
	switch {
	case hub == "":
		return Unmanaged, "it is managed by " + managerOf(object)
	case hub != hubID:
		return ForeignHub, fmt.Sprintf("it belongs to hub %q", hub)
	case uid != string(app.UID) && object.GetLabels()[v1alpha1.LabelAppService] != object.GetName():
		return Unmanaged, "it is a copy of an object of another AppService" // whose own object may still exist
	case uid != string(app.UID):
		return PreviousAppService, fmt.Sprintf("it belongs to an AppService with UID %q", uid)
	}
	return Owned, ""
}

// managerOf names the manager of an object, as well as it can be known.
func managerOf(object client.Object) string {
	if name := object.GetLabels()[v1alpha1.LabelManagedBy]; name != "" && name != v1alpha1.ManagedBy {
		return strconv.Quote(name)
	}
	if fields := object.GetManagedFields(); len(fields) > 0 {
		return strconv.Quote(fields[0].Manager)
	}
	return "an unknown manager"
}

// IsOwned reports whether the object belongs to the AppService.
func (e Existing) IsOwned() bool { return e.Owner == Owned }

// IsManagedByThisHub reports whether the object belongs to the AppService or to an earlier one of
// its name.
func (e Existing) IsManagedByThisHub() bool { return e.Owner == Owned || e.Owner == PreviousAppService }

// IsBeingDeleted reports whether the member is deleting the object.
func (e Existing) IsBeingDeleted() bool { return !e.GetDeletionTimestamp().IsZero() }

// Blocker says why an object must not be changed.
type Blocker struct {
	// Reason is one of package v1alpha1.
	Reason, Message string
	// Transient reports that the blocker ends without an action of a person.
	Transient bool
	// Retry is when to check again; 0 leaves it to the caller.
	Retry time.Duration
}

// Error makes a Blocker an error, so that it can be returned from where it is found.
func (b *Blocker) Error() string { return b.Message }

// RetryAfter returns when to check again.
func (b *Blocker) RetryAfter(otherwise time.Duration) time.Duration {
	return cmp.Or(b.Retry, otherwise)
}

// Blocker returns why the object must not be changed under a conflict policy, or nil.
func (e Existing) Blocker(policy v1alpha1.ConflictPolicy) *Blocker {
	adopts := policy == v1alpha1.ConflictAdopt || policy == v1alpha1.ConflictAdoptIfIdentical
	switch {
	case e.Newer:
		return &Blocker{Reason: v1alpha1.ReasonHubBehind, Message: KindOf(e.Object) + " is ahead of the hub"}
	case e.IsManagedByThisHub(), e.Owner == Unmanaged && adopts:
		return nil
	case e.Owner == Unmanaged:
		return e.Conflict(e.OwnedBy + "; to adopt it, set spec.conflictPolicy to AdoptIfIdentical or Adopt")
	}
	return e.Conflict(e.OwnedBy)
}

// Conflict returns the blocker of an object that is not the AppService's.
func (e Existing) Conflict(why string) *Blocker {
	return &Blocker{Reason: v1alpha1.ReasonConflict, Message: fmt.Sprintf("%s %s exists and does not belong to this AppService: %s", KindOf(e.Object), e.GetName(), why)}
}

// groupVersions are those of the kinds that an AppService may have on a member.
var groupVersions = map[string]schema.GroupVersion{
	"Deployment": appsv1.SchemeGroupVersion, "Service": corev1.SchemeGroupVersion,
	"HorizontalPodAutoscaler": autoscalingv2.SchemeGroupVersion, "PodDisruptionBudget": policyv1.SchemeGroupVersion,
}

// SetKind sets the kind of a typed object, which reading leaves out. Comparing needs it.
func SetKind(object client.Object) {
	kind := KindOf(object)
	object.GetObjectKind().SetGroupVersionKind(groupVersions[kind].WithKind(kind))
}

// KindOf returns the kind of a typed object.
func KindOf(object client.Object) string {
	switch object := object.(type) {
	case Existing:
		return KindOf(object.Object)
	case *appsv1.Deployment:
		return "Deployment"
	case *corev1.Service:
		return "Service"
	case *autoscalingv2.HorizontalPodAutoscaler:
		return "HorizontalPodAutoscaler"
	case *policyv1.PodDisruptionBudget:
		return "PodDisruptionBudget"
	}
	return fmt.Sprintf("%T", object)
}
