package configuration

import (
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
)

// stalledAfter is how long a source may be missing until a user has to act.
const stalledAfter = 10 * time.Minute

// Decide computes the next state of the configuration of an AppService. It does not change its input.
func Decide(in Input) Decision {
	// 1. Find which content each source has in use, and why its present content must not be used.
	stored, revisions := in.storedSnapshots(), in.storedRevisions()
	uses, others := in.boundSources(in.uses())
	sources := in.sources(uses)
	boundSize(sources, stored)
	// 2. Collect the changes, and use all of them at once.
	serials := knownSerials{in.App, in.Serial, in.Serials, stored, in.Accepted}
	collected := collect(sources, in.Memory, in.Now)
	created := useChanges(collected.used, serials)
	// 3. Explain what is not in use.
	lost := revisions.lost(stored, created)
	for _, s := range sources {
		s.settle(lost, collected.memory.Reads[s.Ref])
		serials.settle(s)
	}
	decision := Decision{
		Read: collected.read, Create: created, Lost: lost,
		Status:        nextStatus(sources, in.Now),
		Configuration: named(sources),
		Delayed:       delayed(sources),
		IsCollecting:  collected.isCollecting,
		AreUnlisted:   revisions.areUnlisted(in.Unlisted),
		Memory:        collected.memory,
	}
	// 4. Decide whether there may and must be a new revision.
	decision.Blocker = blocker(sources, others)
	decision.NeedsRevision = decision.Blocker == nil && !decision.IsCollecting && !revisions.isCurrent(decision.Configuration)
	decision.Configured = configured(decision.Status, slices.ContainsFunc(sources, func(s *source) bool { return !s.isHeld }), others)
	wait := untilStalled(sources, in.Now)
	decision.Serial = serials.nextLast(decision.Status)
	decision.IsStalled = others > 0 || wait == 0
	decision.RecheckAfter = earlier(collected.after, max(0, wait))
	// 5. Delete what nothing names.
	prune, wait := stored.prune(revisions, decision.Status, in.Now)
	decision.Prune, decision.RecheckAfter = prune, earlier(decision.RecheckAfter, wait)
	return decision
}

// settle sets what remains to be explained about a source.
func (s *source) settle(lost []Named, reads Reads) {
	isUnknown := s.hub.Presence == PresenceUnknown && !s.isBlocked && !s.isFailed
	isLost := slices.ContainsFunc(lost, func(n Named) bool { return n.ref() == s.Ref })
	switch {
	case isUnknown && s.last.Reason != "": // nothing new is known, as after a restart
		s.problem = &Problem{s.last.Reason, s.last.Message}
	case isUnknown && !s.hasContent():
		s.problem = &Problem{v1alpha1.ReasonConfigurationChanged, s.describe() + " was not looked up yet: wait"}
	case s.problem == nil && isLost:
		s.problem = &Problem{v1alpha1.ReasonSnapshotMissing, "a snapshot of " + s.describe() + " that a revision in use names was deleted: clusters with that revision keep what they run, and nothing rolls back to it; to end this, give the source its former content for a minute, or let the rollout end"}
	case s.problem == nil && !reads.OftenUntil.IsZero():
		s.problem = s.changesOften()
	}
}

// maxMessage is the maximum length of a message. The schema refuses a status with a longer one.
const maxMessage = 1024

// limit cuts a message that long names have made too long.
func limit(message string) string {
	if len(message) <= maxMessage {
		return message
	}
	return strings.ToValidUTF8(message[:maxMessage-len("…")], "") + "…"
}

// nextStatus returns the next status.configuration.
func nextStatus(sources []*source, now time.Time) []v1alpha1.ConfigurationStatus {
	var next []v1alpha1.ConfigurationStatus
	for _, s := range sources {
		status, problem := s.last, s.explain()
		status.Reason, status.Message, status.Since = "", "", nil
		if problem != nil {
			status.Reason, status.Message = problem.Reason, limit(problem.Message)
			status.Since = s.since(problem.Reason, now)
		}
		next = append(next, status)
	}
	slices.SortFunc(next, func(a, b v1alpha1.ConfigurationStatus) int {
		return Ref{a.Kind, a.From}.compare(Ref{b.Kind, b.From})
	})
	return next
}

// since returns when the reason of a source began.
func (s *source) since(reason string, now time.Time) *metav1.Time {
	if s.last.Reason == reason && s.last.Since != nil && !s.last.Since.After(now) {
		return s.last.Since
	}
	since := metav1.NewTime(now).Rfc3339Copy() // times in a status have whole seconds
	return &since
}

// untilStalled returns the time until the AppService is stalled: 0 if it is, and a negative time if it
// will not be.
func untilStalled(sources []*source, now time.Time) time.Duration {
	wait := time.Duration(-1)
	for _, s := range sources {
		if !s.isBlocked && !s.isFailed || s.isHeld || s.last.Snapshot != "" {
			continue
		}
		left := max(0, stalledAfter-now.Sub(s.since(s.problem.Reason, now).Time))
		if wait < 0 || left < wait {
			wait = left
		}
	}
	return wait
}

// named returns the snapshots that a new revision names, sorted.
func named(sources []*source) []Named {
	var all []Named
	for _, s := range sources {
		if s.isVersioned && !s.isHeld && s.last.Snapshot != "" {
			all = append(all, Named{s.Kind, s.From, s.last.Snapshot})
		}
	}
	slices.SortFunc(all, func(a, b Named) int { return a.ref().compare(b.ref()) })
	return all
}

// SameSnapshots reports whether two revisions name the same snapshots.
func SameSnapshots(a, b []Named) bool {
	contains := func(all, of []Named) bool {
		return !slices.ContainsFunc(of, func(n Named) bool { return !slices.Contains(all, n) })
	}
	return contains(a, b) && contains(b, a)
}

// earlier returns the shorter of two times that are not 0.
func earlier(a, b time.Duration) time.Duration {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}
