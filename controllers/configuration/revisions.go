package configuration

import (
	"iter"
	"slices"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
)

// storedRevisions are the stored revisions of an AppService.
type storedRevisions struct {
	all []Revision
	// current is the revision of the spec. It is 0 before the first, and if the status was lost.
	current int64
	// inUse are the revisions that the status and its entries name.
	inUse []int64
}

func (in Input) storedRevisions() storedRevisions {
	return storedRevisions{in.Revisions, in.Revision, in.InUse}
}

// used returns the revisions in use that are stored.
func (r storedRevisions) used() iter.Seq[Revision] {
	return func(yield func(Revision) bool) {
		for _, revision := range r.all {
			if slices.Contains(r.inUse, revision.Number) && !yield(revision) {
				return
			}
		}
	}
}

// find returns the stored revision with this number, or nil.
func (r storedRevisions) find(number int64) *Revision {
	for i := range r.all {
		if r.all[i].Number == number {
			return &r.all[i]
		}
	}
	return nil
}

// isComplete reports whether it is known what all revisions in use name. A missing object never
// triggers a deletion. After the status was lost, the revision is 0, which is never stored.
func (r storedRevisions) isComplete() bool {
	isMissing := func(number int64) bool { return r.find(number) == nil }
	return !isMissing(r.current) && !slices.ContainsFunc(r.inUse, isMissing)
}

// isCurrent reports whether the revision of the spec names these snapshots. If that revision is not
// known, there will be a new one anyway.
func (r storedRevisions) isCurrent(all []Named) bool {
	current := r.find(r.current)
	if current == nil {
		return len(all) == 0
	}
	return SameSnapshots(all, current.Configuration)
}

// snapshotOf returns the snapshot of a source in the revision of the spec, or "". If that is not known,
// because the status was lost, it is the newest revision.
func (r storedRevisions) snapshotOf(ref Ref) string {
	number := r.current
	if number == 0 {
		for _, revision := range r.all {
			number = max(number, revision.Number)
		}
	}
	if revision := r.find(number); revision != nil {
		for _, named := range revision.Configuration {
			if named.ref() == ref {
				return named.Snapshot
			}
		}
	}
	return ""
}

// names reports whether a stored revision names a snapshot.
func (r storedRevisions) names(snapshot Snapshot) bool {
	isSame := func(n Named) bool { return n.Kind == snapshot.Kind && n.Snapshot == snapshot.Name }
	return slices.ContainsFunc(r.all, func(revision Revision) bool { return slices.ContainsFunc(revision.Configuration, isSame) })
}

// lost returns the snapshots that revisions in use name, and that neither exist nor are created.
func (r storedRevisions) lost(stored storedSnapshots, created []Creation) []Named {
	var lost []Named
	for revision := range r.used() {
		for _, named := range revision.Configuration {
			isCreated := slices.ContainsFunc(created, func(c Creation) bool { return c.Name == named.Snapshot && c.Kind == named.Kind })
			exists := IsAbsent(named.Snapshot) || stored.snapshot(named.Snapshot, named.ref()) != nil
			if !exists && !isCreated && !slices.Contains(lost, named) {
				lost = append(lost, named)
			}
		}
	}
	return lost
}

// areUnlisted reports whether a revision in use names a snapshot of a kind that could not be listed.
func (r storedRevisions) areUnlisted(kinds []v1alpha1.ConfigurationKind) bool {
	isUnlisted := func(n Named) bool { return !IsAbsent(n.Snapshot) && slices.Contains(kinds, n.Kind) }
	for revision := range r.used() {
		if slices.ContainsFunc(revision.Configuration, isUnlisted) {
			return true
		}
	}
	return false
}
