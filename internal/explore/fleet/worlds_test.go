package fleet

import (
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
)

const threeMinutes = 180

func labelled(label string) v1alpha1.ClusterMatch {
	return v1alpha1.ClusterMatch{ClusterSelector: &v1alpha1.ClusterSelector{MatchLabels: map[string]string{"stage": label}}}
}

// canary returns a rollout with one stage, and the rest.
func canary(changes ...func(*v1alpha1.Rollout)) *v1alpha1.Rollout {
	rollout := &v1alpha1.Rollout{
		RolloutPace:             v1alpha1.RolloutPace{MinReadySeconds: new(int32(threeMinutes))},
		ProgressDeadlineSeconds: new(int32(threeMinutes)),
		Stages:                  []v1alpha1.RolloutStage{{Name: "canary", ClusterMatch: labelled("canary"), SoakSeconds: new(int32(threeMinutes))}},
	}
	for _, change := range changes {
		change(rollout)
	}
	return rollout
}

func withApproval(rollout *v1alpha1.Rollout) {
	rollout.Stages = append(rollout.Stages, v1alpha1.RolloutStage{Name: "all", ClusterMatch: labelled("rest"), Approval: v1alpha1.ApprovalRequired})
}

func withPause(rollout *v1alpha1.Rollout) { rollout.OnFailure = v1alpha1.RolloutPause }

// fast needs no time.
func fast(rollout *v1alpha1.Rollout) {
	rollout.MinReadySeconds, rollout.Stages[0].SoakSeconds = new(int32(0)), nil
}

func withTwoAtATime(rollout *v1alpha1.Rollout) { rollout.MaxUnavailable = new(intstr.FromInt32(2)) }

func withLimit(rollout *v1alpha1.Rollout) {
	rollout.Stages = []v1alpha1.RolloutStage{{Name: "first", Limit: new(intstr.FromInt32(1))}}
}

func scaling(least, most int32) *v1alpha1.Autoscaling {
	return &v1alpha1.Autoscaling{MinReplicas: &least, MaxReplicas: most}
}

func rollouts(all ...*v1alpha1.Rollout) []*v1alpha1.Rollout { return all }

var worlds = []*config{
	{
		name: "smallest", tick: 3, clusters: []string{"canary", "rest"}, templates: []string{"one", "two"}, replicas: []int32{1},
		rollouts: rollouts(canary()), maxEdits: 1, isFinite: true, events: []string{eventPods, eventBack},
	}, {
		name: "requests", tick: 3, clusters: []string{"canary", "rest"}, templates: []string{"one", "two"}, replicas: []int32{1},
		rollouts: rollouts(canary(withApproval)), isRunning: true,
		scenes: [][]string{{"edit: image two", "approve all"}, {"edit: image two", "promote canary"}},
		events: []string{eventPods, eventBack, eventApprove, eventPromote, eventPause, eventAbort, eventRetry, eventWrong},
	}, {
		name: "crashes", tick: 3, clusters: []string{"canary", "rest"}, templates: []string{"one", "two"}, replicas: []int32{1},
		rollouts: rollouts(canary()), isRunning: true,
		scenes: [][]string{{"edit: image two"}},
		events: []string{eventPods, eventBack, eventOutage, eventRestart, eventSecret, eventRetry},
	}, {
		name: "late reads", tick: 3, clusters: []string{"canary", "rest"}, templates: []string{"one", "two"}, replicas: []int32{1, 2},
		rollouts: rollouts(canary(fast)), isRunning: true,
		scenes: [][]string{{"edit: image two"}},
		events: []string{eventPods, eventBack, eventLate, eventRestart, eventReplicas},
	}, {
		name: "three clusters", tick: 3, clusters: []string{"canary", "rest", "rest"}, templates: []string{"one", "two"}, replicas: []int32{1},
		rollouts: rollouts(canary(fast)), isRunning: true, isSymmetric: true,
		scenes: [][]string{{"edit: image two"}},
		events: []string{eventPods, eventBack, eventOutage},
	}, {
		name: "two at a time", tick: 3, clusters: []string{"canary", "rest", "rest", "rest"}, templates: []string{"one", "two"}, replicas: []int32{1},
		rollouts: rollouts(canary(fast, withTwoAtATime)), isRunning: true, isSymmetric: true,
		scenes: [][]string{{"edit: image two"}},
		events: []string{eventPods, eventBack},
	}, {
		name: "going back", tick: 3, clusters: []string{"canary", "canary", "canary"}, templates: []string{"one", "two"}, replicas: []int32{1},
		rollouts: rollouts(canary(fast)), isRunning: true, isSymmetric: true,
		scenes: [][]string{{"edit: image two"}},
		events: []string{eventPods, eventBack, eventAbort},
	}, {
		name: "promoted", tick: 3, clusters: []string{"canary", "rest", "rest"}, templates: []string{"one", "two"}, replicas: []int32{1},
		rollouts: rollouts(canary()), isRunning: true, isSymmetric: true,
		scenes: [][]string{{"edit: image two"}},
		events: []string{eventPods, eventBack, eventPromote, eventPause, eventOutage},
	}, {
		name: "cut off", tick: 3, clusters: []string{"canary", "canary", "canary", "canary"}, templates: []string{"one", "two"}, replicas: []int32{1},
		rollouts: rollouts(canary(withTwoAtATime)), isRunning: true, isSymmetric: true,
		scenes: [][]string{{"edit: image two"}},
		walks: [][]string{{
			"edit: image two", "plan", "a carries out its entry", "b carries out its entry", "c carries out its entry", "d carries out its entry",
			"plan", "promote canary", "plan", "a carries out its entry", "b carries out its entry", "a is lost", "b is lost", "plan", "a tick passes", "plan",
		}},
		events: []string{eventBack, eventPromote, eventOutage},
	}, {
		name: "canaries come and go", tick: 3, clusters: []string{"canary", "canary", "rest"}, templates: []string{"one", "two"}, replicas: []int32{1},
		rollouts: rollouts(canary(fast)), isRunning: true,
		scenes: [][]string{{"edit: image two"}},
		events: []string{eventPods, eventBack, eventLabel, eventDrain, eventOutage},
	}, {
		name: "stages on and off", tick: 3, clusters: []string{"canary", "rest"}, templates: []string{"one", "two"}, replicas: []int32{1},
		rollouts: rollouts(canary(fast), nil, canary(fast, withPause), canary(withApproval)), isRunning: true,
		scenes: [][]string{{"edit: image two"}, {"edit: rollout 1", "edit: image two"}},
		events: []string{eventPods, eventBack, eventStages, eventApprove},
	}, {
		name: "edited stages", tick: 3, clusters: []string{"canary", "rest"}, templates: []string{"one", "two"}, replicas: []int32{1},
		rollouts: rollouts(canary(), canary(withApproval)), isRunning: true,
		scenes: [][]string{{"edit: image two"}},
		events: []string{eventPods, eventBack, eventStages, eventPause, eventApprove},
	}, {
		name: "undone", tick: 3, clusters: []string{"canary", "rest"}, templates: []string{"one", "two", "three"}, replicas: []int32{1},
		rollouts: rollouts(canary(withApproval)), isRunning: true,
		scenes: [][]string{{"edit: image two", "approve all", "edit: image one"}},
		events: []string{eventPods, eventBack, eventApprove, eventRetry},
	}, {
		name: "failed and lost", tick: 3, clusters: []string{"canary", "rest"}, templates: []string{"one", "two"}, replicas: []int32{1},
		rollouts: rollouts(canary(fast, withPause), nil), isRunning: true,
		scenes: [][]string{{"edit: image two"}},
		walks: [][]string{{
			"edit: image two", "plan", "a carries out its entry", "b carries out its entry", "plan", "a carries out its entry", "a has pods that fail",
			"a carries out its entry", "plan", "a tick passes", "plan", "edit: rollout 1", "plan", "a starts its pods", "a carries out its entry", "plan", "b is lost", "plan",
		}},
		events: []string{eventPods, eventBack, eventStages, eventOutage},
	}, {
		name: "replicas", tick: 3, clusters: []string{"canary", "rest"}, templates: []string{"one", "two"}, replicas: []int32{1, 0, 2},
		rollouts: rollouts(canary(fast)), isRunning: true,
		scenes: [][]string{{"edit: image two"}, {"edit: 0 replicas", "edit: image two"}},
		events: []string{eventPods, eventBack, eventReplicas, eventSuspend},
	}, {
		name: "removals", tick: 3, clusters: []string{"x", "x", "x"}, templates: []string{"one"}, replicas: []int32{1},
		placements: []*v1alpha1.Placement{{ClusterMatch: labelled("x")}, nil, {ClusterMatch: labelled("nowhere")}}, limits: []int32{0, 1, 2}, isRunning: true,
		scenes: [][]string{{"edit: limit 1"}},
		walks: [][]string{
			{"b changes its label", "plan", "b carries out its entry", "b carries out its entry", "plan"},
			{"b changes its label", "c changes its label"},
		},
		events: []string{eventPods, eventLabel, eventCordon, eventDrain, eventOutage, eventMove, eventLimit, eventHour, eventAccept},
	}, {
		name: "lost clusters", tick: 3, clusters: []string{"x", "x"}, templates: []string{"one", "two"}, replicas: []int32{1},
		placements: []*v1alpha1.Placement{nil, {ClusterMatch: v1alpha1.ClusterMatch{ClusterNames: []string{"a"}}}}, isRunning: true,
		scenes: [][]string{{"edit: placement 1"}, {"the AppService is deleted"}, {"edit: image two"}},
		events: []string{eventPods, eventOutage, eventSecret, eventRestart, eventAbandon, eventMove, eventDelete, eventBack, eventSuspend},
	}, {
		name: "one first", tick: 3, clusters: []string{"x", "x", "x"}, templates: []string{"one", "two"}, replicas: []int32{1},
		rollouts: rollouts(canary(fast, withLimit)), isRunning: true, scenes: [][]string{{"edit: image two"}},
		events: []string{eventPods, eventBack, eventOutage, eventDrain},
	}, {
		name: "autoscaled", tick: 3, clusters: []string{"canary", "rest"}, templates: []string{"one", "two"}, replicas: []int32{1},
		rollouts: rollouts(canary(fast)), scalings: []*v1alpha1.Autoscaling{scaling(1, 2), nil, scaling(2, 3)}, isRunning: true,
		scenes: [][]string{{"edit: image two"}, {"edit: no autoscaling"}},
		events: []string{eventPods, eventBack, eventScaling, eventOutage},
	}, {
		name: "overridden", tick: 3, clusters: []string{"x", "y"}, templates: []string{"one"}, replicas: []int32{1},
		overrides: [][]v1alpha1.Override{nil, {{Name: "y", Replicas: new(int32(0)), ClusterMatch: labelled("y")}}, {{Name: "other", Replicas: new(int32(0)), ClusterMatch: labelled("other")}}},
		isRunning: true, scenes: [][]string{{"edit: overrides 1"}, {"edit: overrides 2"}},
		walks:  [][]string{{"edit: overrides 2", "plan", "a carries out its entry", "b carries out its entry", "plan", "b changes its label"}},
		events: []string{eventPods, eventOutage, eventLabel, eventOverride, eventAccept, eventHour},
	}, {
		name: "divided", tick: 3, clusters: []string{"x", "x", "x"}, templates: []string{"one"}, replicas: []int32{3, 1, 0},
		policy: &v1alpha1.ReplicaPolicy{Type: v1alpha1.ReplicasDivided}, limits: []int32{0, 2}, isRunning: true,
		scenes: [][]string{{"edit: limit 2"}, {"edit: 1 replicas"}},
		events: []string{eventPods, eventOutage, eventDrain, eventReplicas, eventLimit, eventHour},
	},
}
