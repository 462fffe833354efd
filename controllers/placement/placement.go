// Package placement decides which clusters an AppService runs on, with how many replicas on each, and why
// it does not run on the others. It is pure: what it is given decides what it returns, in whatever order the
// members come.
//
// The decision for a cluster is the first of these that applies:
//
//  1. it is not in spec.placement.clusterNames, when that is set: NotNamed;
//  2. its labels do not match spec.placement.clusterSelector, when that is set: SelectorMismatch;
//  3. it holds the AppService already: chosen, whatever its state, for a cluster once chosen stays while it fits;
//  4. it is being deleted, spec.unschedulable, or not Ready: it gets nothing new;
//  5. chosen.
package placement

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
)

// maxExamples is how many clusters are named for each reason that excludes some.
const maxExamples = 3

// Decision is what was decided for one cluster.
type Decision struct {
	// Cluster is the name of a MemberCluster, or one that clusterNames lists and no MemberCluster has.
	Cluster string
	// Reason is why the cluster is not chosen; empty when it is.
	Reason string
	// Replicas is how many pods the cluster is to run, when it is chosen.
	Replicas int32
}

// Chosen tells whether the cluster is in the plan.
func (d Decision) Chosen() bool { return d.Reason == "" }

// Plan has a decision for each cluster, sorted by name.
type Plan []Decision

// Decide returns the plan for an AppService over all members. It fails only when the placement itself
// cannot be understood; nothing may be concluded for any cluster then.
func Decide(app *v1alpha1.AppService, members []v1alpha1.MemberCluster) (Plan, error) {
	fits, err := compile(app.Spec.Placement)
	if err != nil {
		return nil, err
	}
	plan := make(Plan, 0, len(members))
	for i := range members {
		member := &members[i]
		decision := Decision{Cluster: member.Name, Reason: fits.reason(member)}
		if decision.Chosen() && app.Status.Cluster(member.Name) == nil {
			decision.Reason = newcomerReason(member)
		}
		if decision.Chosen() {
			decision.Replicas = app.DesiredReplicas()
		}
		plan = append(plan, decision)
	}
	plan = append(plan, fits.missing(members)...)
	slices.SortFunc(plan, func(a, b Decision) int { return cmp.Compare(a.Cluster, b.Cluster) })
	return plan, nil
}

// newcomerReason is why a member takes nothing that it does not hold yet; empty when it does.
func newcomerReason(member *v1alpha1.MemberCluster) string {
	switch {
	case !member.DeletionTimestamp.IsZero():
		return v1alpha1.ReasonClusterDeleting
	case member.Spec.Unschedulable:
		return v1alpha1.ReasonUnschedulable
	case !member.IsReady():
		return v1alpha1.ReasonClusterNotReady
	}
	return ""
}

// criteria is a Placement, compiled. Its zero value fits every member.
type criteria struct {
	names    []string
	selector labels.Selector
}

func compile(p *v1alpha1.Placement) (criteria, error) {
	if p == nil {
		return criteria{}, nil
	}
	fits := criteria{names: p.ClusterNames}
	if p.ClusterSelector == nil {
		return fits, nil
	}
	// That goes through matchLabels in the order of a map and stops at the first that is wrong: look in order.
	for _, key := range slices.Sorted(maps.Keys(p.ClusterSelector.MatchLabels)) {
		if _, err := labels.NewRequirement(key, selection.Equals, []string{p.ClusterSelector.MatchLabels[key]}); err != nil {
			return fits, fmt.Errorf("spec.placement.clusterSelector: %w", err)
		}
	}
	selector, err := metav1.LabelSelectorAsSelector(p.ClusterSelector)
	if err != nil {
		return fits, fmt.Errorf("spec.placement.clusterSelector: %w", err)
	}
	fits.selector = selector
	return fits, nil
}

// reason is why a member does not fit; empty when it does.
func (c criteria) reason(member *v1alpha1.MemberCluster) string {
	switch {
	case len(c.names) > 0 && !slices.Contains(c.names, member.Name):
		return v1alpha1.ReasonNotNamed
	case c.selector != nil && !c.selector.Matches(labels.Set(member.Labels)):
		return v1alpha1.ReasonSelectorMismatch
	}
	return ""
}

// missing has a decision for each name that is listed and that no member has.
func (c criteria) missing(members []v1alpha1.MemberCluster) []Decision {
	var missing []Decision
	for _, name := range c.names {
		known := slices.ContainsFunc(members, func(m v1alpha1.MemberCluster) bool { return m.Name == name })
		if !known {
			missing = append(missing, Decision{Cluster: name, Reason: v1alpha1.ReasonNoSuchCluster})
		}
	}
	return missing
}

// Find returns the decision for the named cluster, or one that is not chosen.
func (p Plan) Find(cluster string) Decision {
	i, found := slices.BinarySearchFunc(p, cluster, func(d Decision, name string) int { return cmp.Compare(d.Cluster, name) })
	if !found {
		return Decision{Cluster: cluster, Reason: v1alpha1.ReasonNoSuchCluster}
	}
	return p[i]
}

// Excluded groups the clusters that are not chosen by reason, sorted by it.
func (p Plan) Excluded() []v1alpha1.ExcludedClusters {
	var excluded []v1alpha1.ExcludedClusters
	for _, decision := range p {
		if decision.Chosen() {
			continue
		}
		i, found := slices.BinarySearchFunc(excluded, decision.Reason, func(e v1alpha1.ExcludedClusters, reason string) int {
			return cmp.Compare(e.Reason, reason)
		})
		if !found {
			excluded = slices.Insert(excluded, i, v1alpha1.ExcludedClusters{Reason: decision.Reason})
		}
		excluded[i].Count++
		if len(excluded[i].Examples) < maxExamples {
			excluded[i].Examples = append(excluded[i].Examples, decision.Cluster)
		}
	}
	return excluded
}
