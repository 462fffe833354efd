package fleet

import (
	"fmt"
	"slices"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/rollout/entryplan"
	"github.com/fleetwright/fleetwright/internal/explore"
)

// healthy returns how the world goes on if nothing is wrong with it any more: every template starts, or every
// one but the last.
func (c *config) healthy() []explore.Healthy[state] {
	ways := []explore.Healthy[state]{c.healthyWith("every template starts", -1)}
	if last := len(c.templates) - 1; last > 0 {
		ways = append(ways, c.healthyWith(fmt.Sprintf("the template %s never starts", c.templates[last]), int8(last)))
	}
	return ways
}

func (c *config) healthyWith(name string, broken int8) explore.Healthy[state] {
	return explore.Healthy[state]{
		Name: name,
		Heal: func(s state) state { return c.heal(s, broken) },
		Next: func(s state) (state, bool, error) { return c.healthyStep(s, broken) },
	}
}

// heal connects every member, and ends what its administrators did to it.
func (c *config) heal(s state, broken int8) state {
	for i := range c.clusters {
		s, _ = s.setReady(i, metav1.ConditionTrue)
		s = s.withMember(i, func(object *v1alpha1.MemberCluster) {
			object.Status.SecretMissingSince = nil
			object.Spec.Unschedulable, object.Spec.Taints = false, nil
			object.Labels = map[string]string{"stage": c.clusters[i]}
		})
	}
	s.broken = broken
	return s
}

// healthyStep makes every member carry out its entry, starts the pods that can start, and plans. If that
// changes nothing, time passes until something may change. At the end, nothing changes any more.
func (c *config) healthyStep(s state, broken int8) (state, bool, error) {
	next := s
	for i := range c.clusters {
		next, _ = c.deliver(next, i)
		m := &next.members[i]
		switch isBroken := c.runsTemplate(&next, i, broken); {
		case !m.exists || m.replicas == 0:
		case isBroken && m.isUpdated && m.ready > 0: // it started before, and goes on
		case isBroken:
			m.isFailing = true
		default:
			next, _ = c.startPods(next, i)
		}
		next, _ = c.deliver(next, i)
	}
	planned, happens, err := c.checkedPlan(next)
	if err != nil {
		return s, false, err
	}
	if happens {
		return planned, true, nil
	}
	if next.members != s.members || next.process != s.process {
		return next, true, nil
	}
	if next.isGone {
		return next, false, c.checkGone(&next)
	}
	_, p := c.plan(next)
	if wait := p.decision.RecheckAfter; wait > 0 {
		next.now += instant((wait + time.Second - 1) / time.Second)
		return next, true, nil
	}
	return next, false, c.checkEnd(next, p, broken)
}

// runsTemplate reports whether a member runs a template.
func (c *config) runsTemplate(s *state, i int, template int8) bool {
	return slices.ContainsFunc(s.history, func(stored storedRevision) bool {
		return stored.number == s.members[i].runs && stored.template == template
	})
}

// checkEnd checks that the end is one that a user expects, or waits for what the status names; and that
// nothing is written at rest, after a restart, and within two days.
func (c *config) checkEnd(s state, p planned, broken int8) error {
	if problem := c.endProblem(&s, p, broken); problem != "" {
		return &explore.RuleError{Rule: "a healthy fleet ends where it should", Problem: problem}
	}
	restarted := s.restart()
	for i := range c.clusters {
		restarted, _ = c.deliver(restarted, i)
	}
	later := s
	later.now += 48 * hour
	for i, what := range []string{"after a restart", "after two days"} {
		if _, again := c.plan([]state{restarted, later}[i]); !equality.Semantic.DeepEqual(s.app.Status, again.status) {
			return &explore.RuleError{Rule: "nothing is written at rest", Problem: what + " (-before +after):\n" + cmp.Diff(s.app.Status, again.status)}
		}
	}
	return nil
}

// endProblem returns what is wrong with an end.
func (c *config) endProblem(s *state, p planned, broken int8) string {
	status, spec := &s.app.Status, &s.app.Spec
	waits := spec.Suspend || isPaused(s.app, status.Rollout.Revision) || spec.Rollout != nil && c.waitsByName(p)
	if !s.app.DeletionTimestamp.IsZero() {
		return "the AppService is still being deleted"
	}
	switch status.Rollout.Phase {
	case v1alpha1.RolloutCompleted, v1alpha1.RolloutRolledBack, v1alpha1.RolloutHalted:
	case "":
		if spec.Rollout != nil && len(status.Clusters) > 0 && !waits {
			return "there is no phase"
		}
	default:
		if !waits && len(status.Clusters) > 0 {
			return "the rollout is " + string(status.Rollout.Phase) + " and waits for nothing"
		}
	}
	if problem := c.specProblem(s, p, waits); problem != "" {
		return problem
	}
	isAnyBroken := false
	for i := range c.clusters {
		isAnyBroken = isAnyBroken || c.runsTemplate(s, i, broken)
	}
	for i := range c.clusters {
		name := clusterName(i)
		entry, isChosen := status.Cluster(name), p.in.Plan.Find(name).Chosen()
		switch {
		case spec.Suspend:
		case isChosen && entry == nil:
			return name + " is chosen and has no entry"
		case isChosen && entry.Revision == 0 && (waits || status.Rollout.Phase == v1alpha1.RolloutHalted):
		case isChosen && !waits && !isAnyBroken && entry.Phase != v1alpha1.ClusterReady:
			return name + " is " + string(entry.Phase)
		case isChosen && entry.Revision != 0 && entry.Revision != s.members[i].runs:
			return name + " does not run its revision"
		case !isChosen && entry != nil && !isAnyBroken && !waits && entryplan.IsPlanned(*entry) && s.toAccept() == "":
			return name + " is not chosen and is " + string(entry.Phase)
		}
	}
	return ""
}

// specProblem returns what differs between the spec and the members, if the spec is carried out everywhere.
func (c *config) specProblem(s *state, p planned, waits bool) string {
	status, spec := &s.app.Status, &s.app.Spec
	isCarriedOut := status.Rollout.Phase == v1alpha1.RolloutCompleted || status.Rollout.Phase == "" && spec.Rollout == nil
	if status.ObservedGeneration != s.app.Generation {
		return "the latest edit was not planned"
	}
	if waits || !isCarriedOut || s.toAccept() != "" {
		return ""
	}
	sum, chosen := int32(0), 0
	for i := range c.clusters {
		name, m := clusterName(i), &s.members[i]
		if !p.in.Plan.Find(name).Chosen() {
			continue
		}
		sum, chosen = sum+int32(m.replicas), chosen+1
		if !c.runsTemplate(s, i, s.wish.template) {
			return name + " does not run the template of the spec"
		}
		if wanted := wantedReplicas(spec, c.clusters[i]); spec.ReplicaPolicy == nil && spec.Autoscaling == nil && int32(m.replicas) != wanted {
			return fmt.Sprintf("%s has %d replicas, and the spec asks for %d", name, m.replicas, wanted)
		}
	}
	if spec.ReplicaPolicy != nil && chosen > 0 && sum != *spec.Replicas {
		return fmt.Sprintf("there are %d replicas, and the spec asks for %d", sum, *spec.Replicas)
	}
	return ""
}

// wantedReplicas returns the replicas that the spec asks for on a cluster with a label.
func wantedReplicas(spec *v1alpha1.AppServiceSpec, label string) int32 {
	for _, override := range spec.Overrides {
		if override.Replicas != nil && override.ClusterSelector.MatchLabels["stage"] == label {
			return *override.Replicas
		}
	}
	return *spec.Replicas
}

// waitsByName reports whether the status says what the rollout waits for.
func (c *config) waitsByName(p planned) bool {
	active := p.status.Rollout.ActiveStage()
	return p.decision.WaitingStage != "" || active != nil && active.Phase == v1alpha1.StageAwaitingApproval
}

// checkGone checks that nothing is left of an AppService that was deleted.
func (c *config) checkGone(s *state) error {
	for i := range c.clusters {
		if s.members[i].exists {
			return &explore.RuleError{Rule: "a healthy fleet ends where it should", Problem: clusterName(i) + " has a Deployment of a deleted AppService"}
		}
	}
	return nil
}
