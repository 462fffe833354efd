package status_test

import (
	"errors"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	kstatus "github.com/fluxcd/cli-utils/pkg/kstatus/status"
	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/configuration"
	"github.com/fleetwright/fleetwright/controllers/observation"
	"github.com/fleetwright/fleetwright/controllers/rollout"
	. "github.com/fleetwright/fleetwright/controllers/rollout/rollouttest"
	"github.com/fleetwright/fleetwright/controllers/status"
)

// story is an AppService on eight clusters, of which one is in stage canary and three are in stage
// eu. It runs revision 6. Each step makes a decision and carries it out.
type story struct {
	in      rollout.Input
	crashes []string // clusters on which revision 7 crashes
	// returnsCrash is set if revision 6 crashes on clusters that return to it.
	returnsCrash bool
}

var (
	storyClusters = []string{"bom", "fra", "iad", "mad", "nrt", "par", "syd", "yyz"}
	storyStages   = map[string]string{"yyz": "canary", "fra": "eu", "mad": "eu", "par": "eu"}
)

// newStory returns an AppService with these stages, if any, that runs revision 6.
func newStory(stages ...v1alpha1.RolloutStage) *story {
	s := &story{in: NewInput(AtRevision(6))}
	s.in.App.Spec.Rollout = &v1alpha1.Rollout{Stages: stages}
	for _, name := range storyClusters {
		Chosen(name)(&s.in)
		s.in.Members[name].Labels = map[string]string{"stage": storyStages[name]}
		WithEntries(Entry(name, v1alpha1.ClusterReady, DesiredRevision(6)))(&s.in)
	}
	s.in.App.Status.ObservedGeneration = Generation
	s.in.App.Status.Rollout = v1alpha1.RolloutStatus{Revision: 6, StableRevision: 6, Phase: v1alpha1.RolloutCompleted, Since: &AnHourAgo}
	s.step()
	return s
}

// first makes revision 7 the first one.
func first(_ *testing.T, s *story) {
	s.in.App.Status.Rollout, s.in.App.Status.Clusters = v1alpha1.RolloutStatus{}, nil
}

func (s *story) step(changes ...func(*rollout.Input)) {
	s.observe()
	s.in = Next(s.in, changes...)
}

// observe reports on each cluster that can be reached what it runs.
func (s *story) observe() {
	s.in.Observations, s.in.Answers = map[string]observation.Observation{}, map[string]metav1.Time{}
	for _, entry := range s.in.App.Status.Clusters {
		seen := Observation(v1alpha1.ClusterReady, AnsweringRevision(entry.Revision))
		if slices.Contains(s.crashes, entry.Name) && entry.Revision == 7 || s.returnsCrash && entry.Returned {
			seen.Phase, seen.Reason, seen.Message = v1alpha1.ClusterProgressing, v1alpha1.ReasonCrashLoopBackOff, "1 of 2 pods: exited with code 132"
		}
		if member := s.in.Members[entry.Name]; member != nil && member.IsReady() && entry.Revision != 0 {
			s.in.Observations[entry.Name], s.in.Answers[entry.Name] = seen, s.in.Now
		}
	}
}

// runTo makes decisions, one a minute, until the rollout has this reason.
func (s *story) runTo(t *testing.T, reason string) {
	t.Helper()
	var seen []string
	for range 90 {
		got := reasonOfRollout(s.status())
		if got == reason {
			s.in = Next(s.in)
			return
		}
		seen = append(seen, got)
		s.step(Later(time.Minute))
	}
	t.Fatalf("never %s, but %q", reason, slices.Compact(seen))
}

// reasonOfRollout returns the reason of the condition RolledOut, which must exist.
func reasonOfRollout(status v1alpha1.AppServiceStatus) string {
	return meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionRolledOut).Reason
}

func (s *story) status() v1alpha1.AppServiceStatus { return StatusOf(s.in) }

func stageOf(name string, changes ...func(*v1alpha1.RolloutStage)) v1alpha1.RolloutStage {
	stage := v1alpha1.RolloutStage{Name: name}
	stage.ClusterSelector = &v1alpha1.ClusterSelector{MatchLabels: map[string]string{"stage": name}}
	for _, change := range changes {
		change(&stage)
	}
	return stage
}

func soaking(stage *v1alpha1.RolloutStage)   { stage.SoakSeconds = new(int32(3600)) }
func approval(stage *v1alpha1.RolloutStage)  { stage.Approval = v1alpha1.ApprovalRequired }
func unmatched(stage *v1alpha1.RolloutStage) { stage.ClusterSelector.MatchLabels["stage"] = "nowhere" }

// stableIsMissing deletes the stable revision.
func stableIsMissing(in *rollout.Input) { in.IsStableMissing = true }

// invalid makes the selector of the stage invalid.
func invalid(stage *v1alpha1.RolloutStage) { stage.ClusterSelector.MatchLabels["stage"] = "a b" }

// edit makes revision 7 the revision of the spec.
func edit(_ *testing.T, s *story) {
	AtRevision(7)(&s.in)
	s.step()
}

// until makes decisions until the rollout has this reason.
func until(reason string) func(*testing.T, *story) {
	return func(t *testing.T, s *story) {
		t.Helper()
		s.runTo(t, reason)
	}
}

// change changes the input of the next decision.
func change(changes ...func(*rollout.Input)) func(*testing.T, *story) {
	return func(_ *testing.T, s *story) {
		s.in.App = s.in.App.DeepCopy()
		s.in = With(s.in, changes...)
	}
}

// crashIn makes revision 7 crash on these clusters, and edits the AppService.
func crashIn(clusters ...string) func(*testing.T, *story) {
	return func(t *testing.T, s *story) {
		s.crashes = clusters
		s.in.App.Spec.Rollout.MaxUnavailable = new(intstr.FromInt32(2))
		s.in.App.Spec.Rollout.MinReadySeconds = new(int32(0))
		edit(t, s)
	}
}

func pausing(in *rollout.Input)          { in.App.Spec.Rollout.Paused = true }
func haltingOnFailure(in *rollout.Input) { in.App.Spec.Rollout.OnFailure = v1alpha1.RolloutPause }
func unstaged(in *rollout.Input)         { in.App.Spec.Rollout = nil }

// unreachableIn makes clusters unreachable.
func unreachableIn(clusters ...string) func(*rollout.Input) {
	return func(in *rollout.Input) {
		for _, name := range clusters {
			labels := in.Members[name].Labels
			Unreachable(name)(in)
			in.Members[name].Labels = labels
			delete(in.Observations, name)
		}
	}
}

// Each case is a rollout until some point, with what users and tools see of it then.
func TestRolledOut(t *testing.T) {
	type outcome struct {
		RolledOut, Message  string
		Ready, ReadyMessage string // "…" is the message of RolledOut
		Abnormal            string
		Tools               kstatus.Status // kstatus, Flux and Helm
	}
	const reconciling, stalled = v1alpha1.ConditionReconciling, v1alpha1.ConditionStalled
	steps := func(steps ...func(*testing.T, *story)) []func(*testing.T, *story) { return steps }
	canary, eu := stageOf("canary", soaking), stageOf("eu", approval)
	freeEU := stageOf("eu", func(s *v1alpha1.RolloutStage) { s.MaxFailures = new(intstr.FromInt32(1)) })
	failedInEU := "revision 7 failed in stage eu (fra, par: CrashLoopBackOff)"
	tests := map[string]struct {
		stages []v1alpha1.RolloutStage
		steps  []func(*testing.T, *story)
		want   outcome
	}{
		"at rest": {
			want: outcome{"Completed", "revision 6 runs on 8 clusters", "Ready", "running on 8 clusters: bom, fra, iad, mad, nrt and 3 more", "", kstatus.CurrentStatus},
		},
		"the first cluster of a stage without a name": {
			steps: steps(edit),
			want: outcome{"RollingOut", "revision 7: 1 of 8 clusters is updated, 0 are available; 7 clusters run revision 6",
				"RollingOut", "…; 1 of 8 clusters not ready: fra (RollingOut)", reconciling, kstatus.InProgressStatus},
		},
		"the first cluster of a stage": {
			stages: []v1alpha1.RolloutStage{freeEU},
			steps:  steps(edit),
			want: outcome{"RollingOut", "revision 7, stage eu: 1 of 3 clusters is updated, 0 are available; 7 clusters run revision 6",
				"RollingOut", "…; 1 of 8 clusters not ready: fra (RollingOut)", reconciling, kstatus.InProgressStatus},
		},
		"a soak": {
			stages: []v1alpha1.RolloutStage{canary, eu},
			steps:  steps(edit, until("Soaking")),
			want: outcome{"Soaking", "revision 7, stage canary: 1 of 1 cluster is available, soaking for 3600 s; 7 clusters run revision 6; " +
				"annotate the AppService with fleetwright.dev/promote=7/canary to end the stage now", "Soaking", "…", reconciling, kstatus.InProgressStatus},
		},
		"a soak of another content": {
			stages: []v1alpha1.RolloutStage{canary, eu},
			steps:  steps(change(withChangedSources("settings")), edit, until("Soaking")),
			want: outcome{"Soaking", "revision 7 (configuration: settings), stage canary: 1 of 1 cluster is available, soaking for 3600 s; 7 clusters run revision 6; " +
				"annotate the AppService with fleetwright.dev/promote=7/canary to end the stage now", "Soaking", "…", reconciling, kstatus.InProgressStatus},
		},
		"a content that is rolled back": {
			stages: []v1alpha1.RolloutStage{freeEU},
			steps:  steps(change(withChangedSources("flags", "settings")), crashIn("fra", "par"), edit, until("RolledBack")),
			want: outcome{"RolledBack", "revision 7 (configuration: flags, settings) failed in stage eu (fra, par: CrashLoopBackOff) and was rolled back to 6: change the content of flags, settings, or annotate the AppService with fleetwright.dev/retry=7",
				"RolledBack", "…", stalled, kstatus.FailedStatus},
		},
		"a changed source": {
			steps: steps(change(withConfiguration(collecting))),
			want: outcome{"ConfigurationChanged", "the configuration has changed (settings), and is used when no change has followed for a second",
				"ConfigurationChanged", "…", reconciling, kstatus.InProgressStatus},
		},
		"a changed source in a rollout": {
			stages: []v1alpha1.RolloutStage{canary, eu},
			steps:  steps(edit, until("AwaitingApproval"), change(withConfiguration(collecting))),
			want: outcome{"ConfigurationChanged", "the configuration has changed (settings), and is used when no change has followed for a second; " +
				"revision 7 waits for approval of stage eu (3 clusters): annotate the AppService with fleetwright.dev/approve=7/eu", "ConfigurationChanged", "…", reconciling, kstatus.InProgressStatus},
		},
		"an edit that waits for a source": {
			steps: steps(change(withConfiguration(missing))),
			want:  outcome{"ConfigurationMissing", "ConfigMap settings does not exist: create it", "ConfigurationMissing", "…", reconciling, kstatus.InProgressStatus},
		},
		"an edit that waits for a source for long": {
			steps: steps(change(withConfiguration(missing, func(d *configuration.Decision) { d.IsStalled = true }))),
			want:  outcome{"ConfigurationMissing", "ConfigMap settings does not exist: create it", "ConfigurationMissing", "…", stalled, kstatus.FailedStatus},
		},
		"a source that is gone": {
			steps: steps(change(withConfiguration(deleted))),
			want:  outcome{"Completed", "revision 6 runs on 8 clusters", "Ready", "running on 8 clusters: bom, fra, iad, mad, nrt and 3 more", "", kstatus.CurrentStatus},
		},
		"an approval": {
			stages: []v1alpha1.RolloutStage{canary, eu},
			steps:  steps(edit, until("AwaitingApproval")),
			want: outcome{"AwaitingApproval", "revision 7 waits for approval of stage eu (3 clusters): annotate the AppService with fleetwright.dev/approve=7/eu",
				"AwaitingApproval", "…", reconciling, kstatus.InProgressStatus},
		},
		"the first rollout": {
			stages: []v1alpha1.RolloutStage{eu},
			steps:  steps(first, edit),
			want: outcome{"AwaitingApproval", "revision 7 waits for approval of stage eu (3 clusters): annotate the AppService with fleetwright.dev/approve=7/eu",
				"AwaitingApproval", "…; 8 of 8 clusters not ready: bom (Pending), fra (Pending), iad (Pending), mad (Pending), nrt (Pending) and 3 more", reconciling, kstatus.InProgressStatus},
		},
		"the first cluster of the first rollout": {
			steps: steps(first, edit),
			want: outcome{"RollingOut", "revision 7: 1 of 8 clusters is updated, 0 are available; 7 clusters run no revision yet",
				"RollingOut", "…; 8 of 8 clusters not ready: bom (Pending), fra (Pending), iad (Pending), mad (Pending), nrt (Pending) and 3 more", reconciling, kstatus.InProgressStatus},
		},
		"clusters that cannot be reached": {
			stages: []v1alpha1.RolloutStage{freeEU},
			steps:  steps(change(unreachableIn("fra", "mad")), edit, until("WaitingForClusters")),
			want: outcome{"WaitingForClusters", "revision 7, stage eu: 1 of 3 clusters is available, and too few others can be updated: " +
				"fix the clusters that are not Ready, or annotate the AppService with fleetwright.dev/promote=7/eu",
				"WaitingForClusters", "…; 2 of 8 clusters not ready: fra (ClusterUnreachable), mad (ClusterUnreachable)", reconciling, kstatus.InProgressStatus},
		},
		"no cluster can be reached in the last stage": {
			stages: []v1alpha1.RolloutStage{freeEU},
			steps:  steps(change(unreachableIn("bom", "iad", "nrt", "syd", "yyz")), edit, until("WaitingForClusters")),
			want: outcome{"WaitingForClusters", "revision 7, stage (rest): 0 of 5 clusters are available, and too few others can be updated: " +
				"fix the clusters that are not Ready, or annotate the AppService with fleetwright.dev/promote=7",
				"WaitingForClusters", "…; 5 of 8 clusters not ready: bom (ClusterUnreachable), iad (ClusterUnreachable), nrt (ClusterUnreachable), syd (ClusterUnreachable), yyz (ClusterUnreachable)",
				reconciling, kstatus.InProgressStatus},
		},
		"all stages are promoted, and no cluster can be reached": {
			steps: steps(change(unreachableIn(storyClusters...)), edit, change(Annotated(v1alpha1.AnnotationPromote, "7")), until("WaitingForClusters")),
			want: outcome{"WaitingForClusters", "revision 7 went through all stages, but is available on no cluster: fix the clusters that are not Ready, or change the spec",
				"WaitingForClusters", "…; 8 of 8 clusters not ready: bom (ClusterUnreachable), fra (ClusterUnreachable), iad (ClusterUnreachable), mad (ClusterUnreachable), nrt (ClusterUnreachable) and 3 more", reconciling, kstatus.InProgressStatus},
		},
		"the plan has no cluster": {
			steps: steps(change(func(in *rollout.Input) { in.Plan, in.App.Status.Clusters, in.Members = nil, nil, nil }), edit),
			want: outcome{"WaitingForClusters", "revision 7 waits for a cluster: the condition Placed says why there is none",
				"NoClusters", "there is no MemberCluster: add a cluster with kubectl appsvc join CONTEXT", reconciling, kstatus.InProgressStatus},
		},
		"paused by the spec before it begins": {
			stages: []v1alpha1.RolloutStage{freeEU},
			steps:  steps(change(pausing), edit),
			want: outcome{"RolloutPaused", "revision 7 has not begun; 8 clusters run revision 6; it is paused: set spec.rollout.paused to false",
				"RolloutPaused", "…", reconciling, kstatus.InProgressStatus},
		},
		"paused by the annotation in a stage": {
			stages: []v1alpha1.RolloutStage{freeEU},
			steps:  steps(edit, change(Annotated(v1alpha1.AnnotationPause, "7"))),
			want: outcome{"RolloutPaused", "revision 7, stage eu: 1 of 3 clusters is updated, 0 are available; 7 clusters run revision 6; " +
				"it is paused: remove the annotation fleetwright.dev/pause", "RolloutPaused", "…; 1 of 8 clusters not ready: fra (RollingOut)", reconciling, kstatus.InProgressStatus},
		},
		"paused by both": {
			steps: steps(change(pausing, Annotated(v1alpha1.AnnotationPause, "7")), edit),
			want: outcome{"RolloutPaused", "revision 7 has not begun; 8 clusters run revision 6; " +
				"it is paused: set spec.rollout.paused to false, and remove the annotation fleetwright.dev/pause", "RolloutPaused", "…", reconciling, kstatus.InProgressStatus},
		},
		"paused while it waits for approval": {
			stages: []v1alpha1.RolloutStage{eu},
			steps:  steps(edit, change(pausing)),
			want: outcome{"RolloutPaused", "revision 7, stage eu has not begun; 8 clusters run revision 6; it is paused: set spec.rollout.paused to false",
				"RolloutPaused", "…", reconciling, kstatus.InProgressStatus},
		},
		"suspended": {
			steps: steps(change(Suspended, func(in *rollout.Input) { in.App.Generation++ }), edit),
			want: outcome{"RolloutPaused", "revision 7 has not begun; 8 clusters run revision 6; it is paused by spec.suspend: set that to false",
				"Suspended", "suspended: generation 3 is not rolled out to 8 clusters: bom, fra, iad, mad, nrt and 3 more", "", kstatus.InProgressStatus},
		},
		"an invalid placement": {
			steps: steps(change(WithPlanError(errors.New("spec.placement.clusterSelector: no"))), edit),
			want: outcome{"RolloutPaused", "revision 7 has not begun; 8 clusters run revision 6; it is paused, because spec.placement is invalid: correct it",
				"InvalidPlacement", "spec.placement.clusterSelector: no", stalled, kstatus.FailedStatus},
		},
		"an invalid stage": {
			stages: []v1alpha1.RolloutStage{stageOf("eu", invalid)},
			steps:  steps(edit),
			want: outcome{"RolloutPaused", "revision 7 has not begun; 8 clusters run revision 6; it is paused, because stage eu is invalid: correct spec.rollout",
				"InvalidPlacement", `spec.rollout.stages[name=eu].clusterSelector: matchLabels: values[0][stage]: Invalid value: "a b": ` + validation.IsValidLabelValue("a b")[0] +
					"; every cluster keeps its revision, and new clusters wait", stalled, kstatus.FailedStatus},
		},
		"an invalid stage at rest": {
			stages: []v1alpha1.RolloutStage{stageOf("eu", invalid)},
			want: outcome{"Completed", "revision 6 runs on 8 clusters",
				"InvalidPlacement", `spec.rollout.stages[name=eu].clusterSelector: matchLabels: values[0][stage]: Invalid value: "a b": ` + validation.IsValidLabelValue("a b")[0] +
					"; every cluster keeps its revision, and new clusters wait", stalled, kstatus.FailedStatus},
		},
		"a hub that is behind": {
			steps: steps(edit, change(func(in *rollout.Input) {
				seen := in.Observations["bom"]
				seen.HubBehind = &v1alpha1.HubBehind{Kind: "Deployment", Generation: 9, Accept: "9-0000abcd"}
				in.Observations["bom"] = seen
			})),
			want: outcome{"RolloutPaused", "revision 7: 1 of 8 clusters is updated, 0 are available; 7 clusters run revision 6; " +
				"it is paused, because the hub is behind a cluster: the condition Ready says how to accept that", "HubBehind", "the hub is behind 1 cluster: bom; nothing is created, changed or deleted on any cluster; if the hub was restored, bring the AppService up to date; " +
				"to overwrite the clusters, annotate it with fleetwright.dev/accept-hub=9-0000abcd", stalled, kstatus.FailedStatus},
		},
		"being rolled back": {
			stages: []v1alpha1.RolloutStage{canary, freeEU},
			steps:  steps(crashIn("fra", "mad", "par"), change(Annotated(v1alpha1.AnnotationPromote, "7/canary")), until("RollingBack")),
			want: outcome{"RollingBack", failedInEU + "; 3 of 8 clusters return to revision 6",
				"RollingBack", "…; 3 of 8 clusters not ready: fra (RollingOut), par (RollingOut), yyz (RollingOut)", reconciling, kstatus.InProgressStatus},
		},
		"paused while it is rolled back": {
			stages: []v1alpha1.RolloutStage{canary, freeEU},
			steps:  steps(crashIn("fra", "mad", "par"), change(Annotated(v1alpha1.AnnotationPromote, "7/canary")), until("RollingBack"), change(pausing)),
			want: outcome{"RolloutPaused", failedInEU + "; 3 of 8 clusters return to revision 6; it is paused: set spec.rollout.paused to false",
				"RolloutPaused", "…; 3 of 8 clusters not ready: fra (RollingOut), par (RollingOut), yyz (RollingOut)", reconciling, kstatus.InProgressStatus},
		},
		"its stable revision is deleted while it is rolled back": {
			stages: []v1alpha1.RolloutStage{canary, freeEU},
			steps: steps(crashIn("fra", "mad", "par"), change(Annotated(v1alpha1.AnnotationPromote, "7/canary")), until("RollingBack"),
				change(stableIsMissing)),
			want: outcome{"RollingBack", failedInEU + "; 3 of 8 clusters return to revision 6, but ControllerRevision web-6 is missing or was changed: change the spec",
				"RollingBack", "…; 3 of 8 clusters not ready: fra (RollingOut), par (RollingOut), yyz (RollingOut)", stalled, kstatus.FailedStatus},
		},
		"a snapshot of its stable revision is deleted while it is rolled back": {
			stages: []v1alpha1.RolloutStage{canary, freeEU},
			steps: steps(crashIn("fra", "mad", "par"), change(Annotated(v1alpha1.AnnotationPromote, "7/canary")), until("RollingBack"),
				change(stableIsMissing, withConfiguration(func(d *configuration.Decision) { d.Lost = []configuration.Named{{From: "settings"}} }))),
			want: outcome{"RollingBack", failedInEU + "; 3 of 8 clusters return to revision 6, but a snapshot of revision 6 was deleted: the condition Configured says what to do, or change the spec",
				"RollingBack", "…; 3 of 8 clusters not ready: fra (RollingOut), par (RollingOut), yyz (RollingOut)", stalled, kstatus.FailedStatus},
		},
		"rolled back": {
			stages: []v1alpha1.RolloutStage{canary, freeEU},
			steps:  steps(crashIn("fra", "mad", "par"), change(Annotated(v1alpha1.AnnotationPromote, "7/canary")), until("RolledBack")),
			want: outcome{"RolledBack", failedInEU + " and was rolled back to 6: change the spec, or annotate the AppService with fleetwright.dev/retry=7",
				"RolledBack", "…", stalled, kstatus.FailedStatus},
		},
		"aborted, and the stable revision fails too": {
			steps: steps(edit, func(_ *testing.T, s *story) {
				for range 6 {
					s.step(Later(time.Minute))
				}
				s.returnsCrash = true
			}, change(Annotated(v1alpha1.AnnotationAbort, "7")), until("RolloutHalted")),
			want: outcome{"RolloutHalted", "revision 7 was aborted, and revision 6 fails too where it returned (bom, fra: CrashLoopBackOff), so no other Ready cluster returns to it: " +
				"fix that, and the rollback continues; or change the spec, or annotate the AppService with fleetwright.dev/retry=7",
				"RolloutHalted", "…; CrashLoopBackOff on 2 of 8 clusters: 1 of 2 pods: exited with code 132", stalled, kstatus.FailedStatus},
		},
		"rolled back without a name of the stage": {
			steps: steps(crashIn(storyClusters...), until("RolledBack")),
			want: outcome{"RolledBack", "revision 7 failed (fra: CrashLoopBackOff) and was rolled back to 6: change the spec, or annotate the AppService with fleetwright.dev/retry=7",
				"RolledBack", "…", stalled, kstatus.FailedStatus},
		},
		"rolled back, and a cluster is unreachable": {
			steps: steps(crashIn(storyClusters...), until("RolledBack"), change(unreachableIn("bom"))),
			want: outcome{"RolledBack", "revision 7 failed (fra: CrashLoopBackOff) and was rolled back to 6: change the spec, or annotate the AppService with fleetwright.dev/retry=7",
				"RolledBack", "…; 1 of 8 clusters not ready: bom (ClusterUnreachable)", stalled, kstatus.FailedStatus},
		},
		"rolled back, and spec.rollout is removed": {
			steps: steps(crashIn(storyClusters...), until("RolledBack"), change(unstaged)),
			want: outcome{"", "", "RolledBack", "revision 7 failed (fra: CrashLoopBackOff) and was rolled back to 6: change the spec, or annotate the AppService with fleetwright.dev/retry=7",
				stalled, kstatus.FailedStatus},
		},
		"aborted": {
			stages: []v1alpha1.RolloutStage{canary},
			steps:  steps(edit, until("Soaking"), change(Annotated(v1alpha1.AnnotationAbort, "7"))),
			want: outcome{"RollingBack", "revision 7 was aborted; 1 of 8 clusters returns to revision 6",
				"RollingBack", "…; 1 of 8 clusters not ready: yyz (RollingOut)", reconciling, kstatus.InProgressStatus},
		},
		"aborted and rolled back": {
			stages: []v1alpha1.RolloutStage{canary},
			steps:  steps(edit, until("Soaking"), change(Annotated(v1alpha1.AnnotationAbort, "7")), until("RolledBack")),
			want: outcome{"RolledBack", "revision 7 was aborted and was rolled back to 6: change the spec, or annotate the AppService with fleetwright.dev/retry=7",
				"RolledBack", "…", stalled, kstatus.FailedStatus},
		},
		"halted": {
			steps: steps(change(haltingOnFailure), crashIn(storyClusters...), until("RolloutHalted")),
			want: outcome{"RolloutHalted", "revision 7 failed (fra: CrashLoopBackOff), and each cluster keeps what it runs: change the spec, " +
				"or annotate the AppService with fleetwright.dev/abort=7 to return to revision 6, or with fleetwright.dev/retry=7",
				"RolloutHalted", "…; 1 of 8 clusters not ready: fra (CrashLoopBackOff)", stalled, kstatus.FailedStatus},
		},
		"halted without a stable revision": {
			steps: steps(first, crashIn(storyClusters...), until("RolloutHalted")),
			want: outcome{"RolloutHalted", "revision 7 failed (fra: CrashLoopBackOff), and each cluster keeps what it runs: change the spec, or annotate the AppService with fleetwright.dev/retry=7",
				"RolloutHalted", "…; 8 of 8 clusters not ready: fra (CrashLoopBackOff), bom (Pending), iad (Pending), mad (Pending), nrt (Pending) and 3 more", stalled, kstatus.FailedStatus},
		},
		"halted, and its stable revision is deleted": {
			steps: steps(change(haltingOnFailure), crashIn(storyClusters...), until("RolloutHalted"), change(stableIsMissing)),
			want: outcome{"RolloutHalted", "revision 7 failed (fra: CrashLoopBackOff), and each cluster keeps what it runs: change the spec, or annotate the AppService with fleetwright.dev/retry=7",
				"RolloutHalted", "…; 1 of 8 clusters not ready: fra (CrashLoopBackOff)", stalled, kstatus.FailedStatus},
		},
		"halted, and spec.rollout is removed": {
			steps: steps(change(haltingOnFailure), crashIn(storyClusters...), until("RolloutHalted"), change(unstaged)),
			want: outcome{"", "", "RolloutHalted", "revision 7 failed (fra: CrashLoopBackOff), and each cluster keeps what it runs: change the spec, " +
				"or annotate the AppService with fleetwright.dev/retry=7; 1 of 8 clusters not ready: fra (CrashLoopBackOff)", stalled, kstatus.FailedStatus},
		},
		"the spec returns to the stable template": {
			stages: []v1alpha1.RolloutStage{canary},
			steps:  steps(edit, until("Soaking"), change(AtRevision(6))),
			want: outcome{"RollingBack", "the spec has the template of revision 6 again; 1 of 8 clusters returns to it",
				"RollingBack", "…; 1 of 8 clusters not ready: yyz (RollingOut)", reconciling, kstatus.InProgressStatus},
		},
		"the spec returns to the stable template, whose revision is deleted": {
			stages: []v1alpha1.RolloutStage{canary},
			steps:  steps(edit, until("Soaking"), change(AtRevision(6), stableIsMissing)),
			want: outcome{"RollingBack", "the spec has the template of revision 6 again; 1 of 8 clusters returns to it",
				"RollingBack", "…; 1 of 8 clusters not ready: yyz (RollingOut)", reconciling, kstatus.InProgressStatus},
		},
		"the spec returns to the stable template, which fails too": {
			steps: steps(edit, func(_ *testing.T, s *story) {
				for range 6 {
					s.step(Later(time.Minute))
				}
				s.returnsCrash = true
			}, change(AtRevision(6)), until("RolloutHalted")),
			want: outcome{"RolloutHalted", "the spec has the template of revision 6 again; 5 of 8 clusters return to it, but revision 6 fails too where it returned (bom, fra: CrashLoopBackOff), " +
				"so no other Ready cluster returns to it: fix that, or change the spec",
				"RolloutHalted", "…; CrashLoopBackOff on 2 of 8 clusters: 1 of 2 pods: exited with code 132", stalled, kstatus.FailedStatus},
		},
		"completed, with a late cluster": {
			steps: steps(change(unreachableIn("bom")), edit, until("Completed")),
			want: outcome{"Completed", "revision 7 went through all stages; 1 of 8 clusters does not run it yet",
				"ClustersUnknown", "1 of 8 clusters not ready: bom (ClusterUnreachable)", reconciling, kstatus.InProgressStatus},
		},
		"completed, with a stage that matches no cluster": {
			stages: []v1alpha1.RolloutStage{stageOf("eu", unmatched)},
			steps:  steps(edit, until("Completed")),
			want: outcome{"Completed", "revision 7 runs on 8 clusters; no cluster is in stage eu",
				"Ready", "running on 8 clusters: bom, fra, iad, mad, nrt and 3 more", "", kstatus.CurrentStatus},
		},
		"an annotation for a revision that does not exist": {
			steps: steps(change(Annotated(v1alpha1.AnnotationApprove, "9/eu"))),
			want: outcome{"Completed", "revision 6 runs on 8 clusters; fleetwright.dev/approve=9/eu has no effect: there is no revision 9, and it will not count for a later one",
				"Ready", "running on 8 clusters: bom, fra, iad, mad, nrt and 3 more; fleetwright.dev/approve=9/eu has no effect: there is no revision 9, and it will not count for a later one", "", kstatus.CurrentStatus},
		},
		"annotations that are wrong": {
			stages: []v1alpha1.RolloutStage{eu},
			steps: steps(edit, change(func(in *rollout.Input) {
				in.App.Annotations = map[string]string{
					v1alpha1.AnnotationApprove: "7", v1alpha1.AnnotationPromote: "7/europe,eu", v1alpha1.AnnotationPause: "yes\n", v1alpha1.AnnotationAbort: "7/eu",
				}
			})),
			want: outcome{"AwaitingApproval", "revision 7 waits for approval of stage eu (3 clusters): annotate the AppService with fleetwright.dev/approve=7/eu" +
				"; fleetwright.dev/approve=7 has no effect: it must be REVISION/STAGE, such as 7/eu" +
				"; fleetwright.dev/promote=7/europe has no effect: spec.rollout has no stage europe" +
				"; fleetwright.dev/promote=eu has no effect: it must be REVISION or REVISION/STAGE, such as 7 or 7/eu" +
				"; 2 more values of annotations have no effect",
				"AwaitingApproval", "…", reconciling, kstatus.InProgressStatus},
		},
		"an annotation with other characters": {
			steps: steps(change(Annotated(v1alpha1.AnnotationPause, "yes; no\n"))),
			want: outcome{"Completed", `revision 6 runs on 8 clusters; fleetwright.dev/pause="yes; no" has no effect: it must be REVISION, such as 7`,
				"Ready", `running on 8 clusters: bom, fra, iad, mad, nrt and 3 more; fleetwright.dev/pause="yes; no" has no effect: it must be REVISION, such as 7`, "", kstatus.CurrentStatus},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			s := newStory(test.stages...)
			for _, step := range test.steps {
				step(t, s)
			}
			now := s.status()
			var got outcome
			for _, c := range now.Conditions {
				switch c.Type {
				case v1alpha1.ConditionRolledOut:
					got.RolledOut, got.Message = c.Reason, c.Message
					if isTrue := c.Status == metav1.ConditionTrue; isTrue != (c.Reason == v1alpha1.ReasonCompleted) {
						t.Errorf("RolledOut is %s with reason %s", c.Status, c.Reason)
					}
				case v1alpha1.ConditionReady:
					got.Ready, got.ReadyMessage = c.Reason, c.Message
				case reconciling, stalled:
					got.Abnormal = c.Type
				}
			}
			if got.Message != "" {
				got.ReadyMessage = strings.Replace(got.ReadyMessage, got.Message, "…", 1)
			}
			got.Tools = kstatusOf(t, s.in.App, now)
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(now.Conditions, StatusOf(Next(s.in, Restarted)).Conditions); diff != "" {
				t.Errorf("conditions after a restart (-before +after):\n%s", diff)
			}
		})
	}
}

func TestRolledOut_is_absent(t *testing.T) {
	tests := map[string]func(*testing.T, *story){
		"without spec.rollout": change(unstaged),
		"during a deletion":    change(Deleting),
	}
	for name, step := range tests {
		t.Run(name, func(t *testing.T) {
			s := newStory()
			edit(t, s)
			step(t, s)
			if got := meta.FindStatusCondition(s.status().Conditions, v1alpha1.ConditionRolledOut); got != nil {
				t.Errorf("%+v", got)
			}
		})
	}
}

func TestRolledOut_keeps_its_time_while_the_rollout_is_in_progress(t *testing.T) {
	s := newStory(stageOf("canary", soaking), stageOf("eu", approval))
	edit(t, s)
	began := s.in.Now
	for _, reason := range []string{v1alpha1.ReasonSoaking, v1alpha1.ReasonAwaitingApproval} {
		s.runTo(t, reason)
		if got := meta.FindStatusCondition(s.status().Conditions, v1alpha1.ConditionRolledOut); !got.LastTransitionTime.Equal(&began) {
			t.Errorf("%s since %s, want %s", got.Reason, got.LastTransitionTime, began)
		}
	}
}

// While a refused template is not stored, the clusters run what an earlier one says.
func TestRolledOut_is_False_while_the_hub_refuses_the_revision(t *testing.T) {
	s := newStory()
	refusal := apierrors.NewForbidden(schema.GroupResource{Resource: "controllerrevisions"}, "web-7", errors.New("exceeded quota"))
	next, _ := status.WithRefusal(s.in.App, s.status(), v1alpha1.ReasonRevisionsRefused, refusal, Now)
	got := meta.FindStatusCondition(next.Conditions, v1alpha1.ConditionRolledOut)
	if got == nil || got.Status != metav1.ConditionFalse || got.Reason != v1alpha1.ReasonRevisionsRefused {
		t.Errorf("RolledOut is %+v", got)
	}
}

// A cluster that waits for its removal keeps its revision, and does not belong to the rollout.
func TestRolledOut_does_not_count_clusters_that_leave(t *testing.T) {
	s := newStory()
	for _, cluster := range []string{"bom", "iad", "nrt"} {
		NotChosen(cluster)(&s.in) // without an edit: more than the removal limit
	}
	edit(t, s)
	s.runTo(t, v1alpha1.ReasonCompleted)
	got := meta.FindStatusCondition(s.status().Conditions, v1alpha1.ConditionRolledOut)
	if want := "revision 7 runs on 5 clusters"; got.Message != want {
		t.Errorf("%q, want %q", got.Message, want)
	}
	if sum := s.status().Summary; sum.Clusters != 8 || sum.UpToDate != "5/8" {
		t.Errorf("summary %+v", sum)
	}
}

// A held cluster is Ready with the revision that it must run, and is not up to date.
func TestSummary_of_held_clusters(t *testing.T) {
	s := newStory(stageOf("canary", soaking))
	edit(t, s)
	s.runTo(t, v1alpha1.ReasonSoaking)
	if sum := s.status().Summary; sum.Ready != 8 || sum.UpToDate != "1/8" {
		t.Errorf("summary %+v", sum)
	}
}

// Other clusters run a superseded revision, or have none.
func TestRolledOut_says_what_the_other_clusters_run(t *testing.T) {
	s := newStory(stageOf("canary", soaking), stageOf("eu"))
	edit(t, s)
	s.runTo(t, v1alpha1.ReasonSoaking)
	slices.Reverse(s.in.App.Spec.Rollout.Stages)
	AtRevision(8)(&s.in)
	Chosen("zrh")(&s.in)
	unreachableIn("zrh")(&s.in)
	s.step()
	got := meta.FindStatusCondition(s.status().Conditions, v1alpha1.ConditionRolledOut).Message
	want := "revision 8, stage eu: 1 of 3 clusters is updated, 0 are available; 6 clusters run revision 6, 1 runs another revision, 1 runs no revision yet"
	if got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestRolledOut_has_a_short_message(t *testing.T) {
	name, stage := strings.Repeat("n", 253), strings.Repeat("s", 63)
	wrong := strings.Repeat("\x01,", 100)
	in := NewInput(Chosen("east"), AtRevision(math.MaxInt64))
	in.App.Spec.Rollout = &v1alpha1.Rollout{Stages: []v1alpha1.RolloutStage{{Name: stage}}}
	in.App.Annotations = map[string]string{v1alpha1.AnnotationApprove: wrong, v1alpha1.AnnotationPromote: wrong, v1alpha1.AnnotationPause: strings.Repeat("\U000E0001", 1000)}
	decision := rollout.Plan(in)
	decision.Rollout = v1alpha1.RolloutStatus{
		Revision: math.MaxInt64, StableRevision: math.MaxInt64 - 1, FailedRevision: math.MaxInt64, Phase: v1alpha1.RolloutRolledBack,
		FailedStage: stage, FailedClusters: slices.Repeat([]string{name}, 5), FailedReason: v1alpha1.ReasonContainerConfig,
	}
	for _, c := range status.Compute(in, decision).Conditions {
		if len(c.Message) > 3000 {
			t.Errorf("%s has a message of %d bytes: %s", c.Type, len(c.Message), c.Message)
		}
	}
}

// kstatusOf returns the result of kstatus for an AppService with this status.
func kstatusOf(t *testing.T, app *v1alpha1.AppService, status v1alpha1.AppServiceStatus) kstatus.Status {
	t.Helper()
	app = app.DeepCopy()
	app.APIVersion, app.Kind, app.Status = v1alpha1.GroupVersion.String(), "AppService", status
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(app)
	if err != nil {
		t.Fatal(err)
	}
	result, err := kstatus.Compute(&unstructured.Unstructured{Object: content})
	if err != nil {
		t.Fatal(err)
	}
	return result.Status
}
