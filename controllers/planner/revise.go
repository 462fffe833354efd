package planner

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/configuration"
	"github.com/fleetwright/fleetwright/controllers/configuration/sources"
	"github.com/fleetwright/fleetwright/controllers/planner/revise"
	"github.com/fleetwright/fleetwright/controllers/revision"
	"github.com/fleetwright/fleetwright/controllers/revision/reader"
	"github.com/fleetwright/fleetwright/controllers/rollout"
	"github.com/fleetwright/fleetwright/controllers/status"
)

// reviser finds the revision of a spec. It gathers the facts, package revise decides, and the reviser
// reads what the decision needs and stores what is new.
type reviser struct {
	revisions *revisionStore
	contents  *reader.Reader
	policies  *policies
	sources   *sources.Sources
	known     *knownRevisions
	histories *histories
	throttle  *throttle
}

// revised is what a plan knows of the revision of the spec.
type revised struct {
	revise.Outcome
	// configuration is what was decided about spec.configuration, or nil.
	configuration *configuration.Decision
}

// addTo adds the revision to the input of a plan.
func (r revised) addTo(in rollout.Input) rollout.Input {
	in.Revisions, in.Configuration = r.Revisions, r.configuration
	in.IsSpecPending, in.RevisionRefused = r.IsSpecPending, r.Refused
	return in
}

// unrevisedError is returned if the hub does not store or return revisions, and there is no revision
// to plan with.
type unrevisedError struct{ cause error }

func (e unrevisedError) Error() string { return e.cause.Error() }

// revise returns the revision of the spec. A new one is stored before a status names it. Without
// configuration, the history is read from the API server only after an edit or for a retry.
func (r *reviser) revise(ctx context.Context, in rollout.Input) (revised, error) {
	facts, err := r.gather(ctx, in)
	if err != nil {
		return revised{}, err
	}
	outcome, err := r.follow(ctx, in, facts)
	if err != nil {
		return revised{}, err
	}
	if err := r.checkStable(ctx, in.App, &outcome); err != nil {
		return revised{}, err
	}
	if err := r.refuse(ctx, in, &outcome); err != nil {
		return revised{}, err
	}
	if facts.Content == nil {
		return revised{Outcome: outcome}, nil
	}
	return revised{Outcome: outcome, configuration: &facts.Content.Decision}, nil
}

// gather reads what every decision depends on. With configuration, the snapshots of its decision are
// stored then, also if the spec gets no revision.
func (r *reviser) gather(ctx context.Context, in rollout.Input) (revise.Facts, error) {
	facts := revise.Facts{
		App: in.App, Plan: in.Plan, Members: in.Members, HighestReported: in.HighestRevision(), AwaitsReports: in.AwaitsReports(),
		Refused: r.throttle.refusedRevision(in.App, time.Now()),
	}
	if in.App.IsDeleting() || !r.hasConfiguration(in.App) {
		return facts, nil
	}
	r.histories.forget(in.App)
	known, isKnown := r.known.of(in.App)
	if !isKnown && facts.Refused == nil {
		if err := r.readHistory(ctx, &facts); err != nil {
			return facts, err
		}
	}
	switch {
	case facts.History != nil:
		known = r.known.remember(in.App, *facts.History, in.App.Status.Rollout.Revision)
	case !isKnown:
		facts.IsContentUnknown = true
		return facts, nil
	}
	var err error
	facts.Content, err = r.decideContent(ctx, in, known)
	return facts, err
}

// decideContent decides about the configuration of an AppService, and stores the snapshots of the
// decision.
func (r *reviser) decideContent(ctx context.Context, in rollout.Input, known revisionsOfApp) (*revise.Content, error) {
	decision, err := r.sources.Decide(ctx, sources.Request{
		App: in.App, Revisions: known.revisions, Serials: serialsOnMembers(in), Now: time.Now(),
	})
	if err != nil {
		return nil, fmt.Errorf("decide the configuration: %w", err)
	}
	if in.HasMissingSlices { // what lost entries need is not known
		decision.Prune = nil
	}
	state := in.App.Status.Rollout
	return &revise.Content{
		Decision: decision, HasTemplate: known.hasTemplate,
		IsRevisionLost: known.isLost(state.Revision, decision.Lost), IsStableLost: known.isLost(state.StableRevision, decision.Lost),
	}, nil
}

// follow takes the steps to the revision of the spec.
func (r *reviser) follow(ctx context.Context, in rollout.Input, facts revise.Facts) (revise.Outcome, error) {
	for {
		var err error
		switch step := revise.Decide(facts); step.Action {
		case revise.ReadHistory:
			err = r.recallHistory(ctx, &facts, in.IsNew)
		case revise.ReadPolicy:
			facts.Policy, err = r.policies.present(ctx, facts.App.Namespace)
		case revise.Store:
			var outcome revise.Outcome
			if outcome, err = r.store(ctx, facts, step); !errors.Is(err, errTaken) {
				return outcome, err
			}
			err = r.readHistory(ctx, &facts)
		case revise.Use:
			r.prune(ctx, facts, *facts.History, step.Outcome.Revision)
			return step.Outcome, nil
		default:
			return step.Outcome, nil
		}
		if err != nil {
			return revise.Outcome{}, err
		}
	}
}

// store stores a new revision. If the hub refuses it, the rollout of the revision of the status goes on.
func (r *reviser) store(ctx context.Context, facts revise.Facts, step revise.Step) (revise.Outcome, error) {
	app := facts.App
	stored, err := r.revisions.create(ctx, app, step, facts.IsRemembered)
	switch {
	case errors.Is(err, errTaken):
		return revise.Outcome{}, err
	case app.Status.Rollout.Revision != 0 && status.IsRefusal(err):
		r.throttle.recordRefusedRevision(app, time.Now(), err)
		return facts.Without(err), nil
	case err != nil:
		r.known.forget(client.ObjectKeyFromObject(app))
		r.histories.forget(app)
		return revise.Outcome{}, unrevisedError{err}
	}
	r.prune(ctx, facts, facts.History.With(stored), stored.Number)
	return step.Stored(stored), nil
}

// prune deletes the revisions that are superfluous with the one of the spec, and remembers the others.
func (r *reviser) prune(ctx context.Context, facts revise.Facts, history revision.History, number int64) {
	left := r.revisions.delete(ctx, history, history.Superfluous(facts.App, number))
	if facts.Content == nil {
		r.histories.remember(facts.App, left)
		return
	}
	r.known.remember(facts.App, left, number)
	if len(left.All()) < len(history.All()) {
		facts.Content.RecheckAfter = earlier(facts.Content.RecheckAfter, afterDeletion)
	}
}

// checkStable sets whether the stable revision is missing, to which a rollout may return.
func (r *reviser) checkStable(ctx context.Context, app *v1alpha1.AppService, outcome *revise.Outcome) error {
	if app.IsDeleting() || !outcome.MayReturn(app) {
		return nil
	}
	stable := app.Status.Rollout.StableRevision
	_, err := r.contents.Revision(ctx, app, stable)
	if outcome.IsStableMissing = reader.IsMissing(err); outcome.IsStableMissing || err == nil {
		return nil
	}
	return r.withoutContent(app, outcome, stable, err)
}

// forget drops what is known of the revisions of a deleted AppService.
func (r *reviser) forget(app types.NamespacedName) {
	r.known.forget(app)
	r.sources.Forget(app)
}
