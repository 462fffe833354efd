package rollout_test

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/placement"
	"github.com/fleetwright/fleetwright/controllers/rollout"
	. "github.com/fleetwright/fleetwright/controllers/rollout/rollouttest"
)

// lost makes a cluster of the plan one that has not been observable for long.
func unobservable(cluster string) func(*rollout.Input) {
	return func(in *rollout.Input) {
		Unreachable(cluster)(in)
		delete(in.Observations, cluster)
		for i := range in.App.Status.Clusters {
			if entry := &in.App.Status.Clusters[i]; entry.Name == cluster {
				WithReason(v1alpha1.ReasonClusterUnreachable, "; last known: Ready, 2 of 2 replicas ready")(entry)
				entry.Phase = v1alpha1.ClusterUnknown
			}
		}
	}
}

// displaced makes the limit exclude a cluster.
func beyondLimit(cluster string) func(*rollout.Input) {
	return func(in *rollout.Input) {
		SetDecision(in, placement.Decision{Cluster: cluster, Reason: v1alpha1.ReasonLimitReached})
	}
}

// assigned sets the desired replicas of an entry.
func withReplicas(cluster string, replicas int32) func(*rollout.Input) {
	return func(in *rollout.Input) { in.App.Status.Cluster(cluster).Replicas = replicas }
}

func secretMissing(cluster string) func(*rollout.Input) {
	return func(in *rollout.Input) {
		SetDecision(in, placement.Decision{Cluster: cluster, Reason: v1alpha1.ReasonSecretMissing})
	}
}

func notJoined(cluster string) func(*rollout.Input) {
	return func(in *rollout.Input) {
		SetDecision(in, placement.Decision{Cluster: cluster, Reason: v1alpha1.ReasonNoSuchCluster})
	}
}

// unedited makes all entries those of the current generation.
func alreadyPlanned(in *rollout.Input) {
	for i := range in.App.Status.Clusters {
		in.App.Status.Clusters[i].Generation = Generation
	}
	in.App.Status.ObservedGeneration = Generation
}

// A change that no user requested does not remove replicas that are needed, as far as is known.
func TestRemovals_and_scale_downs_without_an_edit_wait_for_ready_replicas(t *testing.T) {
	unready := Annotated(v1alpha1.AnnotationAcceptUnready, "true")
	halves := func(in *rollout.Input) { Divided(4)(in) }
	tests := map[string]struct {
		in   rollout.Input
		want string
	}{
		"the last one that is ready":                    {With(Clusters("drr"), unobservable("b"), unobservable("c")), "a=2w b=2? c=2?"},
		"one that is ready remains":                     {With(Clusters("drr"), unobservable("b")), "a=2R b=2? c=2"},
		"by somebody's word":                            {With(Clusters("drr"), unobservable("b"), unobservable("c"), unready), "a=2R b=2? c=2?"},
		"an edit asks for it":                           {With(Clusters("err"), unobservable("b"), unobservable("c")), "a=2R b=2? c=2?"},
		"a word about removals is another":              {With(Clusters("drr"), unobservable("b"), unobservable("c"), AcceptRemovals("1@2")), "a=2w b=2? c=2?"},
		"nothing is ready there":                        {With(Clusters("drr"), unobservable("b"), unobservable("c"), Observed("a", Observation(v1alpha1.ClusterProgressing, Counting(2, 0)))), "a=2R b=2? c=2?"},
		"one that cannot be observed may serve":         {With(Clusters("drr"), unobservable("a"), unobservable("b"), unobservable("c")), "a=2? b=2? c=2?"},
		"a limit takes others":                          {With(Clusters("drr"), beyondLimit("a"), unobservable("b"), unobservable("c")), "a=2w b=2? c=2?"},
		"many that a limit leaves out need no word":     {With(Clusters("dddr"), beyondLimit("a"), beyondLimit("b"), beyondLimit("c")), "a=2R b=2w c=2w d=2"},
		"divided: all must be ready":                    {With(Clusters("drr"), halves, unobservable("b")), "a=2w b=2? c=2"},
		"divided: all are":                              {With(Clusters("drr"), halves), "a=2R b=2 c=2"},
		"divided: a share is lowered while one is lost": {NewInput(halves, share("a", 3, 3, 2), share("b", 2, 2, 2), alreadyPlanned, unobservable("b")), "a=3 b=2?"},
		"divided: a share is lowered by an edit":        {NewInput(halves, share("a", 3, 3, 2), share("b", 2, 2, 2), unobservable("b")), "a=2 b=2?"},
		"divided: a share is lowered by a word":         {NewInput(halves, share("a", 3, 3, 2), share("b", 2, 2, 2), alreadyPlanned, unobservable("b"), unready), "a=2 b=2?"},
		"an override empties the last one":              {NewInput(share("a", 2, 2, 0), share("b", 2, 2, 2), alreadyPlanned, unobservable("b")), "a=2 b=2?"},
		"an override empties the only one":              {NewInput(share("a", 2, 2, 0), alreadyPlanned), "a=2"},
		"an override empties one of two":                {NewInput(share("a", 2, 2, 0), share("b", 2, 2, 2), alreadyPlanned), "a=0 b=2"},
		"an override empties one by an edit":            {NewInput(share("a", 2, 2, 0)), "a=0"},
		"the last one, not yet scaled up from 0":        {With(Clusters("e"), withReplicas("a", 0)), "a=0h"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			test.in.App.Spec.Replicas = new(int32(4))
			status := StatusOf(test.in)
			if diff := cmp.Diff(test.want, shares(status)); diff != "" {
				t.Errorf("clusters (-want +got):\n%s\n%s", diff, toJSON(t, status.Clusters))
			}
			if diff := cmp.Diff(toJSON(t, status), toJSON(t, StatusOf(Next(test.in, Later(time.Minute))))); diff != "" {
				t.Errorf("at rest (-before +after):\n%s", diff)
			}
		})
	}
}

func TestRemovals_without_an_edit_say_what_they_wait_for(t *testing.T) {
	status := StatusOf(With(Clusters("drr"), unobservable("b"), unobservable("c")))
	if got, want := status.Cluster("a").Message, "the removal starts when the AppService is ready on: b, c"+orAcceptUnready; got != want {
		t.Errorf("it says %q, want %q", got, want)
	}
}

// A name in the plan may be a typo, or may belong to a cluster that has not joined yet.
func TestRemovals_wait_for_clusters_that_have_not_joined(t *testing.T) {
	tests := map[string]struct {
		in   rollout.Input
		want string
	}{
		"of a plan that chooses none":   {With(Clusters("ee"), notJoined("z")), "ww"},
		"whose Secret is missing":       {With(Clusters("ee"), secretMissing("z")), "ww"},
		"of a plan that chooses some":   {With(Clusters("eer"), notJoined("z")), "Rwr"},
		"somebody's word is not enough": {With(Clusters("ee"), notJoined("z"), Annotated(v1alpha1.AnnotationAcceptUnready, "true")), "Rh"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, Letters(StatusOf(test.in))); diff != "" {
				t.Errorf("clusters (-want +got):\n%s", diff)
			}
		})
	}
}

// An approval is valid for one generation, and each approved removal uses up part of it.
func TestAccepted_removals_are_used_up(t *testing.T) {
	used := func(n int32, at int64) func(*rollout.Input) {
		return func(in *rollout.Input) {
			in.App.Status.Removals = v1alpha1.RemovalsStatus{Accepted: n, AcceptedGeneration: at}
		}
	}
	tests := map[string]struct {
		in   rollout.Input
		want string
		used int32
	}{
		"all that are held":                     {With(Clusters("ddr"), AcceptRemovals("2@2")), "RRr", 2},
		"not without the generation":            {With(Clusters("ddr"), AcceptRemovals("2")), "hhr", 0},
		"not of another generation":             {With(Clusters("ddr"), AcceptRemovals("2@1")), "hhr", 0},
		"not once it is used up":                {With(Clusters("ddr"), AcceptRemovals("2@2"), used(2, Generation)), "hhr", 2},
		"what is left must cover all":           {With(Clusters("ddr"), AcceptRemovals("3@2"), used(2, Generation)), "hhr", 2},
		"a greater number goes on":              {With(Clusters("ddr"), AcceptRemovals("4@2"), used(2, Generation)), "RRr", 4},
		"another generation begins anew":        {With(Clusters("ddr"), AcceptRemovals("2@2"), used(2, 1)), "RRr", 2},
		"too many within an hour":               {With(Clusters("drr"), RemovedWithoutEdit(1, 50*time.Minute)), "hrr", 0},
		"the hour before does not count":        {With(Clusters("drr"), RemovedWithoutEdit(1, 66*time.Minute)), "Rrr", 0},
		"those that were accepted do not count": {With(Clusters("drr"), used(2, Generation)), "Rrr", 2},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			status := StatusOf(test.in)
			if diff := cmp.Diff(test.want, Letters(status)); diff != "" {
				t.Errorf("clusters (-want +got):\n%s", diff)
			}
			if status.Removals.Accepted != test.used {
				t.Errorf("%d are used up, want %d", status.Removals.Accepted, test.used)
			}
		})
	}
}

// Labels that disappear from one cluster after another may also be an accident.
func TestRemovals_without_an_edit_are_counted_over_an_hour(t *testing.T) {
	in := Next(Clusters("rrrrrrrrrrr")) // of eleven clusters, two may be removed
	for i := range 3 {
		name := ClusterName(i)
		in = Next(With(in, Later(10*time.Minute), NotChosen(name)))
		if entry := in.App.Status.Cluster(name); entry.Phase == v1alpha1.ClusterRemoving {
			in = Next(With(in, Later(time.Minute), Observed(name, Observation(v1alpha1.ClusterRemoving, GoneSince(entry.LastTransitionTime)))))
		}
	}
	if got, want := Letters(in.App.Status), "hrrrrrrrr"; got != want {
		t.Errorf("clusters are %s, want %s", got, want)
	}
	want := []v1alpha1.RemovalCount{{StartTime: metav1.NewTime(Now.Add(10 * time.Minute)), Count: 1}, {StartTime: metav1.NewTime(Now.Add(21 * time.Minute)), Count: 1}}
	if diff := cmp.Diff(want, in.App.Status.Removals.WithoutEdit); diff != "" {
		t.Errorf("counted (-want +got):\n%s", diff)
	}
}

// Lowering a limit is an edit. The clusters that it excludes remain excluded, and their removal
// needs no approval.
func TestLimit_that_is_lowered_squeezes_out_the_same_clusters_for_good(t *testing.T) {
	w := newSimulation(8)
	w.members[notJoinedName].joined = false
	w.write(StatusOf(w.input()))
	w.editPlacement(func(p *v1alpha1.Placement) { p.Limit = new(int32(3)) })
	w.write(StatusOf(w.input()))
	before := toJSON(t, w.app.Status)
	for range 3 {
		w.advance(time.Second)
		w.write(StatusOf(w.input()))
		if diff := cmp.Diff(before, toJSON(t, w.app.Status)); diff != "" {
			t.Fatalf("at rest (-before +after):\n%s", diff)
		}
	}
	for _, entry := range w.app.Status.Clusters {
		if transition := entry.Transition; transition.Type != "" && (transition.Type != v1alpha1.TransitionRemovalPending || transition.Cause != v1alpha1.CauseEdit) {
			t.Errorf("%s is %+v", entry.Name, transition)
		}
	}
}

// Labels disappear from many clusters, and an edit of another field is written before the next
// plan.
func TestRemovals_follow_from_no_edit_but_one_of_the_placement(t *testing.T) {
	tests := map[string]struct {
		edit func(*v1alpha1.AppServiceSpec)
		want v1alpha1.TransitionCause
	}{
		"of the image":     {func(spec *v1alpha1.AppServiceSpec) { spec.Image = "web:2" }, v1alpha1.CauseDrift},
		"of the placement": {func(spec *v1alpha1.AppServiceSpec) { spec.Placement = &v1alpha1.Placement{SpreadKey: "zone"} }, v1alpha1.CauseEdit},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			in := NewInput(Chosen("a"), Chosen("b"), Chosen("c"), Chosen("d"))
			for _, name := range []string{"a", "b", "c", "d"} {
				Observed(name, Observation(v1alpha1.ClusterReady))(&in)
			}
			in = Next(in)
			test.edit(&in.App.Spec)
			in.App.Generation++
			for _, name := range []string{"b", "c", "d"} {
				NotChosen(name)(&in)
			}
			in = Next(in)
			for _, entry := range in.App.Status.Clusters[1:] {
				if entry.Transition.Cause != test.want {
					t.Errorf("%s leaves by %s", entry.Name, entry.Transition.Cause)
				}
				if isHeld := entry.Reason == v1alpha1.ReasonRemovalNeedsApproval; isHeld != (test.want == v1alpha1.CauseDrift) {
					t.Errorf("%s is %s", entry.Name, entry.Reason)
				}
			}
		})
	}
	t.Run("of a status of an older version", func(t *testing.T) {
		in := Next(NewInput(Chosen("a"), Chosen("b")))
		in.App.Status.Placement.SpecHash = ""
		in.App.Generation++
		NotChosen("b")(&in)
		in = Next(in)
		if got := in.App.Status.Cluster("b").Transition.Cause; got != v1alpha1.CauseEdit {
			t.Errorf("it leaves by %s", got)
		}
	})
	t.Run("of a placement that cannot be understood", func(t *testing.T) {
		in := Next(NewInput(Chosen("a"), Chosen("b")))
		in = Next(in, editPlacement, WithPlanError(errors.New("no such operator")))
		hash := in.App.Status.Placement.SpecHash
		in = Next(in)
		if got := in.App.Status.Placement.SpecHash; hash == "" || got != hash {
			t.Errorf("the hash is %q, and was %q", got, hash)
		}
	})
}

// The AppService asks for no replicas, and an override gives these clusters some.
func TestReplicas_of_an_override_are_no_less_evidence(t *testing.T) {
	in := NewInput(WithEntries(Entry("a", v1alpha1.ClusterReady), Entry("b", v1alpha1.ClusterReady), Entry("c", v1alpha1.ClusterReady)), Chosen("a"), Unreachable("a"), Chosen("b"), Unreachable("b"),
		NotChosen("c"), Observed("c", Observation(v1alpha1.ClusterReady)))
	in.App.Spec.Replicas = new(int32(0))
	in.App.Status.ObservedGeneration = Generation
	status := StatusOf(in)
	if got := status.Cluster("c"); got.Phase == v1alpha1.ClusterRemoving {
		t.Error("the last one that is ready is removed")
	}
	Chosen("c")(&in)
	SetDecision(&in, placement.Decision{Cluster: "c"})
	status = StatusOf(in)
	if got := status.Cluster("c"); got.Replicas != 2 || got.Transition.Type != v1alpha1.TransitionScaleDownPending {
		t.Errorf("the last one that is ready is emptied: %+v", got)
	}
}
