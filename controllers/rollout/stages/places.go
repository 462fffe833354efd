package stages

import (
	"slices"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/placement"
	"github.com/fleetwright/fleetwright/controllers/rollout/entryplan"
)

// places decides to which stage each cluster belongs. A cluster that got the target in a stage with a
// limit has a place there, which its entry records.
type places struct {
	in     Input
	status *state
}

// forget removes from the entries the stages in which their clusters got another target than the
// present one, also where a cluster is in no stage now: it may return. After the target has failed, the
// stage in which it failed has the same clusters while they go back. Without spec.rollout, no entry has a
// stage.
func (p places) forget(plans []entryplan.Plan) {
	hasFailed := p.status.FailedRevision == p.status.Revision
	for i := range plans {
		e := &plans[i].Entry
		if e.StageRevision == 0 && (hasFailed || e.Revision == p.status.Revision) { // an older version has written the stage
			e.StageRevision = p.status.Revision
		}
		if e.Stage == "" || e.StageRevision != p.status.Revision || p.in.App.Spec.Rollout == nil {
			e.Stage, e.StageRevision = "", 0
		}
	}
}

// assign assigns the clusters to the stages. While clusters may get the target, it records the places of
// those that have it: an edit of the stages or a lost status may have put one into a stage that did not
// give it the target.
func (p places) assign(stages []*stage, clusters []*cluster, hold Hold) {
	isOpen := p.status.isRollingOut() && !hold.isPaused()
	areNew := isOpen && strategyOf(p.in.App.Spec.Rollout) != p.status.Strategy
	for _, c := range clusters {
		for _, s := range stages {
			if s.Limit != nil && s.Name == c.Entry.Stage && s.matches(c.Member) {
				c.place = s.Name
			}
		}
		c.isPreferred = areNew && c.Entry.Revision == p.status.Revision
	}
	for _, s := range stages {
		p.take(s, clusters)
		for _, c := range s.clusters {
			if isOpen && s.Limit != nil && c.Entry.Revision == p.status.Revision {
				c.recordPlace(p.status.Revision)
			}
		}
	}
}

// take gives a stage the clusters that match it and that no earlier stage has, in their order. The limit
// chooses as the limit of a placement does, by their standing.
func (p places) take(s *stage, clusters []*cluster) {
	var matching []*cluster
	for _, c := range clusters {
		if c.stage == nil && s.matches(c.Member) {
			matching = append(matching, c)
		}
	}
	contenders := make([]placement.Contender, len(matching)) // in the order of their rank
	for i, c := range matching {
		contenders[i] = placement.Contender{Member: c.Member, Standing: int(standingOf(c, s)), Rank: c.rank}
	}
	chosen := placement.Order(contenders, s.SpreadKey)[:min(len(matching), s.limitOf(len(matching)))]
	slices.Sort(chosen)
	for _, i := range chosen {
		c := matching[i]
		c.stage = s
		s.clusters = append(s.clusters, c)
	}
}

// standing is the priority of a cluster under the limit of a stage: the lowest is taken first.
type standing int

const (
	placed          standing = iota // it got the target in the stage
	preferred                       // it has the target, and the stages are new
	preferredLast                   // so it is, and it cannot prove the target
	proving                         // it can be reached, and is to have pods
	notProving                      // it cannot be reached, or is to have no pods
	placedElsewhere                 // it got the target in another stage, which would take a further cluster instead
)

// standingOf returns the standing of a cluster in a stage. Those that got the target there come first, so
// that the choice does not change during a rollout.
func standingOf(c *cluster, s *stage) standing {
	mayNotProve := c.Entry.Phase == v1alpha1.ClusterUnknown || c.isEmpty() || c.isToRunNoPods()
	switch {
	case c.place == s.Name:
		return placed
	case c.isPreferred && mayNotProve:
		return preferredLast
	case c.isPreferred:
		return preferred
	case c.place != "":
		return placedElsewhere
	case mayNotProve:
		return notProving
	}
	return proving
}
