package rollout_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/observation"
	"github.com/fleetwright/fleetwright/controllers/rollout"
	"github.com/fleetwright/fleetwright/controllers/status"
)

func TestAbandon(t *testing.T) {
	const key = v1alpha1.AnnotationAbandon
	tests := map[string]struct {
		in         rollout.Input
		remembers  []string
		isDropped  bool
		whenOnFile bool // the entry ends as soon as the MemberCluster has the tombstone
	}{
		"a cluster that is named":                            {in: with(clusters("U"), annotated(key, "a")), remembers: []string{"a"}, whenOnFile: true},
		"among others, with spaces":                          {in: with(clusters("U"), annotated(key, "x , a,")), remembers: []string{"a"}, whenOnFile: true},
		"another is named":                                   {in: with(clusters("U"), annotated(key, "b,aa"))},
		"none is named":                                      {in: with(clusters("U"), annotated(key, ""))},
		"one that can be reached":                            {in: with(clusters("G"), annotated(key, "a")), remembers: []string{"a"}, whenOnFile: true},
		"one that is empty already":                          {in: with(clusters("G"), annotated(key, "a"), saw("a", seen(v1alpha1.ClusterRemoving, goneSince(before)))), isDropped: true, whenOnFile: true},
		"one that runs it, and shall":                        {in: with(clusters("r"), annotated(key, "a"))},
		"one that is chosen again":                           {in: with(clusters("U"), chosen("a"), annotated(key, "a"))},
		"one of a suspended AppService":                      {in: with(clusters("U"), annotated(key, "a"), suspended)},
		"one whose removal is held":                          {in: with(clusters("dd"), annotated(key, "a"))},
		"one that is to be left as it is":                    {in: with(clusters("U"), annotated(key, "a"), orphaning), isDropped: true, whenOnFile: true},
		"one of a deletion":                                  {in: with(clusters("U"), annotated(key, "a"), deleting), remembers: []string{"a"}, whenOnFile: true},
		"one whose Secret is gone":                           {in: given(annotated(key, "east"), has(row("east", v1alpha1.ClusterDetached))), isDropped: true},
		"one whose Secret goes now is Detached first":        {in: given(annotated(key, "east"), has(row("east", v1alpha1.ClusterReady)))},
		"one whose Secret is gone, and that is not named":    {in: given(annotated(key, "west"), has(row("east", v1alpha1.ClusterDetached)))},
		"one that runs it, of a deletion, is Removing first": {in: with(clusters("r"), annotated(key, "a"), deleting)},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(test.remembers, test.in.TombstonesToAdd()); diff != "" {
				t.Errorf("to remember (-want +got):\n%s", diff)
			}
			first := test.in.App.Status.Clusters[0].Name
			status := statusOf(test.in)
			if dropped := status.Cluster(first) == nil; dropped != test.isDropped {
				t.Errorf("the row is gone: %v, want %v", dropped, test.isDropped)
			}
			if test.in.Members[first] == nil {
				return
			}
			remembering(first)(&test.in)
			status = statusOf(test.in)
			if dropped := status.Cluster(first) == nil; dropped != test.whenOnFile {
				t.Errorf("once it is on record, the row is gone: %v, want %v", dropped, test.whenOnFile)
			}
			if again := test.in.TombstonesToAdd(); again != nil {
				t.Errorf("once it is on record, to remember: %v", again)
			}
		})
	}
}

// Otherwise an unreachable cluster that waits for its turn to be removed could never be abandoned.
func TestAbandon_of_a_lost_cluster_waits_for_no_other(t *testing.T) {
	if diff := cmp.Diff("RhR", letters(statusOf(with(clusters("Uuu"), annotated(v1alpha1.AnnotationAbandon, "c"))))); diff != "" {
		t.Errorf("clusters (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff("Rww", letters(statusOf(with(clusters("Gee"), annotated(v1alpha1.AnnotationAbandon, "c"))))); diff != "" {
		t.Errorf("clusters that can be reached (-want +got):\n%s", diff)
	}
}

func TestAbandon_is_forgotten_where_it_is_placed_again(t *testing.T) {
	tests := map[string]struct {
		in   rollout.Input
		want []string
	}{
		"a new row":          {in: given(chosen("east")), want: []string{"east"}},
		"a row that runs":    {in: given(chosen("east"), has(row("east", v1alpha1.ClusterReady))), want: []string{"east"}},
		"no longer Removing": {in: given(chosen("east"), has(row("east", v1alpha1.ClusterRemoving))), want: []string{"east"}},
		"still Removing":     {in: given(notChosen("east"), has(row("east", v1alpha1.ClusterRemoving)))},
		"no row":             {in: given(notChosen("east"))},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			remembering("east")(&test.in)
			if diff := cmp.Diff(test.want, test.in.TombstonesToRemove(statusOf(test.in).Clusters)); diff != "" {
				t.Errorf("to forget (-want +got):\n%s", diff)
			}
			test.in.Members["east"].Status.Abandoned[0].UID = "uid-2"
			if got := test.in.TombstonesToRemove(statusOf(test.in).Clusters); got != nil {
				t.Errorf("to forget of another AppService: %v", got)
			}
		})
	}
}

func TestFound_objects_bring_their_row_back(t *testing.T) {
	foundRow := func(changes ...func(*v1alpha1.ClusterStatus)) []v1alpha1.ClusterStatus {
		return rows(v1alpha1.ClusterProgressing, append([]func(*v1alpha1.ClusterStatus){
			because(v1alpha1.ReasonRollingOut, ""), plannedFor(0, 0), neverSeen, since(now)}, changes...)...)
	}
	tests := map[string]struct {
		in   rollout.Input
		want []v1alpha1.ClusterStatus
	}{
		"where it is not chosen it is held, until somebody says so": {
			in: given(notChosen("east"), saw("east", found)),
			want: foundRow(func(row *v1alpha1.ClusterStatus) {
				row.Phase, row.Reason, row.Message = v1alpha1.ClusterProgressing, v1alpha1.ReasonRemovalNeedsApproval, "the workload was found here without an entry in status.clusters, and the plan does not choose the cluster"+asks
				moves(v1alpha1.TransitionRemovalNeedsApproval, v1alpha1.CauseRecovered)(row)
			}),
		},
		"where it is chosen it is brought in line": {
			in:   given(chosen("east"), saw("east", found)),
			want: foundRow(plannedFor(generation, 2)),
		},
		"when it is suspended it is only observed": {
			in:   given(chosen("east"), saw("east", found), suspended),
			want: foundRow(),
		},
		"when it is suspended and not chosen it is held": {
			in: given(notChosen("east"), saw("east", found), suspended),
			want: foundRow(func(row *v1alpha1.ClusterStatus) {
				row.Reason, row.Message = v1alpha1.ReasonRemovalNeedsApproval, heldUndecided
				moves(v1alpha1.TransitionRemovalNeedsApproval, v1alpha1.CauseRecovered)(row)
			}),
		},
		"when it is deleted it is removed": {
			in: given(deleting, notChosen("east"), saw("east", found)),
			want: foundRow(plannedFor(generation, 0), func(row *v1alpha1.ClusterStatus) {
				row.Phase, row.Reason = v1alpha1.ClusterRemoving, v1alpha1.ReasonRemoving
				moves(v1alpha1.TransitionRemoving, v1alpha1.CauseDeletion)(row)
			}),
		},
		"a row that there is stays as it is": {
			in:   given(chosen("east"), has(row("east", v1alpha1.ClusterReady)), saw("east", found)),
			want: rows(v1alpha1.ClusterProgressing, because(v1alpha1.ReasonRollingOut, ""), running(0, 0), since(now)),
		},
		"of another AppService it is none of ours": {
			in: given(notChosen("east"), saw("east", observation.Observation{UID: "uid-2", Found: true})),
		},
		"without a MemberCluster there is no row": {
			in: given(saw("east", found)),
		},
		"where there is a tombstone it is held too, for that may come from a backup": {
			in: given(notChosen("east"), remembering("east"), saw("east", found)),
			want: foundRow(func(row *v1alpha1.ClusterStatus) {
				row.Phase, row.Reason, row.Message = v1alpha1.ClusterProgressing, v1alpha1.ReasonRemovalNeedsApproval, "the workload was found here without an entry in status.clusters, and the plan does not choose the cluster"+asks
				moves(v1alpha1.TransitionRemovalNeedsApproval, v1alpha1.CauseRecovered)(row)
			}),
		},
		"where there is a tombstone and it is deleted there is no row": {
			in: given(notChosen("east"), remembering("east"), saw("east", found), deleting),
		},
		"where it was let go of, to be left, there is no row": {
			in: given(notChosen("east"), saw("east", found), orphaning, annotated(v1alpha1.AnnotationAbandon, "east")),
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, statusOf(test.in).Clusters); diff != "" {
				t.Errorf("rows (-want +got):\n%s", diff)
			}
		})
	}
	t.Run("they are held, however many", func(t *testing.T) {
		in := given()
		for i := range 4 {
			notChosen(nameOf(i))(&in)
			saw(nameOf(i), found)(&in)
		}
		if got := letters(statusOf(in)); got != "hhhh" {
			t.Errorf("got %s, want hhhh", got)
		}
	})
}

func TestStatus_that_was_lost(t *testing.T) {
	lost := func(changes ...func(*rollout.Input)) rollout.Input {
		return given(append([]func(*rollout.Input){deleting, chosen("a"), chosen("b"), unreachable("b"), func(in *rollout.Input) {
			in.App.Finalizers = []string{v1alpha1.Finalizer}
			in.App.Status.ObservedGeneration = -1
		}}, changes...)...)
	}
	tests := map[string]struct {
		in        rollout.Input
		asked     []string
		remembers []string
	}{
		"who can be reached is asked, the others are on record": {in: lost(), asked: []string{"a"}, remembers: []string{"b"}},
		"one that is on record already":                         {in: lost(remembering("b")), asked: []string{"a"}},
		"what is to be left is not removed later":               {in: lost(orphaning), asked: []string{"a"}},
		"one that is not deleted":                               {in: lost(func(in *rollout.Input) { in.App.DeletionTimestamp = nil }), asked: []string{"a"}},
		"one that was planned":                                  {in: lost(func(in *rollout.Input) { in.App.Status.ObservedGeneration = 1 })},
		"one that never was ours":                               {in: lost(func(in *rollout.Input) { in.App.Finalizers = nil })},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(test.remembers, test.in.TombstonesOfLostStatus()); diff != "" {
				t.Errorf("to remember (-want +got):\n%s", diff)
			}
			if swept := test.in.TombstonesOfTermination(); swept != nil {
				t.Errorf("a namespace that goes has it remember %v", swept)
			}
			var asked []string
			for _, row := range statusOf(test.in).Clusters {
				if row.Name == "a" {
					asked = append(asked, row.Name)
				}
				if test.in.IsStatusLost() && row.Phase != v1alpha1.ClusterRemoving {
					t.Errorf("%s is %s", row.Name, row.Phase)
				}
			}
			if diff := cmp.Diff(test.asked, asked); diff != "" {
				t.Errorf("asked (-want +got):\n%s", diff)
			}
		})
	}
}

// Clusters whose removal was already in progress when the namespace began to terminate get a
// tombstone. No other cluster gets one.
func TestTombstonesOfTermination(t *testing.T) {
	gone := saw("a", seen(v1alpha1.ClusterRemoving, goneSince(before)))
	tests := map[string]struct {
		in   rollout.Input
		want []string
	}{
		"from a cluster that cannot be reached": {clusters("U"), []string{"a"}},
		"from a cluster that can":               {clusters("G"), []string{"a"}},
		"until nothing is left":                 {with(clusters("G"), gone), nil},
		"not twice":                             {with(clusters("U"), remembering("a")), nil},
		"not where it is to be left":            {with(clusters("U"), orphaning), nil},
		"not where it runs":                     {clusters("r"), nil},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, with(test.in, deleting).TombstonesOfTermination()); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// secretless makes a cluster one whose MemberCluster has no Secret.
func secretless(cluster string) func(*rollout.Input) {
	return func(in *rollout.Input) {
		delete(in.Members, cluster)
		in.Secretless = map[string]*v1alpha1.MemberCluster{cluster: member(cluster, metav1.ConditionFalse)}
	}
}

// A removal that was decided must not be forgotten while a Secret is temporarily missing.
func TestDetached_cluster_gets_a_tombstone_before_its_entry_goes(t *testing.T) {
	detached := func(age time.Duration, changes ...func(*v1alpha1.ClusterStatus)) func(*rollout.Input) {
		return has(row("east", v1alpha1.ClusterDetached, append(changes, since(ago(age)))...))
	}
	isRemoving := moves(v1alpha1.TransitionRemoving, v1alpha1.CauseEdit)
	abandoned := annotated(v1alpha1.AnnotationAbandon, "east")
	tests := map[string]struct {
		in        rollout.Input
		remembers bool
		stays     bool // whether the entry stays without a tombstone
		kept      bool // whether the entry also stays with a tombstone
	}{
		"of a deletion":                          {in: given(secretless("east"), deleting, detached(time.Minute)), remembers: true, stays: true},
		"of a deletion, a moment ago":            {in: given(secretless("east"), deleting, detached(time.Second)), stays: true, kept: true},
		"of a deletion that was abandoned":       {in: given(secretless("east"), deleting, abandoned, detached(time.Second)), remembers: true, stays: true},
		"of a deletion that leaves the workload": {in: given(secretless("east"), deleting, orphaning, detached(time.Minute))},
		"of a deletion without a MemberCluster":  {in: given(deleting, detached(time.Minute))},
		"of a deletion while the hub is behind":  {in: given(secretless("east"), deleting, detached(time.Minute), has(row("west", "", isHubBehind))), stays: true},
		"that was being removed, and abandoned":  {in: given(secretless("east"), abandoned, detached(time.Minute, isRemoving)), remembers: true, stays: true},
		"that was being removed":                 {in: given(secretless("east"), detached(time.Hour, isRemoving)), stays: true, kept: true},
		"that ran it, and abandoned":             {in: given(secretless("east"), abandoned, detached(time.Minute))},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if got := len(test.in.TombstonesToAdd()) > 0; got != test.remembers {
				t.Errorf("to remember: %v, want %v", got, test.remembers)
			}
			if got := statusOf(test.in); (got.Cluster("east") != nil) != test.stays {
				t.Errorf("the entry stays: %v, want %v", !test.stays, test.stays)
			}
			member := test.in.Secretless["east"]
			if member == nil || !test.remembers && !test.kept {
				return
			}
			member.Status.Abandoned = []v1alpha1.AbandonedAppService{{Namespace: "shop", Name: "web", UID: uid}}
			after := statusOf(test.in)
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
		in := given(secretless("east"), deleting, detached(time.Second, isRemoving))
		if diff := cmp.Diff([]string{"east"}, in.TombstonesOfTermination()); diff != "" {
			t.Errorf("to remember (-want +got):\n%s", diff)
		}
	})
	t.Run("when the status was lost", func(t *testing.T) {
		in := given(secretless("east"), deleting)
		in.App.Finalizers, in.App.Status.ObservedGeneration = []string{v1alpha1.Finalizer}, -1
		if diff := cmp.Diff([]string{"east"}, in.TombstonesOfLostStatus()); diff != "" {
			t.Errorf("to remember (-want +got):\n%s", diff)
		}
	})
}
