package delivery

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/lineage"
)

// live are the objects of one AppService on one member; nil where there is none.
type live struct {
	deployment *appsv1.Deployment
	service    *corev1.Service
	parts      []client.Object // only where the member itself was read
}

// all are those that exist, the parts before the Deployment, which is the record of them.
func (l live) all() []client.Object {
	objects := slices.Clone(l.parts)
	if l.deployment != nil {
		objects = append(objects, l.deployment)
	}
	if l.service != nil {
		objects = append(objects, l.service)
	}
	return objects
}

// owner is whose an object is.
type owner int

const (
	// ours: this AppService's.
	ours owner = iota
	// predecessors: of an AppService of this hub that had the namespace and name before. There is at most one at a time, so
	// it is this one's inheritance: of one that was deleted and made again, or of a hub that was restored or rebuilt.
	predecessors
	// strangers: no Fleetwright's. The conflict policy decides.
	strangers
	// anotherHubs: never to be touched.
	anotherHubs
)

// ownerOf returns whose an object of the AppService's name is, and says it for people where it is not this AppService's.
func (r *reconciler) ownerOf(app *v1alpha1.AppService, object client.Object) (owner, string) {
	annotations := object.GetAnnotations()
	hub, uid := annotations[v1alpha1.AnnotationHub], annotations[v1alpha1.AnnotationUID]
	switch { // by our own annotations: others set the common label as well
	case hub == "":
		return strangers, "it is managed by " + managerOf(object)
	case hub != r.hubID:
		return anotherHubs, fmt.Sprintf("it belongs to hub %q", hub)
	case uid != string(app.UID) && object.GetLabels()[v1alpha1.LabelAppService] != object.GetName():
		return strangers, "it is a copy of another AppService's" // that one may still be there
	case uid != string(app.UID):
		return predecessors, fmt.Sprintf("it belongs to an AppService with UID %q", uid)
	}
	return ours, ""
}

// isOurs tells whether an object is this AppService's.
func (r *reconciler) isOurs(app *v1alpha1.AppService, object client.Object) bool {
	owner, _ := r.ownerOf(app, object)
	return owner == ours
}

// isInherited reports whether an object is this AppService's, or was left by a previous AppService of this name.
func (r *reconciler) isInherited(app *v1alpha1.AppService, object client.Object) bool {
	owner, _ := r.ownerOf(app, object)
	return owner == ours || owner == predecessors
}

// isOf tells whether an object is the AppService's of that UID of this hub.
func (r *reconciler) isOf(uid types.UID, object client.Object) bool {
	return r.isOurs(&v1alpha1.AppService{ObjectMeta: metav1.ObjectMeta{UID: uid}}, object)
}

// managerOf names who manages an object, as well as can be told.
func managerOf(object client.Object) string {
	if name := object.GetLabels()[v1alpha1.LabelManagedBy]; name != "" && name != v1alpha1.ManagedBy {
		return strconv.Quote(name)
	}
	if fields := object.GetManagedFields(); len(fields) > 0 {
		return strconv.Quote(fields[0].Manager)
	}
	return "somebody else"
}

// obstacle is why a member's objects must not be changed: a reason of the API, and more for people.
type obstacle struct {
	reason, message string
	// passes says that it goes by itself.
	passes bool
	// retry is when to look again; 0 for obstacleRetry.
	retry time.Duration
}

// Error lets an obstacle be returned from where it is met.
func (o *obstacle) Error() string { return o.message }

// after is when to look again.
func (o *obstacle) after() time.Duration { return cmp.Or(o.retry, obstacleRetry) }

// obstacles returns what stands in the way of bringing the objects in line, or nil.
func (r *reconciler) obstacles(app *v1alpha1.AppService, objects live) *obstacle {
	for _, object := range objects.all() {
		if _, isService := object.(*corev1.Service); isService && len(app.Spec.Ports) == 0 && !r.isInherited(app, object) {
			continue // it is not in the way of one that is not wanted
		}
		if obstacle := r.obstacleOf(app, object); obstacle != nil {
			return obstacle
		}
	}
	return nil
}

func (r *reconciler) obstacleOf(app *v1alpha1.AppService, object client.Object) *obstacle {
	owner, whose := r.ownerOf(app, object)
	switch {
	case owner == ours, owner == predecessors:
		return r.ahead(app, object)
	case owner == strangers && app.Spec.ConflictPolicy != v1alpha1.ConflictAdopt && app.Spec.ConflictPolicy != v1alpha1.ConflictAdoptIfIdentical:
		whose += "; spec.conflictPolicy can let it be adopted"
	case owner == strangers:
		return nil
	}
	return conflict(object, whose)
}

func conflict(object client.Object, whose string) *obstacle {
	return &obstacle{reason: v1alpha1.ReasonConflict, message: fmt.Sprintf("%s %s exists and is not this AppService's: %s", kindOf(object), object.GetName(), whose)}
}

// generationOf returns the generation that an object was applied for; 0 when it does not say.
func generationOf(object client.Object) int64 { return lineage.Of(object).Generation }

// apiVersions are those of the kinds that an AppService may have on a member.
var apiVersions = map[string]schema.GroupVersion{
	"Deployment": appsv1.SchemeGroupVersion, "Service": corev1.SchemeGroupVersion,
	"HorizontalPodAutoscaler": autoscalingv2.SchemeGroupVersion, "PodDisruptionBudget": policyv1.SchemeGroupVersion,
}

// setKind has a typed object say its kind, which reading leaves out.
func setKind(object client.Object) {
	kind := kindOf(object)
	object.GetObjectKind().SetGroupVersionKind(apiVersions[kind].WithKind(kind))
}

func kindOf(object client.Object) string {
	switch object.(type) {
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
