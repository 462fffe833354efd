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
)

// lost makes a cluster of the plan one that has not been observable for long.
func lost(cluster string) func(*rollout.Input) {
	return func(in *rollout.Input) {
		unreachable(cluster)(in)
		delete(in.Observations, cluster)
		for i := range in.App.Status.Clusters {
			if row := &in.App.Status.Clusters[i]; row.Name == cluster {
				because(v1alpha1.ReasonClusterUnreachable, "; last known: Ready, 2 of 2 replicas ready")(row)
				row.Phase = v1alpha1.ClusterUnknown
			}
		}
	}
}

// displaced makes the limit exclude a cluster.
func displaced(cluster string) func(*rollout.Input) {
	return func(in *rollout.Input) {
		decide(in, placement.Decision{Cluster: cluster, Reason: v1alpha1.ReasonLimitReached})
	}
}

// assigned sets the desired replicas of an entry.
func assigned(cluster string, replicas int32) func(*rollout.Input) {
	return func(in *rollout.Input) { in.App.Status.Cluster(cluster).Replicas = replicas }
}

func withoutSecret(cluster string) func(*rollout.Input) {
	return func(in *rollout.Input) {
		decide(in, placement.Decision{Cluster: cluster, Reason: v1alpha1.ReasonSecretMissing})
	}
}

func notNamedYet(cluster string) func(*rollout.Input) {
	return func(in *rollout.Input) {
		decide(in, placement.Decision{Cluster: cluster, Reason: v1alpha1.ReasonNoSuchCluster})
	}
}

// unedited makes all entries those of the current generation.
func unedited(in *rollout.Input) {
	for i := range in.App.Status.Clusters {
		in.App.Status.Clusters[i].Generation = generation
	}
	in.App.Status.ObservedGeneration = generation
}

// A change that no user requested does not remove replicas that are needed, as far as is known.
func TestRemovals_and_scale_downs_without_an_edit_wait_for_ready_replicas(t *testing.T) {
	unready := annotated(v1alpha1.AnnotationAcceptUnready, "true")
	halves := func(in *rollout.Input) { divided(4)(in) }
	tests := map[string]struct {
		in   rollout.Input
		want string
	}{
		"the last one that is ready":                    {with(clusters("drr"), lost("b"), lost("c")), "a=2w b=2? c=2?"},
		"one that is ready remains":                     {with(clusters("drr"), lost("b")), "a=2R b=2? c=2"},
		"by somebody's word":                            {with(clusters("drr"), lost("b"), lost("c"), unready), "a=2R b=2? c=2?"},
		"an edit asks for it":                           {with(clusters("err"), lost("b"), lost("c")), "a=2R b=2? c=2?"},
		"a word about removals is another":              {with(clusters("drr"), lost("b"), lost("c"), accepting("1@2")), "a=2w b=2? c=2?"},
		"nothing is ready there":                        {with(clusters("drr"), lost("b"), lost("c"), saw("a", seen(v1alpha1.ClusterProgressing, counting(2, 0)))), "a=2R b=2? c=2?"},
		"one that cannot be observed may serve":         {with(clusters("drr"), lost("a"), lost("b"), lost("c")), "a=2? b=2? c=2?"},
		"a limit takes others":                          {with(clusters("drr"), displaced("a"), lost("b"), lost("c")), "a=2w b=2? c=2?"},
		"many that a limit leaves out need no word":     {with(clusters("dddr"), displaced("a"), displaced("b"), displaced("c")), "a=2R b=2w c=2w d=2"},
		"divided: all must be ready":                    {with(clusters("drr"), halves, lost("b")), "a=2w b=2? c=2"},
		"divided: all are":                              {with(clusters("drr"), halves), "a=2R b=2 c=2"},
		"divided: a share is lowered while one is lost": {given(halves, share("a", 3, 3, 2), share("b", 2, 2, 2), unedited, lost("b")), "a=3 b=2?"},
		"divided: a share is lowered by an edit":        {given(halves, share("a", 3, 3, 2), share("b", 2, 2, 2), lost("b")), "a=2 b=2?"},
		"divided: a share is lowered by a word":         {given(halves, share("a", 3, 3, 2), share("b", 2, 2, 2), unedited, lost("b"), unready), "a=2 b=2?"},
		"an override empties the last one":              {given(share("a", 2, 2, 0), share("b", 2, 2, 2), unedited, lost("b")), "a=2 b=2?"},
		"an override empties the only one":              {given(share("a", 2, 2, 0), unedited), "a=2"},
		"an override empties one of two":                {given(share("a", 2, 2, 0), share("b", 2, 2, 2), unedited), "a=0 b=2"},
		"an override empties one by an edit":            {given(share("a", 2, 2, 0)), "a=0"},
		"the last one, not yet scaled up from 0":        {with(clusters("e"), assigned("a", 0)), "a=0h"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			test.in.App.Spec.Replicas = new(int32(4))
			status := statusOf(test.in)
			if diff := cmp.Diff(test.want, shares(status)); diff != "" {
				t.Errorf("clusters (-want +got):\n%s\n%s", diff, text(t, status.Clusters))
			}
			if diff := cmp.Diff(text(t, status), text(t, statusOf(then(test.in, later(time.Minute))))); diff != "" {
				t.Errorf("at rest (-before +after):\n%s", diff)
			}
		})
	}
}

func TestRemovals_without_an_edit_say_what_they_wait_for(t *testing.T) {
	status := statusOf(with(clusters("drr"), lost("b"), lost("c")))
	if got, want := status.Cluster("a").Message, "the removal starts when the AppService is ready on: b, c"+unlessUnready; got != want {
		t.Errorf("it says %q, want %q", got, want)
	}
}

// A name in the plan may be a typo, or may belong to a cluster that has not joined yet.
func TestRemovals_wait_for_clusters_that_have_not_joined(t *testing.T) {
	tests := map[string]struct {
		in   rollout.Input
		want string
	}{
		"of a plan that chooses none":   {with(clusters("ee"), notNamedYet("z")), "ww"},
		"whose Secret is missing":       {with(clusters("ee"), withoutSecret("z")), "ww"},
		"of a plan that chooses some":   {with(clusters("eer"), notNamedYet("z")), "Rwr"},
		"somebody's word is not enough": {with(clusters("ee"), notNamedYet("z"), annotated(v1alpha1.AnnotationAcceptUnready, "true")), "Rh"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, letters(statusOf(test.in))); diff != "" {
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
		"all that are held":                     {with(clusters("ddr"), accepting("2@2")), "RRr", 2},
		"not without the generation":            {with(clusters("ddr"), accepting("2")), "hhr", 0},
		"not of another generation":             {with(clusters("ddr"), accepting("2@1")), "hhr", 0},
		"not once it is used up":                {with(clusters("ddr"), accepting("2@2"), used(2, generation)), "hhr", 2},
		"what is left must cover all":           {with(clusters("ddr"), accepting("3@2"), used(2, generation)), "hhr", 2},
		"a greater number goes on":              {with(clusters("ddr"), accepting("4@2"), used(2, generation)), "RRr", 4},
		"another generation begins anew":        {with(clusters("ddr"), accepting("2@2"), used(2, 1)), "RRr", 2},
		"too many within an hour":               {with(clusters("drr"), removedWithoutEdit(1, 50*time.Minute)), "hrr", 0},
		"the hour before does not count":        {with(clusters("drr"), removedWithoutEdit(1, 66*time.Minute)), "Rrr", 0},
		"those that were accepted do not count": {with(clusters("drr"), used(2, generation)), "Rrr", 2},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			status := statusOf(test.in)
			if diff := cmp.Diff(test.want, letters(status)); diff != "" {
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
	in := then(clusters("rrrrrrrrrrr")) // of eleven clusters, two may be removed
	for i := range 3 {
		name := nameOf(i)
		in = then(with(in, later(10*time.Minute), notChosen(name)))
		if row := in.App.Status.Cluster(name); row.Phase == v1alpha1.ClusterRemoving {
			in = then(with(in, later(time.Minute), saw(name, seen(v1alpha1.ClusterRemoving, goneSince(row.LastTransitionTime)))))
		}
	}
	if got, want := letters(in.App.Status), "hrrrrrrrr"; got != want {
		t.Errorf("clusters are %s, want %s", got, want)
	}
	want := []v1alpha1.RemovalCount{{StartTime: metav1.NewTime(now.Add(10 * time.Minute)), Count: 1}, {StartTime: metav1.NewTime(now.Add(21 * time.Minute)), Count: 1}}
	if diff := cmp.Diff(want, in.App.Status.Removals.WithoutEdit); diff != "" {
		t.Errorf("counted (-want +got):\n%s", diff)
	}
}

// Lowering a limit is an edit. The clusters that it excludes remain excluded, and their removal
// needs no approval.
func TestLimit_that_is_lowered_squeezes_out_the_same_clusters_for_good(t *testing.T) {
	w := newWorld(8)
	w.sites[ghost].joined = false
	w.write(statusOf(w.input()))
	w.editPlacement(func(p *v1alpha1.Placement) { p.Limit = new(int32(3)) })
	w.write(statusOf(w.input()))
	before := text(t, w.app.Status)
	for range 3 {
		w.pass(time.Second)
		w.write(statusOf(w.input()))
		if diff := cmp.Diff(before, text(t, w.app.Status)); diff != "" {
			t.Fatalf("at rest (-before +after):\n%s", diff)
		}
	}
	for _, row := range w.app.Status.Clusters {
		if transition := row.Transition; transition.Type != "" && (transition.Type != v1alpha1.TransitionRemovalPending || transition.Cause != v1alpha1.CauseEdit) {
			t.Errorf("%s is %+v", row.Name, transition)
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
			in := given(chosen("a"), chosen("b"), chosen("c"), chosen("d"))
			for _, name := range []string{"a", "b", "c", "d"} {
				saw(name, seen(v1alpha1.ClusterReady))(&in)
			}
			in = then(in)
			test.edit(&in.App.Spec)
			in.App.Generation++
			for _, name := range []string{"b", "c", "d"} {
				notChosen(name)(&in)
			}
			in = then(in)
			for _, row := range in.App.Status.Clusters[1:] {
				if row.Transition.Cause != test.want {
					t.Errorf("%s leaves by %s", row.Name, row.Transition.Cause)
				}
				if isHeld := row.Reason == v1alpha1.ReasonRemovalNeedsApproval; isHeld != (test.want == v1alpha1.CauseDrift) {
					t.Errorf("%s is %s", row.Name, row.Reason)
				}
			}
		})
	}
	t.Run("of a status of an older version", func(t *testing.T) {
		in := then(given(chosen("a"), chosen("b")))
		in.App.Status.Placement.SpecHash = ""
		in.App.Generation++
		notChosen("b")(&in)
		in = then(in)
		if got := in.App.Status.Cluster("b").Transition.Cause; got != v1alpha1.CauseEdit {
			t.Errorf("it leaves by %s", got)
		}
	})
	t.Run("of a placement that cannot be understood", func(t *testing.T) {
		in := then(given(chosen("a"), chosen("b")))
		in = then(in, edit, planError(errors.New("no such operator")))
		hash := in.App.Status.Placement.SpecHash
		in = then(in)
		if got := in.App.Status.Placement.SpecHash; hash == "" || got != hash {
			t.Errorf("the hash is %q, and was %q", got, hash)
		}
	})
}

// The AppService asks for no replicas, and an override gives these clusters some.
func TestReplicas_of_an_override_are_no_less_evidence(t *testing.T) {
	in := given(has(row("a", v1alpha1.ClusterReady), row("b", v1alpha1.ClusterReady), row("c", v1alpha1.ClusterReady)), chosen("a"), unreachable("a"), chosen("b"), unreachable("b"),
		notChosen("c"), saw("c", seen(v1alpha1.ClusterReady)))
	in.App.Spec.Replicas = new(int32(0))
	in.App.Status.ObservedGeneration = generation
	status := statusOf(in)
	if got := status.Cluster("c"); got.Phase == v1alpha1.ClusterRemoving {
		t.Error("the last one that is ready is removed")
	}
	chosen("c")(&in)
	decide(&in, placement.Decision{Cluster: "c"})
	status = statusOf(in)
	if got := status.Cluster("c"); got.Replicas != 2 || got.Transition.Type != v1alpha1.TransitionScaleDownPending {
		t.Errorf("the last one that is ready is emptied: %+v", got)
	}
}
