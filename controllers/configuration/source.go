package configuration

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
)

// absentVersion is the ObservedVersion of an optional source that has never existed.
const absentVersion = "absent"

// UpdateOf returns how a change of an entry of spec.configuration reaches the clusters.
func UpdateOf(entry v1alpha1.ConfigurationSource, pullSecrets []corev1.LocalObjectReference) v1alpha1.ConfigurationUpdate {
	isPullSecret := entry.Kind == v1alpha1.ConfigurationSecret && slices.Contains(pullSecrets, corev1.LocalObjectReference{Name: entry.Name})
	switch {
	case entry.Update != "":
		return entry.Update
	case isPullSecret:
		return v1alpha1.ConfigurationInPlace
	}
	return v1alpha1.ConfigurationVersioned
}

// use is how the templates use a source.
type use struct {
	Ref
	// isVersioned and isInPlace say how entries of the spec use it. Both may be set.
	isVersioned, isInPlace bool
	// isOptional is set if all these entries are optional.
	isOptional bool
	// isHeld is set if only revisions in use have it, and not the spec. A cluster that keeps such a
	// revision, or returns to it, needs the content that is updated in place.
	isHeld bool
}

// uses returns how the spec and the revisions in use use each source, in this order.
func (in Input) uses() []use {
	var all []use
	for _, found := range in.Spec.uses() {
		all = add(all, found)
	}
	for revision := range in.storedRevisions().used() {
		for _, found := range revision.Template.uses() {
			isListed := slices.ContainsFunc(all, func(u use) bool { return u.Ref == found.Ref })
			if found.isInPlace && !isListed {
				all = append(all, use{Ref: found.Ref, isInPlace: true, isHeld: true})
			}
		}
	}
	return all
}

// uses returns each use of a source by an entry or an override, in order.
func (t Template) uses() []use {
	byName := map[Ref]use{}
	var all []use
	for _, entry := range t.Entries {
		found := use{Ref: Ref{entry.Kind, cmp.Or(entry.From, entry.Name)}, isOptional: entry.Optional}
		found.isInPlace = UpdateOf(entry, t.PullSecrets) == v1alpha1.ConfigurationInPlace
		found.isVersioned = !found.isInPlace
		byName[Ref{entry.Kind, entry.Name}] = found
		all = append(all, found)
	}
	for _, override := range t.Overrides {
		for _, changed := range override {
			// An override of an entry that does not exist concerns only the clusters that it matches.
			if found, exists := byName[Ref{changed.Kind, changed.Name}]; exists {
				found.From = changed.From
				all = append(all, found)
			}
		}
	}
	return all
}

// add returns uses with another one. A source that is there already is used in both ways.
func add(all []use, another use) []use {
	for i := range all {
		if all[i].Ref == another.Ref {
			all[i].isVersioned = all[i].isVersioned || another.isVersioned
			all[i].isInPlace = all[i].isInPlace || another.isInPlace
			all[i].isOptional = all[i].isOptional && another.isOptional
			return all
		}
	}
	return append(all, another)
}

// source is the state of a source in one decision.
type source struct {
	use
	hub Source
	// last is what the status says, without a snapshot that cannot be used. The decision changes it.
	last v1alpha1.ConfigurationStatus
	// isAdded is set if the status does not have the source: it is added, maybe again.
	isAdded bool
	// isLost is set if the snapshot of the status does not exist any more.
	isLost bool
	// name is the name of the snapshot of the present content, or "" if it is not known.
	name string
	// problem is why the present content is not used, or nil.
	problem *Problem
	// isBlocked is set if the problem lasts until somebody changes something.
	isBlocked bool
	// isFailed is set if the problem is a request that failed, and that is tried again.
	isFailed bool
	// isDelayed is set if the present content is used later, because other sources have changed too often.
	isDelayed bool
}

// version returns the version of the present content.
func (s *source) version() string {
	if s.hub.Presence == PresenceAbsent {
		return absentVersion
	}
	return s.hub.Version
}

// isStatusOf reports whether a status is that of the source.
func (s *source) isStatusOf(status v1alpha1.ConfigurationStatus) bool {
	return status.Kind == s.Kind && status.From == s.From
}

// isChanged reports whether the source may have content that is not in use yet.
func (s *source) isChanged() bool {
	isKnown := s.hub.Presence == PresenceFound || s.hub.Presence == PresenceAbsent
	return isKnown && !s.isBlocked && !s.isFailed && s.mayDiffer()
}

// mayDiffer reports whether the snapshot in use may not have the present content.
func (s *source) mayDiffer() bool { return s.version() != s.last.ObservedVersion || s.isLost }

// isOther reports whether the present content is known to be another than that in use.
func (s *source) isOther() bool { return s.name != "" && s.name != s.last.Snapshot }

// isSame reports whether the present content is known to be that in use, and its snapshot exists.
func (s *source) isSame() bool { return s.name != "" && s.name == s.last.Snapshot && !s.isLost }

// hasContent reports whether there is a snapshot that clusters can get, or the absence of an
// optional source.
func (s *source) hasContent() bool { return s.last.Snapshot != "" && !s.isLost }

// accept makes the present content the one in use.
func (s *source) accept(serial int64) {
	s.last.Snapshot, s.last.ObservedVersion, s.last.Serial = s.name, s.version(), serial
	s.isLost = false
}

// sources returns the state of each source before anything is decided.
func (in Input) sources(uses []use) []*source {
	stored := in.storedSnapshots()
	checks := sourceChecks{in.App, in.OperatorNamespace, stored}
	sources := make([]*source, 0, len(uses))
	for _, found := range uses {
		s := &source{use: found, hub: in.Sources[found.Ref], last: in.last(found)}
		s.isAdded = !slices.ContainsFunc(in.Status, s.isStatusOf)
		s.isLost = s.last.Snapshot != "" && !IsAbsent(s.last.Snapshot) && stored.snapshot(s.last.Snapshot, s.Ref) == nil
		s.name = stored.presentName(s)
		s.block(checks.blocker(s))
		s.fail(s.hub.Failure)
		sources = append(sources, s)
	}
	return sources
}

// last returns the status of a source. If the status was lost, the revision of the spec has the name
// of the snapshot, or the snapshots have the last serial.
func (in Input) last(u use) v1alpha1.ConfigurationStatus {
	last := v1alpha1.ConfigurationStatus{Kind: u.Kind, From: u.From}
	for _, status := range in.Status {
		if status.Kind == u.Kind && status.From == u.From {
			last = status
		}
	}
	if last.Snapshot == "" && u.isVersioned {
		last.Snapshot = in.storedRevisions().snapshotOf(u.Ref)
	}
	if last.Snapshot == "" && u.isInPlace {
		last.Snapshot, last.Serial = in.storedSnapshots().newest(u.Ref)
	}
	if IsAbsent(last.Snapshot) && !u.isOptional { // it is required now
		last.Snapshot, last.ObservedVersion = "", ""
	}
	return last
}
