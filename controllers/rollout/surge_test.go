package rollout_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/observation"
	"github.com/fleetwright/fleetwright/controllers/placement"
	"github.com/fleetwright/fleetwright/controllers/rollout"
	. "github.com/fleetwright/fleetwright/controllers/rollout/rollouttest"
)

const none = -1 // out is the share of a cluster that is not chosen or has no entry

func duplicated(in *rollout.Input) {
	in.App.Spec.ReplicaPolicy = &v1alpha1.ReplicaPolicy{Type: v1alpha1.ReplicasDuplicated}
}

// share adds a cluster that has had this number of replicas since the previous generation, with the
// number of ready replicas and the new share.
func share(cluster string, had, ready, gets int32, changes ...func(*v1alpha1.ClusterStatus)) func(*rollout.Input) {
	return func(in *rollout.Input) {
		in.Members[cluster] = NewMember(cluster, metav1.ConditionTrue)
		SetDecision(in, placement.Decision{Cluster: cluster, Replicas: gets})
		if gets == none {
			NotChosen(cluster)(in)
		}
		if had == none {
			return
		}
		r := Entry(cluster, v1alpha1.ClusterReady, append([]func(*v1alpha1.ClusterStatus){Desired(1, had), Applied(1), WithPods(had, ready)}, changes...)...)
		s := Observation(v1alpha1.ClusterReady, Answering(1), AnsweringReplicas(had), Counting(had, ready))
		if ready < had {
			r.Phase, r.Reason, s.Phase, s.Reason = v1alpha1.ClusterProgressing, v1alpha1.ReasonRollingOut, v1alpha1.ClusterProgressing, v1alpha1.ReasonRollingOut
		}
		WithEntries(r)(in)
		Observed(cluster, s)(in)
	}
}

// bounds adds a cluster with an autoscaler: its current bounds, the number of ready pods, and its
// new bounds.
func bounds(cluster string, least, most, ready, getsLeast, getsMost int32, changes ...func(*v1alpha1.ClusterStatus)) func(*rollout.Input) {
	return func(in *rollout.Input) {
		if least == none {
			share(cluster, none, 0, getsLeast)(in)
		} else {
			share(cluster, least, ready, getsLeast, append(changes, WithBounds(least, most))...)(in)
		}
		SetDecision(in, placement.Decision{Cluster: cluster, Replicas: getsLeast, MinReplicas: getsLeast, MaxReplicas: getsMost})
	}
}

// shares returns the desired replicas of the clusters, with + for surging clusters, and the states
// of the clusters that leave.
func shares(status v1alpha1.AppServiceStatus) string {
	var out []string
	for _, entry := range status.Clusters {
		share := fmt.Sprintf("%s=%d", entry.Name, entry.Replicas)
		if entry.MaxReplicas > 0 {
			share = fmt.Sprintf("%s=%d-%d", entry.Name, entry.MinReplicas, entry.MaxReplicas)
		}
		if entry.Surging {
			share += "+"
		}
		if letter := Letters(v1alpha1.AppServiceStatus{Clusters: []v1alpha1.ClusterStatus{entry}}); letter != string(StateReady) {
			share += letter
		}
		out = append(out, share)
	}
	return strings.Join(out, " ")
}

func TestDivided_replicas_leave_as_others_become_ready(t *testing.T) {
	unready := Annotated(v1alpha1.AnnotationAcceptUnready, "true")
	tests := map[string]struct {
		in   rollout.Input
		want string
	}{
		"none before":                            {NewInput(Divided(8), share("a", 8, 8, 4), share("b", none, 0, 4)), "a=8 b=4+"},
		"none before, to a share that is raised": {NewInput(Divided(8), share("a", 6, 6, 4), share("b", 2, 2, 4)), "a=6 b=4+"},
		"none while none is":                     {NewInput(Divided(8), share("a", 8, 8, 4), share("b", 4, 0, 4, Surging)), "a=8 b=4+"},
		"one for one":                            {NewInput(Divided(8), share("a", 8, 8, 4), share("b", 4, 1, 4, Surging)), "a=7 b=4+"},
		"all when all are":                       {NewInput(Divided(8), share("a", 8, 8, 4), share("b", 4, 4, 4, Surging), reportsReady("b")), "a=4 b=4"},
		"kept in order of name":                  {NewInput(Divided(8), share("a", 4, 4, 2), share("b", 4, 4, 2), share("c", 4, 3, 4, Surging)), "a=3 b=2 c=4+"},
		"none gets back what was taken":          {NewInput(Divided(8), share("a", 6, 6, 4), share("b", 4, 0, 4, Surging)), "a=6 b=4+"},
		"those asked less for at once":           {NewInput(Divided(4), share("a", 8, 8, 2), share("b", none, 0, 2)), "a=4 b=2+"},

		"a cluster that leaves covers what is short": {NewInput(Divided(8), share("a", 4, 4, none), share("b", 4, 4, 2), share("c", 6, 2, 6, Surging)), "a=4w b=2 c=6+"},
		"and what it does not cover is kept":         {NewInput(Divided(8), share("a", 4, 4, none), share("b", 4, 4, 2), share("c", 6, 1, 6, Surging)), "a=4w b=3 c=6+"},
		"one that leaves lost covers nothing":        {NewInput(Divided(8), share("a", 4, 4, none), Unreachable("a"), share("b", 4, 4, 2), share("c", 6, 2, 6, Surging)), "a=4? b=4 c=6+"},
		"one that leaves broken covers nothing":      {NewInput(Divided(8), share("a", 4, 0, none), share("b", 4, 4, 2), share("c", 6, 2, 6, Surging)), "a=4w b=4 c=6+"},

		"at once where it is only asked for less":                {NewInput(Divided(4), share("a", 4, 4, 2), share("b", 4, 4, 2)), "a=2 b=2"},
		"at once though a cluster has long been broken":          {NewInput(Divided(4), share("a", 4, 4, 2), share("b", 4, 0, 2)), "a=2 b=2"},
		"at once by somebody's word":                             {NewInput(Divided(8), unready, share("a", 8, 8, 4), share("b", none, 0, 4)), "a=4 b=4+"},
		"not by a word about removals":                           {NewInput(Divided(8), AcceptRemovals("9@2"), share("a", 8, 8, 4), share("b", none, 0, 4)), "a=8 b=4+"},
		"what was found keeps what it has":                       {NewInput(Divided(8), WithEntries(Entry("a", v1alpha1.ClusterPending, Desired(0, 8))), share("a", none, 0, 4), share("b", none, 0, 4)), "a=8 b=4+"},
		"what was known of one that is lost says nothing":        {NewInput(Divided(8), share("a", 8, 8, 4), share("b", 4, 3, 4, Surging), Unreachable("b")), "a=8 b=4+?"},
		"nothing is kept for one that is gone":                   {NewInput(Divided(4), share("a", 8, 8, 4), share("b", 4, 0, 4, Surging), withoutMember("b")), "a=4 b=4+"},
		"what arrives and is to be less waits not for itself":    {NewInput(Divided(8), share("a", 8, 8, 6), share("b", 4, 0, 2, Surging)), "a=8 b=2+"},
		"and is not kept in place of what runs":                  {NewInput(Divided(8), share("a", 4, 0, 2, Surging), share("b", 8, 8, 4), share("c", none, 0, 2)), "a=2+ b=8 c=2+"},
		"but what of it is ready is":                             {NewInput(Divided(8), share("a", 5, 5, 3), share("b", 4, 3, 2, Surging), share("c", none, 0, 3)), "a=5 b=3+ c=3+"},
		"what was ready when it was asked for less is":           {NewInput(Divided(8), share("a", 8, 8, 5), share("b", 4, 3, 3, Surging), reportsReady("b", AnsweringReplicas(3), Counting(3, 3))), "a=5 b=3"},
		"one that is chosen again while it is removed is new":    {NewInput(Divided(8), share("a", 8, 8, 4), WithEntries(Entry("b", v1alpha1.ClusterRemoving, Desired(1, 6))), share("b", none, 0, 4)), "a=8 b=4+"},
		"one whose Secret is back is looked at first":            {NewInput(Divided(8), share("a", 8, 8, 4), WithEntries(Entry("b", v1alpha1.ClusterDetached, Desired(1, 4), WithPods(4, 4))), share("b", none, 0, 4)), "a=8 b=4+"},
		"nothing is changed while it is suspended":               {NewInput(Divided(8), Suspended, share("a", 8, 8, 4), share("b", 2, 2, 4)), "a=8 b=2"},
		"nothing is changed without a plan":                      {NewInput(Divided(8), share("a", 8, 8, 4), share("b", 2, 2, 4), WithPlanError(errors.New("no"))), "a=8 b=2"},
		"the others keep their bounds while one is short":        {NewInput(Divided(0), Autoscaling(4, 8), bounds("a", 4, 8, 5, 2, 4), bounds("b", none, 0, 0, 2, 4)), "a=4-8 b=2-4+"},
		"when only the least is lowered, too":                    {NewInput(Divided(0), Autoscaling(4, 12), bounds("a", 4, 8, 5, 2, 8), bounds("b", none, 0, 0, 2, 4)), "a=4-8 b=2-4+"},
		"while the least of it is not ready":                     {NewInput(Divided(0), Autoscaling(4, 8), bounds("a", 4, 8, 5, 2, 4), bounds("b", 2, 4, 1, 2, 4, Surging), reportsReady("b", AnsweringReplicas(2), Counting(1, 1))), "a=4-8 b=2-4+"},
		"and have theirs when it is":                             {NewInput(Divided(0), Autoscaling(4, 8), bounds("a", 4, 8, 5, 2, 4), bounds("b", 2, 4, 2, 2, 4, Surging), reportsReady("b", AnsweringReplicas(2), Counting(2, 2))), "a=2-4 b=2-4"},
		"the bounds too by somebody's word":                      {NewInput(Divided(0), Autoscaling(4, 8), unready, bounds("a", 4, 8, 5, 2, 4), bounds("b", none, 0, 0, 2, 4)), "a=2-4 b=2-4+"},
		"one without an autoscaler keeps what it has as well":    {NewInput(Divided(0), Autoscaling(1, 8), share("a", 3, 3, 0), bounds("b", none, 0, 0, 1, 8)), "a=3 b=1-8+"},
		"bounds are raised at once":                              {NewInput(Divided(0), Autoscaling(6, 9), bounds("a", 2, 3, 2, 4, 6), bounds("b", 2, 3, 2, 2, 3)), "a=4-6+ b=2-3"},
		"that only the most is raised is no move":                {NewInput(Divided(0), Autoscaling(4, 9), bounds("a", 2, 3, 2, 2, 6), bounds("b", 2, 3, 2, 2, 3)), "a=2-6 b=2-3"},
		"bounds that nobody asks for any more go at once":        {NewInput(Divided(8), share("a", 6, 6, 4, WithBounds(1, 9)), share("b", none, 0, 4)), "a=6 b=4+"},
		"a share is raised where an autoscaler goes":             {NewInput(Divided(8), share("a", 4, 4, 6, WithBounds(1, 9)), share("b", 4, 4, 2)), "a=6+ b=4"},
		"each cluster for itself: an edit is no move":            {NewInput(duplicated, share("a", 4, 4, 2), share("b", 2, 2, 4)), "a=2 b=4"},
		"each cluster for itself: what is new is told":           {NewInput(share("a", 4, 4, 2), share("b", none, 0, 2)), "a=2 b=2+"},
		"what was found is not new":                              {NewInput(Divided(4), share("b", none, 0, 4), Observed("b", Found)), "b=4"},
		"a share of none arrives when the cluster says so":       {NewInput(Divided(8), share("a", 8, 8, 8), share("b", none, 0, 0)), "a=8 b=0+"},
		"a share of none keeps nothing":                          {NewInput(Divided(6), share("a", 8, 8, 6), share("b", none, 0, 0)), "a=6 b=0+"},
		"a lowered share is no longer arriving once it is ready": {NewInput(Divided(8), share("a", 8, 8, 8), share("b", 2, 2, 0, Surging), reportsReady("b")), "a=8 b=0"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			status := StatusOf(test.in)
			if diff := cmp.Diff(test.want, shares(status)); diff != "" {
				t.Errorf("shares (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(toJSON(t, status), toJSON(t, StatusOf(Next(test.in, Later(time.Hour))))); diff != "" {
				t.Errorf("at rest (-before +after):\n%s", diff)
			}
			for _, entry := range status.Clusters {
				if decision := test.in.Plan.Find(entry.Name); decision.Chosen() && test.in.Members[entry.Name] != nil && !test.in.App.Spec.Suspend && entry.Generation != Generation {
					t.Errorf("%s is to run generation %d", entry.Name, entry.Generation)
				}
			}
		})
	}
}

// at makes a cluster report Ready at the current generation, with the replicas of its entry unless
// the case changes them.
func reportsReady(cluster string, changes ...func(*observation.Observation)) func(*rollout.Input) {
	return func(in *rollout.Input) {
		r := in.App.Status.Cluster(cluster)
		Observed(cluster, Observation(v1alpha1.ClusterReady, append([]func(*observation.Observation){AnsweringReplicas(r.Replicas), Counting(r.Replicas, r.Replicas)}, changes...)...))(in)
	}
}

// without makes a cluster one whose Secret is deleted.
func withoutMember(cluster string) func(*rollout.Input) {
	return func(in *rollout.Input) {
		delete(in.Members, cluster)
		SetDecision(in, placement.Decision{Cluster: cluster, Reason: v1alpha1.ReasonNoSuchCluster})
	}
}

func TestClusters_are_left_when_what_is_new_elsewhere_is_ready(t *testing.T) {
	isNew := func(cluster string, changes ...func(*v1alpha1.ClusterStatus)) func(*rollout.Input) {
		return func(in *rollout.Input) {
			Chosen(cluster)(in)
			WithEntries(Entry(cluster, v1alpha1.ClusterProgressing, append([]func(*v1alpha1.ClusterStatus){WithReason(v1alpha1.ReasonRollingOut, ""), WithPods(2, 0), Surging}, changes...)...))(in)
		}
	}
	unready := Annotated(v1alpha1.AnnotationAcceptUnready, "true")
	tests := map[string]struct {
		in   rollout.Input
		want string
	}{
		"not before":                                {With(Clusters("e"), Chosen("z")), "a=2w z=2+"},
		"not while it is not":                       {With(Clusters("e"), isNew("z")), "a=2w z=2+"},
		"not while some of it is not":               {With(Clusters("e"), isNew("z"), Observed("z", Observation(v1alpha1.ClusterProgressing, Counting(2, 1)))), "a=2w z=2+"},
		"not while it has no address":               {With(Clusters("e"), isNew("z"), Observed("z", Observation(v1alpha1.ClusterProgressing, Reporting(v1alpha1.ReasonLoadBalancerPending, "")))), "a=2w z=2+"},
		"not while it is lost":                      {With(Clusters("e"), isNew("z"), Unreachable("z")), "a=2w z=2+?"},
		"when it is":                                {With(Clusters("e"), isNew("z"), Observed("z", Observation(v1alpha1.ClusterReady))), "a=2R z=2"},
		"then one of few at a time":                 {With(Clusters("eee"), isNew("z"), Observed("z", Observation(v1alpha1.ClusterReady))), "a=2R b=2w c=2w z=2"},
		"none of several":                           {With(Clusters("eeer"), isNew("z")), "a=2w b=2w c=2w d=2 z=2+"},
		"what has begun goes on":                    {With(Clusters("Gr"), isNew("z")), "a=2R b=2 z=2+"},
		"what drifted waits as well":                {With(Clusters("drr"), isNew("z")), "a=2w b=2 c=2 z=2+"},
		"what is held is held":                      {With(Clusters("ddr"), isNew("z")), "a=2h b=2h c=2 z=2+"},
		"one that has long been broken is not new":  {With(Clusters("e"), isNew("z", func(entry *v1alpha1.ClusterStatus) { entry.Surging = false })), "a=2R z=2"},
		"one that leaves is not waited for":         {With(Clusters("ee"), func(in *rollout.Input) { in.App.Status.Clusters[1].Surging = true }, Observed("b", Observation(v1alpha1.ClusterProgressing))), "a=2R b=2+h"},
		"one that is gone is waited for":            {With(Clusters("e"), isNew("z"), withoutMember("z")), "a=2w z=2+"},
		"unless others are chosen":                  {With(Clusters("er"), isNew("z"), withoutMember("z")), "a=2R b=2 z=2+"},
		"one that is to run none is not waited for": {With(Clusters("e"), func(in *rollout.Input) { Divided(0)(in); share("z", none, 0, 0)(in) }), "a=2R z=0+"},
		"divided, too":                              {NewInput(Divided(2), share("a", 2, 2, none), share("b", none, 0, 2)), "a=2w b=2+"},
		"divided, by the whole":                     {NewInput(Divided(2), share("a", 2, 2, none), share("b", 2, 1, 2, Surging)), "a=2w b=2+"},
		"divided, when all is ready":                {NewInput(Divided(2), share("a", 2, 2, none), share("b", 2, 2, 2, Surging), reportsReady("b")), "a=2R b=2"},
		"somebody's word":                           {With(Clusters("ee"), isNew("z"), unready), "a=2R b=2w z=2+"},
		"a word about removals is another":          {With(Clusters("ee"), isNew("z"), AcceptRemovals("2@2")), "a=2w b=2w z=2+"},
		"one that failed just now":                  {With(Clusters("er"), isNew("z", FailedFor(time.Minute))), "a=2w b=2 z=2+"},
		"one that has failed for long is not":       {With(Clusters("er"), isNew("z", FailedFor(time.Hour))), "a=2R b=2 z=2+"},
		"unless nothing else is Ready":              {With(Clusters("e"), isNew("z", FailedFor(time.Hour))), "a=2w z=2+"},
		"or it takes one of few places":             {With(Clusters("er"), isNew("z", FailedFor(time.Hour)), WithLimit(2)), "a=2w b=2 z=2+"},
		"one that would take it were it Ready":      {With(Clusters("e"), NotReadyCandidate("z")), "a=2w"},
		"or the place that is left":                 {With(Clusters("er"), NotReadyCandidate("z"), WithLimit(2)), "a=2w b=2"},
		"but not for ever":                          {With(Clusters("er"), NotReadyFor("z", time.Hour), WithLimit(2)), "a=2R b=2"},
		"unless it is the only one":                 {With(Clusters("e"), NotReadyFor("z", time.Hour)), "a=2w"},
		"but not one more of all":                   {With(Clusters("er"), NotReadyCandidate("z")), "a=2R b=2"},
		"a lost one that is let go of":              {With(Clusters("ue"), isNew("z"), Annotated(v1alpha1.AnnotationAbandon, "a")), "a=2R b=2w z=2+"},
		"a lost one that is not stays lost":         {With(Clusters("ue"), isNew("z")), "a=2? b=2w z=2+"},
		"all of it, when it is deleted":             {With(Clusters("e"), isNew("z"), Deleting), "a=2R z=2R"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			status := StatusOf(test.in)
			if diff := cmp.Diff(test.want, shares(status)); diff != "" {
				t.Errorf("clusters (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(toJSON(t, status), toJSON(t, StatusOf(Next(test.in, Later(time.Minute))))); diff != "" {
				t.Errorf("at rest (-before +after):\n%s", diff)
			}
		})
	}
}

func TestWhat_waits_for_what_arrives_is_told(t *testing.T) {
	const wrong = `; annotation fleetwright.dev/accept-removals is "lots", not NUMBER@GENERATION: set fleetwright.dev/accept-removals=1@2`
	many := With(Clusters("e"), Chosen("t"), Chosen("u"), Chosen("v"), Chosen("w"), Chosen("x"), Chosen("y"), Chosen("z"))
	tests := map[string]struct {
		in           rollout.Input
		entry, ready string
	}{
		"a removal": {
			in:    With(Clusters("e"), Chosen("z")),
			entry: "the removal starts when the AppService is ready on: z" + orAcceptUnready,
			ready: "2 of 2 clusters not ready: a (RemovalPending), z (Pending); the removal from 1 cluster is pending until the AppService is ready on: z",
		},
		"of many": {
			in:    many,
			entry: "the removal starts when the AppService is ready on: t, u, v, w, x and 2 more" + orAcceptUnready,
			ready: "8 of 8 clusters not ready: a (RemovalPending), t (Pending), u (Pending), v (Pending), w (Pending) and 3 more; " +
				"the removal from 1 cluster is pending until the AppService is ready on: t, u, v, w, x and 2 more",
		},
		"with an annotation that is no number": {
			in:    With(Clusters("e"), Chosen("z"), Annotated(v1alpha1.AnnotationAcceptRemovals, "lots")),
			entry: "the removal starts when the AppService is ready on: z" + orAcceptUnready + wrong,
			ready: "2 of 2 clusters not ready: a (RemovalPending), z (Pending); the removal from 1 cluster is pending until the AppService is ready on: z" +
				wrong,
		},
		"replicas": {
			in:    NewInput(Divided(8), share("a", 8, 8, 4), share("b", none, 0, 4)),
			ready: "2 of 2 clusters not ready: a (RollingOut), b (Pending); the scale-down on 1 cluster is pending until the AppService is ready on: b",
		},
		"replicas and a removal": {
			in:    NewInput(Divided(8), share("a", 4, 4, none), share("b", 4, 4, 2), share("c", none, 0, 6)),
			entry: "the removal starts when the AppService is ready on: c" + orAcceptUnready,
			ready: "3 of 3 clusters not ready: a (RemovalPending), b (RollingOut), c (Pending); the scale-down on 1 cluster is pending until the AppService is ready on: c; " +
				"the removal from 1 cluster is pending until the AppService is ready on: c",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			status := StatusOf(test.in)
			if diff := cmp.Diff(test.entry, status.Clusters[0].Message); diff != "" {
				t.Errorf("the first row (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(test.ready, status.Conditions[1].Message); diff != "" {
				t.Errorf("Ready (-want +got):\n%s", diff)
			}
		})
	}
}
