package fleet

import (
	"encoding/binary"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/cespare/xxhash/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// key returns a hash of everything on which the future of a state depends. Two states have the same key if
// they differ only in
//
//   - how long ago something was, if it is longer than any rule looks back;
//   - the numbers of revisions, generations and placements, if their order is the same;
//   - texts for users, and what is computed from the entries for them;
//   - the names of clusters, in a symmetric world, if the clusters are alike.
func (c *config) key(s state) uint64 {
	e := encoders.Get().(*encoder)
	defer encoders.Put(e)
	e.now, e.horizons = s.now, c.horizons()
	for i := range e.numbers {
		e.numbers[i] = e.numbers[i][:0]
	}
	e.isCounting = true // the first time only collects the numbers
	e.state(c, &s)
	for i := range e.numbers {
		slices.Sort(e.numbers[i])
		e.numbers[i] = slices.Compact(e.numbers[i])
	}
	e.isCounting = false
	return e.state(c, &s)
}

var encoders = sync.Pool{New: func() any { return &encoder{} }}

// kindOfNumber says which numbers are compared with each other.
type kindOfNumber int

const (
	revisionNumber kindOfNumber = iota
	generationNumber
	placementNumber
	plainNumber
)

// encoder writes a state so that states with the same future are written alike.
type encoder struct {
	now        instant
	horizons   []instant
	isCounting bool
	numbers    [plainNumber][]int64
	buffer     []byte
}

// state writes a state and returns its hash.
func (e *encoder) state(c *config, s *state) uint64 {
	var blocks [most]uint64
	for i := range c.clusters {
		e.buffer = e.buffer[:0]
		e.cluster(s, i)
		blocks[i] = xxhash.Sum64(e.buffer)
	}
	e.buffer = e.buffer[:0]
	e.global(c, s)
	if c.isSymmetric {
		slices.SortFunc(blocks[:len(c.clusters)], func(a, b uint64) int {
			if a < b {
				return -1
			}
			return 1
		})
	}
	for _, block := range blocks[:len(c.clusters)] {
		e.buffer = binary.LittleEndian.AppendUint64(e.buffer, block)
	}
	return xxhash.Sum64(e.buffer)
}

// cluster writes what is known of one cluster, and what it is.
func (e *encoder) cluster(s *state, i int) {
	name, m := clusterName(i), &s.members[i]
	entry := s.app.Status.Cluster(name)
	e.value(reflect.ValueOf(entry), plainNumber)
	seen := s.process.seen[i]
	e.value(reflect.ValueOf(seen), plainNumber)
	if seen != nil {
		e.bool(entry != nil && seen.GoneSince.Equal(&entry.LastTransitionTime))
		e.age(s.process.seenSince[i])
	}
	if s.previous != nil && s.previous != s.app {
		e.value(reflect.ValueOf(s.previous.Status.Cluster(name)), plainNumber)
	}
	e.bool(m.object.HasSecret())
	e.bool(m.object.Spec.Unschedulable)
	e.bool(len(m.object.Spec.Taints) > 0)
	e.string(m.object.Labels["stage"])
	e.bool(m.object.IsReady())
	if !m.object.IsReady() {
		e.age(m.answered)
	}
	e.length(len(m.object.Status.Abandoned))
	for _, tombstone := range m.object.Status.Abandoned {
		e.bool(tombstone.Placement != nil)
		if tombstone.Placement != nil {
			e.number(*tombstone.Placement, placementNumber)
		}
	}
	if m.exists {
		e.number(m.runs, revisionNumber)
		e.number(m.placed, placementNumber)
		e.buffer = append(e.buffer, byte(m.replicas), byte(m.ready))
		e.bool(m.isUpdated)
		e.bool(m.isFailing)
	}
	e.bool(s.memory.chosen&(1<<i) != 0)
	e.bool(s.memory.left&(1<<i) != 0)
	e.bool(slices.Contains(s.app.Status.Rollout.FailedClusters, name))
	e.bool(slices.Contains(s.app.Status.Rollout.ReturnFailedClusters, name))
}

// global writes what is no cluster's.
func (e *encoder) global(c *config, s *state) {
	w := s.wish
	e.buffer = append(e.buffer, byte(w.template), byte(w.replicas), byte(w.limit), byte(w.rollout), byte(w.placement), byte(w.autoscaling), byte(w.overrides), byte(s.broken), byte(s.edits))
	e.bool(w.paused)
	e.bool(w.suspended)
	status := &s.app.Status
	e.number(s.app.Generation, generationNumber)
	e.number(status.ObservedGeneration, generationNumber)
	e.bool(s.app.DeletionTimestamp.IsZero())
	e.bool(s.isGone)
	if s.previous != nil && s.previous != s.app {
		e.number(s.previous.Generation, generationNumber)
		e.number(s.previous.Status.Rollout.Revision, revisionNumber)
		e.string(s.previous.Spec.Image)
	}
	e.value(reflect.ValueOf(&status.Rollout), plainNumber)
	e.value(reflect.ValueOf(&status.Removals), plainNumber)
	e.string(status.Placement.SpecHash)
	e.string(status.Placement.ReplicasHash)
	e.number(status.Placement.Count, placementNumber)
	e.length(len(s.app.Annotations))
	for _, key := range slices.Sorted(maps.Keys(s.app.Annotations)) {
		e.string(key)
		e.request(s.app.Annotations[key])
	}
	e.length(len(s.history))
	for _, stored := range s.history {
		e.number(stored.number, revisionNumber)
		e.buffer = append(e.buffer, byte(stored.template))
	}
	e.age(s.process.since)
	e.bool(s.process.isNew)
	e.memory(&s.memory)
}

// request writes the value of an annotation, which may name a revision or a generation.
func (e *encoder) request(value string) {
	if count, generation, isFound := strings.Cut(value, "@"); isFound {
		number, _ := strconv.ParseInt(generation, 10, 64)
		e.string(count)
		e.number(number, generationNumber)
		return
	}
	number, stage, _ := strings.Cut(value, "/")
	if revision, err := strconv.ParseInt(number, 10, 64); err == nil {
		e.number(revision, revisionNumber)
		e.string(stage)
		return
	}
	e.string(value)
}

// ignored are fields on which no decision depends.
var ignored = map[string]bool{
	"Name": true, "Message": true, "FailedClusters": true, "ReturnFailedClusters": true, "GoneSince": true, "Look": true, "UID": true, "Addresses": true,
	"ObservedAvailableReplicas": true,
}

func kindOf(field string) kindOfNumber {
	switch {
	case strings.HasSuffix(field, "Revision"), strings.HasSuffix(field, "Revisions"):
		return revisionNumber
	case strings.HasSuffix(field, "Generation"), field == "Applied":
		return generationNumber
	case field == "Placement":
		return placementNumber
	}
	return plainNumber
}

// fields are the fields of a struct that are written.
type field struct {
	index int
	kind  kindOfNumber
}

var fieldsOf sync.Map

func written(t reflect.Type) []field {
	if known, isKnown := fieldsOf.Load(t); isKnown {
		return known.([]field)
	}
	var fields []field
	for i := range t.NumField() {
		if f := t.Field(i); !ignored[f.Name] {
			fields = append(fields, field{i, kindOf(f.Name)})
		}
	}
	fieldsOf.Store(t, fields)
	return fields
}

var timeType = reflect.TypeFor[metav1.Time]()

// value writes a value with all of its fields, so that a new field counts by itself.
func (e *encoder) value(v reflect.Value, kind kindOfNumber) {
	switch v.Kind() {
	case reflect.Pointer:
		e.bool(v.IsNil())
		if !v.IsNil() {
			e.value(v.Elem(), kind)
		}
	case reflect.Struct:
		if v.Type() == timeType {
			t := v.Addr().Interface().(*metav1.Time)
			if t.IsZero() {
				e.buffer = append(e.buffer, 255)
				return
			}
			e.age(instant(t.Sub(epoch) / time.Second))
			return
		}
		for _, f := range written(v.Type()) {
			e.value(v.Field(f.index), f.kind)
		}
	case reflect.Slice:
		e.buffer = append(e.buffer, byte(v.Len()))
		for i := range v.Len() {
			e.value(v.Index(i), kind)
		}
	case reflect.String:
		e.string(v.String())
	case reflect.Bool:
		e.bool(v.Bool())
	case reflect.Int32, reflect.Int64:
		e.number(v.Int(), kind)
	default:
		panic("cannot write a " + v.Type().String())
	}
}

func (e *encoder) number(n int64, kind kindOfNumber) {
	switch {
	case kind == plainNumber:
		e.buffer = binary.LittleEndian.AppendUint32(e.buffer, uint32(n))
	case n == 0:
		e.buffer = append(e.buffer, 255)
	case e.isCounting:
		e.numbers[kind] = append(e.numbers[kind], n)
	default:
		rank, _ := slices.BinarySearch(e.numbers[kind], n)
		e.buffer = append(e.buffer, byte(rank))
	}
}

// horizons returns how far rules look back in a world: ages between two of them are alike. Ten minutes is how
// long removals wait for a cluster that fails.
func (c *config) horizons() []instant {
	if slices.ContainsFunc([]string{eventMove, eventLimit, eventLabel, eventDrain, eventDelete}, c.has) {
		return withRemovals
	}
	return withoutRemovals
}

var (
	withoutRemovals = []instant{1 * minute, 2 * minute, 3 * minute, hour}
	withRemovals    = []instant{1 * minute, 2 * minute, 3 * minute, 10 * minute, hour}
)

func (e *encoder) age(t instant) {
	class := 0
	for class < len(e.horizons) && e.now-t >= e.horizons[class] {
		class++
	}
	e.buffer = append(e.buffer, byte(class))
}

func (e *encoder) string(text string) {
	e.buffer = append(e.buffer, text...)
	e.buffer = append(e.buffer, 0)
}

// length writes how many elements follow, so that no list continues the one before.
func (e *encoder) length(n int) { e.buffer = append(e.buffer, byte(n)) }

func (e *encoder) bool(b bool) {
	if b {
		e.buffer = append(e.buffer, 1)
		return
	}
	e.buffer = append(e.buffer, 0)
}
