package workload_test

import (
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/workload"
)

// rendering are changes of an input that change the rendered workload. A change has no effect on an
// input that lacks its field.
var rendering = map[string]func(*input){
	"the entry's replicas": func(in *input) {
		if !in.makesAutoscaler() {
			in.entry.Replicas++
		}
	},
	"the entry's minReplicas": func(in *input) {
		if in.makesAutoscaler() {
			in.entry.MinReplicas++
		}
	},
	"the entry's maxReplicas": func(in *input) {
		if in.makesAutoscaler() {
			in.entry.MaxReplicas++
		}
	},
	"metadata.name":      func(in *input) { in.app.Name += "x" },
	"metadata.namespace": func(in *input) { in.app.Namespace += "x" },
	"metadata.uid":       func(in *input) { in.app.UID += "x" },
	"the hub":            func(in *input) { in.hub += "x" },

	"the name of a copy": func(in *input) {
		for _, secret := range in.app.Spec.ImagePullSecrets {
			reference := workload.Reference{Kind: workload.Secret, Name: secret.Name}
			if name, listed := in.copies[reference]; listed {
				in.copies[reference] = name + "x"
			}
		}
	},

	"spec.image":         func(in *input) { in.app.Spec.Overrides, in.app.Spec.Image = nil, in.app.Spec.Image+"x" },
	"spec.containerName": func(in *input) { in.app.Spec.ContainerName += "x" },
	"spec.command":       func(in *input) { in.app.Spec.Command = append(in.app.Spec.Command, "x") },
	"spec.args":          func(in *input) { in.app.Spec.Args = append(in.app.Spec.Args, "x") },
	"spec.env":           func(in *input) { in.app.Spec.Env = append(in.app.Spec.Env, corev1.EnvVar{Name: "X"}) },
	"spec.resources":     func(in *input) { in.app.Spec.Resources.Limits = quantities("example.com/x", "1") },
	"spec.ports": func(in *input) {
		in.app.Spec.Ports = append(in.app.Spec.Ports, v1alpha1.ServicePort{Name: "x", Port: 9999})
	},
	"spec.containerPorts": func(in *input) {
		in.app.Spec.ContainerPorts = append(in.app.Spec.ContainerPorts, v1alpha1.ContainerPort{ContainerPort: 9999})
	},
	"spec.initContainers": func(in *input) {
		in.app.Spec.InitContainers = append(in.app.Spec.InitContainers, v1alpha1.InitContainer{Name: "x", Image: "x"})
	},
	"spec.deployment": func(in *input) { in.app.Spec.Deployment = &v1alpha1.Deployment{Labels: map[string]string{"x": "x"}} },
	"spec.externallyScaled": func(in *input) {
		if in.app.Spec.Autoscaling == nil {
			in.app.Spec.ExternallyScaled = !in.app.Spec.ExternallyScaled
		}
	},
	"spec.envFrom": func(in *input) { in.app.Spec.EnvFrom = append(in.app.Spec.EnvFrom, corev1.EnvFromSource{Prefix: "X"}) },
	"spec.volumes": func(in *input) { in.app.Spec.Volumes = append(in.app.Spec.Volumes, v1alpha1.Volume{Name: "x"}) },
	"spec.volumeMounts": func(in *input) {
		in.app.Spec.VolumeMounts = append(in.app.Spec.VolumeMounts, corev1.VolumeMount{MountPath: "/x"})
	},
	"spec.livenessProbe":  func(in *input) { in.app.Spec.LivenessProbe = &corev1.Probe{TimeoutSeconds: 77} },
	"spec.readinessProbe": func(in *input) { in.app.Spec.ReadinessProbe = &corev1.Probe{TimeoutSeconds: 77} },
	"spec.startupProbe":   func(in *input) { in.app.Spec.StartupProbe = &corev1.Probe{TimeoutSeconds: 77} },
	"spec.lifecycle":      func(in *input) { in.app.Spec.Lifecycle = &corev1.Lifecycle{StopSignal: new(corev1.SIGUSR1)} },
	"spec.securityContext": func(in *input) {
		in.app.Spec.SecurityContext = &corev1.SecurityContext{RunAsUser: new(int64(77))}
	},
	"spec.podSecurityContext": func(in *input) {
		in.app.Spec.PodSecurityContext = &corev1.PodSecurityContext{RunAsUser: new(int64(77))}
	},
	"spec.serviceAccountName": func(in *input) { in.app.Spec.ServiceAccountName += "x" },
	"spec.imagePullSecrets": func(in *input) {
		in.app.Spec.ImagePullSecrets = append(in.app.Spec.ImagePullSecrets, corev1.LocalObjectReference{Name: "x"})
	},
	"spec.podLabels":      func(in *input) { in.app.Spec.PodLabels = map[string]string{"x": "x"} },
	"spec.podAnnotations": func(in *input) { in.app.Spec.PodAnnotations = map[string]string{"x": "x"} },
	"spec.nodeSelector":   func(in *input) { in.app.Spec.NodeSelector = map[string]string{"x": "x"} },
	"spec.tolerations": func(in *input) {
		in.app.Spec.Tolerations = append(in.app.Spec.Tolerations, corev1.Toleration{Key: "x"})
	},
	"spec.affinity": func(in *input) {
		in.app.Spec.Affinity = &corev1.Affinity{PodAffinity: &corev1.PodAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{TopologyKey: "x"}},
		}}
	},
	"spec.topologySpreadConstraints": func(in *input) {
		in.app.Spec.TopologySpreadConstraints = append(in.app.Spec.TopologySpreadConstraints, corev1.TopologySpreadConstraint{TopologyKey: "x"})
	},
	"spec.priorityClassName":             func(in *input) { in.app.Spec.PriorityClassName += "x" },
	"spec.terminationGracePeriodSeconds": func(in *input) { in.app.Spec.TerminationGracePeriodSeconds = new(int64(77)) },
	"spec.strategy":                      func(in *input) { in.app.Spec.Strategy = appsv1.DeploymentStrategy{Type: "x"} },
	"spec.progressDeadlineSeconds":       func(in *input) { in.app.Spec.ProgressDeadlineSeconds = new(int32(77)) },
	"spec.service":                       onService(func(service *v1alpha1.Service) { service.Type = "x" }),
	"spec.autoscaling": func(in *input) {
		in.app.Spec.Autoscaling = nil
		if in.entry.MaxReplicas == 0 {
			in.app.Spec.Autoscaling = &v1alpha1.Autoscaling{MaxReplicas: 3}
			in.entry.MaxReplicas = 3
		}
	},
	"spec.disruptionBudget": onBudget(func(budget *v1alpha1.DisruptionBudget) { budget.MinAvailable = new(intstr.FromInt32(77)) }),
	"spec.overrides":        func(in *input) { in.override(v1alpha1.Override{Image: "changed:x"}) },

	"a port's name":        onPort(func(port *v1alpha1.ServicePort) { port.Name += "x" }),
	"a port's port":        onPort(func(port *v1alpha1.ServicePort) { port.Port += 1000 }),
	"a port's targetPort":  onPort(func(port *v1alpha1.ServicePort) { port.TargetPort = intstr.FromInt32(9999) }),
	"a port's protocol":    onPort(func(port *v1alpha1.ServicePort) { port.Protocol = corev1.ProtocolSCTP }),
	"a port's nodePort":    onPort(func(port *v1alpha1.ServicePort) { port.NodePort++ }),
	"a port's appProtocol": onPort(func(port *v1alpha1.ServicePort) { port.AppProtocol = new("x") }),

	"service.type":        onService(func(service *v1alpha1.Service) { service.Type = "x" }),
	"service.labels":      onService(func(service *v1alpha1.Service) { service.Labels = map[string]string{"x": "x"} }),
	"service.annotations": onService(func(service *v1alpha1.Service) { service.Annotations = map[string]string{"x": "x"} }),

	"deployment.labels": func(in *input) { in.app.Spec.Deployment = &v1alpha1.Deployment{Labels: map[string]string{"x": "x"}} },
	"deployment.annotations": func(in *input) {
		in.app.Spec.Deployment = &v1alpha1.Deployment{Annotations: map[string]string{"x": "x"}}
	},

	"a container port's name":          onContainerPort(func(p *v1alpha1.ContainerPort) { p.Name += "x" }),
	"a container port's containerPort": onContainerPort(func(p *v1alpha1.ContainerPort) { p.ContainerPort = 9999 }),
	"a container port's protocol":      onContainerPort(func(p *v1alpha1.ContainerPort) { p.Protocol = corev1.ProtocolSCTP }),

	"an init container's name":           onInit(func(c *v1alpha1.InitContainer) { c.Name += "x" }),
	"an init container's image":          onInit(func(c *v1alpha1.InitContainer) { c.Image += "x" }),
	"an init container's restartPolicy":  onInit(func(c *v1alpha1.InitContainer) { c.RestartPolicy = new(corev1.ContainerRestartPolicy("x")) }),
	"an init container's command":        onInit(func(c *v1alpha1.InitContainer) { c.Command = []string{"x"} }),
	"an init container's args":           onInit(func(c *v1alpha1.InitContainer) { c.Args = []string{"x"} }),
	"an init container's env":            onInit(func(c *v1alpha1.InitContainer) { c.Env = []corev1.EnvVar{{Name: "X"}} }),
	"an init container's envFrom":        onInit(func(c *v1alpha1.InitContainer) { c.EnvFrom = []corev1.EnvFromSource{{Prefix: "X"}} }),
	"an init container's ports":          onInit(func(c *v1alpha1.InitContainer) { c.Ports = []v1alpha1.ContainerPort{{ContainerPort: 9999}} }),
	"an init container's resources":      onInit(func(c *v1alpha1.InitContainer) { c.Resources.Limits = quantities("x", "1") }),
	"an init container's volumeMounts":   onInit(func(c *v1alpha1.InitContainer) { c.VolumeMounts = []corev1.VolumeMount{{MountPath: "/x"}} }),
	"an init container's livenessProbe":  onInit(func(c *v1alpha1.InitContainer) { c.LivenessProbe = &corev1.Probe{TimeoutSeconds: 77} }),
	"an init container's readinessProbe": onInit(func(c *v1alpha1.InitContainer) { c.ReadinessProbe = &corev1.Probe{TimeoutSeconds: 77} }),
	"an init container's startupProbe":   onInit(func(c *v1alpha1.InitContainer) { c.StartupProbe = &corev1.Probe{TimeoutSeconds: 77} }),
	"an init container's lifecycle":      onInit(func(c *v1alpha1.InitContainer) { c.Lifecycle = &corev1.Lifecycle{StopSignal: new(corev1.SIGUSR1)} }),
	"an init container's securityContext": onInit(func(c *v1alpha1.InitContainer) {
		c.SecurityContext = &corev1.SecurityContext{RunAsUser: new(int64(77))}
	}),

	"a volume's name":        onVolume(func(volume *v1alpha1.Volume) { volume.Name += "x" }),
	"a volume's configMap":   onVolume(func(v *v1alpha1.Volume) { v.ConfigMap = &corev1.ConfigMapVolumeSource{Optional: new(false)} }),
	"a volume's csi":         onVolume(func(v *v1alpha1.Volume) { v.CSI = &corev1.CSIVolumeSource{Driver: "x"} }),
	"a volume's downwardAPI": onVolume(func(v *v1alpha1.Volume) { v.DownwardAPI = &corev1.DownwardAPIVolumeSource{DefaultMode: new(int32(77))} }),
	"a volume's emptyDir":    onVolume(func(v *v1alpha1.Volume) { v.EmptyDir = &corev1.EmptyDirVolumeSource{Medium: "x"} }),
	"a volume's ephemeral": onVolume(func(v *v1alpha1.Volume) {
		v.Ephemeral = &corev1.EphemeralVolumeSource{VolumeClaimTemplate: &corev1.PersistentVolumeClaimTemplate{Spec: corev1.PersistentVolumeClaimSpec{VolumeName: "x"}}}
	}),
	"a volume's persistentVolumeClaim": onVolume(func(v *v1alpha1.Volume) {
		v.PersistentVolumeClaim = &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "x"}
	}),
	"a volume's projected": onVolume(func(v *v1alpha1.Volume) { v.Projected = &corev1.ProjectedVolumeSource{DefaultMode: new(int32(77))} }),
	"a volume's secret":    onVolume(func(v *v1alpha1.Volume) { v.Secret = &corev1.SecretVolumeSource{SecretName: "x"} }),

	"autoscaling.metrics": onAutoscaling(func(a *v1alpha1.Autoscaling) { a.Metrics = []autoscalingv2.MetricSpec{{Type: "x"}} }),
	"autoscaling.behavior": onAutoscaling(func(a *v1alpha1.Autoscaling) {
		a.Behavior = &autoscalingv2.HorizontalPodAutoscalerBehavior{ScaleUp: &autoscalingv2.HPAScalingRules{StabilizationWindowSeconds: new(int32(77))}}
	}),

	"disruptionBudget.minAvailable":   onBudget(func(b *v1alpha1.DisruptionBudget) { b.MinAvailable = new(intstr.FromInt32(77)) }),
	"disruptionBudget.maxUnavailable": onBudget(func(b *v1alpha1.DisruptionBudget) { b.MaxUnavailable = new(intstr.FromInt32(77)) }),
	"disruptionBudget.unhealthyPodEvictionPolicy": onBudget(func(b *v1alpha1.DisruptionBudget) {
		b.UnhealthyPodEvictionPolicy = new(policyv1.AlwaysAllow)
	}),

	"an override's clusterNames": func(in *input) {
		in.override(v1alpha1.Override{ClusterMatch: v1alpha1.ClusterMatch{ClusterNames: []string{in.member.Name}}, Image: "changed:x"})
	},
	"an override's clusterSelector": func(in *input) {
		selector := &v1alpha1.ClusterSelector{MatchLabels: in.member.Labels}
		in.override(v1alpha1.Override{ClusterMatch: v1alpha1.ClusterMatch{ClusterSelector: selector}, Image: "changed:x"})
	},
	"an override's image":         func(in *input) { in.override(v1alpha1.Override{Image: "changed:x"}) },
	"an override's imageRegistry": func(in *input) { in.override(v1alpha1.Override{ImageRegistry: "x.example"}) },
	"an override's imageTag":      func(in *input) { in.override(v1alpha1.Override{ImageTag: "x"}) },
	"an override's env":           func(in *input) { in.override(v1alpha1.Override{Env: []corev1.EnvVar{{Name: "X"}}}) },
	"an override's resources": func(in *input) {
		in.override(v1alpha1.Override{Resources: &v1alpha1.ResourceOverride{Limits: quantities("x", "1")}})
	},
	"an override's resources.requests": func(in *input) {
		in.override(v1alpha1.Override{Resources: &v1alpha1.ResourceOverride{Requests: quantities("x", "1")}})
	},
	"an override's resources.limits": func(in *input) {
		in.override(v1alpha1.Override{Resources: &v1alpha1.ResourceOverride{Limits: quantities("x", "1")}})
	},
	"an override's serviceType": func(in *input) {
		if len(in.app.Spec.Ports) > 0 {
			in.override(v1alpha1.Override{ServiceType: "x"})
		}
	},
	"an override's patches":         patched,
	"a patch's operations":          patched,
	"a label that a variable names": onLabel,
	"the name of the member":        onName,
}

func patched(in *input) {
	in.override(v1alpha1.Override{Patches: []v1alpha1.Patch{{Target: v1alpha1.PatchDeployment, Operations: []v1alpha1.PatchOperation{
		{Op: "add", Path: "/spec/paused", Value: &v1alpha1.JSON{Raw: []byte("true")}},
	}}}})
}

// onLabel and onName change the value of a variable.

func onLabel(in *input) {
	if in.app.Spec.PodAnnotations["a"] == "$(cluster.labels['region'])" {
		in.member.Labels["region"] += "x"
	}
}

func onName(in *input) {
	if in.app.Spec.PodAnnotations["a"] == "$(cluster.name)" {
		in.member.Name += "x"
	}
}

// override appends an override.
func (in *input) override(override v1alpha1.Override) {
	override.Name = "x"
	in.app.Spec.Overrides = append(in.app.Spec.Overrides, override)
}

func (in *input) makesAutoscaler() bool {
	return in.app.Spec.Autoscaling != nil && in.entry.MaxReplicas > 0
}

func onOverride(change func(*v1alpha1.Override)) func(*input) {
	return func(in *input) {
		if len(in.app.Spec.Overrides) > 0 {
			change(&in.app.Spec.Overrides[0])
		}
	}
}

func onContainerPort(change func(*v1alpha1.ContainerPort)) func(*input) {
	return func(in *input) {
		if len(in.app.Spec.ContainerPorts) > 0 {
			change(&in.app.Spec.ContainerPorts[0])
		}
	}
}

func onInit(change func(*v1alpha1.InitContainer)) func(*input) {
	return func(in *input) {
		if len(in.app.Spec.InitContainers) > 0 {
			change(&in.app.Spec.InitContainers[0])
		}
	}
}

func onVolume(change func(*v1alpha1.Volume)) func(*input) {
	return func(in *input) {
		if len(in.app.Spec.Volumes) > 0 {
			change(&in.app.Spec.Volumes[0])
		}
	}
}

func onService(change func(*v1alpha1.Service)) func(*input) {
	return func(in *input) {
		if len(in.app.Spec.Ports) == 0 {
			return
		}
		if in.app.Spec.Service == nil {
			in.app.Spec.Service = &v1alpha1.Service{}
		}
		change(in.app.Spec.Service)
	}
}

func onAutoscaling(change func(*v1alpha1.Autoscaling)) func(*input) {
	return func(in *input) {
		if in.makesAutoscaler() {
			change(in.app.Spec.Autoscaling)
		}
	}
}

func onBudget(change func(*v1alpha1.DisruptionBudget)) func(*input) {
	return func(in *input) {
		if in.app.Spec.DisruptionBudget == nil {
			in.app.Spec.DisruptionBudget = &v1alpha1.DisruptionBudget{}
		}
		change(in.app.Spec.DisruptionBudget)
	}
}
