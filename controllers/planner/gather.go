package planner

import (
	"context"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/observation"
	"github.com/fleetwright/fleetwright/controllers/placement"
	"github.com/fleetwright/fleetwright/controllers/rollout"
)

// gatherer gathers the input of a plan from memory: the fleet and the observations.
type gatherer struct {
	fleet        *fleet
	observations *Observations
	// observedSince returns when this process began to plan. A replica that does not lead observes
	// nothing.
	observedSince  func() metav1.Time
	sliceThreshold int
	lastAnswer     func(cluster string) time.Time // may be nil
	// begun has the UIDs of AppServices that got their finalizer from this process, until they have a
	// status.
	begun sync.Map
}

// gather returns the input of a plan, with the placement. All plans share the members, which must
// not be modified.
func (g *gatherer) gather(ctx context.Context, have stored, seen map[string]observation.Observation, now metav1.Time) (rollout.Input, error) {
	members, err := g.fleet.snapshot(ctx)
	if err != nil {
		return rollout.Input{}, err
	}
	in := rollout.Input{
		App:              have.app,
		IsNew:            g.isNew(have.app),
		Members:          members.members,
		Secretless:       members.secretless,
		Observations:     seen,
		Now:              now,
		ObservedSince:    g.observedSince(),
		SeenSince:        g.seenSince(have.app, seen),
		Unreachable:      g.unreachable(seen),
		SliceThreshold:   g.sliceThreshold,
		HasMissingSlices: have.hasMissing,
		Answers:          g.answers(have.app, seen, now),
	}.Recover()
	in.Plan, in.PlanError = placement.Decide(in.App, members.all)
	if in.AwaitsReports() { // and is enqueued when another member is found unreachable
		in.Unreachable = g.observations.awaitUnreachable(client.ObjectKeyFromObject(in.App))
	}
	return in, nil
}

// isNew reports whether this process has seen the AppService without our finalizer. It is forgotten
// with the first plan that finds a status.
func (g *gatherer) isNew(app *v1alpha1.AppService) bool {
	_, isNew := g.begun.Load(app.UID)
	if app.Status.ObservedGeneration > 0 {
		g.begun.Delete(app.UID)
	}
	return isNew
}

// seenSince returns since when each member has been observed, which only a rollout in stages needs, and
// where a workload is missing.
func (g *gatherer) seenSince(app *v1alpha1.AppService, seen map[string]observation.Observation) map[string]metav1.Time {
	if app.Spec.Rollout == nil && !isAsking(seen) {
		return nil
	}
	return g.observations.sinceOf(client.ObjectKeyFromObject(app))
}

// unreachable returns when members were found unreachable, if a workload is missing. A lost status needs
// that too: see awaitUnreachable.
func (g *gatherer) unreachable(seen map[string]observation.Observation) map[string]metav1.Time {
	if !isAsking(seen) {
		return nil
	}
	return g.observations.foundUnreachable()
}

// answers returns when each observed member has last answered, which only a rollout in stages needs.
func (g *gatherer) answers(app *v1alpha1.AppService, seen map[string]observation.Observation, now metav1.Time) map[string]metav1.Time {
	if app.Spec.Rollout == nil {
		return nil
	}
	answers := make(map[string]metav1.Time, len(seen))
	for name := range seen {
		answers[name] = now
		if g.lastAnswer != nil {
			answers[name] = metav1.NewTime(g.lastAnswer(name))
		}
	}
	return answers
}
