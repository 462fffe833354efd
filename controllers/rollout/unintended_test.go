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

// unobservable makes a cluster of the plan one that has not been observable for long.
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

// beyondLimit makes the limit exclude a cluster.
func beyondLimit(cluster string) func(*rollout.Input) {
	return func(in *rollout.Input) {
		SetDecision(in, placement.Decision{Cluster: cluster, Reason: v1alpha1.ReasonLimitReached})
	}
}

// withReplicas sets the desired replicas of an entry.
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

// alreadyPlanned makes all entries those of the current generation.
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
		"the last ready cluster waits":                                              {With(Clusters("drr"), unobservable("b"), unobservable("c")), "a=2w b=2? c=2?"},
		"starts if another cluster is ready":                                        {With(Clusters("drr"), unobservable("b")), "a=2R b=2? c=2"},
		"starts with the annotation accept-unready":                                 {With(Clusters("drr"), unobservable("b"), unobservable("c"), unready), "a=2R b=2? c=2?"},
		"waits after an edit too":                                                   {With(Clusters("err"), unobservable("b"), unobservable("c")), "a=2w b=2? c=2?"},
		"waits with the annotation accept-removals":                                 {With(Clusters("drr"), unobservable("b"), unobservable("c"), AcceptRemovals("1@2")), "a=2w b=2? c=2?"},
		"starts on a cluster without ready replicas":                                {With(Clusters("drr"), unobservable("b"), unobservable("c"), Observed("a", Observation(v1alpha1.ClusterProgressing, Counting(2, 0)))), "a=2R b=2? c=2?"},
		"waits on an unreachable cluster, which may serve":                          {With(Clusters("drr"), unobservable("a"), unobservable("b"), unobservable("c")), "a=2? b=2? c=2?"},
		"waits if the limit excludes the cluster":                                   {With(Clusters("drr"), beyondLimit("a"), unobservable("b"), unobservable("c")), "a=2w b=2? c=2?"},
		"exclusions by the limit need no approval":                                  {With(Clusters("dddr"), beyondLimit("a"), beyondLimit("b"), beyondLimit("c")), "a=2R b=2w c=2w d=2"},
		"Divided: waits until all clusters are ready":                               {With(Clusters("drr"), halves, unobservable("b")), "a=2w b=2? c=2"},
		"Divided: starts when all clusters are ready":                               {With(Clusters("drr"), halves), "a=2R b=2 c=2"},
		"Divided: keeps a share while another cluster is unreachable":               {NewInput(halves, share("a", 3, 3, 2), share("b", 2, 2, 2), alreadyPlanned, unobservable("b")), "a=3 b=2?"},
		"Divided: scales down after an edit":                                        {NewInput(halves, share("a", 3, 3, 2), share("b", 2, 2, 2), unobservable("b")), "a=2 b=2?"},
		"Divided: scales down with the annotation accept-unready":                   {NewInput(halves, share("a", 3, 3, 2), share("b", 2, 2, 2), alreadyPlanned, unobservable("b"), unready), "a=2 b=2?"},
		"an override of 0 waits on the last ready cluster":                          {NewInput(share("a", 2, 2, 0), share("b", 2, 2, 2), alreadyPlanned, unobservable("b")), "a=2 b=2?"},
		"an override of 0 waits on the only cluster":                                {NewInput(share("a", 2, 2, 0), alreadyPlanned), "a=2"},
		"an override of 0 takes effect if another cluster is ready":                 {NewInput(share("a", 2, 2, 0), share("b", 2, 2, 2), alreadyPlanned), "a=0 b=2"},
		"an override of 0 takes effect after an edit":                               {NewInput(share("a", 2, 2, 0)), "a=0"},
		"the last ready cluster, which is not scaled up from 0 yet, needs approval": {With(Clusters("e"), withReplicas("a", 0)), "a=0h"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			test.in.App.Spec.Replicas = new(int32(4))
			status := StatusOf(test.in)
			if diff := cmp.Diff(test.want, shares(status)); diff != "" {
				t.Errorf("clusters (-want +got):\n%s\n%s", diff, toJSON(t, status.Clusters))
			}
			if diff := cmp.Diff(toJSON(t, status), toJSON(t, StatusOf(Next(test.in, Later(time.Minute))))); diff != "" {
				t.Errorf("the status changed at rest (-before +after):\n%s", diff)
			}
		})
	}
}

func TestRemovals_without_an_edit_name_the_clusters_that_they_wait_for(t *testing.T) {
	status := StatusOf(With(Clusters("drr"), unobservable("b"), unobservable("c")))
	if got, want := status.Cluster("a").Message, "the removal starts when the AppService is ready on: b, c"+orAcceptUnready; got != want {
		t.Errorf("message %q, want %q", got, want)
	}
}

// A name in the plan may be a typo, or may belong to a cluster that has not joined yet.
func TestRemovals_wait_for_clusters_that_have_not_joined(t *testing.T) {
	tests := map[string]struct {
		in   rollout.Input
		want string
	}{
		"the plan chooses no cluster":                                     {With(Clusters("ee"), notJoined("z")), "ww"},
		"the Secret of a cluster is missing":                              {With(Clusters("ee"), secretMissing("z")), "ww"},
		"the plan chooses another cluster":                                {With(Clusters("eer"), notJoined("z")), "Rwr"},
		"the annotation accept-unready does not approve the last removal": {With(Clusters("ee"), notJoined("z"), Annotated(v1alpha1.AnnotationAcceptUnready, "true")), "Rh"},
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
func TestApprovals_of_removals_are_used_up(t *testing.T) {
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
		"approves all held removals":                     {With(Clusters("ddr"), AcceptRemovals("2@2")), "RRr", 2},
		"without a generation":                           {With(Clusters("ddr"), AcceptRemovals("2")), "hhr", 0},
		"with another generation":                        {With(Clusters("ddr"), AcceptRemovals("2@1")), "hhr", 0},
		"when it is used up":                             {With(Clusters("ddr"), AcceptRemovals("2@2"), used(2, Generation)), "hhr", 2},
		"when the rest does not cover all held removals": {With(Clusters("ddr"), AcceptRemovals("3@2"), used(2, Generation)), "hhr", 2},
		"when the number was raised":                     {With(Clusters("ddr"), AcceptRemovals("4@2"), used(2, Generation)), "RRr", 4},
		"when another generation has used it up":         {With(Clusters("ddr"), AcceptRemovals("2@2"), used(2, 1)), "RRr", 2},
		"an earlier removal within the hour counts":      {With(Clusters("drr"), RemovedWithoutEdit(1, 50*time.Minute)), "hrr", 0},
		"a removal more than an hour ago does not count": {With(Clusters("drr"), RemovedWithoutEdit(1, 66*time.Minute)), "Rrr", 0},
		"approved removals do not count":                 {With(Clusters("drr"), used(2, Generation)), "Rrr", 2},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			status := StatusOf(test.in)
			if diff := cmp.Diff(test.want, Letters(status)); diff != "" {
				t.Errorf("clusters (-want +got):\n%s", diff)
			}
			if status.Removals.Accepted != test.used {
				t.Errorf("%d approvals are used up, want %d", status.Removals.Accepted, test.used)
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
		t.Errorf("clusters %s, want %s", got, want)
	}
	want := []v1alpha1.RemovalCount{{StartTime: metav1.NewTime(Now.Add(10 * time.Minute)), Count: 1}, {StartTime: metav1.NewTime(Now.Add(21 * time.Minute)), Count: 1}}
	if diff := cmp.Diff(want, in.App.Status.Removals.WithoutEdit); diff != "" {
		t.Errorf("counted (-want +got):\n%s", diff)
	}
}

// A lower limit is an edit. The clusters that it excludes remain excluded, and their removal
// needs no approval.
func TestLower_limit_excludes_the_same_clusters_permanently(t *testing.T) {
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
			t.Fatalf("the status changed at rest (-before +after):\n%s", diff)
		}
	}
	for _, entry := range w.app.Status.Clusters {
		if transition := entry.Transition; transition.Type != "" && (transition.Type != v1alpha1.TransitionRemovalPending || transition.Cause != v1alpha1.CauseEdit) {
			t.Errorf("%s has the transition %+v", entry.Name, transition)
		}
	}
}

// Labels disappear from many clusters, and an edit of another field is written before the next
// plan.
func TestRemovals_have_the_cause_Edit_only_after_an_edit_of_the_placement(t *testing.T) {
	tests := map[string]struct {
		edit func(*v1alpha1.AppServiceSpec)
		want v1alpha1.TransitionCause
	}{
		"the image":     {func(spec *v1alpha1.AppServiceSpec) { spec.Image = "web:2" }, v1alpha1.CauseClustersChanged},
		"the placement": {func(spec *v1alpha1.AppServiceSpec) { spec.Placement = &v1alpha1.Placement{SpreadKey: "zone"} }, v1alpha1.CauseEdit},
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
					t.Errorf("%s has the cause %s", entry.Name, entry.Transition.Cause)
				}
				if isHeld := entry.Reason == v1alpha1.ReasonRemovalNeedsApproval; isHeld != (test.want == v1alpha1.CauseClustersChanged) {
					t.Errorf("%s has the reason %s", entry.Name, entry.Reason)
				}
			}
		})
	}
	t.Run("a status of an older version", func(t *testing.T) {
		in := Next(NewInput(Chosen("a"), Chosen("b")))
		in.App.Status.Placement.SpecHash = ""
		in.App.Generation++
		NotChosen("b")(&in)
		in = Next(in)
		if got := in.App.Status.Cluster("b").Transition.Cause; got != v1alpha1.CauseEdit {
			t.Errorf("the cause is %s", got)
		}
	})
	t.Run("an invalid placement", func(t *testing.T) {
		in := Next(NewInput(Chosen("a"), Chosen("b")))
		in = Next(in, editPlacement, WithPlanError(errors.New("no such operator")))
		hash := in.App.Status.Placement.SpecHash
		in = Next(in)
		if got := in.App.Status.Placement.SpecHash; hash == "" || got != hash {
			t.Errorf("the hash changed from %q to %q", hash, got)
		}
	})
}

// The AppService asks for no replicas, and an override gives these clusters some.
func TestLast_ready_cluster_is_kept_if_its_replicas_come_from_an_override(t *testing.T) {
	in := NewInput(WithEntries(Entry("a", v1alpha1.ClusterReady), Entry("b", v1alpha1.ClusterReady), Entry("c", v1alpha1.ClusterReady)), Chosen("a"), Unreachable("a"), Chosen("b"), Unreachable("b"),
		NotChosen("c"), Observed("c", Observation(v1alpha1.ClusterReady)))
	in.App.Spec.Replicas = new(int32(0))
	in.App.Spec.Overrides = []v1alpha1.Override{{Name: "all", Replicas: new(int32(2))}}
	in.App.Status.ObservedGeneration = Generation
	status := StatusOf(in)
	if got := status.Cluster("c"); got.Phase == v1alpha1.ClusterRemoving {
		t.Error("the last ready cluster is Removing")
	}
	Chosen("c")(&in)
	SetDecision(&in, placement.Decision{Cluster: "c"})
	status = StatusOf(in)
	if got := status.Cluster("c"); got.Replicas != 2 || got.Transition.Type != v1alpha1.TransitionScaleDownPending {
		t.Errorf("the last ready cluster is scaled to zero: %+v", got)
	}
}

// The clusters of the plan never become ready for an AppService that asks for no replicas.
func TestRemovals_do_not_wait_for_clusters_with_0_replicas(t *testing.T) {
	in := With(Clusters("dr"), unobservable("b"))
	in.App.Spec.Replicas = new(int32(0))
	if got, want := Letters(StatusOf(in)), "R?"; got != want {
		t.Errorf("clusters are %s, want %s", got, want)
	}
}

// With externallyScaled, replicas is only the initial number, and may be 0.
func TestExternally_scaled_replicas_are_kept_until_others_are_ready(t *testing.T) {
	for letters, want := range map[string]string{"dr": "w?", "drr": "R?r"} {
		in := With(Clusters(letters), unobservable("b"))
		in.App.Spec.Replicas, in.App.Spec.ExternallyScaled = new(int32(0)), true
		for i := range in.App.Status.Clusters {
			in.App.Status.Clusters[i].Replicas = 0
		}
		for i := range in.Plan {
			in.Plan[i].Replicas = 0
		}
		for name, seen := range in.Observations {
			seen.Planned = 0
			in.Observations[name] = seen
		}
		if got := Letters(StatusOf(in)); got != want {
			t.Errorf("%s: clusters are %s, want %s", letters, got, want)
		}
	}
}
