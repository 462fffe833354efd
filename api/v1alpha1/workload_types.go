package v1alpha1

import (
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// ServicePort is a port of a Service, as in the Service API.
type ServicePort struct {
	// Name of the port within the Service. It is required if there is more than one port.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",message="a port's name must be lower-case letters, digits and '-', and start and end with a letter or digit"
	Name string `json:"name,omitempty"`

	// Protocol is TCP, UDP or SCTP.
	// +optional
	// +kubebuilder:default=TCP
	// +kubebuilder:validation:Enum=TCP;UDP;SCTP
	Protocol corev1.Protocol `json:"protocol,omitempty"`

	// Port is the port of the Service.
	// +required
	// +kubebuilder:validation:XValidation:rule="self >= 1 && self <= 65535",message="port must be from 1 to 65535"
	Port int32 `json:"port"`

	// TargetPort is the port of the container, as a number or as a name.
	// The name refers to a port in containerPorts or in the ports of a sidecar.
	// It defaults to port.
	// +optional
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([a-z0-9-]{0,13}[a-z0-9])?$`
	TargetPort intstr.IntOrString `json:"targetPort,omitzero"`

	// NodePort is the port on each node of each member.
	// Each member defines the allowed range, usually 30000 to 32767.
	// +optional
	// +kubebuilder:validation:XValidation:rule="self >= 1 && self <= 65535",message="nodePort must be from 1 to 65535, and in the range of the members, usually 30000 to 32767"
	NodePort int32 `json:"nodePort,omitempty"`

	// AppProtocol is the application protocol of the port, as in the Service API.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	AppProtocol *string `json:"appProtocol,omitempty"`
}

// Service defines the type and the metadata of the Service on each member.
type Service struct {
	// Type of the Service.
	// It defaults to NodePort if a port has a nodePort, and to ClusterIP otherwise.
	// The entry of the cluster in status.clusters has the addresses of a LoadBalancer.
	// The cluster is not Ready until it has an address.
	// +optional
	// +kubebuilder:validation:Enum=ClusterIP;NodePort;LoadBalancer
	Type corev1.ServiceType `json:"type,omitempty"`

	// Labels are additional labels of the Service.
	// +optional
	// +kubebuilder:validation:MaxProperties=64
	// +kubebuilder:validation:XValidation:rule="self.all(k, k.size() <= 317 && !(k in ['app.kubernetes.io/name', 'app.kubernetes.io/managed-by']) && !k.startsWith('fleetwright.dev/'))",message="service.labels must not have the keys app.kubernetes.io/name, app.kubernetes.io/managed-by or fleetwright.dev/…, which Fleetwright sets: use other keys"
	Labels map[string]string `json:"labels,omitempty"`

	// Annotations of the Service, for example for the load balancer of a cloud.
	// Values may contain $(cluster.name) and $(cluster.labels['KEY']).
	// +optional
	// +kubebuilder:validation:MaxProperties=64
	// +kubebuilder:validation:XValidation:rule="self.all(k, k.size() <= 317 && !k.startsWith('fleetwright.dev/'))",message="service.annotations must not have keys fleetwright.dev/…, which Fleetwright sets: use other keys"
	Annotations map[string]string `json:"annotations,omitempty"`
}

// Volume is a volume of the pods, as in a Pod.
// It has one of the kinds that the restricted Pod Security Standard allows.
// Objects that it references must exist on the member.
//
// +kubebuilder:validation:XValidation:rule="[has(self.configMap), has(self.csi), has(self.downwardAPI), has(self.emptyDir), has(self.ephemeral), has(self.persistentVolumeClaim), has(self.projected), has(self.secret)].filter(x, x).size() == 1",message="a volume must have exactly one of configMap, csi, downwardAPI, emptyDir, ephemeral, persistentVolumeClaim, projected, secret: the restricted Pod Security Standard forbids other kinds, such as hostPath"
type Volume struct {
	// Name of the volume. The volumeMounts refer to it.
	// +required
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",message="a volume's name must be lower-case letters, digits and '-', and start and end with a letter or digit"
	Name string `json:"name"`

	// ConfigMap provides the keys of a ConfigMap as files.
	// +optional
	// +kubebuilder:validation:XValidation:rule="has(self.name) && self.name != ''",message="a volume's configMap needs the name of a ConfigMap"
	ConfigMap *corev1.ConfigMapVolumeSource `json:"configMap,omitempty"`
	// CSI is an ephemeral volume of a CSI driver.
	// +optional
	// +kubebuilder:validation:XValidation:rule="self.driver != ''",message="a volume's csi needs the name of a driver"
	// +kubebuilder:validation:XValidation:rule="!has(self.nodePublishSecretRef) || has(self.nodePublishSecretRef.name) && self.nodePublishSecretRef.name != ''",message="csi.nodePublishSecretRef needs the name of a Secret"
	CSI *corev1.CSIVolumeSource `json:"csi,omitempty"`
	// DownwardAPI provides fields of the pod as files.
	// +optional
	DownwardAPI *corev1.DownwardAPIVolumeSource `json:"downwardAPI,omitempty"`
	// EmptyDir is an empty directory that is deleted with the pod.
	// +optional
	EmptyDir *corev1.EmptyDirVolumeSource `json:"emptyDir,omitempty"`
	// Ephemeral is a PersistentVolumeClaim that is created and deleted with the pod.
	// +optional
	// +kubebuilder:validation:XValidation:rule="has(self.volumeClaimTemplate)",message="a volume's ephemeral needs a volumeClaimTemplate"
	// +kubebuilder:validation:XValidation:rule="!has(self.volumeClaimTemplate) || has(self.volumeClaimTemplate.spec.accessModes) && self.volumeClaimTemplate.spec.accessModes.size() > 0",message="ephemeral.volumeClaimTemplate.spec needs accessModes"
	// +kubebuilder:validation:XValidation:rule="!has(self.volumeClaimTemplate) || has(self.volumeClaimTemplate.spec.resources) && has(self.volumeClaimTemplate.spec.resources.requests) && 'storage' in self.volumeClaimTemplate.spec.resources.requests",message="ephemeral.volumeClaimTemplate.spec.resources.requests needs storage"
	Ephemeral *corev1.EphemeralVolumeSource `json:"ephemeral,omitempty"`
	// PersistentVolumeClaim is an existing claim on the member. All pods of the cluster share it.
	// +optional
	// +kubebuilder:validation:XValidation:rule="self.claimName != ''",message="a volume's persistentVolumeClaim needs a claimName"
	PersistentVolumeClaim *corev1.PersistentVolumeClaimVolumeSource `json:"persistentVolumeClaim,omitempty"`
	// Projected combines several sources in one directory.
	// +optional
	Projected *corev1.ProjectedVolumeSource `json:"projected,omitempty"`
	// Secret provides the keys of a Secret as files.
	// +optional
	// +kubebuilder:validation:XValidation:rule="has(self.secretName) && self.secretName != ''",message="a volume's secret needs a secretName"
	Secret *corev1.SecretVolumeSource `json:"secret,omitempty"`
}

// Autoscaling defines the HorizontalPodAutoscaler on each member, which then owns the replicas.
//
// +kubebuilder:validation:XValidation:rule="self.maxReplicas >= self.minReplicas",message="autoscaling.maxReplicas must be minReplicas or more"
type Autoscaling struct {
	// MinReplicas is the minimum for each cluster.
	// If replicaPolicy divides the replicas, it is the minimum for all clusters together.
	// A cluster whose share is zero runs no pods.
	// For a pod on every cluster, minReplicas must be at least the number of clusters.
	// +optional
	// +kubebuilder:default=1
	// +kubebuilder:validation:XValidation:rule="self >= 1",message="autoscaling.minReplicas must be one or more"
	MinReplicas *int32 `json:"minReplicas,omitempty"`

	// MaxReplicas is the maximum for each cluster.
	// If replicaPolicy divides the replicas, it is the maximum for all clusters together.
	// +required
	// +kubebuilder:validation:XValidation:rule="self >= 1",message="autoscaling.maxReplicas must be one or more"
	MaxReplicas int32 `json:"maxReplicas"`

	// Metrics are the metrics to scale by, as in a HorizontalPodAutoscaler.
	// They default to a CPU utilization of 80 % of the requests.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	Metrics []autoscalingv2.MetricSpec `json:"metrics,omitempty"`

	// Behavior defines how fast the autoscaler scales up and down, as in a HorizontalPodAutoscaler.
	// +optional
	// +kubebuilder:validation:XValidation:rule="!has(self.scaleUp) || !has(self.scaleUp.policies) || self.scaleUp.policies.size() > 0",message="autoscaling.behavior.scaleUp.policies needs at least one policy: add one, or remove policies"
	// +kubebuilder:validation:XValidation:rule="!has(self.scaleDown) || !has(self.scaleDown.policies) || self.scaleDown.policies.size() > 0",message="autoscaling.behavior.scaleDown.policies needs at least one policy: add one, or remove policies"
	Behavior *autoscalingv2.HorizontalPodAutoscalerBehavior `json:"behavior,omitempty"`
}

// DisruptionBudget defines the PodDisruptionBudget on each member, for the pods of that cluster.
//
// +kubebuilder:validation:XValidation:rule="has(self.minAvailable) != has(self.maxUnavailable)",message="disruptionBudget needs exactly one of minAvailable and maxUnavailable: set one of them"
type DisruptionBudget struct {
	// MinAvailable is the number or percentage of pods of a cluster that must stay available.
	// Set either minAvailable or maxUnavailable.
	// +optional
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:XValidation:rule="type(self) == int ? self >= 0 : self.matches('^(100|[0-9]{1,2})%$')",message="minAvailable must be a number of zero or more, or a percentage from 0% to 100%"
	MinAvailable *intstr.IntOrString `json:"minAvailable,omitempty"`

	// MaxUnavailable is the number or percentage of pods of a cluster that may be unavailable.
	// Set either maxUnavailable or minAvailable.
	// +optional
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:XValidation:rule="type(self) == int ? self >= 0 : self.matches('^(100|[0-9]{1,2})%$')",message="maxUnavailable must be a number of zero or more, or a percentage from 0% to 100%"
	MaxUnavailable *intstr.IntOrString `json:"maxUnavailable,omitempty"`

	// UnhealthyPodEvictionPolicy defines whether pods that are not ready may always be evicted.
	// It works as in a PodDisruptionBudget.
	// +optional
	// +kubebuilder:validation:Enum=IfHealthyBudget;AlwaysAllow
	UnhealthyPodEvictionPolicy *policyv1.UnhealthyPodEvictionPolicyType `json:"unhealthyPodEvictionPolicy,omitempty"`
}
