// Package workload renders what an AppService is on one cluster: a Deployment; when it has ports, a Service; and, when it
// asks for them, a HorizontalPodAutoscaler and a PodDisruptionBudget. It is pure, and rendering twice gives the same bytes.
//
// In the order in which it is done: the overrides that match the cluster change a copy of the spec; the variables in it get their
// values; the objects are rendered; the patches of the overrides are applied to them, within limits; the result is hashed.
//
// An object holds exactly the fields that Fleetwright owns, as server-side apply wants them: no status, nothing empty, nothing that the
// member's API server fills in, but for three cases, which defaults.go is about. Everything else on the member belongs to others.
package workload

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
)

// Workload is what one cluster shall hold for one AppService.
type Workload struct {
	Deployment *unstructured.Unstructured
	// Service is nil when the AppService has no ports.
	Service *unstructured.Unstructured
	// Autoscaler is a HorizontalPodAutoscaler; nil where spec.autoscaling makes none.
	Autoscaler *unstructured.Unstructured
	// DisruptionBudget is a PodDisruptionBudget; nil without spec.disruptionBudget.
	DisruptionBudget *unstructured.Unstructured
}

// Render returns the workload of an AppService for the member of the given row, marked as owned by that
// AppService of that hub. The replicas of one that is autoscaled are left out. An error that [IsInvalid] is one of what the AppService
// says for this cluster; any other means that it cannot be expressed as JSON.
func Render(app *v1alpha1.AppService, row *v1alpha1.ClusterStatus, member *v1alpha1.MemberCluster, hub string) (Workload, error) {
	overrides, err := matching(app.Spec.Overrides, member)
	if err != nil {
		return Workload{}, err
	}
	own, err := forMember(app, overrides, member)
	if err != nil {
		return Workload{}, err
	}
	rendered, err := render(own, row, hub)
	if err != nil {
		return Workload{}, err
	}
	if err := rendered.patch(own, overrides); err != nil {
		return Workload{}, err
	}
	for _, object := range rendered.objects() {
		if err := seal(object); err != nil {
			return Workload{}, err
		}
	}
	return rendered, nil
}

// render returns the objects as the patches find them: marked, and without the hash.
func render(app *v1alpha1.AppService, row *v1alpha1.ClusterStatus, hub string) (Workload, error) {
	var rendered Workload
	for _, object := range []struct {
		to    **unstructured.Unstructured
		typed typedObject
	}{
		{&rendered.Deployment, deployment(app, row)},
		{&rendered.Service, service(app)},
		{&rendered.Autoscaler, autoscaler(app, row)},
		{&rendered.DisruptionBudget, disruptionBudget(app)},
	} {
		if object.typed == nil {
			continue
		}
		marked, err := content(mark(app, hub, object.typed))
		if err != nil {
			return Workload{}, err
		}
		*object.to = marked
	}
	if parts := rendered.parts(); parts != "" {
		annotate(rendered.Deployment, v1alpha1.AnnotationOwnedKinds, parts)
	}
	return rendered, nil
}

// parts are the kinds of what there is beside a Deployment and a Service, as the Deployment has them on record.
func (w Workload) parts() string {
	var kinds []string
	for _, part := range []*unstructured.Unstructured{w.Autoscaler, w.DisruptionBudget} {
		if part != nil {
			kinds = append(kinds, part.GetKind())
		}
	}
	return strings.Join(kinds, ",")
}

// objects are those that there are.
func (w Workload) objects() []*unstructured.Unstructured {
	var all []*unstructured.Unstructured
	for _, object := range []*unstructured.Unstructured{w.Deployment, w.Service, w.Autoscaler, w.DisruptionBudget} {
		if object != nil {
			all = append(all, object)
		}
	}
	return all
}

// typedObject is an object in the types of its API.
type typedObject interface {
	runtime.Object
	metav1.Object
}

// Selector returns the labels that choose the pods of an AppService.
func Selector(name string) map[string]string {
	return map[string]string{v1alpha1.LabelAppService: name}
}

// labels are those of every object and pod of the AppService.
func labels(app *v1alpha1.AppService) map[string]string { return labelsOf(app.Name) }

func labelsOf(name string) map[string]string {
	return map[string]string{
		labelName:                name,
		v1alpha1.LabelManagedBy:  v1alpha1.ManagedBy,
		v1alpha1.LabelAppService: name,
	}
}

const labelName = "app.kubernetes.io/name"

// mark gives an object its name and its owner, beside the labels and annotations that it has.
func mark(app *v1alpha1.AppService, hub string, object typedObject) typedObject {
	object.SetNamespace(app.Namespace)
	object.SetName(app.Name)
	all := map[string]string{}
	maps.Copy(all, object.GetLabels())
	maps.Copy(all, labels(app)) // by which it is found, so they win
	object.SetLabels(all)
	annotations := maps.Clone(object.GetAnnotations())
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[v1alpha1.AnnotationHub] = hub
	annotations[v1alpha1.AnnotationUID] = string(app.UID)
	object.SetAnnotations(annotations)
	return object
}

// content turns an object into what is applied: with what has to be said of the defaults, and without what the type adds by itself.
func content(typed typedObject) (*unstructured.Unstructured, error) {
	fill(typed)
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(typed)
	if err != nil {
		return nil, fmt.Errorf("render %s: %w", typed.GetObjectKind().GroupVersionKind().Kind, err)
	}
	delete(content, "status")
	prune(content)
	return &unstructured.Unstructured{Object: content}, nil
}

// seal adds the hash of all that an object holds.
func seal(object *unstructured.Unstructured) error {
	hash, err := hashOf(object)
	if err != nil {
		return fmt.Errorf("render %s: %w", object.GetKind(), err)
	}
	annotate(object, v1alpha1.AnnotationHash, hash)
	return nil
}

// Stamp returns the object as it is sent for a generation of the AppService. The generation is no part of
// what is compared: a generation that changes nothing on a member costs it no write.
func Stamp(object *unstructured.Unstructured, generation int64) *unstructured.Unstructured {
	stamped := object.DeepCopy()
	annotate(stamped, v1alpha1.AnnotationGeneration, strconv.FormatInt(generation, 10))
	return stamped
}

// WithReplicas returns a Deployment with that many replicas, marked as it was: what an autoscaled one begins with.
func WithReplicas(deployment *unstructured.Unstructured, replicas int32) *unstructured.Unstructured {
	begun := deployment.DeepCopy()
	_ = unstructured.SetNestedField(begun.Object, int64(replicas), "spec", "replicas") // a rendered one has a spec
	return begun
}

// WithoutReplicas returns a rendered Deployment as if the AppService was autoscaled.
func WithoutReplicas(deployment *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	left := deployment.DeepCopy()
	unstructured.RemoveNestedField(left.Object, "spec", "replicas")
	unstructured.RemoveNestedField(left.Object, "metadata", "annotations", v1alpha1.AnnotationHash)
	if err := seal(left); err != nil {
		return nil, err
	}
	return left, nil
}

func annotate(object *unstructured.Unstructured, key, value string) {
	annotations := object.GetAnnotations()
	annotations[key] = value
	object.SetAnnotations(annotations)
}

// hashOf depends on the content alone: encoding/json sorts the keys of maps.
func hashOf(object *unstructured.Unstructured) (string, error) {
	content, err := json.Marshal(object.Object)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:8]), nil
}
