package rollout_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/observation"
	"github.com/fleetwright/fleetwright/controllers/rollout"
	. "github.com/fleetwright/fleetwright/controllers/rollout/rollouttest"
	"github.com/fleetwright/fleetwright/controllers/rollout/stages"
	"github.com/fleetwright/fleetwright/controllers/status"
)

const violation = `violates PodSecurity "baseline:v1.36": host namespaces (hostNetwork=true)`

var (
	refused        = stages.Refusal{Violation: violation}
	refusedByLater = stages.Refusal{Violation: violation, IsByLaterPolicy: true}
)

// refusing is a scenario in which pod security refuses revisions on clusters.
type refusing struct {
	*scenario
	refusals stages.Refusals
}

func (s *refusing) input() rollout.Input {
	in := s.scenario.input()
	in.Refusals = stages.Refusals{}
	for number, clusters := range s.refusals {
		for cluster, refusal := range clusters {
			if entry := in.App.Status.Cluster(cluster); entry == nil || entry.Revision != number {
				if in.Refusals[number] == nil {
					in.Refusals[number] = map[string]stages.Refusal{}
				}
				in.Refusals[number][cluster] = refusal
			}
		}
	}
	return in
}

// settles lets time pass until nothing happens any more, and checks the rollout.
func (s *refusing) settles(want string) {
	s.t.Helper()
	for range 400 {
		s.deliverAll()
		before := toText(s.app.Status)
		decision := s.planFor(s.input())
		s.record(decision)
		if before == toText(s.app.Status) && decision.RecheckAfter == 0 && s.now.After(s.started()) {
			s.is(want)
			return
		}
		s.advance(max(10*time.Second, decision.RecheckAfter))
	}
	s.t.Fatalf("the rollout does not come to rest:\n%s", toText(s.app.Status))
}

// started returns when all pods have started.
func (s *refusing) started() (last time.Time) {
	for _, m := range s.members {
		if up := m.started.Add(m.startup); up.After(last) {
			last = up
		}
	}
	return last
}

func newRefusing(t *testing.T, clusters map[string]stages.Refusal, changes ...func(*v1alpha1.Rollout)) *refusing {
	s := &refusing{scenario: newScenario(t, changes...), refusals: stages.Refusals{2: clusters}}
	s.steps = nil
	s.editImage("ok-2")
	return s
}

// describe returns the phase and the reason of each entry.
func (s *refusing) describe() string {
	var all []string
	for _, entry := range s.app.Status.Clusters {
		text := fmt.Sprintf("%s@%d %s", entry.Name, entry.Revision, entry.Phase)
		if entry.Reason != "" {
			text += " " + entry.Reason
		}
		all = append(all, text)
	}
	return strings.Join(all, ", ")
}

func (s *refusing) entriesAre(want string) {
	s.t.Helper()
	if got := s.describe(); got != want {
		s.t.Errorf("entries:\n got %s\nwant %s", got, want)
	}
}

// One failure is too much: the whole rollout returns, and no cluster ever gets what is refused there.
func TestRefused_cluster_fails_its_stage(t *testing.T) {
	s := newRefusing(t, map[string]stages.Refusal{"world-2": refused})
	s.settles("RolledBack 2, stable 1: canary Completed 0/2, world Progressing 0/3")
	s.entriesAre("canary-1@1 Ready, canary-2@1 Ready, world-1@1 Ready, world-2@1 Ready, world-3@1 Ready")
	state := s.app.Status.Rollout
	if state.FailedStage != "world" || fmt.Sprint(state.FailedClusters) != "[world-2]" || state.FailedReason != v1alpha1.ReasonPodSecurityRefused {
		t.Errorf("the failure is %s %v %s", state.FailedStage, state.FailedClusters, state.FailedReason)
	}
	if s.members["world-2"].runs != 1 {
		t.Error("world-2 ran the refused revision")
	}
}

// A failure within maxFailures does not stop the others. The cluster keeps what it runs, and says so.
func TestRefused_cluster_counts_in_maxFailures(t *testing.T) {
	s := newRefusing(t, map[string]stages.Refusal{"world-2": refused}, stageWith(1, func(stage *v1alpha1.RolloutStage) {
		stage.MaxFailures = new(intstr.FromInt32(1))
	}))
	s.settles("Completed 2, stable 2: canary Completed 2/2, world Completed 2/3")
	s.entriesAre("canary-1@2 Ready, canary-2@2 Ready, world-1@2 Ready, world-2@1 Failed PodSecurityRefused, world-3@2 Ready")
	want := "revision 2 " + violation + "; the cluster keeps revision 1"
	if entry := s.app.Status.Cluster("world-2"); entry.Message != want || entry.ReadyReplicas != 2 {
		t.Errorf("the entry is %+v, want message %q", entry, want)
	}

	// It is scaled like the others, and an edit that is allowed there reaches it.
	s.edit(func(spec *v1alpha1.AppServiceSpec) { spec.Replicas = new(int32(3)) })
	s.settles("Completed 2, stable 2: canary Completed 2/2, world Completed 2/3")
	if entry := s.app.Status.Cluster("world-2"); entry.Replicas != 3 || entry.ReadyReplicas != 3 || entry.Revision != 1 {
		t.Errorf("the entry is %+v, want 3 replicas of revision 1", entry)
	}
	s.editImage("ok-3")
	s.settles("Completed 3, stable 3: canary Completed 2/2, world Completed 3/3")
}

// Before the turn of its stage, nothing has failed on the cluster.
func TestRefused_cluster_waits_for_its_turn(t *testing.T) {
	s := newRefusing(t, map[string]stages.Refusal{"world-2": refused}, stageWith(1, needsApproval))
	s.settles("Progressing 2, stable 1: canary Completed 2/2, world AwaitingApproval 0/3")
	s.entriesAre("canary-1@2 Ready, canary-2@2 Ready, world-1@1 Ready, world-2@1 Ready, world-3@1 Ready")
}

// A rollback goes on for the clusters that may have the stable revision.
func TestRefused_cluster_does_not_hold_up_a_rollback(t *testing.T) {
	s := newRefusing(t, nil)
	s.refusals = stages.Refusals{1: {"canary-1": refused, "canary-2": refused}} // the first of them gets the bad one
	s.editImage("bad")
	s.settles("RolledBack 2, stable 1: canary Progressing 1/2, world Pending 0/3")
	s.entriesAre("canary-1@1 Ready, canary-2@2 Failed PodSecurityRefused, world-1@1 Ready, world-2@1 Ready, world-3@1 Ready")
}

// A label of the namespace that is newer than the revision refuses it on new clusters. The revision
// has not failed.
func TestRefused_by_a_later_policy_on_a_new_cluster_is_no_failure(t *testing.T) {
	for stage, want := range map[string]string{
		"canary": "Completed 2, stable 2: canary Completed 2/3, world Completed 3/3",
		"world":  "Completed 2, stable 2: canary Completed 2/2, world Completed 3/4",
	} {
		s := newRefusing(t, nil)
		s.passes(4 * time.Minute)
		s.is("Progressing 2, stable 1: canary Completed 2/2, world Progressing 1/3")
		s.join("new", stage)
		refused := map[string]stages.Refusal{"new": refusedByLater}
		s.refusals = stages.Refusals{1: refused, 2: refused}
		s.settles(want)
		if e := s.app.Status.Cluster("new"); e.Revision != 0 || e.Reason != v1alpha1.ReasonPodSecurityRefused {
			t.Errorf("the entry of the new cluster is %+v", e)
		}
		s.refusals = nil
		s.settles("Completed 2, stable 2: " + strings.NewReplacer("2/3", "3/3", "3/4", "4/4").Replace(want[len("Completed 2, stable 2: "):]))
	}
}

// While a refused cluster goes back, its minReadySeconds count. It does not hold its place for ever.
func TestRefused_cluster_becomes_available_where_it_went_back(t *testing.T) {
	for name, isSick := range map[string]bool{"Ready": false, "not Ready at first": true} {
		t.Run(name, func(t *testing.T) {
			s := &refusing{scenario: newScenario(t, stageWith(0, func(stage *v1alpha1.RolloutStage) {
				stage.MaxFailures, stage.MaxUnavailable = new(intstr.FromInt32(1)), new(intstr.FromInt32(1))
			}))}
			s.edited("ok-2").passes(30 * time.Second)
			first := s.with(2)[0]
			s.annotated(v1alpha1.AnnotationAbort, "2").passes(20 * time.Second)
			s.members[first].sick = isSick
			s.refusals = stages.Refusals{3: {first: refused}}
			s.editImage("ok-3")
			for range 20 * 6 {
				s.deliverAll()
				s.planFor(s.input())
				s.advance(10 * time.Second)
			}
			s.members[first].sick = false
			s.settles("Completed 3, stable 3: canary Completed 1/2, world Completed 3/3")
			if e := s.app.Status.Cluster(first); e.Reason != v1alpha1.ReasonPodSecurityRefused || e.UnavailableSince != nil || e.AvailableReplicas != 2 {
				t.Errorf("the refused entry is %+v", e)
			}
		})
	}
}

func TestRefused_at_once(t *testing.T) {
	in := NewInput(AtRevision(3), Chosen("east"), Chosen("north"), Chosen("west"),
		WithEntries(Entry("east", v1alpha1.ClusterReady, DesiredRevision(2)), Entry("west", v1alpha1.ClusterReady, DesiredRevision(2))),
		Observed("east", Observation(v1alpha1.ClusterReady)), Observed("west", Observation(v1alpha1.ClusterReady)),
		func(in *rollout.Input) { in.Refusals = stages.Refusals{3: {"east": refused, "north": refused}} })
	got := StatusOf(in)
	s := &refusing{scenario: &scenario{stagedFleet: &stagedFleet{app: &v1alpha1.AppService{Status: got}}, t: t}}
	s.entriesAre("east@2 Failed PodSecurityRefused, north@0 Failed PodSecurityRefused, west@3 Progressing RollingOut")
	if got, want := got.Cluster("north").Message, "revision 3 "+violation+"; the cluster does not get the AppService"; got != want {
		t.Errorf("the message is %q, want %q", got, want)
	}
	if again := StatusOf(Next(in)); toText(again) != toText(got) {
		t.Errorf("the status changed at rest:\n%s\n%s", toText(got), toText(again))
	}
	// When the label of the namespace allows it, the clusters get the revision.
	allowed := StatusOf(Next(Next(in, func(in *rollout.Input) { in.Refusals = nil }), Observed("north", observation.Observation{
		UID: UID, Generation: Generation, Revision: 3, Planned: 2, Phase: v1alpha1.ClusterProgressing, Reason: v1alpha1.ReasonRollingOut,
	})))
	s.app.Status = allowed
	s.entriesAre("east@3 Progressing RollingOut, north@3 Progressing RollingOut, west@3 Progressing RollingOut")
}

// A refused cluster serves with what it keeps, so it is enough for a removal elsewhere.
func TestRefused_cluster_that_serves_holds_no_removal(t *testing.T) {
	for phase, want := range map[v1alpha1.ClusterPhase]v1alpha1.TransitionType{
		v1alpha1.ClusterReady:       v1alpha1.TransitionRemoving,
		v1alpha1.ClusterProgressing: v1alpha1.TransitionRemovalPending,
	} {
		for _, state := range []v1alpha1.ClusterPhase{v1alpha1.ClusterReady, v1alpha1.ClusterFailed} { // before and after it was explained
			in := NewInput(AtRevision(3), Chosen("east"), NotChosen("west"),
				WithEntries(Entry("east", state, DesiredRevision(2)), Entry("west", v1alpha1.ClusterReady, DesiredRevision(2))),
				Observed("east", Observation(phase, AnsweringRevision(2))), Observed("west", Observation(v1alpha1.ClusterReady, AnsweringRevision(2))),
				func(in *rollout.Input) { in.Refusals = stages.Refusals{3: {"east": refused}} })
			got := StatusOf(in)
			if east := got.Cluster("east"); east.Reason != v1alpha1.ReasonPodSecurityRefused || east.Revision != 2 {
				t.Fatalf("the entry of east is %+v", east)
			}
			if west := got.Cluster("west"); west.Transition.Type != want {
				t.Errorf("east is %s, and the transition of west is %+v, want %s: %s", phase, west.Transition, want, west.Message)
			}
		}
	}
}

// Without it, clusters would get the spec as the revision of the status: in no stage, and without an
// approval.
func TestSpec_that_was_refused_has_no_revision_until_the_hub_stores_it(t *testing.T) {
	isDeferred := func(in *rollout.Input) {
		in.IsSpecPending, in.WasSpecRefused, in.RevisionRefused = true, true, errors.New("exceeded quota")
	}
	in := NewInput(AtRevision(1), Chosen("east"), isDeferred, WithEntries(Entry("east", v1alpha1.ClusterReady, DesiredRevision(1))), Observed("east", Observation(v1alpha1.ClusterReady)))
	if got := status.Compute(in, rollout.Plan(in)); !got.Rollout.SpecRefused {
		t.Errorf("the status says that revision %d has the spec", got.Rollout.Revision)
	}
}

func TestRefused_spec_has_no_revision(t *testing.T) {
	isRefused := func(in *rollout.Input) { in.IsSpecPending, in.SpecRefusal = true, violation }
	for name, c := range map[string]struct {
		in      rollout.Input
		ready   string
		entries string
	}{
		"the first one": {
			in:      NewInput(Chosen("east"), isRefused),
			ready:   "the pod template " + violation + "; no cluster gets the AppService: change the spec, or let an administrator of the hub label namespace shop with another pod-security.kubernetes.io/enforce; 1 of 1 cluster not ready: east (PodSecurityRefused)",
			entries: "east@0 Pending PodSecurityRefused",
		},
		"the first one, and delivery has found nothing there": {
			in: NewInput(Chosen("east"), isRefused, WithEntries(Entry("east", v1alpha1.ClusterPending, DesiredRevision(0), NeverObserved)),
				Observed("east", observation.Observation{UID: UID, Generation: Generation, Planned: 2, Phase: v1alpha1.ClusterProgressing, Reason: v1alpha1.ReasonRollingOut})),
			ready:   "the pod template " + violation + "; no cluster gets the AppService: change the spec, or let an administrator of the hub label namespace shop with another pod-security.kubernetes.io/enforce; 1 of 1 cluster not ready: east (PodSecurityRefused)",
			entries: "east@0 Pending PodSecurityRefused",
		},
		"an edit": {
			in: NewInput(AtRevision(1), Chosen("east"), isRefused, WithEntries(Entry("east", v1alpha1.ClusterReady, DesiredRevision(1))),
				Observed("east", Observation(v1alpha1.ClusterReady)), func(in *rollout.Input) { in.App.Status.Rollout.Revision = 1 }),
			ready:   "the pod template " + violation + "; the clusters keep revision 1: change the spec, or let an administrator of the hub label namespace shop with another pod-security.kubernetes.io/enforce",
			entries: "east@1 Ready",
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := status.Compute(c.in, rollout.Plan(c.in))
			s := &refusing{scenario: &scenario{stagedFleet: &stagedFleet{app: &v1alpha1.AppService{Status: got}}, t: t}}
			s.entriesAre(c.entries)
			if !got.Rollout.SpecRefused {
				t.Error("the status does not say that the spec is refused")
			}
			for _, condition := range got.Conditions {
				switch {
				case condition.Type == v1alpha1.ConditionPlaced:
				case condition.Reason != v1alpha1.ReasonPodSecurityRefused:
					t.Errorf("%s has reason %s", condition.Type, condition.Reason)
				case condition.Type == v1alpha1.ConditionReady && condition.Message != c.ready:
					t.Errorf("Ready says\n%s, want\n%s", condition.Message, c.ready)
				}
			}
		})
	}
}
