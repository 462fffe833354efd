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
	order := func(u use) int { // those in use first
		if in.last(u).Snapshot != "" {
			return 0
		}
		return 1
	}
	slices.SortStableFunc(uses, func(a, b use) int { return cmp.Compare(order(a), order(b)) })
	return uses[:MaxSources], len(uses) - MaxSources
}

// boundSize blocks the new contents that would make the configuration too large. Contents in use
// count first. Of the new contents, those that grow least come first, so that one that shrinks makes
// place for others.
func boundSize(sources []*source, stored storedSnapshots) {
	var size int64
	var changed []*source
	for _, s := range sources {
		size += stored.sizeInUse(s)
		if s.isChanged() && s.isOther() {
			changed = append(changed, s)
		}
	}
	growth := func(s *source) int64 { return s.hub.Size - stored.sizeInUse(s) }
	slices.SortStableFunc(changed, func(a, b *source) int { return cmp.Compare(growth(a), growth(b)) })
	for _, s := range changed {
		if growth(s) > 0 && size+growth(s) > MaxSize {
			s.block(&Problem{v1alpha1.ReasonTooLarge, fmt.Sprintf("with %s, the configuration would have %d bytes, and %d are allowed: make it smaller, or divide the AppService", s.describe(), size+growth(s), MaxSize)})
			continue
		}
		size += growth(s)
	}
}
