package rollup

import (
	"fmt"
	"strings"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/placement"
)

// maxNamed is how many clusters a message names; a message stays readable with a thousand.
const maxNamed = 5

// maxMessage is how many characters the schema takes in the message of a row. One longer would have the whole
// status refused: one member would hold up the rows of all others.
const maxMessage = 1024

func bounded(message string) string {
	characters := []rune(message)
	if len(characters) <= maxMessage {
		return message
	}
	return string(characters[:maxMessage-1]) + "…"
}

// on says where it runs: "on 3 clusters: east, north, south".
func on(rows []v1alpha1.ClusterStatus) string {
	var names []string
	for _, row := range rows {
		if planned(row) {
			names = append(names, row.Name)
		}
	}
	return "on " + list(names)
}

// from says where it is being removed, and what stands in the way.
func from(rows []v1alpha1.ClusterStatus) string {
	var names []string
	for _, row := range rows {
		names = append(names, named(row, v1alpha1.ReasonRemoving))
	}
	return "from " + list(names)
}

// notReady says where it is not ready and why, what is worst first.
func notReady(rows []v1alpha1.ClusterStatus, sum v1alpha1.ClusterSummary) string {
	if sum.Clusters == 0 {
		return "no cluster is chosen; see status.placement.excluded"
	}
	var names []string
	for _, phase := range []v1alpha1.ClusterPhase{v1alpha1.ClusterFailed, v1alpha1.ClusterUnknown, v1alpha1.ClusterProgressing, v1alpha1.ClusterPending} {
		for _, row := range rows {
			if row.Phase == phase {
				names = append(names, named(row, ""))
			}
		}
	}
	return fmt.Sprintf("%d of %s not ready: %s", len(names), clusters(sum.Clusters), capped(names))
}

// whyNone says why no cluster is chosen.
func whyNone(plan placement.Plan) string {
	if len(plan) == 0 {
		return "there is no MemberCluster; add a cluster by a kubeconfig Secret"
	}
	return fmt.Sprintf("none of %s is chosen%s", clusters(int32(len(plan))), whyNot(": ", plan))
}

// whyNot says why clusters are not chosen, such as "3 clusters with other labels (want region=eu)", after an introduction; "" when all are.
func whyNot(introduction string, plan placement.Plan) string {
	var reasons []string
	for _, excluded := range plan.Excluded() {
		reason := fmt.Sprintf("%s %s", clusters(excluded.Count), excludedBy[excluded.Reason])
		switch details := strings.Join(excluded.Requirements, " or "); {
		case excluded.Reason == v1alpha1.ReasonSelectorMismatch && details != "":
			reason += fmt.Sprintf(" (want %s)", details)
		case details != "":
			reason += fmt.Sprintf(" (%s)", details)
		case excluded.Reason == v1alpha1.ReasonNoSuchCluster:
			reason += fmt.Sprintf(" (%s)", strings.Join(excluded.Examples, ", "))
		}
		reasons = append(reasons, reason)
	}
	if len(reasons) == 0 {
		return ""
	}
	return introduction + strings.Join(reasons, ", ")
}

// excludedBy says in words what the reasons of status.placement.excluded mean.
var excludedBy = map[string]string{
	v1alpha1.ReasonNotNamed:          "that clusterNames does not list",
	v1alpha1.ReasonSelectorMismatch:  "with other labels",
	v1alpha1.ReasonUnschedulable:     "with spec.unschedulable",
	v1alpha1.ReasonTaintNotTolerated: "with taints",
	v1alpha1.ReasonLimitReached:      "beyond the limit",
	v1alpha1.ReasonClusterNotReady:   "not Ready",
	v1alpha1.ReasonClusterDeleting:   "being deleted",
	v1alpha1.ReasonNoSuchCluster:     "in clusterNames without a MemberCluster",
}

// named is a cluster with its reason, unless that is the usual one.
func named(row v1alpha1.ClusterStatus, usual string) string {
	if row.Reason == usual {
		return row.Name
	}
	return fmt.Sprintf("%s (%s)", row.Name, row.Reason)
}

func list(names []string) string {
	return fmt.Sprintf("%s: %s", clusters(int32(len(names))), capped(names))
}

func clusters(n int32) string {
	if n == 1 {
		return "1 cluster"
	}
	return fmt.Sprintf("%d clusters", n)
}

func capped(names []string) string {
	if len(names) <= maxNamed {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:maxNamed], ", "), len(names)-maxNamed)
}
