package rollout_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/rollout"
	. "github.com/fleetwright/fleetwright/controllers/rollout/rollouttest"
)

// edit changes spec.placement.
func editPlacement(in *rollout.Input) {
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
func TestRemoval_needs_approval_until_it_is_approved(t *testing.T) {
	type steps = []func(*rollout.Input)
	invalid := WithPlanError(errors.New("no"))
	planned := func(in *rollout.Input) { fresh := Clusters("rdd"); in.Plan, in.PlanError = fresh.Plan, nil }
	failed := Observed("c", Observation(v1alpha1.ClusterFailed, Reporting(v1alpha1.ReasonRefused, "quota")))
	secretIsBack := NotChosen("c")
	tests := map[string]struct {
		steps steps
		want  string
	}{
		"nothing happens":                              {steps{}, "rhh"},
		"an edit":                                      {steps{editPlacement}, "rhh"},
		"two edits":                                    {steps{editPlacement, editPlacement}, "rhh"},
		"suspended":                                    {steps{both(editPlacement, Suspended)}, "rhh"},
		"suspended and resumed":                        {steps{both(editPlacement, Suspended), both(editPlacement, resumed)}, "rhh"},
		"suspended for two edits":                      {steps{both(editPlacement, Suspended), editPlacement, both(editPlacement, resumed)}, "rhh"},
		"suspended during a restart":                   {steps{both(editPlacement, Suspended), Restarted, Restarted, both(editPlacement, resumed)}, "rhh"},
		"suspended, and failed meanwhile":              {steps{both(editPlacement, Suspended), failed, both(editPlacement, resumed)}, "rhh"},
		"failed, and Ready while suspended":            {steps{failed, both(editPlacement, Suspended), reportsReady("c", Answering(Generation), AnsweringReplicas(2), Counting(2, 2)), both(editPlacement, resumed)}, "rhh"},
		"suspended, and unreachable meanwhile":         {steps{both(editPlacement, Suspended), Unreachable("c"), both(editPlacement, resumed)}, "rhh"},
		"suspended, and its Secret was missing":        {steps{both(editPlacement, Suspended), withoutMember("c"), secretIsBack, both(editPlacement, resumed)}, "rhh"},
		"no plan":                                      {steps{both(editPlacement, invalid)}, "rhh"},
		"no plan, and a plan again":                    {steps{both(editPlacement, invalid), both(editPlacement, planned)}, "rhh"},
		"no plan during a restart":                     {steps{both(editPlacement, invalid), Restarted, Restarted, both(editPlacement, planned)}, "rhh"},
		"no plan, and unreachable meanwhile":           {steps{both(editPlacement, invalid), Unreachable("c"), both(editPlacement, planned)}, "rhh"},
		"suspended, no plan, a plan again and resumed": {steps{both(editPlacement, Suspended), both(editPlacement, invalid), both(editPlacement, planned), both(editPlacement, resumed)}, "rhh"},
		"approved after the suspension":                {steps{both(editPlacement, Suspended), both(editPlacement, resumed), both(AcceptRemovals("2@4"), reportsReady("a", Answering(4)))}, "rRR"},
		"approved while suspended":                     {steps{both(editPlacement, Suspended), AcceptRemovals("2@3")}, "rhh"},
		"chosen again while suspended, and resumed":    {steps{both(editPlacement, Suspended), Chosen("c"), both(editPlacement, resumed)}, "rhr"},
		"chosen again by the first plan":               {steps{both(editPlacement, invalid), both(planned, Chosen("c"))}, "rhr"},
		"chosen again while suspended":                 {steps{both(editPlacement, Suspended), Chosen("c")}, "rhr"},
		"deleted without a plan":                       {steps{both(editPlacement, invalid), Deleting}, "RRR"},
		"deleted while suspended":                      {steps{both(editPlacement, Suspended), Deleting}, "RRR"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			in := Next(Clusters("rdd"))
			for _, step := range test.steps {
				in = Next(With(in, Later(time.Minute), step))
			}
			if diff := cmp.Diff(test.want, Letters(in.App.Status)); diff != "" {
				t.Errorf("clusters (-want +got):\n%s\n%s", diff, toJSON(t, in.App.Status.Clusters))
			}
			if diff := cmp.Diff(toJSON(t, in.App.Status), toJSON(t, StatusOf(With(in, Later(time.Hour))))); diff != "" {
				t.Errorf("the status changed at rest (-before +after):\n%s", diff)
			}
		})
	}
}

func both(first, second func(*rollout.Input)) func(*rollout.Input) {
	return func(in *rollout.Input) { first(in); second(in) }
}

const heldWithoutPlan = "the last plan did not choose the cluster: when the AppService is not suspended and its placement is valid, annotate it with " +
	"fleetwright.dev/accept-removals=NUMBER@GENERATION to approve the removal"

func TestRemoval_that_needs_approval_is_explained_without_a_plan(t *testing.T) {
	needsApproval := WithTransition(v1alpha1.TransitionRemovalNeedsApproval, v1alpha1.CauseClustersChanged)
	for name, change := range map[string]func(*rollout.Input){"suspended": Suspended, "no plan": WithPlanError(errors.New("no"))} {
		t.Run(name, func(t *testing.T) {
			in := Next(Clusters("rdd"), Later(time.Minute), change)
			held := Entry("c", v1alpha1.ClusterProgressing, WithReason(v1alpha1.ReasonRemovalNeedsApproval, heldWithoutPlan), needsApproval, Since(Now))
			if diff := cmp.Diff(held, *new(StatusOf(in)).Cluster("c")); diff != "" {
				t.Errorf("entry (-want +got):\n%s", diff)
			}
			failed := With(in, Observed("c", Observation(v1alpha1.ClusterFailed, Reporting(v1alpha1.ReasonRefused, "quota"))))
			held = Entry("c", v1alpha1.ClusterFailed, WithReason(v1alpha1.ReasonRefused, "quota"), needsApproval, Since(in.Now))
			if diff := cmp.Diff(held, *new(StatusOf(failed)).Cluster("c")); diff != "" {
				t.Errorf("entry of a failed cluster (-want +got):\n%s", diff)
			}
		})
	}
}
