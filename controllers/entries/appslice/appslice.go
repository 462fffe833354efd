// Package appslice computes AppServiceSlices from the entries of an AppService, and the reverse. It
// is pure. Up to [DefaultThreshold] entries are in status.clusters. More of them are in
// AppServiceSlices, because an object of etcd must not exceed 1.5 MiB.
//
// # Contract
//
//   - An AppService whose entries are in slices has all [v1alpha1.SliceCount] slices, even if some are
//     empty. So a missing slice is no evidence that its clusters have no entry.
//   - A cluster always belongs to the same slot. A change of one entry changes one slice.
//   - [Join] returns what [Split] was given. It ignores entries that were edited by hand so that
//     they are in the wrong slice or occur twice.
//   - Nothing here modifies its input, because that belongs to a cache.
package appslice

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
)

// DefaultThreshold is the number of entries above which they move to slices.
const DefaultThreshold = 1000

// Slices are the AppServiceSlices of one AppService by slot; nil where one is missing.
type Slices [v1alpha1.SliceCount]*v1alpha1.AppServiceSlice

// Missing returns the number of missing slices.
func (s *Slices) Missing() int {
	missing := 0
	for _, slice := range s {
		if slice == nil {
			missing++
		}
	}
	return missing
}

// BelongInSlices reports whether this many entries are to be in slices. They move back when a fifth
// less than the threshold is left, so that they do not move to and fro.
// docs/decisions/large-statuses-are-in-slices.md says why.
func BelongInSlices(count, threshold int, areInSlices bool) bool {
	if areInSlices {
		return count >= threshold-threshold/5
	}
	return count > threshold
}

// Split returns the slices that store these entries.
func Split(app *v1alpha1.AppService, all []v1alpha1.ClusterStatus) Slices {
	var parts [v1alpha1.SliceCount][]v1alpha1.ClusterStatus
	for _, entry := range all {
		slot := v1alpha1.SlotOf(entry.Name)
		parts[slot] = append(parts[slot], entry)
	}
	var split Slices
	for i := range split {
		slot := int32(i)
		split[i] = &v1alpha1.AppServiceSlice{
			ObjectMeta: metav1.ObjectMeta{
				Namespace:       app.Namespace,
				Name:            v1alpha1.SliceName(app.Name, slot),
				Labels:          map[string]string{v1alpha1.LabelAppService: app.Name, v1alpha1.LabelSlot: strconv.Itoa(i)},
				OwnerReferences: []metav1.OwnerReference{ownerReference(app)},
			},
			AppService: v1alpha1.AppServiceReference{Name: app.Name, UID: app.UID},
			Slot:       slot,
			Summary:    summarize(parts[i]),
			Clusters:   parts[i],
		}
	}
	return split
}

func ownerReference(app *v1alpha1.AppService) metav1.OwnerReference {
	return metav1.OwnerReference{
		APIVersion: v1alpha1.GroupVersion.String(), Kind: "AppService", Name: app.Name, UID: app.UID, Controller: new(true),
	}
}

// summarize counts the entries of a slice, as status.summary of an AppService does.
func summarize(part []v1alpha1.ClusterStatus) v1alpha1.SliceSummary {
	var sum v1alpha1.SliceSummary
	var ready, clusters int
	for i := range part {
		switch part[i].Phase {
		case v1alpha1.ClusterDetached, v1alpha1.ClusterRemoving:
			continue
		case v1alpha1.ClusterReady:
			ready++
		case v1alpha1.ClusterFailed:
			sum.Failed++
		case v1alpha1.ClusterUnknown:
			sum.Unknown++
		}
		clusters++
	}
	sum.Display = fmt.Sprintf("%d/%d", ready, clusters)
	return sum
}

// IsStored reports whether a slice of the hub, or nil, is the one that is to be stored. Labels,
// annotations and owners that other clients added do not count.
func IsStored(stored, want *v1alpha1.AppServiceSlice) bool {
	if stored == nil || stored.AppService != want.AppService || stored.Slot != want.Slot || stored.Summary != want.Summary {
		return false
	}
	for key, value := range want.Labels {
		if stored.Labels[key] != value {
			return false
		}
	}
	owned := slices.ContainsFunc(stored.OwnerReferences, func(owner metav1.OwnerReference) bool { return owner.UID == want.AppService.UID })
	return owned && equality.Semantic.DeepEqual(stored.Clusters, want.Clusters)
}

// Replace returns the slice that replaces a stored slice. It keeps what other clients added.
func Replace(stored, want *v1alpha1.AppServiceSlice) *v1alpha1.AppServiceSlice {
	next := *want
	next.ObjectMeta = *stored.ObjectMeta.DeepCopy()
	next.Labels = maps.Clone(stored.Labels)
	if next.Labels == nil {
		next.Labels = map[string]string{}
	}
	maps.Copy(next.Labels, want.Labels)
	next.OwnerReferences = slices.DeleteFunc(next.OwnerReferences, func(owner metav1.OwnerReference) bool {
		return owner.UID == want.AppService.UID || owner.Controller != nil && *owner.Controller
	})
	next.OwnerReferences = append(next.OwnerReferences, want.OwnerReferences...)
	return &next
}

// WithLastKnown returns the slices with one for each missing slot of which an entry is known, by the
// worst entries in the status of the AppService. It adds no other slice.
func (s Slices) WithLastKnown(app *v1alpha1.AppService) Slices {
	complete := s
	for slot, slice := range Split(app, app.Status.WorstClusters) {
		if s[slot] == nil && len(slice.Clusters) > 0 {
			complete[slot] = slice
		}
	}
	return complete
}

// Join returns the entries of the slices, sorted by name. Other than [v1alpha1.AppService.Entries], it
// does not read the field slot, which another client may have edited: no entry is lost by that.
func Join(stored Slices) []v1alpha1.ClusterStatus {
	var all []v1alpha1.ClusterStatus
	for slot, slice := range stored {
		if slice == nil {
			continue
		}
		for i := range slice.Clusters {
			if v1alpha1.SlotOf(slice.Clusters[i].Name) == int32(slot) {
				all = append(all, slice.Clusters[i])
			}
		}
	}
	slices.SortStableFunc(all, func(a, b v1alpha1.ClusterStatus) int { return cmp.Compare(a.Name, b.Name) })
	return slices.CompactFunc(all, func(a, b v1alpha1.ClusterStatus) bool { return a.Name == b.Name })
}
