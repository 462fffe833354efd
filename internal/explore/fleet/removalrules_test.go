package fleet

import (
	"fmt"
	"slices"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/rollout/entryplan"
)

// starts returns the entries whose removal starts.
func (st *step) starts() []v1alpha1.ClusterStatus {
	var entries []v1alpha1.ClusterStatus
	for _, entry := range st.status.Clusters {
		if entry.Phase == v1alpha1.ClusterRemoving && st.was(entry.Name) != nil {
			entries = append(entries, entry)
		}
	}
	return entries
}

func (st *step) removesWithIntent() string {
	for _, entry := range st.starts() {
		if !st.isDeleting() && (st.in.PlanError != nil || st.in.Plan.Find(entry.Name).Chosen() || st.in.App.Spec.Suspend) {
			return entry.Name + " is being removed"
		}
	}
	return ""
}

func (st *step) removesWithReplacement() string {
	for _, entry := range st.starts() {
		unready := st.before.app.Annotations[v1alpha1.AnnotationAcceptUnready] != "" || st.in.IsAbandoned(entry.Name)
		wanted := st.in.App.DesiredReplicas() > 0 && entry.ReadyReplicas > 0
		anyChosen := st.chosenBits() != 0
		if st.isDeleting() || !wanted || unready {
			continue
		}
		isAnyReady := slices.ContainsFunc(st.status.Clusters, func(other v1alpha1.ClusterStatus) bool {
			return other.Phase == v1alpha1.ClusterReady && st.in.Plan.Find(other.Name).Chosen()
		})
		switch {
		case anyChosen && !isAnyReady:
			return "the removal from " + entry.Name + " starts, and no cluster of the plan is Ready"
		case st.serving(st.status) > 0:
		case !anyChosen && !entry.Transition.Accepted:
			return "no cluster is chosen, and the removal from " + entry.Name + ", the last one that is ready, starts without approval"
		case anyChosen && st.leftBits()&(1<<indexOf(entry.Name)) != 0:
			return "the removal from " + entry.Name + " starts without an edit, and no cluster that is ready remains"
		}
	}
	return ""
}

// removesOneByOne checks that no removal starts while another one goes on: that is the limit for so few
// clusters. One that a user has approved starts at once.
func (st *step) removesOneByOne() string {
	var removing []string
	for _, entry := range st.status.Clusters {
		isReachable := st.after.members[indexOf(entry.Name)].isReachable()
		if entry.Phase == v1alpha1.ClusterRemoving && isReachable && !entry.Transition.Accepted {
			removing = append(removing, entry.Name)
		}
	}
	for _, entry := range st.starts() {
		if len(removing) > 1 && slices.Contains(removing, entry.Name) && !st.isDeleting() {
			return fmt.Sprintf("the removal from %s starts, and removals go on from %v", entry.Name, removing)
		}
	}
	return ""
}

func (st *step) limitsRemovals() string {
	if st.isDeleting() {
		return ""
	}
	recent := len(st.unintended())
	for _, start := range st.before.memory.removals {
		if st.before.now-start < hour {
			recent++
		}
	}
	if len(st.unintended()) > 0 && recent > 1 { // the limit for so few clusters is one
		return fmt.Sprintf("%d removals and scale-downs without an edit have started within an hour", recent)
	}
	return ""
}

func (st *step) acceptsFew() string {
	if accepted, allowed := st.newlyAccepted(), st.allowance(); accepted > 0 && accepted > allowed {
		return fmt.Sprintf("%d are approved, and the user has approved %d more", accepted, max(0, allowed))
	}
	return ""
}

// choosesClusters checks the clusters of the plan: those that fit, up to the limit. A cluster that is cordoned or
// lost gets nothing new, and one that has the AppService keeps it.
func (st *step) choosesClusters() string {
	if st.in.PlanError != nil || st.isDeleting() {
		return ""
	}
	chosen, eligible, limit := 0, 0, len(st.clusters)
	if placement := st.in.App.Spec.Placement; placement != nil && placement.Limit != nil && *placement.Limit > 0 {
		limit = int(*placement.Limit)
	}
	var isNewChosen, isLeft string
	for name, member := range st.in.Members {
		entry := st.in.App.Status.Cluster(name)
		isChosen, isNew := st.in.Plan.Find(name).Chosen(), entry == nil
		fits := st.fits(name) && len(member.Spec.Taints) == 0 && !(isNew && (member.Spec.Unschedulable || !member.IsReady()))
		switch {
		case isChosen && !fits:
			return name + " is chosen, and does not fit"
		case isChosen && isNew:
			isNewChosen = name
		case !isChosen && fits && !isNew && entry.Phase != v1alpha1.ClusterRemoving && entry.Transition.Type == "":
			isLeft = name
		}
		if isChosen {
			chosen++
		}
		if fits {
			eligible++
		}
	}
	switch {
	case chosen != min(eligible, limit):
		return fmt.Sprintf("%d of %d clusters that fit are chosen, and the limit is %d", chosen, eligible, limit)
	case isNewChosen != "" && isLeft != "":
		return fmt.Sprintf("%s is chosen instead of %s, which has the AppService", isNewChosen, isLeft)
	}
	return ""
}

// fits reports whether the placement of the spec matches a cluster.
func (st *step) fits(cluster string) bool {
	placement := st.in.App.Spec.Placement
	switch {
	case placement == nil:
		return true
	case len(placement.ClusterNames) > 0:
		return slices.Contains(placement.ClusterNames, cluster)
	case placement.ClusterSelector != nil:
		return placement.ClusterSelector.MatchLabels["stage"] == st.label(cluster)
	}
	return true
}

// plansReplicas checks the replicas of the plan.
func (st *step) plansReplicas() string {
	spec := st.in.App.Spec
	if spec.Autoscaling != nil || st.chosenBits() == 0 || st.in.PlanError != nil {
		return ""
	}
	sum := int32(0)
	for _, decision := range st.in.Plan {
		if !decision.Chosen() {
			continue
		}
		sum += decision.Replicas
		if wanted := wantedReplicas(&spec, st.label(decision.Cluster)); spec.ReplicaPolicy == nil && decision.Replicas != wanted {
			return fmt.Sprintf("%s is to have %d replicas, and the spec asks for %d", decision.Cluster, decision.Replicas, wanted)
		}
	}
	if spec.ReplicaPolicy != nil && sum != *spec.Replicas {
		return fmt.Sprintf("the plan has %d replicas, and the spec asks for %d", sum, *spec.Replicas)
	}
	return ""
}

// serving returns the number of clusters that keep running replicas that are known to be ready now.
func (st *step) serving(status v1alpha1.AppServiceStatus) int {
	n := 0
	for _, entry := range status.Clusters {
		now := st.status.Cluster(entry.Name)
		isGone := entry.Phase == v1alpha1.ClusterRemoving || entry.Phase == v1alpha1.ClusterDetached || now == nil || now.Phase == v1alpha1.ClusterPending
		if !isGone && st.after.members[indexOf(entry.Name)].isReachable() && min(now.ReadyReplicas, entry.Replicas) > 0 {
			n++
		}
	}
	return n
}

func (st *step) keepsServing() string {
	annotations := st.before.app.Annotations
	isAccepted := annotations[v1alpha1.AnnotationAcceptUnready] != "" || st.allowance() > 0
	isAsked := st.before.memory.isEdited || st.isDeleting() || st.in.App.DesiredReplicas() == 0
	if isAccepted || isAsked || st.chosenBits() == 0 {
		return ""
	}
	if st.serving(st.before.app.Status) > 0 && st.serving(st.status) == 0 {
		return "no cluster that is known to be ready keeps the AppService"
	}
	return ""
}

// keepsDivided checks that scale-downs of divided replicas leave as many that are known to be ready as
// before, or as the spec asks for.
func (st *step) keepsDivided() string {
	isAccepted := st.before.app.Annotations[v1alpha1.AnnotationAcceptUnready] != ""
	if isAccepted || st.before.memory.isEdited || st.isDeleting() || st.in.App.Spec.ReplicaPolicy == nil {
		return ""
	}
	had, has := int32(0), int32(0)
	for _, entry := range st.status.Clusters {
		was := st.was(entry.Name)
		if was != nil && entryplan.IsPlanned(entry) && st.after.members[indexOf(entry.Name)].isReachable() {
			had, has = had+min(entry.ReadyReplicas, was.Replicas), has+min(entry.ReadyReplicas, entry.Replicas)
		}
	}
	if has < min(had, st.in.App.DesiredReplicas()) {
		return fmt.Sprintf("%d replicas are ready, and %d of them remain", had, has)
	}
	return ""
}

func (st *step) keepsReplicas() string {
	for _, entry := range st.lowered() {
		if wanted := st.in.Plan.Find(entry.Name).Replicas; entry.Replicas < wanted {
			return fmt.Sprintf("%s has %d replicas, and the plan has %d", entry.Name, entry.Replicas, wanted)
		}
	}
	return ""
}
