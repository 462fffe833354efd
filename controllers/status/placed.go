package status

import (
	"fmt"
	"iter"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/placement"
	"github.com/fleetwright/fleetwright/controllers/rollout"
	"github.com/fleetwright/fleetwright/controllers/rollout/wording"
)

// choice is which clusters the plan chooses, and why not the others. It depends on the placement and
// not on what the clusters run.
type choice struct {
	app  *v1alpha1.AppService
	plan placement.Plan
	// members are the MemberClusters that have a Secret, by name.
	members map[string]*v1alpha1.MemberCluster
	// isFleetEmpty is set if there is no MemberCluster at all.
	isFleetEmpty bool
}

func newChoice(in rollout.Input) choice {
	return choice{app: in.App, plan: in.Plan, members: in.Members, isFleetEmpty: len(in.Members)+len(in.Secretless) == 0}
}

// chosen returns the decisions for the clusters that are chosen.
func (c choice) chosen() iter.Seq[placement.Decision] {
	return func(yield func(placement.Decision) bool) {
		for _, decision := range c.plan {
			if decision.Chosen() && c.members[decision.Cluster] != nil && !yield(decision) {
				return
			}
		}
	}
}

// placed returns the Placed condition.
func (c choice) placed() metav1.Condition {
	if contradiction, _ := c.outOfBounds(); contradiction != "" {
		return condition(v1alpha1.ConditionPlaced, metav1.ConditionFalse, v1alpha1.ReasonReplicasOutOfBounds, contradiction)
	}
	var count int32
	for range c.chosen() {
		count++
	}
	if count == 0 {
		return condition(v1alpha1.ConditionPlaced, metav1.ConditionFalse, v1alpha1.ReasonNoClusters, c.whyNone())
	}
	return condition(v1alpha1.ConditionPlaced, metav1.ConditionTrue, v1alpha1.ReasonPlaced, fmt.Sprintf("placed on %s of %d%s", wording.CountClusters(count), len(c.plan), whyNot("; not on ", c.plan)))
}

// whyNone returns why no cluster is chosen.
func (c choice) whyNone() string {
	if c.isFleetEmpty {
		return "there is no MemberCluster: add a cluster with kubectl appsvc join CONTEXT"
	}
	return "no cluster is chosen" + whyNot(": ", c.plan)
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
