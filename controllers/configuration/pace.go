package configuration

import "time"

const (
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

// pace limits how often changes are used, and how often each source is read.
type pace struct {
	// memory is that of the last decision.
	memory Memory
	now    time.Time
}

// paid returns when everything until now will have been paid for. A time that is too far ahead is from
// another clock.
func (p pace) paid(last time.Time) time.Time {
	if last.After(p.now) && last.Sub(p.now) <= maxBurst*changeInterval {
		return last
	}
	return p.now
}

// throttle returns how long the next change has to wait, or 0.
func (p pace) throttle() time.Duration {
	paid := p.paid(p.memory.Paid)
	return max(0, paid.Sub(p.now)-(maxBurst-1)*changeInterval)
}

// untilRead returns how long the next read of a source has to wait, or 0.
func (p pace) untilRead(reads Reads) time.Duration {
	paid := p.paid(reads.Paid)
	return max(0, paid.Sub(p.now)-(maxReads-1)*readInterval)
}

// isOften reports whether a source was read or used often within the last minutes. Otherwise, it waits
// because others have changed too often.
func (p pace) isOften(reads Reads) bool {
	const often = maxBurst * changeInterval / 2
	return p.paid(reads.Paid).Sub(p.now) > often || p.paid(reads.ChangesPaid).Sub(p.now) > often
}

// readsOf returns the memory of the reads of a source. What was read since the last decision is paid.
func (p pace) readsOf(s *source) Reads {
	reads := p.memory.Reads[s.Ref]
	if s.hub.Digest != (Digest{}) && s.hub.Version != reads.Version {
		reads.Version = s.hub.Version
		reads.Paid = p.paid(reads.Paid).Add(readInterval)
	}
	if reads.OftenUntil.Sub(p.now) > changeInterval || !reads.OftenUntil.After(p.now) {
		reads.OftenUntil = time.Time{}
	}
	return reads
}

// endWaiting notes that the present content of a source is in use. Its reason stays for a while, so that
// the status of a source that changes all the time does not.
func (p pace) endWaiting(reads *Reads) {
	if reads.IsWaiting && p.isOften(*reads) {
		reads.OftenUntil = p.now.Add(changeInterval)
	}
	reads.IsWaiting = false
}
