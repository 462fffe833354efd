package revise

import (
	"slices"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/configuration"
	"github.com/fleetwright/fleetwright/controllers/placement"
	"github.com/fleetwright/fleetwright/controllers/revision"
	"github.com/fleetwright/fleetwright/controllers/rollout/stages"
)

// Facts are what the revision of a spec depends on.
type Facts struct {
	// App is the AppService with its current status.
	App *v1alpha1.AppService
	// Plan is the placement decision for each cluster, and Members are the members by name.
	Plan    placement.Plan
	Members map[string]*v1alpha1.MemberCluster
	// HighestReported is the highest revision that members have reported. No new revision gets a
	// number up to it.
	HighestReported int64
	// AwaitsReports is set if the status was lost, and clusters have not reported what they run.
	AwaitsReports bool
	// Refused is why the hub has just refused the next revision or the history, or nil.
	Refused error
	// IsContentUnknown is set if the AppService has configuration, and nothing could be decided about
	// it, because the hub refuses the history.
	IsContentUnknown bool
	// Content is what was decided about the configuration. It is nil for an AppService without
	// configuration.
	Content *Content
	// History has the stored revisions. It is nil until it was read, or recalled.
	History *revision.History
	// IsRemembered is set if the history was recalled. A revision of it may be gone.
	IsRemembered bool
	// Policy is what new pods of the namespace must comply with. It is nil until it was read.
	Policy *Policy
}

// Content is what was decided about the content of the sources of an AppService.
type Content struct {
	configuration.Decision
	// HasTemplate is set if the revision of the status has the template of the spec. That the status
	// has the present generation does not show it: the spec may wait for a source.
	HasTemplate bool
	// IsRevisionLost and IsStableLost are set if the revision of the status or the stable one names a
	// snapshot that is lost.
	IsRevisionLost, IsStableLost bool
}

// Policy is what pods must comply with; nil allows everything.
type Policy struct{ *v1alpha1.PodSecurity }

// Action is what a step does.
type Action string

const (
	// Keep: there is no other revision now. That of the status goes on.
	Keep Action = "Keep"
	// ReadHistory: the decision needs the history; if it was recalled, as the hub has it.
	ReadHistory Action = "ReadHistory"
	// ReadPolicy: the decision needs the policy.
	ReadPolicy Action = "ReadPolicy"
	// Refuse: pod security refuses the template on every cluster. The revision of the status goes on.
	Refuse Action = "Refuse"
	// Defer: the hub has just refused the next revision or the history. The revision of the status
	// goes on.
	Defer Action = "Defer"
	// Use: the history has the revision of the spec.
	Use Action = "Use"
	// Store: the revision of the spec is new.
	Store Action = "Store"
)

// Step is the next step on the way from a spec to its revision. It is a value: nothing has happened
// yet.
type Step struct {
	Action Action
	// Outcome is what the plan knows when the step is done.
	Outcome Outcome
	// Snapshots are what a revision to store names.
	Snapshots []configuration.Named
}

// Outcome is what a plan knows of the revision of the spec.
type Outcome struct {
	stages.Revisions
	// IsSpecPending is set if the spec has no revision yet. Revision is the one before that edit then,
	// or 0.
	IsSpecPending bool
	// Refused is why the hub refuses to store the revision of the spec, or to return revisions, or nil.
	Refused error
}

// Decide returns the next step.
func Decide(f Facts) Step {
	switch {
	case f.App.IsDeleting(), f.AwaitsReports:
		return f.step(Keep)
	case f.IsContentUnknown:
		return Step{Action: Defer, Outcome: f.Without(f.Refused)}
	case f.wasRefused():
		if step := f.admit(revision.Next{}); step.Action != Store { // it is still refused, or the policy is not read yet
			return step
		}
	case !f.needsRevision():
		return f.step(Keep)
	}
	switch {
	case f.mustWait():
		return f.step(Keep)
	case f.Refused != nil:
		return Step{Action: Defer, Outcome: f.Without(f.Refused)}
	case f.History == nil:
		return f.step(ReadHistory)
	}
	next := f.History.NextFor(f.App, f.snapshots(), f.HighestReported, f.isRetry())
	if next.IsStored && f.IsRemembered {
		return f.step(ReadHistory)
	}
	if next.IsStored {
		return f.use(next)
	}
	if known := f.History.WithTemplateOf(f.App); known != nil {
		return f.store(next, known.PodSecurity)
	}
	return f.admit(next)
}

// Stored returns what the plan knows when a step has stored this revision.
func (s Step) Stored(stored revision.Stored) Outcome {
	outcome := s.Outcome
	outcome.Revision, outcome.PodSecurity = stored.Number, stored.PodSecurity
	return outcome
}

// Without returns the outcome if the hub refuses the next revision or the history: the rollout of the
// revision of the status goes on.
func (f Facts) Without(refusal error) Outcome {
	outcome := f.kept()
	outcome.Refused, outcome.IsSpecPending = refusal, true
	return outcome
}

// kept returns the outcome if the revision of the status goes on.
func (f Facts) kept() Outcome {
	state := &f.App.Status.Rollout
	outcome := Outcome{Revisions: stages.Revisions{
		Revision: state.Revision, PodSecurity: state.PodSecurity, WasSpecRefused: state.SpecRefused && !IsEdited(f.App),
	}}
	if f.Content != nil {
		outcome.IsRevisionMissing, outcome.IsStableMissing = f.Content.IsRevisionLost, f.Content.IsStableLost
		outcome.IsSpecPending = f.lacksRevision() && f.mustWait()
	}
	return outcome
}

// step returns a step after which the revision of the status goes on.
func (f Facts) step(action Action) Step {
	return Step{Action: action, Outcome: f.kept()}
}

// use returns the step to a revision that is stored. The policy of the revision of the status may
// allow more since it was stored.
func (f Facts) use(next revision.Next) Step {
	step := f.towards(Use, next)
	if stored := f.History.Find(next.Number); stored != nil && next.Number != f.App.Status.Rollout.Revision {
		step.Outcome.PodSecurity = stored.PodSecurity
	}
	return step
}

// store returns the step to a new revision, which must comply with a policy.
func (f Facts) store(next revision.Next, policy *v1alpha1.PodSecurity) Step {
	step := f.towards(Store, next)
	step.Outcome.PodSecurity, step.Snapshots = policy, f.snapshots()
	return step
}

// towards returns a step to another revision. Its snapshots exist: they are those of the decision.
func (f Facts) towards(action Action, next revision.Next) Step {
	step := f.step(action)
	outcome := &step.Outcome
	outcome.Revision, outcome.ChangedSources, outcome.SameRevisions = next.Number, next.ChangedSources, next.Same
	outcome.IsRevisionMissing, outcome.WasSpecRefused = false, false
	switch {
	case next.IsRetry:
		outcome.Origin = stages.RevisionRetried
	case next.IsUndo:
		outcome.Origin = stages.RevisionUndone
	}
	return step
}

// admit returns the step for a template that is new. It is refused if every cluster would have to run
// pods that violate the policy of the namespace. If only some would, the rollout fails on these.
// docs/decisions/pod-security-belongs-to-a-revision.md says why.
func (f Facts) admit(next revision.Next) Step {
	if runsUnnumbered(f.App) {
		return f.store(next, nil)
	}
	if f.Policy == nil {
		return f.step(ReadPolicy)
	}
	if refusal := f.refusal(); refusal != "" {
		step := f.step(Refuse)
		step.Outcome.SpecRefusal, step.Outcome.IsSpecPending = refusal, true
		return step
	}
	return f.store(next, f.Policy.PodSecurity)
}

// refusal returns why the policy forbids the pods of the spec on every cluster, or "".
func (f Facts) refusal() string {
	checks := newPodChecks(f.App)
	first := ""
	for _, decision := range f.Plan {
		member := f.Members[decision.Cluster]
		if !decision.Chosen() || member == nil {
			continue
		}
		refusal := checks.refusal(member, f.Policy.PodSecurity)
		if refusal == "" {
			return ""
		}
		if first == "" {
			first = refusal
		}
	}
	return first
}

// needsRevision reports whether the spec may need another revision than that of the status. After
// any edit, superfluous revisions are deleted: the limit may be another.
func (f Facts) needsRevision() bool {
	return IsEdited(f.App) || f.lacksRevision() || f.Content != nil && f.Content.NeedsRevision
}

// lacksRevision reports whether it is known, without the history, that the spec needs another revision
// than that of the status.
func (f Facts) lacksRevision() bool {
	return f.App.Status.Rollout.Revision == 0 || f.isRetry() || f.Content != nil && !f.Content.HasTemplate
}

// mustWait reports whether the spec waits for a source.
func (f Facts) mustWait() bool {
	return f.Content != nil && (f.Content.Blocker != nil || f.Content.IsCollecting)
}

// wasRefused reports whether pod security refused the spec with the last plan. It is not in the
// history then.
func (f Facts) wasRefused() bool {
	return f.App.Status.Rollout.SpecRefused && !IsEdited(f.App) && !f.isRetry()
}

// IsEdited reports whether the AppService was edited or deleted since its status was written.
func IsEdited(app *v1alpha1.AppService) bool { return app.Status.ObservedGeneration != app.Generation }

func (f Facts) isRetry() bool { return stages.RetriesRevision(f.App) }

// snapshots returns what the revision of the spec names.
func (f Facts) snapshots() []configuration.Named {
	if f.Content == nil {
		return nil
	}
	return f.Content.Configuration
}

// runsUnnumbered reports whether clusters run the AppService without a revision, because an older
// version of Fleetwright applied it.
func runsUnnumbered(app *v1alpha1.AppService) bool {
	return app.Status.Rollout.Revision == 0 && slices.ContainsFunc(app.Status.Clusters, func(entry v1alpha1.ClusterStatus) bool {
		return entry.Revision == 0 && entry.ObservedGeneration > 0
	})
}
