package v1alpha1

import (
	"bytes"
	"errors"
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// Override changes what the clusters that it matches run.
// What it cannot change stops those clusters only: their rows say InvalidOverride and name it, and they keep what they run.
// A clusterSelector that cannot be understood stops all: nobody can tell which clusters it matches.
//
// +kubebuilder:validation:XValidation:rule="!has(self.image) || !has(self.imageRegistry) && !has(self.imageTag)",message="an override has either image, or imageRegistry and imageTag, which change a part of the image: leave out the one or the others"
type Override struct {
	// Name of the override, which no other has, and by which messages speak of it.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Name string `json:"name"`

	ClusterMatch `json:",inline"`

	// Image takes the place of spec.image.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:XValidation:rule="self.matches('^[^\\\\s]+$')",message="image must name a container image, such as registry.example/team/app:1.2, without spaces"
	Image string `json:"image,omitempty"`
	// ImageRegistry takes the place of the image's registry: by registry.example:5000 or registry.example/mirror, say.
	// The rest of the name stays as it is written: of nginx:1.29 it makes registry.example/nginx:1.29.
	// +optional
	// +kubebuilder:validation:MaxLength=512
	// +kubebuilder:validation:XValidation:rule="self.matches('^([a-zA-Z0-9]([-.a-zA-Z0-9]*[a-zA-Z0-9])?|[[][:.0-9a-fA-F]+[]])(:[0-9]+)?(/[-._a-zA-Z0-9]+)*$')",message="imageRegistry must be a registry, such as registry.example:5000 or registry.example/mirror, without a scheme"
	ImageRegistry string `json:"imageRegistry,omitempty"`
	// ImageTag takes the place of the image's tag and digest: a tag such as 1.2, or a digest such as sha256:….
	// +optional
	// +kubebuilder:validation:MaxLength=256
	// +kubebuilder:validation:XValidation:rule="self.matches('^(sha256:[0-9a-f]{64}|[a-zA-Z0-9_][-.a-zA-Z0-9_]{0,127})$')",message="imageTag must be a tag, such as 1.2, or a digest, sha256: and 64 digits of 0-9 and a-f"
	ImageTag string `json:"imageTag,omitempty"`

	// Env is merged into spec.env by name: a variable of the same name is replaced, others are added.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=512
	// +kubebuilder:validation:items:XValidation:rule="!has(self.valueFrom) || [has(self.valueFrom.configMapKeyRef), has(self.valueFrom.fieldRef), has(self.valueFrom.fileKeyRef), has(self.valueFrom.resourceFieldRef), has(self.valueFrom.secretKeyRef)].filter(x, x).size() == 1",message="valueFrom needs exactly one of configMapKeyRef, fieldRef, fileKeyRef, resourceFieldRef, secretKeyRef"
	// +kubebuilder:validation:items:XValidation:rule="!has(self.valueFrom) || !has(self.value) || self.value == ''",message="a variable has either value or valueFrom: remove one of them"
	Env []corev1.EnvVar `json:"env,omitempty"`

	// Resources are merged into spec.resources: each request and limit that is named here takes the place of the one there.
	// +optional
	Resources *ResourceOverride `json:"resources,omitempty"`

	// Replicas take the place of spec.replicas. Not allowed where replicaPolicy divides them, nor with autoscaling.
	// +optional
	// +kubebuilder:validation:XValidation:rule="self >= 0",message="replicas must be zero or more"
	Replicas *int32 `json:"replicas,omitempty"`

	// ServiceType takes the place of spec.service.type.
	// +optional
	// +kubebuilder:validation:Enum=ClusterIP;NodePort;LoadBalancer
	ServiceType corev1.ServiceType `json:"serviceType,omitempty"`

	// Patches change the objects that the member gets, after all else, for what has no field here.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	Patches []Patch `json:"patches,omitempty"`
}

// ResourceOverride holds requests and limits that take the place of those of the same name.
type ResourceOverride struct {
	// Requests that take the place of those of the same resource in spec.resources, or are added.
	// +optional
	Requests corev1.ResourceList `json:"requests,omitempty"`
	// Limits that take the place of those of the same resource in spec.resources, or are added.
	// +optional
	Limits corev1.ResourceList `json:"limits,omitempty"`
}

// Patch is a JSON patch (RFC 6902) on one of the objects that a member gets. It cannot change whose the object is, its name and selector, nor the replicas.
type Patch struct {
	// Target is the kind of the object that is patched.
	// +required
	Target PatchTarget `json:"target"`

	// Operations are done in their order, all or none.
	// +required
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	Operations []PatchOperation `json:"operations"`
}

// PatchTarget is a kind of what a member gets.
// +kubebuilder:validation:Enum=Deployment;Service;HorizontalPodAutoscaler;PodDisruptionBudget
type PatchTarget string

// The kinds of what a member gets.
const (
	PatchDeployment              PatchTarget = "Deployment"
	PatchService                 PatchTarget = "Service"
	PatchHorizontalPodAutoscaler PatchTarget = "HorizontalPodAutoscaler"
	PatchPodDisruptionBudget     PatchTarget = "PodDisruptionBudget"
)

// PatchOperation is an operation of a JSON patch. Op add, replace and test need a value; without one the cluster's row says InvalidOverride.
//
// +kubebuilder:validation:XValidation:rule="(self.op in ['copy', 'move']) == has(self.from)",message="op copy and move need from, the JSON pointer of what is taken; leave it out for every other op"
type PatchOperation struct {
	// Op is what to do: add, remove, replace, move, copy or test.
	// A patch sees what Fleetwright sets, and nothing that the cluster fills in: for a field that it does not set, add is needed, not replace.
	// +required
	// +kubebuilder:validation:Enum=add;remove;replace;move;copy;test
	Op string `json:"op"`

	// Path is where, as a JSON pointer such as /spec/template/spec/hostAliases; in it ~1 stands for / and ~0 for ~.
	// +required
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:XValidation:rule="self.startsWith('/')",message="path must be a JSON pointer, such as /spec/template/spec/hostAliases"
	Path string `json:"path"`

	// From is the JSON pointer that op move and copy take the value from.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:XValidation:rule="self.startsWith('/')",message="from must be a JSON pointer, such as /spec/template/metadata/labels"
	From string `json:"from,omitempty"`

	// Value is what op add and replace put there, and what op test compares with: any JSON but null.
	// +optional
	// +kubebuilder:validation:Schemaless
	// +kubebuilder:pruning:PreserveUnknownFields
	Value *JSON `json:"value,omitempty"`
}

// JSON is any JSON value. A field of it is marked as Schemaless and PreserveUnknownFields: a type cannot be.
type JSON struct {
	// Raw is the value as text.
	Raw []byte `json:"-"`
}

// MarshalJSON returns the text; an empty one is null.
func (j JSON) MarshalJSON() ([]byte, error) {
	if len(j.Raw) == 0 {
		return []byte("null"), nil
	}
	return j.Raw, nil
}

// UnmarshalJSON keeps the text.
func (j *JSON) UnmarshalJSON(text []byte) error {
	if j == nil {
		return errors.New("unmarshal JSON into nothing")
	}
	if !bytes.Equal(text, []byte("null")) {
		j.Raw = slices.Clone(text)
	}
	return nil
}
