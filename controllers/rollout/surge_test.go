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

func TestScaleDown_waits_for_replicas_on_surging_clusters(t *testing.T) {
	isUnknown := func(e *v1alpha1.ClusterStatus) {
		e.Phase, e.Reason, e.Generation = v1alpha1.ClusterUnknown, v1alpha1.ReasonClusterUnreachable, Generation
	}
	unready := Annotated(v1alpha1.AnnotationAcceptUnready, "true")
	tests := map[string]struct {
		in   rollout.Input
		want string
	}{
		"keeps the share while the new cluster is not observed":  {NewInput(Divided(8), share("a", 8, 8, 4), share("b", none, 0, 4)), "a=8 b=4+"},
		"keeps the share while the increased share is not ready": {NewInput(Divided(8), share("a", 6, 6, 4), share("b", 2, 2, 4)), "a=6 b=4+"},
		"keeps the share while no new replica is ready":          {NewInput(Divided(8), share("a", 8, 8, 4), share("b", 4, 0, 4, Surging)), "a=8 b=4+"},
		"scales down by one for each ready replica":              {NewInput(Divided(8), share("a", 8, 8, 4), share("b", 4, 1, 4, Surging)), "a=7 b=4+"},
		"scales down completely when all new replicas are ready": {NewInput(Divided(8), share("a", 8, 8, 4), share("b", 4, 4, 4, Surging), reportsReady("b")), "a=4 b=4"},
		"keeps surplus replicas on the first clusters by name":   {NewInput(Divided(8), share("a", 4, 4, 2), share("b", 4, 4, 2), share("c", 4, 3, 4, Surging)), "a=3 b=2 c=4+"},
		"does not scale up again a share that was scaled down":   {NewInput(Divided(8), share("a", 6, 6, 4), share("b", 4, 0, 4, Surging)), "a=6 b=4+"},
		"scales down at once as far as the total decreases":      {NewInput(Divided(4), share("a", 8, 8, 2), share("b", none, 0, 2)), "a=4 b=2+"},

		"counts ready replicas on a leaving cluster":                 {NewInput(Divided(8), share("a", 4, 4, none), share("b", 4, 4, 2), share("c", 6, 2, 6, Surging)), "a=4w b=2 c=6+"},
		"keeps the replicas that the leaving cluster does not cover": {NewInput(Divided(8), share("a", 4, 4, none), share("b", 4, 4, 2), share("c", 6, 1, 6, Surging)), "a=4w b=3 c=6+"},
		"does not count replicas on an unreachable leaving cluster":  {NewInput(Divided(8), share("a", 4, 4, none), Unreachable("a"), share("b", 4, 4, 2), share("c", 6, 2, 6, Surging)), "a=4? b=4 c=6+"},
		"does not count unready replicas on a leaving cluster":       {NewInput(Divided(8), share("a", 4, 0, none), share("b", 4, 4, 2), share("c", 6, 2, 6, Surging)), "a=4w b=4 c=6+"},

		"scales down at once if no cluster is surging":                      {NewInput(Divided(4), share("a", 4, 4, 2), share("b", 4, 4, 2)), "a=2 b=2"},
		"does not wait for an unready cluster that is not surging":          {NewInput(Divided(4), share("a", 4, 4, 2), share("b", 4, 0, 2)), "a=2 b=2"},
		"does not wait with the annotation accept-unready":                  {NewInput(Divided(8), unready, share("a", 8, 8, 4), share("b", none, 0, 4)), "a=4 b=4+"},
		"waits with the annotation accept-removals":                         {NewInput(Divided(8), AcceptRemovals("9@2"), share("a", 8, 8, 4), share("b", none, 0, 4)), "a=8 b=4+"},
		"keeps the replicas of a recovered entry":                           {NewInput(Divided(8), WithEntries(Entry("a", v1alpha1.ClusterPending, Desired(0, 8))), share("a", none, 0, 4), share("b", none, 0, 4)), "a=8 b=4+"},
		"does not count last known ready replicas":                          {NewInput(Divided(8), share("a", 8, 8, 4), share("b", 4, 3, 4, Surging), Unreachable("b")), "a=8 b=4+?"},
		"does not wait for a detached cluster":                              {NewInput(Divided(4), share("a", 8, 8, 4), share("b", 4, 0, 4, Surging), withoutMember("b")), "a=4 b=4+"},
		"a surging cluster with a lower share does not wait for itself":     {NewInput(Divided(8), share("a", 8, 8, 6), share("b", 4, 0, 2, Surging)), "a=8 b=2+"},
		"drops unready replicas of a surging cluster first":                 {NewInput(Divided(8), share("a", 4, 0, 2, Surging), share("b", 8, 8, 4), share("c", none, 0, 2)), "a=2+ b=8 c=2+"},
		"keeps ready replicas of a surging cluster":                         {NewInput(Divided(8), share("a", 5, 5, 3), share("b", 4, 3, 2, Surging), share("c", none, 0, 3)), "a=5 b=3+ c=3+"},
		"counts the replicas that are ready at the lower share":             {NewInput(Divided(8), share("a", 8, 8, 5), share("b", 4, 3, 3, Surging), reportsReady("b", AnsweringReplicas(3), Counting(3, 3))), "a=5 b=3"},
		"a Removing cluster that is chosen again is surging":                {NewInput(Divided(8), share("a", 8, 8, 4), WithEntries(Entry("b", v1alpha1.ClusterRemoving, Desired(1, 6))), share("b", none, 0, 4)), "a=8 b=4+"},
		"a Detached cluster that has rejoined is surging":                   {NewInput(Divided(8), share("a", 8, 8, 4), WithEntries(Entry("b", v1alpha1.ClusterDetached, Desired(1, 4), WithPods(4, 4))), share("b", none, 0, 4)), "a=8 b=4+"},
		"changes nothing while suspended":                                   {NewInput(Divided(8), Suspended, share("a", 8, 8, 4), share("b", 2, 2, 4)), "a=8 b=2"},
		"changes nothing without a plan":                                    {NewInput(Divided(8), share("a", 8, 8, 4), share("b", 2, 2, 4), WithPlanError(errors.New("no"))), "a=8 b=2"},
		"keeps bounds while a new cluster is not ready":                     {NewInput(Divided(0), Autoscaling(4, 8), bounds("a", 4, 8, 5, 2, 4), bounds("b", none, 0, 0, 2, 4)), "a=4-8 b=2-4+"},
		"keeps bounds when only minReplicas decreases":                      {NewInput(Divided(0), Autoscaling(4, 12), bounds("a", 4, 8, 5, 2, 8), bounds("b", none, 0, 0, 2, 4)), "a=4-8 b=2-4+"},
		"keeps bounds while minReplicas are not ready":                      {NewInput(Divided(0), Autoscaling(4, 8), bounds("a", 4, 8, 5, 2, 4), bounds("b", 2, 4, 1, 2, 4, Surging), reportsReady("b", AnsweringReplicas(2), Counting(1, 1))), "a=4-8 b=2-4+"},
		"sets the new bounds when minReplicas are ready":                    {NewInput(Divided(0), Autoscaling(4, 8), bounds("a", 4, 8, 5, 2, 4), bounds("b", 2, 4, 2, 2, 4, Surging), reportsReady("b", AnsweringReplicas(2), Counting(2, 2))), "a=2-4 b=2-4"},
		"sets the new bounds with the annotation accept-unready":            {NewInput(Divided(0), Autoscaling(4, 8), unready, bounds("a", 4, 8, 5, 2, 4), bounds("b", none, 0, 0, 2, 4)), "a=2-4 b=2-4+"},
		"keeps the replicas of a cluster without an autoscaler":             {NewInput(Divided(0), Autoscaling(1, 8), share("a", 3, 3, 0), bounds("b", none, 0, 0, 1, 8)), "a=3 b=1-8+"},
		"increases bounds at once":                                          {NewInput(Divided(0), Autoscaling(6, 9), bounds("a", 2, 3, 2, 4, 6), bounds("b", 2, 3, 2, 2, 3)), "a=4-6+ b=2-3"},
		"an increase of maxReplicas alone is not surging":                   {NewInput(Divided(0), Autoscaling(4, 9), bounds("a", 2, 3, 2, 2, 6), bounds("b", 2, 3, 2, 2, 3)), "a=2-6 b=2-3"},
		"keeps the ready replicas of a surging cluster that is unreachable": {NewInput(share("a", 2, 0, 2, Surging), share("b", 2, 1, 0, Surging, isUnknown), Unreachable("b")), "a=2+ b=1+?"},
		"Divided: keeps them too":                                           {NewInput(Divided(8), share("a", 6, 0, 7, Surging), share("b", 4, 3, 1, Surging, isUnknown), Unreachable("b")), "a=7+ b=3+?"},
		"removes bounds at once when autoscaling ends":                      {NewInput(Divided(8), share("a", 6, 6, 4, WithBounds(1, 9)), share("b", none, 0, 4)), "a=6 b=4+"},
		"increases a share when autoscaling ends":                           {NewInput(Divided(8), share("a", 4, 4, 6, WithBounds(1, 9)), share("b", 4, 4, 2)), "a=6+ b=4"},
		"Duplicated: an edit does not wait":                                 {NewInput(duplicated, share("a", 4, 4, 2), share("b", 2, 2, 4)), "a=2 b=4"},
		"Duplicated: a new cluster is surging":                              {NewInput(share("a", 4, 4, 2), share("b", none, 0, 2)), "a=2 b=2+"},
		"a recovered entry is not surging":                                  {NewInput(Divided(4), share("b", none, 0, 4), Observed("b", Found)), "b=4"},
		"a new cluster with no replicas surges until it is observed":        {NewInput(Divided(8), share("a", 8, 8, 8), share("b", none, 0, 0)), "a=8 b=0+"},
		"a new cluster with no replicas keeps no other replicas":            {NewInput(Divided(6), share("a", 8, 8, 6), share("b", none, 0, 0)), "a=6 b=0+"},
		"a lower share that is ready is not surging":                        {NewInput(Divided(8), share("a", 8, 8, 8), share("b", 2, 2, 0, Surging), reportsReady("b")), "a=8 b=0"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			status := StatusOf(test.in)
			if diff := cmp.Diff(test.want, shares(status)); diff != "" {
				t.Errorf("shares (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(toJSON(t, status), toJSON(t, StatusOf(Next(test.in, Later(time.Hour))))); diff != "" {
				t.Errorf("the status changed at rest (-before +after):\n%s", diff)
			}
			for _, entry := range status.Clusters {
				if decision := test.in.Plan.Find(entry.Name); decision.Chosen() && test.in.Members[entry.Name] != nil && !test.in.App.Spec.Suspend && entry.Generation != Generation {
					t.Errorf("%s has generation %d", entry.Name, entry.Generation)
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

func TestRemovals_wait_for_surging_clusters(t *testing.T) {
	isNew := func(cluster string, changes ...func(*v1alpha1.ClusterStatus)) func(*rollout.Input) {
		return func(in *rollout.Input) {
			Chosen(cluster)(in)
			WithEntries(Entry(cluster, v1alpha1.ClusterProgressing, append([]func(*v1alpha1.ClusterStatus){WithReason(v1alpha1.ReasonRollingOut, ""), WithPods(2, 0), Surging}, changes...)...))(in)
		}
	}
	unready := Annotated(v1alpha1.AnnotationAcceptUnready, "true")
	notSurging := func(entry *v1alpha1.ClusterStatus) { entry.Surging = false }
	tests := map[string]struct {
		in   rollout.Input
		want string
	}{
		"waits until the new cluster is observed":                               {With(Clusters("e"), Chosen("z")), "a=2w z=2+"},
		"waits while the new cluster is not ready":                              {With(Clusters("e"), isNew("z")), "a=2w z=2+"},
		"waits while one pod is not ready":                                      {With(Clusters("e"), isNew("z"), Observed("z", Observation(v1alpha1.ClusterProgressing, Counting(2, 1)))), "a=2w z=2+"},
		"waits while the Service has no address":                                {With(Clusters("e"), isNew("z"), Observed("z", Observation(v1alpha1.ClusterProgressing, Reporting(v1alpha1.ReasonLoadBalancerPending, "")))), "a=2w z=2+"},
		"waits while the new cluster is unreachable":                            {With(Clusters("e"), isNew("z"), Unreachable("z")), "a=2w z=2+?"},
		"starts when the new cluster is ready":                                  {With(Clusters("e"), isNew("z"), Observed("z", Observation(v1alpha1.ClusterReady))), "a=2R z=2"},
		"starts one removal at a time":                                          {With(Clusters("eee"), isNew("z"), Observed("z", Observation(v1alpha1.ClusterReady))), "a=2R b=2w c=2w z=2"},
		"waits on all clusters":                                                 {With(Clusters("eeer"), isNew("z")), "a=2w b=2w c=2w d=2 z=2+"},
		"continues a removal in progress":                                       {With(Clusters("Gr"), isNew("z")), "a=2R b=2 z=2+"},
		"waits without an edit":                                                 {With(Clusters("drr"), isNew("z")), "a=2w b=2 c=2 z=2+"},
		"needs approval for several removals without an edit":                   {With(Clusters("ddr"), isNew("z")), "a=2h b=2h c=2 z=2+"},
		"does not wait for an unready cluster that is not surging":              {With(Clusters("er"), isNew("z", notSurging)), "a=2R b=2 z=2"},
		"waits while no cluster that stays is Ready":                            {With(Clusters("e"), isNew("z", notSurging)), "a=2w z=2"},
		"waits while the cluster that stays has ready pods of another revision": {With(Clusters("e"), isNew("z", notSurging), Observed("z", Observation(v1alpha1.ClusterReady, AnsweringRevision(7)))), "a=2w z=2"},
		"does not wait for a surging cluster that leaves":                       {With(Clusters("ee"), func(in *rollout.Input) { in.App.Status.Clusters[1].Surging = true }, Observed("b", Observation(v1alpha1.ClusterProgressing))), "a=2R b=2+h"},
		"waits for a chosen cluster that is detached":                           {With(Clusters("e"), isNew("z"), withoutMember("z")), "a=2w z=2+"},
		"does not wait for a detached cluster if another one is chosen":         {With(Clusters("er"), isNew("z"), withoutMember("z")), "a=2R b=2 z=2+"},
		"does not wait for a cluster with no replicas":                          {With(Clusters("e"), func(in *rollout.Input) { Divided(0)(in); share("z", none, 0, 0)(in) }), "a=2R z=0+"},
		"Divided: waits until the new cluster is observed":                      {NewInput(Divided(2), share("a", 2, 2, none), share("b", none, 0, 2)), "a=2w b=2+"},
		"Divided: waits for all replicas":                                       {NewInput(Divided(2), share("a", 2, 2, none), share("b", 2, 1, 2, Surging)), "a=2w b=2+"},
		"Divided: starts when all replicas are ready":                           {NewInput(Divided(2), share("a", 2, 2, none), share("b", 2, 2, 2, Surging), reportsReady("b")), "a=2R b=2"},
		"starts with the annotation accept-unready":                             {With(Clusters("ee"), isNew("z"), unready), "a=2R b=2w z=2+"},
		"waits with the annotation accept-removals":                             {With(Clusters("ee"), isNew("z"), AcceptRemovals("2@2")), "a=2w b=2w z=2+"},
		"waits for a cluster that has failed recently":                          {With(Clusters("er"), isNew("z", FailedFor(time.Minute))), "a=2w b=2 z=2+"},
		"does not wait for a cluster that failed long ago":                      {With(Clusters("er"), isNew("z", FailedFor(time.Hour))), "a=2R b=2 z=2+"},
		"waits for a cluster that failed long ago if no other is Ready":         {With(Clusters("e"), isNew("z", FailedFor(time.Hour))), "a=2w z=2+"},
		"waits for a cluster that failed long ago if the placement has a limit": {With(Clusters("er"), isNew("z", FailedFor(time.Hour)), WithLimit(2)), "a=2w b=2 z=2+"},
		"waits for the only candidate to be Ready":                              {With(Clusters("e"), NotReadyCandidate("z")), "a=2w"},
		"waits for a candidate while the plan is below its limit":               {With(Clusters("er"), NotReadyCandidate("z"), WithLimit(2)), "a=2w b=2"},
		"does not wait for a candidate that has not been Ready for long":        {With(Clusters("er"), NotReadyFor("z", time.Hour), WithLimit(2)), "a=2R b=2"},
		"waits for the only candidate, even if it has not been Ready for long":  {With(Clusters("e"), NotReadyFor("z", time.Hour)), "a=2w"},
		"does not wait for a candidate if the placement has no limit":           {With(Clusters("er"), NotReadyCandidate("z")), "a=2R b=2"},
		"starts the removal from an abandoned cluster":                          {With(Clusters("ue"), isNew("z"), Annotated(v1alpha1.AnnotationAbandon, "a")), "a=2R b=2w z=2+"},
		"keeps an unreachable cluster Unknown":                                  {With(Clusters("ue"), isNew("z")), "a=2? b=2w z=2+"},
		"removes it from all clusters when it is deleted":                       {With(Clusters("e"), isNew("z"), Deleting), "a=2R z=2R"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			status := StatusOf(test.in)
			if diff := cmp.Diff(test.want, shares(status)); diff != "" {
				t.Errorf("clusters (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(toJSON(t, status), toJSON(t, StatusOf(Next(test.in, Later(time.Minute))))); diff != "" {
				t.Errorf("the status changed at rest (-before +after):\n%s", diff)
			}
		})
	}
}

func TestPending_changes_name_the_clusters_that_they_wait_for(t *testing.T) {
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
		"a removal that waits for many clusters": {
			in:    many,
			entry: "the removal starts when the AppService is ready on: t, u, v, w, x and 2 more" + orAcceptUnready,
			ready: "8 of 8 clusters not ready: a (RemovalPending), t (Pending), u (Pending), v (Pending), w (Pending) and 3 more; " +
				"the removal from 1 cluster is pending until the AppService is ready on: t, u, v, w, x and 2 more",
		},
		"a removal with a malformed annotation": {
			in:    With(Clusters("e"), Chosen("z"), Annotated(v1alpha1.AnnotationAcceptRemovals, "lots")),
			entry: "the removal starts when the AppService is ready on: z" + orAcceptUnready + wrong,
			ready: "2 of 2 clusters not ready: a (RemovalPending), z (Pending); the removal from 1 cluster is pending until the AppService is ready on: z" +
				wrong,
		},
		"a scale-down": {
			in:    NewInput(Divided(8), share("a", 8, 8, 4), share("b", none, 0, 4)),
			ready: "2 of 2 clusters not ready: a (RollingOut), b (Pending); the scale-down on 1 cluster is pending until the AppService is ready on: b",
		},
		"a scale-down and a removal": {
			in:    NewInput(Divided(8), share("a", 4, 4, none), share("b", 4, 4, 2), share("c", none, 0, 6)),
			entry: "the removal starts when the AppService is ready on: b, c" + orAcceptUnready,
			ready: "3 of 3 clusters not ready: a (RemovalPending), b (RollingOut), c (Pending); the scale-down on 1 cluster is pending until the AppService is ready on: c; " +
				"the removal from 1 cluster is pending until the AppService is ready on: b, c",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			status := StatusOf(test.in)
			if diff := cmp.Diff(test.entry, status.Clusters[0].Message); diff != "" {
				t.Errorf("message of the first entry (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(test.ready, status.Conditions[1].Message); diff != "" {
				t.Errorf("Ready (-want +got):\n%s", diff)
			}
		})
	}
}
