package copies

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/fleetwright/fleetwright/controllers/workload"
)

// IsRequired reports whether no container of a pod starts without a copy. It is false for a Secret that
// only pulls images, because a node may have them already.
func IsRequired(pod *corev1.PodSpec, of Key) bool {
	isThis := func(kind workload.Kind, name string, isOptional *bool) bool {
		return of == Key{kind, name} && !ptr.Deref(isOptional, false)
	}
	isIn := func(configMap *corev1.ConfigMapProjection, secret *corev1.SecretProjection) bool {
		return configMap != nil && isThis(workload.ConfigMap, configMap.Name, configMap.Optional) ||
			secret != nil && isThis(workload.Secret, secret.Name, secret.Optional)
	}
	mounted := map[string]bool{}
	for _, container := range slices.Concat(pod.InitContainers, pod.Containers) {
		for _, from := range container.EnvFrom {
			if from.ConfigMapRef != nil && isThis(workload.ConfigMap, from.ConfigMapRef.Name, from.ConfigMapRef.Optional) ||
				from.SecretRef != nil && isThis(workload.Secret, from.SecretRef.Name, from.SecretRef.Optional) {
				return true
			}
		}
		for _, variable := range container.Env {
			if from := variable.ValueFrom; from != nil &&
				(from.ConfigMapKeyRef != nil && isThis(workload.ConfigMap, from.ConfigMapKeyRef.Name, from.ConfigMapKeyRef.Optional) ||
					from.SecretKeyRef != nil && isThis(workload.Secret, from.SecretKeyRef.Name, from.SecretKeyRef.Optional)) {
				return true
			}
		}
		for _, mount := range container.VolumeMounts {
			mounted[mount.Name] = true
		}
	}
	return slices.ContainsFunc(pod.Volumes, func(volume corev1.Volume) bool {
		switch {
		case !mounted[volume.Name]: // the kubelet ignores it
			return false
		case volume.ConfigMap != nil:
			return isThis(workload.ConfigMap, volume.ConfigMap.Name, volume.ConfigMap.Optional)
		case volume.Secret != nil:
			return isThis(workload.Secret, volume.Secret.SecretName, volume.Secret.Optional)
		case volume.Projected != nil:
			return slices.ContainsFunc(volume.Projected.Sources, func(source corev1.VolumeProjection) bool { return isIn(source.ConfigMap, source.Secret) })
		}
		return false
	})
}
