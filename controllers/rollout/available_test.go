package rollout_test

import (
	"testing"
	"time"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	. "github.com/fleetwright/fleetwright/controllers/rollout/rollouttest"
)

// A cluster that was available becomes unavailable only when it loses ready pods.
func TestRollout_with_pods_that_come_and_go(t *testing.T) {
	soaking := func(t *testing.T) *scenario {
		s := newScenario(t, stageWith(0, soaksFor(3600))).edited("ok-1").passes(10 * time.Minute)
		return s.is("Progressing 2, stable 1: canary Soaking 2/2, world Pending 0/3")
	}
	t.Run("an autoscaler that adds pods for longer than the deadline fails nothing", func(t *testing.T) {
		s := soaking(t)
		s.members["canary-1"].adds = 3
		s.passes(2 * deadline).is("Progressing 2, stable 1: canary Soaking 2/2, world Pending 0/3")
		if stage := s.app.Status.Rollout.Stages[0]; stage.Available != 2 {
			t.Errorf("%d clusters are available", stage.Available)
		}
		s.settles("Completed 2, stable 2: canary Completed 2/2, world Completed 3/3")
	})
	t.Run("pods that are lost for the deadline are a failure", func(t *testing.T) {
		s := soaking(t)
		s.members["canary-1"].loses = 1
		s.passes(deadline - 10*time.Second).is("Progressing 2, stable 1: canary Soaking 2/2, world Pending 0/3")
		s.settles("RolledBack 2, stable 1: canary Soaking 0/2, world Pending 0/3")
	})
	t.Run("clusters that start pods in turn do not hold a stage up", func(t *testing.T) { // and no two are Ready at the same time
		s := newFlatScenario(t, 6).edited("ok-1")
		for range 120 {
			for _, m := range s.members {
				isFree := m.runs == 2 && s.app.Status.Cluster(m.member.Name).AvailableReplicas > 0
				if m.loses, m.adds = 0, 0; isFree && s.now.Minute()%6 == int(m.member.Name[3]-'1') {
					m.loses = 1
				} else if isFree {
					m.adds = 1
				}
			}
			s.passes(30 * time.Second)
		}
		s.is("Completed 2, stable 2: (rest) Completed 6/6")
	})
	t.Run("a cluster whose autoscaler adds pods gets its turn, and counts", func(t *testing.T) {
		s := newFlatScenario(t, 2)
		s.members["c-01"].adds = 1
		s.passes(0).edited("ok-1").passes(4 * time.Minute).revisionsAre("22")
		if entry := s.app.Status.Cluster("c-01"); entry.Impaired {
			t.Errorf("the entry is %+v", entry)
		}
	})
	t.Run("a cluster that loses its address before it is available is not available", func(t *testing.T) {
		slow := stageWith(0, func(s *v1alpha1.RolloutStage) { s.MinReadySeconds = new(int32(300)) })
		s := newScenario(t, slow).edited("ok-1").passes(time.Minute)
		s.members[s.with(2)[0]].isWithoutAddress = true
		s.passes(10 * time.Minute).is("Progressing 2, stable 1: canary Progressing 1/2, world Pending 0/3")
		if stage := s.app.Status.Rollout.Stages[0]; stage.Available != 0 {
			t.Errorf("%d clusters are available", stage.Available)
		}
	})
	t.Run("an entry of an older version gets the number of pods with its next change", func(t *testing.T) {
		s := soaking(t)
		for i := range s.app.Status.Clusters {
			s.app.Status.Clusters[i].AvailableReplicas = 0
		}
		before := toText(s.app.Status)
		s.passes(0)
		if after := toText(s.app.Status); after != before {
			t.Errorf("the status was written:\n%s\n%s", before, after)
		}
		s.edit(func(spec *v1alpha1.AppServiceSpec) { spec.Replicas = new(int32(3)) })
		s.passes(0).passes(0)
		if got := s.app.Status.Cluster("canary-1").AvailableReplicas; got != 3 {
			t.Errorf("availableReplicas is %d", got)
		}
		s.settles("Completed 2, stable 2: canary Completed 2/2, world Completed 3/3")
	})
}

// Only time in which an operator has observed a cluster counts as minReadySeconds.
func TestRollout_counts_only_observed_time_as_minReadySeconds(t *testing.T) {
	slow := stageWith(0, func(s *v1alpha1.RolloutStage) { s.MinReadySeconds = new(int32(300)) })
	t.Run("after the operator was away", func(t *testing.T) {
		s := newScenario(t, slow).edited("ok-1").passes(30 * time.Second)
		clear(s.seen)
		s.advance(6 * time.Minute)
		s.passes(4*time.Minute + 30*time.Second).is("Progressing 2, stable 1: canary Progressing 1/2, world Pending 0/3")
		s.passes(time.Minute).is("Progressing 2, stable 1: canary Progressing 2/2, world Pending 0/3")
	})
	t.Run("after another process has begun to observe", func(t *testing.T) {
		s := newScenario(t, slow).edited("ok-1").passes(6*time.Minute - 70*time.Second)
		in := With(s.input(), Later(time.Minute))
		in.ObservedSince = s.now
		s.planFor(in)
		s.is("Progressing 2, stable 1: canary Progressing 1/2, world Pending 0/3")
	})
	t.Run("after an entry was lost with its slice", func(t *testing.T) {
		s := newScenario(t, slow).edited("ok-1").passes(30 * time.Second)
		name := s.with(2)[0]
		status := s.app.Status.DeepCopy()
		s.app.Status.Clusters = nil
		for _, entry := range status.Clusters {
			if entry.Name != name {
				s.app.Status.Clusters = append(s.app.Status.Clusters, entry)
			}
		}
		found := Found
		found.Planned, found.Revision = 2, 2
		s.seen[name] = found
		s.plan()
		s.passes(4 * time.Minute).is("Progressing 2, stable 1: canary Progressing 1/2, world Pending 0/3")
		s.passes(90 * time.Second).is("Progressing 2, stable 1: canary Progressing 2/2, world Pending 0/3")
	})
}
