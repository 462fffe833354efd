package rollout_test

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/observation"
	"github.com/fleetwright/fleetwright/controllers/rollout"
	. "github.com/fleetwright/fleetwright/controllers/rollout/rollouttest"
)

// Without a status, the stable revision is that which most clusters run, of all clusters of the
// AppService.
func TestPlan_after_the_status_was_lost_waits_for_reports(t *testing.T) {
	found := func(cluster string, revision int64) func(*rollout.Input) {
		return Observed(cluster, observation.Observation{UID: UID, Found: true, Revision: revision, Planned: 2})
	}
	runs := func(cluster string, revision int64) func(*rollout.Input) {
		return Observed(cluster, Observation(v1alpha1.ClusterReady, func(seen *observation.Observation) { seen.StampedRevision = revision }))
	}
	// The clusters are a to d, and a, the canary, has reported revision 2.
	base := func(changes ...func(*rollout.Input)) rollout.Input {
		in := NewInput(Chosen("a"), Chosen("b"), Chosen("c"), Chosen("d"), found("a", 2))
		in.App.Finalizers = []string{v1alpha1.Finalizer}
		in.App.Spec.Rollout = &v1alpha1.Rollout{}
		return With(in, changes...)
	}
	unreachable := func(cluster string, after time.Duration) func(*rollout.Input) {
		return func(in *rollout.Input) {
			Unreachable(cluster)(in)
			in.Unreachable = map[string]metav1.Time{cluster: metav1.NewTime(Now.Add(after))}
		}
	}
	nothing := func(in *rollout.Input) { Observed("d", Observation(v1alpha1.ClusterProgressing))(in) }
	for name, test := range map[string]struct {
		then   []func(*rollout.Input) // after the first plan
		waits  bool
		stable int64
	}{
		"others have not reported":                    {nil, true, 0},
		"one has not reported":                        {[]func(*rollout.Input){runs("b", 1), runs("c", 1)}, true, 0},
		"it was found unreachable":                    {[]func(*rollout.Input){runs("b", 1), runs("c", 1), unreachable("d", time.Second)}, false, 0},
		"it was found unreachable before that":        {[]func(*rollout.Input){runs("b", 1), runs("c", 1), unreachable("d", -time.Second)}, true, 0},
		"all have reported":                           {[]func(*rollout.Input){runs("b", 1), runs("c", 1), runs("d", 1)}, false, 1},
		"two revisions are equally frequent":          {[]func(*rollout.Input){runs("b", 1), runs("c", 1), runs("d", 2)}, false, 1},
		"most run the later one":                      {[]func(*rollout.Input){runs("b", 2), runs("c", 1), runs("d", 2)}, false, 2},
		"half run it, and one has nothing":            {[]func(*rollout.Input){runs("b", 1), runs("c", 1), nothing}, false, 1},
		"half run it, and one is silent at the limit": {[]func(*rollout.Input){runs("b", 1), runs("c", 3), Later(rollout.ReportTimeout)}, false, 0},
		"three run it, and one is silent":             {[]func(*rollout.Input){runs("b", 2), runs("c", 2), Later(rollout.ReportTimeout)}, false, 2},
		"all are silent but the canary":               {[]func(*rollout.Input){Later(rollout.ReportTimeout)}, false, 0},
	} {
		t.Run(name, func(t *testing.T) {
			in := base()
			if !in.AwaitsReports() || rollout.Plan(in).RecheckAfter != rollout.ReportTimeout {
				t.Fatal("the first plan does not wait")
			}
			in = Next(in, test.then...)
			if in.AwaitsReports() != test.waits {
				t.Fatalf("it waits: %t", !test.waits)
			}
			if test.waits {
				decision := rollout.Plan(in)
				if state := decision.Rollout; state.Revision != 0 || state.Phase != "" {
					t.Errorf("the rollout is %+v", state)
				}
				for _, entry := range decision.Entries {
					if runs := in.Observations[entry.Name].StampedRevision; runs != 0 && entry.Revision != runs {
						t.Errorf("%s runs revision %d, and its entry has %d", entry.Name, runs, entry.Revision)
					}
				}
				return
			}
			decision := rollout.Plan(With(in, AtRevision(2)))
			if decision.Rollout.StableRevision != test.stable {
				t.Errorf("revision %d is stable, want %d", decision.Rollout.StableRevision, test.stable)
			}
		})
	}
	t.Run("not if the AppService is new", func(t *testing.T) {
		if base(func(in *rollout.Input) { in.IsNew = true }).AwaitsReports() {
			t.Error("it waits")
		}
	})
	t.Run("not if an older version wrote the status", func(t *testing.T) {
		if base(func(in *rollout.Input) { in.App.Status.ObservedGeneration = 1 }).AwaitsReports() {
			t.Error("it waits")
		}
	})
	t.Run("for a cluster that is not in the plan only because it is not Ready", func(t *testing.T) {
		in := With(base(), NotReadyCandidate("b"), NotReadyCandidate("c"), NotReadyCandidate("d"))
		if !in.AwaitsReports() {
			t.Error("it does not wait")
		}
		in = Next(in, Later(rollout.ReportTimeout), AtRevision(2))
		if state := rollout.Plan(in).Rollout; state.Revision != 2 || state.StableRevision != 0 {
			t.Errorf("the rollout is %+v", state)
		}
	})
	t.Run("the process starts again", func(t *testing.T) {
		in := Next(base(), Later(time.Minute))
		in.ObservedSince = metav1.NewTime(in.Now.Add(-10 * time.Second))
		if decision := rollout.Plan(in); decision.RecheckAfter != 20*time.Second {
			t.Errorf("it waits for %s", decision.RecheckAfter)
		}
	})
}
