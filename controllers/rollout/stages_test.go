package rollout_test

import (
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/rollout"
	"github.com/fleetwright/fleetwright/controllers/rollout/entryplan"
	. "github.com/fleetwright/fleetwright/controllers/rollout/rollouttest"
	"github.com/fleetwright/fleetwright/controllers/rollout/stages"
)

// scenario is a staged fleet with steps that read as a story.
type scenario struct {
	*stagedFleet
	t     *testing.T
	steps []stages.TransitionType
}

// newScenario returns a fleet with two clusters in the stage canary and three in the stage world. It
// has completed the rollout of revision 1.
func newScenario(t *testing.T, changes ...func(*v1alpha1.Rollout)) *scenario {
	s := newFirstRollout(t, changes...)
	s.plan()
	s.annotate(v1alpha1.AnnotationPromote, "1")
	s.settles("Completed 1, stable 1: canary Completed 2/2, world Completed 3/3")
	s.annotate(v1alpha1.AnnotationPromote, "")
	return s
}

// newFirstRollout returns the fleet before its first plan.
func newFirstRollout(t *testing.T, changes ...func(*v1alpha1.Rollout)) *scenario {
	s := &scenario{stagedFleet: newStagedFleet(), t: t}
	match := func(stage string) v1alpha1.ClusterMatch {
		return v1alpha1.ClusterMatch{ClusterSelector: &v1alpha1.ClusterSelector{MatchLabels: map[string]string{"stage": stage}}}
	}
	s.app.Spec.Rollout = &v1alpha1.Rollout{Stages: []v1alpha1.RolloutStage{{Name: "canary", ClusterMatch: match("canary")}, {Name: "world", ClusterMatch: match("world")}}}
	for _, change := range changes {
		change(s.app.Spec.Rollout)
	}
	for _, name := range []string{"canary-1", "canary-2"} {
		s.join(name, "canary")
	}
	for _, name := range []string{"world-1", "world-2", "world-3"} {
		s.join(name, "world")
	}
	return s
}

func stageWith(i int, change func(*v1alpha1.RolloutStage)) func(*v1alpha1.Rollout) {
	return func(r *v1alpha1.Rollout) { change(&r.Stages[i]) }
}

func needsApproval(s *v1alpha1.RolloutStage) { s.Approval = v1alpha1.ApprovalRequired }
func soaksFor(n int32) func(*v1alpha1.RolloutStage) {
	return func(s *v1alpha1.RolloutStage) { s.SoakSeconds = &n }
}

// passes lets time pass in steps of ten seconds, while the members and the planner work.
func (s *scenario) passes(d time.Duration) *scenario {
	s.t.Helper()
	for range max(1, int(d/(10*time.Second))) {
		s.deliverAll()
		s.plan()
		s.advance(10 * time.Second)
	}
	s.deliverAll()
	s.plan()
	return s
}

// settles checks the rollout when nothing happens any more.
func (s *scenario) settles(want string) *scenario {
	s.t.Helper()
	if !s.run(nil) {
		s.t.Fatalf("the rollout does not come to rest:\n%s", toText(s.app.Status))
	}
	return s.is(want)
}

// is checks the rollout.
func (s *scenario) is(want string) *scenario {
	s.t.Helper()
	if diff := cmp.Diff(want, s.summary()); diff != "" {
		s.t.Fatalf("the rollout (-want +got):\n%s\n%s", diff, toText(s.app.Status))
	}
	return s
}

func (s *scenario) summary() string {
	state := s.app.Status.Rollout
	var parts []string
	for _, stage := range state.Stages {
		parts = append(parts, fmt.Sprintf("%s %s %d/%d", stage.Name, stage.Phase, stage.UpToDate, stage.Clusters))
	}
	return fmt.Sprintf("%s %d, stable %d: %s", state.Phase, state.Revision, state.StableRevision, strings.Join(parts, ", "))
}

// revisionsAre checks the revisions of the clusters, in order of name.
func (s *scenario) revisionsAre(want string) *scenario {
	s.t.Helper()
	if diff := cmp.Diff(want, s.revisions()); diff != "" {
		s.t.Fatalf("revisions (-want +got):\n%s\n%s", diff, toText(s.app.Status))
	}
	return s
}

func (s *scenario) revisions() string {
	var text strings.Builder
	for _, entry := range s.app.Status.Clusters {
		fmt.Fprint(&text, entry.Revision)
	}
	return text.String()
}

// sawTransitions checks the steps that were reported since the last edit or annotation.
func (s *scenario) sawTransitions(want ...stages.TransitionType) *scenario {
	s.t.Helper()
	if diff := cmp.Diff(want, s.steps); diff != "" {
		s.t.Fatalf("transitions (-want +got):\n%s", diff)
	}
	return s
}

// edited edits the template, and the members answer.
func (s *scenario) edited(image string) *scenario {
	s.editImage(image)
	s.steps = nil
	s.record(s.plan())
	s.deliverAll()
	s.record(s.plan())
	return s
}

func (s *scenario) annotated(key, value string) *scenario {
	s.annotate(key, value)
	s.steps = nil
	s.record(s.plan())
	return s
}

func (s *scenario) record(decision rollout.Decision) {
	for _, step := range decision.Transitions {
		s.steps = append(s.steps, step.Type)
	}
}

// runningReady returns the clusters on which pods are ready and keep running.
func (s *scenario) runningReady() []string {
	var names []string
	for _, entry := range s.app.Status.Clusters {
		if seen, found := s.seen[entry.Name]; found && entryplan.IsPlanned(entry) && seen.Phase == v1alpha1.ClusterReady {
			names = append(names, entry.Name)
		}
	}
	return names
}

func (s *scenario) cutOff(name string) *scenario    { s.setReady(name, false); return s }
func (s *scenario) reconnect(name string) *scenario { s.setReady(name, true); return s }

const deadline = 15 * time.Minute

func TestRollout_goes_through_the_stages(t *testing.T) {
	t.Run("one after another, each from one cluster", func(t *testing.T) {
		s := newScenario(t, stageWith(0, soaksFor(300)), stageWith(1, needsApproval))
		s.edited("ok-1").is("Progressing 2, stable 1: canary Progressing 1/2, world Pending 0/3").sawTransitions(stages.RolloutStarted, stages.StageStarted)
		s.passes(60 * time.Second).is("Progressing 2, stable 1: canary Progressing 1/2, world Pending 0/3")
		s.passes(20 * time.Second).is("Progressing 2, stable 1: canary Progressing 2/2, world Pending 0/3")
		s.passes(80 * time.Second).is("Progressing 2, stable 1: canary Soaking 2/2, world Pending 0/3")
		s.passes(280 * time.Second).is("Progressing 2, stable 1: canary Soaking 2/2, world Pending 0/3")
		s.settles("Progressing 2, stable 1: canary Completed 2/2, world AwaitingApproval 0/3")
		s.annotated(v1alpha1.AnnotationApprove, "2/world").is("Progressing 2, stable 1: canary Completed 2/2, world Progressing 1/3").sawTransitions(stages.StageStarted)
		s.settles("Completed 2, stable 2: canary Completed 2/2, world Completed 3/3")
		if previous := s.app.Status.Rollout.PreviousRevision; previous != 1 {
			t.Errorf("the previous revision is %d", previous)
		}
	})
	t.Run("with the clusters that no stage matches in the last one", func(t *testing.T) {
		s := newFirstRollout(t, func(r *v1alpha1.Rollout) { r.Stages = r.Stages[:1] })
		s.settles("Completed 1, stable 1: canary Completed 2/2, (rest) Completed 3/3")
	})
	t.Run("with one stage of all clusters if there is none", func(t *testing.T) {
		s := newFirstRollout(t, func(r *v1alpha1.Rollout) { r.Stages = nil })
		s.settles("Completed 1, stable 1: (rest) Completed 5/5")
	})
	t.Run("up to maxUnavailable", func(t *testing.T) {
		s := newScenario(t, stageWith(1, func(s *v1alpha1.RolloutStage) { s.MaxUnavailable = new(intstr.FromInt32(2)) }))
		s.edited("ok-1").passes(170 * time.Second).is("Progressing 2, stable 1: canary Completed 2/2, world Progressing 1/3")
		s.passes(80 * time.Second).is("Progressing 2, stable 1: canary Completed 2/2, world Progressing 3/3")
	})
}

func TestRollout_of_a_revision_that_fails(t *testing.T) {
	t.Run("returns to the stable revision", func(t *testing.T) {
		s := newScenario(t).edited("bad").passes(deadline - 20*time.Second).is("Progressing 2, stable 1: canary Progressing 1/2, world Pending 0/3")
		s.passes(20 * time.Second).is("RollingBack 2, stable 1: canary Progressing 0/2, world Pending 0/3")
		if state := s.app.Status.Rollout; state.FailedStage != "canary" || len(state.FailedClusters) != 1 || state.FailedRevision != 2 {
			t.Errorf("the status does not say what failed: %+v", state)
		}
		s.settles("RolledBack 2, stable 1: canary Progressing 0/2, world Pending 0/3").revisionsAre("11111")
	})
	t.Run("is halted with onFailure Pause", func(t *testing.T) {
		s := newScenario(t, func(r *v1alpha1.Rollout) { r.OnFailure = v1alpha1.RolloutPause })
		s.edited("bad").settles("Halted 2, stable 1: canary Progressing 1/2, world Pending 0/3")
		s.annotated(v1alpha1.AnnotationAbort, "2").settles("RolledBack 2, stable 1: canary Progressing 0/2, world Pending 0/3")
	})
	t.Run("is halted without a stable revision", func(t *testing.T) {
		s := newFirstRollout(t)
		s.app.Spec.Image = "bad"
		s.settles("Halted 1, stable 0: canary Progressing 1/2, world Pending 0/3")
		s.edited("ok").settles("Completed 2, stable 2: canary Completed 2/2, world Completed 3/3")
	})
	t.Run("is halted if the stable revision is missing", func(t *testing.T) {
		s := newScenario(t).edited("bad").passes(deadline - 20*time.Second)
		s.advance(30 * time.Second)
		s.deliverAll()
		in := s.input()
		in.IsStableMissing = true
		s.planFor(in)
		s.is("Halted 2, stable 1: canary Progressing 1/2, world Pending 0/3")
	})
	t.Run("fails after three minutes of a refusal", func(t *testing.T) {
		s := newScenario(t)
		for _, m := range s.members {
			m.refuses = true
		}
		s.edited("ok-1").passes(170 * time.Second).is("Progressing 2, stable 1: canary Progressing 1/2, world Pending 0/3")
		s.passes(30 * time.Second).settles("RolledBack 2, stable 1: canary Progressing 0/2, world Pending 0/3")
	})
	t.Run("tolerates as many failures as may be", func(t *testing.T) {
		s := newScenario(t, stageWith(0, func(s *v1alpha1.RolloutStage) { s.MaxFailures = new(intstr.FromInt32(1)) }))
		s.members["canary-1"].refuses = true
		s.edited("ok-1").settles("Completed 2, stable 2: canary Completed 2/2, world Completed 3/3")
	})
	t.Run("ends although as many may fail as there are", func(t *testing.T) { // one cluster, maxFailures 1
		s := newScenario(t, func(r *v1alpha1.Rollout) { r.Stages[0].MaxFailures = new(intstr.FromInt32(1)) })
		delete(s.members, "canary-2")
		s.annotate(v1alpha1.AnnotationAcceptRemovals, "9@2")
		s.edited("bad").settles("RolledBack 2, stable 1: canary Progressing 0/1, world Pending 0/3")
	})
	t.Run("waits for the only good cluster if it becomes unreachable after a tolerated failure", func(t *testing.T) {
		s := newScenario(t, stageWith(0, soaksFor(3600)), stageWith(0, func(s *v1alpha1.RolloutStage) { s.MaxFailures = new(intstr.FromInt32(1)) }))
		s.edited("ok-1")
		good := s.with(2)[0]
		for _, name := range []string{"canary-1", "canary-2"} {
			s.members[name].refuses = name != good
		}
		s.passes(10 * time.Minute).is("Progressing 2, stable 1: canary Soaking 2/2, world Pending 0/3")
		s.cutOff(good).passes(2 * time.Hour).is("Progressing 2, stable 1: canary Soaking 2/2, world Pending 0/3")
		if diff := cmp.Diff([]string{good}, s.decision.LostClusters); s.decision.WaitingStage != "canary" || diff != "" {
			t.Errorf("stage %q waits for (-want +got):\n%s", s.decision.WaitingStage, diff)
		}
		s.reconnect(good).settles("Completed 2, stable 2: canary Completed 2/2, world Completed 3/3")
	})
	t.Run("counts a cluster that was available and fails later", func(t *testing.T) {
		s := newScenario(t, stageWith(0, soaksFor(3600))).edited("ok-1").passes(5 * time.Minute).is("Progressing 2, stable 1: canary Soaking 2/2, world Pending 0/3")
		s.members["canary-1"].sick = true
		s.settles("RolledBack 2, stable 1: canary Soaking 0/2, world Pending 0/3")
	})
	t.Run("goes back where pods of the revision flap", func(t *testing.T) {
		s := newScenario(t).edited("ok-1")
		for range 60 { // Ready for half a minute, then not
			for _, m := range s.members {
				if m.runs == 2 {
					m.sick = !m.sick
				}
			}
			s.passes(30 * time.Second)
		}
		s.settles("RolledBack 2, stable 1: canary Progressing 0/2, world Pending 0/3")
	})
}

func TestRollout_is_steered_by_annotations(t *testing.T) {
	t.Run("abort", func(t *testing.T) {
		s := newScenario(t).edited("ok-1").passes(2 * time.Minute).is("Progressing 2, stable 1: canary Progressing 2/2, world Pending 0/3")
		s.annotated(v1alpha1.AnnotationAbort, "2").is("RollingBack 2, stable 1: canary Progressing 1/2, world Pending 0/3").sawTransitions(stages.RolloutFailed, stages.RollingBack)
		s.settles("RolledBack 2, stable 1: canary Progressing 0/2, world Pending 0/3")
	})
	t.Run("abort, and broken clusters go back at once", func(t *testing.T) {
		s := newScenario(t, stageWith(1, func(s *v1alpha1.RolloutStage) { s.MaxUnavailable = new(intstr.FromInt32(3)) })).edited("bad")
		s.annotated(v1alpha1.AnnotationPromote, "2").passes(deadline - 30*time.Second)
		s.app.Status.Rollout.Stages[0].Phase = v1alpha1.StageCompleted // as if the canaries had been well
		s.plan()
		s.is("Progressing 2, stable 1: canary Completed 1/2, world Progressing 3/3").passes(20 * time.Second)
		s.edit(func(spec *v1alpha1.AppServiceSpec) {
			spec.Rollout = spec.Rollout.DeepCopy()
			spec.Rollout.Stages[1].MaxUnavailable = new(intstr.FromInt32(1))
		})
		s.passes(0).passes(0).annotated(v1alpha1.AnnotationAbort, "2").is("RollingBack 2, stable 1: canary Completed 0/2, world Progressing 0/3")
	})
	t.Run("retry", func(t *testing.T) {
		s := newScenario(t).edited("ok-1").annotated(v1alpha1.AnnotationAbort, "2").settles("RolledBack 2, stable 1: canary Progressing 0/2, world Pending 0/3")
		s.annotated(v1alpha1.AnnotationRetry, "2").is("Progressing 3, stable 1: canary Progressing 1/2, world Pending 0/3")
		s.settles("Completed 3, stable 3: canary Completed 2/2, world Completed 3/3")
	})
	t.Run("pause", func(t *testing.T) {
		s := newScenario(t).edited("ok-1").annotated(v1alpha1.AnnotationPause, "2").settles("Progressing 2, stable 1: canary Progressing 1/2, world Pending 0/3")
		s.join("world-4", "world")
		s.settles("Progressing 2, stable 1: canary Progressing 1/2, world Pending 0/4").annotated(v1alpha1.AnnotationPause, "1")
		s.settles("Completed 2, stable 2: canary Completed 2/2, world Completed 4/4")
	})
	t.Run("a pause stops a rollback, and ends with the clocks started again", func(t *testing.T) {
		s := newScenario(t).edited("bad").passes(deadline-20*time.Second).annotated(v1alpha1.AnnotationPause, "2")
		s.passes(time.Hour).is("Progressing 2, stable 1: canary Progressing 1/2, world Pending 0/3").annotated(v1alpha1.AnnotationPause, "")
		s.passes(deadline - 20*time.Second).is("Progressing 2, stable 1: canary Progressing 1/2, world Pending 0/3")
		s.passes(40 * time.Second).is("RollingBack 2, stable 1: canary Progressing 0/2, world Pending 0/3")
	})
	t.Run("promote one stage", func(t *testing.T) {
		s := newScenario(t, stageWith(0, soaksFor(3600)), stageWith(1, needsApproval)).edited("ok-1").passes(4 * time.Minute)
		s.annotated(v1alpha1.AnnotationPromote, "2/canary").is("Progressing 2, stable 1: canary Completed 2/2, world AwaitingApproval 0/3")
		s.annotated(v1alpha1.AnnotationPromote, "").is("Progressing 2, stable 1: canary Completed 2/2, world AwaitingApproval 0/3")
	})
	t.Run("promote all stages", func(t *testing.T) {
		s := newScenario(t, stageWith(0, soaksFor(3600)), stageWith(1, needsApproval)).edited("ok-1")
		s.annotated(v1alpha1.AnnotationPromote, "2").settles("Completed 2, stable 2: canary Completed 2/2, world Completed 3/3")
	})
	t.Run("an annotation for another revision does nothing", func(t *testing.T) {
		s := newScenario(t, stageWith(0, needsApproval)).edited("ok-1")
		for _, key := range []string{v1alpha1.AnnotationApprove, v1alpha1.AnnotationPromote} {
			s.annotated(key, "1/canary").annotated(key, "3/canary").annotated(key, "2/nowhere").settles("Progressing 2, stable 1: canary AwaitingApproval 0/2, world Pending 0/3")
		}
	})
}

// The clock of a cluster that is not Ready starts in the decision that starts the rollback.
func TestAbort_of_a_halted_rollout_decides_the_same_twice(t *testing.T) {
	s := newScenario(t, func(r *v1alpha1.Rollout) { r.OnFailure = v1alpha1.RolloutPause }).edited("bad")
	s.settles("Halted 2, stable 1: canary Progressing 1/2, world Pending 0/3")
	s.members["world-1"].sick = true
	s.passes(0).annotated(v1alpha1.AnnotationAbort, "2").is("RollingBack 2, stable 1: canary Progressing 0/2, world Pending 0/3")
	first := toText(s.app.Status)
	s.plan()
	if diff := cmp.Diff(first, toText(s.app.Status)); diff != "" {
		t.Errorf("(-first +second):\n%s", diff)
	}
}

func TestRollout_after_another_edit(t *testing.T) {
	t.Run("starts at the first stage", func(t *testing.T) {
		s := newScenario(t, stageWith(1, needsApproval)).edited("ok-1").settles("Progressing 2, stable 1: canary Completed 2/2, world AwaitingApproval 0/3")
		s.annotate(v1alpha1.AnnotationApprove, "2/world")
		s.edited("ok-2").is("Progressing 3, stable 1: canary Progressing 1/2, world Pending 0/3").sawTransitions(stages.Superseded, stages.RolloutStarted, stages.StageStarted)
		s.settles("Progressing 3, stable 1: canary Completed 2/2, world AwaitingApproval 0/3").revisionsAre("33111")
	})
	t.Run("a fix reaches the canary that needs it", func(t *testing.T) { // a superseded cluster that never became Ready
		s := newScenario(t).edited("bad").passes(time.Minute).edited("ok-2")
		s.settles("Completed 3, stable 3: canary Completed 2/2, world Completed 3/3")
	})
	t.Run("a superseded cluster of a later stage that is not Ready goes back", func(t *testing.T) {
		s := newScenario(t).edited("ok-1").passes(190 * time.Second).is("Progressing 2, stable 1: canary Completed 2/2, world Progressing 1/3")
		for name, m := range s.members {
			m.sick = s.app.Status.Cluster(name).Revision == 2 && strings.HasPrefix(name, "world")
		}
		s.edited("ok-2").is("Progressing 3, stable 1: canary Progressing 1/2, world Pending 0/3")
		if got := s.revisions()[2:]; got != "111" {
			t.Errorf("revisions of world are %s", got)
		}
	})
	t.Run("a Ready superseded cluster of a later stage waits for its turn", func(t *testing.T) {
		s := newScenario(t).edited("ok-1").passes(200 * time.Second).is("Progressing 2, stable 1: canary Completed 2/2, world Progressing 1/3")
		before := s.revisions()[2:]
		s.edited("ok-2").is("Progressing 3, stable 1: canary Progressing 1/2, world Pending 0/3")
		if got := s.revisions()[2:]; got != before {
			t.Errorf("revisions of world were %s, and are %s", before, got)
		}
	})
	t.Run("the stable template cancels the rollout", func(t *testing.T) {
		s := newScenario(t, stageWith(0, soaksFor(60))).edited("ok-1").passes(4 * time.Minute).edited("ok-0")
		s.settles("Completed 1, stable 1: canary Completed 2/2, world Completed 3/3").revisionsAre("11111")
	})
	t.Run("waits for no cluster before the clusters have answered", func(t *testing.T) {
		s := newScenario(t)
		s.editImage("ok-1")
		if decision := s.plan(); decision.WaitingStage != "" {
			t.Errorf("the stage that waits is %q", decision.WaitingStage)
		}
	})
	t.Run("the number of a canceled revision is remembered until there is a higher one", func(t *testing.T) {
		s := newScenario(t).edited("ok-1").edited("ok-0").settles("Completed 1, stable 1: canary Completed 2/2, world Completed 3/3")
		if got := s.app.Status.Rollout.LatestRevision; got != 2 {
			t.Errorf("after the cancelation, latestRevision is %d, want 2", got)
		}
		in := s.input()
		in.Revision = 3
		s.planFor(in)
		if got := s.app.Status.Rollout.LatestRevision; got != 0 {
			t.Errorf("after another edit, latestRevision is %d, want 0", got)
		}
	})
	t.Run("the stable template ends a rollback at once", func(t *testing.T) {
		s := newScenario(t).edited("bad").settles("RolledBack 2, stable 1: canary Progressing 0/2, world Pending 0/3")
		s.edited("ok-0").is("Completed 1, stable 1: canary Completed 2/2, world Completed 3/3")
	})
	t.Run("the previous template needs no approval and does not soak", func(t *testing.T) {
		s := newScenario(t, stageWith(0, soaksFor(3600)), stageWith(1, needsApproval)).edited("ok-1")
		s.annotated(v1alpha1.AnnotationPromote, "2").settles("Completed 2, stable 2: canary Completed 2/2, world Completed 3/3")
		s.edited("ok-0").is("Progressing 3, stable 2: canary Progressing 1/2, world Pending 0/3")
		s.passes(15 * time.Minute).is("Completed 3, stable 3: canary Completed 2/2, world Completed 3/3")
	})
	t.Run("a failed revision never comes back", func(t *testing.T) {
		s := newScenario(t).edited("bad").settles("RolledBack 2, stable 1: canary Progressing 0/2, world Pending 0/3")
		s.edited("ok-0").settles("Completed 1, stable 1: canary Completed 2/2, world Completed 3/3")
		in := s.input()
		in.Revision = 2
		s.planFor(in)
		s.is("RolledBack 2, stable 1: canary Pending 0/2, world Pending 0/3").revisionsAre("11111")
	})
	t.Run("the removal of spec.rollout does not bring a failed revision back", func(t *testing.T) {
		s := newScenario(t).edited("bad").settles("RolledBack 2, stable 1: canary Progressing 0/2, world Pending 0/3")
		s.edit(func(spec *v1alpha1.AppServiceSpec) { spec.Rollout = nil })
		s.settles("RolledBack 2, stable 1: ").revisionsAre("11111")
		s.join("world-4", "world")
		s.settles("RolledBack 2, stable 1: ").revisionsAre("111111")
		s.edited("ok-3").settles(" 3, stable 3: ").revisionsAre("333333")
	})
}

// In the stage world, all clusters are Ready with revision 2, which fails in the canary.
func failsLate(t *testing.T, policy v1alpha1.RolloutFailurePolicy) *scenario {
	s := newScenario(t, func(r *v1alpha1.Rollout) { r.OnFailure = policy }, stageWith(1, soaksFor(3600))).edited("ok-1")
	s.passes(20 * time.Minute).is("Progressing 2, stable 1: canary Completed 2/2, world Soaking 3/3")
	s.members["canary-1"].refuses, s.members["canary-1"].sick = true, true
	return s
}

// changesWithin lets time pass, and checks that not more Ready clusters of a stage than this change in a
// decision.
func (s *scenario) changesWithin(d time.Duration, most int) *scenario {
	s.t.Helper()
	for range int(d / (10 * time.Second)) {
		s.deliverAll()
		before := s.app.Status
		s.plan()
		changed := map[string]int{}
		for _, entry := range s.app.Status.Clusters {
			stage := s.members[entry.Name].member.Labels["stage"]
			if was := before.Cluster(entry.Name); was.Phase == v1alpha1.ClusterReady && was.Revision != entry.Revision {
				changed[stage]++
			}
			if changed[stage] > most {
				s.t.Fatalf("%d Ready clusters of %s change at once, and %d may:\n%s\n%s", changed[stage], stage, most, toText(before), toText(s.app.Status))
			}
		}
		s.advance(10 * time.Second)
	}
	return s
}

func TestRollout_after_a_failure_changes_Ready_clusters_within_maxUnavailable(t *testing.T) {
	t.Run("of an edit", func(t *testing.T) {
		s := failsLate(t, v1alpha1.RolloutRollback).passes(16 * time.Minute)
		s.is("RollingBack 2, stable 1: canary Completed 0/2, world Soaking 2/3").editImage("ok-2")
		s.changesWithin(20*time.Minute, 1)
		s = failsLate(t, v1alpha1.RolloutPause).passes(16 * time.Minute)
		s.is("Halted 2, stable 1: canary Completed 2/2, world Soaking 3/3").editImage("ok-2")
		s.members["canary-1"].refuses, s.members["canary-1"].sick = false, false
		s.changesWithin(4*time.Minute, 1).is("Progressing 3, stable 1: canary Completed 2/2, world Progressing 1/3")
	})
	t.Run("of a retry, where the template of the target stays", func(t *testing.T) {
		s := failsLate(t, v1alpha1.RolloutPause).passes(16 * time.Minute)
		s.annotate(v1alpha1.AnnotationRetry, "2")
		s.changesWithin(2*time.Minute, 1).revisionsAre("32222") // first where it failed
		s.members["canary-1"].refuses, s.members["canary-1"].sick = false, false
		world := func() string { return s.revisions()[2:] }
		for range 400 {
			s.deliverAll()
			s.plan()
			s.advance(10 * time.Second)
			if strings.Contains(world(), "1") {
				t.Fatalf("a cluster that has the template lost it: %s\n%s", world(), toText(s.app.Status))
			}
		}
		s.settles("Completed 3, stable 3: canary Completed 2/2, world Completed 3/3")
	})
	t.Run("of an edit that returns to the failed template", func(t *testing.T) {
		s := failsLate(t, v1alpha1.RolloutPause).passes(16 * time.Minute)
		s.editImage("ok-2")
		s.passes(0).editImage("ok-1")
		s.passes(0)
		before := s.revisions()[2:]
		s.passes(time.Minute)
		if got := s.revisions()[2:]; got != before || strings.Count(got, "2") != 2 {
			t.Errorf("revisions of world were %s, and are %s", before, got)
		}
	})
}

// A rollback must not break the clusters that run the revision that failed elsewhere.
func TestRollback_to_a_revision_that_fails_too(t *testing.T) {
	const reached, allBack = "canary Completed 1/2, world Soaking 2/3", "RolledBack 2, stable 1: canary Completed 0/2, world Soaking 0/3"
	everywhere := func(t *testing.T) *scenario {
		s := newScenario(t, stageWith(1, soaksFor(3600))).edited("ok-1").passes(20 * time.Minute)
		return s.is("Progressing 2, stable 1: canary Completed 2/2, world Soaking 3/3")
	}
	failsWith := func(s *scenario, want int) {
		t.Helper()
		if state := s.app.Status.Rollout; len(state.ReturnFailedClusters) != want {
			t.Errorf("the stable revision fails on %v, want %d clusters", state.ReturnFailedClusters, want)
		}
	}
	t.Run("stops, and goes on when that is fixed", func(t *testing.T) {
		s := everywhere(t)
		s.templates[1] = "bad"
		s.annotated(v1alpha1.AnnotationAbort, "2").is("RollingBack 2, stable 1: " + reached)
		s.passes(deadline - time.Minute).is("RollingBack 2, stable 1: " + reached)
		s.annotated(v1alpha1.AnnotationAbort, "2").passes(2 * time.Hour).is("Halted 2, stable 1: " + reached)
		failsWith(s, 1)
		clear(s.seen) // the operator restarts
		s.plan()
		s.is("Halted 2, stable 1: " + reached)
		s.templates[1] = "ok-0 "
		s.settles(allBack).revisionsAre("11111")
		failsWith(s, 0)
	})
	soaking := func(t *testing.T, worlds int) *scenario { // with maxUnavailable 2
		s := newFirstRollout(t, stageWith(1, soaksFor(3600)), func(r *v1alpha1.Rollout) { r.MaxUnavailable = new(intstr.FromInt32(2)) })
		clear(s.members)
		for i := range worlds {
			s.join(fmt.Sprintf("world-%d", i+1), "world")
		}
		s.settles(fmt.Sprintf("Completed 1, stable 1: canary Skipped 0/0, world Completed %[1]d/%[1]d", worlds))
		s.edited("ok-1").passes(30 * time.Minute)
		return s.is(fmt.Sprintf("Progressing 2, stable 1: canary Skipped 0/0, world Soaking %[1]d/%[1]d", worlds))
	}
	failsOn := func(s *scenario, want ...string) {
		s.t.Helper()
		if diff := cmp.Diff(want, s.app.Status.Rollout.ReturnFailedClusters); diff != "" {
			s.t.Errorf("the stable revision fails on (-want +got):\n%s", diff)
		}
	}
	t.Run("does not wait for a cluster that became unreachable and never failed", func(t *testing.T) {
		s := soaking(t, 8).annotated(v1alpha1.AnnotationAbort, "2")
		back := s.with(1)
		s.members[back[0]].sick, s.members[back[1]].startup = true, time.Hour
		s.passes(2 * time.Minute).cutOff(back[1]).passes(20 * time.Minute)
		failsOn(s, back[0])
		s.members[back[0]].sick = false
		s.settles("RolledBack 2, stable 1: canary Skipped 0/0, world Soaking 0/8").revisionsAre("11111111")
		failsOn(s)
	})
	t.Run("waits for a cluster that failed and became unreachable", func(t *testing.T) {
		s := soaking(t, 8).annotated(v1alpha1.AnnotationAbort, "2")
		failed := s.with(1)[0]
		s.members[failed].refuses, s.members[failed].sick = true, true
		s.passes(20 * time.Minute)
		halted := s.with(2)
		s.cutOff(failed).passes(3 * time.Hour)
		failsOn(s, failed)
		if diff := cmp.Diff(halted, s.with(2)); diff != "" {
			t.Errorf("clusters with the aborted revision (-before +after):\n%s", diff)
		}
	})
	t.Run("names the clusters on which it fails now", func(t *testing.T) {
		s := soaking(t, 4)
		s.templates[1] = "bad"
		s.annotated(v1alpha1.AnnotationAbort, "2")
		back := s.with(1)
		s.passes(20 * time.Minute)
		failsOn(s, back...)
		s.templates[1], s.members[back[1]].sick = "ok-0 ", true
		s.passes(5 * time.Minute)
		failsOn(s, back[1])
	})
	t.Run("is over where all have returned, also after a restart", func(t *testing.T) {
		s := newScenario(t, stageWith(1, soaksFor(3600)), func(r *v1alpha1.Rollout) { r.MaxUnavailable = new(intstr.FromString("100%")) })
		s.edited("ok-1").passes(20 * time.Minute).templates[1] = "bad"
		s.annotated(v1alpha1.AnnotationAbort, "2").settles(allBack)
		failsWith(s, 2)
		clear(s.seen) // the operator restarts
		s.plan()
		s.is(allBack)
	})
	t.Run("stops after a refusal, and reports it once", func(t *testing.T) {
		s := everywhere(t)
		for _, m := range s.members {
			m.refuses = true
		}
		s.annotated(v1alpha1.AnnotationAbort, "2").sawTransitions(stages.RolloutFailed, stages.RollingBack)
		s.steps = nil
		for range 60 {
			s.deliverAll()
			s.record(s.plan())
			s.advance(10 * time.Second)
		}
		s.is("Halted 2, stable 1: " + reached).sawTransitions(stages.RollbackHalted)
	})
	t.Run("stops an edit that returns to it", func(t *testing.T) {
		s := everywhere(t)
		for _, m := range s.members {
			m.refuses = true
		}
		s.edited("ok-0").passes(2 * time.Hour).is("Progressing 1, stable 1: canary Pending 1/2, world Pending 1/3")
		failsWith(s, 1)
		for _, m := range s.members {
			m.refuses = false
		}
		s.settles("Completed 1, stable 1: canary Completed 2/2, world Completed 3/3")
	})
	t.Run("is forgotten when the cluster gets another revision", func(t *testing.T) {
		s := newFirstRollout(t)
		for _, name := range []string{"canary-2", "world-1", "world-2", "world-3"} {
			delete(s.members, name)
		}
		s.settles("Completed 1, stable 1: canary Completed 1/1, world Skipped 0/0").edited("ok-1").passes(30 * time.Second).templates[1] = "bad"
		s.annotated(v1alpha1.AnnotationAbort, "2").settles("RolledBack 2, stable 1: canary Progressing 0/1, world Pending 0/0")
		failsWith(s, 1)
		s.editImage("ok-2")
		s.plan()
		s.revisionsAre("3")
		failsWith(s, 0)
	})
	t.Run("tolerates maxFailures", func(t *testing.T) {
		s := newScenario(t, stageWith(1, soaksFor(3600)), func(r *v1alpha1.Rollout) { r.MaxFailures = new(intstr.FromInt32(1)) })
		s.edited("ok-1").passes(20 * time.Minute).members["world-1"].refuses = true
		s.annotated(v1alpha1.AnnotationAbort, "2").settles(allBack)
	})
	t.Run("does not stop for a cluster that was broken before", func(t *testing.T) {
		s := everywhere(t)
		s.members["world-1"].sick = true
		s.settles(allBack).revisionsAre("11111")
	})
	t.Run("changes no Ready cluster after another edit either", func(t *testing.T) {
		s := everywhere(t)
		s.templates[1] = "bad"
		s.annotated(v1alpha1.AnnotationAbort, "2").passes(time.Hour).is("Halted 2, stable 1: " + reached)
		s.edited("bad-2").passes(time.Hour)
		if got := s.revisions(); strings.Count(got[2:], "2") != 2 {
			t.Errorf("the revisions are %s\n%s", got, toText(s.app.Status))
		}
	})
}

func TestRollout_with_clusters_that_cannot_prove_a_revision(t *testing.T) {
	t.Run("an unreachable cluster is skipped and catches up", func(t *testing.T) { // late clusters were never updated
		s := newScenario(t).cutOff("canary-1").passes(0).edited("ok-1").settles("Completed 2, stable 2: canary Completed 1/2, world Completed 3/3")
		s.reconnect("canary-1").settles("Completed 2, stable 2: canary Completed 2/2, world Completed 3/3")
	})
	t.Run("a stage without half of its clusters waits", func(t *testing.T) {
		s := newScenario(t).cutOff("world-1").cutOff("world-2").passes(0).edited("ok-1")
		s.settles("Progressing 2, stable 1: canary Completed 2/2, world Progressing 1/3")
		if s.decision.WaitingStage != "world" {
			t.Errorf("the stage that waits is %q", s.decision.WaitingStage)
		}
		s.reconnect("world-1").settles("Completed 2, stable 2: canary Completed 2/2, world Completed 2/3")
	})
	t.Run("a stage that soaks and loses its clusters waits", func(t *testing.T) {
		s := newScenario(t, stageWith(0, soaksFor(3600))).edited("ok-1").passes(10 * time.Minute)
		s.is("Progressing 2, stable 1: canary Soaking 2/2, world Pending 0/3")
		s.cutOff("canary-1").cutOff("canary-2").passes(30 * time.Minute)
		if s.decision.WaitingStage != "canary" {
			t.Errorf("the stage that waits is %q", s.decision.WaitingStage)
		}
	})
	t.Run("a cluster that answers an edit only with errors fails in the end", func(t *testing.T) {
		s := newScenario(t, stageWith(0, soaksFor(3600))).edited("ok-1").passes(10 * time.Minute)
		s.is("Progressing 2, stable 1: canary Soaking 2/2, world Pending 0/3")
		s.members["canary-2"].errs = true
		s.edit(func(spec *v1alpha1.AppServiceSpec) { spec.Replicas = new(int32(3)) })
		s.settles("RolledBack 2, stable 1: canary Soaking 0/2, world Pending 0/3")
	})
	t.Run("an unreachable cluster of a completed stage catches up before the rollout is complete", func(t *testing.T) {
		s := newScenario(t, stageWith(1, needsApproval)).cutOff("canary-1").passes(0).edited("ok-1").settles("Progressing 2, stable 1: canary Completed 1/2, world AwaitingApproval 0/3")
		s.reconnect("canary-1").settles("Progressing 2, stable 1: canary Completed 2/2, world AwaitingApproval 0/3")
	})
	t.Run("a stage in which the revision only failed does not pass", func(t *testing.T) {
		s := newScenario(t, stageWith(0, func(s *v1alpha1.RolloutStage) { s.MaxFailures = new(intstr.FromInt32(1)) }))
		s.members["canary-1"].sick, s.members["canary-2"].refuses = true, true
		s.passes(0).edited("ok-1").passes(10 * time.Minute).is("Progressing 2, stable 1: canary Progressing 1/2, world Pending 0/3")
		s.settles("RolledBack 2, stable 1: canary Progressing 0/2, world Pending 0/3")
	})
	t.Run("a promoted stage does not wait", func(t *testing.T) {
		s := newScenario(t).cutOff("world-1").cutOff("world-2").passes(0).edited("ok-1").settles("Progressing 2, stable 1: canary Completed 2/2, world Progressing 1/3")
		s.annotated(v1alpha1.AnnotationPromote, "2/world").is("Completed 2, stable 2: canary Completed 2/2, world Completed 1/3")
	})
	t.Run("a cluster that is lost while it is updated never fails the revision, and is waited for", func(t *testing.T) {
		s := newScenario(t).edited("ok-1")
		lost := s.with(2)[0]
		s.cutOff(lost).settles("Progressing 2, stable 1: canary Progressing 1/2, world Pending 0/3")
		s.reconnect(lost).settles("Completed 2, stable 2: canary Completed 2/2, world Completed 3/3")
	})
	t.Run("a cluster that returns has the rest of the deadline", func(t *testing.T) {
		s := newScenario(t, stageWith(1, needsApproval)).edited("bad").passes(time.Minute)
		for name := range s.members {
			s.cutOff(name)
		}
		s.passes(deadline)
		for name := range s.members {
			s.reconnect(name)
		}
		s.passes(deadline - 90*time.Second).is("Progressing 2, stable 1: canary Progressing 1/2, world Pending 0/3")
		s.passes(30 * time.Second).is("RollingBack 2, stable 1: canary Progressing 0/2, world Pending 0/3")
	})
	t.Run("a link that flaps does not postpone the failure", func(t *testing.T) { // the outages are 20 s of 10 minutes
		s := newScenario(t).edited("bad")
		name := s.with(2)[0]
		for range 2 {
			s.passes(10 * time.Minute).cutOff(name).passes(20 * time.Second).reconnect(name)
		}
		s.settles("RolledBack 2, stable 1: canary Progressing 0/2, world Pending 0/3")
	})
	t.Run("a broken cluster is no evidence", func(t *testing.T) {
		s := newScenario(t)
		s.members["canary-1"].sick = true
		s.passes(0).edited("ok-1").settles("Completed 2, stable 2: canary Completed 2/2, world Completed 3/3")
	})
	t.Run("a fix reaches a fleet that is broken", func(t *testing.T) {
		s := newScenario(t)
		for _, m := range s.members {
			m.sick = true
		}
		s.passes(0).edited("ok-1").settles("Progressing 2, stable 1: canary Progressing 2/2, world Pending 0/3")
		for _, m := range s.members {
			m.sick = m.runs != 2 // the fix helps
		}
		s.settles("Progressing 2, stable 1: canary Completed 2/2, world Progressing 3/3")
		for _, m := range s.members {
			m.sick = false
		}
		s.settles("Completed 2, stable 2: canary Completed 2/2, world Completed 3/3")
	})
	t.Run("clusters without replicas get the revision and are no evidence", func(t *testing.T) {
		s := newScenario(t)
		s.members["canary-1"].member.Labels["size"] = "none"
		s.edit(func(spec *v1alpha1.AppServiceSpec) {
			spec.Overrides = []v1alpha1.Override{{Name: "none", Replicas: new(int32(0)), ClusterMatch: v1alpha1.ClusterMatch{ClusterSelector: &v1alpha1.ClusterSelector{MatchLabels: map[string]string{"size": "none"}}}}}
		})
		s.passes(5 * time.Minute).cutOff("canary-2").passes(0).edited("ok-1")
		s.settles("Progressing 2, stable 1: canary Progressing 1/2, world Pending 0/3")
	})
	atZero := func(t *testing.T, image string) *scenario {
		s := newScenario(t)
		s.edit(func(spec *v1alpha1.AppServiceSpec) { spec.Replicas = new(int32(0)) })
		s.edited(image).settles("Progressing 2, stable 1: canary Progressing 1/2, world Pending 0/3")
		want := fmt.Sprintf("WaitingForClusters: revision 2, stage canary: 0 of 2 clusters are available, and no pods run with it on 1 cluster: %s: scale the AppService up, or annotate the AppService with fleetwright.dev/promote=2/canary", s.with(2)[0])
		if diff := cmp.Diff(want, s.rolledOut()); diff != "" {
			t.Error(diff)
		}
		return s
	}
	t.Run("a stage in which no pods run waits, and goes on when they do", func(t *testing.T) {
		s := atZero(t, "ok-1")
		s.edit(func(spec *v1alpha1.AppServiceSpec) { spec.Replicas = new(int32(2)) })
		s.settles("Completed 2, stable 2: canary Completed 2/2, world Completed 3/3")
	})
	t.Run("a bad revision reaches one cluster of those without pods", func(t *testing.T) {
		s := atZero(t, "bad").passes(12 * time.Hour)
		s.edit(func(spec *v1alpha1.AppServiceSpec) { spec.Replicas = new(int32(2)) })
		s.passes(deadline - 30*time.Second).is("Progressing 2, stable 1: canary Progressing 1/2, world Pending 0/3")
		s.settles("RolledBack 2, stable 1: canary Progressing 0/2, world Pending 0/3").revisionsAre("11111")
	})
	t.Run("without pods, promoted stages do not make a revision stable", func(t *testing.T) {
		s := atZero(t, "bad").annotated(v1alpha1.AnnotationPromote, "2").settles("Progressing 2, stable 1: canary Completed 2/2, world Completed 3/3")
		want := "WaitingForClusters: revision 2 went through all stages, but no pods run with it on 5 clusters: canary-1, canary-2, world-1, world-2, world-3: scale the AppService up, or change the spec"
		if diff := cmp.Diff(want, s.rolledOut()); diff != "" {
			t.Error(diff)
		}
		s.edit(func(spec *v1alpha1.AppServiceSpec) { spec.Replicas = new(int32(2)) })
		s.settles("RolledBack 2, stable 1: canary Completed 0/2, world Completed 0/3").revisionsAre("11111")
	})
	t.Run("without spec.rollout, an edit without pods goes on, and is not stable until they run", func(t *testing.T) {
		s := newFirstRollout(t)
		s.app.Spec.Rollout = nil
		s.settles(" 1, stable 1: ")
		s.edit(func(spec *v1alpha1.AppServiceSpec) { spec.Replicas = new(int32(0)) })
		s.edited("ok-1").settles(" 2, stable 1: ").revisionsAre("22222")
		s.edit(func(spec *v1alpha1.AppServiceSpec) { spec.Replicas = new(int32(2)) })
		s.settles(" 2, stable 2: ")
	})
	t.Run("a revision that ran nowhere is not stable", func(t *testing.T) { // a bad revision was completed on no clusters
		s := newScenario(t)
		s.edit(func(spec *v1alpha1.AppServiceSpec) {
			spec.Placement = &v1alpha1.Placement{ClusterMatch: v1alpha1.ClusterMatch{ClusterNames: []string{"nowhere"}}}
		})
		s.annotate(v1alpha1.AnnotationAcceptRemovals, "9@3")
		s.edited("bad").passes(time.Hour)
		if state := s.app.Status.Rollout; state.StableRevision != 1 || state.Phase != v1alpha1.RolloutProgressing {
			t.Errorf("the rollout is %s", s.summary())
		}
	})
}

func TestRollout_with_clusters_that_come_and_go(t *testing.T) {
	t.Run("a new cluster starts with the stable revision, and gets its turn", func(t *testing.T) {
		s := newScenario(t, stageWith(1, needsApproval)).edited("ok-1")
		s.join("world-4", "world")
		s.settles("Progressing 2, stable 1: canary Completed 2/2, world AwaitingApproval 0/4").revisionsAre("221111")
	})
	t.Run("a new cluster of a completed stage gets the stable revision, then the target", func(t *testing.T) {
		s := newScenario(t, stageWith(1, needsApproval)).edited("ok-1").settles("Progressing 2, stable 1: canary Completed 2/2, world AwaitingApproval 0/3")
		s.join("canary-3", "canary")
		s.plan()
		s.is("Progressing 2, stable 1: canary Completed 2/3, world AwaitingApproval 0/3")
		s.settles("Progressing 2, stable 1: canary Completed 3/3, world AwaitingApproval 0/3")
	})
	t.Run("a new cluster of a stage that soaks gets the stable revision, then the target", func(t *testing.T) {
		s := newScenario(t, stageWith(0, soaksFor(3600))).edited("ok-1").passes(5 * time.Minute)
		s.join("canary-3", "canary")
		s.plan()
		s.is("Progressing 2, stable 1: canary Soaking 2/3, world Pending 0/3")
		s.passes(5 * time.Minute).is("Progressing 2, stable 1: canary Soaking 3/3, world Pending 0/3")
	})
	t.Run("new clusters that run no pods hold up nothing", func(t *testing.T) {
		s := newFlatScenario(t, 8, func(r *v1alpha1.Rollout) { r.MaxUnavailable = new(intstr.FromInt32(1)) }).edited("ok-1")
		for i := range 3 {
			s.join(fmt.Sprintf("x-%d", i), "flat").sick = true
			s.passes(10 * time.Minute)
		}
		for _, entry := range s.app.Status.Clusters {
			if entry.Name[0] == 'c' && entry.Revision != 2 {
				t.Errorf("%s has revision %d: %s", entry.Name, entry.Revision, s.summary())
			}
		}
	})
	t.Run("a new cluster that runs no pods is no evidence", func(t *testing.T) {
		for name, stage := range map[string]func(*v1alpha1.Rollout){"soaking": stageWith(0, soaksFor(7200)), "completed": stageWith(1, needsApproval)} {
			s := newScenario(t, stage).edited("ok-1").passes(10 * time.Minute)
			s.join("canary-3", "canary").sick = true
			s.passes(3 * time.Hour)
			if state := s.app.Status.Rollout; state.FailedRevision != 0 {
				t.Errorf("%s: the rollout is %s", name, s.summary())
			}
		}
	})
	t.Run("a new cluster does not get a revision that failed", func(t *testing.T) { // new clusters are assigned last
		s := newScenario(t, func(r *v1alpha1.Rollout) { r.OnFailure = v1alpha1.RolloutPause }).edited("ok-1").passes(5 * time.Minute)
		for _, m := range s.members {
			m.refuses = true
		}
		s.settles("Halted 2, stable 1: canary Completed 2/2, world Progressing 3/3")
		s.join("canary-3", "canary")
		s.plan()
		if got := s.app.Status.Cluster("canary-3").Revision; got != 1 {
			t.Errorf("the new cluster got revision %d", got)
		}
	})
	t.Run("in the first rollout, a new cluster waits for its turn", func(t *testing.T) {
		s := newFirstRollout(t, stageWith(1, needsApproval))
		s.settles("Progressing 1, stable 0: canary Completed 2/2, world AwaitingApproval 0/3").revisionsAre("11000")
	})
	t.Run("a cluster that joins a skipped stage needs its approval", func(t *testing.T) {
		s := newScenario(t, stageWith(0, needsApproval))
		s.members["canary-1"].member.Labels["stage"], s.members["canary-2"].member.Labels["stage"] = "world", "world"
		s.edited("ok-1").is("Progressing 2, stable 1: canary Skipped 0/0, world Progressing 1/5")
		s.join("canary-3", "canary")
		s.settles("Progressing 2, stable 1: canary AwaitingApproval 0/1, world Pending 1/5")
		s.annotated(v1alpha1.AnnotationApprove, "2/canary").settles("Completed 2, stable 2: canary Completed 1/1, world Completed 5/5")
	})
	t.Run("an approval that is pending does not hold a removal elsewhere", func(t *testing.T) {
		s := newFirstRollout(t, stageWith(1, needsApproval))
		s.settles("Progressing 1, stable 0: canary Completed 2/2, world AwaitingApproval 0/3")
		s.edit(func(spec *v1alpha1.AppServiceSpec) {
			spec.Placement = &v1alpha1.Placement{ClusterMatch: v1alpha1.ClusterMatch{ClusterNames: []string{"canary-2", "world-1", "world-2", "world-3"}}}
		})
		s.settles("Progressing 1, stable 0: canary Completed 1/1, world AwaitingApproval 0/3").revisionsAre("1000")
	})
	t.Run("a cluster that leaves keeps its revision", func(t *testing.T) {
		s := newScenario(t)
		s.edit(func(spec *v1alpha1.AppServiceSpec) {
			spec.Placement = &v1alpha1.Placement{ClusterMatch: v1alpha1.ClusterMatch{ClusterNames: []string{"canary-1"}}}
			spec.Image = "ok-1"
		})
		s.passes(40 * time.Second).revisionsAre("2111") // one is removed at a time
	})
	t.Run("removals wait while the only cluster that stays is updated", func(t *testing.T) {
		s := newScenario(t)
		s.edit(func(spec *v1alpha1.AppServiceSpec) {
			spec.Placement = &v1alpha1.Placement{ClusterMatch: v1alpha1.ClusterMatch{ClusterNames: []string{"world-1"}}}
			spec.Image = "bad"
		})
		for range 100 {
			if s.passes(10 * time.Second); s.app.Status.Cluster("world-1").Phase != v1alpha1.ClusterReady && len(s.runningReady()) < 4 {
				t.Fatalf("world-1 is not Ready, and these clusters are: %v\n%s", s.runningReady(), toText(s.app.Status))
			}
		}
		s.is("RolledBack 2, stable 1: canary Skipped 0/0, world Progressing 0/1").revisionsAre("1")
	})
	t.Run("nothing changes while the AppService is suspended", func(t *testing.T) {
		s := newScenario(t)
		s.edit(func(spec *v1alpha1.AppServiceSpec) { spec.Image, spec.Suspend = "ok-1", true })
		s.settles("Progressing 2, stable 1: canary Pending 0/2, world Pending 0/3").revisionsAre("11111")
		s.edit(func(spec *v1alpha1.AppServiceSpec) { spec.Suspend = false })
		s.settles("Completed 2, stable 2: canary Completed 2/2, world Completed 3/3")
	})
	t.Run("nothing changes without a plan", func(t *testing.T) {
		s := newScenario(t).edited("ok-1").passes(30 * time.Second)
		in := s.input()
		in.Plan, in.PlanError = nil, errors.New("no plan")
		before := s.revisions()
		s.planFor(in)
		if !s.app.Status.Rollout.Paused || s.revisions() != before {
			t.Errorf("the decision is\n%s", toText(s.app.Status))
		}
		s.settles("Completed 2, stable 2: canary Completed 2/2, world Completed 3/3")
	})
	t.Run("an invalid selector keeps all revisions, and new clusters wait", func(t *testing.T) {
		s := newScenario(t)
		s.edit(func(spec *v1alpha1.AppServiceSpec) {
			spec.Image, spec.Rollout = "ok-1", spec.Rollout.DeepCopy()
			spec.Rollout.Stages[1].ClusterSelector = &v1alpha1.ClusterSelector{MatchLabels: map[string]string{"not a label": ""}}
		})
		s.join("world-4", "world")
		s.settles("Progressing 2, stable 1: ").revisionsAre("111110")
		if err := s.decision.StageError; err == nil || err.Stage != "world" || !strings.Contains(err.Error(), "spec.rollout.stages[name=world].clusterSelector") {
			t.Errorf("the error is %v", err)
		}
		if !s.app.Status.Rollout.Paused {
			t.Error("the rollout is not paused")
		}
	})
}

// only lets spec.placement choose these clusters, and approves the removals.
func (s *scenario) only(names ...string) *scenario {
	s.edit(func(spec *v1alpha1.AppServiceSpec) {
		spec.Placement = nil
		if len(names) > 0 {
			spec.Placement = &v1alpha1.Placement{ClusterMatch: v1alpha1.ClusterMatch{ClusterNames: names}}
		}
	})
	s.annotate(v1alpha1.AnnotationAcceptRemovals, fmt.Sprintf("9@%d", s.app.Generation))
	return s
}

// A stage that is skipped because of an edit of spec.placement has not been approved.
func TestRollout_of_a_skipped_stage_that_gets_clusters(t *testing.T) {
	skipped := func(t *testing.T) *scenario {
		s := newScenario(t, stageWith(1, needsApproval), stageWith(1, soaksFor(60))).only("canary-1", "canary-2")
		s.edited("ok-1").settles("Completed 2, stable 2: canary Completed 2/2, world Skipped 0/0")
		return s.only()
	}
	const waits = "Completed 2, stable 2: canary Completed 2/2, world AwaitingApproval 0/3"
	t.Run("needs its approval after the rollout is completed", func(t *testing.T) {
		s := skipped(t).settles(waits).revisionsAre("22000")
		s.annotated(v1alpha1.AnnotationApprove, "2/world").is("Completed 2, stable 2: canary Completed 2/2, world Progressing 1/3").sawTransitions(stages.StageStarted)
		s.passes(170 * time.Second).is("Completed 2, stable 2: canary Completed 2/2, world Progressing 3/3")
		s.passes(60 * time.Second).is("Completed 2, stable 2: canary Completed 2/2, world Soaking 3/3")
		s.settles("Completed 2, stable 2: canary Completed 2/2, world Completed 3/3").revisionsAre("22222")
		s.join("world-4", "world")
		s.settles("Completed 2, stable 2: canary Completed 2/2, world Completed 4/4").revisionsAre("222222")
	})
	t.Run("also if its clusters have not left yet", func(t *testing.T) {
		s := newScenario(t, stageWith(1, needsApproval)).only("canary-1", "canary-2").edited("ok-1")
		for s.app.Status.Rollout.Phase != v1alpha1.RolloutCompleted {
			s.annotate(v1alpha1.AnnotationAcceptRemovals, "")
			s.cutOff("world-1").cutOff("world-2").cutOff("world-3").passes(10 * time.Second)
		}
		s.is("Completed 2, stable 2: canary Completed 2/2, world Skipped 0/0").only().passes(0)
		s.reconnect("world-1").reconnect("world-2").reconnect("world-3").settles(waits)
	})
	t.Run("also if the next edit brings them", func(t *testing.T) {
		s := skipped(t).edited("ok-2").settles("Progressing 3, stable 2: canary Completed 2/2, world AwaitingApproval 0/3").revisionsAre("33000")
		s.annotated(v1alpha1.AnnotationAbort, "3").settles("RolledBack 3, stable 2: canary Completed 0/2, world AwaitingApproval 0/3").revisionsAre("22000")
		s.edited("ok-1").settles(waits).revisionsAre("22000")
		s.edited("ok-3").settles("Progressing 4, stable 2: canary Completed 2/2, world AwaitingApproval 0/3")
		s.annotated(v1alpha1.AnnotationApprove, "4/world").settles("Completed 4, stable 4: canary Completed 2/2, world Completed 3/3")
		s.edited("ok-4").settles("Progressing 5, stable 4: canary Completed 2/2, world AwaitingApproval 0/3")
		s.join("world-4", "world")
		s.settles("Progressing 5, stable 4: canary Completed 2/2, world AwaitingApproval 0/4").revisionsAre("554444")
	})
	t.Run("but not if they have the revision", func(t *testing.T) {
		s := skipped(t).only("canary-1", "canary-2")
		s.members["canary-2"].member.Labels["stage"] = "world"
		s.settles("Completed 2, stable 2: canary Completed 1/1, world Skipped 1/1")
		if got := s.rolledOut(); !strings.HasPrefix(got, v1alpha1.ReasonCompleted) {
			t.Errorf("the condition RolledOut is %s", got)
		}
		s.only("canary-1", "canary-2", "world-1").settles("Completed 2, stable 2: canary Completed 1/1, world AwaitingApproval 1/2").revisionsAre("220")
		s.only("canary-1", "canary-2").settles("Completed 2, stable 2: canary Completed 1/1, world Skipped 1/1")
	})
	t.Run("stops there if the revision fails", func(t *testing.T) {
		s := skipped(t).settles(waits)
		for name, m := range s.members {
			m.sick = strings.HasPrefix(name, "world")
		}
		s.annotated(v1alpha1.AnnotationApprove, "2/world").settles("Completed 2, stable 2: canary Completed 2/2, world Progressing 1/3")
		failed := s.with(2)[2]
		want := fmt.Sprintf("WaitingForClusters: revision 2, stage world: 0 of 3 clusters are available, 1 failed, and no other cluster gets it, because it failed on 1 cluster: %s: fix that, or change the spec", failed)
		if diff := cmp.Diff(want, s.rolledOut()); diff != "" {
			t.Error(diff)
		}
		s.annotated(v1alpha1.AnnotationPromote, "2/world").settles("Completed 2, stable 2: canary Completed 2/2, world Progressing 1/3")
		s.members["world-1"].sick, s.members["world-2"].sick, s.members["world-3"].sick = false, false, false
		s.settles("Completed 2, stable 2: canary Completed 2/2, world Completed 3/3")
	})
	t.Run("needs nothing if it needs no approval and its clusters are new", func(t *testing.T) {
		s := newScenario(t).only("canary-1", "canary-2")
		s.edited("ok-1").settles("Completed 2, stable 2: canary Completed 2/2, world Skipped 0/0")
		s.only().passes(0).is("Completed 2, stable 2: canary Completed 2/2, world Completed 3/3").revisionsAre("22222")
	})
	t.Run("waits while the rollout is paused", func(t *testing.T) {
		s := skipped(t).annotated(v1alpha1.AnnotationPause, "2").settles("Completed 2, stable 2: canary Completed 2/2, world Skipped 0/3").revisionsAre("22000")
		s.annotated(v1alpha1.AnnotationPause, "").settles(waits)
	})
}

func TestRollout_with_a_limit(t *testing.T) {
	limited := func(r *v1alpha1.Rollout) {
		r.Stages = []v1alpha1.RolloutStage{{Name: "few", Limit: new(intstr.FromString("30%")), SpreadKey: "stage", SoakSeconds: new(int32(600))}}
	}
	s := newFirstRollout(t, limited)
	s.settles("Completed 1, stable 1: few Completed 2/2, (rest) Completed 3/3")
	s.edited("ok-1").passes(5 * time.Minute).is("Progressing 2, stable 1: few Soaking 2/2, (rest) Pending 0/3")
	if got := s.revisions(); strings.Count(got[:2], "2") != 1 {
		t.Errorf("the stage is not spread over canary and world: %s", got)
	}
	before := s.revisions()
	for i := range 5 { // clusters that come before the others do not take their places
		s.join(fmt.Sprintf("a-%d", i), "canary")
		s.members[fmt.Sprintf("a-%d", i)].member.Spec.Taints = nil
	}
	s.passes(0)
	if got := s.revisions(); got[5:] != before {
		t.Errorf("revisions were %s and are %s", before, got)
	}
}

// A dead cluster, or one without replicas, would hold up the stage, or prove nothing.
func TestRollout_with_a_limit_prefers_clusters_that_can_prove_the_revision(t *testing.T) {
	limited := func(r *v1alpha1.Rollout) {
		r.Stages = []v1alpha1.RolloutStage{{Name: "few", Limit: new(intstr.FromInt32(1))}}
	}
	for what, disturb := range map[string]func(*scenario, *stagedMember){
		"unreachable":      func(s *scenario, m *stagedMember) { s.cutOff(m.member.Name) },
		"without replicas": func(_ *scenario, m *stagedMember) { m.member.Labels["size"] = "none" },
	} {
		t.Run(what, func(t *testing.T) {
			s := newFirstRollout(t, limited).settles("Completed 1, stable 1: few Completed 1/1, (rest) Completed 4/4")
			s.edit(func(spec *v1alpha1.AppServiceSpec) { spec.Overrides = withoutReplicas })
			for _, entry := range s.app.Status.Clusters {
				if entry.Stage == "few" {
					disturb(s, s.members[entry.Name])
				}
			}
			s.passes(time.Minute).edited("ok-1").passes(2 * time.Minute).is("Progressing 2, stable 1: few Completed 1/1, (rest) Progressing 1/4")
		})
	}
}

// The approval of a stage that was edited counts for the clusters that it has then.
func TestRollout_with_edited_stages(t *testing.T) {
	t.Run("judges the stages again, and clusters that are done count at once", func(t *testing.T) {
		s := newScenario(t, stageWith(0, soaksFor(600)), stageWith(1, needsApproval)).edited("ok-1").settles("Progressing 2, stable 1: canary Completed 2/2, world AwaitingApproval 0/3")
		s.edit(func(spec *v1alpha1.AppServiceSpec) {
			spec.Rollout = spec.Rollout.DeepCopy()
			spec.Rollout.Stages = append(spec.Rollout.Stages, v1alpha1.RolloutStage{Name: "other"})
		})
		s.passes(20 * time.Second).is("Progressing 2, stable 1: canary Completed 2/2, world AwaitingApproval 0/3, other Pending 0/0")
	})
	t.Run("a stage that needs approval now waits for it", func(t *testing.T) {
		s := newScenario(t).edited("ok-1").is("Progressing 2, stable 1: canary Progressing 1/2, world Pending 0/3")
		s.edit(func(spec *v1alpha1.AppServiceSpec) {
			spec.Rollout = spec.Rollout.DeepCopy()
			needsApproval(&spec.Rollout.Stages[0])
		})
		s.settles("Progressing 2, stable 1: canary AwaitingApproval 1/2, world Pending 0/3")
	})
	t.Run("spec.rollout is removed", func(t *testing.T) {
		s := newScenario(t).edited("ok-1").passes(time.Minute)
		s.edit(func(spec *v1alpha1.AppServiceSpec) { spec.Rollout = nil })
		s.settles(" 2, stable 2: ").revisionsAre("22222")
		for _, entry := range s.app.Status.Clusters {
			if entry.UnavailableSince != nil {
				t.Errorf("%s is unavailable since %v", entry.Name, entry.UnavailableSince)
			}
		}
	})
}

// A decision to continue needs an observation by this process; so does a failure.
func TestRollout_after_a_restart(t *testing.T) {
	t.Run("waits for observations", func(t *testing.T) {
		s := newScenario(t).edited("ok-1").passes(60 * time.Second)
		clear(s.seen)
		s.advance(time.Hour)
		s.plan()
		s.is("Progressing 2, stable 1: canary Progressing 1/2, world Pending 0/3")
	})
	t.Run("does not update a cluster that nobody has observed", func(t *testing.T) {
		s := newScenario(t, stageWith(0, needsApproval)).edited("ok-1").settles("Progressing 2, stable 1: canary AwaitingApproval 0/2, world Pending 0/3")
		clear(s.seen)
		s.annotated(v1alpha1.AnnotationApprove, "2/canary").is("Progressing 2, stable 1: canary Progressing 0/2, world Pending 0/3")
		s.passes(0).is("Progressing 2, stable 1: canary Progressing 1/2, world Pending 0/3")
	})
	t.Run("does not fail a revision that was never delivered", func(t *testing.T) {
		s := newScenario(t).edited("ok-1")
		clear(s.seen)
		s.advance(time.Hour) // nobody has delivered the revision
		since := s.now
		for range 20 {
			s.deliverAll()
			in := s.input()
			in.ObservedSince = since
			s.planFor(in)
			s.advance(10 * time.Second)
		}
		s.settles("Completed 2, stable 2: canary Completed 2/2, world Completed 3/3")
	})
}

// A clock that is set back delays a rollout, and does not stop it.
func TestRollout_after_a_clock_was_set_back(t *testing.T) {
	s := newScenario(t, stageWith(0, soaksFor(300))).edited("ok-1").passes(170 * time.Second)
	s.is("Progressing 2, stable 1: canary Soaking 2/2, world Pending 0/3").advance(-30 * 24 * time.Hour)
	s.passes(290 * time.Second).is("Progressing 2, stable 1: canary Soaking 2/2, world Pending 0/3")
	s.passes(20 * time.Second).is("Progressing 2, stable 1: canary Completed 2/2, world Progressing 1/3")
}

// When the clock was set back, the phase of a cluster begins again. It does not begin once more when
// the clock reaches the time of the transition.
func TestRollout_begins_phases_again_after_a_clock_was_set_back(t *testing.T) {
	alone := func(t *testing.T, changes ...func(*v1alpha1.Rollout)) (*scenario, *stagedMember) {
		s := newFirstRollout(t, changes...)
		maps.DeleteFunc(s.members, func(name string, _ *stagedMember) bool { return name != "canary-1" })
		return s, s.members["canary-1"]
	}
	type counts struct{ Available, Failed int32 }
	for name, c := range map[string]struct {
		before func(t *testing.T) *scenario
		lasts  time.Duration // the phase
		during counts        // in the stage canary
		after  counts
	}{
		"Ready for less than minReadySeconds": {func(t *testing.T) *scenario {
			s, m := alone(t, stageWith(0, func(s *v1alpha1.RolloutStage) { s.MinReadySeconds = new(int32(120)) }))
			m.startup = 5 * time.Minute
			return s.passes(310 * time.Second)
		}, 2 * time.Minute, counts{0, 0}, counts{1, 0}},
		"without an answer, past the deadline": {func(t *testing.T) *scenario {
			s, m := alone(t, func(r *v1alpha1.Rollout) { r.ProgressDeadlineSeconds = new(int32(300)) })
			m.refuses = true
			s.passes(10 * time.Minute).is("Halted 1, stable 0: canary Progressing 1/1, world Pending 0/0")
			s.edit(func(spec *v1alpha1.AppServiceSpec) { spec.Suspend = true })
			return s.passes(10 * time.Second)
		}, 3 * time.Minute, counts{0, 0}, counts{0, 1}},
		"without an answer, after the rollout": {func(t *testing.T) *scenario {
			s, m := alone(t)
			s.settles("Completed 1, stable 1: canary Completed 1/1, world Skipped 0/0")
			m.errs = true
			s.edit(func(spec *v1alpha1.AppServiceSpec) { spec.Replicas = new(int32(3)) })
			return s.passes(10 * time.Second)
		}, 3 * time.Minute, counts{0, 0}, counts{0, 0}},
	} {
		t.Run(name, func(t *testing.T) {
			s := c.before(t)
			check := func(when string, want counts) {
				t.Helper()
				stage := s.app.Status.Rollout.Stages[0]
				if diff := cmp.Diff(want, counts{stage.Available, stage.Failed}); diff != "" {
					t.Errorf("%s (-want +got):\n%s\n%s", when, diff, toText(s.app.Status))
				}
			}
			s.advance(-182 * time.Second)
			s.plan()
			check("after the clock was set back", c.during)
			if s.decision.RecheckAfter != c.lasts {
				t.Errorf("it is planned again after %v, want %v", s.decision.RecheckAfter, c.lasts)
			}
			s.advance(c.lasts - time.Second)
			s.plan()
			check("before the phase has lasted long enough", c.during)
			s.advance(time.Second)
			s.plan()
			check("after that", c.after)
		})
	}
}

func TestPlan_transition_time_after_a_clock_was_set_back(t *testing.T) {
	soon, later := metav1.NewTime(Now.Add(time.Minute)), metav1.NewTime(Now.Add(2*time.Minute))
	for name, c := range map[string]struct {
		phase       v1alpha1.ClusterPhase
		since, want metav1.Time
	}{
		"a time in the past stays":               {v1alpha1.ClusterReady, AnHourAgo, AnHourAgo},
		"a time that comes soon stays":           {v1alpha1.ClusterReady, soon, soon},
		"a phase begins now":                     {v1alpha1.ClusterReady, later, Now},
		"an unreachable cluster, too":            {v1alpha1.ClusterUnknown, later, Now},
		"a cluster whose Secret is gone, too":    {v1alpha1.ClusterDetached, later, Now},
		"a removal keeps the time that names it": {v1alpha1.ClusterRemoving, later, later},
	} {
		t.Run(name, func(t *testing.T) {
			in := NewInput(Chosen("east"), WithEntries(Entry("east", c.phase, Since(c.since))))
			switch c.phase {
			case v1alpha1.ClusterUnknown:
				Unreachable("east")(&in)
			case v1alpha1.ClusterDetached:
				delete(in.Members, "east")
			case v1alpha1.ClusterRemoving:
				NotChosen("east")(&in)
			}
			got := rollout.Plan(in).Entries[0]
			if got.Phase != c.phase || !got.LastTransitionTime.Equal(&c.want) {
				t.Errorf("the entry is %s since %v, want %s since %v", got.Phase, got.LastTransitionTime, c.phase, c.want)
			}
		})
	}
}

// The entry of a cluster that gets another revision begins its phase again.
func TestRollout_sets_the_transition_time(t *testing.T) {
	s := newScenario(t).edited("bad").passes(5 * time.Minute)
	var name string
	for _, entry := range s.app.Status.Clusters {
		if entry.Revision == 2 {
			name = entry.Name
		}
	}
	s.edited("bad-2")
	entry := s.app.Status.Cluster(name)
	if entry.Revision != 3 || entry.Phase != v1alpha1.ClusterProgressing || !entry.LastTransitionTime.Equal(&s.now) {
		t.Errorf("the entry is %+v", entry)
	}
}

func TestPlan_transition_after_a_clock_was_set_back_is_not_changed_again(t *testing.T) {
	for _, ahead := range []time.Duration{0, 59 * time.Second, time.Minute, 61 * time.Second} {
		since := metav1.NewTime(Now.Add(ahead))
		in := Next(NewInput(Chosen("east"), Unreachable("east"), WithEntries(Entry("east", v1alpha1.ClusterReady, Since(since)))))
		first := in.App.Status.Clusters[0].LastTransitionTime
		if again := rollout.Plan(in).Entries[0].LastTransitionTime; first.Equal(&since) || !again.Equal(&first) {
			t.Errorf("%v ahead: the time is %v, and then %v", ahead, first, again)
		}
	}
}

// Each request counts exactly if it was set when the status showed what it names, and is still set
// when the stage begins. This is what the messages and docs/rollouts.md say.
func TestRollout_counts_an_approval_of_what_the_status_shows(t *testing.T) {
	const approve, promote, retry = v1alpha1.AnnotationApprove, v1alpha1.AnnotationPromote, v1alpha1.AnnotationRetry
	const waits = "Progressing 2, stable 1: canary AwaitingApproval 0/2, world Pending 0/3"
	tooEarly := func(s *scenario, key, value string) {
		t.Helper()
		if diff := cmp.Diff([]stages.RequestError{{Annotation: key, Value: value, Problem: stages.RequestTooEarly}}, s.decision.RequestErrors); diff != "" {
			t.Errorf("errors (-want +got):\n%s", diff)
		}
	}
	early := func(t *testing.T, key, value string) *scenario {
		s := newScenario(t, stageWith(0, needsApproval)).annotated(key, value)
		if errs := s.decision.RequestErrors; len(errs) != 1 || errs[0].Problem != stages.RequestOfNewerRevision {
			t.Errorf("errors: %v", errs)
		}
		return s.edited("ok-1").settles(waits)
	}
	t.Run("not of a later revision, until it is set again", func(t *testing.T) {
		for key, value := range map[string]string{approve: "2/canary", promote: "2/canary"} {
			s := early(t, key, value)
			tooEarly(s, key, value)
			s.annotated(key, value+",2/world").settles(waits)
			s.annotated(key, "").settles(waits).annotated(key, value)
			if got := s.app.Status.Rollout.Stages[0].Phase; got != v1alpha1.StageProgressing {
				t.Errorf("after %s was set again, the stage is %s", key, got)
			}
		}
	})
	t.Run("not of all stages of a later revision", func(t *testing.T) {
		s := early(t, promote, "2")
		tooEarly(s, promote, "2")
		s.annotated(promote, "").annotated(promote, "2").settles("Completed 2, stable 2: canary Completed 2/2, world Completed 3/3")
	})
	t.Run("not of a revision that comes in the same edit", func(t *testing.T) {
		s := newScenario(t, stageWith(0, needsApproval))
		s.annotate(approve, "2/canary")
		tooEarly(s.edited("ok-1").settles(waits), approve, "2/canary")
	})
	t.Run("not of a stage that comes later", func(t *testing.T) {
		s := newScenario(t, stageWith(0, soaksFor(3600))).edited("ok-1").annotated(approve, "2/two")
		if errs := s.decision.RequestErrors; len(errs) != 1 || errs[0].Problem != stages.RequestOfUnknownStage {
			t.Errorf("errors: %v", errs)
		}
		s.edit(func(spec *v1alpha1.AppServiceSpec) {
			spec.Rollout = spec.Rollout.DeepCopy()
			spec.Rollout.Stages[1].Name = "two"
			needsApproval(&spec.Rollout.Stages[1])
		})
		const asks = "Progressing 2, stable 1: canary Completed 2/2, two AwaitingApproval 0/3"
		tooEarly(s.settles(asks), approve, "2/two")
		s.annotated(approve, "").annotated(approve, "02/two").settles(asks)
		s.annotated(approve, "2/two").settles("Completed 2, stable 2: canary Completed 2/2, two Completed 3/3")
	})
	t.Run("silently if the spec returns to the revision that it has brought to all clusters", func(t *testing.T) {
		for _, key := range []string{approve, promote} {
			s := newScenario(t, stageWith(0, needsApproval)).edited("ok-1").annotated(key, "2/canary")
			s.settles("Completed 2, stable 2: canary Completed 2/2, world Completed 3/3")
			s.edited("ok-2").settles("Progressing 3, stable 2: canary AwaitingApproval 0/2, world Pending 0/3")
			s.edited("ok-1").settles("Completed 2, stable 2: canary Completed 2/2, world Completed 3/3")
			if errs := s.decision.RequestErrors; errs != nil {
				t.Errorf("%s: errors: %v", key, errs)
			}
		}
	})
	t.Run("not if it is withdrawn before its stage begins", func(t *testing.T) {
		for _, key := range []string{approve, promote} {
			s := newScenario(t, stageWith(0, soaksFor(3600)), stageWith(1, needsApproval)).edited("ok-1").passes(5 * time.Minute)
			s.annotated(key, "2/world").passes(time.Minute).is("Progressing 2, stable 1: canary Soaking 2/2, world Pending 0/3")
			s.annotated(key, "").settles("Progressing 2, stable 1: canary Completed 2/2, world AwaitingApproval 0/3")
		}
	})
	t.Run("in advance, and after its stage has begun although it is removed", func(t *testing.T) {
		s := newScenario(t, stageWith(0, soaksFor(3600)), stageWith(1, needsApproval)).edited("ok-1").annotated(approve, "2/world")
		s.passes(66 * time.Minute).is("Progressing 2, stable 1: canary Completed 2/2, world Progressing 3/3")
		s.annotated(approve, "").settles("Completed 2, stable 2: canary Completed 2/2, world Completed 3/3")
	})
	t.Run("not of a retry of a later revision", func(t *testing.T) {
		s := newScenario(t).annotated(retry, "2").edited("bad").settles("RolledBack 2, stable 1: canary Progressing 0/2, world Pending 0/3")
		tooEarly(s, retry, "2")
		s.annotated(retry, "").annotated(retry, "2").is("Progressing 3, stable 1: canary Progressing 1/2, world Pending 0/3")
	})
	t.Run("not of a retry before the failure", func(t *testing.T) {
		s := newScenario(t).edited("bad").annotated(retry, "2").settles("RolledBack 2, stable 1: canary Progressing 0/2, world Pending 0/3")
		tooEarly(s, retry, "2")
		s.annotated(retry, "").annotated(retry, "2").is("Progressing 3, stable 1: canary Progressing 1/2, world Pending 0/3")
	})
	t.Run("not if the stages are edited with it or after it", func(t *testing.T) {
		widen := func(s *scenario) {
			s.edit(func(spec *v1alpha1.AppServiceSpec) {
				spec.Rollout = spec.Rollout.DeepCopy()
				spec.Rollout.Stages[1].ClusterMatch = v1alpha1.ClusterMatch{}
			})
		}
		const asks = "Progressing 2, stable 1: canary Completed 2/2, world AwaitingApproval 0/3"
		for _, key := range []string{approve, promote} {
			s := newScenario(t, stageWith(0, soaksFor(3600)), stageWith(1, needsApproval)).edited("ok-1").annotated(key, "2/world")
			widen(s)
			tooEarly(s.settles(asks), key, "2/world")
			s.annotated(key, "").annotated(key, "2/world").settles("Completed 2, stable 2: canary Completed 2/2, world Completed 3/3")

			s = newScenario(t, stageWith(1, needsApproval)).edited("ok-1").settles(asks)
			s.annotate(key, "2/world")
			widen(s)
			tooEarly(s.settles(asks), key, "2/world")
		}
	})
	t.Run("of stages that were edited during a pause", func(t *testing.T) {
		pauses := func(s *scenario, paused bool, name string) {
			s.edit(func(spec *v1alpha1.AppServiceSpec) {
				spec.Rollout = spec.Rollout.DeepCopy()
				spec.Rollout.Paused, spec.Rollout.Stages[1].Name = paused, name
			})
			s.passes(time.Minute)
		}
		soaking := func() *scenario {
			s := newScenario(t, stageWith(0, soaksFor(600)), stageWith(1, needsApproval)).edited("ok-1").passes(5 * time.Minute)
			pauses(s, true, "world")
			return s
		}
		s := soaking()
		pauses(s, true, "eu")
		s.annotated(approve, "2/eu")
		pauses(s, false, "eu")
		s.settles("Completed 2, stable 2: canary Completed 2/2, eu Completed 3/3")

		s = soaking()
		s.annotate(approve, "2/eu")
		pauses(s, true, "eu") // the approval is from before the edit
		pauses(s, false, "eu")
		tooEarly(s.settles("Progressing 2, stable 1: canary Completed 2/2, eu AwaitingApproval 0/3"), approve, "2/eu")
	})
	t.Run("but a stop counts whenever it was set", func(t *testing.T) {
		s := newScenario(t).annotated(v1alpha1.AnnotationPause, "2").edited("ok-1").settles("Progressing 2, stable 1: canary Pending 0/2, world Pending 0/3")
		if errs := s.decision.RequestErrors; len(errs) > 0 {
			t.Errorf("errors: %v", errs)
		}
	})
}

func TestRequests(t *testing.T) {
	bad := func(key, value string, problem stages.RequestProblem) stages.RequestError {
		return stages.RequestError{Annotation: key, Value: value, Problem: problem}
	}
	const approve, promote, pause, abort = v1alpha1.AnnotationApprove, v1alpha1.AnnotationPromote, v1alpha1.AnnotationPause, v1alpha1.AnnotationAbort
	for name, c := range map[string]struct {
		key, value string
		want       []stages.RequestError
	}{
		"a stage":                     {approve, "7/canary", nil},
		"several stages":              {approve, "7/canary, 7/world", nil},
		"the last stage":              {promote, "7/(rest)", nil},
		"all stages":                  {promote, "7", nil},
		"an older revision":           {approve, "6/canary,5/gone", nil},
		"a newer revision":            {approve, "8/canary", []stages.RequestError{bad(approve, "8/canary", stages.RequestOfNewerRevision)}},
		"a stage that does not exist": {approve, "7/canary,7/moon", []stages.RequestError{bad(approve, "7/moon", stages.RequestOfUnknownStage)}},
		"an approval of all stages":   {approve, "7", []stages.RequestError{bad(approve, "7", stages.RequestMalformed)}},
		"no number":                   {pause, "yes", []stages.RequestError{bad(pause, "yes", stages.RequestMalformed)}},
		"another spelling":            {approve, "07/canary,+7/canary", []stages.RequestError{bad(approve, "07/canary", stages.RequestMalformed), bad(approve, "+7/canary", stages.RequestMalformed)}},
		"a number that is too large":  {pause, "99999999999999999999", []stages.RequestError{bad(pause, "99999999999999999999", stages.RequestMalformed)}},
		"a negative number":           {pause, "-7", []stages.RequestError{bad(pause, "-7", stages.RequestMalformed)}},
		"no stage after the slash":    {approve, "7/", []stages.RequestError{bad(approve, "7/", stages.RequestMalformed)}},
		"an abort of a stage":         {abort, "7/canary", []stages.RequestError{bad(abort, "7/canary", stages.RequestMalformed)}},
		"nothing":                     {pause, "", nil},
		"only commas":                 {approve, ",,", nil},
	} {
		t.Run(name, func(t *testing.T) {
			s := newFirstRollout(t)
			in := s.input()
			in.Revision = 7
			s.planFor(in)
			s.annotate(c.key, c.value)
			in = s.input()
			in.Revision = 7
			if diff := cmp.Diff(c.want, rollout.Plan(in).RequestErrors); diff != "" {
				t.Errorf("errors (-want +got):\n%s", diff)
			}
		})
	}
	t.Run("an abort of the stable revision", func(t *testing.T) {
		want := []stages.RequestError{bad(abort, "1", stages.RequestOfStableRevision)}
		for name, s := range map[string]*scenario{
			"Completed": newScenario(t).annotated(abort, "1"),
			"returns":   newScenario(t).edited("ok-1").passes(2*time.Minute).edited("ok-0").annotated(abort, "1"),
		} {
			if diff := cmp.Diff(want, s.decision.RequestErrors); diff != "" {
				t.Errorf("%s: errors (-want +got):\n%s", name, diff)
			}
		}
	})
	t.Run("a retry among other values", func(t *testing.T) {
		s := newScenario(t).edited("ok-1").annotated(abort, "2").settles("RolledBack 2, stable 1: canary Progressing 0/2, world Pending 0/3")
		s.annotated(v1alpha1.AnnotationRetry, "1, 2,").is("Progressing 3, stable 1: canary Progressing 1/2, world Pending 0/3")
	})
	t.Run("a revision that was canceled", func(t *testing.T) {
		s := newScenario(t).edited("ok-1").annotated(abort, "2").edited("ok-0")
		if errs := s.settles("Completed 1, stable 1: canary Completed 2/2, world Completed 3/3").decision.RequestErrors; len(errs) > 0 {
			t.Errorf("errors: %v", errs)
		}
	})
	t.Run("a megabyte of garbage", func(t *testing.T) {
		for _, garbage := range []string{strings.Repeat("7/é", 1<<18), strings.Repeat("x,", 1<<19), strings.Repeat(",", 1<<20), strings.Repeat("\xff", 1<<20)} {
			s := newFirstRollout(t)
			for _, key := range []string{approve, promote, pause, abort, v1alpha1.AnnotationRetry} {
				s.annotate(key, garbage)
			}
			size := 0
			for _, problem := range s.plan().RequestErrors {
				size += len(problem.Annotation) + len(problem.Value)
			}
			if size == 0 || size > 4096 {
				t.Errorf("the errors of %.8q have %d bytes", garbage, size)
			}
		}
	})
}

// A new cluster cannot get a target whose snapshot is missing. It does not hold up the stage that its
// other clusters complete in the same decision.
func TestRollout_of_a_missing_revision_decides_the_same_twice(t *testing.T) {
	s := newScenario(t)
	s.content = "ok"
	s.passes(110 * time.Second).is("Progressing 2, stable 1: canary Progressing 2/2, world Pending 0/3")
	s.lost["ok"] = true
	s.join("canary-3", "canary")
	s.advance(5 * time.Minute)
	s.deliverAll()
	for range 2 {
		s.plan()
		s.is("Progressing 2, stable 1: canary Completed 2/3, world Progressing 0/3")
	}
}

// In a completed rollout that is paused, a new cluster gets the stable revision. Its stage, which was
// Skipped, needs nothing more then.
func TestRollout_that_is_paused_decides_the_same_twice_about_a_new_cluster(t *testing.T) {
	s := newFirstRollout(t)
	for _, name := range []string{"world-1", "world-2", "world-3"} {
		delete(s.members, name)
	}
	s.settles("Completed 1, stable 1: canary Completed 2/2, world Skipped 0/0")
	s.annotate(v1alpha1.AnnotationPause, "1")
	s.join("world-1", "world")
	for range 2 {
		s.plan()
		s.is("Completed 1, stable 1: canary Completed 2/2, world Completed 1/1").revisionsAre("111")
	}
}

func TestRollout_with_configuration(t *testing.T) {
	waiting := func(t *testing.T) *scenario {
		s := newFirstRollout(t)
		s.waits = true
		s.passes(time.Minute)
		if got := s.app.Status.Rollout.Revision; got != 0 {
			t.Fatalf("the revision is %d, and the spec waits for a source", got)
		}
		return s.revisionsAre("00000")
	}
	t.Run("the first rollout waits for a source, and then goes through the stages", func(t *testing.T) {
		s := waiting(t)
		s.waits = false
		s.passes(0).revisionsAre("01000").is("Progressing 1, stable 0: canary Progressing 1/2, world Pending 0/3")
		s.settles("Completed 1, stable 1: canary Completed 2/2, world Completed 3/3")
	})
	t.Run("another content goes through the stages without a new generation", func(t *testing.T) {
		s := newScenario(t)
		generation := s.app.Generation
		s.content = "ok"
		s.passes(0).revisionsAre("12111")
		s.settles("Completed 2, stable 2: canary Completed 2/2, world Completed 3/3")
		s.content = "bad"
		s.settles("RolledBack 3, stable 2: canary Progressing 0/2, world Pending 0/3").revisionsAre("22222")
		s.content = "ok" // the source has the stable content again
		s.settles("Completed 2, stable 2: canary Completed 2/2, world Completed 3/3")
		if s.app.Generation != generation {
			t.Error("the generation has moved")
		}
	})
	t.Run("an edit that waits for a source changes nothing, and a new cluster gets the stable revision", func(t *testing.T) {
		s := newScenario(t)
		s.waits = true
		s.edited("ok-1")
		s.join("world-4", "world")
		s.passes(time.Minute).revisionsAre("111111").is("Completed 1, stable 1: canary Completed 2/2, world Completed 4/4")
		s.waits = false
		s.settles("Completed 2, stable 2: canary Completed 2/2, world Completed 4/4").revisionsAre("222222")
	})
	t.Run("no cluster gets a revision whose snapshot is lost", func(t *testing.T) {
		s := newScenario(t)
		s.content = "ok"
		s.passes(0).revisionsAre("12111")
		s.lost["ok"] = true
		s.passes(time.Hour).revisionsAre("12111")
		s.lost["ok"] = false
		s.settles("Completed 2, stable 2: canary Completed 2/2, world Completed 3/3")
	})
	t.Run("nothing returns to a stable revision whose snapshot is lost", func(t *testing.T) {
		s := newScenario(t)
		s.lost[""] = true
		s.content = "bad"
		s.settles("Halted 2, stable 1: canary Progressing 1/2, world Pending 0/3").revisionsAre("12111")
	})
}

// Without spec.rollout, all clusters get the target at once, and the status has only the numbers.
func TestRollout_at_once(t *testing.T) {
	at := func(t *testing.T) *scenario {
		s := newFirstRollout(t)
		s.app.Spec.Rollout = nil
		return s
	}
	t.Run("makes a revision stable when all clusters are Ready with it, in the write that says so", func(t *testing.T) {
		s := at(t).settles(" 1, stable 1: ")
		s.edited("ok-1").revisionsAre("22222").is(" 2, stable 1: ")
		s.settles(" 2, stable 2: ")
		if diff := cmp.Diff(v1alpha1.RolloutStatus{Revision: 2, StableRevision: 2, PreviousRevision: 1}, s.app.Status.Rollout); diff != "" {
			t.Error(diff)
		}
		if s.decision.RecheckAfter != 0 {
			t.Errorf("it is planned again after %v", s.decision.RecheckAfter)
		}
	})
	t.Run("a cluster that cannot be observed does not count", func(t *testing.T) {
		s := at(t).cutOff("world-1").passes(0)
		s.settles(" 1, stable 1: ")
	})
	t.Run("a revision of which a cluster is not Ready is not stable", func(t *testing.T) {
		s := at(t)
		s.members["world-1"].sick = true
		s.settles(" 1, stable 0: ")
	})
	t.Run("spec.rollout that is added later starts nothing", func(t *testing.T) {
		s := at(t).settles(" 1, stable 1: ")
		s.edit(func(spec *v1alpha1.AppServiceSpec) { spec.Rollout = newFirstRollout(t).app.Spec.Rollout })
		s.settles("Completed 1, stable 1: canary Completed 2/2, world Completed 3/3").revisionsAre("11111")
	})
	t.Run("spec.rollout that is added with another template keeps the revision of most clusters", func(t *testing.T) {
		s := at(t)
		s.members["world-1"].sick = true
		s.settles(" 1, stable 0: ")
		s.edit(func(spec *v1alpha1.AppServiceSpec) {
			spec.Rollout, spec.Image = newFirstRollout(t).app.Spec.Rollout, "bad"
		})
		s.settles("RolledBack 2, stable 1: canary Progressing 0/2, world Pending 0/3").revisionsAre("11111")
	})
	t.Run("spec.rollout that is added to fix a revision that half of the clusters cannot run keeps the one before it", func(t *testing.T) {
		s := at(t).settles(" 1, stable 1: ").edited("ok-1")
		s.members["canary-2"].sick, s.members["world-2"].sick = true, true
		s.settles(" 2, stable 1: ").revisionsAre("22222")
		s.edit(func(spec *v1alpha1.AppServiceSpec) {
			spec.Rollout, spec.Image = newFirstRollout(t).app.Spec.Rollout, "bad"
		})
		s.settles("RolledBack 3, stable 1: canary Progressing 0/2, world Pending 0/3")
		s.members["canary-2"].sick, s.members["world-2"].sick = false, false
		s.edited("ok-0").settles("Completed 1, stable 1: canary Completed 2/2, world Completed 3/3").revisionsAre("11111")
	})
	t.Run("an edit at once of such a revision keeps the one before it, too", func(t *testing.T) {
		s := at(t).settles(" 1, stable 1: ").edited("ok-1")
		s.members["canary-2"].sick = true
		s.settles(" 2, stable 1: ").edited("ok-2").is(" 3, stable 1: ")
	})
	t.Run("a revision that failed is not adopted, although most clusters are Ready with it", func(t *testing.T) {
		s := newFirstRollout(t).passes(200*time.Second).annotated(v1alpha1.AnnotationAbort, "1")
		s.is("Halted 1, stable 0: canary Completed 2/2, world Progressing 1/3")
		s.edit(func(spec *v1alpha1.AppServiceSpec) { spec.Rollout = nil })
		s.passes(0)
		before := s.app.Status.Clusters
		s.editImage("ok-1")
		s.plan()
		s.app.Status.Clusters = before // the operator was killed before it wrote the slices
		s.edit(func(spec *v1alpha1.AppServiceSpec) { spec.Rollout = newFirstRollout(t).app.Spec.Rollout })
		s.plan()
		if stable := s.app.Status.Rollout.StableRevision; stable != 0 {
			t.Errorf("revision %d is stable", stable)
		}
	})
	t.Run("spec.rollout that is added while a revision starts", func(t *testing.T) {
		s := at(t).settles(" 1, stable 1: ").edited("bad").passes(time.Minute)
		s.edit(func(spec *v1alpha1.AppServiceSpec) { spec.Rollout = newFirstRollout(t).app.Spec.Rollout })
		s.settles("RolledBack 2, stable 1: canary Progressing 0/2, world Pending 0/3").revisionsAre("11111")
	})
	t.Run("spec.rollout that is added when one cluster is not Ready", func(t *testing.T) {
		s := at(t).settles(" 1, stable 1: ").edited("ok-1")
		s.members["world-3"].sick = true
		s.passes(time.Hour)
		s.edit(func(spec *v1alpha1.AppServiceSpec) { // with a mistake at first
			spec.Rollout = newFirstRollout(t).app.Spec.Rollout
			spec.Rollout.Stages[0].ClusterSelector = &v1alpha1.ClusterSelector{MatchLabels: map[string]string{"-": ""}}
		})
		s.passes(time.Minute)
		s.edit(func(spec *v1alpha1.AppServiceSpec) { spec.Rollout = newFirstRollout(t).app.Spec.Rollout })
		s.settles("Completed 2, stable 2: canary Completed 2/2, world Completed 3/3").revisionsAre("22222")
	})
}

// An operator before revisions wrote entries without one.
func TestRollout_after_an_upgrade(t *testing.T) {
	old := func(t *testing.T) *scenario {
		s := newFirstRollout(t)
		s.app.Spec.Rollout = nil
		s.settles(" 1, stable 1: ")
		s.app.Status.Rollout = v1alpha1.RolloutStatus{}
		for i := range s.app.Status.Clusters {
			s.app.Status.Clusters[i].Revision = 0
		}
		clear(s.templates)
		clear(s.seen)
		for _, m := range s.members {
			m.runs = 1 // what revision 1 will be
		}
		return s
	}
	t.Run("without an edit, the entries get the first revision, and it is stable", func(t *testing.T) {
		s := old(t)
		before := toText(s.app.Status)
		s.plan()
		s.is(" 1, stable 1: ").revisionsAre("11111")
		if got := strings.ReplaceAll(strings.ReplaceAll(toText(s.app.Status), "@1 ", "@0 "), "1 stable=1", "0 stable=0"); got != before {
			t.Errorf("the entries changed:\n%s", cmp.Diff(before, got))
		}
		s.settles(" 1, stable 1: ")
	})
	t.Run("spec.rollout that is added later starts nothing", func(t *testing.T) {
		s := old(t).settles(" 1, stable 1: ")
		s.edit(func(spec *v1alpha1.AppServiceSpec) { spec.Rollout = newFirstRollout(t).app.Spec.Rollout })
		s.settles("Completed 1, stable 1: canary Completed 2/2, world Completed 3/3")
	})
	t.Run("an edit while the operator was down reaches all clusters at once", func(t *testing.T) {
		s := old(t)
		for _, m := range s.members {
			m.runs = -1 // a template that is not stored
		}
		s.edited("ok-1").is(" 1, stable 0: ").revisionsAre("11111")
		s.settles(" 1, stable 1: ")
	})
	t.Run("an edit with spec.rollout while the operator was down goes through the stages", func(t *testing.T) {
		s := old(t)
		for _, m := range s.members {
			m.runs = -1
		}
		s.edit(func(spec *v1alpha1.AppServiceSpec) { spec.Rollout = newFirstRollout(t).app.Spec.Rollout })
		s.edited("ok-1").is("Progressing 1, stable 0: canary Progressing 1/2, world Pending 0/3")
		s.settles("Completed 1, stable 1: canary Completed 2/2, world Completed 3/3")
	})
	t.Run("a status with the revision only, as an earlier version wrote it, is not written at rest", func(t *testing.T) {
		s := old(t).settles(" 1, stable 1: ")
		s.app.Status.Rollout = v1alpha1.RolloutStatus{Revision: 1}
		s.settles(" 1, stable 0: ")
		s.edit(func(spec *v1alpha1.AppServiceSpec) { spec.Rollout = newFirstRollout(t).app.Spec.Rollout })
		s.edited("ok-1").is("Progressing 2, stable 1: canary Progressing 1/2, world Pending 0/3")
	})
}

// While the status was lost, the members know which revision they run.
func TestRollout_after_the_status_was_lost(t *testing.T) {
	s := newScenario(t, stageWith(0, needsApproval))
	s.app.Status = v1alpha1.AppServiceStatus{}
	clear(s.seen)
	for name, m := range s.members {
		found := Found
		found.Planned, found.Revision = 2, m.runs
		s.seen[name] = found
	}
	s.editImage("ok-1")
	s.plan()
	s.is("Progressing 2, stable 1: canary AwaitingApproval 0/2, world Pending 0/3").revisionsAre("11111")
}
