package delivery

import (
	"fmt"
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
)

// intent is what is to be done for one AppService on one member.
type intent string

const (
	// leave: there is no plan for this member; whatever is there stays.
	leave intent = "leave"
	// await: the planner has not planned this generation yet; only look.
	await intent = "await"
	// maintain: bring the member's objects in line with the row.
	maintain intent = "maintain"
	// remove: take the member's objects away.
	remove intent = "remove"
)

// decide returns what to do, given the AppService (nil when the hub has none) and its row for this member (nil
// when it has none). That there is no AppService, or no row, is never a reason to delete.
func decide(app *v1alpha1.AppService, row *v1alpha1.ClusterStatus) intent {
	switch {
	case app == nil, row == nil, row.Phase == v1alpha1.ClusterDetached:
		return leave
	case row.Phase == v1alpha1.ClusterRemoving:
		return remove
	case !app.DeletionTimestamp.IsZero(), row.Generation != app.Generation:
		return await
	}
	return maintain
}

// obstacle is why a member's objects must not be changed: a reason of the API, and more for people.
type obstacle struct {
	reason, message string
}

// obstacles returns what stands in the way of changing any of the objects, or nil.
func (r *reconciler) obstacles(app *v1alpha1.AppService, objects live) *obstacle {
	for _, object := range objects.all() {
		if owner := r.foreign(app, object); owner != "" {
			return &obstacle{v1alpha1.ReasonConflict, fmt.Sprintf("%s %s exists and is not this AppService's: %s", kindOf(object), object.GetName(), owner)}
		}
		if obstacle := ahead(app, object); obstacle != nil {
			return obstacle
		}
	}
	return nil
}

// ahead is the obstacle of an object that was applied for a later generation than the hub knows, or nil.
func ahead(app *v1alpha1.AppService, object client.Object) *obstacle {
	stamp := generationOf(object)
	if stamp <= app.Generation {
		return nil
	}
	return &obstacle{v1alpha1.ReasonHubBehind, fmt.Sprintf("%s was applied for generation %d, the hub has only %d", kindOf(object), stamp, app.Generation)}
}

// foreign says whose an object is, when it is not this AppService's; empty when it is.
func (r *reconciler) foreign(app *v1alpha1.AppService, object client.Object) string {
	labels, annotations := object.GetLabels(), object.GetAnnotations()
	switch {
	case labels[v1alpha1.LabelManagedBy] != v1alpha1.ManagedBy:
		return "it is managed by " + managerOf(object)
	case annotations[v1alpha1.AnnotationHub] != r.hubID:
		return fmt.Sprintf("it belongs to hub %q", annotations[v1alpha1.AnnotationHub])
	case annotations[v1alpha1.AnnotationUID] != string(app.UID):
		return fmt.Sprintf("it belongs to an AppService with UID %q", annotations[v1alpha1.AnnotationUID])
	}
	return ""
}

// managerOf names who manages an object, as well as can be told.
func managerOf(object client.Object) string {
	if name := object.GetLabels()[v1alpha1.LabelManagedBy]; name != "" {
		return strconv.Quote(name)
	}
	if fields := object.GetManagedFields(); len(fields) > 0 {
		return strconv.Quote(fields[0].Manager)
	}
	return "somebody else"
}

// generationOf is the generation that an object was applied for; 0 when it does not say.
func generationOf(object client.Object) int64 {
	generation, err := strconv.ParseInt(object.GetAnnotations()[v1alpha1.AnnotationGeneration], 10, 64)
	if err != nil {
		return 0
	}
	return generation
}

func kindOf(object client.Object) string {
	switch object.(type) {
	case *appsv1.Deployment:
		return "Deployment"
	case *corev1.Service:
		return "Service"
	}
	return fmt.Sprintf("%T", object)
}

// live are the objects of one AppService on one member; nil where there is none.
type live struct {
	deployment *appsv1.Deployment
	service    *corev1.Service
}

// all are those that exist.
func (l live) all() []client.Object {
	var objects []client.Object
	if l.deployment != nil {
		objects = append(objects, l.deployment)
	}
	if l.service != nil {
		objects = append(objects, l.service)
	}
	return objects
}
