package rollout_test

import (
	"fmt"
	"strings"
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
		"the annotation names the cluster":                                      {in: With(Clusters("U"), Annotated(key, "a")), tombstones: []string{"a"}, droppedWithTombstone: true},
		"the annotation names several clusters, with spaces":                    {in: With(Clusters("U"), Annotated(key, "x , a,")), tombstones: []string{"a"}, droppedWithTombstone: true},
		"the annotation names other clusters":                                   {in: With(Clusters("U"), Annotated(key, "b,aa"))},
		"the annotation is empty":                                               {in: With(Clusters("U"), Annotated(key, ""))},
		"the cluster is reachable":                                              {in: With(Clusters("G"), Annotated(key, "a")), tombstones: []string{"a"}, droppedWithTombstone: true},
		"the removal is already confirmed":                                      {in: With(Clusters("G"), Annotated(key, "a"), Observed("a", Observation(v1alpha1.ClusterRemoving, GoneSince(AnHourAgo)))), dropped: true, droppedWithTombstone: true},
		"the plan chooses the cluster":                                          {in: With(Clusters("r"), Annotated(key, "a"))},
		"the plan chooses a Removing cluster again":                             {in: With(Clusters("U"), Chosen("a"), Annotated(key, "a"))},
		"the AppService is suspended":                                           {in: With(Clusters("U"), Annotated(key, "a"), Suspended)},
		"the removal needs approval":                                            {in: With(Clusters("dd"), Annotated(key, "a"))},
		"deletionPolicy Orphan":                                                 {in: With(Clusters("U"), Annotated(key, "a"), Orphaning), dropped: true, droppedWithTombstone: true},
		"the AppService is being deleted":                                       {in: With(Clusters("U"), Annotated(key, "a"), Deleting), tombstones: []string{"a"}, droppedWithTombstone: true},
		"the cluster is Detached":                                               {in: NewInput(Annotated(key, "east"), WithEntries(Entry("east", v1alpha1.ClusterDetached))), dropped: true},
		"the cluster becomes Detached first":                                    {in: NewInput(Annotated(key, "east"), WithEntries(Entry("east", v1alpha1.ClusterReady)))},
		"the cluster is Detached, and the annotation names another one":         {in: NewInput(Annotated(key, "west"), WithEntries(Entry("east", v1alpha1.ClusterDetached)))},
		"the AppService is being deleted, and the entry becomes Removing first": {in: With(Clusters("r"), Annotated(key, "a"), Deleting)},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(test.tombstones, test.in.TombstonesToAdd()); diff != "" {
				t.Errorf("tombstones to add (-want +got):\n%s", diff)
			}
			first := test.in.App.Status.Clusters[0].Name
			status := StatusOf(test.in)
			if dropped := status.Cluster(first) == nil; dropped != test.dropped {
				t.Errorf("entry dropped: %v, want %v", dropped, test.dropped)
			}
			if test.in.Members[first] == nil {
				return
			}
			WithTombstone(first)(&test.in)
			status = StatusOf(test.in)
			if dropped := status.Cluster(first) == nil; dropped != test.droppedWithTombstone {
				t.Errorf("entry dropped when the tombstone exists: %v, want %v", dropped, test.droppedWithTombstone)
			}
			if again := test.in.TombstonesToAdd(); again != nil {
				t.Errorf("tombstones to add when the tombstone exists: %v", again)
			}
		})
	}
}

// Otherwise an unreachable cluster that waits for its turn to be removed could never be abandoned.
func TestAbandon_of_an_unreachable_cluster_waits_for_no_other_cluster(t *testing.T) {
	if diff := cmp.Diff("RhR", Letters(StatusOf(With(Clusters("Uuu"), Annotated(v1alpha1.AnnotationAbandon, "c"))))); diff != "" {
		t.Errorf("clusters (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff("Rww", Letters(StatusOf(With(Clusters("Gee"), Annotated(v1alpha1.AnnotationAbandon, "c"))))); diff != "" {
		t.Errorf("reachable clusters (-want +got):\n%s", diff)
	}
}

func TestTombstone_is_removed_when_the_AppService_is_placed_on_the_cluster_again(t *testing.T) {
	tests := map[string]struct {
		in   rollout.Input
		want []string
	}{
		"a new entry":                         {in: NewInput(Chosen("east")), want: []string{"east"}},
		"an entry that is Ready":              {in: NewInput(Chosen("east"), WithEntries(Entry("east", v1alpha1.ClusterReady))), want: []string{"east"}},
		"an entry that is no longer Removing": {in: NewInput(Chosen("east"), WithEntries(Entry("east", v1alpha1.ClusterRemoving))), want: []string{"east"}},
		"an entry that is still Removing":     {in: NewInput(NotChosen("east"), WithEntries(Entry("east", v1alpha1.ClusterRemoving)))},
		"no entry":                            {in: NewInput(NotChosen("east"))},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			WithTombstone("east")(&test.in)
			if diff := cmp.Diff(test.want, test.in.TombstonesToRemove(StatusOf(test.in).Clusters)); diff != "" {
				t.Errorf("tombstones to remove (-want +got):\n%s", diff)
			}
			test.in.Members["east"].Status.Abandoned[0].UID = "uid-2"
			if got := test.in.TombstonesToRemove(StatusOf(test.in).Clusters); got != nil {
				t.Errorf("tombstones of another AppService to remove: %v", got)
			}
		})
	}
}

func TestFound_objects_become_entries_again(t *testing.T) {
	foundRow := func(changes ...func(*v1alpha1.ClusterStatus)) []v1alpha1.ClusterStatus {
		return onlyEast(v1alpha1.ClusterProgressing, append([]func(*v1alpha1.ClusterStatus){
			WithReason(v1alpha1.ReasonRollingOut, ""), Desired(0, 0), NeverObserved, Since(Now)}, changes...)...)
	}
	tests := map[string]struct {
		in   rollout.Input
		want []v1alpha1.ClusterStatus
	}{
		"not chosen: needs approval": {
			in: NewInput(NotChosen("east"), Observed("east", Found)),
			want: foundRow(func(entry *v1alpha1.ClusterStatus) {
				entry.Phase, entry.Reason, entry.Message = v1alpha1.ClusterProgressing, v1alpha1.ReasonRemovalNeedsApproval, "the workload was found here without an entry in status.clusters, and the plan does not choose the cluster"+toApprove
				WithTransition(v1alpha1.TransitionRemovalNeedsApproval, v1alpha1.CauseRecovered)(entry)
			}),
		},
		"chosen: gets the desired state": {
			in:   NewInput(Chosen("east"), Observed("east", Found)),
			want: foundRow(Desired(Generation, 2)),
		},
		"suspended: is only observed": {
			in:   NewInput(Chosen("east"), Observed("east", Found), Suspended),
			want: foundRow(),
		},
		"suspended and not chosen: needs approval": {
			in: NewInput(NotChosen("east"), Observed("east", Found), Suspended),
			want: foundRow(func(entry *v1alpha1.ClusterStatus) {
				entry.Reason, entry.Message = v1alpha1.ReasonRemovalNeedsApproval, heldWithoutPlan
				WithTransition(v1alpha1.TransitionRemovalNeedsApproval, v1alpha1.CauseRecovered)(entry)
			}),
		},
		"deleted: is Removing": {
			in: NewInput(Deleting, NotChosen("east"), Observed("east", Found)),
			want: foundRow(Desired(Generation, 0), func(entry *v1alpha1.ClusterStatus) {
				entry.Phase, entry.Reason = v1alpha1.ClusterRemoving, v1alpha1.ReasonRemoving
				WithTransition(v1alpha1.TransitionRemoving, v1alpha1.CauseDeletion)(entry)
			}),
		},
		"an existing entry keeps its desired state": {
			in:   NewInput(Chosen("east"), WithEntries(Entry("east", v1alpha1.ClusterReady)), Observed("east", Found)),
			want: onlyEast(v1alpha1.ClusterProgressing, WithReason(v1alpha1.ReasonRollingOut, ""), WithPods(0, 0), Since(Now)),
		},
		"objects of another AppService are ignored": {
			in: NewInput(NotChosen("east"), Observed("east", observation.Observation{UID: "uid-2", Found: true})),
		},
		"without a MemberCluster there is no entry": {
			in: NewInput(Observed("east", Found)),
		},
		"with a tombstone: needs approval, because the tombstone may come from a backup": {
			in: NewInput(NotChosen("east"), WithTombstone("east"), Observed("east", Found)),
			want: foundRow(func(entry *v1alpha1.ClusterStatus) {
				entry.Phase, entry.Reason, entry.Message = v1alpha1.ClusterProgressing, v1alpha1.ReasonRemovalNeedsApproval, "the workload was found here without an entry in status.clusters, and the plan does not choose the cluster"+toApprove
				WithTransition(v1alpha1.TransitionRemovalNeedsApproval, v1alpha1.CauseRecovered)(entry)
			}),
		},
		"with a tombstone and deleted: no entry": {
			in: NewInput(NotChosen("east"), WithTombstone("east"), Observed("east", Found), Deleting),
		},
		"abandoned with deletionPolicy Orphan: no entry": {
			in: NewInput(NotChosen("east"), Observed("east", Found), Orphaning, Annotated(v1alpha1.AnnotationAbandon, "east")),
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, StatusOf(test.in).Clusters); diff != "" {
				t.Errorf("entries (-want +got):\n%s", diff)
			}
		})
	}
	t.Run("any number needs approval", func(t *testing.T) {
		in := NewInput()
		for i := range 4 {
			NotChosen(ClusterName(i))(&in)
			Observed(ClusterName(i), Found)(&in)
		}
		if got := Letters(StatusOf(in)); got != "hhhh" {
			t.Errorf("clusters %s, want hhhh", got)
		}
	})
}

func TestDeletion_with_a_lost_status(t *testing.T) {
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
		"reachable clusters get an entry, the others a tombstone": {in: lost(), removed: []string{"a"}, tombstones: []string{"b"}},
		"a cluster that has a tombstone gets no other one":        {in: lost(WithTombstone("b")), removed: []string{"a"}},
		"with deletionPolicy Orphan there is no tombstone":        {in: lost(Orphaning), removed: []string{"a"}},
		"an AppService that is not being deleted":                 {in: lost(func(in *rollout.Input) { in.App.DeletionTimestamp = nil }), removed: []string{"a"}},
		"an AppService whose status was observed":                 {in: lost(func(in *rollout.Input) { in.App.Status.ObservedGeneration = 1 })},
		"an AppService without our finalizer":                     {in: lost(func(in *rollout.Input) { in.App.Finalizers = nil })},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(test.tombstones, test.in.TombstonesOfLostStatus()); diff != "" {
				t.Errorf("tombstones to add (-want +got):\n%s", diff)
			}
			if terminating := test.in.TombstonesOfTermination(); terminating != nil {
				t.Errorf("tombstones of a termination: %v", terminating)
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
				t.Errorf("Removing entries (-want +got):\n%s", diff)
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
		"an unreachable Removing cluster":               {Clusters("U"), []string{"a"}},
		"a reachable Removing cluster":                  {Clusters("G"), []string{"a"}},
		"a confirmed removal":                           {With(Clusters("G"), gone), nil},
		"a cluster that has a tombstone":                {With(Clusters("U"), WithTombstone("a")), nil},
		"a Removing cluster with deletionPolicy Orphan": {With(Clusters("U"), Orphaning), nil},
		"a Ready cluster":                               {Clusters("r"), nil},
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
func TestDetached_cluster_gets_a_tombstone_before_its_entry_ends(t *testing.T) {
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
		"the AppService is being deleted, after the grace period":        {in: NewInput(secretless("east"), Deleting, detached(time.Minute)), tombstones: true, keptWithout: true},
		"the AppService is being deleted, during the grace period":       {in: NewInput(secretless("east"), Deleting, detached(time.Second)), keptWithout: true, kept: true},
		"the AppService is being deleted, and the cluster is abandoned":  {in: NewInput(secretless("east"), Deleting, abandoned, detached(time.Second)), tombstones: true, keptWithout: true},
		"the AppService is being deleted with deletionPolicy Orphan":     {in: NewInput(secretless("east"), Deleting, Orphaning, detached(time.Minute))},
		"the AppService is being deleted, and there is no MemberCluster": {in: NewInput(Deleting, detached(time.Minute))},
		"the AppService is being deleted, and the hub is behind":         {in: NewInput(secretless("east"), Deleting, detached(time.Minute), WithEntries(Entry("west", "", isHubBehind))), keptWithout: true},
		"the removal was in progress, and the cluster is abandoned":      {in: NewInput(secretless("east"), abandoned, detached(time.Minute, isRemoving)), tombstones: true, keptWithout: true},
		"the removal was in progress":                                    {in: NewInput(secretless("east"), detached(time.Hour, isRemoving)), keptWithout: true, kept: true},
		"the entry was Ready, and the cluster is abandoned":              {in: NewInput(secretless("east"), abandoned, detached(time.Minute))},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if got := len(test.in.TombstonesToAdd()) > 0; got != test.tombstones {
				t.Errorf("tombstone to add: %v, want %v", got, test.tombstones)
			}
			if got := StatusOf(test.in); (got.Cluster("east") != nil) != test.keptWithout {
				t.Errorf("entry kept: %v, want %v", !test.keptWithout, test.keptWithout)
			}
			member := test.in.Secretless["east"]
			if member == nil || !test.tombstones && !test.kept {
				return
			}
			member.Status.Abandoned = []v1alpha1.AbandonedAppService{{Namespace: "shop", Name: "web", UID: UID}}
			after := StatusOf(test.in)
			if (after.Cluster("east") != nil) != test.kept {
				t.Errorf("entry kept when the tombstone exists: %v, want %v", !test.kept, test.kept)
			}
			if got := test.in.TombstonesToAdd(); got != nil {
				t.Errorf("tombstones to add when the tombstone exists: %v", got)
			}
			if changes := status.Changes(test.in, after); !test.kept && changes[0].Reason != v1alpha1.ReasonAbandoned {
				t.Errorf("changes: %+v", changes)
			}
		})
	}
	t.Run("the namespace is being deleted", func(t *testing.T) {
		in := NewInput(secretless("east"), Deleting, detached(time.Second, isRemoving))
		if diff := cmp.Diff([]string{"east"}, in.TombstonesOfTermination()); diff != "" {
			t.Errorf("tombstones to add (-want +got):\n%s", diff)
		}
	})
	t.Run("the status was lost", func(t *testing.T) {
		in := NewInput(secretless("east"), Deleting)
		in.App.Finalizers, in.App.Status.ObservedGeneration = []string{v1alpha1.Finalizer}, -1
		if diff := cmp.Diff([]string{"east"}, in.TombstonesOfLostStatus()); diff != "" {
			t.Errorf("tombstones to add (-want +got):\n%s", diff)
		}
	})
}

// BenchmarkPlan_of_abandoned_clusters plans a deletion while the annotation abandons every cluster.
func BenchmarkPlan_of_abandoned_clusters(b *testing.B) {
	for _, clusters := range []int{1000, 10000} {
		b.Run(fmt.Sprint(clusters), func(b *testing.B) {
			in := NewInput()
			var names []string
			for i := range clusters {
				name := fmt.Sprintf("member-%05d", i)
				Chosen(name)(&in)
				Unreachable(name)(&in)
				names = append(names, name)
			}
			in = Next(Next(in), Deleting)
			in = Next(in, Annotated(v1alpha1.AnnotationAbandon, strings.Join(names, ",")))
			for b.Loop() {
				in := in.Recover()
				if added := in.TombstonesToAdd(); len(added) != clusters {
					b.Fatalf("%d tombstones", len(added))
				}
				rollout.Plan(in)
			}
		})
	}
}
