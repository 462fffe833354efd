package stages

import (
	"cmp"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/placement"
	"github.com/fleetwright/fleetwright/controllers/rollout/entryplan"
)

// cluster is a cluster in a stage.
type cluster struct {
	*entryplan.Plan
	rank  uint64
	stage *stage
	// place is the stage with a limit in which the cluster got the target; empty if no stage of that name
	// matches it.
	place string
	// isPreferred is set in the first decision with these stages if the cluster has the target. It comes
	// before those without, so that an edit of the stages gives the target to few others.
	isPreferred bool
	// isConfirmed is set if this process has observed the cluster.
	isConfirmed bool
}

// stagedClusters returns the clusters that belong to stages, in the order of their placement rank.
// Clusters that leave the plan, are removed or are detached belong to none. Without spec.rollout, the
// order has no meaning.
func (in Input) stagedClusters(plans []entryplan.Plan) []*cluster {
	ranks := placement.RanksOf(in.App)
	all := make([]cluster, 0, len(plans))
	for i := range plans {
		if e := &plans[i]; e.Member != nil && !e.IsLeaving && entryplan.IsPlanned(e.Entry) && !entryplan.AwaitsRemoval(e.Entry) {
			all = append(all, cluster{Plan: e, rank: ranks.Of(e.Entry.Name), isConfirmed: e.Seen != nil && e.Member.IsReady() && !isOutdated(e)})
		}
	}
	clusters := make([]*cluster, len(all))
	for i := range all {
		clusters[i] = &all[i]
	}
	if in.App.Spec.Rollout != nil {
		slices.SortFunc(clusters, func(a, b *cluster) int {
			return cmp.Or(cmp.Compare(a.rank, b.rank), cmp.Compare(a.Entry.Name, b.Entry.Name))
		})
	}
	return clusters
}

// isOutdated reports whether the observation of an entry is from before a restore of the hub. The entry
// had been answered with its revision, and the observation is about another one.
func isOutdated(e *entryplan.Plan) bool {
	if e.Previous == nil || e.Seen == nil || e.Seen.Found || e.Seen.Revision == 0 {
		return false
	}
	return e.Previous.ObservedGeneration >= e.Previous.Generation && e.Seen.Revision != e.Previous.Revision
}

// isEmpty reports whether the cluster runs no pods and is to run none. Then it is no evidence for a
// revision or against it. An autoscaler of the member may have scaled it to zero.
func (c *cluster) isEmpty() bool {
	e := &c.Entry
	return e.CurrentReplicas() == 0 && (e.Phase == v1alpha1.ClusterReady || e.Replicas == 0 && e.MaxReplicas == 0)
}

// isToRunNoPods reports whether the cluster is to have no pods when its scale-down is over. It may still
// run some, because the scale-down has just begun, or is pending.
func (c *cluster) isToRunNoPods() bool {
	if c.LowerTarget != nil {
		return c.LowerTarget.Replicas == 0 && c.LowerTarget.MaxReplicas == 0
	}
	return c.Entry.Replicas == 0 && c.Entry.MaxReplicas == 0
}

// recordPlace records that the cluster got the target in its stage. It matters only under a limit.
func (c *cluster) recordPlace(target int64) {
	c.Entry.Stage, c.Entry.StageRevision = "", 0
	if c.stage.Limit != nil {
		c.Entry.Stage, c.Entry.StageRevision = c.stage.Name, target
	}
}

// isServing reports whether a cluster is Ready, or was available with its revision, has lost no pods
// since, and has answered the latest edit. It may not be Ready then because an autoscaler adds pods.
func (c *cluster) isServing() bool {
	e := &c.Entry
	if e.Phase == v1alpha1.ClusterReady {
		return true
	}
	return e.Phase != v1alpha1.ClusterUnknown && e.ObservedGeneration >= e.Generation && e.AvailableReplicas > 0 && !hasLostPods(*e)
}

// isStillUnready reports whether a cluster is not Ready, and was not in the status before.
func (c *cluster) isStillUnready() bool {
	return c.Entry.Phase != v1alpha1.ClusterReady && (c.Previous == nil || c.Previous.Phase != v1alpha1.ClusterReady)
}

// hasLostPods reports whether a cluster has fewer ready pods than when it was last Ready, and fewer
// than are desired. What an autoscaler desires is known by the number of pods.
func hasLostPods(entry v1alpha1.ClusterStatus) bool {
	return entry.ReadyReplicas < min(entry.AvailableReplicas, max(entryplan.DesiredReplicas(entry), entry.CurrentReplicas()))
}

// unavailableSince returns since when the cluster is unavailable.
func (c *cluster) unavailableSince() metav1.Time {
	if c.Entry.UnavailableSince == nil {
		return metav1.Time{}
	}
	return *c.Entry.UnavailableSince
}

// phaseSince returns since when the entry has its phase with its revision. If the clock was set back
// since then, the phase begins now, as in package entryplan (transitionTime).
func (c *cluster) phaseSince(now metav1.Time) metav1.Time {
	isNew := c.Previous == nil || c.Previous.Phase != c.Entry.Phase || c.Previous.Revision != c.Entry.Revision
	if isNew || entryplan.IsFromOtherClock(c.Previous.LastTransitionTime, now) {
		return now
	}
	return c.Previous.LastTransitionTime
}

// nextReadySince returns since when a cluster that is not available yet has kept its ready pods
// although it is not Ready all the time, because an autoscaler adds pods. It is nil if the cluster was
// never Ready, if pods were lost, or if anything but pods is waited for, such as an address.
func (c *cluster) nextReadySince() *metav1.Time {
	e, previous := &c.Entry, c.Previous
	switch {
	case e.UnavailableSince == nil, e.AvailableReplicas > 0, previous == nil, previous.Revision != e.Revision:
		return nil
	case !c.isConfirmed: // until this process has observed the cluster, the entry stays as it is
		return previous.ReadySince
	}
	hasKept := e.ReadyReplicas > 0 && e.ReadyReplicas >= min(previous.ReadyReplicas, entryplan.DesiredReplicas(*e))
	isReady := e.Phase == v1alpha1.ClusterReady
	isUnanswered := c.Seen.Phase != e.Phase // the observation is about the entry before
	isAdding := e.Phase == v1alpha1.ClusterProgressing && (isUnanswered || c.Seen.Reason == v1alpha1.ReasonRollingOut)
	switch {
	case !hasKept || !isReady && !isAdding:
		return nil
	case previous.ReadySince != nil:
		return previous.ReadySince
	case isAdding && previous.Phase == v1alpha1.ClusterReady:
		return &previous.LastTransitionTime
	}
	return nil
}

// recordAvailable records with how many pods the cluster is available. An entry of an older version of
// Fleetwright gets this with the next change of the entry.
func (c *cluster) recordAvailable() {
	e, previous := &c.Entry, c.Previous
	isChanged := previous == nil || previous.UnavailableSince != nil || previous.ReadyReplicas != e.ReadyReplicas || previous.Phase != e.Phase
	if e.AvailableReplicas > 0 || e.ReadyReplicas > 0 && isChanged {
		e.AvailableReplicas = max(1, e.ReadyReplicas)
	}
}

// namesOf returns the names of clusters.
func namesOf(clusters []*cluster) []string {
	names := make([]string, len(clusters))
	for i, c := range clusters {
		names[i] = c.Entry.Name
	}
	return names
}

// sortedNames returns the names of clusters, sorted.
func sortedNames(clusters []*cluster) []string {
	names := namesOf(clusters)
	slices.Sort(names)
	return names
}

// firstOf returns the first clusters, at most limit.
func firstOf(clusters []*cluster, limit int) []*cluster {
	return clusters[:min(max(0, limit), len(clusters))]
}
