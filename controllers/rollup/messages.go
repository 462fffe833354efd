package rollup

import (
	"fmt"
	"slices"
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

// notReady says where it is not ready and why, what is worst first. What all clusters that fail have in common is said once, in full.
func notReady(rows []v1alpha1.ClusterStatus, sum v1alpha1.ClusterSummary) string {
	if sum.Clusters == 0 {
		return "no cluster is chosen; see status.placement.excluded"
	}
	var failing []v1alpha1.ClusterStatus
	var names, others []string // others do not fail
	for _, phase := range []v1alpha1.ClusterPhase{v1alpha1.ClusterFailed, v1alpha1.ClusterUnknown, v1alpha1.ClusterProgressing, v1alpha1.ClusterPending} {
		for _, row := range rows {
			if row.Phase != phase {
				continue
			}
			names = append(names, named(row, ""))
			if isFailing(row) {
				failing = append(failing, row)
			} else {
				others = append(others, named(row, ""))
			}
		}
	}
	if shared := sharedFailure(failing, sum.Clusters); shared != "" && len(others) == 0 {
		return shared
	} else if shared != "" {
		return fmt.Sprintf("%s; %d more not ready: %s", shared, len(others), capped(others))
	}
	return fmt.Sprintf("%d of %s not ready: %s", len(names), clusters(sum.Clusters), capped(names))
}

// isFailing reports whether a cluster status says what is wrong: it is Failed, or it is still rolling out and its pods cannot run.
func isFailing(row v1alpha1.ClusterStatus) bool {
	return row.Phase == v1alpha1.ClusterFailed || row.Phase == v1alpha1.ClusterProgressing && isPodFailure(row.Reason)
}

// isPodFailure reports whether pods with that reason do not become ready by waiting, as a rule.
func isPodFailure(reason string) bool {
	switch reason {
	case v1alpha1.ReasonImagePullBackOff, v1alpha1.ReasonCrashLoopBackOff, v1alpha1.ReasonContainerConfig, v1alpha1.ReasonFailedMount:
		return true
	}
	return false
}

// sharedFailure returns the failure that all failing clusters have in common, as in "refused by all 3 clusters: Deployment web: …", or
// nothing when there is none. Where they share the reason alone, it has the message of the first. One cluster of several has nothing in
// common with others; the message then is in its status.
func sharedFailure(failing []v1alpha1.ClusterStatus, all int32) string {
	if len(failing) == 0 || len(failing) == 1 && all > 1 {
		return ""
	}
	var saying []v1alpha1.ClusterStatus // the others may have lost their message to the budget of the status
	for _, row := range failing {
		if row.Reason != failing[0].Reason {
			return ""
		}
		if row.Message != "" {
			saying = append(saying, row)
		}
	}
	if len(saying) == 0 {
		return ""
	}
	where := fmt.Sprintf("%d of %s", len(failing), clusters(all))
	switch {
	case all == 1:
		where = "cluster " + failing[0].Name
	case len(failing) == int(all):
		where = fmt.Sprintf("all %s", clusters(all))
	}
	what := fmt.Sprintf("%s on %s", failing[0].Reason, where)
	if failing[0].Reason == v1alpha1.ReasonRefused {
		what = "refused by " + where
	}
	differ := slices.ContainsFunc(saying, func(row v1alpha1.ClusterStatus) bool { return row.Message != saying[0].Message })
	switch {
	case differ:
		what = fmt.Sprintf("%s; %s says", what, saying[0].Name)
	case len(saying) < len(failing):
		what = fmt.Sprintf("%s; the first %d say", what, len(saying))
	}
	return fmt.Sprintf("%s: %s", what, saying[0].Message)
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
	v1alpha1.ReasonSecretMissing:     "without a Secret",
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
