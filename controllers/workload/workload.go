// Package workload renders what an AppService is on one cluster: a Deployment and, when it has ports, a
// Service. It is pure, and rendering twice gives the same bytes.
//
// An object holds exactly the fields that Fleetwright owns, as server-side apply wants them: no status, no
// nulls, nothing that the member's API server fills in. Everything else on the member belongs to others.
package workload

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
)

// Workload is what one cluster shall hold for one AppService.
type Workload struct {
	Deployment *unstructured.Unstructured
	// Service is nil when the AppService has no ports.
	Service *unstructured.Unstructured
}

// Render returns the workload of an AppService for the cluster of the given row, marked as owned by that
// AppService of that hub. The replicas of one that is autoscaled are left out. It fails only when the AppService cannot be
// expressed as JSON.
func Render(app *v1alpha1.AppService, row *v1alpha1.ClusterStatus, hub string) (Workload, error) {
	deployment, err := finish(app, hub, deployment(app, row))
	if err != nil {
		return Workload{}, fmt.Errorf("render Deployment: %w", err)
	}
	if len(app.Spec.Ports) == 0 {
		return Workload{Deployment: deployment}, nil
	}
	service, err := finish(app, hub, service(app))
	if err != nil {
		return Workload{}, fmt.Errorf("render Service: %w", err)
	}
	return Workload{Deployment: deployment, Service: service}, nil
}

// Selector returns the labels that choose the pods of an AppService.
func Selector(name string) map[string]string {
	return map[string]string{v1alpha1.LabelAppService: name}
}

// labels are those of every object and pod of the AppService.
func labels(app *v1alpha1.AppService) map[string]string {
	return map[string]string{
		"app.kubernetes.io/name": app.Name,
		v1alpha1.LabelManagedBy:  v1alpha1.ManagedBy,
		v1alpha1.LabelAppService: app.Name,
	}
}

// finish turns a typed object into what is applied: without what the type adds by itself, marked with its
// owner, and with the hash of all that.
func finish(app *v1alpha1.AppService, hub string, typed runtime.Object) (*unstructured.Unstructured, error) {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(typed)
	if err != nil {
		return nil, err
	}
	prune(content)
	object := &unstructured.Unstructured{Object: content}
	object.SetNamespace(app.Namespace)
	object.SetName(app.Name)
	object.SetLabels(labels(app))
	object.SetAnnotations(map[string]string{
		v1alpha1.AnnotationHub: hub,
		v1alpha1.AnnotationUID: string(app.UID),
	})
	hash, err := hashOf(object)
	if err != nil {
		return nil, err
	}
	annotate(object, v1alpha1.AnnotationHash, hash)
	return object, nil
}

// prune drops what a typed object brings along empty, so that it is not claimed.
func prune(content map[string]any) {
	delete(content, "status")
	dropEmpty(content, "spec", "strategy")
	containers, _, _ := unstructured.NestedFieldNoCopy(content, "spec", "template", "spec", "containers")
	list, _ := containers.([]any)
	for _, container := range list {
		dropEmpty(container.(map[string]any), "resources")
	}
}

func dropEmpty(content map[string]any, path ...string) {
	value, found, _ := unstructured.NestedFieldNoCopy(content, path...)
	if object, isMap := value.(map[string]any); found && isMap && len(object) == 0 {
		unstructured.RemoveNestedField(content, path...)
	}
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
	hash, err := hashOf(left)
	if err != nil {
		return nil, fmt.Errorf("render Deployment: %w", err)
	}
	annotate(left, v1alpha1.AnnotationHash, hash)
	return left, nil
}

// KeepSelector gives a rendered Deployment the selector of the one that exists, which cannot be changed: it differs from ours where
// that was adopted. Its pods get the labels for it beside ours.
func KeepSelector(deployment *unstructured.Unstructured, existing *metav1.LabelSelector) (*unstructured.Unstructured, error) {
	selector, err := runtime.DefaultUnstructuredConverter.ToUnstructured(existing)
	if err != nil {
		return nil, fmt.Errorf("read the selector of the Deployment: %w", err)
	}
	kept := deployment.DeepCopy()
	_ = unstructured.SetNestedMap(kept.Object, selector, "spec", "selector")
	pods, _, _ := unstructured.NestedStringMap(kept.Object, "spec", "template", "metadata", "labels")
	maps.Copy(pods, existing.MatchLabels)
	_ = unstructured.SetNestedStringMap(kept.Object, pods, "spec", "template", "metadata", "labels")
	return kept, nil
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

// kinds of what is rendered.
var (
	deploymentKind = schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "Deployment"}
	serviceKind    = schema.GroupVersionKind{Version: "v1", Kind: "Service"}
)
