package main

import (
	"fmt"
	"maps"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/lineage"
	"github.com/fleetwright/fleetwright/controllers/workload"
)

// namespace is the namespace of all AppServices and their objects.
const namespace = "bench"

func newNamespace() *corev1.Namespace {
	object := &corev1.Namespace{}
	object.Name = namespace
	return object
}

// replicas is the number of replicas of a Deployment.
const replicas = 2

// app is an AppService, or its objects as the naked writer applies them.
type app struct {
	Name  string `json:"name"`
	Image string `json:"image"`
	// Settings is the ConfigMap of the hub that the pods read, or "". The naked writer has none.
	Settings string `json:"settings,omitempty"`
}

// batch returns AppServices with numbered names.
func batch(prefix string, n int) []app {
	apps := make([]app, 0, n)
	for i := range n {
		apps = append(apps, app{Name: fmt.Sprintf("%s-%03d", prefix, i), Image: image("1.0.0")})
	}
	return apps
}

func image(tag string) string { return "registry.example/team/web:" + tag }

// withImage returns the same AppServices with another image.
func withImage(apps []app, to string) []app {
	edited := make([]app, 0, len(apps))
	for _, a := range apps {
		edited = append(edited, app{Name: a.Name, Image: to})
	}
	return edited
}

func namesOf(apps []app) map[string]bool {
	names := map[string]bool{}
	for _, a := range apps {
		names[a.Name] = true
	}
	return names
}

// appService returns the AppService, on every member.
func (a app) appService() *v1alpha1.AppService {
	of := &v1alpha1.AppService{Spec: v1alpha1.AppServiceSpec{
		Image:    a.Image,
		Replicas: new(int32(replicas)),
		Ports:    []v1alpha1.ServicePort{{Name: "port-80", Port: 80, Protocol: corev1.ProtocolTCP}},
		Env:      []corev1.EnvVar{{Name: "MODE", Value: "production"}},
	}}
	of.Namespace, of.Name = namespace, a.Name
	a.configure(&of.Spec)
	return of
}

// configure makes the pods read the ConfigMap, if there is one.
func (a app) configure(s *v1alpha1.AppServiceSpec) {
	if a.Settings == "" {
		return
	}
	s.EnvFrom = []corev1.EnvFromSource{{ConfigMapRef: &corev1.ConfigMapEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: a.Settings}}}}
	s.Configuration = []v1alpha1.ConfigurationSource{{Kind: v1alpha1.ConfigurationConfigMap, Name: a.Settings}}
}

// settingsSize is the size of a ConfigMap.
const settingsSize = 4 << 10

// newSettings returns a ConfigMap of the hub with another content for each version.
func newSettings(name, version string) *corev1.ConfigMap {
	object := &corev1.ConfigMap{Data: map[string]string{"version": version, "filler": strings.Repeat("x", settingsSize)}}
	object.Namespace, object.Name = namespace, name
	object.Labels = map[string]string{v1alpha1.LabelPropagate: "true"}
	return object
}

// render returns the Deployment and the Service, as the operator applies them to a member.
func (a app) render() ([]*unstructured.Unstructured, error) {
	of := a.appService()
	of.UID = types.UID("7d9f3c52-4b1e-4a8e-9c36-0a1b2c3d4e5f") // these values are as long as real ones
	objects, err := workload.Render(of, &v1alpha1.ClusterStatus{Replicas: replicas}, &v1alpha1.MemberCluster{}, "8e0a4d63-5c2f-4b9f-8d47-1b2c3d4e5f60", nil)
	if err != nil {
		return nil, err
	}
	stamp := lineage.Stamp{UID: of.UID, Created: time.Now(), Generation: 1, SpecHash: "0123456789abcdef", Placement: 1}
	all := []*unstructured.Unstructured{objects.Deployment, objects.Service}
	for _, object := range all {
		annotations := object.GetAnnotations()
		maps.Copy(annotations, stamp.Annotations())
		if object.GetKind() == "Deployment" {
			annotations[v1alpha1.AnnotationRevision] = "1"
		}
		object.SetAnnotations(annotations)
	}
	return all, nil
}
