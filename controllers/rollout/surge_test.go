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
)

const out = -1 // out is the share of a cluster that is not chosen or has no entry

// divided makes the clusters divide this number of replicas.
func divided(total int32) func(*rollout.Input) {
	return func(in *rollout.Input) {
		in.App.Spec.Replicas = &total
		in.App.Spec.ReplicaPolicy = &v1alpha1.ReplicaPolicy{Type: v1alpha1.ReplicasDivided}
	}
}

func duplicated(in *rollout.Input) {
	in.App.Spec.ReplicaPolicy = &v1alpha1.ReplicaPolicy{Type: v1alpha1.ReplicasDuplicated}
}

// autoscaling makes members scale the pods within bounds.
func autoscaling(least, most int32) func(*rollout.Input) {
	return func(in *rollout.Input) {
		in.App.Spec.Autoscaling = &v1alpha1.Autoscaling{MinReplicas: &least, MaxReplicas: most}
	}
}

// share adds a cluster that has had this number of replicas since the previous generation, with the
// number of ready replicas and the new share.
func share(cluster string, had, ready, gets int32, changes ...func(*v1alpha1.ClusterStatus)) func(*rollout.Input) {
	return func(in *rollout.Input) {
		in.Members[cluster] = member(cluster, metav1.ConditionTrue)
		decide(in, placement.Decision{Cluster: cluster, Replicas: gets})
		if gets == out {
			notChosen(cluster)(in)
		}
		if had == out {
			return
		}
		r := row(cluster, v1alpha1.ClusterReady, append([]func(*v1alpha1.ClusterStatus){plannedFor(1, had), tookOn(1), running(had, ready)}, changes...)...)
		s := seen(v1alpha1.ClusterReady, answering(1), to(had), counting(had, ready))
		if ready < had {
			r.Phase, r.Reason, s.Phase, s.Reason = v1alpha1.ClusterProgressing, v1alpha1.ReasonRollingOut, v1alpha1.ClusterProgressing, v1alpha1.ReasonRollingOut
		}
		has(r)(in)
		saw(cluster, s)(in)
	}
}

// bounds adds a cluster with an autoscaler: its current bounds, the number of ready pods, and its
// new bounds.
func bounds(cluster string, least, most, ready, getsLeast, getsMost int32, changes ...func(*v1alpha1.ClusterStatus)) func(*rollout.Input) {
	return func(in *rollout.Input) {
		if least == out {
			share(cluster, out, 0, getsLeast)(in)
		} else {
			share(cluster, least, ready, getsLeast, append(changes, scaled(least, most))...)(in)
		}
		decide(in, placement.Decision{Cluster: cluster, Replicas: getsLeast, MinReplicas: getsLeast, MaxReplicas: getsMost})
	}
}

// shares returns the desired replicas of the clusters, with + for surging clusters, and the states
// of the clusters that leave.
func shares(status v1alpha1.AppServiceStatus) string {
	var out []string
	for _, row := range status.Clusters {
		share := fmt.Sprintf("%s=%d", row.Name, row.Replicas)
		if row.MaxReplicas > 0 {
			share = fmt.Sprintf("%s=%d-%d", row.Name, row.MinReplicas, row.MaxReplicas)
		}
		if row.Surging {
			share += "+"
		}
		if letter := letters(v1alpha1.AppServiceStatus{Clusters: []v1alpha1.ClusterStatus{row}}); letter != string(runs) {
			share += letter
		}
		out = append(out, share)
	}
	return strings.Join(out, " ")
}

func TestDivided_replicas_leave_as_others_become_ready(t *testing.T) {
	unready := annotated(v1alpha1.AnnotationAcceptUnready, "true")
	tests := map[string]struct {
		in   rollout.Input
		want string
	}{
		"none before":                            {given(divided(8), share("a", 8, 8, 4), share("b", out, 0, 4)), "a=8 b=4+"},
		"none before, to a share that is raised": {given(divided(8), share("a", 6, 6, 4), share("b", 2, 2, 4)), "a=6 b=4+"},
		"none while none is":                     {given(divided(8), share("a", 8, 8, 4), share("b", 4, 0, 4, arriving)), "a=8 b=4+"},
		"one for one":                            {given(divided(8), share("a", 8, 8, 4), share("b", 4, 1, 4, arriving)), "a=7 b=4+"},
		"all when all are":                       {given(divided(8), share("a", 8, 8, 4), share("b", 4, 4, 4, arriving), at("b")), "a=4 b=4"},
		"kept in order of name":                  {given(divided(8), share("a", 4, 4, 2), share("b", 4, 4, 2), share("c", 4, 3, 4, arriving)), "a=3 b=2 c=4+"},
		"none gets back what was taken":          {given(divided(8), share("a", 6, 6, 4), share("b", 4, 0, 4, arriving)), "a=6 b=4+"},
		"those asked less for at once":           {given(divided(4), share("a", 8, 8, 2), share("b", out, 0, 2)), "a=4 b=2+"},

		"a cluster that leaves covers what is short": {given(divided(8), share("a", 4, 4, out), share("b", 4, 4, 2), share("c", 6, 2, 6, arriving)), "a=4w b=2 c=6+"},
		"and what it does not cover is kept":         {given(divided(8), share("a", 4, 4, out), share("b", 4, 4, 2), share("c", 6, 1, 6, arriving)), "a=4w b=3 c=6+"},
		"one that leaves lost covers nothing":        {given(divided(8), share("a", 4, 4, out), unreachable("a"), share("b", 4, 4, 2), share("c", 6, 2, 6, arriving)), "a=4? b=4 c=6+"},
		"one that leaves broken covers nothing":      {given(divided(8), share("a", 4, 0, out), share("b", 4, 4, 2), share("c", 6, 2, 6, arriving)), "a=4w b=4 c=6+"},

		"at once where it is only asked for less":                {given(divided(4), share("a", 4, 4, 2), share("b", 4, 4, 2)), "a=2 b=2"},
		"at once though a cluster has long been broken":          {given(divided(4), share("a", 4, 4, 2), share("b", 4, 0, 2)), "a=2 b=2"},
		"at once by somebody's word":                             {given(divided(8), unready, share("a", 8, 8, 4), share("b", out, 0, 4)), "a=4 b=4+"},
		"not by a word about removals":                           {given(divided(8), accepting("9@2"), share("a", 8, 8, 4), share("b", out, 0, 4)), "a=8 b=4+"},
		"what was found keeps what it has":                       {given(divided(8), has(row("a", v1alpha1.ClusterPending, plannedFor(0, 8))), share("a", out, 0, 4), share("b", out, 0, 4)), "a=8 b=4+"},
		"what was known of one that is lost says nothing":        {given(divided(8), share("a", 8, 8, 4), share("b", 4, 3, 4, arriving), unreachable("b")), "a=8 b=4+?"},
		"nothing is kept for one that is gone":                   {given(divided(4), share("a", 8, 8, 4), share("b", 4, 0, 4, arriving), without("b")), "a=4 b=4+"},
		"what arrives and is to be less waits not for itself":    {given(divided(8), share("a", 8, 8, 6), share("b", 4, 0, 2, arriving)), "a=8 b=2+"},
		"and is not kept in place of what runs":                  {given(divided(8), share("a", 4, 0, 2, arriving), share("b", 8, 8, 4), share("c", out, 0, 2)), "a=2+ b=8 c=2+"},
		"but what of it is ready is":                             {given(divided(8), share("a", 5, 5, 3), share("b", 4, 3, 2, arriving), share("c", out, 0, 3)), "a=5 b=3+ c=3+"},
		"what was ready when it was asked for less is":           {given(divided(8), share("a", 8, 8, 5), share("b", 4, 3, 3, arriving), at("b", to(3), counting(3, 3))), "a=5 b=3"},
		"one that is chosen again while it is removed is new":    {given(divided(8), share("a", 8, 8, 4), has(row("b", v1alpha1.ClusterRemoving, plannedFor(1, 6))), share("b", out, 0, 4)), "a=8 b=4+"},
		"one whose Secret is back is looked at first":            {given(divided(8), share("a", 8, 8, 4), has(row("b", v1alpha1.ClusterDetached, plannedFor(1, 4), running(4, 4))), share("b", out, 0, 4)), "a=8 b=4+"},
		"nothing is changed while it is suspended":               {given(divided(8), suspended, share("a", 8, 8, 4), share("b", 2, 2, 4)), "a=8 b=2"},
		"nothing is changed without a plan":                      {given(divided(8), share("a", 8, 8, 4), share("b", 2, 2, 4), planError(errors.New("no"))), "a=8 b=2"},
		"the others keep their bounds while one is short":        {given(divided(0), autoscaling(4, 8), bounds("a", 4, 8, 5, 2, 4), bounds("b", out, 0, 0, 2, 4)), "a=4-8 b=2-4+"},
		"when only the least is lowered, too":                    {given(divided(0), autoscaling(4, 12), bounds("a", 4, 8, 5, 2, 8), bounds("b", out, 0, 0, 2, 4)), "a=4-8 b=2-4+"},
		"while the least of it is not ready":                     {given(divided(0), autoscaling(4, 8), bounds("a", 4, 8, 5, 2, 4), bounds("b", 2, 4, 1, 2, 4, arriving), at("b", to(2), counting(1, 1))), "a=4-8 b=2-4+"},
		"and have theirs when it is":                             {given(divided(0), autoscaling(4, 8), bounds("a", 4, 8, 5, 2, 4), bounds("b", 2, 4, 2, 2, 4, arriving), at("b", to(2), counting(2, 2))), "a=2-4 b=2-4"},
		"the bounds too by somebody's word":                      {given(divided(0), autoscaling(4, 8), unready, bounds("a", 4, 8, 5, 2, 4), bounds("b", out, 0, 0, 2, 4)), "a=2-4 b=2-4+"},
		"one without an autoscaler keeps what it has as well":    {given(divided(0), autoscaling(1, 8), share("a", 3, 3, 0), bounds("b", out, 0, 0, 1, 8)), "a=3 b=1-8+"},
		"bounds are raised at once":                              {given(divided(0), autoscaling(6, 9), bounds("a", 2, 3, 2, 4, 6), bounds("b", 2, 3, 2, 2, 3)), "a=4-6+ b=2-3"},
		"that only the most is raised is no move":                {given(divided(0), autoscaling(4, 9), bounds("a", 2, 3, 2, 2, 6), bounds("b", 2, 3, 2, 2, 3)), "a=2-6 b=2-3"},
		"bounds that nobody asks for any more go at once":        {given(divided(8), share("a", 6, 6, 4, scaled(1, 9)), share("b", out, 0, 4)), "a=6 b=4+"},
		"a share is raised where an autoscaler goes":             {given(divided(8), share("a", 4, 4, 6, scaled(1, 9)), share("b", 4, 4, 2)), "a=6+ b=4"},
		"each cluster for itself: an edit is no move":            {given(duplicated, share("a", 4, 4, 2), share("b", 2, 2, 4)), "a=2 b=4"},
		"each cluster for itself: what is new is told":           {given(share("a", 4, 4, 2), share("b", out, 0, 2)), "a=2 b=2+"},
		"what was found is not new":                              {given(divided(4), share("b", out, 0, 4), saw("b", found)), "b=4"},
		"a share of none arrives when the cluster says so":       {given(divided(8), share("a", 8, 8, 8), share("b", out, 0, 0)), "a=8 b=0+"},
		"a share of none keeps nothing":                          {given(divided(6), share("a", 8, 8, 6), share("b", out, 0, 0)), "a=6 b=0+"},
		"a lowered share is no longer arriving once it is ready": {given(divided(8), share("a", 8, 8, 8), share("b", 2, 2, 0, arriving), at("b")), "a=8 b=0"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			status := statusOf(test.in)
			if diff := cmp.Diff(test.want, shares(status)); diff != "" {
				t.Errorf("shares (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(text(t, status), text(t, statusOf(then(test.in, later(time.Hour))))); diff != "" {
				t.Errorf("at rest (-before +after):\n%s", diff)
			}
			for _, row := range status.Clusters {
				if decision := test.in.Plan.Find(row.Name); decision.Chosen() && test.in.Members[row.Name] != nil && !test.in.App.Spec.Suspend && row.Generation != generation {
					t.Errorf("%s is to run generation %d", row.Name, row.Generation)
				}
			}
		})
	}
}

// at makes a cluster report Ready at the current generation, with the replicas of its entry unless
// the case changes them.
func at(cluster string, changes ...func(*observation.Observation)) func(*rollout.Input) {
	return func(in *rollout.Input) {
		r := in.App.Status.Cluster(cluster)
		saw(cluster, seen(v1alpha1.ClusterReady, append([]func(*observation.Observation){to(r.Replicas), counting(r.Replicas, r.Replicas)}, changes...)...))(in)
	}
}

// without makes a cluster one whose Secret is deleted.
func without(cluster string) func(*rollout.Input) {
	return func(in *rollout.Input) {
		delete(in.Members, cluster)
		decide(in, placement.Decision{Cluster: cluster, Reason: v1alpha1.ReasonNoSuchCluster})
	}
}

func TestClusters_are_left_when_what_is_new_elsewhere_is_ready(t *testing.T) {
	isNew := func(cluster string, changes ...func(*v1alpha1.ClusterStatus)) func(*rollout.Input) {
		return func(in *rollout.Input) {
			chosen(cluster)(in)
			has(row(cluster, v1alpha1.ClusterProgressing, append([]func(*v1alpha1.ClusterStatus){because(v1alpha1.ReasonRollingOut, ""), running(2, 0), arriving}, changes...)...))(in)
		}
	}
	unready := annotated(v1alpha1.AnnotationAcceptUnready, "true")
	tests := map[string]struct {
		in   rollout.Input
		want string
	}{
		"not before":                                {with(clusters("e"), chosen("z")), "a=2w z=2+"},
		"not while it is not":                       {with(clusters("e"), isNew("z")), "a=2w z=2+"},
		"not while some of it is not":               {with(clusters("e"), isNew("z"), saw("z", seen(v1alpha1.ClusterProgressing, counting(2, 1)))), "a=2w z=2+"},
		"not while it has no address":               {with(clusters("e"), isNew("z"), saw("z", seen(v1alpha1.ClusterProgressing, saying(v1alpha1.ReasonLoadBalancerPending, "")))), "a=2w z=2+"},
		"not while it is lost":                      {with(clusters("e"), isNew("z"), unreachable("z")), "a=2w z=2+?"},
		"when it is":                                {with(clusters("e"), isNew("z"), saw("z", seen(v1alpha1.ClusterReady))), "a=2R z=2"},
		"then one of few at a time":                 {with(clusters("eee"), isNew("z"), saw("z", seen(v1alpha1.ClusterReady))), "a=2R b=2w c=2w z=2"},
		"none of several":                           {with(clusters("eeer"), isNew("z")), "a=2w b=2w c=2w d=2 z=2+"},
		"what has begun goes on":                    {with(clusters("Gr"), isNew("z")), "a=2R b=2 z=2+"},
		"what drifted waits as well":                {with(clusters("drr"), isNew("z")), "a=2w b=2 c=2 z=2+"},
		"what is held is held":                      {with(clusters("ddr"), isNew("z")), "a=2h b=2h c=2 z=2+"},
		"one that has long been broken is not new":  {with(clusters("e"), isNew("z", func(row *v1alpha1.ClusterStatus) { row.Surging = false })), "a=2R z=2"},
		"one that leaves is not waited for":         {with(clusters("ee"), func(in *rollout.Input) { in.App.Status.Clusters[1].Surging = true }, saw("b", seen(v1alpha1.ClusterProgressing))), "a=2R b=2+h"},
		"one that is gone is waited for":            {with(clusters("e"), isNew("z"), without("z")), "a=2w z=2+"},
		"unless others are chosen":                  {with(clusters("er"), isNew("z"), without("z")), "a=2R b=2 z=2+"},
		"one that is to run none is not waited for": {with(clusters("e"), func(in *rollout.Input) { divided(0)(in); share("z", out, 0, 0)(in) }), "a=2R z=0+"},
		"divided, too":                              {given(divided(2), share("a", 2, 2, out), share("b", out, 0, 2)), "a=2w b=2+"},
		"divided, by the whole":                     {given(divided(2), share("a", 2, 2, out), share("b", 2, 1, 2, arriving)), "a=2w b=2+"},
		"divided, when all is ready":                {given(divided(2), share("a", 2, 2, out), share("b", 2, 2, 2, arriving), at("b")), "a=2R b=2"},
		"somebody's word":                           {with(clusters("ee"), isNew("z"), unready), "a=2R b=2w z=2+"},
		"a word about removals is another":          {with(clusters("ee"), isNew("z"), accepting("2@2")), "a=2w b=2w z=2+"},
		"one that failed just now":                  {with(clusters("er"), isNew("z", failedFor(time.Minute))), "a=2w b=2 z=2+"},
		"one that has failed for long is not":       {with(clusters("er"), isNew("z", failedFor(time.Hour))), "a=2R b=2 z=2+"},
		"unless nothing else is Ready":              {with(clusters("e"), isNew("z", failedFor(time.Hour))), "a=2w z=2+"},
		"or it takes one of few places":             {with(clusters("er"), isNew("z", failedFor(time.Hour)), limitedTo(2)), "a=2w b=2 z=2+"},
		"one that would take it were it Ready":      {with(clusters("e"), notReadyYet("z")), "a=2w"},
		"or the place that is left":                 {with(clusters("er"), notReadyYet("z"), limitedTo(2)), "a=2w b=2"},
		"but not for ever":                          {with(clusters("er"), deadFor("z", time.Hour), limitedTo(2)), "a=2R b=2"},
		"unless it is the only one":                 {with(clusters("e"), deadFor("z", time.Hour)), "a=2w"},
		"but not one more of all":                   {with(clusters("er"), notReadyYet("z")), "a=2R b=2"},
		"a lost one that is let go of":              {with(clusters("ue"), isNew("z"), annotated(v1alpha1.AnnotationAbandon, "a")), "a=2R b=2w z=2+"},
		"a lost one that is not stays lost":         {with(clusters("ue"), isNew("z")), "a=2? b=2w z=2+"},
		"all of it, when it is deleted":             {with(clusters("e"), isNew("z"), deleting), "a=2R z=2R"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			status := statusOf(test.in)
			if diff := cmp.Diff(test.want, shares(status)); diff != "" {
				t.Errorf("clusters (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(text(t, status), text(t, statusOf(then(test.in, later(time.Minute))))); diff != "" {
				t.Errorf("at rest (-before +after):\n%s", diff)
			}
		})
	}
}

func TestWhat_waits_for_what_arrives_is_told(t *testing.T) {
	const wrong = `; annotation fleetwright.dev/accept-removals is "lots", not NUMBER@GENERATION: set fleetwright.dev/accept-removals=1@2`
	many := with(clusters("e"), chosen("t"), chosen("u"), chosen("v"), chosen("w"), chosen("x"), chosen("y"), chosen("z"))
	tests := map[string]struct {
		in         rollout.Input
		row, ready string
	}{
		"a removal": {
			in:    with(clusters("e"), chosen("z")),
			row:   "the removal starts when the AppService is ready on: z" + unlessUnready,
			ready: "2 of 2 clusters not ready: a (RemovalPending), z (Pending); the removal from 1 cluster is pending until the AppService is ready on: z",
		},
		"of many": {
			in:  many,
			row: "the removal starts when the AppService is ready on: t, u, v, w, x and 2 more" + unlessUnready,
			ready: "8 of 8 clusters not ready: a (RemovalPending), t (Pending), u (Pending), v (Pending), w (Pending) and 3 more; " +
				"the removal from 1 cluster is pending until the AppService is ready on: t, u, v, w, x and 2 more",
		},
		"with an annotation that is no number": {
			in:  with(clusters("e"), chosen("z"), annotated(v1alpha1.AnnotationAcceptRemovals, "lots")),
			row: "the removal starts when the AppService is ready on: z" + unlessUnready + wrong,
			ready: "2 of 2 clusters not ready: a (RemovalPending), z (Pending); the removal from 1 cluster is pending until the AppService is ready on: z" +
				wrong,
		},
		"replicas": {
			in:    given(divided(8), share("a", 8, 8, 4), share("b", out, 0, 4)),
			ready: "2 of 2 clusters not ready: a (RollingOut), b (Pending); the scale-down on 1 cluster is pending until the AppService is ready on: b",
		},
		"replicas and a removal": {
			in:  given(divided(8), share("a", 4, 4, out), share("b", 4, 4, 2), share("c", out, 0, 6)),
			row: "the removal starts when the AppService is ready on: c" + unlessUnready,
			ready: "3 of 3 clusters not ready: a (RemovalPending), b (RollingOut), c (Pending); the scale-down on 1 cluster is pending until the AppService is ready on: c; " +
				"the removal from 1 cluster is pending until the AppService is ready on: c",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			status := statusOf(test.in)
			if diff := cmp.Diff(test.row, status.Clusters[0].Message); diff != "" {
				t.Errorf("the first row (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(test.ready, status.Conditions[1].Message); diff != "" {
				t.Errorf("Ready (-want +got):\n%s", diff)
			}
		})
	}
}
