package workload

import (
	"cmp"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// applyDefaults sets the defaults of the API server in three cases. Everywhere else a default is
// left unset, so that no field is claimed for it.
//
//   - In a list or structure that server-side apply compares as a whole, a default would be a
//     difference forever: the apiVersion of a fieldRef. The keys of a list must be set as well.
//   - A structure that has a meaning when it is empty, such as a volume without items, is compared
//     as a whole too.
//   - A field that the API server keeps under an old name as well has no owner there, and would
//     bring back the field when it is removed.
func applyDefaults(object typedObject) {
	switch object := object.(type) {
	case *appsv1.Deployment:
		defaultPod(&object.Spec.Template.Spec)
	case *corev1.Service:
		for i := range object.Spec.Ports {
			port := &object.Spec.Ports[i]
			port.Protocol = cmp.Or(port.Protocol, corev1.ProtocolTCP)
			port.TargetPort = cmp.Or(port.TargetPort, intstr.FromInt32(port.Port)) // the type would say 0
		}
	}
}

func defaultPod(pod *corev1.PodSpec) {
	pod.DeprecatedServiceAccount = pod.ServiceAccountName
	for i := range pod.InitContainers {
		defaultContainer(&pod.InitContainers[i])
	}
	for i := range pod.Containers {
		defaultContainer(&pod.Containers[i])
	}
	for i := range pod.Volumes {
		defaultVolume(&pod.Volumes[i])
	}
}

func defaultContainer(container *corev1.Container) {
	for i := range container.Ports {
		port := &container.Ports[i]
		port.Protocol = cmp.Or(port.Protocol, corev1.ProtocolTCP)
	}
	for i := range container.Env {
		if from := container.Env[i].ValueFrom; from != nil {
			defaultFieldRef(from.FieldRef)
			if file := from.FileKeyRef; file != nil {
				file.Optional = cmp.Or(file.Optional, new(false))
			}
		}
	}
}

func defaultFieldRef(field *corev1.ObjectFieldSelector) {
	if field != nil {
		field.APIVersion = cmp.Or(field.APIVersion, "v1")
	}
}

func defaultVolume(volume *corev1.Volume) {
	if info := volume.DownwardAPI; info != nil {
		defaultFiles(info.Items)
		if len(info.Items) == 0 {
			info.DefaultMode = cmp.Or(info.DefaultMode, new(corev1.DownwardAPIVolumeSourceDefaultMode))
		}
	}
	if all := volume.Projected; all != nil {
		for _, source := range all.Sources {
			defaultProjection(source)
		}
		if len(all.Sources) == 0 {
			all.DefaultMode = cmp.Or(all.DefaultMode, new(corev1.ProjectedVolumeSourceDefaultMode))
		}
	}
}

func defaultProjection(source corev1.VolumeProjection) {
	if token := source.ServiceAccountToken; token != nil {
		token.ExpirationSeconds = cmp.Or(token.ExpirationSeconds, new(int64(3600)))
	}
	if source.DownwardAPI != nil {
		defaultFiles(source.DownwardAPI.Items)
	}
}

func defaultFiles(files []corev1.DownwardAPIVolumeFile) {
	for i := range files {
		defaultFieldRef(files[i].FieldRef)
	}
}
