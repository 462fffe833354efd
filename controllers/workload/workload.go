// Package workload renders the objects of an AppService for one cluster: a Deployment; a Service if
// there are ports; a HorizontalPodAutoscaler and a PodDisruptionBudget if the AppService asks for
// them. It is pure, and rendering twice gives the same bytes.
//
//	desired, err := workload.Render(app, entry, member, hubID, copies)
//	if workload.IsInvalid(err) { … } // the spec is invalid for this cluster
//	desired, err = desired.KeepSelector(deployment, service) // if the Deployment may have been adopted
//
// Render works in this order:
//
//  1. The overrides that match the cluster change a copy of the spec.
//  2. Variables in the spec are replaced by their values.
//  3. The objects are rendered.
//  4. The patches of the overrides are applied to the objects, within limits.
//  5. The pod template refers to the copies of the ConfigMaps and Secrets that travel with the
//     AppService, by the names of the copies. Render knows only the names, never the content.
//  6. Each object gets the hash of its content.
//
// An object has exactly the fields that Fleetwright owns, for server-side apply: no status, no
// empty values, and no defaults of the API server except those that applyDefaults sets. All other
// fields on the member belong to others.
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

// Workload has the desired objects of one AppService on one cluster.
type Workload struct {
	Deployment *unstructured.Unstructured
	// Service is nil if the AppService has no ports.
	Service *unstructured.Unstructured
	// Autoscaler is a HorizontalPodAutoscaler; nil if the cluster gets none.
	Autoscaler *unstructured.Unstructured
	// DisruptionBudget is a PodDisruptionBudget; nil without spec.disruptionBudget.
	DisruptionBudget *unstructured.Unstructured
}

// Render returns the workload of an AppService for the member of the given entry, with the identity
// of the AppService and the hub. It leaves out the replicas of an autoscaled AppService. The copies
// are empty if nothing travels with the AppService. If [IsInvalid] reports true for the error, the
// spec is invalid for this cluster; any other error means that an object cannot be written as JSON.
func Render(app *v1alpha1.AppService, entry *v1alpha1.ClusterStatus, member *v1alpha1.MemberCluster, hub string, copies Copies) (Workload, error) {
	overrides, err := matching(app.Spec.Overrides, member)
	if err != nil {
		return Workload{}, err
	}
	own, err := forMember(app, overrides, member, copies)
	if err != nil {
		return Workload{}, err
	}
	rendered, err := render(own, entry, hub)
	if err != nil {
		return Workload{}, err
	}
	if err := rendered.patch(own, overrides); err != nil {
		return Workload{}, err
	}
	rendered.refer(copies)
	for _, object := range rendered.objects() {
		if err := setHash(object); err != nil {
			return Workload{}, err
		}
	}
	return rendered, nil
}

// render returns the objects before the patches, with their identity and without the hash.
func render(app *v1alpha1.AppService, entry *v1alpha1.ClusterStatus, hub string) (Workload, error) {
	var rendered Workload
	for _, object := range []struct {
		to    **unstructured.Unstructured
		typed typedObject
	}{
		{&rendered.Deployment, deployment(app, entry)},
		{&rendered.Service, service(app)},
		{&rendered.Autoscaler, autoscaler(app, entry)},
		{&rendered.DisruptionBudget, disruptionBudget(app)},
	} {
		if object.typed == nil {
			continue
		}
		marked, err := content(setIdentity(app, hub, object.typed))
		if err != nil {
			return Workload{}, err
		}
		*object.to = marked
	}
	if kinds := rendered.ownedKinds(); kinds != "" {
		annotate(rendered.Deployment, v1alpha1.AnnotationOwnedKinds, kinds)
	}
	return rendered, nil
}

// ownedKinds returns the kinds of the objects beside the Deployment and the Service, as the
// Deployment lists them.
func (w Workload) ownedKinds() string {
	var kinds []string
	for _, optional := range []*unstructured.Unstructured{w.Autoscaler, w.DisruptionBudget} {
		if optional != nil {
			kinds = append(kinds, optional.GetKind())
		}
	}
	return strings.Join(kinds, ",")
}

// objects returns the objects that are not nil.
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

// Selector returns the labels that select the pods of an AppService.
func Selector(name string) map[string]string {
	return map[string]string{v1alpha1.LabelAppService: name}
}

// labels returns the labels of every object and pod of the AppService.
func labels(app *v1alpha1.AppService) map[string]string { return Labels(app.Name) }

// Labels returns the labels of every object of the AppService with this name.
func Labels(name string) map[string]string {
	return map[string]string{
		labelName:                name,
		v1alpha1.LabelManagedBy:  v1alpha1.ManagedBy,
		v1alpha1.LabelAppService: name,
	}
}

const labelName = "app.kubernetes.io/name"

// setIdentity sets the name and the owner of an object, beside the labels and annotations that it
// has.
func setIdentity(app *v1alpha1.AppService, hub string, object typedObject) typedObject {
	object.SetNamespace(app.Namespace)
	object.SetName(app.Name)
	all := map[string]string{}
	maps.Copy(all, object.GetLabels())
	maps.Copy(all, labels(app)) // the object is found by them, so they win
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

// content converts an object to the fields that are applied: with the defaults that must be set,
// and without the fields that the type adds.
func content(typed typedObject) (*unstructured.Unstructured, error) {
	applyDefaults(typed)
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(typed)
	if err != nil {
		return nil, fmt.Errorf("render %s: %w", typed.GetObjectKind().GroupVersionKind().Kind, err)
	}
	delete(content, "status")
	prune(content)
	return &unstructured.Unstructured{Object: content}, nil
}

// setHash sets the hash of the content of an object.
func setHash(object *unstructured.Unstructured) error {
	hash, err := hashOf(object)
	if err != nil {
		return fmt.Errorf("render %s: %w", object.GetKind(), err)
	}
	annotate(object, v1alpha1.AnnotationHash, hash)
	return nil
}

// Stamp returns the object as it is applied for a generation of the AppService. The generation is
// not compared: a generation that changes nothing on a member costs no write.
func Stamp(object *unstructured.Unstructured, generation int64) *unstructured.Unstructured {
	stamped := object.DeepCopy()
	annotate(stamped, v1alpha1.AnnotationGeneration, strconv.FormatInt(generation, 10))
	return stamped
}

// WithReplicas returns a Deployment with the initial replicas of an autoscaled one. The hash stays
// as it is.
func WithReplicas(deployment *unstructured.Unstructured, replicas int32) *unstructured.Unstructured {
	initial := deployment.DeepCopy()
	_ = unstructured.SetNestedField(initial.Object, int64(replicas), "spec", "replicas") // a rendered one has a spec
	return initial
}

// WithoutReplicas returns a rendered Deployment as if the AppService were autoscaled.
func WithoutReplicas(deployment *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	left := deployment.DeepCopy()
	unstructured.RemoveNestedField(left.Object, "spec", "replicas")
	unstructured.RemoveNestedField(left.Object, "metadata", "annotations", v1alpha1.AnnotationHash)
	if err := setHash(left); err != nil {
		return nil, err
	}
	return left, nil
}

func annotate(object *unstructured.Unstructured, key, value string) {
	annotations := object.GetAnnotations()
	annotations[key] = value
	object.SetAnnotations(annotations)
}

// hashOf returns a hash of the content alone: encoding/json sorts the keys of maps.
func hashOf(object *unstructured.Unstructured) (string, error) {
	content, err := json.Marshal(object.Object)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:8]), nil
}
