package v1alpha1

import (
	"bytes"
	"errors"
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// Override changes the workload of the clusters that it matches.
// An override that cannot be applied to a cluster affects only that cluster.
// The entry of the cluster has reason InvalidOverride and names the override.
// The cluster keeps the workload that it runs.
// An invalid clusterSelector stops changes on all clusters.
// The reason is that it is unknown which clusters it matches.
//
// +kubebuilder:validation:XValidation:rule="!has(self.image) || !has(self.imageRegistry) && !has(self.imageTag)",message="an override cannot have image together with imageRegistry or imageTag: remove image, or remove the others"
type Override struct {
	// Name of the override. It must be unique. Messages use it.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Name string `json:"name"`

	ClusterMatch `json:",inline"`

	// Image replaces spec.image.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:XValidation:rule="self.matches('^[!-~]+$')",message="image must name a container image, such as registry.example/team/app:1.2, without spaces, control characters and letters that are not ASCII"
	Image string `json:"image,omitempty"`
	// ImageRegistry replaces the registry of the image, for example by registry.example:5000.
	// It can have a path, such as registry.example/mirror.
	// The rest of the name stays as it is written: nginx:1.29 becomes registry.example/nginx:1.29.
	// +optional
	// +kubebuilder:validation:MaxLength=512
	// +kubebuilder:validation:XValidation:rule="self.matches('^([a-zA-Z0-9]([-.a-zA-Z0-9]*[a-zA-Z0-9])?|[[][:.0-9a-fA-F]+[]])(:[0-9]+)?(/[-._a-zA-Z0-9]+)*$')",message="imageRegistry must be a registry, such as registry.example:5000 or registry.example/mirror, without a scheme"
	ImageRegistry string `json:"imageRegistry,omitempty"`
	// ImageTag replaces the tag and the digest of the image.
	// It is a tag such as 1.2, or a digest such as sha256:….
	// +optional
	// +kubebuilder:validation:MaxLength=256
	// +kubebuilder:validation:XValidation:rule="self.matches('^(sha256:[0-9a-f]{64}|[a-zA-Z0-9_][-.a-zA-Z0-9_]{0,127})$')",message="imageTag must be a tag, such as 1.2, or a digest, sha256: and 64 digits of 0-9 and a-f"
	ImageTag string `json:"imageTag,omitempty"`

	// Env is merged into spec.env by name.
	// A variable with the same name is replaced, other variables are added.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=512
	// +kubebuilder:validation:items:XValidation:rule="!has(self.valueFrom) || [has(self.valueFrom.configMapKeyRef), has(self.valueFrom.fieldRef), has(self.valueFrom.fileKeyRef), has(self.valueFrom.resourceFieldRef), has(self.valueFrom.secretKeyRef)].filter(x, x).size() == 1",message="valueFrom needs exactly one of configMapKeyRef, fieldRef, fileKeyRef, resourceFieldRef, secretKeyRef"
	// +kubebuilder:validation:items:XValidation:rule="!has(self.valueFrom) || !has(self.value) || self.value == ''",message="a variable has either value or valueFrom: remove one of them"
	Env []corev1.EnvVar `json:"env,omitempty"`

	// Resources are merged into spec.resources.
	// Each request and limit replaces the request or limit of the same resource, or is added.
	// +optional
	Resources *ResourceOverride `json:"resources,omitempty"`

	// Replicas replaces spec.replicas.
	// It is not allowed if replicaPolicy divides the replicas, or with autoscaling.
	// +optional
	// +kubebuilder:validation:XValidation:rule="self >= 0",message="replicas must be zero or more"
	Replicas *int32 `json:"replicas,omitempty"`

	// ServiceType replaces spec.service.type.
	// +optional
	// +kubebuilder:validation:Enum=ClusterIP;NodePort;LoadBalancer
	ServiceType corev1.ServiceType `json:"serviceType,omitempty"`

	// Configuration takes the content of items of spec.configuration from other objects of the hub.
	// +optional
	// +listType=map
	// +listMapKey=kind
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=32
	Configuration []ConfigurationOverride `json:"configuration,omitempty"`

	// Patches change fields of the member's objects that have no field here. They are applied last.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	Patches []Patch `json:"patches,omitempty"`
}

// ResourceOverride defines requests and limits that replace those of the same resource.
type ResourceOverride struct {
	// Requests replace the requests of the same resource in spec.resources, or are added.
	// +optional
	Requests corev1.ResourceList `json:"requests,omitempty"`
	// Limits replace the limits of the same resource in spec.resources, or are added.
	// +optional
	Limits corev1.ResourceList `json:"limits,omitempty"`
}

// Patch is a JSON patch (RFC 6902) of one object of a member.
// It cannot change the ownership, the name, the selector or the replicas of the object.
type Patch struct {
	// Target is the kind of the patched object.
	// +required
	Target PatchTarget `json:"target"`

	// Operations are applied in order, all or none.
	// +required
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	Operations []PatchOperation `json:"operations"`
}

// PatchTarget is the kind of an object that can be patched.
// +kubebuilder:validation:Enum=Deployment;Service;HorizontalPodAutoscaler;PodDisruptionBudget
type PatchTarget string

// The kinds of objects that can be patched.
const (
	PatchDeployment              PatchTarget = "Deployment"
	PatchService                 PatchTarget = "Service"
	PatchHorizontalPodAutoscaler PatchTarget = "HorizontalPodAutoscaler"
	PatchPodDisruptionBudget     PatchTarget = "PodDisruptionBudget"
)

// PatchOperation is an operation of a JSON patch. Op add, replace and test require a value.
// Without a value, the entry of the cluster has reason InvalidOverride.
//
// +kubebuilder:validation:XValidation:rule="(self.op in ['copy', 'move']) == has(self.from)",message="op copy and move need from, other operations must not have it: set from to the JSON pointer of the source, or remove it"
type PatchOperation struct {
	// Op is the operation: add, remove, replace, move, copy or test.
	// The patch applies to the object that Fleetwright renders, without the cluster's defaults.
	// Use add, not replace, for a field that Fleetwright does not set.
	// +required
	// +kubebuilder:validation:Enum=add;remove;replace;move;copy;test
	Op string `json:"op"`

	// Path is a JSON pointer, such as /spec/template/spec/hostAliases.
	// In a path, ~1 stands for / and ~0 for ~.
	// +required
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:XValidation:rule="self.startsWith('/')",message="path must be a JSON pointer, such as /spec/template/spec/hostAliases"
	Path string `json:"path"`

	// From is the JSON pointer to the source of op move and copy.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:XValidation:rule="self.startsWith('/')",message="from must be a JSON pointer, such as /spec/template/metadata/labels"
	From string `json:"from,omitempty"`

	// Value is the value for op add, replace and test: any JSON value except null.
	// +optional
	// +kubebuilder:validation:Schemaless
	// +kubebuilder:pruning:PreserveUnknownFields
	Value *JSON `json:"value,omitempty"`
}

// JSON is any JSON value.
// Each field of this type needs the markers Schemaless and PreserveUnknownFields.
// A type cannot have them.
type JSON struct {
	// Raw is the JSON text.
	Raw []byte `json:"-"`
}

// MarshalJSON returns the text, or null if it is empty.
func (j JSON) MarshalJSON() ([]byte, error) {
	if len(j.Raw) == 0 {
		return []byte("null"), nil
	}
	return j.Raw, nil
}

// UnmarshalJSON copies the text.
func (j *JSON) UnmarshalJSON(text []byte) error {
	if j == nil {
		return errors.New("unmarshal JSON into a nil pointer")
	}
	if !bytes.Equal(text, []byte("null")) {
		j.Raw = slices.Clone(text)
	}
	return nil
}
