package rollout_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/observation"
	"github.com/fleetwright/fleetwright/controllers/rollout"
	. "github.com/fleetwright/fleetwright/controllers/rollout/rollouttest"
	"github.com/fleetwright/fleetwright/controllers/status"
)

func TestAbandon(t *testing.T) {
	const key = v1alpha1.AnnotationAbandon
	tests := map[string]struct {
		in                   rollout.Input
		tombstones           []string
		dropped              bool
		droppedWithTombstone bool // the entry ends as soon as the MemberCluster has the tombstone
	}{
		"a cluster that is named":                            {in: With(Clusters("U"), Annotated(key, "a")), tombstones: []string{"a"}, droppedWithTombstone: true},
		"among others, with spaces":                          {in: With(Clusters("U"), Annotated(key, "x , a,")), tombstones: []string{"a"}, droppedWithTombstone: true},
		"another is named":                                   {in: With(Clusters("U"), Annotated(key, "b,aa"))},
		"none is named":                                      {in: With(Clusters("U"), Annotated(key, ""))},
		"one that can be reached":                            {in: With(Clusters("G"), Annotated(key, "a")), tombstones: []string{"a"}, droppedWithTombstone: true},
		"one that is empty already":                          {in: With(Clusters("G"), Annotated(key, "a"), Observed("a", Observation(v1alpha1.ClusterRemoving, GoneSince(AnHourAgo)))), dropped: true, droppedWithTombstone: true},
		"one that runs it, and shall":                        {in: With(Clusters("r"), Annotated(key, "a"))},
		"one that is chosen again":                           {in: With(Clusters("U"), Chosen("a"), Annotated(key, "a"))},
		"one of a suspended AppService":                      {in: With(Clusters("U"), Annotated(key, "a"), Suspended)},
		"one whose removal is held":                          {in: With(Clusters("dd"), Annotated(key, "a"))},
		"one that is to be left as it is":                    {in: With(Clusters("U"), Annotated(key, "a"), Orphaning), dropped: true, droppedWithTombstone: true},
		"one of a deletion":                                  {in: With(Clusters("U"), Annotated(key, "a"), Deleting), tombstones: []string{"a"}, droppedWithTombstone: true},
		"one whose Secret is gone":                           {in: NewInput(Annotated(key, "east"), WithEntries(Entry("east", v1alpha1.ClusterDetached))), dropped: true},
		"one whose Secret goes now is Detached first":        {in: NewInput(Annotated(key, "east"), WithEntries(Entry("east", v1alpha1.ClusterReady)))},
		"one whose Secret is gone, and that is not named":    {in: NewInput(Annotated(key, "west"), WithEntries(Entry("east", v1alpha1.ClusterDetached)))},
		"one that runs it, of a deletion, is Removing first": {in: With(Clusters("r"), Annotated(key, "a"), Deleting)},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(test.tombstones, test.in.TombstonesToAdd()); diff != "" {
				t.Errorf("to remember (-want +got):\n%s", diff)
			}
			first := test.in.App.Status.Clusters[0].Name
			status := StatusOf(test.in)
			if dropped := status.Cluster(first) == nil; dropped != test.dropped {
				t.Errorf("the row is gone: %v, want %v", dropped, test.dropped)
			}
			if test.in.Members[first] == nil {
				return
			}
			WithTombstone(first)(&test.in)
			status = StatusOf(test.in)
			if dropped := status.Cluster(first) == nil; dropped != test.droppedWithTombstone {
				t.Errorf("once it is on record, the row is gone: %v, want %v", dropped, test.droppedWithTombstone)
			}
			if again := test.in.TombstonesToAdd(); again != nil {
				t.Errorf("once it is on record, to remember: %v", again)
			}
		})
	}
}

// Otherwise an unreachable cluster that waits for its turn to be removed could never be abandoned.
func TestAbandon_of_a_lost_cluster_waits_for_no_other(t *testing.T) {
	if diff := cmp.Diff("RhR", Letters(StatusOf(With(Clusters("Uuu"), Annotated(v1alpha1.AnnotationAbandon, "c"))))); diff != "" {
		t.Errorf("clusters (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff("Rww", Letters(StatusOf(With(Clusters("Gee"), Annotated(v1alpha1.AnnotationAbandon, "c"))))); diff != "" {
		t.Errorf("clusters that can be reached (-want +got):\n%s", diff)
	}
}

func TestAbandon_is_forgotten_where_it_is_placed_again(t *testing.T) {
	tests := map[string]struct {
		in   rollout.Input
		want []string
	}{
		"a new row":          {in: NewInput(Chosen("east")), want: []string{"east"}},
		"a row that runs":    {in: NewInput(Chosen("east"), WithEntries(Entry("east", v1alpha1.ClusterReady))), want: []string{"east"}},
		"no longer Removing": {in: NewInput(Chosen("east"), WithEntries(Entry("east", v1alpha1.ClusterRemoving))), want: []string{"east"}},
		"still Removing":     {in: NewInput(NotChosen("east"), WithEntries(Entry("east", v1alpha1.ClusterRemoving)))},
		"no row":             {in: NewInput(NotChosen("east"))},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			WithTombstone("east")(&test.in)
			if diff := cmp.Diff(test.want, test.in.TombstonesToRemove(StatusOf(test.in).Clusters)); diff != "" {
				t.Errorf("to forget (-want +got):\n%s", diff)
			}
			test.in.Members["east"].Status.Abandoned[0].UID = "uid-2"
			if got := test.in.TombstonesToRemove(StatusOf(test.in).Clusters); got != nil {
				t.Errorf("to forget of another AppService: %v", got)
			}
		})
	}
}

func TestFound_objects_bring_their_row_back(t *testing.T) {
	foundRow := func(changes ...func(*v1alpha1.ClusterStatus)) []v1alpha1.ClusterStatus {
		return onlyEast(v1alpha1.ClusterProgressing, append([]func(*v1alpha1.ClusterStatus){
			WithReason(v1alpha1.ReasonRollingOut, ""), Desired(0, 0), NeverObserved, Since(Now)}, changes...)...)
	}
	tests := map[string]struct {
		in   rollout.Input
		want []v1alpha1.ClusterStatus
	}{
		"where it is not chosen it is held, until somebody says so": {
			in: NewInput(NotChosen("east"), Observed("east", Found)),
			want: foundRow(func(entry *v1alpha1.ClusterStatus) {
				entry.Phase, entry.Reason, entry.Message = v1alpha1.ClusterProgressing, v1alpha1.ReasonRemovalNeedsApproval, "the workload was found here without an entry in status.clusters, and the plan does not choose the cluster"+toApprove
				WithTransition(v1alpha1.TransitionRemovalNeedsApproval, v1alpha1.CauseRecovered)(entry)
			}),
		},
		"where it is chosen it is brought in line": {
			in:   NewInput(Chosen("east"), Observed("east", Found)),
			want: foundRow(Desired(Generation, 2)),
		},
		"when it is suspended it is only observed": {
			in:   NewInput(Chosen("east"), Observed("east", Found), Suspended),
			want: foundRow(),
		},
		"when it is suspended and not chosen it is held": {
			in: NewInput(NotChosen("east"), Observed("east", Found), Suspended),
			want: foundRow(func(entry *v1alpha1.ClusterStatus) {
				entry.Reason, entry.Message = v1alpha1.ReasonRemovalNeedsApproval, heldWithoutPlan
				WithTransition(v1alpha1.TransitionRemovalNeedsApproval, v1alpha1.CauseRecovered)(entry)
			}),
		},
		"when it is deleted it is removed": {
			in: NewInput(Deleting, NotChosen("east"), Observed("east", Found)),
			want: foundRow(Desired(Generation, 0), func(entry *v1alpha1.ClusterStatus) {
				entry.Phase, entry.Reason = v1alpha1.ClusterRemoving, v1alpha1.ReasonRemoving
				WithTransition(v1alpha1.TransitionRemoving, v1alpha1.CauseDeletion)(entry)
			}),
		},
		"a row that there is stays as it is": {
			in:   NewInput(Chosen("east"), WithEntries(Entry("east", v1alpha1.ClusterReady)), Observed("east", Found)),
			want: onlyEast(v1alpha1.ClusterProgressing, WithReason(v1alpha1.ReasonRollingOut, ""), WithPods(0, 0), Since(Now)),
		},
		"of another AppService it is none of ours": {
			in: NewInput(NotChosen("east"), Observed("east", observation.Observation{UID: "uid-2", Found: true})),
		},
		"without a MemberCluster there is no row": {
			in: NewInput(Observed("east", Found)),
		},
		"where there is a tombstone it is held too, for that may come from a backup": {
			in: NewInput(NotChosen("east"), WithTombstone("east"), Observed("east", Found)),
			want: foundRow(func(entry *v1alpha1.ClusterStatus) {
				entry.Phase, entry.Reason, entry.Message = v1alpha1.ClusterProgressing, v1alpha1.ReasonRemovalNeedsApproval, "the workload was found here without an entry in status.clusters, and the plan does not choose the cluster"+toApprove
				WithTransition(v1alpha1.TransitionRemovalNeedsApproval, v1alpha1.CauseRecovered)(entry)
			}),
		},
		"where there is a tombstone and it is deleted there is no row": {
			in: NewInput(NotChosen("east"), WithTombstone("east"), Observed("east", Found), Deleting),
		},
		"where it was let go of, to be left, there is no row": {
			in: NewInput(NotChosen("east"), Observed("east", Found), Orphaning, Annotated(v1alpha1.AnnotationAbandon, "east")),
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, StatusOf(test.in).Clusters); diff != "" {
				t.Errorf("rows (-want +got):\n%s", diff)
			}
		})
	}
	t.Run("they are held, however many", func(t *testing.T) {
		in := NewInput()
		for i := range 4 {
			NotChosen(ClusterName(i))(&in)
			Observed(ClusterName(i), Found)(&in)
		}
		if got := Letters(StatusOf(in)); got != "hhhh" {
			t.Errorf("got %s, want hhhh", got)
		}
	})
}

func TestStatus_that_was_lost(t *testing.T) {
	lost := func(changes ...func(*rollout.Input)) rollout.Input {
		return NewInput(append([]func(*rollout.Input){Deleting, Chosen("a"), Chosen("b"), Unreachable("b"), func(in *rollout.Input) {
			in.App.Finalizers = []string{v1alpha1.Finalizer}
			in.App.Status.ObservedGeneration = -1
		}}, changes...)...)
	}
	tests := map[string]struct {
		in         rollout.Input
		removed    []string
		tombstones []string
	}{
		"who can be reached is asked, the others are on record": {in: lost(), removed: []string{"a"}, tombstones: []string{"b"}},
		"one that is on record already":                         {in: lost(WithTombstone("b")), removed: []string{"a"}},
		"what is to be left is not removed later":               {in: lost(Orphaning), removed: []string{"a"}},
		"one that is not deleted":                               {in: lost(func(in *rollout.Input) { in.App.DeletionTimestamp = nil }), removed: []string{"a"}},
		"one that was planned":                                  {in: lost(func(in *rollout.Input) { in.App.Status.ObservedGeneration = 1 })},
		"one that never was ours":                               {in: lost(func(in *rollout.Input) { in.App.Finalizers = nil })},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(test.tombstones, test.in.TombstonesOfLostStatus()); diff != "" {
				t.Errorf("to remember (-want +got):\n%s", diff)
			}
			if swept := test.in.TombstonesOfTermination(); swept != nil {
				t.Errorf("a namespace that goes has it remember %v", swept)
			}
			var removed []string
			for _, entry := range StatusOf(test.in).Clusters {
				if entry.Name == "a" {
					removed = append(removed, entry.Name)
				}
				if test.in.IsStatusLost() && entry.Phase != v1alpha1.ClusterRemoving {
					t.Errorf("%s is %s", entry.Name, entry.Phase)
				}
			}
			if diff := cmp.Diff(test.removed, removed); diff != "" {
				t.Errorf("asked (-want +got):\n%s", diff)
			}
		})
	}
}

// Clusters whose removal was already in progress when the namespace began to terminate get a
// tombstone. No other cluster gets one.
func TestTombstonesOfTermination(t *testing.T) {
	gone := Observed("a", Observation(v1alpha1.ClusterRemoving, GoneSince(AnHourAgo)))
	tests := map[string]struct {
		in   rollout.Input
		want []string
	}{
		"from a cluster that cannot be reached": {Clusters("U"), []string{"a"}},
		"from a cluster that can":               {Clusters("G"), []string{"a"}},
		"until nothing is left":                 {With(Clusters("G"), gone), nil},
		"not twice":                             {With(Clusters("U"), WithTombstone("a")), nil},
		"not where it is to be left":            {With(Clusters("U"), Orphaning), nil},
		"not where it runs":                     {Clusters("r"), nil},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, With(test.in, Deleting).TombstonesOfTermination()); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// secretless makes a cluster one whose MemberCluster has no Secret.
func secretless(cluster string) func(*rollout.Input) {
	return func(in *rollout.Input) {
		delete(in.Members, cluster)
		in.Secretless = map[string]*v1alpha1.MemberCluster{cluster: NewMember(cluster, metav1.ConditionFalse)}
	}
}

// A removal that was decided must not be forgotten while a Secret is temporarily missing.
func TestDetached_cluster_gets_a_tombstone_before_its_entry_goes(t *testing.T) {
	detached := func(age time.Duration, changes ...func(*v1alpha1.ClusterStatus)) func(*rollout.Input) {
		return WithEntries(Entry("east", v1alpha1.ClusterDetached, append(changes, Since(Ago(age)))...))
	}
	isRemoving := WithTransition(v1alpha1.TransitionRemoving, v1alpha1.CauseEdit)
	abandoned := Annotated(v1alpha1.AnnotationAbandon, "east")
	tests := map[string]struct {
		in          rollout.Input
		tombstones  bool
		keptWithout bool // whether the entry stays without a tombstone
		kept        bool // whether the entry also stays with a tombstone
	}{
		"of a deletion":                          {in: NewInput(secretless("east"), Deleting, detached(time.Minute)), tombstones: true, keptWithout: true},
		"of a deletion, a moment ago":            {in: NewInput(secretless("east"), Deleting, detached(time.Second)), keptWithout: true, kept: true},
		"of a deletion that was abandoned":       {in: NewInput(secretless("east"), Deleting, abandoned, detached(time.Second)), tombstones: true, keptWithout: true},
		"of a deletion that leaves the workload": {in: NewInput(secretless("east"), Deleting, Orphaning, detached(time.Minute))},
		"of a deletion without a MemberCluster":  {in: NewInput(Deleting, detached(time.Minute))},
		"of a deletion while the hub is behind":  {in: NewInput(secretless("east"), Deleting, detached(time.Minute), WithEntries(Entry("west", "", isHubBehind))), keptWithout: true},
		"that was being removed, and abandoned":  {in: NewInput(secretless("east"), abandoned, detached(time.Minute, isRemoving)), tombstones: true, keptWithout: true},
		"that was being removed":                 {in: NewInput(secretless("east"), detached(time.Hour, isRemoving)), keptWithout: true, kept: true},
		"that ran it, and abandoned":             {in: NewInput(secretless("east"), abandoned, detached(time.Minute))},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if got := len(test.in.TombstonesToAdd()) > 0; got != test.tombstones {
				t.Errorf("to remember: %v, want %v", got, test.tombstones)
			}
			if got := StatusOf(test.in); (got.Cluster("east") != nil) != test.keptWithout {
				t.Errorf("the entry stays: %v, want %v", !test.keptWithout, test.keptWithout)
			}
			member := test.in.Secretless["east"]
			if member == nil || !test.tombstones && !test.kept {
				return
			}
			member.Status.Abandoned = []v1alpha1.AbandonedAppService{{Namespace: "shop", Name: "web", UID: UID}}
			after := StatusOf(test.in)
			if (after.Cluster("east") != nil) != test.kept {
				t.Errorf("once it is on record, the entry stays: %v, want %v", !test.kept, test.kept)
			}
			if got := test.in.TombstonesToAdd(); got != nil {
				t.Errorf("once it is on record, to remember: %v", got)
			}
			if changes := status.Changes(test.in, after); !test.kept && changes[0].Reason != v1alpha1.ReasonAbandoned {
				t.Errorf("changes: %+v", changes)
			}
		})
	}
	t.Run("when the namespace goes", func(t *testing.T) {
		in := NewInput(secretless("east"), Deleting, detached(time.Second, isRemoving))
		if diff := cmp.Diff([]string{"east"}, in.TombstonesOfTermination()); diff != "" {
			t.Errorf("to remember (-want +got):\n%s", diff)
		}
	})
	t.Run("when the status was lost", func(t *testing.T) {
		in := NewInput(secretless("east"), Deleting)
		in.App.Finalizers, in.App.Status.ObservedGeneration = []string{v1alpha1.Finalizer}, -1
		if diff := cmp.Diff([]string{"east"}, in.TombstonesOfLostStatus()); diff != "" {
			t.Errorf("to remember (-want +got):\n%s", diff)
		}
	})
}
