package v1alpha1

import (
	"fmt"
	"maps"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
)

// Placement chooses clusters. A cluster is chosen when it passes every field that is set; an empty Placement chooses every member.
// One that runs the AppService already stays while it passes.
//
// +kubebuilder:validation:XValidation:rule="!has(self.spreadKey) || has(self.limit)",message="spreadKey says over what to spread the clusters that limit allows: set limit as well"
type Placement struct {
	ClusterMatch `json:",inline"`

	// Tolerations let the AppService run on MemberClusters with taints, as those of a Pod let it run on nodes.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	Tolerations []Toleration `json:"tolerations,omitempty"`

	// Limit is how many clusters are chosen at most. Without it, all that fit are.
	// +optional
	// +kubebuilder:validation:XValidation:rule="self >= 1",message="limit must be one or more; leave it out for all clusters"
	Limit *int32 `json:"limit,omitempty"`

	// SpreadKey is a label of the MemberClusters, such as a region: the clusters that limit allows are spread over its values. Those without the label count as one value.
	// +optional
	// +kubebuilder:validation:MaxLength=317
	SpreadKey string `json:"spreadKey,omitempty"`
}

// ClusterMatch matches clusters by name and by label: those that pass both, where both are set. An empty one matches all.
type ClusterMatch struct {
	// ClusterNames matches the MemberClusters of these names. Empty: all.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=1000
	// +kubebuilder:validation:items:MaxLength=253
	ClusterNames []string `json:"clusterNames,omitempty"`

	// ClusterSelector matches the MemberClusters that have these labels; where clusterNames is set too, both must match. Unset or empty: all.
	// +optional
	ClusterSelector *ClusterSelector `json:"clusterSelector,omitempty"`
}

// ClusterSelector matches MemberClusters by their labels, as a label selector does: all that it says must be true.
type ClusterSelector struct {
	// MatchLabels are labels that the MemberCluster must have.
	// +optional
	// +kubebuilder:validation:MaxProperties=64
	MatchLabels map[string]string `json:"matchLabels,omitempty"`

	// MatchExpressions are conditions on its labels, all of which must be true.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	MatchExpressions []ClusterRequirement `json:"matchExpressions,omitempty"`
}

// ClusterRequirement is a condition on the labels of a MemberCluster.
//
// +kubebuilder:validation:XValidation:rule="self.operator in ['In', 'NotIn'] ? has(self.values) && self.values.size() > 0 : !has(self.values) || self.values.size() == 0",message="In and NotIn need values; Exists and DoesNotExist have none: add values, leave them out, or change the operator"
type ClusterRequirement struct {
	// Key of the label.
	// +required
	// +kubebuilder:validation:MaxLength=317
	Key string `json:"key"`
	// Operator is In, NotIn, Exists or DoesNotExist.
	// +required
	// +kubebuilder:validation:Enum=In;NotIn;Exists;DoesNotExist
	Operator metav1.LabelSelectorOperator `json:"operator"`
	// Values of the label, for In and NotIn.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=256
	// +kubebuilder:validation:items:MaxLength=63
	Values []string `json:"values,omitempty"`
}

// AsSelector returns what matches the labels, or what is wrong with it: always the same of several things. A nil selector matches all.
func (s *ClusterSelector) AsSelector() (labels.Selector, error) {
	if s == nil {
		return labels.Everything(), nil
	}
	selector := labels.NewSelector()
	for _, key := range slices.Sorted(maps.Keys(s.MatchLabels)) {
		equals, err := labels.NewRequirement(key, selection.Equals, []string{s.MatchLabels[key]})
		if err != nil {
			return nil, fmt.Errorf("matchLabels: %w", err)
		}
		selector = selector.Add(*equals)
	}
	for i, e := range s.MatchExpressions {
		operator, known := operators[e.Operator]
		if !known {
			return nil, fmt.Errorf("matchExpressions[%d]: operator must be In, NotIn, Exists or DoesNotExist", i)
		}
		requirement, err := labels.NewRequirement(e.Key, operator, e.Values)
		if err != nil {
			return nil, fmt.Errorf("matchExpressions[%d]: %w", i, err)
		}
		selector = selector.Add(*requirement)
	}
	return selector, nil
}

var operators = map[metav1.LabelSelectorOperator]selection.Operator{
	metav1.LabelSelectorOpIn:           selection.In,
	metav1.LabelSelectorOpNotIn:        selection.NotIn,
	metav1.LabelSelectorOpExists:       selection.Exists,
	metav1.LabelSelectorOpDoesNotExist: selection.DoesNotExist,
}

// Toleration lets an AppService run on clusters with a taint that it matches.
//
// +kubebuilder:validation:XValidation:rule="!has(self.operator) || self.operator != 'Exists' || !has(self.value) || self.value.size() == 0",message="a toleration with operator Exists has no value: leave it out, or make the operator Equal"
// +kubebuilder:validation:XValidation:rule="has(self.key) && self.key.size() > 0 || has(self.operator) && self.operator == 'Exists'",message="a toleration without a key tolerates every taint, and needs operator Exists: set it, or give the key"
type Toleration struct {
	// Key of the taints that are tolerated. Empty, with operator Exists: every taint.
	// +optional
	// +kubebuilder:validation:MaxLength=317
	Key string `json:"key,omitempty"`
	// Operator is Equal, the default, or Exists, which takes any value.
	// +optional
	// +kubebuilder:default=Equal
	// +kubebuilder:validation:Enum=Equal;Exists
	Operator TolerationOperator `json:"operator,omitempty"`
	// Value of the taints that are tolerated, with operator Equal.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	Value string `json:"value,omitempty"`
	// Effect of the taints that are tolerated: NoSchedule or NoExecute. Empty: both.
	// +optional
	Effect TaintEffect `json:"effect,omitempty"`
}

// Tolerates tells whether it lets an AppService run on a cluster with the taint.
func (t Toleration) Tolerates(taint Taint) bool {
	return (t.Effect == "" || t.Effect == taint.Effect) &&
		(t.Key == "" || t.Key == taint.Key) &&
		(t.Operator == TolerationExists || t.Value == taint.Value && t.Key != "")
}

// TolerationOperator says how a toleration matches the value of a taint.
type TolerationOperator string

const (
	// TolerationEqual: the value is the taint's.
	TolerationEqual TolerationOperator = "Equal"
	// TolerationExists: any value.
	TolerationExists TolerationOperator = "Exists"
)

// ReplicaPolicy says how many of spec.replicas each cluster runs.
// Divided, their sum is exact wherever the bounds of the rules allow it, each cluster's share follows its weight, and a change moves as few as it can.
// What leaves a cluster waits until what arrives elsewhere is ready.
//
// +kubebuilder:validation:XValidation:rule="self.type == 'Divided' || !has(self.rules) && self.weights != 'Allocatable'",message="rules and weights divide replicas: make the type Divided, or leave them out"
// +kubebuilder:validation:XValidation:rule="self.weights != 'Allocatable' || !has(self.rules) || self.rules.all(r, !has(r.weight))",message="the weight of a rule is for weights: Static; leave it out, or make weights Static"
type ReplicaPolicy struct {
	// Type is Duplicated, where each cluster runs all replicas, or Divided, where all clusters run them together.
	// +optional
	// +kubebuilder:default=Duplicated
	Type ReplicaPolicyType `json:"type,omitempty"`

	// Weights is Static, where the rules give the weights, or Allocatable, where a cluster's weight is the CPU that its nodes can hold. A cluster of which that is not known counts as the smallest of which it is.
	// +optional
	// +kubebuilder:default=Static
	Weights ReplicaWeights `json:"weights,omitempty"`

	// Rules give clusters their weight and bounds. The first that matches a cluster applies; one that none matches has weight 1 and no bounds.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=64
	Rules []ReplicaRule `json:"rules,omitempty"`
}

// ReplicaPolicyType says whether replicas are those of each cluster, or of all.
// +kubebuilder:validation:Enum=Duplicated;Divided
type ReplicaPolicyType string

const (
	// ReplicasDuplicated: each cluster runs all replicas.
	ReplicasDuplicated ReplicaPolicyType = "Duplicated"
	// ReplicasDivided: all clusters together run them.
	ReplicasDivided ReplicaPolicyType = "Divided"
)

// ReplicaWeights says what the clusters' shares follow.
// +kubebuilder:validation:Enum=Static;Allocatable
type ReplicaWeights string

const (
	// WeightsStatic: the weights of the rules.
	WeightsStatic ReplicaWeights = "Static"
	// WeightsAllocatable: the CPU that a cluster's nodes can hold.
	WeightsAllocatable ReplicaWeights = "Allocatable"
)

// ReplicaRule gives clusters a weight and bounds.
//
// +kubebuilder:validation:XValidation:rule="!has(self.minReplicas) || !has(self.maxReplicas) || self.minReplicas <= self.maxReplicas",message="maxReplicas of a rule must be minReplicas or more"
type ReplicaRule struct {
	// Name of the rule, which no other has.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Name string `json:"name"`

	ClusterMatch `json:",inline"`

	// Weight is what a cluster's share is in proportion to; without it, 1. A cluster of weight 0 gets no more than minReplicas.
	// +optional
	// +kubebuilder:validation:XValidation:rule="self >= 0 && self <= 1000000",message="weight must be from 0 to 1000000"
	Weight *int32 `json:"weight,omitempty"`
	// MinReplicas is the least that each of these clusters runs. Without it, 0.
	// +optional
	// +kubebuilder:validation:XValidation:rule="self >= 0",message="minReplicas must be zero or more"
	MinReplicas *int32 `json:"minReplicas,omitempty"`
	// MaxReplicas is the most that each of these clusters runs. Without it, there is no bound.
	// +optional
	// +kubebuilder:validation:XValidation:rule="self >= 0",message="maxReplicas must be zero or more"
	MaxReplicas *int32 `json:"maxReplicas,omitempty"`
}
