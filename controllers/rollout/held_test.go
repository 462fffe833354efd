package rollout_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/rollout"
)

// edit changes spec.placement.
func edit(in *rollout.Input) {
	in.App.Generation++
	placement := &v1alpha1.Placement{}
	if in.App.Spec.Placement != nil {
		placement = in.App.Spec.Placement.DeepCopy()
	}
	placement.SpreadKey = fmt.Sprint("key-", in.App.Generation)
	in.App.Spec.Placement = placement
}

func resumed(in *rollout.Input) { in.App.Spec.Suspend = false }

// A removal that is held remains held until a user approves it or the cluster matches again,
// regardless of what happens in between.
func TestHeld_clusters_stay_held(t *testing.T) {
	type steps = []func(*rollout.Input)
	invalid := planError(errors.New("no"))
	planned := func(in *rollout.Input) { fresh := clusters("rdd"); in.Plan, in.PlanError = fresh.Plan, nil }
	failed := saw("c", seen(v1alpha1.ClusterFailed, saying(v1alpha1.ReasonRefused, "quota")))
	secretIsBack := notChosen("c")
	tests := map[string]struct {
		steps steps
		want  string
	}{
		"nothing happens":                       {steps{}, "rhh"},
		"an edit":                               {steps{edit}, "rhh"},
		"two edits":                             {steps{edit, edit}, "rhh"},
		"while it is suspended":                 {steps{both(edit, suspended)}, "rhh"},
		"and when it goes on":                   {steps{both(edit, suspended), both(edit, resumed)}, "rhh"},
		"suspended for two edits":               {steps{both(edit, suspended), edit, both(edit, resumed)}, "rhh"},
		"suspended over a restart":              {steps{both(edit, suspended), restarted, restarted, both(edit, resumed)}, "rhh"},
		"suspended, and failed meanwhile":       {steps{both(edit, suspended), failed, both(edit, resumed)}, "rhh"},
		"failed, and well while suspended":      {steps{failed, both(edit, suspended), at("c", answering(generation), to(2), counting(2, 2)), both(edit, resumed)}, "rhh"},
		"suspended, and lost meanwhile":         {steps{both(edit, suspended), unreachable("c"), both(edit, resumed)}, "rhh"},
		"suspended, and its Secret was away":    {steps{both(edit, suspended), without("c"), secretIsBack, both(edit, resumed)}, "rhh"},
		"while there is no plan":                {steps{both(edit, invalid)}, "rhh"},
		"and when there is one again":           {steps{both(edit, invalid), both(edit, planned)}, "rhh"},
		"no plan over a restart":                {steps{both(edit, invalid), restarted, restarted, both(edit, planned)}, "rhh"},
		"no plan, and lost meanwhile":           {steps{both(edit, invalid), unreachable("c"), both(edit, planned)}, "rhh"},
		"suspended without a plan":              {steps{both(edit, suspended), both(edit, invalid), both(edit, planned), both(edit, resumed)}, "rhh"},
		"until somebody says so":                {steps{both(edit, suspended), both(edit, resumed), accepting("2@4")}, "rRR"},
		"somebody's word waits while suspended": {steps{both(edit, suspended), accepting("2@3")}, "rhh"},
		"until they fit again":                  {steps{both(edit, suspended), chosen("c"), both(edit, resumed)}, "rhr"},
		"until they fit again, without a plan":  {steps{both(edit, invalid), both(planned, chosen("c"))}, "rhr"},
		"until they fit again, while suspended": {steps{both(edit, suspended), chosen("c")}, "rhr"},
		"until it is deleted, without a plan":   {steps{both(edit, invalid), deleting}, "RRR"},
		"until it is deleted":                   {steps{both(edit, suspended), deleting}, "RRR"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			in := then(clusters("rdd"))
			for _, step := range test.steps {
				in = then(with(in, later(time.Minute), step))
			}
			if diff := cmp.Diff(test.want, letters(in.App.Status)); diff != "" {
				t.Errorf("clusters (-want +got):\n%s\n%s", diff, text(t, in.App.Status.Clusters))
			}
			if diff := cmp.Diff(text(t, in.App.Status), text(t, statusOf(with(in, later(time.Hour))))); diff != "" {
				t.Errorf("at rest (-before +after):\n%s", diff)
			}
		})
	}
}

func both(first, second func(*rollout.Input)) func(*rollout.Input) {
	return func(in *rollout.Input) { first(in); second(in) }
}

const heldUndecided = "the last plan did not choose the cluster: when the AppService is not suspended and its placement is valid, annotate it with " +
	"fleetwright.dev/accept-removals=NUMBER@GENERATION to approve the removal"

func TestHeld_clusters_say_so_while_nothing_can_be_decided(t *testing.T) {
	drifted := moves(v1alpha1.TransitionRemovalNeedsApproval, v1alpha1.CauseDrift)
	for name, change := range map[string]func(*rollout.Input){"suspended": suspended, "no plan": planError(errors.New("no"))} {
		t.Run(name, func(t *testing.T) {
			in := then(clusters("rdd"), later(time.Minute), change)
			held := row("c", v1alpha1.ClusterProgressing, because(v1alpha1.ReasonRemovalNeedsApproval, heldUndecided), drifted, since(now))
			if diff := cmp.Diff(held, *new(statusOf(in)).Cluster("c")); diff != "" {
				t.Errorf("row (-want +got):\n%s", diff)
			}
			failed := with(in, saw("c", seen(v1alpha1.ClusterFailed, saying(v1alpha1.ReasonRefused, "quota"))))
			held = row("c", v1alpha1.ClusterFailed, because(v1alpha1.ReasonRefused, "quota"), drifted, since(in.Now))
			if diff := cmp.Diff(held, *new(statusOf(failed)).Cluster("c")); diff != "" {
				t.Errorf("row of one that failed (-want +got):\n%s", diff)
			}
		})
	}
}
