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

// lookedAt sets since when the process that made the observation knows the hub.
func lookedAt(id string, since metav1.Time) func(*observation.Observation) {
	return func(seen *observation.Observation) { seen.Look = observation.Look{ID: id, Since: since} }
}

// foundUnreachable sets when a member was found unreachable.
func foundUnreachable(cluster string, at metav1.Time) func(*rollout.Input) {
	return func(in *rollout.Input) { in.Unreachable = map[string]metav1.Time{cluster: at} }
}

// observedSince sets since when a member has been observed.
func observedSince(cluster string, at metav1.Time) func(*rollout.Input) {
	return func(in *rollout.Input) { in.SeenSince = map[string]metav1.Time{cluster: at} }
}

func missing(seen *observation.Observation) { seen.Missing = true }

// A workload that is missing after a start is created again when it is known what all clusters of the
// AppService have.
func TestPlan_answers_where_the_workload_is_missing(t *testing.T) {
	since := Ago(10 * time.Second)
	reported := func(changes ...func(*observation.Observation)) observation.Observation {
		return Observation(v1alpha1.ClusterReady, append([]func(*observation.Observation){lookedAt("now", since)}, changes...)...)
	}
	// The workload is missing on a, and b has an entry too.
	base := func(changes ...func(*rollout.Input)) rollout.Input {
		in := NewInput(Chosen("a"), Chosen("b"), WithEntries(Entry("a", v1alpha1.ClusterReady), Entry("b", v1alpha1.ClusterReady)),
			Observed("a", reported(missing)))
		return With(in, changes...)
	}
	tests := map[string]struct {
		in      rollout.Input
		want    string
		recheck time.Duration
	}{
		"another cluster has not reported":                {in: base(), recheck: 20 * time.Second},
		"all clusters have reported":                      {in: base(Observed("b", reported())), want: "now"},
		"it is missing on all clusters":                   {in: base(Observed("b", reported(missing))), want: "now"},
		"another cluster has reported before the restore": {in: base(Observed("b", Observation(v1alpha1.ClusterReady, lookedAt("before", AnHourAgo)))), recheck: 20 * time.Second},
		"another cluster is not Ready":                    {in: base(Unreachable("b")), recheck: 20 * time.Second},
		"another cluster was found unreachable":           {in: base(foundUnreachable("b", Ago(5*time.Second))), want: "now"},
		"it was found unreachable before the restore":     {in: base(foundUnreachable("b", Ago(11*time.Second))), recheck: 20 * time.Second},
		"it was found unreachable before the question":    {in: base(foundUnreachable("b", Ago(5*time.Second)), observedSince("a", Ago(4*time.Second))), recheck: 26 * time.Second},
		"it was found unreachable after the question":     {in: base(foundUnreachable("b", Ago(3*time.Second)), observedSince("a", Ago(4*time.Second))), want: "now"},
		"one was found unreachable, one has not reported": {in: base(foundUnreachable("b", Ago(3*time.Second)), Chosen("c")), recheck: 20 * time.Second},
		"the question is older than the restore":          {in: base(observedSince("a", AnHourAgo)), recheck: 20 * time.Second},
		"the limit has passed, but not for the question":  {in: base(observedSince("a", Ago(time.Second)), Later(25*time.Second)), recheck: 4 * time.Second},
		"the limit has passed":                            {in: base(Later(rollout.ReportTimeout - 10*time.Second)), want: "now"},
		"a cluster of a new entry has not reported":       {in: base(Observed("b", reported()), Chosen("c")), recheck: 20 * time.Second},
		"a cluster with a tombstone has not reported":     {in: base(Observed("b", reported()), NotChosen("c"), WithTombstone("c")), recheck: 20 * time.Second},
		"a cluster of other AppServices has not reported": {in: base(Observed("b", reported()), NotChosen("c")), want: "now"},
		"a cluster that is being left has not reported":   {in: base(NotChosen("b")), recheck: 20 * time.Second},
		"a removal has not reported":                      {in: base(NotChosen("b"), WithEntries(Entry("b", v1alpha1.ClusterRemoving))), recheck: 20 * time.Second},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			decision := rollout.Plan(test.in)
			if got := decision.Entries[0].Recreate; got != test.want {
				t.Errorf("the answer is %q, want %q", got, test.want)
			}
			if test.recheck != 0 && decision.RecheckAfter != test.recheck {
				t.Errorf("it is planned again after %s, want %s", decision.RecheckAfter, test.recheck)
			}
			for _, entry := range decision.Entries[1:] {
				if entry.Recreate != "" && !test.in.Observations[entry.Name].Missing {
					t.Errorf("%s has an answer without a question", entry.Name)
				}
			}
			next := Next(test.in, Restarted)
			if got := rollout.Plan(next).Entries[0].Recreate; got != test.want {
				t.Errorf("without an observation, the answer becomes %q", got)
			}
			Observed("a", reported())(&next)
			if got := rollout.Plan(next).Entries[0].Recreate; got != "" {
				t.Errorf("after the creation, the answer is still %q", got)
			}
			Observed("a", Observation(v1alpha1.ClusterReady, missing, lookedAt("later", Now)))(&next)
			if got := rollout.Plan(next).Entries[0].Recreate; got == "later" {
				t.Error("the answer to one look answers the next one")
			}
		})
	}
}
