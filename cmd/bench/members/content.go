package main

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/workload"
	"github.com/fleetwright/fleetwright/internal/environment"
)

const (
	// apps is the number of AppServices of another hub on a cluster: a Deployment and a Service
	// each.
	apps = 20
	// namespace is their namespace.
	namespace = "bench"
	// anotherHub is the hub that owns them: the operator caches them and never changes them.
	anotherHub = "another-hub"
)

// fill creates the objects of a member on a cluster.
func fill(ctx context.Context, cluster environment.Cluster) error {
	api, err := environment.NewClient(cluster.Kubeconfig())
	if err != nil {
		return err
	}
	if err := api.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}); err != nil {
		return fmt.Errorf("create namespace %s in %s: %w", namespace, cluster.Name(), err)
	}
	for i := range apps {
		rendered, err := workload.Render(app(i), &v1alpha1.ClusterStatus{Replicas: 2}, &v1alpha1.MemberCluster{}, anotherHub, nil)
		if err != nil {
			return err
		}
		for _, object := range []*unstructured.Unstructured{rendered.Deployment, rendered.Service} {
			stamped := client.ApplyConfigurationFromUnstructured(workload.Stamp(object, 1))
			if err := api.Apply(ctx, stamped, client.FieldOwner(v1alpha1.ManagedBy)); err != nil {
				return fmt.Errorf("apply %s %s in %s: %w", object.GetKind(), object.GetName(), cluster.Name(), err)
			}
		}
	}
	return nil
}

// app returns an AppService, which is the same on every cluster.
func app(i int) *v1alpha1.AppService {
	name, uid := fmt.Sprintf("app-%02d", i), types.UID(fmt.Sprintf("7d9f3c52-4b1e-4a8e-9c36-0a1b2c3d4e%02d", i))
	return &v1alpha1.AppService{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: uid},
		Spec: v1alpha1.AppServiceSpec{
			Image:    "registry.example/team/" + name + ":1.2.3",
			Replicas: ptr.To[int32](2),
			Env:      []corev1.EnvVar{{Name: "MODE", Value: "production"}},
			Ports:    []v1alpha1.ServicePort{{Name: "http", Port: 80}},
		},
	}
}
