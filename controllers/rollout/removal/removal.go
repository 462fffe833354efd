package removal

import (
	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/rollout/entryplan"
)

// remove starts removals from clusters that left the plan, in order of name. On the entries whose
// removal has not started, it explains why. It returns notes for users. The policies in
// removalPolicies decide.
func (in Input) remove(plans []entryplan.Plan, limit *brake) []string {
	if in.App.IsSuspended() || !in.HasPlan {
		in.carryHolds(plans)
		return nil
	}
	b := newBudget(in, plans, limit.counted)
	b.heldScaleDowns = limit.held
	if len(b.leaving) == 0 {
		return nil
	}
	b.acknowledge()
	surging := in.blockers(plans)
	edited := sortedUnion(surging, in.noneReady(plans))
	unedited := sortedUnion(edited, in.unreadyInPlan(plans))
	for _, e := range b.leaving {
		switch {
		case !mayServe(in.App, e):
			b.blockers[e.Entry.Name] = surging
		case e.Entry.Transition.Cause == v1alpha1.CauseEdit:
			b.blockers[e.Entry.Name] = edited
		default:
			b.blockers[e.Entry.Name] = unedited
		}
		if b.decide(e) == mayBegin {
			b.begin(e)
		}
	}
	return b.explain()
}

// decision is the result of the removal policies for one cluster.
type decision int

const (
	mayBegin      decision = iota // the removal may start
	needsApproval                 // the removal waits until a user approves it
	isBlocked                     // the removal waits for other clusters to become ready
	mustWait                      // the removal waits for other removals
)

// removalPolicy returns its decision on a removal, or false if the next policy decides.
type removalPolicy func(*budget, *entryplan.Plan) (decision, bool)

// removalPolicies is the chain of policies for each removal.
var removalPolicies = []removalPolicy{
	holdAccidents,
	beginAbandoned,
	awaitBlockers,
	holdLastReady,
	limitConcurrency,
}

// decide returns the decision of the first policy that decides, or mayBegin if none does.
func (b *budget) decide(e *entryplan.Plan) decision {
	for _, policy := range removalPolicies {
		if v, decided := policy(b, e); decided {
			return v
		}
	}
	return mayBegin
}

// holdAccidents holds removals that may be accidents: too many within an hour without an edit, or
// removals from clusters that were recovered or have rejoined.
func holdAccidents(b *budget, e *entryplan.Plan) (decision, bool) {
	return needsApproval, b.needsAcknowledgement(e)
}

// beginAbandoned starts the removal from an abandoned cluster that cannot be reached, because
// otherwise the removal might wait for its turn forever.
func beginAbandoned(b *budget, e *entryplan.Plan) (decision, bool) {
	return mayBegin, !e.Member.IsReady() && b.in.Abandoned[e.Entry.Name]
}

// awaitBlockers makes a removal wait for the clusters that must become ready first. See blockers,
// noneReady and unreadyInPlan.
func awaitBlockers(b *budget, e *entryplan.Plan) (decision, bool) {
	return isBlocked, len(b.blockers[e.Entry.Name]) > 0
}

// holdLastReady holds the removal from the last cluster that is known to be ready while the plan
// chooses no cluster.
func holdLastReady(b *budget, e *entryplan.Plan) (decision, bool) {
	return needsApproval, b.isLast(e) && !e.Entry.Transition.Accepted
}

// limitConcurrency makes a removal wait while the removal limit is reached, which newBudget
// computes. Approved removals do not wait.
func limitConcurrency(b *budget, e *entryplan.Plan) (decision, bool) {
	return mustWait, !b.allows(e)
}

// isUnintended reports whether a cluster left the plan in a way that may be an accident, and no
// user has approved the removal.
func isUnintended(e *entryplan.Plan) bool {
	switch e.Entry.Transition.Cause {
	case v1alpha1.CauseClustersChanged, v1alpha1.CauseRecovered, v1alpha1.CauseRejoined:
		return !e.Entry.Transition.Accepted
	}
	return false
}
