package workload

import (
	"maps"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
)

// The kinds that are rendered.
var (
	deploymentKind = appsv1.SchemeGroupVersion.WithKind(string(v1alpha1.PatchDeployment))
	serviceKind    = corev1.SchemeGroupVersion.WithKind(string(v1alpha1.PatchService))
	autoscalerKind = autoscalingv2.SchemeGroupVersion.WithKind(string(v1alpha1.PatchHorizontalPodAutoscaler))
	budgetKind     = policyv1.SchemeGroupVersion.WithKind(string(v1alpha1.PatchPodDisruptionBudget))
)

func deployment(app *v1alpha1.AppService, entry *v1alpha1.ClusterStatus) typedObject {
	deployment := &appsv1.Deployment{
		Spec: appsv1.DeploymentSpec{
			Replicas:                replicas(app, entry),
			Selector:                &metav1.LabelSelector{MatchLabels: Selector(app.Name)},
			Template:                pod(app),
			Strategy:                *app.Spec.Strategy.DeepCopy(),
			ProgressDeadlineSeconds: app.Spec.ProgressDeadlineSeconds,
		},
	}
	if wanted := app.Spec.Deployment; wanted != nil {
		deployment.Labels, deployment.Annotations = maps.Clone(wanted.Labels), maps.Clone(wanted.Annotations)
	}
	deployment.SetGroupVersionKind(deploymentKind)
	return deployment
}

// replicas returns the desired replicas, or nil if an autoscaler sets them: that of the AppService or
// another one.
func replicas(app *v1alpha1.AppService, entry *v1alpha1.ClusterStatus) *int32 {
	if app.Spec.ExternallyScaled || makesAutoscaler(app, entry) {
		return nil
	}
	return &entry.Replicas
}

// makesAutoscaler reports whether the cluster gets an autoscaler. A cluster whose share is 0 gets
// none, because an autoscaler cannot scale to 0.
func makesAutoscaler(app *v1alpha1.AppService, entry *v1alpha1.ClusterStatus) bool {
	return app.Spec.Autoscaling != nil && entry.MaxReplicas > 0
}

// autoscaler returns the autoscaler that scales the Deployment between the bounds of the entry, or
// nil.
func autoscaler(app *v1alpha1.AppService, entry *v1alpha1.ClusterStatus) typedObject {
	if !makesAutoscaler(app, entry) {
		return nil
	}
	wanted := app.Spec.Autoscaling.DeepCopy()
	autoscaler := &autoscalingv2.HorizontalPodAutoscaler{Spec: autoscalingv2.HorizontalPodAutoscalerSpec{
		ScaleTargetRef: autoscalingv2.CrossVersionObjectReference{
			APIVersion: deploymentKind.GroupVersion().String(), Kind: deploymentKind.Kind, Name: app.Name,
		},
		MinReplicas: new(max(1, entry.MinReplicas)), // an autoscaler cannot scale to none
		MaxReplicas: entry.MaxReplicas,
		Metrics:     wanted.Metrics,
		Behavior:    wanted.Behavior,
	}}
	autoscaler.SetGroupVersionKind(autoscalerKind)
	return autoscaler
}

// disruptionBudget returns the disruption budget, or nil if the AppService asks for none.
func disruptionBudget(app *v1alpha1.AppService) typedObject {
	wanted := app.Spec.DisruptionBudget
	if wanted == nil {
		return nil
	}
	budget := &policyv1.PodDisruptionBudget{Spec: policyv1.PodDisruptionBudgetSpec{
		Selector:                   &metav1.LabelSelector{MatchLabels: Selector(app.Name)},
		MinAvailable:               wanted.MinAvailable,
		MaxUnavailable:             wanted.MaxUnavailable,
		UnhealthyPodEvictionPolicy: wanted.UnhealthyPodEvictionPolicy,
	}}
	budget.SetGroupVersionKind(budgetKind)
	return budget
}
