package rollup

import (
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
)

// suspended tells whether nothing may be changed on any cluster. A deletion is not kept from its course.
func (in Input) suspended() bool { return in.App.Spec.Suspend && !in.deleting() }

// suspension is the Suspended condition, while it is true.
func (in Input) suspension() []metav1.Condition {
	if !in.suspended() {
		return nil
	}
	return []metav1.Condition{condition(v1alpha1.ConditionSuspended, metav1.ConditionTrue, v1alpha1.ReasonSuspended,
		"spec.suspend stops all changes; the clusters keep what they run")}
}

// waits says what would be done were it not suspended; empty when nothing would.
func (in Input) waits(rows []v1alpha1.ClusterStatus) string {
	if !in.suspended() {
		return ""
	}
	var old, added, removed []string
	has := make(map[string]bool, len(rows))
	for _, row := range rows {
		has[row.Name] = true
		decision := in.Plan.Find(row.Name)
		switch {
		case !planned(row):
		case !decision.Chosen():
			removed = append(removed, row.Name)
		case row.Generation != in.App.Generation:
			old = append(old, row.Name)
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
			waits = append(waits, w.what+" "+list(w.names))
		}
	}
	return strings.Join(waits, "; ")
}

// waiting says what waits, and what is not well besides.
func waiting(waits string, rows []v1alpha1.ClusterStatus, sum v1alpha1.ClusterSummary) string {
	message := "suspended: " + waits
	if sum.Ready < sum.Clusters {
		message += "; " + notReady(rows, sum)
	}
	return message
}
