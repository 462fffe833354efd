package fleet

import (
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/observation"
	"github.com/fleetwright/fleetwright/controllers/placement"
	"github.com/fleetwright/fleetwright/controllers/planner/revise"
	"github.com/fleetwright/fleetwright/controllers/revision"
	"github.com/fleetwright/fleetwright/controllers/rollout"
	"github.com/fleetwright/fleetwright/controllers/status"
)

// planned is what one plan was made from, and what it decided.
type planned struct {
	in       rollout.Input
	decision rollout.Decision
	status   v1alpha1.AppServiceStatus
}

// plan gathers, decides and writes, as package planner does.
func (c *config) plan(s state) (state, planned) {
	s, in := c.prepare(s)
	p := planned{in: in, decision: rollout.Plan(in)}
	p.status = status.Compute(in, p.decision)
	for _, name := range in.TombstonesToRemove(p.status.Clusters) {
		s = s.withMember(indexOf(name), func(object *v1alpha1.MemberCluster) { object.Status.Abandoned = nil })
	}
	for _, name := range p.decision.StaleObservations {
		s.process.seen[indexOf(name)], s.process.seenSince[indexOf(name)] = nil, 0
	}
	s.process.isNew = false
	s.isGone = in.App.IsDeleting() && len(p.status.Clusters) == 0
	s = s.withApp(func(app *v1alpha1.AppService) { app.Status = p.status })
	return s, p
}

// prepare gathers the input of a plan, and writes what must be written before the status: tombstones and
// the revision.
func (c *config) prepare(s state) (state, rollout.Input) {
	in := c.gather(&s)
	for _, name := range slices.Concat(in.TombstonesToAdd(), in.TombstonesOfLostStatus()) {
		s = s.withMember(indexOf(name), func(object *v1alpha1.MemberCluster) {
			object.Status.Abandoned = []v1alpha1.AbandonedAppService{in.TombstoneOf(name)}
		})
		if in.Members[name] != nil {
			in.Members[name] = s.members[indexOf(name)].object
		} else {
			in.Secretless[name] = s.members[indexOf(name)].object
		}
	}
	outcome := c.revise(&s, in)
	in.Revisions, in.IsSpecPending, in.RevisionRefused = outcome.Revisions, outcome.IsSpecPending, outcome.Refused
	return s, in
}

// gather returns the input of a plan. It drops observations that answer an entry that is gone.
func (c *config) gather(s *state) rollout.Input {
	n := len(c.clusters)
	in := rollout.Input{
		App: s.app, IsNew: s.process.isNew, Now: s.now.time(), ObservedSince: s.process.since.time(),
		Members: make(map[string]*v1alpha1.MemberCluster, n), Secretless: map[string]*v1alpha1.MemberCluster{},
		Observations: make(map[string]observation.Observation, n), SeenSince: make(map[string]metav1.Time, n), Answers: make(map[string]metav1.Time, n),
	}
	all := make([]v1alpha1.MemberCluster, 0, n)
	for i := range n {
		m, name := &s.members[i], clusterName(i)
		if m.object.HasSecret() {
			in.Members[name] = m.object
		} else {
			in.Secretless[name] = m.object
		}
		all = append(all, *m.object)
		in.Answers[name] = m.answered.time()
		if m.isReachable() {
			in.Answers[name] = s.now.time()
		}
		if seen := s.process.seen[i]; seen != nil && (seen.Found || s.app.Status.Cluster(name) != nil) {
			in.Observations[name], in.SeenSince[name] = *seen, s.process.seenSince[i].time()
		} else {
			s.process.seen[i], s.process.seenSince[i] = nil, 0
		}
	}
	in = in.Recover()
	in.Plan, in.PlanError = placement.Decide(in.App, all)
	return in
}

// revise finds the revision of the spec, and stores a new one.
func (c *config) revise(s *state, in rollout.Input) revise.Outcome {
	facts := revise.Facts{
		App: in.App, Plan: in.Plan, Members: in.Members, HighestReported: in.HighestRevision(), AwaitsReports: in.AwaitsReports(),
		Policy: &revise.Policy{},
	}
	for {
		switch step := revise.Decide(facts); step.Action {
		case revise.ReadHistory:
			history := c.revisions(*s)
			facts.History = &history
		case revise.Store:
			number := step.Outcome.Revision
			object := &appsv1.ControllerRevision{ObjectMeta: metav1.ObjectMeta{Name: revision.Name(appName, number)}, Revision: number}
			s.history = slices.Concat([]storedRevision{{number, c.templateOf(in.App), object}}, s.history)
			history := c.revisions(*s)
			s.prune(in.App, history, number)
			return step.Stored(*history.Find(number))
		case revise.Use:
			s.prune(in.App, *facts.History, step.Outcome.Revision)
			return step.Outcome
		default:
			return step.Outcome
		}
	}
}

// templateOf returns the index of the template of an AppService, which may be from before an edit.
func (c *config) templateOf(app *v1alpha1.AppService) int8 {
	return int8(slices.Index(c.templates, app.Spec.Image))
}

// prune deletes old revisions.
func (s *state) prune(app *v1alpha1.AppService, history revision.History, number int64) {
	for _, object := range history.Superfluous(app, number) {
		s.history = slices.DeleteFunc(slices.Clone(s.history), func(stored storedRevision) bool { return stored.object == object })
	}
}

func indexOf(cluster string) int { return int(cluster[0] - 'a') }
