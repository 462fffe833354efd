package workload

import (
	"errors"
	"fmt"
	"maps"
	"reflect"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
)

// ErrNoLabels is the error for a selector of an adopted Deployment that no Service can use.
var ErrNoLabels = errors.New("the adopted Deployment's selector has no label of its pods, so no Service can select them: remove spec.ports, or delete the Deployment so that it is created again")

// HasOwnSelector reports whether a Deployment has another selector than the one that is rendered:
// it was adopted. A selector cannot be changed.
func HasOwnSelector(deployment *appsv1.Deployment) bool {
	return deployment != nil && deployment.Spec.Selector != nil &&
		!reflect.DeepEqual(deployment.Spec.Selector, &metav1.LabelSelector{MatchLabels: Selector(deployment.Name)})
}

// KeepSelector returns the workload for a cluster whose Deployment was adopted, with the selector
// of that Deployment. The Service, the disruption budget and the spread constraints use that
// selector, and the pods get no labels of Fleetwright, so that adoption does not change the pod
// template. The arguments are the objects on the member; nil if there is none.
//
// If the Service selects the pods by the labels of Fleetwright, the pods keep them: earlier
// versions added them.
// docs/decisions/adoption-restarts-no-pods.md says why.
func (w Workload) KeepSelector(deployment *appsv1.Deployment, service *corev1.Service) (Workload, error) {
	if !HasOwnSelector(deployment) {
		return w, nil
	}
	selector, err := runtime.DefaultUnstructuredConverter.ToUnstructured(deployment.Spec.Selector)
	if err != nil {
		return Workload{}, fmt.Errorf("read the selector of the Deployment: %w", err)
	}
	keepsLabels := selectsByFleetwrightLabel(deployment, service)
	w.Deployment = w.Deployment.DeepCopy()
	setMap(w.Deployment, selector, "spec", "selector")
	pods, _, _ := unstructured.NestedStringMap(w.Deployment.Object, "spec", "template", "metadata", "labels")
	if !keepsLabels {
		for label := range Labels(deployment.Name) {
			delete(pods, label)
		}
	}
	maps.Copy(pods, deployment.Spec.Selector.MatchLabels)
	setMap(w.Deployment, unstructuredOf(pods), "spec", "template", "metadata", "labels")
	if keepsLabels {
		return w, nil
	}
	return w.withSelector(deployment, selector)
}

// selectsByFleetwrightLabel reports whether the pods of an adopted Deployment have the label of
// Fleetwright, and no Service selects them by another label.
func selectsByFleetwrightLabel(deployment *appsv1.Deployment, service *corev1.Service) bool {
	return deployment.Spec.Template.Labels[v1alpha1.LabelAppService] == deployment.Name &&
		(service == nil || maps.Equal(service.Spec.Selector, Selector(deployment.Name)))
}

// withSelector sets the selector of the Deployment in every object that selects its pods.
func (w Workload) withSelector(deployment *appsv1.Deployment, selector map[string]any) (Workload, error) {
	constraints, _, _ := unstructured.NestedSlice(w.Deployment.Object, "spec", "template", "spec", "topologySpreadConstraints")
	for _, constraint := range constraints {
		constraint, isMap := constraint.(map[string]any)
		if isMap && reflect.DeepEqual(constraint["labelSelector"], map[string]any{"matchLabels": unstructuredOf(Selector(deployment.Name))}) {
			constraint["labelSelector"] = selector
		}
	}
	if len(constraints) > 0 {
		_ = unstructured.SetNestedSlice(w.Deployment.Object, constraints, "spec", "template", "spec", "topologySpreadConstraints")
	}
	if w.DisruptionBudget != nil {
		w.DisruptionBudget = w.DisruptionBudget.DeepCopy()
		setMap(w.DisruptionBudget, selector, "spec", "selector")
	}
	if w.Service != nil {
		podLabels := selectedLabels(deployment)
		if len(podLabels) == 0 {
			return Workload{}, ErrNoLabels
		}
		w.Service = w.Service.DeepCopy()
		setMap(w.Service, unstructuredOf(podLabels), "spec", "selector")
	}
	return w, nil
}

// selectedLabels returns the labels of the pods that the Deployment's selector names. A Service has
// no expressions.
func selectedLabels(deployment *appsv1.Deployment) map[string]string {
	selected := map[string]string{}
	maps.Copy(selected, deployment.Spec.Selector.MatchLabels)
	for _, expression := range deployment.Spec.Selector.MatchExpressions {
		if value, found := deployment.Spec.Template.Labels[expression.Key]; found {
			selected[expression.Key] = value
		}
	}
	return selected
}

func unstructuredOf(labels map[string]string) map[string]any {
	content := map[string]any{}
	for key, value := range labels {
		content[key] = value
	}
	return content
}

// setMap sets a map of a rendered object. The object has all fields on the path. An empty map
// claims no field.
func setMap(object *unstructured.Unstructured, value map[string]any, path ...string) {
	_ = unstructured.SetNestedMap(object.Object, value, path...)
	prune(object.Object)
}
