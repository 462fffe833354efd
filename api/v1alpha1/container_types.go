package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
)

// Why these types differ from those of a Pod, and why the schema refuses what a Pod is refused for:
// docs/decisions/ports-and-init-containers-have-types-of-their-own.md,
// docs/decisions/refuse-what-kubernetes-refuses.md.

// ContainerPort is a port that a container listens on, as in a Pod. Host ports are not supported.
type ContainerPort struct {
	// Name of the port. The targetPort of a Service port and the port of a probe can refer to it.
	// +optional
	// +kubebuilder:validation:MaxLength=15
	// +kubebuilder:validation:XValidation:rule="self.matches('^([a-z0-9]+-)*[a-z0-9]*[a-z][a-z0-9]*(-[a-z0-9]+)*$')",message="a container port's name must be at most 15 lower-case letters, digits and single '-', with at least one letter"
	Name string `json:"name,omitempty"`

	// ContainerPort is the number of the port.
	// +required
	// +kubebuilder:validation:XValidation:rule="self >= 1 && self <= 65535",message="containerPort must be from 1 to 65535"
	ContainerPort int32 `json:"containerPort"`

	// Protocol is TCP, UDP or SCTP.
	// +optional
	// +kubebuilder:default=TCP
	// +kubebuilder:validation:Enum=TCP;UDP;SCTP
	Protocol corev1.Protocol `json:"protocol,omitempty"`
}

// InitContainer is an init container of the pods, as in a Pod.
// Init containers run to completion, one after the other, before the main container starts.
// An init container with restartPolicy Always is a sidecar.
// A sidecar starts before the main container and keeps running.
//
// +kubebuilder:validation:XValidation:rule="has(self.restartPolicy) || !has(self.livenessProbe) && !has(self.readinessProbe) && !has(self.startupProbe) && !has(self.lifecycle)",message="only an init container with restartPolicy Always can have probes and a lifecycle: set restartPolicy, or remove them"
type InitContainer struct {
	// Name of the container. It must be unique among the containers of the pods.
	// +required
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",message="an init container's name must be lower-case letters, digits and '-', and start and end with a letter or digit"
	Name string `json:"name"`

	// Image is the container image, as in a Pod.
	// Only imageRegistry of an override changes it.
	// The image and imageTag of an override apply to the main container.
	// +required
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:XValidation:rule="self.matches('^[!-~]+$')",message="image must name a container image, such as registry.example/team/app:1.2, without spaces, control characters and letters that are not ASCII"
	Image string `json:"image"`

	// RestartPolicy Always makes the container a sidecar, which runs as long as the pod.
	// Without it, the container runs to completion once.
	// +optional
	// +kubebuilder:validation:Enum=Always
	RestartPolicy *corev1.ContainerRestartPolicy `json:"restartPolicy,omitempty"`

	// Command replaces the image's entrypoint, as in a Pod.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=256
	Command []string `json:"command,omitempty"`

	// Args replaces the arguments to the entrypoint, as in a Pod.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=256
	Args []string `json:"args,omitempty"`

	// Env is the container's environment, as in spec.env.
	// Values may contain $(cluster.name) and $(cluster.labels['KEY']).
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=512
	// +kubebuilder:validation:items:XValidation:rule="!has(self.valueFrom) || [has(self.valueFrom.configMapKeyRef), has(self.valueFrom.fieldRef), has(self.valueFrom.fileKeyRef), has(self.valueFrom.resourceFieldRef), has(self.valueFrom.secretKeyRef)].filter(x, x).size() == 1",message="valueFrom needs exactly one of configMapKeyRef, fieldRef, fileKeyRef, resourceFieldRef, secretKeyRef"
	// +kubebuilder:validation:items:XValidation:rule="!has(self.valueFrom) || !has(self.value) || self.value == ''",message="a variable has either value or valueFrom: remove one of them"
	Env []corev1.EnvVar `json:"env,omitempty"`

	// EnvFrom adds all keys of a ConfigMap or Secret to the environment, as in a Pod.
	// They must exist on the member.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:XValidation:rule="has(self.configMapRef) != has(self.secretRef)",message="envFrom needs exactly one of configMapRef, secretRef"
	EnvFrom []corev1.EnvFromSource `json:"envFrom,omitempty"`

	// Ports are the ports that the container listens on.
	// A Service port refers to a port of a sidecar by its name.
	// +optional
	// +listType=map
	// +listMapKey=containerPort
	// +listMapKey=protocol
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:XValidation:rule="self.all(p, !has(p.name) || self.exists_one(q, has(q.name) && q.name == p.name))",message="the names of a container's ports must be unique"
	Ports []ContainerPort `json:"ports,omitempty"`

	// Resources are the container's requests and limits, as in a Pod.
	// +optional
	Resources corev1.ResourceRequirements `json:"resources,omitzero"`

	// VolumeMounts are the paths at which the container mounts the volumes, as in a Pod.
	// +optional
	// +listType=map
	// +listMapKey=mountPath
	// +kubebuilder:validation:MaxItems=128
	VolumeMounts []corev1.VolumeMount `json:"volumeMounts,omitempty"`

	// LivenessProbe restarts a sidecar that fails it, as in a Pod.
	// +optional
	// +kubebuilder:validation:XValidation:rule="[has(self.exec), has(self.grpc), has(self.httpGet), has(self.tcpSocket)].filter(x, x).size() == 1",message="a probe needs exactly one of exec, grpc, httpGet, tcpSocket"
	// +kubebuilder:validation:XValidation:rule="!has(self.exec) || has(self.exec.command) && self.exec.command.size() > 0",message="a probe's exec needs a command"
	LivenessProbe *corev1.Probe `json:"livenessProbe,omitempty"`

	// ReadinessProbe makes the pod not ready while a sidecar fails it, as in a Pod.
	// +optional
	// +kubebuilder:validation:XValidation:rule="[has(self.exec), has(self.grpc), has(self.httpGet), has(self.tcpSocket)].filter(x, x).size() == 1",message="a probe needs exactly one of exec, grpc, httpGet, tcpSocket"
	// +kubebuilder:validation:XValidation:rule="!has(self.exec) || has(self.exec.command) && self.exec.command.size() > 0",message="a probe's exec needs a command"
	ReadinessProbe *corev1.Probe `json:"readinessProbe,omitempty"`

	// StartupProbe delays the next containers until the sidecar has started, as in a Pod.
	// +optional
	// +kubebuilder:validation:XValidation:rule="[has(self.exec), has(self.grpc), has(self.httpGet), has(self.tcpSocket)].filter(x, x).size() == 1",message="a probe needs exactly one of exec, grpc, httpGet, tcpSocket"
	// +kubebuilder:validation:XValidation:rule="!has(self.exec) || has(self.exec.command) && self.exec.command.size() > 0",message="a probe's exec needs a command"
	StartupProbe *corev1.Probe `json:"startupProbe,omitempty"`

	// Lifecycle defines actions after a sidecar starts and before it stops, as in a Pod.
	// +optional
	// +kubebuilder:validation:XValidation:rule="!has(self.postStart) || [has(self.postStart.exec), has(self.postStart.httpGet), has(self.postStart.sleep), has(self.postStart.tcpSocket)].filter(x, x).size() == 1",message="lifecycle.postStart needs exactly one of exec, httpGet, sleep, tcpSocket"
	// +kubebuilder:validation:XValidation:rule="!has(self.postStart) || !has(self.postStart.exec) || has(self.postStart.exec.command) && self.postStart.exec.command.size() > 0",message="lifecycle.postStart.exec needs a command"
	// +kubebuilder:validation:XValidation:rule="!has(self.preStop) || [has(self.preStop.exec), has(self.preStop.httpGet), has(self.preStop.sleep), has(self.preStop.tcpSocket)].filter(x, x).size() == 1",message="lifecycle.preStop needs exactly one of exec, httpGet, sleep, tcpSocket"
	// +kubebuilder:validation:XValidation:rule="!has(self.preStop) || !has(self.preStop.exec) || has(self.preStop.exec.command) && self.preStop.exec.command.size() > 0",message="lifecycle.preStop.exec needs a command"
	Lifecycle *corev1.Lifecycle `json:"lifecycle,omitempty"`

	// SecurityContext is the security context of the container, as in a Pod.
	// It has runAsNonRoot, capabilities and so on.
	// +optional
	SecurityContext *corev1.SecurityContext `json:"securityContext,omitempty"`
}

// IsSidecar reports whether the container runs beside the main container.
func (c *InitContainer) IsSidecar() bool { return c.RestartPolicy != nil }

// Deployment defines the metadata of the Deployment on each member.
type Deployment struct {
	// Labels are additional labels of the Deployment. Use spec.podLabels for the pods.
	// +optional
	// +kubebuilder:validation:MaxProperties=64
	// +kubebuilder:validation:XValidation:rule="self.all(k, k.size() <= 317 && !(k in ['app.kubernetes.io/name', 'app.kubernetes.io/managed-by']) && !k.startsWith('fleetwright.dev/'))",message="deployment.labels must not have the keys app.kubernetes.io/name, app.kubernetes.io/managed-by or fleetwright.dev/…, which Fleetwright sets: use other keys"
	Labels map[string]string `json:"labels,omitempty"`

	// Annotations of the Deployment.
	// Values may contain $(cluster.name) and $(cluster.labels['KEY']).
	// Use spec.podAnnotations for the pods.
	// +optional
	// +kubebuilder:validation:MaxProperties=64
	// +kubebuilder:validation:XValidation:rule="self.all(k, k.size() <= 317 && !k.startsWith('fleetwright.dev/') && !k.startsWith('deployment.kubernetes.io/') && k != 'kubectl.kubernetes.io/last-applied-configuration')",message="deployment.annotations must not have the keys fleetwright.dev/…, deployment.kubernetes.io/… or kubectl.kubernetes.io/last-applied-configuration, which Fleetwright, the Deployment controller and kubectl set: use other keys"
	Annotations map[string]string `json:"annotations,omitempty"`
}
