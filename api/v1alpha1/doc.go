// Package v1alpha1 is the API of Fleetwright: [AppService], what runs and where, and [MemberCluster], a
// cluster that it can run on. It holds types, the names of labels and annotations, and every condition type
// and reason as a documented constant; no behaviour beyond small accessors. It depends on
// k8s.io/apimachinery and k8s.io/api alone, so that a client can import it without the operator.
//
// +kubebuilder:object:generate=true
// +groupName=fleetwright.dev
package v1alpha1
