package v1alpha1

import (
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// ServicePort is a port of a Service, as in the Service API.
type ServicePort struct {
	// Name of the port within the Service; needed when there is more than one.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",message="a port's name must be lower-case letters, digits and '-', beginning and ending with a letter or digit"
	Name string `json:"name,omitempty"`

	// Protocol is TCP, UDP or SCTP.
	// +optional
	// +kubebuilder:default=TCP
	// +kubebuilder:validation:Enum=TCP;UDP;SCTP
	Protocol corev1.Protocol `json:"protocol,omitempty"`

	// Port is where the Service listens, and how others on the member reach it.
	// +required
	// +kubebuilder:validation:XValidation:rule="self >= 1 && self <= 65535",message="port must be from 1 to 65535"
	Port int32 `json:"port"`

	// TargetPort is where the container listens: the number of a port, or the name of one of containerPorts or of a sidecar's ports; the same as port by default.
	// +optional
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([a-z0-9-]{0,13}[a-z0-9])?$`
	TargetPort intstr.IntOrString `json:"targetPort,omitzero"`

	// NodePort is where each node of each member listens too; the range is the member's own, usually 30000 to 32767.
	// +optional
	// +kubebuilder:validation:XValidation:rule="self >= 1 && self <= 65535",message="nodePort must be from 1 to 65535, and in the range of the members, usually 30000 to 32767"
	NodePort int32 `json:"nodePort,omitempty"`

	// AppProtocol says what is spoken on the port, as in the Service API.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	AppProtocol *string `json:"appProtocol,omitempty"`
}

// Service says more of the Service that each member gets.
type Service struct {
	// Type of the Service. Without it, it is NodePort when a port has a nodePort, else ClusterIP. The addresses that a LoadBalancer gets are in the cluster's row; until it has one, the cluster is not Ready.
	// +optional
	// +kubebuilder:validation:Enum=ClusterIP;NodePort;LoadBalancer
	Type corev1.ServiceType `json:"type,omitempty"`

	// Labels of the Service, beside Fleetwright's own.
	// +optional
	// +kubebuilder:validation:MaxProperties=64
	// +kubebuilder:validation:XValidation:rule="self.all(k, k.size() <= 317 && !(k in ['app.kubernetes.io/name', 'app.kubernetes.io/managed-by']) && !k.startsWith('fleetwright.dev/'))",message="service.labels must not hold app.kubernetes.io/name, app.kubernetes.io/managed-by or fleetwright.dev/…: those are Fleetwright's, take other keys"
	Labels map[string]string `json:"labels,omitempty"`

	// Annotations of the Service, such as those that a cloud's load balancer reads. Values may hold $(cluster.name) and $(cluster.labels['KEY']).
	// +optional
	// +kubebuilder:validation:MaxProperties=64
	// +kubebuilder:validation:XValidation:rule="self.all(k, k.size() <= 317 && !k.startsWith('fleetwright.dev/'))",message="service.annotations must not hold fleetwright.dev/…: those are Fleetwright's, take other keys"
	Annotations map[string]string `json:"annotations,omitempty"`
}

// Volume is a volume of the pods, as in a Pod, of one of the kinds that the restricted Pod Security Standard allows.
// What it refers to is the member's own.
//
// +kubebuilder:validation:XValidation:rule="[has(self.configMap), has(self.csi), has(self.downwardAPI), has(self.emptyDir), has(self.ephemeral), has(self.persistentVolumeClaim), has(self.projected), has(self.secret)].filter(x, x).size() == 1",message="a volume must have exactly one of configMap, csi, downwardAPI, emptyDir, ephemeral, persistentVolumeClaim, projected, secret; others, such as hostPath, the restricted Pod Security Standard forbids"
type Volume struct {
	// Name of the volume, by which volumeMounts speak of it.
	// +required
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",message="a volume's name must be lower-case letters, digits and '-', beginning and ending with a letter or digit"
	Name string `json:"name"`

	// ConfigMap holds the files of a ConfigMap.
	// +optional
	// +kubebuilder:validation:XValidation:rule="has(self.name) && self.name != ''",message="a volume's configMap needs the name of a ConfigMap"
	ConfigMap *corev1.ConfigMapVolumeSource `json:"configMap,omitempty"`
	// CSI is storage that a CSI driver makes with the pod.
	// +optional
	// +kubebuilder:validation:XValidation:rule="self.driver != ''",message="a volume's csi needs the name of a driver"
	// +kubebuilder:validation:XValidation:rule="!has(self.nodePublishSecretRef) || has(self.nodePublishSecretRef.name) && self.nodePublishSecretRef.name != ''",message="csi.nodePublishSecretRef needs the name of a Secret"
	CSI *corev1.CSIVolumeSource `json:"csi,omitempty"`
	// DownwardAPI holds what the pod knows of itself.
	// +optional
	DownwardAPI *corev1.DownwardAPIVolumeSource `json:"downwardAPI,omitempty"`
	// EmptyDir begins empty, and ends with the pod.
	// +optional
	EmptyDir *corev1.EmptyDirVolumeSource `json:"emptyDir,omitempty"`
	// Ephemeral is a PersistentVolumeClaim that is made with the pod, and ends with it.
	// +optional
	// +kubebuilder:validation:XValidation:rule="has(self.volumeClaimTemplate)",message="a volume's ephemeral needs a volumeClaimTemplate"
	// +kubebuilder:validation:XValidation:rule="!has(self.volumeClaimTemplate) || has(self.volumeClaimTemplate.spec.accessModes) && self.volumeClaimTemplate.spec.accessModes.size() > 0",message="ephemeral.volumeClaimTemplate.spec needs accessModes"
	// +kubebuilder:validation:XValidation:rule="!has(self.volumeClaimTemplate) || has(self.volumeClaimTemplate.spec.resources) && has(self.volumeClaimTemplate.spec.resources.requests) && 'storage' in self.volumeClaimTemplate.spec.resources.requests",message="ephemeral.volumeClaimTemplate.spec.resources.requests needs storage"
	Ephemeral *corev1.EphemeralVolumeSource `json:"ephemeral,omitempty"`
	// PersistentVolumeClaim is a claim that exists on the member. All pods of the cluster share it.
	// +optional
	// +kubebuilder:validation:XValidation:rule="self.claimName != ''",message="a volume's persistentVolumeClaim needs a claimName"
	PersistentVolumeClaim *corev1.PersistentVolumeClaimVolumeSource `json:"persistentVolumeClaim,omitempty"`
	// Projected puts several sources into one directory.
	// +optional
	Projected *corev1.ProjectedVolumeSource `json:"projected,omitempty"`
	// Secret holds the files of a Secret.
	// +optional
	// +kubebuilder:validation:XValidation:rule="has(self.secretName) && self.secretName != ''",message="a volume's secret needs a secretName"
	Secret *corev1.SecretVolumeSource `json:"secret,omitempty"`
}

// Autoscaling is the HorizontalPodAutoscaler that each member gets. The replicas are then its own.
//
// +kubebuilder:validation:XValidation:rule="self.maxReplicas >= self.minReplicas",message="autoscaling.maxReplicas must be minReplicas or more"
type Autoscaling struct {
	// MinReplicas is the least: of each cluster, or of all of them together where replicaPolicy divides. A cluster whose share is none runs none.
	// So that all run some, it must be at least as many as there are clusters.
	// +optional
	// +kubebuilder:default=1
	// +kubebuilder:validation:XValidation:rule="self >= 1",message="autoscaling.minReplicas must be one or more"
	MinReplicas *int32 `json:"minReplicas,omitempty"`

	// MaxReplicas is the most: of each cluster, or of all of them together where replicaPolicy divides.
	// +required
	// +kubebuilder:validation:XValidation:rule="self >= 1",message="autoscaling.maxReplicas must be one or more"
	MaxReplicas int32 `json:"maxReplicas"`

	// Metrics are what the pods are scaled by, as in a HorizontalPodAutoscaler; without them, CPU at 80 % of what is requested.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	Metrics []autoscalingv2.MetricSpec `json:"metrics,omitempty"`

	// Behavior is how fast it scales, as in a HorizontalPodAutoscaler.
	// +optional
	// +kubebuilder:validation:XValidation:rule="!has(self.scaleUp) || !has(self.scaleUp.policies) || self.scaleUp.policies.size() > 0",message="autoscaling.behavior.scaleUp.policies needs at least one policy: add one, or leave policies out"
	// +kubebuilder:validation:XValidation:rule="!has(self.scaleDown) || !has(self.scaleDown.policies) || self.scaleDown.policies.size() > 0",message="autoscaling.behavior.scaleDown.policies needs at least one policy: add one, or leave policies out"
	Behavior *autoscalingv2.HorizontalPodAutoscalerBehavior `json:"behavior,omitempty"`
}

// DisruptionBudget is the PodDisruptionBudget that each member gets, for the pods of that cluster.
//
// +kubebuilder:validation:XValidation:rule="has(self.minAvailable) != has(self.maxUnavailable)",message="disruptionBudget needs either minAvailable or maxUnavailable: set one, and not both"
type DisruptionBudget struct {
	// MinAvailable is how many pods of a cluster must stay, a number or a percentage. Set it or maxUnavailable.
	// +optional
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:XValidation:rule="type(self) == int ? self >= 0 : self.matches('^(100|[0-9]{1,2})%$')",message="minAvailable must be a number of zero or more, or a percentage from 0% to 100%"
	MinAvailable *intstr.IntOrString `json:"minAvailable,omitempty"`

	// MaxUnavailable is how many pods of a cluster may be away, a number or a percentage. Set it or minAvailable.
	// +optional
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:XValidation:rule="type(self) == int ? self >= 0 : self.matches('^(100|[0-9]{1,2})%$')",message="maxUnavailable must be a number of zero or more, or a percentage from 0% to 100%"
	MaxUnavailable *intstr.IntOrString `json:"maxUnavailable,omitempty"`

	// UnhealthyPodEvictionPolicy says whether pods that are not ready may always be taken away, as in a PodDisruptionBudget.
	// +optional
	// +kubebuilder:validation:Enum=IfHealthyBudget;AlwaysAllow
	UnhealthyPodEvictionPolicy *policyv1.UnhealthyPodEvictionPolicyType `json:"unhealthyPodEvictionPolicy,omitempty"`
}
