package v1alpha1

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"slices"
)

// SliceCount is the number of AppServiceSlices of an AppService whose entries are in slices. It never
// changes.
const SliceCount = 64

// SlotOf returns the number of the AppServiceSlice that the entry of a cluster belongs to. It never
// changes, so a client that needs one entry reads one slice.
func SlotOf(cluster string) int32 {
	hash := sha256.Sum256([]byte(cluster))
	return int32(binary.BigEndian.Uint64(hash[:8]) % SliceCount)
}

// SliceName returns the name of an AppServiceSlice of the named AppService.
func SliceName(app string, slot int32) string { return fmt.Sprintf("%s-%d", app, slot) }

// Entries returns the entries of all clusters, wherever they are stored, sorted by name. The
// AppServiceSlices are those of a list by the label [LabelAppService]; slices of other AppServices are
// ignored. The entries share memory with the AppService and the slices.
//
// It reports whether the entries are complete. They are not if a slice is missing, because another
// client deleted it, or because the entries moved after the AppService was read. A missing slice is no
// evidence that its clusters have no entry: read the AppService and its slices again.
func (a *AppService) Entries(stored []AppServiceSlice) (entries []ClusterStatus, complete bool) {
	if !a.Status.HasSlices() {
		return a.Status.Clusters, true
	}
	var found [SliceCount]bool
	for i := range stored {
		slice := &stored[i]
		if !slice.belongsTo(a) || found[slice.Slot] {
			continue
		}
		found[slice.Slot] = true
		for _, entry := range slice.Clusters {
			if SlotOf(entry.Name) == slice.Slot {
				entries = append(entries, entry)
			}
		}
	}
	slices.SortStableFunc(entries, func(x, y ClusterStatus) int { return cmp.Compare(x.Name, y.Name) })
	entries = slices.CompactFunc(entries, func(x, y ClusterStatus) bool { return x.Name == y.Name })
	return entries, !slices.Contains(found[:], false)
}

// belongsTo reports whether Fleetwright wrote the slice for this AppService, and not for an earlier one
// of the same name.
func (s *AppServiceSlice) belongsTo(app *AppService) bool {
	return s.Slot >= 0 && s.Slot < SliceCount &&
		s.Namespace == app.Namespace && s.Name == SliceName(app.Name, s.Slot) && s.AppService.UID == app.UID
}
