package configuration

import (
	"fmt"
	"slices"
	"time"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
)

const (
	// quietPeriod is how long no change may follow until changes are used.
	quietPeriod = time.Second
	// maxCollecting is how long changes are collected at most.
	maxCollecting = 10 * time.Second
)

// collection is what happens to the sources that have changed.
type collection struct {
	pace pace
	// memory is the next memory.
	memory Memory
	// read are the sources to read now.
	read []Ref
	// used are the sources whose present content is to be used now.
	used []*source
	// isCollecting is set until the changes may be used.
	isCollecting bool
	// after is when to decide again, or 0.
	after time.Duration
}

// recheck makes the next decision come after this time at the latest.
func (c *collection) recheck(after time.Duration) { c.after = earlier(c.after, after) }

// collect decides when the changed sources are read and used.
//
// A new version is read at once. If it has the same content, only the version is noted. Otherwise, the
// changes of all sources are collected, and used at once, so that one commit is one revision. A source
// that has changed too often waits until it may be read and used again.
func collect(sources []*source, memory Memory, now time.Time) collection {
	c := collection{pace: pace{memory, now}, memory: Memory{Paid: memory.Paid, Reads: map[Ref]Reads{}}}
	var collected, waiting []*source
	for _, s := range sources {
		reads := c.pace.readsOf(s)
		_, isCollected := memory.Versions[s.Ref]
		switch {
		case !s.isChanged():
			reads.IsWaiting = false
		case s.isSame():
			s.accept(s.last.Serial)
			c.pace.endWaiting(&reads)
		case reads.IsWaiting:
			waiting = append(waiting, s)
		case s.name != "" || isCollected:
			collected = append(collected, s)
		case c.pace.untilRead(reads) > 0:
			reads.IsWaiting = true
			waiting = append(waiting, s)
		default:
			c.read = append(c.read, s.Ref)
		}
		c.memory.Reads[s.Ref] = reads
	}
	if len(c.read) > 0 { // decide again then
		c.isCollecting = true
		return c
	}
	waiting = append(waiting, c.useCollected(collected)...)
	c.useWaiting(waiting)
	c.pay()
	return c
}

// useCollected decides about changes that are being collected. It returns the sources that have to wait
// because there were too many changes.
func (c *collection) useCollected(collected []*source) (waiting []*source) {
	wait := func(s *source) bool {
		reads := c.memory.Reads[s.Ref]
		reads.IsWaiting = s.isOther() && c.pace.throttle() > 0 || s.name == "" && max(c.pace.throttle(), c.pace.untilRead(reads)) > 0
		c.memory.Reads[s.Ref] = reads
		if reads.IsWaiting {
			waiting = append(waiting, s)
		}
		return reads.IsWaiting
	}
	if collected = slices.DeleteFunc(collected, wait); len(collected) == 0 {
		return waiting
	}
	c.addChanges(collected)
	due := c.memory.Last.Add(quietPeriod)
	if latest := c.memory.First.Add(maxCollecting); latest.Before(due) {
		due = latest
	}
	if after := due.Sub(c.pace.now); after > 0 {
		c.recheck(after)
		c.isCollecting = true
	}
	for _, s := range collected {
		switch {
		case c.isCollecting:
			s.problem = &Problem{v1alpha1.ReasonConfigurationChanged, fmt.Sprintf("%s has changed, and is used when no change has followed for a second", s.describe())}
		case s.name == "":
			c.read = append(c.read, s.Ref)
		default:
			c.used = append(c.used, s)
		}
	}
	return waiting
}

// useWaiting decides about sources that wait because there were too many changes. They are not
// collected, and not ahead of changes that are.
func (c *collection) useWaiting(waiting []*source) {
	for _, s := range waiting {
		wait := c.pace.throttle()
		if s.name == "" {
			wait = max(wait, c.pace.untilRead(c.memory.Reads[s.Ref]))
		}
		switch {
		case wait == 0 && !c.isCollecting && s.name == "":
			c.read = append(c.read, s.Ref)
			continue
		case wait == 0 && !c.isCollecting:
			c.used = append(c.used, s)
			continue
		case wait > 0:
			c.recheck(wait)
		}
		s.problem = s.changesOften()
		if !c.pace.isOften(c.memory.Reads[s.Ref]) {
			s.isDelayed = true
			s.problem = &Problem{v1alpha1.ReasonConfigurationChanged, fmt.Sprintf("%s has changed, and is used within a minute, because the configuration of this AppService changes often", s.describe())}
		}
	}
}

// pay updates the memory for the changes that are used, unless something must be read before.
func (c *collection) pay() {
	if len(c.read) > 0 {
		c.isCollecting, c.used = true, nil
		return
	}
	if slices.ContainsFunc(c.used, (*source).isOther) {
		c.memory.Paid = c.pace.paid(c.pace.memory.Paid).Add(changeInterval)
	}
	for _, s := range c.used {
		reads := c.memory.Reads[s.Ref]
		if s.isOther() {
			reads.ChangesPaid = c.pace.paid(reads.ChangesPaid).Add(changeInterval)
		}
		c.pace.endWaiting(&reads)
		c.memory.Reads[s.Ref] = reads
	}
	if !c.isCollecting {
		c.memory.Versions, c.memory.First, c.memory.Last = nil, time.Time{}, time.Time{}
	}
	for _, reads := range c.memory.Reads {
		if left := reads.OftenUntil.Sub(c.pace.now); left > 0 && !reads.IsWaiting {
			c.recheck(left)
		}
	}
}

// changesOften returns the problem of a source that has changed too often.
func (s *source) changesOften() *Problem {
	return &Problem{v1alpha1.ReasonConfigurationChangesOften, fmt.Sprintf("%s has changed too often, and changes are used once a minute: find out what changes it", s.describe())}
}

// addChanges adds the versions of changed sources to the next memory.
func (c *collection) addChanges(changed []*source) {
	memory, previous, now := &c.memory, c.pace.memory, c.pace.now
	memory.Versions = make(map[Ref]string, len(changed))
	memory.First, memory.Last = previous.First, previous.Last
	for _, s := range changed {
		memory.Versions[s.Ref] = s.version()
		if seen, found := previous.Versions[s.Ref]; !found || seen != s.version() {
			memory.Last = now
		}
	}
	if memory.First.IsZero() || memory.Last.After(now) { // or the clock was set back
		memory.First, memory.Last = now, now
	}
}

// useChanges uses the content of changed sources, and returns the snapshots to create.
func useChanges(changed []*source, serials knownSerials) []Creation {
	var created []Creation
	for _, s := range changed {
		serial := s.last.Serial
		if s.isOther() {
			serial = serials.next(s)
		}
		if !IsAbsent(s.name) && serials.stored.snapshot(s.name, s.Ref) == nil {
			created = append(created, Creation{s.Ref, s.name, serial})
		}
		s.accept(serial)
	}
	return created
}
