package fleet

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
)

// memory is what the rules remember of the past. It is part of a state.
type memory struct {
	// ready are the revisions whose pods were ready, by the label of the cluster, and given are those that
	// clusters got.
	ready, given []revisionAt
	// failed are the revisions that failed.
	failed []int64
	// approved are the stages that a user approved or promoted when the status showed them.
	approved []revisionAt
	// isEdited is set while an edit has not been carried out completely.
	isEdited bool
	// chosen are the clusters that the last plan chose, and left are those that left the plan without an
	// edit, as bits.
	chosen, left uint8
	// removals are when removals started that no user asked for.
	removals []instant
	// accepted is how many removals and scale-downs were approved while the AppService had this generation.
	accepted           int8
	acceptedGeneration int64
	// stagesEdited is when a plan first had other stages.
	stagesEdited instant
}

// revisionAt is a revision in a place.
type revisionAt struct {
	revision int64
	at       string
}

// with returns the set with another element. The sets are sorted, so that the order does not matter.
func with[T any](set []T, compare func(a, b T) int, element T) []T {
	i, isIn := slices.BinarySearchFunc(set, element, compare)
	if isIn {
		return set
	}
	return slices.Insert(slices.Clone(set), i, element)
}

func compareAt(a, b revisionAt) int {
	return cmp.Or(cmp.Compare(a.revision, b.revision), strings.Compare(a.at, b.at))
}

// memory writes what the rules remember.
func (e *encoder) memory(m *memory) {
	for _, set := range [][]revisionAt{m.ready, m.given, m.approved} {
		e.length(len(set))
		for _, is := range set {
			e.number(is.revision, revisionNumber)
			e.string(is.at)
		}
	}
	e.length(len(m.failed))
	for _, revision := range m.failed {
		e.number(revision, revisionNumber)
	}
	e.bool(m.isEdited)
	e.length(len(m.removals))
	for _, start := range m.removals {
		e.age(start)
	}
	e.buffer = append(e.buffer, byte(m.accepted))
	e.number(m.acceptedGeneration, generationNumber)
	e.age(m.stagesEdited)
}

// remember returns the state with the memory after a plan. Revisions that nothing names are forgotten.
func (st *step) remember() state {
	s := st.after
	m := &s.memory
	if failed := st.status.Rollout.FailedRevision; failed != 0 {
		m.failed = with(m.failed, cmp.Compare, failed)
	}
	for _, entry := range st.gets() {
		m.given = with(m.given, compareAt, revisionAt{entry.Revision, st.label(entry.Name)})
	}
	m.failed = slices.DeleteFunc(slices.Clone(m.failed), func(revision int64) bool { return !s.names(revision) })
	for _, set := range []*[]revisionAt{&m.ready, &m.given, &m.approved} {
		*set = slices.DeleteFunc(slices.Clone(*set), func(is revisionAt) bool { return !s.names(is.revision) })
	}
	if meta.IsStatusConditionTrue(st.status.Conditions, v1alpha1.ConditionReady) && st.status.Summary.Removing == 0 {
		m.isEdited = false
	}
	m.chosen, m.left = st.chosenBits(), st.leftBits()
	m.removals = slices.DeleteFunc(slices.Clone(m.removals), func(start instant) bool { return s.now-start >= hour })
	for range st.unintended() {
		m.removals = append(m.removals, s.now)
	}
	m.accepted, m.acceptedGeneration = st.accepted(), 0
	if m.accepted += int8(st.newlyAccepted() + st.excused()); m.accepted > 0 {
		m.acceptedGeneration = st.in.App.Generation
	}
	if before := st.before.app.Status.Rollout.Strategy; before != "" && before != st.status.Rollout.Strategy {
		m.stagesEdited = s.now
	}
	return s
}

// names reports whether a revision is stored or runs anywhere.
func (s *state) names(revision int64) bool {
	isStored := slices.ContainsFunc(s.history, func(stored storedRevision) bool { return stored.number == revision })
	return isStored || slices.ContainsFunc(s.members[:], func(m member) bool { return m.runs == revision })
}

// chosenBits returns the clusters that the plan chooses.
func (st *step) chosenBits() uint8 {
	var bits uint8
	for _, decision := range st.in.Plan {
		if decision.Chosen() {
			bits |= 1 << indexOf(decision.Cluster)
		}
	}
	return bits
}

// leftBits returns the clusters that have left the plan without an edit, and are not back.
func (st *step) leftBits() uint8 {
	left := st.before.memory.left
	isPlanned := st.before.app.Status.ObservedGeneration == st.before.app.Generation
	for _, decision := range st.in.Plan {
		bit := uint8(1) << indexOf(decision.Cluster)
		switch {
		case decision.Chosen():
			left &^= bit
		case isPlanned && st.before.memory.chosen&bit != 0 && decision.Reason != v1alpha1.ReasonLimitReached:
			left |= bit
		}
	}
	return left
}

// accepted returns how many removals and scale-downs were approved before this plan, for the generation.
func (st *step) accepted() int8 {
	if st.before.memory.acceptedGeneration != st.in.App.Generation {
		return 0
	}
	return st.before.memory.accepted
}

// allowance returns how many more removals and scale-downs the annotation approves.
func (st *step) allowance() int {
	var count, generation int64
	_, err := fmt.Sscanf(st.before.app.Annotations[v1alpha1.AnnotationAcceptRemovals], "%d@%d", &count, &generation)
	if err != nil || generation != st.in.App.Generation {
		return 0
	}
	return int(count) - int(st.accepted())
}

// newlyAccepted returns how many entries are approved now, and were not before.
func (st *step) newlyAccepted() int {
	n := 0
	for _, entry := range st.status.Clusters {
		if before := st.before.app.Status.Cluster(entry.Name); entry.Transition.Accepted && (before == nil || !before.Transition.Accepted) {
			n++
		}
	}
	return n
}

// excused returns how many scale-downs without an edit the annotation approves. An entry does not show that if
// its scale-down is complete at once.
func (st *step) excused() int {
	return max(0, min(len(st.lowered()), st.allowance()-st.newlyAccepted()))
}

// unintended returns the entries whose removal or scale-down starts without an edit and without approval.
func (st *step) unintended() []v1alpha1.ClusterStatus {
	entries := slices.DeleteFunc(st.starts(), func(entry v1alpha1.ClusterStatus) bool {
		return st.leftBits()&(1<<indexOf(entry.Name)) == 0 || entry.Transition.Accepted
	})
	return append(entries, st.lowered()[st.excused():]...)
}

// lowered returns the entries whose replicas are lowered without an edit, where the clusters do not divide
// them. Only labels of clusters cause that.
func (st *step) lowered() []v1alpha1.ClusterStatus {
	if st.before.memory.isEdited || st.isDeleting() || st.in.App.Spec.ReplicaPolicy != nil {
		return nil
	}
	var entries []v1alpha1.ClusterStatus
	for _, entry := range st.status.Clusters {
		if was := st.was(entry.Name); was != nil && entry.Replicas < was.Replicas {
			entries = append(entries, entry)
		}
	}
	return entries
}
