package status

import (
	"fmt"
	"slices"
	"strings"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/placement"
	"github.com/fleetwright/fleetwright/controllers/rollout/entryplan"
	"github.com/fleetwright/fleetwright/controllers/rollout/wording"
)

// runningOn returns the clusters that run the AppService: "on 3 clusters: east, north, south".
func runningOn(entries []v1alpha1.ClusterStatus) string {
	var names []string
	for _, entry := range entries {
		if entryplan.IsPlanned(entry) {
			names = append(names, entry.Name)
		}
	}
	return "on " + wording.ListClusters(names)
}

// maxAbandoned is the maximum number of clusters in a command that abandons them.
const maxAbandoned = 5

// removing returns the clusters from which the AppService is being removed, what blocks the removals,
// and the command that ends the wait for clusters that cannot be reached. If there are many of these,
// the command has the first ones, and the next message has the next ones.
func (in report) removing(entries []v1alpha1.ClusterStatus) string {
	var names, unreachable []string
	for _, entry := range entries {
		names = append(names, nameWithReason(entry, v1alpha1.ReasonRemoving))
		if entry.Reason == v1alpha1.ReasonClusterUnreachable {
			unreachable = append(unreachable, entry.Name)
		}
	}
	message, all := "removing it from "+wording.ListClusters(names), wording.CountClusters(int32(len(unreachable)))
	if len(unreachable) > maxAbandoned {
		unreachable, all = unreachable[:maxAbandoned], fmt.Sprintf("the first %d of %s", maxAbandoned, all)
	}
	if command := entryplan.AbandonCommand(in.App, unreachable); command != "" && len(unreachable) > 0 {
		message += fmt.Sprintf("; to stop waiting for %s that cannot be reached: %s", all, command)
	}
	return message
}

// notReady returns the clusters that are not ready with their reasons, the worst first. A failure
// that all failing clusters share is given once, in full. Without clusters, it returns why there are
// none.
func (in report) notReady(entries []v1alpha1.ClusterStatus, sum v1alpha1.ClusterSummary) string {
	if sum.Clusters == 0 {
		return in.whyNone()
	}
	var failing []v1alpha1.ClusterStatus
	var names, others []string // others are not failing
	for _, phase := range []v1alpha1.ClusterPhase{v1alpha1.ClusterFailed, v1alpha1.ClusterUnknown, v1alpha1.ClusterProgressing, v1alpha1.ClusterPending} {
		for _, entry := range entries {
			if entry.Phase != phase {
				continue
			}
			names = append(names, nameWithReason(entry, ""))
			if isFailing(entry) {
				failing = append(failing, entry)
			} else {
				others = append(others, nameWithReason(entry, ""))
			}
		}
	}
	if shared := sharedFailure(failing, sum.Clusters); shared != "" && len(others) == 0 {
		return shared
	} else if shared != "" {
		return fmt.Sprintf("%s; %d more not ready: %s", shared, len(others), wording.CapNames(others))
	}
	return fmt.Sprintf("%d of %s not ready: %s", len(names), wording.CountClusters(sum.Clusters), wording.CapNames(names))
}

// isFailing reports whether a cluster status describes a failure: the cluster is Failed, or it is
// still rolling out and its pods cannot run.
func isFailing(entry v1alpha1.ClusterStatus) bool {
	return entry.Phase == v1alpha1.ClusterFailed || entry.Phase == v1alpha1.ClusterProgressing && v1alpha1.IsPodFailure(entry.Reason)
}

// sharedFailure returns the failure that all failing clusters share, such as "refused by all 3
// clusters: Deployment web: …", or "" if there is none. If the clusters share only the reason, the
// result has the message of the first cluster that has one. If only one of several clusters fails,
// the result is "", because the message is in the status of that cluster.
func sharedFailure(failing []v1alpha1.ClusterStatus, all int32) string {
	if len(failing) == 0 || len(failing) == 1 && all > 1 {
		return ""
	}
	var saying []v1alpha1.ClusterStatus // the budget of the status may have dropped the messages of the others
	for _, entry := range failing {
		if entry.Reason != failing[0].Reason {
			return ""
		}
		if entry.Message != "" {
			saying = append(saying, entry)
		}
	}
	if len(saying) == 0 {
		return ""
	}
	where := fmt.Sprintf("%d of %s", len(failing), wording.CountClusters(all))
	switch {
	case all == 1:
		where = "cluster " + failing[0].Name
	case len(failing) == int(all):
		where = fmt.Sprintf("all %s", wording.CountClusters(all))
	}
	what := fmt.Sprintf("%s on %s", failing[0].Reason, where)
	if failing[0].Reason == v1alpha1.ReasonRefused {
		what = "refused by " + where
	}
	differ := slices.ContainsFunc(saying, func(entry v1alpha1.ClusterStatus) bool { return entry.Message != saying[0].Message })
	switch {
	case differ:
		what = fmt.Sprintf("%s; %s says", what, saying[0].Name)
	case len(saying) < len(failing):
		what = fmt.Sprintf("%s; the first %d say", what, len(saying))
	}
	return fmt.Sprintf("%s: %s", what, saying[0].Message)
}

// whyNone returns why no cluster is chosen.
func (in report) whyNone() string {
	if len(in.Members)+len(in.Secretless) == 0 {
		return "there is no MemberCluster: add a cluster with kubectl appsvc join CONTEXT"
	}
	return "no cluster is chosen" + whyNot(": ", in.Plan)
}

// whyNot returns why clusters are not chosen, such as "3 clusters with other labels (want
// region=eu)", after the introduction. It returns "" if all clusters are chosen. The text is sorted
// by reason, and has at most [wording.MaxMessage] characters.
func whyNot(introduction string, plan placement.Plan) string {
	var reasons []string
	for _, excluded := range plan.Excluded() {
		reason := fmt.Sprintf("%s %s", wording.CountClusters(excluded.Count), excludedBy[excluded.Reason])
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
	return wording.Bound(introduction + strings.Join(reasons, ", "))
}

// excludedBy describes each reason of status.placement.excluded in words.
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

// nameWithReason returns the name of a cluster with its reason. It omits the reason if that is the
// usual one.
func nameWithReason(entry v1alpha1.ClusterStatus, usual string) string {
	if entry.Reason == usual {
		return entry.Name
	}
	return fmt.Sprintf("%s (%s)", entry.Name, entry.Reason)
}
