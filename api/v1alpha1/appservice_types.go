package v1alpha1

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// AppService runs one workload on many clusters.
// On each cluster that its placement chooses, Fleetwright creates a Deployment.
// If the AppService has ports, it also creates a Service.
// With autoscaling it creates a HorizontalPodAutoscaler.
// With disruptionBudget it creates a PodDisruptionBudget.
// These objects have the namespace and the name of the AppService.
// status.clusters has an entry for each of these clusters.
//
// +genclient
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=appservices,singular=appservice,shortName=appsvc,categories={all,fleet}
// +kubebuilder:subresource:status
// +kubebuilder:subresource:scale:specpath=.spec.replicas,statuspath=.status.replicas,selectorpath=.status.selector
// +kubebuilder:printcolumn:name="Clusters",type=string,JSONPath=`.status.summary.display`,description="Ready clusters / clusters of the plan"
// +kubebuilder:printcolumn:name="Up-To-Date",type=string,JSONPath=`.status.summary.upToDate`,description="Clusters that have the latest revision / clusters of the plan"
// +kubebuilder:printcolumn:name="Pods",type=integer,JSONPath=`.status.summary.readyReplicas`,description="Ready pods on all clusters that can be observed"
// +kubebuilder:printcolumn:name="Status",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`,description="Why the AppService is ready or not"
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Available",type=integer,priority=1,JSONPath=`.status.availableReplicas`,description="Available pods on all clusters that can be observed"
// +kubebuilder:printcolumn:name="Image",type=string,priority=1,JSONPath=`.spec.image`
// +kubebuilder:printcolumn:name="Message",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Ready")].message`,description="Where the workload runs, or where it does not run and why"
// +kubebuilder:validation:XValidation:rule="self.metadata.name.size() <= 63 && self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')",message="metadata.name must be at most 63 lower-case letters, digits and '-', start with a letter, and end with a letter or digit, because each member gets a Service of this name"
type AppService struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitzero"`

	// Spec is the desired workload and its placement.
	// Fields that are as in a Pod have only the first sentence of each description inside of them.
	// See kubectl explain pod.spec for the rest.
	// +required
	Spec AppServiceSpec `json:"spec"`

	// Status is the observed state. Only Fleetwright writes it.
	// +optional
	// +kubebuilder:default={"observedGeneration":-1}
	Status AppServiceStatus `json:"status,omitzero"`
}

// AppServiceSpec describes the workload of each chosen cluster, and chooses the clusters.
// Its fields follow the Pod, Deployment and Service APIs.
//
// +kubebuilder:validation:XValidation:rule="!(has(self.autoscaling) && has(self.externallyScaled) && self.externallyScaled)",message="externallyScaled and autoscaling exclude each other: remove one of them"
// +kubebuilder:validation:XValidation:rule="!has(self.service) || has(self.ports) && self.ports.size() > 0",message="service needs ports, because there is no Service without ports: add ports, or remove service"
// +kubebuilder:validation:XValidation:rule="!has(self.service) || !has(self.service.type) || self.service.type != 'ClusterIP' || !has(self.ports) || self.ports.all(p, !has(p.nodePort))",message="service.type ClusterIP has no nodePort: remove the nodePorts, or set service.type to NodePort or LoadBalancer"
// +kubebuilder:validation:XValidation:rule="!has(self.replicaPolicy) || self.replicaPolicy.type != 'Divided' || !has(self.overrides) || self.overrides.all(o, !has(o.replicas))",message="an override cannot set replicas if replicaPolicy divides them: use minReplicas and maxReplicas of replicaPolicy.rules"
// +kubebuilder:validation:XValidation:rule="!has(self.autoscaling) || !has(self.overrides) || self.overrides.all(o, !has(o.replicas))",message="an override cannot set replicas with autoscaling: use autoscaling.minReplicas and maxReplicas, or replicaPolicy.rules for the bounds of some clusters"
// +kubebuilder:validation:XValidation:rule="!has(self.initContainers) || self.initContainers.all(c, c.name != (has(self.containerName) ? self.containerName : 'app'))",message="an init container must not have the name of the main container: change its name or containerName"
// +kubebuilder:validation:XValidation:rule="!has(self.ports) || self.ports.all(p, !has(p.targetPort) || type(p.targetPort) == int || has(self.containerPorts) && self.containerPorts.exists(c, has(c.name) && c.name == p.targetPort && c.protocol == p.protocol) || has(self.initContainers) && self.initContainers.exists(i, has(i.restartPolicy) && has(i.ports) && i.ports.exists(c, has(c.name) && c.name == p.targetPort && c.protocol == p.protocol)))",message="a targetPort must be a number, or the name of a port of the same protocol in containerPorts or in the ports of an init container with restartPolicy Always"
// +kubebuilder:validation:XValidation:rule="!has(self.rollout) || !has(self.rollout.progressDeadlineSeconds) || self.rollout.progressDeadlineSeconds > (has(self.progressDeadlineSeconds) ? self.progressDeadlineSeconds : 600)",message="rollout.progressDeadlineSeconds must be more than progressDeadlineSeconds (600 if it is not set): increase it, or lower progressDeadlineSeconds"
// +kubebuilder:validation:XValidation:rule="!has(self.rollout) || [has(self.rollout.minReadySeconds) ? self.rollout.minReadySeconds : 0].all(own, (has(self.rollout.stages) ? self.rollout.stages.map(s, has(s.minReadySeconds) ? s.minReadySeconds : own) : [own]).all(m, m < (has(self.rollout.progressDeadlineSeconds) ? self.rollout.progressDeadlineSeconds : (has(self.progressDeadlineSeconds) ? self.progressDeadlineSeconds : 600) + 300)))",message="rollout.progressDeadlineSeconds must be more than each minReadySeconds, because a cluster has to be available by then; by default, it is 300 more than progressDeadlineSeconds (900): increase it, or lower minReadySeconds"
// +kubebuilder:validation:XValidation:rule="(has(self.configuration) ? self.configuration.size() : 0) + (has(self.overrides) ? self.overrides.map(o, has(o.configuration) ? o.configuration.size() : 0).sum() : 0) <= 256",message="configuration and overrides[].configuration must have at most 256 items together: divide the AppService"
type AppServiceSpec struct {
	// Image is the container image, as in a Pod.
	// +required
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:XValidation:rule="self.matches('^[!-~]+$')",message="image must name a container image, such as registry.example/team/app:1.2, without spaces, control characters and letters that are not ASCII"
	Image string `json:"image"`

	// Replicas is the number of pods on each chosen cluster.
	// If replicaPolicy divides the replicas, it is the number on all clusters together.
	// Zero keeps the Deployment and the Service, without pods.
	// With autoscaling or externallyScaled, it is the initial number of pods of a cluster.
	// +optional
	// +kubebuilder:default=1
	// +kubebuilder:validation:XValidation:rule="self >= 0",message="replicas must be zero or more"
	Replicas *int32 `json:"replicas,omitempty"`

	// ReplicaPolicy defines whether each cluster runs all replicas, or the clusters divide them.
	// Without it, each cluster runs all replicas.
	// +optional
	ReplicaPolicy *ReplicaPolicy `json:"replicaPolicy,omitempty"`

	// Autoscaling creates a HorizontalPodAutoscaler on each member.
	// Its bounds apply to each cluster.
	// If replicaPolicy divides the replicas, the clusters divide the bounds too.
	// +optional
	Autoscaling *Autoscaling `json:"autoscaling,omitempty"`

	// ExternallyScaled declares that another controller scales the Deployments, such as KEDA.
	// Replicas is then the initial number of pods, and Fleetwright does not change it later.
	// Fleetwright detects a foreign HorizontalPodAutoscaler on a member without this field.
	// +optional
	ExternallyScaled bool `json:"externallyScaled,omitempty"`

	// ContainerName is the name of the container. It defaults to "app".
	// To adopt an existing Deployment, use the name of its container.
	// A change replaces the pods, like any change of the pod template.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",message="containerName must be lower-case letters, digits and '-', and start and end with a letter or digit"
	ContainerName string `json:"containerName,omitempty"`

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

	// Env is the container's environment, as in a Pod.
	// A ConfigMap or Secret that it references must exist on the member.
	// Values may contain $(cluster.name) and $(cluster.labels['KEY']).
	// They are replaced by the name and a label of the MemberCluster.
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

	// ContainerPorts are the ports that the container declares, as in a Pod.
	// Probes and targetPort can refer to them by name.
	// An empty list declares no port.
	// Without the field, the container declares the targetPort of each entry of ports.
	// +optional
	// +listType=map
	// +listMapKey=containerPort
	// +listMapKey=protocol
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:XValidation:rule="self.all(p, !has(p.name) || self.exists_one(q, has(q.name) && q.name == p.name))",message="the names of a container's ports must be unique"
	ContainerPorts []ContainerPort `json:"containerPorts,omitzero"`

	// Ports are the ports of the Service on each member. Without ports there is no Service.
	// The container listens on each targetPort.
	// If a port has a nodePort, the type of the Service is NodePort.
	// +optional
	// +listType=map
	// +listMapKey=port
	// +listMapKey=protocol
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:XValidation:rule="self.size() <= 1 || self.all(p, has(p.name) && p.name != '')",message="each port needs a name when there is more than one"
	// +kubebuilder:validation:XValidation:rule="self.all(p, !has(p.name) || self.exists_one(q, has(q.name) && q.name == p.name))",message="port names must be unique"
	// +kubebuilder:validation:XValidation:rule="self.all(p, !has(p.targetPort) || type(p.targetPort) != int || p.targetPort >= 1 && p.targetPort <= 65535)",message="each targetPort must be from 1 to 65535, or the name of a container's port"
	Ports []ServicePort `json:"ports,omitempty"`

	// Service defines the type, the labels and the annotations of the Service. It requires ports.
	// +optional
	Service *Service `json:"service,omitempty"`

	// Deployment defines the labels and annotations of the Deployment.
	// +optional
	Deployment *Deployment `json:"deployment,omitempty"`

	// InitContainers run before the main container, as in a Pod.
	// With restartPolicy Always they keep running beside it.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=16
	InitContainers []InitContainer `json:"initContainers,omitempty"`

	// Resources are the container's requests and limits, as in a Pod.
	// +optional
	Resources corev1.ResourceRequirements `json:"resources,omitzero"`

	// Volumes are the volumes that the containers can mount, as in a Pod.
	// Only the kinds that the restricted Pod Security Standard allows are supported.
	// Objects that they reference must exist on the member.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=64
	Volumes []Volume `json:"volumes,omitempty"`

	// VolumeMounts are the paths at which the container mounts the volumes, as in a Pod.
	// +optional
	// +listType=map
	// +listMapKey=mountPath
	// +kubebuilder:validation:MaxItems=128
	VolumeMounts []corev1.VolumeMount `json:"volumeMounts,omitempty"`

	// LivenessProbe restarts a container that fails it, as in a Pod.
	// +optional
	// +kubebuilder:validation:XValidation:rule="[has(self.exec), has(self.grpc), has(self.httpGet), has(self.tcpSocket)].filter(x, x).size() == 1",message="a probe needs exactly one of exec, grpc, httpGet, tcpSocket"
	// +kubebuilder:validation:XValidation:rule="!has(self.exec) || has(self.exec.command) && self.exec.command.size() > 0",message="a probe's exec needs a command"
	LivenessProbe *corev1.Probe `json:"livenessProbe,omitempty"`

	// ReadinessProbe removes a container that fails it from the Service's endpoints, as in a Pod.
	// A cluster is Ready when its pods are ready.
	// +optional
	// +kubebuilder:validation:XValidation:rule="[has(self.exec), has(self.grpc), has(self.httpGet), has(self.tcpSocket)].filter(x, x).size() == 1",message="a probe needs exactly one of exec, grpc, httpGet, tcpSocket"
	// +kubebuilder:validation:XValidation:rule="!has(self.exec) || has(self.exec.command) && self.exec.command.size() > 0",message="a probe's exec needs a command"
	ReadinessProbe *corev1.Probe `json:"readinessProbe,omitempty"`

	// StartupProbe delays the other probes until the container has started, as in a Pod.
	// +optional
	// +kubebuilder:validation:XValidation:rule="[has(self.exec), has(self.grpc), has(self.httpGet), has(self.tcpSocket)].filter(x, x).size() == 1",message="a probe needs exactly one of exec, grpc, httpGet, tcpSocket"
	// +kubebuilder:validation:XValidation:rule="!has(self.exec) || has(self.exec.command) && self.exec.command.size() > 0",message="a probe's exec needs a command"
	StartupProbe *corev1.Probe `json:"startupProbe,omitempty"`

	// Lifecycle defines actions after the container starts and before it stops, as in a Pod.
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

	// PodSecurityContext is the security context of the pods: spec.securityContext of a Pod.
	// +optional
	PodSecurityContext *corev1.PodSecurityContext `json:"podSecurityContext,omitempty"`

	// ServiceAccountName is the ServiceAccount of the pods.
	// It must exist on the member; Fleetwright does not create it. It defaults to "default".
	// +optional
	// +kubebuilder:validation:MaxLength=253
	ServiceAccountName string `json:"serviceAccountName,omitempty"`

	// ImagePullSecrets name the Secrets on the member that the image is pulled with, as in a Pod.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=16
	ImagePullSecrets []corev1.LocalObjectReference `json:"imagePullSecrets,omitempty"`

	// PodLabels are additional labels of the pods.
	// +optional
	// +kubebuilder:validation:MaxProperties=64
	// +kubebuilder:validation:XValidation:rule="self.all(k, k.size() <= 317 && !(k in ['app.kubernetes.io/name', 'app.kubernetes.io/managed-by']) && !k.startsWith('fleetwright.dev/'))",message="podLabels must not have the keys app.kubernetes.io/name, app.kubernetes.io/managed-by or fleetwright.dev/…, which Fleetwright sets: use other keys"
	PodLabels map[string]string `json:"podLabels,omitempty"`

	// PodAnnotations are annotations of the pods.
	// Values may contain $(cluster.name) and $(cluster.labels['KEY']).
	// +optional
	// +kubebuilder:validation:MaxProperties=64
	PodAnnotations map[string]string `json:"podAnnotations,omitempty"`

	// NodeSelector selects nodes by their labels, as in a Pod. Use placement to select clusters.
	// +optional
	// +kubebuilder:validation:MaxProperties=64
	NodeSelector map[string]string `json:"nodeSelector,omitempty"`

	// Tolerations allow the pods to run on nodes with taints, as in a Pod.
	// Use placement.tolerations for the taints of MemberClusters.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	Tolerations []corev1.Toleration `json:"tolerations,omitempty"`

	// Affinity constrains on which nodes and beside which other pods the pods run, as in a Pod.
	// +optional
	// +kubebuilder:validation:XValidation:rule="!has(self.nodeAffinity) || !has(self.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution) || self.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms.size() > 0",message="affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution needs at least one of nodeSelectorTerms: add a term, or remove the field to allow every node"
	Affinity *corev1.Affinity `json:"affinity,omitempty"`

	// TopologySpreadConstraints spread the pods over a cluster's nodes and zones, as in a Pod.
	// A constraint without a labelSelector applies to the pods of the AppService.
	// +optional
	// +listType=map
	// +listMapKey=topologyKey
	// +listMapKey=whenUnsatisfiable
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:XValidation:rule="self.maxSkew >= 1",message="maxSkew must be one or more"
	// +kubebuilder:validation:items:XValidation:rule="self.topologyKey != ''",message="topologyKey must name a label of nodes"
	// +kubebuilder:validation:items:XValidation:rule="self.whenUnsatisfiable in ['DoNotSchedule', 'ScheduleAnyway']",message="whenUnsatisfiable must be DoNotSchedule or ScheduleAnyway"
	TopologySpreadConstraints []corev1.TopologySpreadConstraint `json:"topologySpreadConstraints,omitempty"`

	// PriorityClassName is the PriorityClass of the pods.
	// It must exist on the member; Fleetwright does not create it.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	PriorityClassName string `json:"priorityClassName,omitempty"`

	// TerminationGracePeriodSeconds is the time that a pod has to stop, as in a Pod.
	// +optional
	// +kubebuilder:validation:XValidation:rule="self >= 0",message="terminationGracePeriodSeconds must be zero or more"
	TerminationGracePeriodSeconds *int64 `json:"terminationGracePeriodSeconds,omitempty"`

	// Strategy defines how new pods replace old pods, as in a Deployment.
	// +optional
	// +kubebuilder:validation:XValidation:rule="!has(self.type) || self.type in ['RollingUpdate', 'Recreate']",message="strategy.type must be RollingUpdate or Recreate"
	// +kubebuilder:validation:XValidation:rule="!has(self.type) || self.type != 'Recreate' || !has(self.rollingUpdate)",message="strategy.rollingUpdate needs strategy.type RollingUpdate: remove rollingUpdate, or change the type"
	// +kubebuilder:validation:XValidation:rule="!has(self.rollingUpdate) || !has(self.rollingUpdate.maxSurge) || !has(self.rollingUpdate.maxUnavailable) || !(self.rollingUpdate.maxSurge == 0 || self.rollingUpdate.maxSurge == '0%') || !(self.rollingUpdate.maxUnavailable == 0 || self.rollingUpdate.maxUnavailable == '0%')",message="strategy.rollingUpdate.maxSurge and maxUnavailable must not both be zero, because no pod could be replaced: increase one of them"
	Strategy appsv1.DeploymentStrategy `json:"strategy,omitzero"`

	// ProgressDeadlineSeconds is how long a rollout may make no progress, as in a Deployment.
	// After that, the cluster is Failed.
	// It takes effect at once on all clusters, because it changes no pod.
	// It defaults to 600.
	// +optional
	// +kubebuilder:validation:XValidation:rule="self >= 1",message="progressDeadlineSeconds must be one or more"
	ProgressDeadlineSeconds *int32 `json:"progressDeadlineSeconds,omitempty"`

	// DisruptionBudget limits how many pods of each cluster may be evicted at the same time.
	// It creates a PodDisruptionBudget on each member.
	// +optional
	DisruptionBudget *DisruptionBudget `json:"disruptionBudget,omitempty"`

	// Placement chooses the clusters that match every field that is set.
	// A cluster must be Ready and schedulable when it is chosen.
	// Without a placement, every member is chosen.
	// +optional
	Placement *Placement `json:"placement,omitempty"`

	// Configuration lists the ConfigMaps and Secrets of the hub that travel with the AppService.
	// Its objects are in the namespace of the AppService, and their owner agrees with a label.
	// A change of their content is a revision, like a change of the image.
	// All other names in the pod template refer to the member's own objects.
	// +optional
	// +listType=map
	// +listMapKey=kind
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=32
	Configuration []ConfigurationSource `json:"configuration,omitempty"`

	// Overrides change the workload of some clusters.
	// All overrides that match a cluster apply, in order.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=64
	Overrides []Override `json:"overrides,omitempty"`

	// ConflictPolicy defines what happens to an existing object with the name of the AppService.
	// It concerns objects on members that do not belong to Fleetwright.
	// Fail leaves the object unchanged and reports a Conflict.
	// AdoptIfIdentical adopts the object if it already has every field that would be applied.
	// No pod restarts.
	// Adopt adopts the object and applies the AppService to it.
	// The pods are replaced if their template changes.
	// An object of another hub is never changed.
	// +optional
	// +kubebuilder:default=Fail
	ConflictPolicy ConflictPolicy `json:"conflictPolicy,omitempty"`

	// DeletionPolicy defines what happens to the objects on a cluster that leaves the plan.
	// It also applies to all clusters when the AppService is deleted.
	// Delete deletes the objects.
	// Orphan keeps them running and removes Fleetwright's labels and annotations.
	// +optional
	// +kubebuilder:default=Delete
	DeletionPolicy DeletionPolicy `json:"deletionPolicy,omitempty"`

	// RevisionHistoryLimit is the number of old revisions that are kept beside those in use.
	// A revision is a version of the template: of the fields that define a pod or its Service.
	// It is stored as a ControllerRevision with the name NAME-NUMBER. It defaults to 10.
	// +optional
	// +kubebuilder:validation:XValidation:rule="self >= 0 && self <= 100",message="revisionHistoryLimit must be from 0 to 100"
	RevisionHistoryLimit *int32 `json:"revisionHistoryLimit,omitempty"`

	// Rollout defines the stages in which an edit reaches the clusters.
	// Without it, an edit reaches all clusters at once.
	// +optional
	Rollout *Rollout `json:"rollout,omitempty"`

	// Suspend stops all changes on all clusters.
	// The clusters are still observed, and the AppService can still be deleted.
	// +optional
	Suspend bool `json:"suspend,omitempty"`
}

// ConflictPolicy defines what happens to an existing object that does not belong to Fleetwright.
// +kubebuilder:validation:Enum=Fail;AdoptIfIdentical;Adopt
type ConflictPolicy string

const (
	// ConflictFail leaves the object unchanged and reports its owner.
	ConflictFail ConflictPolicy = "Fail"
	// ConflictAdoptIfIdentical adopts an object that already has every field that would be
	// applied, except Fleetwright's labels and annotations. An adopted Deployment keeps its
	// selector and its pods, and the Service selects the pods by that selector.
	ConflictAdoptIfIdentical ConflictPolicy = "AdoptIfIdentical"
	// ConflictAdopt adopts the object and applies the AppService to it.
	// Pods are replaced only if their template changes.
	ConflictAdopt ConflictPolicy = "Adopt"
)

// DeletionPolicy defines what happens to the objects of an AppService on a cluster that leaves its
// plan.
// +kubebuilder:validation:Enum=Delete;Orphan
type DeletionPolicy string

const (
	// DeletionDelete deletes the objects.
	DeletionDelete DeletionPolicy = "Delete"
	// DeletionOrphan keeps the objects running, without Fleetwright's labels and annotations.
	DeletionOrphan DeletionPolicy = "Orphan"
)

// AppServiceList is a list of AppServices.
//
// +kubebuilder:object:root=true
type AppServiceList struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ListMeta `json:"metadata,omitzero"`
	Items           []AppService `json:"items"`
}

// DesiredReplicas returns spec.replicas, or its default.
func (a *AppService) DesiredReplicas() int32 {
	if a.Spec.Replicas == nil {
		return 1
	}
	return *a.Spec.Replicas
}

// IsDeleting reports whether the AppService is being deleted.
func (a *AppService) IsDeleting() bool { return !a.DeletionTimestamp.IsZero() }

// IsSuspended reports whether spec.suspend is set and the AppService is not being deleted: a deletion
// is never suspended.
func (a *AppService) IsSuspended() bool { return a.Spec.Suspend && !a.IsDeleting() }

// DividesReplicas reports whether the clusters divide the replicas.
func (a *AppService) DividesReplicas() bool {
	return a.Spec.ReplicaPolicy != nil && a.Spec.ReplicaPolicy.Type == ReplicasDivided
}

// OrphansWorkloads reports whether a removal leaves the workload running.
func (a *AppService) OrphansWorkloads() bool { return a.Spec.DeletionPolicy == DeletionOrphan }

// HasConfiguration reports whether ConfigMaps or Secrets travel with the AppService, or did when its
// status was written. Then its revisions have more than the template: the spec may have none yet.
func (a *AppService) HasConfiguration() bool {
	return len(a.Spec.Configuration) > 0 || len(a.Status.Configuration) > 0
}
