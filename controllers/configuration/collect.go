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
	// changeInterval is the mean time between changes that are used, after a burst.
	changeInterval = time.Minute
	// maxBurst is the number of changes that may be used without waiting.
	maxBurst = 5
	// readInterval and maxReads limit the reads of each source in the same way, with the same maximum
	// of five minutes ahead. A change that is used takes two reads at most: when it begins, and when no
	// other has followed.
	readInterval = changeInterval / 2
	maxReads     = 2 * maxBurst
)

// collection is what happens to the sources that have changed.
type collection struct {
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
func (in Input) collect(sources []*source) collection {
	c := collection{memory: Memory{Paid: in.Memory.Paid, Reads: map[Ref]Reads{}}}
	var collected, waiting []*source
	for _, s := range sources {
		reads := in.readsOf(s)
		_, isCollected := in.Memory.Versions[s.Ref]
		switch {
		case !s.isChanged():
			reads.IsWaiting = false
		case s.isSame():
			s.accept(s.last.Serial)
			in.endWaiting(&reads)
		case reads.IsWaiting:
			waiting = append(waiting, s)
		case s.name != "" || isCollected:
			collected = append(collected, s)
		case in.untilRead(reads) > 0:
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
	waiting = append(waiting, in.useCollected(&c, collected)...)
	in.useWaiting(&c, waiting)
	in.pay(&c)
	return c
}

// useCollected decides about changes that are being collected. It returns the sources that have to wait
// because there were too many changes.
func (in Input) useCollected(c *collection, collected []*source) (waiting []*source) {
	wait := func(s *source) bool {
		reads := c.memory.Reads[s.Ref]
		reads.IsWaiting = s.isOther() && in.throttle() > 0 || s.name == "" && max(in.throttle(), in.untilRead(reads)) > 0
		c.memory.Reads[s.Ref] = reads
		if reads.IsWaiting {
			waiting = append(waiting, s)
		}
		return reads.IsWaiting
	}
	if collected = slices.DeleteFunc(collected, wait); len(collected) == 0 {
		return waiting
	}
	in.addChanges(&c.memory, collected)
	due := c.memory.Last.Add(quietPeriod)
	if latest := c.memory.First.Add(maxCollecting); latest.Before(due) {
		due = latest
	}
	if after := due.Sub(in.Now); after > 0 {
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
func (in Input) useWaiting(c *collection, waiting []*source) {
	for _, s := range waiting {
		wait := in.throttle()
		if s.name == "" {
			wait = max(wait, in.untilRead(c.memory.Reads[s.Ref]))
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
		if !in.isOften(c.memory.Reads[s.Ref]) {
			s.isDelayed = true
			s.problem = &Problem{v1alpha1.ReasonConfigurationChanged, fmt.Sprintf("%s has changed, and is used within a minute, because the configuration of this AppService changes often", s.describe())}
		}
	}
}

// isOften reports whether a source was read or used often within the last minutes. Otherwise, it waits
// because others have changed too often.
func (in Input) isOften(reads Reads) bool {
	const often = maxBurst * changeInterval / 2
	return in.paid(reads.Paid).Sub(in.Now) > often || in.paid(reads.ChangesPaid).Sub(in.Now) > often
}

// pay updates the memory for the changes that are used, unless something must be read before.
func (in Input) pay(c *collection) {
	if len(c.read) > 0 {
		c.isCollecting, c.used = true, nil
		return
	}
	if slices.ContainsFunc(c.used, (*source).isOther) {
		c.memory.Paid = in.paid(in.Memory.Paid).Add(changeInterval)
	}
	for _, s := range c.used {
		reads := c.memory.Reads[s.Ref]
		if s.isOther() {
			reads.ChangesPaid = in.paid(reads.ChangesPaid).Add(changeInterval)
		}
		in.endWaiting(&reads)
		c.memory.Reads[s.Ref] = reads
	}
	if !c.isCollecting {
		c.memory.Versions, c.memory.First, c.memory.Last = nil, time.Time{}, time.Time{}
	}
	for _, reads := range c.memory.Reads {
		if left := reads.OftenUntil.Sub(in.Now); left > 0 && !reads.IsWaiting {
			c.recheck(left)
		}
	}
}

// changesOften returns the problem of a source that has changed too often.
func (s *source) changesOften() *Problem {
	return &Problem{v1alpha1.ReasonConfigurationChangesOften, fmt.Sprintf("%s has changed too often, and changes are used once a minute: find out what changes it", s.describe())}
}

// readsOf returns the memory of the reads of a source. What was read since the last decision is paid.
func (in Input) readsOf(s *source) Reads {
	reads := in.Memory.Reads[s.Ref]
	if s.hub.Digest != (Digest{}) && s.hub.Version != reads.Version {
		reads.Version = s.hub.Version
		reads.Paid = in.paid(reads.Paid).Add(readInterval)
	}
	if reads.OftenUntil.Sub(in.Now) > changeInterval || !reads.OftenUntil.After(in.Now) {
		reads.OftenUntil = time.Time{}
	}
	return reads
}

// endWaiting notes that the present content of a source is in use. Its reason stays for a while, so that
// the status of a source that changes all the time does not.
func (in Input) endWaiting(reads *Reads) {
	if reads.IsWaiting && in.isOften(*reads) {
		reads.OftenUntil = in.Now.Add(changeInterval)
	}
	reads.IsWaiting = false
}

// addChanges adds the versions of changed sources to a memory.
func (in Input) addChanges(memory *Memory, changed []*source) {
	memory.Versions = make(map[Ref]string, len(changed))
	memory.First, memory.Last = in.Memory.First, in.Memory.Last
	for _, s := range changed {
		memory.Versions[s.Ref] = s.version()
		if seen, found := in.Memory.Versions[s.Ref]; !found || seen != s.version() {
			memory.Last = in.Now
		}
	}
	if memory.First.IsZero() || memory.Last.After(in.Now) { // or the clock was set back
		memory.First, memory.Last = in.Now, in.Now
	}
}

// paid returns when everything until now will have been paid for. A time that is too far ahead is from
// another clock.
func (in Input) paid(last time.Time) time.Time {
	if last.After(in.Now) && last.Sub(in.Now) <= maxBurst*changeInterval {
		return last
	}
	return in.Now
}

// throttle returns how long the next change has to wait, or 0.
func (in Input) throttle() time.Duration {
	paid := in.paid(in.Memory.Paid)
	return max(0, paid.Sub(in.Now)-(maxBurst-1)*changeInterval)
}

// untilRead returns how long the next read of a source has to wait, or 0.
func (in Input) untilRead(reads Reads) time.Duration {
	paid := in.paid(reads.Paid)
	return max(0, paid.Sub(in.Now)-(maxReads-1)*readInterval)
}

// use uses the content of changed sources, and returns the snapshots to create.
func (in Input) use(changed []*source) []Creation {
	var created []Creation
	for _, s := range changed {
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
