package workload

import (
	"cmp"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
)

// containerName is the name of the one container of the pods.
const containerName = "app"

func deployment(app *v1alpha1.AppService, row *v1alpha1.ClusterStatus) runtime.Object {
	deployment := &appsv1.Deployment{
		Spec: appsv1.DeploymentSpec{
			Replicas: replicas(app, row),
			Selector: &metav1.LabelSelector{MatchLabels: Selector(app.Name)},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels(app)},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{container(app)}},
			},
		},
	}
	deployment.SetGroupVersionKind(deploymentKind)
	return deployment
}

// replicas is nil where they are left to an autoscaler.
func replicas(app *v1alpha1.AppService, row *v1alpha1.ClusterStatus) *int32 {
	if app.Spec.Autoscaled {
		return nil
	}
	return &row.Replicas
}

func container(app *v1alpha1.AppService) corev1.Container {
	container := corev1.Container{
		Name:      containerName,
		Image:     app.Spec.Image,
		Command:   app.Spec.Command,
		Args:      app.Spec.Args,
		Env:       env(app.Spec.Env),
		Resources: app.Spec.Resources,
	}
	for _, port := range app.Spec.Ports {
		container.Ports = appendPort(container.Ports, port)
	}
	return container
}

// env is the environment with what the API server would fill in where that is part of a whole that is compared as one.
func env(variables []corev1.EnvVar) []corev1.EnvVar {
	filled := slices.Clone(variables)
	for i := range filled {
		if from := filled[i].ValueFrom; from != nil && from.FieldRef != nil && from.FieldRef.APIVersion == "" {
			filled[i].ValueFrom = from.DeepCopy()
			filled[i].ValueFrom.FieldRef.APIVersion = "v1"
		}
	}
	return filled
}

// appendPort adds the container's side of a port of the Service. Two ports of a Service may lead to one port
// of the container, which can be listed only once.
func appendPort(ports []corev1.ContainerPort, port v1alpha1.ServicePort) []corev1.ContainerPort {
	listen := corev1.ContainerPort{ContainerPort: targetPort(port), Protocol: protocol(port)}
	if slices.Contains(ports, listen) {
		return ports
	}
	return append(ports, listen)
}

func service(app *v1alpha1.AppService) runtime.Object {
	service := &corev1.Service{Spec: corev1.ServiceSpec{
		Type:     corev1.ServiceTypeClusterIP,
		Selector: Selector(app.Name),
	}}
	for _, port := range app.Spec.Ports {
		if port.NodePort != 0 {
			service.Spec.Type = corev1.ServiceTypeNodePort
		}
		service.Spec.Ports = append(service.Spec.Ports, corev1.ServicePort{
			Name:        port.Name,
			Protocol:    protocol(port),
			Port:        port.Port,
			TargetPort:  intstr.FromInt32(targetPort(port)),
			NodePort:    port.NodePort,
			AppProtocol: port.AppProtocol,
		})
	}
	service.SetGroupVersionKind(serviceKind)
	return service
}

// protocol and targetPort are the port's own, or what the API server would fill in: both are keys of lists,
// which server-side apply needs to be said.
func protocol(port v1alpha1.ServicePort) corev1.Protocol {
	return cmp.Or(port.Protocol, corev1.ProtocolTCP)
}

func targetPort(port v1alpha1.ServicePort) int32 {
	return cmp.Or(port.TargetPort, port.Port)
}
