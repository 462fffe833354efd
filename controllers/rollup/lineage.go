package rollup

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/lineage"
)

// hubBehind returns what a cluster holds that this hub has never planned, or nil. It is remembered while the cluster cannot be observed.
func hubBehind(d *draft) *v1alpha1.HubBehind {
	switch {
	case d.seen != nil && d.seen.HubBehind != nil:
		return d.seen.HubBehind
	case d.previous != nil:
		return d.previous.HubBehind
	}
	return nil
}

// holdBehind marks the clusters that are ahead of the hub, and says on all others that need a change why they get none. The marks stay
// until all of them are accepted: then one value of the annotation is enough, also for those that were accepted before.
func (in Input) holdBehind(drafts []draft) {
	var ahead []v1alpha1.ClusterStatus
	accepted := true
	for i := range drafts {
		row := &drafts[i].row
		if row.HubBehind = hubBehind(&drafts[i]); row.HubBehind != nil {
			ahead = append(ahead, *row)
			accepted = accepted && lineage.IsAccepted(in.App, row.HubBehind)
		}
	}
	if accepted {
		for i := range drafts {
			drafts[i].row.HubBehind = nil
		}
		return
	}
	elsewhere := fmt.Sprintf("nothing is changed here, because the hub is behind %s, as after a restore; %s", list(namesOf(ahead)), howToAccept(ahead))
	for i := range drafts {
		row := &drafts[i].row
		if row.HubBehind == nil && row.Phase == v1alpha1.ClusterReady || !isHeldBehind(row) {
			continue
		}
		if row.Phase != v1alpha1.ClusterRemoving {
			row.Phase = v1alpha1.ClusterFailed
		}
		row.Reason, row.Message = v1alpha1.ReasonHubBehind, bounded(elsewhere)
		if row.HubBehind != nil {
			row.Message = bounded(whatIsAhead(row.HubBehind) + howToAccept(ahead))
		}
	}
}

// isHeldBehind reports whether an entry can say that the hub is behind. An entry whose cluster cannot be observed says that instead, and one
// whose removal waits says why it waits.
func isHeldBehind(row *v1alpha1.ClusterStatus) bool {
	switch {
	case row.Phase == v1alpha1.ClusterUnknown, row.Phase == v1alpha1.ClusterDetached:
		return false
	case row.Transition.Type == v1alpha1.TransitionRemovalNeedsApproval, row.Transition.Type == v1alpha1.TransitionRemovalPending:
		return false
	}
	return true
}

// BehindMessage says what is ahead of the hub on a cluster, and how to accept it.
func BehindMessage(behind *v1alpha1.HubBehind) string {
	return whatIsAhead(behind) + accept(behind.Accept)
}

// whatIsAhead says what is ahead of the hub on a cluster.
func whatIsAhead(behind *v1alpha1.HubBehind) string {
	what := fmt.Sprintf("%s was applied for generation %d, which this hub has never planned", behind.Kind, behind.Generation)
	if behind.UID != "" {
		what = fmt.Sprintf("%s was applied for an AppService of this name with UID %q, which was created later than the hub's", behind.Kind, behind.UID)
	}
	return what + ": the hub is behind, as after a restore; "
}

// accept says how to go on with what the hub has.
func accept(tokens string) string {
	return fmt.Sprintf("bring the AppService up to date, then let it overwrite the clusters by annotation %s=%s", v1alpha1.AnnotationAcceptHub, tokens)
}

// howToAccept says how to accept all that is ahead.
func howToAccept(ahead []v1alpha1.ClusterStatus) string {
	tokens := make([]string, 0, len(ahead))
	for _, row := range ahead {
		tokens = append(tokens, row.HubBehind.Accept)
	}
	return accept(lineage.AcceptValue(tokens))
}

// behind returns the conditions while the hub is behind, or none.
func (in Input) behind(rows []v1alpha1.ClusterStatus) []metav1.Condition {
	var ahead []v1alpha1.ClusterStatus
	for _, row := range rows {
		if row.HubBehind != nil {
			ahead = append(ahead, row)
		}
	}
	if len(ahead) == 0 {
		return nil
	}
	message := fmt.Sprintf("the hub is behind %s, as after a restore: nothing is created, changed or deleted on any cluster; %s",
		list(namesOf(ahead)), howToAccept(ahead))
	return append([]metav1.Condition{
		in.placed(),
		condition(v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonHubBehind, message),
		condition(v1alpha1.ConditionStalled, metav1.ConditionTrue, v1alpha1.ReasonHubBehind, message),
	}, in.suspension()...)
}

func namesOf(rows []v1alpha1.ClusterStatus) []string {
	names := make([]string, 0, len(rows))
	for _, row := range rows {
		names = append(names, row.Name)
	}
	return names
}
