package rollout_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/rollout"
	"github.com/fleetwright/fleetwright/controllers/rollout/wording"
	"github.com/fleetwright/fleetwright/controllers/status"
)

// newFlatScenario returns a fleet of one stage, named c-01 and so on, that has completed the rollout of
// revision 1.
func newFlatScenario(t *testing.T, clusters int, changes ...func(*v1alpha1.Rollout)) *scenario {
	s := &scenario{stagedFleet: newStagedFleet(), t: t}
	for _, change := range changes {
		change(s.app.Spec.Rollout)
	}
	for i := range clusters {
		s.join(fmt.Sprintf("c-%02d", i+1), "flat")
	}
	return s.settles(fmt.Sprintf("Completed 1, stable 1: (rest) Completed %[1]d/%[1]d", clusters))
}

// cutsOff makes a revision cut off the clusters that run it, after they have run it for a while.
func (s *scenario) cutsOff(revision int64, after time.Duration, only ...string) *scenario {
	for name, m := range s.members {
		isOne := len(only) == 0
		for _, o := range only {
			isOne = isOne || o == name
		}
		if isOne && m.runs == revision && s.now.Sub(m.started.Time) >= after {
			s.cutOff(name)
		}
	}
	return s
}

// rolledOut returns the message of the condition RolledOut.
func (s *scenario) rolledOut() string {
	for _, c := range status.Compute(s.input(), rollout.Plan(s.input())).Conditions {
		if c.Type == v1alpha1.ConditionRolledOut {
			return c.Reason + ": " + c.Message
		}
	}
	return ""
}

func TestRollout_of_a_revision_that_cuts_its_clusters_off(t *testing.T) {
	cutsOffFor := func(s *scenario, d, after time.Duration, only ...string) {
		for range int(d / time.Minute) {
			s.passes(time.Minute).cutsOff(2, after, only...)
		}
	}
	t.Run("stops at the first one, and names it", func(t *testing.T) {
		for after, most := range map[time.Duration]int{0: 1, 90 * time.Second: 6} { // also where it was available before
			s := newFlatScenario(t, 12).edited("ok-1")
			reached := map[string]bool{}
			for range 6 * 60 {
				cutsOffFor(s, time.Minute, after)
				for _, name := range s.with(2) {
					reached[name] = true
				}
			}
			if len(reached) > most {
				t.Fatalf("after %v, the revision reached %v", after, reached)
			} else if after > 0 {
				continue
			}
			lost := wording.ListClusters(s.with(2))
			if got := s.rolledOut(); !strings.HasPrefix(got, v1alpha1.ReasonWaitingForClusters) || !strings.Contains(got, lost+" became unreachable") || !strings.HasSuffix(got, "promote=2") {
				t.Errorf("the condition RolledOut is %s", got)
			}
		}
	})
	t.Run("is a matter of one cluster", func(t *testing.T) {
		s := newFlatScenario(t, 1).edited("ok-1").cutOff("c-01").passes(time.Hour)
		want := "WaitingForClusters: revision 2: 0 of 1 cluster is available, and 1 cluster: c-01 became unreachable after it got it: fix it, or annotate the AppService with fleetwright.dev/promote=2"
		if diff := cmp.Diff(want, s.rolledOut()); diff != "" {
			t.Error(diff)
		}
	})
	t.Run("goes on when they return", func(t *testing.T) {
		s := newFlatScenario(t, 12).edited("ok-1")
		cutsOffFor(s, time.Hour, 0)
		for name := range s.members {
			s.reconnect(name)
		}
		s.settles("Completed 2, stable 2: (rest) Completed 12/12")
	})
	t.Run("goes on when the stage is promoted", func(t *testing.T) {
		s := newFlatScenario(t, 4).edited("ok-1")
		first := s.with(2)[0]
		cutsOffFor(s, time.Hour, 0, first)
		s.is("Progressing 2, stable 1: (rest) Progressing 1/4")
		s.annotated(v1alpha1.AnnotationPromote, "2").settles("Completed 2, stable 2: (rest) Completed 4/4")
	})
	t.Run("does not hold up clusters that are late, when the rollout is over", func(t *testing.T) {
		s := newFlatScenario(t, 4).cutOff("c-01").passes(0).edited("ok-1").passes(10 * time.Minute)
		s.is("Completed 2, stable 2: (rest) Completed 3/4").cutOff("c-02").passes(time.Hour).reconnect("c-01").settles("Completed 2, stable 2: (rest) Completed 4/4")
	})
	t.Run("has failed when it has cut off two and others are observed", func(t *testing.T) {
		s := newFlatScenario(t, 12, func(r *v1alpha1.Rollout) { r.MaxUnavailable = new(intstr.FromInt32(3)) }).edited("ok-1")
		healthy := s.with(2)[0]
		s.passes(100 * time.Second)
		for name, m := range s.members {
			if name != healthy && m.runs == 2 {
				s.cutOff(name)
			}
		}
		s.passes(20 * time.Minute)
		state := s.app.Status.Rollout
		if state.Phase != v1alpha1.RolloutRolledBack && state.Phase != v1alpha1.RolloutRollingBack || len(state.FailedClusters) != 2 || state.FailedReason != v1alpha1.ReasonClusterUnreachable {
			t.Fatalf("the rollout is %s: %+v", s.summary(), state)
		}
	})
	t.Run("has not failed if a cluster without it became unreachable too", func(t *testing.T) { // a region is lost
		s := newFlatScenario(t, 12, func(r *v1alpha1.Rollout) { r.MaxUnavailable = new(intstr.FromInt32(3)) }).edited("ok-1")
		healthy := s.with(2)[0]
		s.passes(100 * time.Second)
		other := s.with(1)[0]
		for name, m := range s.members {
			if name != healthy && m.runs == 2 || name == other {
				s.cutOff(name)
			}
		}
		s.passes(time.Hour)
		if state := s.app.Status.Rollout; state.Phase != v1alpha1.RolloutProgressing {
			t.Fatalf("the rollout is %s: %+v", s.summary(), state)
		}
	})
	t.Run("a cluster that was dead before blocks nothing", func(t *testing.T) {
		s := newFlatScenario(t, 12).cutOff("c-01").cutOff("c-02").cutOff("c-03").passes(0).edited("ok-1")
		s.settles("Completed 2, stable 2: (rest) Completed 9/12")
	})
}

// A promotion must not let a revision that cuts its clusters off reach one after another.
func TestRollout_that_is_promoted_stops_where_it_cuts_its_clusters_off(t *testing.T) {
	s := newFlatScenario(t, 12, func(r *v1alpha1.Rollout) { r.MaxUnavailable = new(intstr.FromInt32(1)) }).edited("ok-1").annotated(v1alpha1.AnnotationPromote, "2")
	for range 40 {
		s.passes(time.Minute).cutsOff(2, 0)
	}
	if got := len(s.with(2)); got > 2 || s.app.Status.Rollout.Phase != v1alpha1.RolloutRolledBack {
		t.Errorf("%d clusters have the revision: %s", got, s.summary())
	}
}

// The age of what is known of a cluster does not begin again when it is to go back.
func TestRollback_keeps_since_when_a_cluster_is_lost(t *testing.T) {
	s := newFlatScenario(t, 4).edited("ok-1")
	first := s.with(2)[0]
	s.passes(30 * time.Second).cutOff(first).passes(10 * time.Second)
	lost := s.app.Status.Cluster(first).LastTransitionTime
	s.passes(time.Minute).annotated(v1alpha1.AnnotationAbort, "2")
	entry := s.app.Status.Cluster(first)
	if entry.Revision != 1 || entry.Phase != v1alpha1.ClusterUnknown || !entry.LastTransitionTime.Equal(&lost) {
		t.Errorf("%s has revision %d and is %s since %s, want Unknown since %s", first, entry.Revision, entry.Phase, entry.LastTransitionTime, lost)
	}
}

func TestRollout_with_an_active_stage_that_all_clusters_leave(t *testing.T) {
	begun := func(t *testing.T) *scenario {
		s := newScenario(t, stageWith(0, soaksFor(3600))).edited("ok-1").passes(10 * time.Minute)
		return s.is("Progressing 2, stable 1: canary Soaking 2/2, world Pending 0/3")
	}
	relabel := func(s *scenario, stage string) {
		for _, name := range []string{"canary-1", "canary-2"} {
			s.members[name].member.Labels["stage"] = stage
		}
	}
	t.Run("it waits, and says why", func(t *testing.T) {
		s := begun(t)
		relabel(s, "nowhere")
		s.passes(2 * time.Hour).is("Progressing 2, stable 1: canary Soaking 0/0, world Pending 0/3, (rest) Pending 2/2").revisionsAre("22111")
		want := "WaitingForClusters: revision 2, stage canary: 0 of 0 clusters are available, and its clusters have left the stage before it was completed: bring them back, or annotate the AppService with fleetwright.dev/promote=2/canary"
		if diff := cmp.Diff(want, s.rolledOut()); diff != "" {
			t.Error(diff)
		}
		relabel(s, "canary")
		s.settles("Completed 2, stable 2: canary Completed 2/2, world Completed 3/3")
	})
	t.Run("it is over when it is promoted", func(t *testing.T) {
		s := begun(t)
		relabel(s, "nowhere")
		s.passes(time.Minute).annotated(v1alpha1.AnnotationPromote, "2/canary").settles("Completed 2, stable 2: canary Completed 0/0, world Completed 3/3, (rest) Completed 2/2")
	})
	t.Run("it is over when it is promoted, also the last one", func(t *testing.T) {
		for _, value := range []string{"2", "2/(rest)"} {
			s := newScenario(t)
			s.join("other-1", "nowhere")
			s.settles("Completed 1, stable 1: canary Completed 2/2, world Completed 3/3, (rest) Completed 1/1")
			s.edited("ok-1").passes(7*time.Minute + 10*time.Second)
			s.is("Progressing 2, stable 1: canary Completed 2/2, world Completed 3/3, (rest) Progressing 1/1")
			s.members["other-1"].member.Labels["stage"] = "world"
			s.settles("Progressing 2, stable 1: canary Completed 2/2, world Completed 4/4, (rest) Progressing 0/0")
			s.annotated(v1alpha1.AnnotationPromote, value).settles("Completed 2, stable 2: canary Completed 2/2, world Completed 4/4, (rest) Completed 0/0")
		}
	})
	t.Run("the Secrets of its clusters are replaced", func(t *testing.T) {
		s := begun(t)
		one, two := s.members["canary-1"], s.members["canary-2"]
		delete(s.members, "canary-1")
		delete(s.members, "canary-2")
		s.plan()
		s.is("Progressing 2, stable 1: canary Soaking 0/0, world Pending 0/3")
		s.members["canary-1"], s.members["canary-2"] = one, two
		s.passes(10 * time.Second).revisionsAre("22111")
	})
	t.Run("an edit of another stage does not skip it", func(t *testing.T) {
		s := begun(t)
		relabel(s, "nowhere")
		s.passes(0).edit(func(spec *v1alpha1.AppServiceSpec) {
			spec.Rollout = spec.Rollout.DeepCopy()
			needsApproval(&spec.Rollout.Stages[1])
		})
		s.passes(time.Minute).is("Progressing 2, stable 1: canary Soaking 0/0, world Pending 0/3, (rest) Pending 2/2")
	})
	t.Run("the last stage waits too", func(t *testing.T) {
		s := newFirstRollout(t, func(r *v1alpha1.Rollout) { r.Stages = r.Stages[:1] }).settles("Completed 1, stable 1: canary Completed 2/2, (rest) Completed 3/3")
		s.edited("ok-1").passes(3 * time.Minute)
		s.is("Progressing 2, stable 1: canary Completed 2/2, (rest) Progressing 1/3")
		for _, name := range []string{"world-1", "world-2", "world-3"} {
			s.members[name].member.Spec.Taints = []v1alpha1.Taint{{Key: "drain", Effect: v1alpha1.TaintNoExecute}}
		}
		s.annotate(v1alpha1.AnnotationAcceptRemovals, "9@2")
		s.passes(10 * time.Minute)
		if got := s.summary(); !strings.HasPrefix(got, "Progressing 2, stable 1: canary Completed 2/2, (rest) Progressing 0/0") {
			t.Errorf("the rollout is %s", got)
		}
	})
}

// A member that is cut off answers no more, and some time passes until its MemberCluster is not Ready.
func TestRollout_judges_no_cluster_at_the_deadline_without_an_answer(t *testing.T) {
	cutOffAt := func(t *testing.T, image string, lasts time.Duration) (*scenario, *stagedMember) {
		s := newFlatScenario(t, 12).edited(image)
		m := s.members[s.with(2)[0]]
		m.startup = time.Hour
		s.passes(lasts)
		m.isSilent, m.silentSince = true, s.now
		return s, m
	}
	rollsOut := "Progressing 2, stable 1: (rest) Progressing 1/12"
	t.Run("it is not in time, and lost when it is known to be unreachable", func(t *testing.T) {
		s, m := cutOffAt(t, "ok-1", deadline-20*time.Second)
		s.passes(30 * time.Second).is(rollsOut)
		if s.decision.RecheckAfter == 0 || s.decision.RecheckAfter > 10*time.Second {
			t.Errorf("it is planned again after %v", s.decision.RecheckAfter)
		}
		m.isSilent = false
		s.cutOff(m.member.Name).passes(time.Hour).is(rollsOut)
		if diff := cmp.Diff([]string{m.member.Name}, s.decision.LostClusters); diff != "" {
			t.Error(diff)
		}
	})
	t.Run("it fails when it answers", func(t *testing.T) {
		s, m := cutOffAt(t, "ok-1", deadline-20*time.Second)
		s.passes(30 * time.Second).is(rollsOut)
		m.silentSince = s.now // an answer that brings nothing new
		s.passes(0).is("RollingBack 2, stable 1: (rest) Progressing 0/12")
	})
	t.Run("a refusal before the outage is no failure either", func(t *testing.T) {
		s := newFlatScenario(t, 12)
		for _, m := range s.members {
			m.refuses = true
		}
		s.edited("ok-1").passes(170 * time.Second)
		m := s.members[s.with(2)[0]]
		m.isSilent, m.silentSince = true, s.now
		s.passes(time.Minute).is(rollsOut)
		m.isSilent = false
		s.passes(0).is("RollingBack 2, stable 1: (rest) Progressing 0/12")
	})
}
