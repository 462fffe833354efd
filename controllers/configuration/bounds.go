package configuration

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
)

const (
	// MaxSources is the maximum number of sources of an AppService, with those of its overrides.
	MaxSources = 64
	// MaxSize is the maximum size of all contents of an AppService, in bytes. The API server allows
	// 1 MiB for one object.
	MaxSize = 2 << 20
)

// boundSources returns the first sources, and the number of the others. A source that is in use is
// never one of the others because of a new one.
func (in Input) boundSources(uses []use) (first []use, others int) {
	if len(uses) <= MaxSources {
		return uses, 0
	}
	slices.SortStableFunc(uses, func(a, b use) int { return cmp.Compare(in.order(a), in.order(b)) })
	return uses[:MaxSources], len(uses) - MaxSources
}

// order returns 0 if the source is in use, and 1 otherwise.
func (in Input) order(u use) int {
	if in.last(u).Snapshot != "" {
		return 0
	}
	return 1
}

// boundSize blocks the new contents that would make the configuration too large. Contents in use
// count first. Of the new contents, those that grow least come first, so that one that shrinks makes
// place for others.
func (in Input) boundSize(sources []*source) {
	var size int64
	var changed []*source
	for _, s := range sources {
		size += in.sizeInUse(s)
		if s.isChanged() && s.isOther() {
			changed = append(changed, s)
		}
	}
	growth := func(s *source) int64 { return s.hub.Size - in.sizeInUse(s) }
	slices.SortStableFunc(changed, func(a, b *source) int { return cmp.Compare(growth(a), growth(b)) })
	for _, s := range changed {
		if growth(s) > 0 && size+growth(s) > MaxSize {
			s.block(&Problem{v1alpha1.ReasonTooLarge, fmt.Sprintf("with %s, the configuration would have %d bytes, and %d are allowed: make it smaller, or divide the AppService", s.describe(), size+growth(s), MaxSize)})
			continue
		}
		size += growth(s)
	}
}

// sizeInUse returns the size of the content that a source has in use.
func (in Input) sizeInUse(s *source) int64 {
	if snapshot := in.snapshot(s.last.Snapshot, s.Ref); snapshot != nil {
		return snapshot.Size
	}
	return 0
}
