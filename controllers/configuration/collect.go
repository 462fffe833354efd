package configuration

import (
	"fmt"
	"time"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
)

const (
	// quietPeriod is how long no change may follow until changes are used.
	quietPeriod = time.Second
	// maxCollecting is how long changes are collected at most.
	maxCollecting = 10 * time.Second
	// changeInterval is the mean time between changes that are used, after a burst.
	changeInterval = time.Minute
	// maxBurst is the number of changes that may be used without waiting.
	maxBurst = 5
)

// collection is what happens to the sources that have changed.
type collection struct {
	memory Memory
	// read are the sources to read now.
	read []Ref
	// isCollecting is set until the changes may be used.
	isCollecting bool
	// isThrottled is set if they are read, and used later.
	isThrottled bool
	// after is when to decide again, or 0.
	after time.Duration
}

// collect decides when the changed sources are read and used: all at once, so that one commit is one
// revision.
func (in Input) collect(changed []*source) collection {
	result := collection{memory: Memory{Paid: in.Memory.Paid}}
	if len(changed) == 0 {
		return result
	}
	result.memory = in.withChanges(changed)
	due := result.memory.Last.Add(quietPeriod)
	if latest := result.memory.First.Add(maxCollecting); latest.Before(due) {
		due = latest
	}
	if result.after = due.Sub(in.Now); result.after > 0 {
		result.isCollecting = true
		return result
	}
	result.after = 0
	return in.afterCollecting(changed, result)
}

// afterCollecting decides whether the changed sources are read, used now, or used later.
func (in Input) afterCollecting(changed []*source, result collection) collection {
	hasOther := false
	for _, s := range changed {
		if s.name == "" {
			result.read = append(result.read, s.Ref)
		}
		hasOther = hasOther || s.isOther()
	}
	switch wait := in.throttle(); {
	case len(result.read) > 0:
		result.isCollecting = true
	case hasOther && wait > 0:
		result.isThrottled, result.after = true, wait
		for _, s := range changed {
			if !s.isOther() { // it is not throttled
				delete(result.memory.Versions, s.Ref)
			}
		}
	case hasOther:
		result.memory = Memory{Paid: in.paid().Add(changeInterval)}
	default:
		result.memory = Memory{Paid: in.Memory.Paid}
	}
	return result
}

// withChanges returns the memory with the versions of the changed sources.
func (in Input) withChanges(changed []*source) Memory {
	memory := Memory{Versions: make(map[Ref]string, len(changed)), First: in.Memory.First, Last: in.Memory.Last, Paid: in.Memory.Paid}
	for _, s := range changed {
		memory.Versions[s.Ref] = s.version()
		if seen, found := in.Memory.Versions[s.Ref]; !found || seen != s.version() {
			memory.Last = in.Now
		}
	}
	if memory.First.IsZero() || memory.Last.After(in.Now) { // or the clock was set back
		memory.First, memory.Last = in.Now, in.Now
	}
	return memory
}

// paid returns when the last change will have been paid for.
func (in Input) paid() time.Time {
	isFromOtherClock := in.Memory.Paid.Sub(in.Now) > maxBurst*changeInterval
	if in.Memory.Paid.After(in.Now) && !isFromOtherClock {
		return in.Memory.Paid
	}
	return in.Now
}

// throttle returns how long the next change has to wait, or 0.
func (in Input) throttle() time.Duration {
	return max(0, in.paid().Sub(in.Now)-(maxBurst-1)*changeInterval)
}

// useChanges uses the content of the changed sources, or sets why it is not used yet. It returns the
// snapshots to create.
func (in Input) useChanges(changed []*source, c collection) []Creation {
	var created []Creation
	for _, s := range changed {
		switch {
		case c.isCollecting:
			s.problem = &Problem{v1alpha1.ReasonConfigurationChanged, fmt.Sprintf("%s has changed, and is used when no change has followed for a second", s.describe())}
			continue
		case c.isThrottled && s.isOther():
			s.problem = &Problem{v1alpha1.ReasonConfigurationChangesOften, fmt.Sprintf("%s has changed too often, and changes are used once a minute: find out what changes it", s.describe())}
			continue
		}
		serial := s.last.Serial
		if s.isOther() {
			serial = in.nextSerial(s)
		}
		if !IsAbsent(s.name) && in.snapshot(s.name, s.Ref) == nil {
			created = append(created, Creation{s.Ref, s.name, serial})
		}
		s.accept(serial)
	}
	return created
}
