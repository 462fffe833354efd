package status

import (
	"fmt"
	"slices"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/lineage"
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
// why it waits for clusters that are Detached, and the command that ends the wait for clusters that
// cannot be reached. If there are many of these, the command has the first ones, and the next message
// has the next ones.
func removing(app *v1alpha1.AppService, entries []v1alpha1.ClusterStatus) string {
	if len(entries) == 0 {
		others := slices.DeleteFunc(slices.Clone(app.Finalizers), func(finalizer string) bool { return finalizer == v1alpha1.Finalizer })
		slices.Sort(others)
		return wording.Bound("Fleetwright has finished with all clusters; the AppService stays until these finalizers are removed: " + wording.CapNames(others))
	}
	var names, unreachable []string
	isDetached := false
	for _, entry := range entries {
		names = append(names, nameWithReason(entry, v1alpha1.ReasonRemoving))
		switch entry.Reason {
		case v1alpha1.ReasonClusterUnreachable:
			unreachable = append(unreachable, entry.Name)
		case v1alpha1.ReasonClusterDetached:
			isDetached = true
		}
	}
	message, all := "removing it from "+wording.ListClusters(names), wording.CountClusters(int32(len(unreachable)))
	if isDetached {
		message += fmt.Sprintf("; waiting up to %s, in case the Secret of a Detached cluster was deleted by mistake and returns", entryplan.DetachedGrace)
	}
	if len(unreachable) > maxAbandoned {
		unreachable, all = unreachable[:maxAbandoned], fmt.Sprintf("the first %d of %s", maxAbandoned, all)
	}
	if command := entryplan.AbandonCommand(app, unreachable); command != "" && len(unreachable) > 0 {
		message += fmt.Sprintf("; to stop waiting for %s that cannot be reached: %s", all, command)
	}
	return message
}

// behindMessage returns which clusters the hub is behind, and how to accept that, or "" if it is behind
// none.
func behindMessage(entries []v1alpha1.ClusterStatus) string {
	var ahead []v1alpha1.ClusterStatus
	for _, entry := range entries {
		if entry.HubBehind != nil {
			ahead = append(ahead, entry)
		}
	}
	if len(ahead) == 0 {
		return ""
	}
	return fmt.Sprintf("the hub is behind %s; nothing is created, changed or deleted on any cluster; %s",
		wording.ListClusters(wording.Names(ahead)), lineage.HowToAccept(ahead))
}

// notReady returns the clusters that are not ready with their reasons, the worst first. A failure
// that all failing clusters share is given once, in full.
func notReady(entries []v1alpha1.ClusterStatus, clusters int32) string {
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
	if shared := sharedFailure(failing, clusters); shared != "" && len(others) == 0 {
		return shared
	} else if shared != "" {
		return fmt.Sprintf("%s; %d more not ready: %s", shared, len(others), wording.CapNames(others))
	}
	return fmt.Sprintf("%d of %s not ready: %s", len(names), wording.CountClusters(clusters), wording.CapNames(names))
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

// nameWithReason returns the name of a cluster with its reason. It omits the reason if that is the
// usual one.
func nameWithReason(entry v1alpha1.ClusterStatus, usual string) string {
	if entry.Reason == usual {
		return entry.Name
	}
	return fmt.Sprintf("%s (%s)", entry.Name, entry.Reason)
}
