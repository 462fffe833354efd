package rollout

import (
	"slices"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
)

// remove starts removals from clusters that left the plan, in order of name. On the entries whose
// removal has not started, it explains why. It returns the next removal counters and notes for
// users. The policies in removalPolicies decide.
func (in Input) remove(plans []entryPlan, limit *brake) (v1alpha1.RemovalsStatus, []string) {
	counted := limit.counted
	if in.IsSuspended() || in.PlanError != nil {
		in.carryHolds(plans)
		return counted, nil
	}
	b := in.newRemovalBudget(plans, counted)
	b.heldScaleDowns = limit.held
	if len(b.leaving) == 0 {
		return counted, nil
	}
	b.acknowledge()
	surging := in.blockers(plans)
	edited := sortedUnion(surging, in.noneReady(plans))
	unedited := sortedUnion(edited, in.unreadyInPlan(plans))
	for _, e := range b.leaving {
		switch {
		case !in.mayServe(e):
			e.blockers = surging
		case e.entry.Transition.Cause == v1alpha1.CauseEdit:
			e.blockers = edited
		default:
			e.blockers = unedited
		}
		if b.verdict(e) == mayBegin {
			b.begin(e)
		}
	}
	return b.counted, b.explain()
}

// verdict is the result of the removal policies for one cluster.
type verdict int

const (
	mayBegin      verdict = iota // the removal may start
	needsApproval                // the removal waits until a user approves it
	isBlocked                    // the removal waits for other clusters to become ready
	mustWait                     // the removal waits for other removals
)

// removalPolicy returns its verdict on a removal, or false if the next policy decides.
type removalPolicy func(*removalBudget, *entryPlan) (verdict, bool)

// removalPolicies is the chain of policies for each removal.
var removalPolicies = []removalPolicy{
	holdAccidents,
	beginAbandoned,
	awaitBlockers,
	holdLastReady,
	limitConcurrency,
}

// verdict returns the verdict of the first policy that decides, or mayBegin if none does.
func (b *removalBudget) verdict(e *entryPlan) verdict {
	for _, policy := range removalPolicies {
		if v, decided := policy(b, e); decided {
			return v
		}
	}
	return mayBegin
}

// holdAccidents holds removals that may be accidents: too many within an hour without an edit, or
// removals from clusters that were recovered or have rejoined.
func holdAccidents(b *removalBudget, e *entryPlan) (verdict, bool) {
	return needsApproval, b.needsAcknowledgement(e)
}

// beginAbandoned starts the removal from an abandoned cluster that cannot be reached, because
// otherwise the removal might wait for its turn forever.
func beginAbandoned(b *removalBudget, e *entryPlan) (verdict, bool) {
	return mayBegin, !e.member.IsReady() && b.in.IsAbandoned(e.entry.Name)
}

// awaitBlockers makes a removal wait for the clusters that must become ready first. See blockers,
// noneReady and unreadyInPlan.
func awaitBlockers(_ *removalBudget, e *entryPlan) (verdict, bool) {
	return isBlocked, len(e.blockers) > 0
}

// holdLastReady holds the removal from the last cluster that is known to be ready while the plan
// chooses no cluster.
func holdLastReady(b *removalBudget, e *entryPlan) (verdict, bool) {
	return needsApproval, b.isLast(e) && !e.entry.Transition.Accepted
}

// limitConcurrency makes a removal wait while the removal limit is reached, which newRemovalBudget
// computes. Approved removals do not wait.
func limitConcurrency(b *removalBudget, e *entryPlan) (verdict, bool) {
	return mustWait, !b.allows(e)
}

// mayServe reports whether pods of the AppService may be ready on a cluster, including a cluster
// that cannot be observed, while the spec asks for pods.
func (in Input) mayServe(e *entryPlan) bool { return e.entry.ReadyReplicas > 0 && in.wantsPods() }

// wantsPods reports whether the spec asks for pods on any cluster. It reads the spec and not the
// entries, because an entry may be older than an edit from or to 0 replicas. Where the clusters
// divide the replicas, no override adds replicas.
func (in Input) wantsPods() bool {
	if in.App.Spec.Autoscaling != nil || in.App.Spec.ExternallyScaled || in.App.DesiredReplicas() > 0 {
		return true
	}
	return !in.IsDivided() && slices.ContainsFunc(in.App.Spec.Overrides, func(o v1alpha1.Override) bool {
		return o.Replicas != nil && *o.Replicas > 0
	})
}

// isServing reports whether pods of the AppService are known to be ready on a cluster and are to
// keep running.
func (in Input) isServing(e *entryPlan) bool {
	return e.member != nil && e.member.IsReady() && IsPlanned(e.entry) && knownReadyReplicas(e.entry) > 0 && in.canServe(e)
}

// canServe reports whether pods are to run on a cluster of the plan. An override may set 0
// replicas. With externallyScaled, 0 are only the initial ones.
func (in Input) canServe(e *entryPlan) bool {
	return desiredReplicas(e.entry) > 0 || in.App.Spec.ExternallyScaled
}

// unreadyInPlan returns the clusters of the plan that must become ready before a removal or
// scale-down without an edit may start. Where the clusters divide the replicas, these are all
// clusters that are not ready. Otherwise it returns none if any cluster of the plan is ready, and
// no cluster on which no pods are to run.
func (in Input) unreadyInPlan(plans []entryPlan) []string {
	if in.IsDivided() && !in.acceptsUnready() {
		return in.shortfall(plans, isInPlan).clusters
	}
	return in.unlessAny(plans, func(e *entryPlan) bool { return isFullyReady(e.entry) })
}

// noneReady returns the clusters of the plan that a removal waits for, if the AppService is Ready on
// none of them. A cluster must be Ready with the revision that it is to run: while it is updated, the
// ready pods of its previous revision may end. Where pod security refuses that one, they stay.
func (in Input) noneReady(plans []entryPlan) []string {
	return in.unlessAny(plans, func(e *entryPlan) bool { return e.entry.Phase == v1alpha1.ClusterReady || e.isReadyRefused })
}

// unlessAny returns the clusters of the plan on which pods are to run, or none if any of them is
// serving and is enough.
func (in Input) unlessAny(plans []entryPlan, isEnough func(*entryPlan) bool) []string {
	if in.acceptsUnready() {
		return nil
	}
	var names []string
	for i := range plans {
		e := &plans[i]
		switch {
		case !isInPlan(e):
		case in.isServing(e) && isEnough(e):
			return nil
		case in.canServe(e):
			names = append(names, e.entry.Name)
		}
	}
	return names
}

// isInPlan reports whether the plan contains the cluster.
func isInPlan(e *entryPlan) bool { return IsPlanned(e.entry) && !e.isLeaving }

func sortedUnion(a, b []string) []string {
	union := slices.Concat(a, b)
	slices.Sort(union)
	return slices.Compact(union)
}
