package removal

import (
	"slices"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/rollout/entryplan"
)

// mayServe reports whether pods of the AppService may be ready on a cluster, including a cluster
// that cannot be observed, while the spec asks for pods.
func mayServe(app *v1alpha1.AppService, e *entryplan.Plan) bool {
	return e.Entry.ReadyReplicas > 0 && wantsPods(app)
}

// wantsPods reports whether the spec asks for pods on any cluster. It reads the spec and not the
// entries, because an entry may be older than an edit from or to 0 replicas. Where the clusters
// divide the replicas, no override adds replicas.
func wantsPods(app *v1alpha1.AppService) bool {
	if app.Spec.Autoscaling != nil || app.Spec.ExternallyScaled || app.DesiredReplicas() > 0 {
		return true
	}
	return !app.DividesReplicas() && slices.ContainsFunc(app.Spec.Overrides, func(o v1alpha1.Override) bool {
		return o.Replicas != nil && *o.Replicas > 0
	})
}

// isServing reports whether pods of the AppService are known to be ready on a cluster and are to
// keep running.
func isServing(app *v1alpha1.AppService, e *entryplan.Plan) bool {
	return e.Member != nil && e.Member.IsReady() && entryplan.IsPlanned(e.Entry) && knownReadyReplicas(e.Entry) > 0 && canServe(app, e)
}

// canServe reports whether pods are to run on a cluster of the plan. An override may set 0
// replicas. With externallyScaled, 0 are only the initial ones.
func canServe(app *v1alpha1.AppService, e *entryplan.Plan) bool {
	return entryplan.DesiredReplicas(e.Entry) > 0 || app.Spec.ExternallyScaled
}

// unreadyInPlan returns the clusters of the plan that must become ready before a removal or
// scale-down without an edit may start. Where the clusters divide the replicas, these are all
// clusters that are not ready. Otherwise it returns none if any cluster of the plan is ready, and
// no cluster on which no pods are to run.
func (in Input) unreadyInPlan(plans []entryplan.Plan) []string {
	if in.App.DividesReplicas() && !acceptsUnready(in.App) {
		return in.shortfall(plans, isInPlan).clusters
	}
	return in.unlessAny(plans, func(e *entryplan.Plan) bool { return entryplan.IsFullyReady(e.Entry) })
}

// noneReady returns the clusters of the plan that a removal waits for, if the AppService is Ready on
// none of them. A cluster must be Ready with the revision that it is to run: while it is updated, the
// ready pods of its previous revision may end. Where pod security refuses that one, they stay.
func (in Input) noneReady(plans []entryplan.Plan) []string {
	return in.unlessAny(plans, func(e *entryplan.Plan) bool { return e.Entry.Phase == v1alpha1.ClusterReady || e.IsReadyRefused })
}

// unlessAny returns the clusters of the plan on which pods are to run, or none if any of them is
// serving and is enough.
func (in Input) unlessAny(plans []entryplan.Plan, isEnough func(*entryplan.Plan) bool) []string {
	if acceptsUnready(in.App) {
		return nil
	}
	var names []string
	for i := range plans {
		e := &plans[i]
		switch {
		case !isInPlan(e):
		case isServing(in.App, e) && isEnough(e):
			return nil
		case canServe(in.App, e):
			names = append(names, e.Entry.Name)
		}
	}
	return names
}

func sortedUnion(a, b []string) []string {
	union := slices.Concat(a, b)
	slices.Sort(union)
	return slices.Compact(union)
}

// isInPlan reports whether the plan contains the cluster.
func isInPlan(e *entryplan.Plan) bool { return entryplan.IsPlanned(e.Entry) && !e.IsLeaving }

// knownReadyReplicas returns the number of replicas of an entry that are known to be ready, which
// is 0 while the cluster cannot be observed.
func knownReadyReplicas(entry v1alpha1.ClusterStatus) int32 {
	if entry.Phase == v1alpha1.ClusterUnknown || entry.Phase == v1alpha1.ClusterPending {
		return 0
	}
	return entry.ReadyReplicas
}
