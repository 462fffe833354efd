package rollout

import (
	"slices"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
)

// remove starts removals from clusters that left the plan, in order of name, and explains on the other entries why theirs has not
// started. It returns the next count of removals, and notes for people. The policies of removalPolicies decide.
func (in Input) remove(plans []entryPlan) (v1alpha1.RemovalsStatus, []string) {
	counted := in.removals()
	if in.IsSuspended() || in.PlanError != nil {
		in.carryHolds(plans)
		return counted, nil
	}
	t := in.newRemovalBudget(plans, counted)
	if len(t.leaving) == 0 {
		return counted, nil
	}
	t.acknowledge()
	surging, unready := in.blockers(plans), in.unreadyInPlan(plans)
	for _, e := range t.leaving {
		e.blockers = surging
		if e.entry.Transition.Cause != v1alpha1.CauseEdit && in.mayServe(e) {
			e.blockers = sortedUnion(surging, unready)
		}
		if t.verdict(e) == mayBegin {
			t.begin(e)
		}
	}
	return t.counted, t.explain()
}

// verdict is the answer of the removal policies about one cluster.
type verdict int

const (
	mayBegin      verdict = iota // the removal starts
	needsApproval                // it waits until somebody approves it
	isBlocked                    // it waits for other clusters to become ready
	mustWait                     // it waits for other removals
)

// removalPolicy returns its verdict about a removal, or false if the policies after it decide.
type removalPolicy func(*removalBudget, *entryPlan) (verdict, bool)

// removalPolicies is the chain that each removal passes.
var removalPolicies = []removalPolicy{
	holdAccidents,
	beginAbandoned,
	awaitBlockers,
	holdLastReady,
	limitConcurrency,
}

// verdict returns the verdict of the first policy that has one.
func (t *removalBudget) verdict(e *entryPlan) verdict {
	for _, policy := range removalPolicies {
		if v, decided := policy(t, e); decided {
			return v
		}
	}
	return mayBegin
}

// holdAccidents holds removals that may be accidents: too many within an hour without an edit, or of clusters that were recovered
// or have rejoined.
func holdAccidents(t *removalBudget, e *entryPlan) (verdict, bool) {
	return needsApproval, t.needsAcknowledgement(e)
}

// beginAbandoned lets a cluster go that is abandoned and cannot be reached: it would wait for its turn for ever.
func beginAbandoned(t *removalBudget, e *entryPlan) (verdict, bool) {
	return mayBegin, !e.member.IsReady() && t.in.IsAbandoned(e.entry.Name)
}

// awaitBlockers lets a removal wait for the clusters that must become ready first: see blockers, and unreadyInPlan.
func awaitBlockers(_ *removalBudget, e *entryPlan) (verdict, bool) {
	return isBlocked, len(e.blockers) > 0
}

// holdLastReady holds the last cluster that is known to be ready, while the plan chooses none.
func holdLastReady(t *removalBudget, e *entryPlan) (verdict, bool) {
	return needsApproval, t.isLast(e) && !e.entry.Transition.Accepted
}

// limitConcurrency limits removals to a fifth of the clusters at a time, and those that were approved.
func limitConcurrency(t *removalBudget, e *entryPlan) (verdict, bool) {
	return mustWait, !t.allows(e)
}

// mayServe reports whether pods of the AppService may be ready on a cluster, also when it cannot be observed. It depends on what the
// entry is to run, because an override may give a cluster more than spec.replicas; no override adds to what clusters divide.
func (in Input) mayServe(e *entryPlan) bool {
	if in.IsDivided() && in.App.Spec.Autoscaling == nil && in.App.DesiredReplicas() == 0 {
		return false
	}
	return e.entry.ReadyReplicas > 0 && desiredReplicas(e.entry) > 0
}

// isServing reports whether pods of the AppService are known to be ready on a cluster, and are to stay.
func isServing(e *entryPlan) bool {
	return e.member != nil && e.member.IsReady() && IsPlanned(e.entry) && knownReadyReplicas(e.entry) > 0 && desiredReplicas(e.entry) > 0
}

// unreadyInPlan returns the clusters of the plan that must become ready before anything is removed or scaled down without an edit: all that
// are not ready where the clusters divide the replicas; otherwise none as soon as one is ready.
func (in Input) unreadyInPlan(plans []entryPlan) []string {
	if in.acceptsUnready() {
		return nil
	}
	if in.IsDivided() {
		return in.shortfall(plans, isInPlan).clusters
	}
	var names []string
	for i := range plans {
		e := &plans[i]
		switch {
		case !isInPlan(e):
		case isServing(e) && isFullyReady(e.entry):
			return nil
		default:
			names = append(names, e.entry.Name)
		}
	}
	return names
}

// isInPlan reports whether the plan has the cluster.
func isInPlan(e *entryPlan) bool { return IsPlanned(e.entry) && !e.leaves }

func sortedUnion(a, b []string) []string {
	union := slices.Concat(a, b)
	slices.Sort(union)
	return slices.Compact(union)
}
