package copies

import (
	"encoding/json"
	"maps"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/fleetwright/fleetwright/controllers/numbering"
	"github.com/fleetwright/fleetwright/controllers/revision"
)

// Memory is what this process knows about the copies that a Deployment owns. An empty one is valid.
type Memory struct {
	owner types.UID // of the Deployment
	known map[Key]state
	// nextDeletion is when to try again to delete copies, after it failed.
	nextDeletion time.Time
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

// learn brings the memory up to date with the Deployment that owns the copies. The record counts
// for copies that the Deployment uses. Others may have been deleted by a process that ended before
// it could write that. It does not count for a Deployment whose copies may never have been applied:
// one of an earlier AppService, one that has taken the place of another, and one whose record is
// not confirmed. A content that is newer than that of the hub is left alone. A serial that is an
// outlier says nothing about the content, so the copy is applied.
func (f Facts) learn() {
	memory := f.Memory
	isReplaced := memory.owner != "" && memory.owner != f.Deployment.UID || !f.IsOwned
	memory.beginFor(f.Deployment.UID)
	record, uses := f.Record(), f.usedNames()
	for _, needed := range f.Needed {
		key := KeyOf(needed)
		if known, isKnown := memory.known[key]; isKnown {
			memory.known[key] = known.compareWith(record, key)
			continue
		}
		memory.known[key] = state{}
		serial, isRecorded := record.Serial(key)
		isRecorded = isRecorded && !numbering.IsOutlier(serial, max(needed.Serial, f.App.Status.ConfigurationSerial))
		if isRecorded && !isReplaced && f.isConfirmed(key) && (serial > needed.Serial || uses(key.Name)) {
			memory.known[key] = state{isThere: true, serial: serial, isRecorded: true, recorded: serial}
		}
	}
}

// learnNew brings the memory up to date with a Deployment that owns no copies yet, except for those
// that were applied before an earlier try failed.
func (f Facts) learnNew() {
	f.Memory.beginFor(f.NewOwner)
	for _, needed := range f.Needed {
		if _, isKnown := f.Memory.known[KeyOf(needed)]; !isKnown {
			f.Memory.known[KeyOf(needed)] = state{}
		}
	}
}

// usedNames returns a function that reports whether the Deployment on the member uses the copy with
// this name. A copy that no pod refers to is used by the revision that lists it.
func (f Facts) usedNames() func(string) bool {
	if revision.Of(f.Deployment) == f.Entry.Revision {
		return func(string) bool { return true }
	}
	var template []byte
	return func(name string) bool {
		if template == nil {
			template, _ = json.Marshal(f.Deployment.Spec.Template.Spec)
		}
		return strings.Contains(string(template), name)
	}
}

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

// UntilDeletion returns how long deletions must wait.
func (m *Memory) UntilDeletion(now time.Time) time.Duration { return m.nextDeletion.Sub(now) }

// forgetGone forgets the copies that are gone, and that the record does not list.
func (f Facts) forgetGone() {
	record := f.Record()
	maps.DeleteFunc(f.Memory.known, func(key Key, s state) bool {
		_, isRecorded := record.Serial(key)
		return !s.isThere && !isRecorded && !f.needs(key)
	})
}
