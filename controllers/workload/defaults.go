package workload

import (
	"cmp"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// fill says what the API server would fill in, in three cases; everywhere else it is left unsaid.
//
// Where server-side apply compares a list or a structure as one, what is filled in would be a difference for ever: the
// apiVersion of a fieldRef. The keys of a list have to be said as well.
//
// Where a structure would be empty that says something by being there, such as a volume of nothing: an empty one is compared as one, too.
//
// Where the API server keeps a field under an old name as well, that is nobody's, and would bring back the field when it is taken out.
func fill(object typedObject) {
	switch object := object.(type) {
	case *appsv1.Deployment:
		fillPod(&object.Spec.Template.Spec)
	case *corev1.Service:
		for i := range object.Spec.Ports {
			port := &object.Spec.Ports[i]
			port.Protocol = cmp.Or(port.Protocol, corev1.ProtocolTCP)
			port.TargetPort = cmp.Or(port.TargetPort, intstr.FromInt32(port.Port)) // the type would say 0
		}
	}
}

func fillPod(pod *corev1.PodSpec) {
	pod.DeprecatedServiceAccount = pod.ServiceAccountName
	for i := range pod.InitContainers {
		fillContainer(&pod.InitContainers[i])
	}
	for i := range pod.Containers {
		fillContainer(&pod.Containers[i])
	}
	for i := range pod.Volumes {
		fillVolume(&pod.Volumes[i])
	}
}

func fillContainer(container *corev1.Container) {
	for i := range container.Ports {
		port := &container.Ports[i]
		port.Protocol = cmp.Or(port.Protocol, corev1.ProtocolTCP)
	}
	for i := range container.Env {
		if from := container.Env[i].ValueFrom; from != nil {
			fillField(from.FieldRef)
			if file := from.FileKeyRef; file != nil {
				file.Optional = cmp.Or(file.Optional, new(false))
			}
		}
	}
}

func fillField(field *corev1.ObjectFieldSelector) {
	if field != nil {
		field.APIVersion = cmp.Or(field.APIVersion, "v1")
	}
}

func fillVolume(volume *corev1.Volume) {
	if info := volume.DownwardAPI; info != nil {
		fillFiles(info.Items)
		if len(info.Items) == 0 {
			info.DefaultMode = cmp.Or(info.DefaultMode, new(corev1.DownwardAPIVolumeSourceDefaultMode))
		}
	}
	if all := volume.Projected; all != nil {
		for _, source := range all.Sources {
			fillSource(source)
		}
		if len(all.Sources) == 0 {
			all.DefaultMode = cmp.Or(all.DefaultMode, new(corev1.ProjectedVolumeSourceDefaultMode))
		}
	}
}

func fillSource(source corev1.VolumeProjection) {
	if token := source.ServiceAccountToken; token != nil {
		token.ExpirationSeconds = cmp.Or(token.ExpirationSeconds, new(int64(3600)))
	}
	if source.DownwardAPI != nil {
		fillFiles(source.DownwardAPI.Items)
	}
}

func fillFiles(files []corev1.DownwardAPIVolumeFile) {
	for i := range files {
		fillField(files[i].FieldRef)
	}
}
