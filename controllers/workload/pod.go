package workload

import (
	"cmp"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
)

// defaultContainerName is the name of the main container of an AppService without
// spec.containerName.
const defaultContainerName = "app"

// pod returns the pod template. It shares nothing with the AppService, because defaults are set in
// it later.
func pod(app *v1alpha1.AppService) corev1.PodTemplateSpec {
	spec := app.Spec.DeepCopy()
	return corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: podLabels(app), Annotations: spec.PodAnnotations},
		Spec: corev1.PodSpec{
			InitContainers:                initContainers(spec.InitContainers),
			Containers:                    []corev1.Container{container(spec)},
			Volumes:                       volumes(spec.Volumes),
			SecurityContext:               spec.PodSecurityContext,
			ServiceAccountName:            spec.ServiceAccountName,
			ImagePullSecrets:              spec.ImagePullSecrets,
			NodeSelector:                  spec.NodeSelector,
			Tolerations:                   spec.Tolerations,
			Affinity:                      spec.Affinity,
			TopologySpreadConstraints:     spread(spec.TopologySpreadConstraints, app.Name),
			PriorityClassName:             spec.PriorityClassName,
			TerminationGracePeriodSeconds: spec.TerminationGracePeriodSeconds,
		},
	}
}

// podLabels returns the labels of the AppService and those of Fleetwright, which select the pods and
// therefore win.
func podLabels(app *v1alpha1.AppService) map[string]string {
	all := map[string]string{}
	maps.Copy(all, app.Spec.PodLabels)
	maps.Copy(all, labels(app))
	return all
}

func container(spec *v1alpha1.AppServiceSpec) corev1.Container {
	container := corev1.Container{
		Name:            cmp.Or(spec.ContainerName, defaultContainerName),
		Image:           spec.Image,
		Command:         spec.Command,
		Args:            spec.Args,
		Env:             spec.Env,
		EnvFrom:         spec.EnvFrom,
		Resources:       spec.Resources,
		VolumeMounts:    spec.VolumeMounts,
		LivenessProbe:   spec.LivenessProbe,
		ReadinessProbe:  spec.ReadinessProbe,
		StartupProbe:    spec.StartupProbe,
		Lifecycle:       spec.Lifecycle,
		SecurityContext: spec.SecurityContext,
	}
	if spec.ContainerPorts != nil {
		container.Ports = containerPorts(spec.ContainerPorts)
		return container
	}
	for _, port := range spec.Ports {
		container.Ports = appendPort(container.Ports, port, spec.InitContainers)
	}
	return container
}

func containerPorts(wanted []v1alpha1.ContainerPort) []corev1.ContainerPort {
	var ports []corev1.ContainerPort
	for _, port := range wanted {
		ports = append(ports, corev1.ContainerPort{Name: port.Name, ContainerPort: port.ContainerPort, Protocol: port.Protocol})
	}
	return ports
}

// appendPort appends the container port of a port of the Service, unless it belongs to a sidecar.
// Two ports of a Service may lead to one container port, which can be listed only once.
func appendPort(ports []corev1.ContainerPort, port v1alpha1.ServicePort, initContainers []v1alpha1.InitContainer) []corev1.ContainerPort {
	target := targetPort(port)
	listen := corev1.ContainerPort{ContainerPort: target.IntVal, Protocol: protocol(port)}
	isSidecars := slices.ContainsFunc(initContainers, func(c v1alpha1.InitContainer) bool {
		return c.IsSidecar() && slices.ContainsFunc(c.Ports, func(p v1alpha1.ContainerPort) bool {
			return p.ContainerPort == listen.ContainerPort && cmp.Or(p.Protocol, corev1.ProtocolTCP) == listen.Protocol
		})
	})
	if target.Type == intstr.String || isSidecars || slices.Contains(ports, listen) {
		return ports
	}
	return append(ports, listen)
}

// initContainers returns the init containers. They share the values of the spec, which is a copy
// already.
func initContainers(wanted []v1alpha1.InitContainer) []corev1.Container {
	var containers []corev1.Container
	for _, init := range wanted {
		containers = append(containers, corev1.Container{
			Name:            init.Name,
			Image:           init.Image,
			RestartPolicy:   init.RestartPolicy,
			Command:         init.Command,
			Args:            init.Args,
			Env:             init.Env,
			EnvFrom:         init.EnvFrom,
			Ports:           containerPorts(init.Ports),
			Resources:       init.Resources,
			VolumeMounts:    init.VolumeMounts,
			LivenessProbe:   init.LivenessProbe,
			ReadinessProbe:  init.ReadinessProbe,
			StartupProbe:    init.StartupProbe,
			Lifecycle:       init.Lifecycle,
			SecurityContext: init.SecurityContext,
		})
	}
	return containers
}

func volumes(wanted []v1alpha1.Volume) []corev1.Volume {
	var volumes []corev1.Volume
	for _, volume := range wanted {
		volumes = append(volumes, corev1.Volume{Name: volume.Name, VolumeSource: corev1.VolumeSource{
			ConfigMap:             volume.ConfigMap,
			CSI:                   volume.CSI,
			DownwardAPI:           volume.DownwardAPI,
			EmptyDir:              volume.EmptyDir,
			Ephemeral:             volume.Ephemeral,
			PersistentVolumeClaim: volume.PersistentVolumeClaim,
			Projected:             volume.Projected,
			Secret:                volume.Secret,
		}})
	}
	return volumes
}

// spread sets the selector of topology spread constraints without one to the pods of the
// AppService. It changes its argument.
func spread(constraints []corev1.TopologySpreadConstraint, name string) []corev1.TopologySpreadConstraint {
	for i := range constraints {
		if constraints[i].LabelSelector == nil {
			constraints[i].LabelSelector = &metav1.LabelSelector{MatchLabels: Selector(name)}
		}
	}
	return constraints
}
