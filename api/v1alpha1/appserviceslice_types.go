package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// AppServiceSlice has a part of the entries of a large AppService.
// If status.clustersIn of an AppService is Slices, it has 64 slices, numbered from 0.
// Each cluster belongs to one of them, by a hash of its name.
// The name of a slice is the name of the AppService, a dash and the number.
// Only Fleetwright writes slices.
//
// +genclient
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=appserviceslices,singular=appserviceslice,categories={fleet}
// +kubebuilder:printcolumn:name="Slot",type=integer,JSONPath=`.slot`
// +kubebuilder:printcolumn:name="Clusters",type=string,JSONPath=`.summary.display`,description="Ready clusters / clusters of the plan in this slice"
// +kubebuilder:printcolumn:name="Failed",type=integer,JSONPath=`.summary.failed`
// +kubebuilder:printcolumn:name="Unknown",type=integer,JSONPath=`.summary.unknown`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type AppServiceSlice struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitzero"`

	// AppService is the AppService that the entries belong to, in the namespace of the slice.
	// +required
	AppService AppServiceReference `json:"appService"`
	// Slot is the number of the slice.
	// +required
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=63
	Slot int32 `json:"slot"`
	// Summary counts the entries of the slice.
	// +optional
	Summary SliceSummary `json:"summary,omitzero"`
	// Clusters are the entries, as in status.clusters of an AppService, sorted by name.
	// +optional
	// +listType=atomic
	Clusters []ClusterStatus `json:"clusters,omitempty"`
}

// AppServiceReference identifies an AppService.
type AppServiceReference struct {
	// Name is the name of the AppService.
	// +kubebuilder:validation:MaxLength=63
	Name string `json:"name"`
	// UID is the UID of the AppService.
	UID types.UID `json:"uid"`
}

// SliceSummary counts the entries of a slice, as status.summary of an AppService counts all entries.
type SliceSummary struct {
	// Display is "ready/clusters", for the printer column.
	Display string `json:"display"`
	// Failed is the number of entries that are Failed.
	Failed int32 `json:"failed"`
	// Unknown is the number of entries that are Unknown.
	Unknown int32 `json:"unknown"`
}

// AppServiceSliceList is a list of AppServiceSlices.
//
// +kubebuilder:object:root=true
type AppServiceSliceList struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ListMeta `json:"metadata,omitzero"`
	Items           []AppServiceSlice `json:"items"`
}

// Cluster returns the entry of the named cluster, or nil.
func (s *AppServiceSlice) Cluster(name string) *ClusterStatus {
	for i := range s.Clusters {
		if s.Clusters[i].Name == name {
			return &s.Clusters[i]
		}
	}
	return nil
}
