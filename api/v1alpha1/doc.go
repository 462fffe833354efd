// Package v1alpha1 is the API of Fleetwright: [AppService], a workload and its placement, and
// [MemberCluster], a cluster that it can run on. It contains types, the names of labels and
// annotations, and every condition type and reason as a documented constant; and small accessors.
// It depends on k8s.io/apimachinery and k8s.io/api only, so that a client can import it without the
// operator.
//
// The schema and CEL rules validate. The syntax of label selectors and of patches is checked when the
// plan is made, and a mistake is a reason. A webhook would check it at once, but it must be available
// whenever a client writes an AppService.
//
// Another version of the API will have the same fields, so that nothing must convert:
// docs/decisions/versions-of-the-api-share-a-schema.md.
//
// [The examples] show what a Go client does: create, apply, wait until Ready, watch, read the entries,
// approve a stage.
//
// The JSON of an object has no field that is not set. So a client can apply a typed object, converted
// to an unstructured one: docs/decisions/no-apply-configurations.md. Clients use the client and the
// cache of controller-runtime: docs/decisions/no-typed-clientset.md.
//
// +kubebuilder:object:generate=true
// +groupName=fleetwright.dev
//
// [The examples]: https://github.com/fleetwright/fleetwright/blob/main/api/v1alpha1/example_test.go
package v1alpha1
