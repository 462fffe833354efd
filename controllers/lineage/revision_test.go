package lineage_test

import (
	"testing"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/lineage"
	"github.com/fleetwright/fleetwright/controllers/numbering"
)

func TestIsTakenBack(t *testing.T) {
	const stable, target = 6, 7
	type entry = v1alpha1.ClusterStatus
	answered := func(revision int64) entry { return entry{Generation: 5, ObservedGeneration: 5, Revision: revision} }
	assigned := func(revision int64) entry { return entry{Generation: 5, ObservedGeneration: 4, Revision: revision} }
	stamp := func(revision, generation int64) lineage.Stamp {
		return lineage.Stamp{UID: "uid-1", Revision: revision, Generation: generation}
	}
	for name, c := range map[string]struct {
		phase v1alpha1.RolloutPhase
		entry entry
		stamp lineage.Stamp
		want  bool
	}{
		"the target runs, and the entry lacks it":                {v1alpha1.RolloutProgressing, answered(stable), stamp(target, 5), true},
		"the target runs, and the entry has not been answered":   {v1alpha1.RolloutProgressing, assigned(stable), stamp(target, 5), true},
		"the target runs, and a late entry lacks it":             {v1alpha1.RolloutCompleted, answered(stable), stamp(target, 5), true},
		"the target runs, and is rolled back":                    {v1alpha1.RolloutRollingBack, assigned(stable), stamp(target, 5), false},
		"the target ran when the rollback was halted":            {v1alpha1.RolloutHalted, assigned(stable), stamp(target, 5), false},
		"the stable revision runs, and the entry got the target": {v1alpha1.RolloutProgressing, assigned(target), stamp(stable, 5), false},
		"the stable revision runs, and the target was answered":  {v1alpha1.RolloutProgressing, answered(target), stamp(stable, 5), true},
		"it returned, and the entry has the failed revision":     {v1alpha1.RolloutRollingBack, answered(target), stamp(stable, 5), true},
		"the stable revision was applied before the edit":        {v1alpha1.RolloutProgressing, answered(target), stamp(stable, 4), false},
		"the stable revision was applied after a lost edit":      {v1alpha1.RolloutProgressing, answered(target), stamp(stable, 9), true},
		"both are the same":                                        {v1alpha1.RolloutProgressing, answered(target), stamp(target, 5), false},
		"the Deployment has no revision":                           {v1alpha1.RolloutProgressing, answered(target), stamp(0, 5), false},
		"the entry has no revision":                                {v1alpha1.RolloutProgressing, answered(0), stamp(target, 5), false},
		"the number is absurd":                                     {v1alpha1.RolloutProgressing, answered(target), stamp(numbering.MaxLead+target+1, 5), false},
		"all clusters get the revision of the spec at once":        {"", answered(stable), stamp(target, 5), false},
		"the Deployment is of another AppService of the same name": {v1alpha1.RolloutProgressing, answered(stable), lineage.Stamp{UID: "uid-2", Revision: target, Generation: 5}, false},
	} {
		app := &v1alpha1.AppService{}
		app.UID, app.Generation = "uid-1", 5
		app.Status.Rollout = v1alpha1.RolloutStatus{Revision: target, StableRevision: stable, Phase: c.phase}
		if got := lineage.IsTakenBack(app, &c.entry, c.stamp); got != c.want {
			t.Errorf("%s: %t, want %t", name, got, c.want)
		}
	}
}
