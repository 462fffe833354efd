package status

import (
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/rollout/entryplan"
	"github.com/fleetwright/fleetwright/controllers/rollout/wording"
)

// suspension returns the Suspended condition while the AppService is suspended. Then Ready is False
// with the same reason, and kstatus reports InProgress: setting spec.suspend is an edit, so all
// entries are a generation behind, and a generation does not say whether anything else was edited.
func (in report) suspension() []metav1.Condition {
	if !in.App.IsSuspended() {
		return nil
	}
	return []metav1.Condition{condition(v1alpha1.ConditionSuspended, metav1.ConditionTrue, v1alpha1.ReasonSuspended,
		"spec.suspend stops all changes; the clusters keep what they run")}
}

// pendingChanges returns the changes that would be made if the AppService were not suspended. It
// returns "" if there are none.
func (in report) pendingChanges(entries []v1alpha1.ClusterStatus) string {
	if !in.App.IsSuspended() {
		return ""
	}
	var old, added, removed []string
	has := make(map[string]bool, len(entries))
	for _, entry := range entries {
		has[entry.Name] = true
		decision := in.Plan.Find(entry.Name)
		switch {
		case !entryplan.IsPlanned(entry):
		case !decision.Chosen():
			removed = append(removed, entry.Name)
		case entry.Generation != in.App.Generation:
			old = append(old, entry.Name)
		}
	}
	for _, decision := range in.Plan {
		if decision.Chosen() && !has[decision.Cluster] && in.Members[decision.Cluster] != nil {
			added = append(added, decision.Cluster)
		}
	}
	var waits []string
	for _, w := range []struct {
		what  string
		names []string
	}{
		{fmt.Sprintf("generation %d is not rolled out to", in.App.Generation), old},
		{"it is not added to", added},
		{"it is not removed from", removed},
	} {
		if len(w.names) > 0 {
			waits = append(waits, w.what+" "+wording.ListClusters(w.names))
		}
	}
	return strings.Join(waits, "; ")
}

// suspendedMessage returns which changes are pending and which clusters are not ready.
func (in report) suspendedMessage(waits string, entries []v1alpha1.ClusterStatus, sum v1alpha1.ClusterSummary) string {
	message := "suspended: " + waits
	if sum.Ready < sum.Clusters {
		message += "; " + in.notReady(entries, sum)
	}
	return message
}
