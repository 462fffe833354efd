package v1alpha1

import (
	"fmt"
	"maps"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
)

// Placement chooses clusters. A cluster is chosen if it matches every field that is set.
// An empty Placement chooses every member.
// A cluster that already runs the AppService stays chosen while it matches.
//
// +kubebuilder:validation:XValidation:rule="!has(self.spreadKey) || has(self.limit)",message="spreadKey needs limit: set limit, or remove spreadKey"
type Placement struct {
	ClusterMatch `json:",inline"`

	// Tolerations allow the AppService to run on MemberClusters with taints.
	// They work like the tolerations of a Pod for the taints of nodes.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	Tolerations []Toleration `json:"tolerations,omitempty"`

	// Limit is the maximum number of clusters. Without it, all matching clusters are chosen.
	// +optional
	// +kubebuilder:validation:XValidation:rule="self >= 1",message="limit must be one or more: increase it, or remove it for all clusters"
	Limit *int32 `json:"limit,omitempty"`

	// SpreadKey is a label of MemberClusters, such as a region.
	// The chosen clusters are spread over the values of the label.
	// Clusters without the label count as one value. It requires limit.
	// +optional
	// +kubebuilder:validation:MaxLength=317
	SpreadKey string `json:"spreadKey,omitempty"`
}

// ClusterMatch matches clusters by name and by label. If both are set, both must match.
// An empty ClusterMatch matches all clusters.
type ClusterMatch struct {
	// ClusterNames matches the MemberClusters with these names. An empty list matches all clusters.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=1000
	// +kubebuilder:validation:items:MaxLength=253
	ClusterNames []string `json:"clusterNames,omitempty"`

	// ClusterSelector matches the MemberClusters with these labels.
	// If clusterNames is set too, both must match. An empty selector matches all clusters.
	// +optional
	ClusterSelector *ClusterSelector `json:"clusterSelector,omitempty"`
}

// ClusterSelector is a label selector for MemberClusters. All requirements must match.
type ClusterSelector struct {
	// MatchLabels are labels that the MemberCluster must have.
	// +optional
	// +kubebuilder:validation:MaxProperties=64
	MatchLabels map[string]string `json:"matchLabels,omitempty"`

	// MatchExpressions are requirements on the labels of the MemberCluster. All of them must match.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	MatchExpressions []ClusterRequirement `json:"matchExpressions,omitempty"`
}

// ClusterRequirement is a requirement on the labels of a MemberCluster.
//
// +kubebuilder:validation:XValidation:rule="self.operator in ['In', 'NotIn'] ? has(self.values) && self.values.size() > 0 : !has(self.values) || self.values.size() == 0",message="In and NotIn need values, Exists and DoesNotExist must not have values: add or remove values, or change the operator"
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

// AsSelector returns the selector as a labels.Selector, or the first error in a stable order.
// A nil selector matches all labels.
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

// Toleration allows an AppService to run on clusters with a taint that it matches.
//
// +kubebuilder:validation:XValidation:rule="!has(self.operator) || self.operator != 'Exists' || !has(self.value) || self.value.size() == 0",message="a toleration with operator Exists cannot have a value: remove the value, or set operator to Equal"
// +kubebuilder:validation:XValidation:rule="has(self.key) && self.key.size() > 0 || has(self.operator) && self.operator == 'Exists'",message="a toleration without a key needs operator Exists: set the key, or set operator to Exists"
type Toleration struct {
	// Key of the tolerated taints. An empty key with operator Exists tolerates every taint.
	// +optional
	// +kubebuilder:validation:MaxLength=317
	Key string `json:"key,omitempty"`
	// Operator is Equal or Exists. Exists matches any value. It defaults to Equal.
	// +optional
	// +kubebuilder:default=Equal
	// +kubebuilder:validation:Enum=Equal;Exists
	Operator TolerationOperator `json:"operator,omitempty"`
	// Value of the tolerated taints, for operator Equal.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	Value string `json:"value,omitempty"`
	// Effect of the tolerated taints: NoSchedule or NoExecute.
	// If it is empty, both effects are tolerated.
	// +optional
	Effect TaintEffect `json:"effect,omitempty"`
}

// Tolerates reports whether the toleration matches the taint.
func (t Toleration) Tolerates(taint Taint) bool {
	return (t.Effect == "" || t.Effect == taint.Effect) &&
		(t.Key == "" || t.Key == taint.Key) &&
		(t.Operator == TolerationExists || t.Value == taint.Value && t.Key != "")
}

// TolerationOperator defines how a toleration matches the value of a taint.
type TolerationOperator string

const (
	// TolerationEqual: the values must be equal.
	TolerationEqual TolerationOperator = "Equal"
	// TolerationExists: any value matches.
	TolerationExists TolerationOperator = "Exists"
)

// ReplicaPolicy defines how many of spec.replicas each cluster runs.
// With type Divided, the sum over all clusters is spec.replicas if the rules allow it.
// The share of a cluster follows its weight.
// A change moves as few replicas as possible.
// A cluster scales down only after the replicas that moved to other clusters are ready.
//
// +kubebuilder:validation:XValidation:rule="self.type == 'Divided' || !has(self.rules) && self.weights != 'Allocatable'",message="rules and weights need type Divided: set type to Divided, or remove them"
// +kubebuilder:validation:XValidation:rule="self.weights != 'Allocatable' || !has(self.rules) || self.rules.all(r, !has(r.weight))",message="a rule can have a weight only with weights Static: remove the weight, or set weights to Static"
type ReplicaPolicy struct {
	// Type is Duplicated or Divided. With Duplicated, each cluster runs all replicas.
	// With Divided, the clusters divide them. It defaults to Duplicated.
	// +optional
	// +kubebuilder:default=Duplicated
	Type ReplicaPolicyType `json:"type,omitempty"`

	// Weights is Static or Allocatable. With Static, the rules define the weights.
	// With Allocatable, the weight of a cluster is the allocatable CPU of its nodes.
	// A cluster whose allocatable CPU is unknown gets the smallest known weight.
	// It defaults to Static.
	// +optional
	// +kubebuilder:default=Static
	Weights ReplicaWeights `json:"weights,omitempty"`

	// Rules define the weights and bounds of clusters.
	// The first rule that matches a cluster applies.
	// A cluster without a matching rule has weight 1 and no bounds.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=64
	Rules []ReplicaRule `json:"rules,omitempty"`
}

// ReplicaPolicyType defines whether spec.replicas applies to each cluster, or to all clusters
// together.
// +kubebuilder:validation:Enum=Duplicated;Divided
type ReplicaPolicyType string

const (
	// ReplicasDuplicated: each cluster runs all replicas.
	ReplicasDuplicated ReplicaPolicyType = "Duplicated"
	// ReplicasDivided: the clusters divide the replicas.
	ReplicasDivided ReplicaPolicyType = "Divided"
)

// ReplicaWeights defines the source of the clusters' weights.
// +kubebuilder:validation:Enum=Static;Allocatable
type ReplicaWeights string

const (
	// WeightsStatic: the weights of the rules.
	WeightsStatic ReplicaWeights = "Static"
	// WeightsAllocatable: the allocatable CPU of a cluster's nodes.
	WeightsAllocatable ReplicaWeights = "Allocatable"
)

// ReplicaRule defines a weight and bounds for the clusters that it matches.
//
// +kubebuilder:validation:XValidation:rule="!has(self.minReplicas) || !has(self.maxReplicas) || self.minReplicas <= self.maxReplicas",message="maxReplicas of a rule must be minReplicas or more"
type ReplicaRule struct {
	// Name of the rule. It must be unique.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Name string `json:"name"`

	ClusterMatch `json:",inline"`

	// Weight of each matching cluster. The share of a cluster is proportional to its weight.
	// A cluster with weight 0 runs only minReplicas. It defaults to 1.
	// +optional
	// +kubebuilder:validation:XValidation:rule="self >= 0 && self <= 1000000",message="weight must be from 0 to 1000000"
	Weight *int32 `json:"weight,omitempty"`
	// MinReplicas is the minimum for each matching cluster. It defaults to 0.
	// +optional
	// +kubebuilder:validation:XValidation:rule="self >= 0",message="minReplicas must be zero or more"
	MinReplicas *int32 `json:"minReplicas,omitempty"`
	// MaxReplicas is the maximum for each matching cluster. Without it, there is no maximum.
	// +optional
	// +kubebuilder:validation:XValidation:rule="self >= 0",message="maxReplicas must be zero or more"
	MaxReplicas *int32 `json:"maxReplicas,omitempty"`
}
