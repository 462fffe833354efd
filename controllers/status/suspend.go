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
func suspension(app *v1alpha1.AppService) []metav1.Condition {
	if !app.IsSuspended() {
		return nil
	}
	return []metav1.Condition{condition(v1alpha1.ConditionSuspended, metav1.ConditionTrue, v1alpha1.ReasonSuspended,
		"spec.suspend stops all changes; the clusters keep what they run")}
}

// pendingChanges returns the changes that would be made if the AppService were not suspended. It
// returns "" if there are none.
func (c choice) pendingChanges(entries []v1alpha1.ClusterStatus) string {
	if !c.app.IsSuspended() {
		return ""
	}
	var old, added, removed []string
	has := make(map[string]bool, len(entries))
	for _, entry := range entries {
		has[entry.Name] = true
		decision := c.plan.Find(entry.Name)
		switch {
		case !entryplan.IsPlanned(entry):
		case !decision.Chosen():
			removed = append(removed, entry.Name)
		case entry.Generation != c.app.Generation:
			old = append(old, entry.Name)
		}
	}
	for decision := range c.chosen() {
		if !has[decision.Cluster] {
			added = append(added, decision.Cluster)
		}
	}
	var waits []string
	for _, w := range []struct {
		what  string
		names []string
	}{
		{fmt.Sprintf("generation %d is not rolled out to", c.app.Generation), old},
		{"it is not added to", added},
		{"it is not removed from", removed},
	} {
		if len(w.names) > 0 {
			waits = append(waits, w.what+" "+wording.ListClusters(w.names))
		}
	}
	return strings.Join(waits, "; ")
}
