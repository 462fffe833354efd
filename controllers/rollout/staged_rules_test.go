package rollout_test

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/rollout"
	"github.com/fleetwright/fleetwright/controllers/rollout/stages"
)

// This file states the rules of a rollout a second time, as simply as possible, so that the
// properties do not repeat what the package computes.

// ruleStage is a stage with its clusters.
type ruleStage struct {
	spec     v1alpha1.RolloutStage
	clusters []string
	matching []string // clusters that match, and that no earlier stage has
}

// ruleStages returns the stages of an input.
func ruleStages(in rollout.Input) []ruleStage {
	spec := in.App.Spec.Rollout
	var left []string
	for _, entry := range in.App.Status.Clusters {
		if in.Plan.Find(entry.Name).Chosen() {
			left = append(left, entry.Name)
		}
	}
	for _, decision := range in.Plan {
		if decision.Chosen() && in.App.Status.Cluster(decision.Cluster) == nil && !in.App.Spec.Suspend {
			left = append(left, decision.Cluster)
		}
	}
	var rules []ruleStage
	for _, s := range append(slices.Clone(spec.Stages), v1alpha1.RolloutStage{Name: stages.RestStage}) {
		s.MaxUnavailable = cmp.Or(s.MaxUnavailable, spec.MaxUnavailable)
		s.MaxFailures = cmp.Or(s.MaxFailures, spec.MaxFailures)
		s.MinReadySeconds = cmp.Or(s.MinReadySeconds, spec.MinReadySeconds)
		var matching []string
		for _, name := range left {
			if s.ClusterSelector == nil || in.Members[name].Labels["stage"] == s.ClusterSelector.MatchLabels["stage"] {
				matching = append(matching, name)
			}
		}
		taken := ruleLimit(in, s, matching)
		left = slices.DeleteFunc(left, func(name string) bool { return slices.Contains(taken, name) })
		rules = append(rules, ruleStage{s, taken, matching})
	}
	return rules
}

// ruleLimit returns the matching clusters that a stage with a limit has. They are those that the package
// chooses; checkChoice checks the choice.
func ruleLimit(in rollout.Input, s v1alpha1.RolloutStage, matching []string) []string {
	if s.Limit == nil {
		return matching
	}
	chosen := rollout.StagesOf(in)
	return slices.DeleteFunc(slices.Clone(matching), func(name string) bool { return chosen[name] != s.Name })
}

// most returns how many of the matching clusters the stage has.
func (s ruleStage) most() int {
	if s.spec.Limit == nil {
		return len(s.matching)
	}
	most := s.spec.Limit.IntValue()
	if s.spec.Limit.Type == intstr.String {
		percent, _ := strconv.Atoi(strings.TrimSuffix(s.spec.Limit.StrVal, "%"))
		for most = 1; most*100 < percent*len(s.matching); most++ {
		}
	}
	return min(most, len(s.matching))
}

func (s ruleStage) maxUnavailable() int {
	limit := intstr.FromString("25%")
	if s.spec.MaxUnavailable != nil {
		limit = *s.spec.MaxUnavailable
	}
	if limit.Type == intstr.Int {
		return limit.IntValue()
	}
	percent, _ := strconv.Atoi(strings.TrimSuffix(limit.StrVal, "%"))
	return max(1, len(s.clusters)*percent/100)
}

// ruleCluster is what the rules say about a cluster after a decision.
type ruleCluster struct {
	hasTarget, isAvailable, isUpdating, isDegraded, isFailed, isImpaired, isEmpty bool
	isConfirmed                                                                   bool
}

func ruleOf(in rollout.Input, after v1alpha1.ClusterStatus) ruleCluster {
	deadline := 900 * time.Second
	if in.App.Spec.Rollout.ProgressDeadlineSeconds != nil {
		deadline = time.Duration(*in.App.Spec.Rollout.ProgressDeadlineSeconds) * time.Second
	}
	_, isConfirmed := in.Observations[after.Name]
	c := ruleCluster{
		hasTarget: after.Revision == in.Revision, isImpaired: after.Impaired, isEmpty: after.CurrentReplicas() == 0 && (after.Replicas == 0 || after.Phase == v1alpha1.ClusterReady),
		isConfirmed: isConfirmed && in.Members[after.Name].IsReady(),
	}
	if !c.hasTarget {
		return c
	}
	isReady, isUnknown := after.Phase == v1alpha1.ClusterReady, after.Phase == v1alpha1.ClusterUnknown
	c.isAvailable = isReady && after.UnavailableSince == nil && after.AvailableReplicas+after.ReadyReplicas > 0
	if c.isAvailable || c.isImpaired || after.UnavailableSince == nil {
		return c
	}
	isLate := in.Now.Sub(after.UnavailableSince.Time) >= deadline
	isFailedLong := after.Phase == v1alpha1.ClusterFailed && min(in.Now.Sub(after.LastTransitionTime.Time), in.Now.Sub(after.UnavailableSince.Time)) >= 3*time.Minute
	c.isFailed = c.isConfirmed && !isReady && !isUnknown && (isLate || isFailedLong)
	wasAvailable := after.AvailableReplicas > 0
	c.isDegraded = wasAvailable && !c.isFailed && !isUnknown && (isReady || in.Now.Sub(after.UnavailableSince.Time) < 3*time.Minute)
	c.isUpdating = !c.isFailed && !c.isDegraded && !(isUnknown && (isLate || wasAvailable))
	return c
}

// ruleTally sums up a stage after a decision. Clusters that have run no pods are no evidence.
type ruleTally struct{ size, available, confirmed, updating, degraded, failed, trying int }

func (s ruleStage) tally(in rollout.Input, entries v1alpha1.AppServiceStatus, except func(string) bool) ruleTally {
	var t ruleTally
	for _, name := range s.clusters {
		entry := entries.Cluster(name)
		if entry == nil || except(name) {
			continue
		}
		c := ruleOf(in, *entry)
		isEvidence := !c.isEmpty || c.isAvailable
		if isEvidence {
			t.size++
		}
		switch {
		case c.isAvailable && isEvidence:
			t.available++
			if c.isConfirmed {
				t.confirmed++
			}
		case c.isFailed && isEvidence:
			t.failed++
		case c.isUpdating && !c.isFailed:
			t.updating++
		case c.isDegraded:
			t.degraded++
		case c.hasTarget && c.isImpaired && entry.Phase != v1alpha1.ClusterUnknown:
			t.trying++
		}
	}
	return t
}

func ruleStatus(state v1alpha1.RolloutStatus, stage string) v1alpha1.RolloutStageStatus {
	for _, s := range state.Stages {
		if s.Name == stage {
			return s
		}
	}
	return v1alpha1.RolloutStageStatus{Name: stage}
}
