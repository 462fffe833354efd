package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// AppService runs one workload on many clusters: on each cluster that its placement chooses, a Deployment
// and, when it has ports, a Service, both of the AppService's own namespace and name. Its status holds a row
// for each of those clusters.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=appservices,singular=appservice,shortName=appsvc,categories={all,fleet}
// +kubebuilder:subresource:status
// +kubebuilder:subresource:scale:specpath=.spec.replicas,statuspath=.status.replicas,selectorpath=.status.selector
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.summary.display`,description="Ready clusters / clusters of the plan"
// +kubebuilder:printcolumn:name="Replicas",type=integer,JSONPath=`.status.summary.readyReplicas`,description="Ready replicas on all clusters"
// +kubebuilder:printcolumn:name="Status",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`,description="Why it is ready or not"
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Message",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].message`,description="Where it runs, or where not and why"
// +kubebuilder:printcolumn:name="Image",type=string,priority=1,JSONPath=`.spec.image`
// +kubebuilder:validation:XValidation:rule="self.metadata.name.size() <= 63 && self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')",message="metadata.name must be at most 63 lower-case letters, digits and '-', beginning with a letter and ending with a letter or digit: each member gets a Service of this name"
type AppService struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitzero"`

	// Spec is what shall run, and where.
	// +required
	Spec AppServiceSpec `json:"spec"`

	// Status is what runs, written by Fleetwright alone.
	// +optional
	// +kubebuilder:default={"observedGeneration":-1}
	Status AppServiceStatus `json:"status,omitzero"`
}

// AppServiceSpec is what shall run on each chosen cluster, in the terms of the Pod and Service APIs, and
// which clusters are chosen.
type AppServiceSpec struct {
	// Image is the container image, as in a Pod.
	// +required
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:XValidation:rule="self.matches('^[^\\\\s]+$')",message="image must name a container image, such as registry.example/team/app:1.2, without spaces"
	Image string `json:"image"`

	// Replicas is how many pods run on each chosen cluster. Zero keeps the Deployment and the Service, with no pods.
	// +optional
	// +kubebuilder:default=1
	// +kubebuilder:validation:XValidation:rule="self >= 0",message="replicas must be zero or more"
	Replicas *int32 `json:"replicas,omitempty"`

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

	// Env is the container's environment, as in a Pod. A ConfigMap or Secret that it refers to is the
	// member's own.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=512
	Env []corev1.EnvVar `json:"env,omitempty"`

	// Ports are the ports of the Service that each member gets; with none, there is no Service. The
	// container listens on each targetPort. A nodePort makes the Service one of type NodePort.
	// +optional
	// +listType=map
	// +listMapKey=port
	// +listMapKey=protocol
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:XValidation:rule="self.size() <= 1 || self.all(p, has(p.name) && p.name != '')",message="each port needs a name when there is more than one"
	// +kubebuilder:validation:XValidation:rule="self.all(p, !has(p.name) || self.exists_one(q, has(q.name) && q.name == p.name))",message="port names must differ"
	Ports []ServicePort `json:"ports,omitempty"`

	// Resources are the container's requests and limits, as in a Pod.
	// +optional
	Resources corev1.ResourceRequirements `json:"resources,omitzero"`

	// Placement chooses the clusters. Without it, every member is chosen.
	// +optional
	Placement *Placement `json:"placement,omitempty"`

	// Autoscaled says that something on the members scales the Deployments: replicas is then what one begins with, and is
	// left alone afterwards. A HorizontalPodAutoscaler is found without it.
	// +optional
	Autoscaled bool `json:"autoscaled,omitempty"`

	// ConflictPolicy says what happens where an object of this name exists on a cluster and is nobody's: Fail leaves it alone and
	// says so, AdoptIfIdentical takes it over when it holds already what would be applied, Adopt makes it what the
	// AppService says. An object of another hub is never touched.
	// +optional
	// +kubebuilder:default=Fail
	ConflictPolicy ConflictPolicy `json:"conflictPolicy,omitempty"`

	// DeletionPolicy says what happens on a cluster when the AppService is deleted, or leaves it: Delete removes its objects,
	// Orphan leaves them running and takes off the marks of Fleetwright.
	// +optional
	// +kubebuilder:default=Delete
	DeletionPolicy DeletionPolicy `json:"deletionPolicy,omitempty"`

	// Suspend stops all changes on all clusters, and goes on observing them. Deleting the AppService is no change that it
	// stops.
	// +optional
	Suspend bool `json:"suspend,omitempty"`
}

// ConflictPolicy says what happens with an object that exists already and is nobody's.
// +kubebuilder:validation:Enum=Fail;AdoptIfIdentical;Adopt
type ConflictPolicy string

const (
	// ConflictFail leaves the object alone, and says whose it is.
	ConflictFail ConflictPolicy = "Fail"
	// ConflictAdoptIfIdentical takes over an object that holds already every field that would be applied, but for the marks,
	// the selector, and the labels of the pods.
	ConflictAdoptIfIdentical ConflictPolicy = "AdoptIfIdentical"
	// ConflictAdopt takes the object over, whatever it holds.
	ConflictAdopt ConflictPolicy = "Adopt"
)

// DeletionPolicy says what becomes of an AppService's objects on a cluster that it leaves.
// +kubebuilder:validation:Enum=Delete;Orphan
type DeletionPolicy string

const (
	// DeletionDelete removes the objects.
	DeletionDelete DeletionPolicy = "Delete"
	// DeletionOrphan leaves the objects running, without the marks of Fleetwright.
	DeletionOrphan DeletionPolicy = "Orphan"
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

	// Port is where the Service listens.
	// +required
	// +kubebuilder:validation:XValidation:rule="self >= 1 && self <= 65535",message="port must be from 1 to 65535"
	Port int32 `json:"port"`

	// TargetPort is the number of the port where the container listens; the same as port by default.
	// +optional
	// +kubebuilder:validation:XValidation:rule="self >= 1 && self <= 65535",message="targetPort must be from 1 to 65535"
	TargetPort int32 `json:"targetPort,omitempty"`

	// NodePort is where each node of each member listens too; the range is the member's own, usually 30000 to 32767.
	// +optional
	// +kubebuilder:validation:XValidation:rule="self >= 1 && self <= 65535",message="nodePort must be from 1 to 65535, and in the range of the members, usually 30000 to 32767"
	NodePort int32 `json:"nodePort,omitempty"`

	// AppProtocol says what is spoken on the port, as in the Service API.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	AppProtocol *string `json:"appProtocol,omitempty"`
}

// Placement chooses clusters. A cluster is chosen when it passes every field that is set; an empty
// Placement chooses every member.
type Placement struct {
	// ClusterNames are the names of the MemberClusters that may be chosen. Empty: all.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=1000
	// +kubebuilder:validation:items:MaxLength=253
	ClusterNames []string `json:"clusterNames,omitempty"`

	// ClusterSelector chooses among them by the labels of the MemberClusters. Unset or empty: all.
	// +optional
	// +kubebuilder:validation:XValidation:rule="!has(self.matchExpressions) || self.matchExpressions.all(e, e.operator in ['In', 'NotIn', 'Exists', 'DoesNotExist'])",message="operator must be In, NotIn, Exists or DoesNotExist"
	ClusterSelector *metav1.LabelSelector `json:"clusterSelector,omitempty"`
}

// AppServiceList is a list of AppServices.
//
// +kubebuilder:object:root=true
type AppServiceList struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ListMeta `json:"metadata,omitzero"`
	Items           []AppService `json:"items"`
}

// DesiredReplicas is spec.replicas, or its default.
func (a *AppService) DesiredReplicas() int32 {
	if a.Spec.Replicas == nil {
		return 1
	}
	return *a.Spec.Replicas
}
