package copies

import (
	"maps"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// Memory is what this process knows about the copies that a Deployment owns. An empty one is valid.
type Memory struct {
	owner types.UID // of the Deployment
	known map[Key]state
	// nextPrune is when to try again to delete copies, after it failed.
	nextPrune time.Time
}

// state is what is known of one copy.
type state struct {
	isThere bool
	// serial is that of the content of a copy that is there. It is 0 for a Versioned one.
	serial int64
	// uid is the UID of a copy that is updated in place, if this process has applied it.
	uid types.UID
	// isRecorded is set if the record has listed the copy while it was there, and recorded is the
	// serial in it.
	isRecorded bool
	recorded   int64
}

// has reports whether the copy is there with the content of a serial, or a newer one.
func (s state) has(serial int64) bool { return s.isThere && s.serial >= serial }

// beginFor forgets the copies of another Deployment.
func (m *Memory) beginFor(owner types.UID) {
	if m.owner != owner || m.known == nil {
		*m = Memory{owner: owner, known: map[Key]state{}}
	}
}

// compareWith compares what is known of a copy with the record. If the record had it, or a newer
// content of it, the member was restored to an earlier state.
func (s state) compareWith(record Record, key Key) state {
	serial, isRecorded := record.Serial(key)
	switch {
	case !s.isThere:
		s.isRecorded, s.recorded = false, 0
	case isRecorded && s.isRecorded && serial < s.recorded:
		s.serial, s.recorded = serial, serial
	case isRecorded:
		s.isRecorded, s.recorded = true, serial
	case s.isRecorded:
		s = state{}
	}
	return s
}

// noteApplied records that a copy has the content of a serial.
func (m *Memory) noteApplied(key Key, serial int64, uid types.UID) {
	s := m.known[key]
	s.isThere, s.serial = true, serial
	if serial > 0 {
		s.uid = uid
	}
	m.known[key] = s
}

// noteFailed forgets the UID of a copy: it may be that of a copy that is gone.
func (m *Memory) noteFailed(key Key) {
	if s, isKnown := m.known[key]; isKnown {
		s.uid = ""
		m.known[key] = s
	}
}

// noteDeleted records that a copy is gone.
func (m *Memory) noteDeleted(key Key) { m.known[key] = state{} }

// isApplied reports whether this process knows that a copy is there.
func (m *Memory) isApplied(key Key) bool { return m.known[key].isThere }

// isDeleted reports whether this process knows that a copy is not there.
func (m *Memory) isDeleted(key Key) bool {
	s, isKnown := m.known[key]
	return isKnown && !s.isThere
}

// DelayPrune makes the next deletions wait.
func (m *Memory) DelayPrune(until time.Time) { m.nextPrune = until }

// UntilPrune returns how long deletions must wait.
func (m *Memory) UntilPrune(now time.Time) time.Duration { return m.nextPrune.Sub(now) }

// ForgetGone forgets the copies that are gone, and that the record does not list.
func (f Facts) ForgetGone() {
	record := f.Record()
	maps.DeleteFunc(f.Memory.known, func(key Key, s state) bool {
		_, isRecorded := record.Serial(key)
		return !s.isThere && !isRecorded && !f.needs(key)
	})
}
