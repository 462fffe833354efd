package removal

import (
	"slices"

	"github.com/fleetwright/fleetwright/controllers/rollout/entryplan"
)

// shortfall describes the replicas that are not ready yet on clusters of the plan.
type shortfall struct {
	clusters       []string // clusters with replicas that must become ready
	unready        int64    // number of replicas that must become ready
	readyOnLeaving int64    // number of ready replicas on leaving clusters, which stay until all others are ready
}

// shortfall returns the replicas that are not ready yet on the clusters for which counts returns
// true. A cluster with a lower target counts with its target, so that it does not wait for itself.
func (in Input) shortfall(plans []entryplan.Plan, counts func(*entryplan.Plan) bool) shortfall {
	var f shortfall
	for i := range plans {
		e := &plans[i]
		switch {
		case !entryplan.IsPlanned(e.Entry):
		case e.IsLeaving:
			f.readyOnLeaving += int64(min(knownReadyReplicas(e.Entry), e.Entry.Replicas))
		case counts(e):
			final := e.Entry
			if e.LowerTarget != nil {
				entryplan.SetReplicas(&final, *e.LowerTarget)
			}
			wants := entryplan.DesiredReplicas(final)
			if missing := wants - min(wants, knownReadyReplicas(e.Entry)); missing > 0 || e.Entry.Surging && wants > 0 {
				f.clusters = append(f.clusters, e.Entry.Name)
				f.unready += int64(missing)
			}
		}
	}
	return f
}

// isSurging reports whether the cluster has new replicas that are not all ready.
func isSurging(e *entryplan.Plan) bool { return e.Entry.Surging }

// shortfallOfOthers returns the shortfall that a scale-down to zero waits for: the clusters of the
// plan that are not to be scaled down, or nothing if any of them is ready. The number of unready
// replicas is 1 instead of their sum, because scaleDownOne only checks that it is positive.
func (in Input) shortfallOfOthers(plans []entryplan.Plan) shortfall {
	others := slices.DeleteFunc(slices.Clone(plans), func(other entryplan.Plan) bool { return !isInPlan(&other) || other.LowerTarget != nil })
	names := in.unreadyInPlan(others)
	if len(names) == 0 && len(others) > 0 {
		return shortfall{}
	}
	if len(others) == 0 {
		names = []string{"another cluster"} // the plan has no other cluster to name
	}
	return shortfall{clusters: names, unready: 1}
}
