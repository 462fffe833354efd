package config_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fleetwright/fleetwright/internal/wait"
)

// autoscaler returns an autoscaler on the hub, as a user creates it.
func autoscaler(apiVersion, kind string, metrics ...autoscalingv2.MetricSpec) *autoscalingv2.HorizontalPodAutoscaler {
	return &autoscalingv2.HorizontalPodAutoscaler{
		ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: metav1.NamespaceDefault},
		Spec: autoscalingv2.HorizontalPodAutoscalerSpec{
			ScaleTargetRef: autoscalingv2.CrossVersionObjectReference{APIVersion: apiVersion, Kind: kind, Name: "web"},
			MaxReplicas:    3,
			Metrics:        metrics,
		},
	}
}

func TestAutoscalerPolicy(t *testing.T) {
	const ours = "fleetwright.dev/v1alpha1"
	for _, object := range buildKustomization(t, "admission") {
		if err := apply(t.Context(), object); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := hub.Delete(context.WithoutCancel(t.Context()), object); err != nil {
				t.Error(err)
			}
		})
	}
	cpu := autoscalingv2.MetricSpec{Type: autoscalingv2.ResourceMetricSourceType, Resource: &autoscalingv2.ResourceMetricSource{
		Name: corev1.ResourceCPU, Target: autoscalingv2.MetricTarget{Type: autoscalingv2.UtilizationMetricType, AverageUtilization: new(int32(80))}}}
	queue := autoscalingv2.MetricSpec{Type: autoscalingv2.ExternalMetricSourceType, External: &autoscalingv2.ExternalMetricSource{
		Metric: autoscalingv2.MetricIdentifier{Name: "queue"}, Target: autoscalingv2.MetricTarget{Type: autoscalingv2.AverageValueMetricType, AverageValue: resource.NewQuantity(1, resource.DecimalSI)}}}
	create := func(object client.Object) error { return hub.Create(t.Context(), object, client.DryRunAll) }

	// The API server takes a moment to enforce a new policy.
	wait.Eventually(t, func() error {
		if create(autoscaler(ours, "AppService", cpu)) == nil {
			return errors.New("an autoscaler that measures the pods of an AppService is accepted")
		}
		return nil
	})
	for name, object := range map[string]client.Object{
		"by CPU":                       autoscaler(ours, "AppService", cpu),
		"by CPU and an external queue": autoscaler(ours, "AppService", queue, cpu),
		"by the default metric":        autoscaler(ours, "AppService"),
		"by kubectl autoscale, in v1": &autoscalingv1.HorizontalPodAutoscaler{
			ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: metav1.NamespaceDefault},
			Spec: autoscalingv1.HorizontalPodAutoscalerSpec{
				ScaleTargetRef: autoscalingv1.CrossVersionObjectReference{APIVersion: ours, Kind: "AppService", Name: "web"}, MaxReplicas: 3},
		},
	} {
		t.Run(name+" is refused", func(t *testing.T) {
			if err := create(object); !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "spec.autoscaling") {
				t.Errorf("got error %v", err)
			}
		})
	}
	for name, object := range map[string]client.Object{
		"an AppService by an external queue": autoscaler(ours, "AppService", queue),
		"a Deployment by CPU":                autoscaler("apps/v1", "Deployment", cpu),
		"an AppService of another API group": autoscaler("example.com/v1", "AppService", cpu),
	} {
		t.Run(name+" is accepted", func(t *testing.T) {
			if err := create(object); err != nil {
				t.Error(err)
			}
		})
	}
}
