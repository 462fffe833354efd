package explain

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
)

// Entries explains, without the MemberClusters, what the operator has decided: for each cluster that
// has an entry, and for the clusters that status.placement names as excluded. The result is sorted by
// name.
func Entries(app *v1alpha1.AppService) []Cluster {
	var clusters []Cluster
	for i := range app.Status.Clusters {
		clusters = append(clusters, explainEntry(&app.Status.Clusters[i]))
	}
	for _, excluded := range app.Status.Placement.Excluded {
		for _, name := range excluded.Examples {
			c := Cluster{Name: name, Reason: excluded.Reason, Because: whyExcluded(app, excluded), Entry: app.Status.Cluster(name)}
			if i := slices.IndexFunc(clusters, func(c Cluster) bool { return c.Name == name }); i >= 0 {
				clusters[i] = c
			} else {
				clusters = append(clusters, c)
			}
		}
	}
	slices.SortFunc(clusters, func(a, b Cluster) int { return strings.Compare(a.Name, b.Name) })
	return clusters
}

// explainEntry explains an entry of an AppService.
func explainEntry(entry *v1alpha1.ClusterStatus) Cluster {
	c := Cluster{Name: entry.Name, Entry: entry}
	switch {
	case entry.Phase == v1alpha1.ClusterDetached:
		c.Reason, c.Because = v1alpha1.ReasonClusterDetached, becauseDetached
	case entry.Phase == v1alpha1.ClusterRemoving,
		entry.Transition.Type == v1alpha1.TransitionRemovalPending, entry.Transition.Type == v1alpha1.TransitionRemovalNeedsApproval:
		c.Reason = cmp.Or(string(entry.Transition.Type), string(entry.Phase))
		c.Because = "the operator has taken it out of the plan"
	default:
		c.Chosen, c.Because = true, "the operator has placed it there"
		c.Replicas, c.ReplicasBecause = entry.Replicas, "as the operator has planned it"
	}
	return c
}

// whyExcluded says why the operator has excluded clusters.
func whyExcluded(app *v1alpha1.AppService, excluded v1alpha1.ExcludedClusters) string {
	unmet := strings.Join(excluded.Requirements, " or ")
	switch excluded.Reason {
	case v1alpha1.ReasonSelectorMismatch:
		return "it does not meet spec.placement.clusterSelector: " + unmet
	case v1alpha1.ReasonTaintNotTolerated:
		return becauseOfTaint + unmet
	case v1alpha1.ReasonLimitReached:
		if p := app.Spec.Placement; p != nil && p.Limit != nil {
			return fmt.Sprintf("spec.placement.limit is %d, and others are chosen", *p.Limit)
		}
	}
	if text, isKnown := becauseOf[excluded.Reason]; isKnown {
		return text
	}
	return excluded.Reason
}
