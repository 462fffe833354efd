// Package v1alpha1 is the API of Fleetwright: [AppService], a workload and its placement, and
// [MemberCluster], a cluster that it can run on. It contains types, the names of labels and
// annotations, and every condition type and reason as a documented constant; and small accessors.
// It depends on k8s.io/apimachinery and k8s.io/api only, so that a client can import it without the
// operator.
//
// Package applyconfiguration, which is generated, has the types for server-side apply. It also
// depends on k8s.io/client-go/applyconfigurations.
//
// +kubebuilder:object:generate=true
// +kubebuilder:ac:generate=true
// +groupName=fleetwright.dev
package v1alpha1
