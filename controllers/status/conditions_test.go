package status_test

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/lineage"
	"github.com/fleetwright/fleetwright/controllers/placement"
	"github.com/fleetwright/fleetwright/controllers/rollout"
	. "github.com/fleetwright/fleetwright/controllers/rollout/rollouttest"
)

func TestConditions(t *testing.T) {
	tests := map[string]struct {
		in            rollout.Input
		placed, ready metav1.Condition
		also          string // the type of a further condition, with the reason and message of Ready
	}{
		"every cluster Ready": {
			in:     NewInput(inPhase("east", v1alpha1.ClusterReady), inPhase("west", v1alpha1.ClusterReady), NotChosen("north")),
			placed: placed("placed on 2 clusters of 3; not on 1 cluster with other labels"),
			ready:  ready("running on 2 clusters: east, west"),
		},
		"the only cluster Ready": {
			in:     NewInput(inPhase("east", v1alpha1.ClusterReady)),
			placed: placed("placed on 1 cluster of 1"),
			ready:  ready("running on 1 cluster: east"),
		},
		"one Progressing": {
			in:     NewInput(inPhase("east", v1alpha1.ClusterProgressing), inPhase("west", v1alpha1.ClusterReady)),
			placed: placed("placed on 2 clusters of 2"),
			ready:  notReady(v1alpha1.ReasonProgressing, "1 of 2 clusters not ready: east (RollingOut)"),
			also:   v1alpha1.ConditionReconciling,
		},
		"one Pending": {
			in:     NewInput(inPhase("east", v1alpha1.ClusterReady), Chosen("west")),
			placed: placed("placed on 2 clusters of 2"),
			ready:  notReady(v1alpha1.ReasonProgressing, "1 of 2 clusters not ready: west (Pending)"),
			also:   v1alpha1.ConditionReconciling,
		},
		"one Failed, the others Ready": {
			in:     NewInput(inPhase("east", v1alpha1.ClusterFailed), inPhase("west", v1alpha1.ClusterReady)),
			placed: placed("placed on 2 clusters of 2"),
			ready:  notReady(v1alpha1.ReasonClustersFailed, "1 of 2 clusters not ready: east (Refused)"),
			also:   v1alpha1.ConditionStalled,
		},
		"one Failed, one Progressing": {
			in:     NewInput(inPhase("east", v1alpha1.ClusterProgressing), inPhase("west", v1alpha1.ClusterFailed)),
			placed: placed("placed on 2 clusters of 2"),
			ready:  notReady(v1alpha1.ReasonClustersFailed, "2 of 2 clusters not ready: west (Refused), east (RollingOut)"),
			also:   v1alpha1.ConditionReconciling,
		},
		"one Failed, one Unknown": {
			in:     NewInput(inPhase("east", v1alpha1.ClusterUnknown), inPhase("west", v1alpha1.ClusterFailed)),
			placed: placed("placed on 2 clusters of 2"),
			ready:  notReady(v1alpha1.ReasonClustersFailed, "2 of 2 clusters not ready: west (Refused), east (ClusterUnreachable)"),
			also:   v1alpha1.ConditionReconciling,
		},
		"one Unknown, the others Ready": {
			in:     NewInput(inPhase("east", v1alpha1.ClusterUnknown), inPhase("west", v1alpha1.ClusterReady)),
			placed: placed("placed on 2 clusters of 2"),
			ready:  unknown("1 of 2 clusters not ready: east (ClusterUnreachable)"),
			also:   v1alpha1.ConditionReconciling,
		},
		"one Unknown, one Progressing": {
			in:     NewInput(inPhase("east", v1alpha1.ClusterUnknown), inPhase("west", v1alpha1.ClusterProgressing)),
			placed: placed("placed on 2 clusters of 2"),
			ready:  notReady(v1alpha1.ReasonProgressing, "2 of 2 clusters not ready: east (ClusterUnreachable), west (RollingOut)"),
			also:   v1alpha1.ConditionReconciling,
		},
		"Failed, and one Removing": {
			in:     NewInput(inPhase("east", v1alpha1.ClusterFailed), inPhase("west", v1alpha1.ClusterRemoving)),
			placed: placed("placed on 1 cluster of 2; not on 1 cluster with other labels"),
			ready:  notReady(v1alpha1.ReasonClustersFailed, "1 of 1 cluster not ready: east (Refused)"),
			also:   v1alpha1.ConditionStalled,
		},
		"Ready, and one Detached": {
			in:     NewInput(inPhase("east", v1alpha1.ClusterReady), inPhase("west", v1alpha1.ClusterDetached)),
			placed: placed("placed on 1 cluster of 1"),
			ready:  ready("running on 1 cluster: east"),
		},
		"no member": {
			in:     NewInput(),
			placed: notPlaced(v1alpha1.ReasonNoClusters, "there is no MemberCluster: add a cluster with kubectl appsvc join CONTEXT"),
			ready:  notReady(v1alpha1.ReasonNoClusters, "there is no MemberCluster: add a cluster with kubectl appsvc join CONTEXT"),
			also:   v1alpha1.ConditionReconciling,
		},
		"no member, and names of clusters": {
			in:     NewInput(excluded("north", v1alpha1.ReasonNoSuchCluster)),
			placed: notPlaced(v1alpha1.ReasonNoClusters, "there is no MemberCluster: add a cluster with kubectl appsvc join CONTEXT"),
			ready:  notReady(v1alpha1.ReasonNoClusters, "there is no MemberCluster: add a cluster with kubectl appsvc join CONTEXT"),
			also:   v1alpha1.ConditionReconciling,
		},
		"no member chosen": {
			in:     NewInput(NotChosen("east"), NotChosen("west"), excluded("north", v1alpha1.ReasonNoSuchCluster)),
			placed: notPlaced(v1alpha1.ReasonNoClusters, "no cluster is chosen: 1 cluster in clusterNames without a MemberCluster (north), 2 clusters with other labels"),
			ready:  notReady(v1alpha1.ReasonNoClusters, "no cluster is chosen: 1 cluster in clusterNames without a MemberCluster (north), 2 clusters with other labels"),
			also:   v1alpha1.ConditionReconciling,
		},
		"no member chosen, for several requirements": {
			in: NewInput(Unreachable("a"), excluded("a", v1alpha1.ReasonClusterNotReady), unmet("b", v1alpha1.ReasonTaintNotTolerated, "maintenance=true:NoExecute"),
				unmet("c", v1alpha1.ReasonTaintNotTolerated, "maintenance=true:NoExecute"), unmet("d", v1alpha1.ReasonSelectorMismatch, "region=eu"), unmet("e", v1alpha1.ReasonSelectorMismatch, "tier=prod")),
			placed: notPlaced(v1alpha1.ReasonNoClusters, "no cluster is chosen: 1 cluster not Ready, 2 clusters with other labels (want region=eu or tier=prod), 2 clusters with taints (maintenance=true:NoExecute)"),
			ready:  notReady(v1alpha1.ReasonNoClusters, "no cluster is chosen: 1 cluster not Ready, 2 clusters with other labels (want region=eu or tier=prod), 2 clusters with taints (maintenance=true:NoExecute)"),
			also:   v1alpha1.ConditionReconciling,
		},
		"the only member has no Secret": {
			in:     NewInput(withoutSecret("east"), excluded("east", v1alpha1.ReasonSecretMissing)),
			placed: notPlaced(v1alpha1.ReasonNoClusters, "no cluster is chosen: 1 cluster without a Secret"),
			ready:  notReady(v1alpha1.ReasonNoClusters, "no cluster is chosen: 1 cluster without a Secret"),
			also:   v1alpha1.ConditionReconciling,
		},
		"a limit": {
			in:     NewInput(inPhase("east", v1alpha1.ClusterReady), unmet("west", v1alpha1.ReasonLimitReached, "limit=1")),
			placed: placed("placed on 1 cluster of 2; not on 1 cluster beyond the limit (limit=1)"),
			ready:  ready("running on 1 cluster: east"),
		},
		"an invalid placement": {
			in:     NewInput(inPhase("east", v1alpha1.ClusterReady), WithPlanError(errors.New("spec.placement.clusterSelector: no"))),
			placed: notPlaced(v1alpha1.ReasonInvalidPlacement, "spec.placement.clusterSelector: no"),
			ready:  notReady(v1alpha1.ReasonInvalidPlacement, "spec.placement.clusterSelector: no"),
			also:   v1alpha1.ConditionStalled,
		},
		"a deletion": {
			in: NewInput(Deleting, inPhase("east", v1alpha1.ClusterReady), inPhase("north", v1alpha1.ClusterReady), Unreachable("north"), WithEntries(Entry("west", v1alpha1.ClusterReady))),
			ready: notReady(v1alpha1.ReasonDeleting, "removing it from 3 clusters: east, north (ClusterUnreachable), west (ClusterDetached)"+
				"; waiting up to 30s, in case the Secret of a Detached cluster was deleted by mistake and returns"+
				"; to stop waiting for 1 cluster that cannot be reached: kubectl annotate appservice web -n shop fleetwright.dev/abandon=north"),
			also: v1alpha1.ConditionReconciling,
		},
		"a deletion that waits for clusters after others were abandoned": {
			in: NewInput(Deleting, unreachable("east", "north"), Annotated(v1alpha1.AnnotationAbandon, "gone")),
			ready: notReady(v1alpha1.ReasonDeleting, "removing it from 2 clusters: east (ClusterUnreachable), north (ClusterUnreachable)"+
				"; to stop waiting for 2 clusters that cannot be reached: kubectl annotate appservice web -n shop --overwrite fleetwright.dev/abandon=east,north"),
			also: v1alpha1.ConditionReconciling,
		},
		"a deletion that waits for many clusters": {
			in: NewInput(Deleting, unreachable("a", "b", "c", "d", "e", "f", "g")),
			ready: notReady(v1alpha1.ReasonDeleting, "removing it from 7 clusters: a (ClusterUnreachable), b (ClusterUnreachable), c (ClusterUnreachable), d (ClusterUnreachable), e (ClusterUnreachable) and 2 more"+
				"; to stop waiting for the first 5 of 7 clusters that cannot be reached: kubectl annotate appservice web -n shop fleetwright.dev/abandon=a,b,c,d,e"),
			also: v1alpha1.ConditionReconciling,
		},
		"a deletion without a plan": {
			in:    NewInput(Deleting, inPhase("east", v1alpha1.ClusterReady), WithPlanError(errors.New("no"))),
			ready: notReady(v1alpha1.ReasonDeleting, "removing it from 1 cluster: east"),
			also:  v1alpha1.ConditionReconciling,
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			want := []metav1.Condition{test.ready}
			if test.placed.Type != "" {
				want = []metav1.Condition{test.placed, test.ready}
			}
			if test.also != "" {
				want = append(want, condition(test.also, metav1.ConditionTrue, test.ready.Reason, test.ready.Message))
			}
			if diff := cmp.Diff(current(want...), StatusOf(test.in).Conditions); diff != "" {
				t.Errorf("conditions (-want +got):\n%s", diff)
			}
		})
	}
}

func TestConditions_of_a_Ready_AppService_with_a_removal(t *testing.T) {
	in := NewInput(inPhase("east", v1alpha1.ClusterReady), inPhase("west", v1alpha1.ClusterRemoving))
	want := current(
		placed("placed on 1 cluster of 2; not on 1 cluster with other labels"),
		ready("running on 1 cluster: east"),
		condition(v1alpha1.ConditionReconciling, metav1.ConditionTrue, v1alpha1.ReasonRemoving, "removing it from 1 cluster"),
	)
	if diff := cmp.Diff(want, StatusOf(in).Conditions); diff != "" {
		t.Errorf("conditions (-want +got):\n%s", diff)
	}
}

func TestConditions_keep_their_time_while_their_status_is_the_same(t *testing.T) {
	old := metav1.NewTime(AnHourAgo.Add(-time.Hour))
	tests := map[string]struct {
		in   rollout.Input
		want map[string]metav1.Time
	}{
		"nothing changed": {
			in:   NewInput(inPhase("east", v1alpha1.ClusterReady), withConditions(old, "Placed", "Ready")),
			want: map[string]metav1.Time{"Placed": old, "Ready": old},
		},
		"the status changed": {
			in:   NewInput(inPhase("east", v1alpha1.ClusterProgressing), withConditions(old, "Placed", "Ready")),
			want: map[string]metav1.Time{"Placed": old, "Ready": Now, "Reconciling": Now},
		},
		"only the reason and the message changed": {
			in:   NewInput(inPhase("east", v1alpha1.ClusterReady), inPhase("west", v1alpha1.ClusterRemoving), withConditions(old, "Placed", "Ready", "Reconciling")),
			want: map[string]metav1.Time{"Placed": old, "Ready": old, "Reconciling": old},
		},
		"Stalled replaces Reconciling": {
			in:   NewInput(inPhase("east", v1alpha1.ClusterFailed), withConditions(old, "Placed", "Reconciling")),
			want: map[string]metav1.Time{"Placed": old, "Ready": Now, "Stalled": Now},
		},
		"only the generation changed": {
			in: NewInput(inPhase("east", v1alpha1.ClusterReady), withConditions(old, "Placed", "Ready"), func(in *rollout.Input) {
				in.App.Status.Conditions[0].ObservedGeneration = 1
			}),
			want: map[string]metav1.Time{"Placed": old, "Ready": old},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got := map[string]metav1.Time{}
			for _, condition := range StatusOf(test.in).Conditions {
				got[condition.Type] = condition.LastTransitionTime
				if condition.ObservedGeneration != Generation {
					t.Errorf("%s has observedGeneration %d, want %d", condition.Type, condition.ObservedGeneration, Generation)
				}
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("times (-want +got):\n%s", diff)
			}
		})
	}
}

func TestMessages_name_five_clusters_sorted_by_phase_and_name(t *testing.T) {
	tests := map[string]struct {
		in   rollout.Input
		want string
	}{
		"five clusters are named": {
			in:   NewInput(inPhase("e", v1alpha1.ClusterReady), inPhase("d", v1alpha1.ClusterReady), inPhase("c", v1alpha1.ClusterReady), inPhase("b", v1alpha1.ClusterReady), inPhase("a", v1alpha1.ClusterReady)),
			want: "running on 5 clusters: a, b, c, d, e",
		},
		"of seven clusters, the last two are counted": {
			in: NewInput(inPhase("g", v1alpha1.ClusterReady), inPhase("f", v1alpha1.ClusterReady), inPhase("e", v1alpha1.ClusterReady), inPhase("d", v1alpha1.ClusterReady),
				inPhase("c", v1alpha1.ClusterReady), inPhase("b", v1alpha1.ClusterReady), inPhase("a", v1alpha1.ClusterReady)),
			want: "running on 7 clusters: a, b, c, d, e and 2 more",
		},
		"the clusters in the worst phase are first": {
			in: NewInput(Chosen("a"), inPhase("b", v1alpha1.ClusterProgressing), inPhase("c", v1alpha1.ClusterUnknown), inPhase("d", v1alpha1.ClusterFailed),
				inPhase("e", v1alpha1.ClusterReady), inPhase("f", v1alpha1.ClusterFailed), inPhase("g", v1alpha1.ClusterRemoving), inPhase("h", v1alpha1.ClusterDetached)),
			want: "5 of 6 clusters not ready: d (Refused), f (Refused), c (ClusterUnreachable), b (RollingOut), a (Pending)",
		},
		"the clusters in the best phase are counted": {
			in: NewInput(Chosen("a"), inPhase("b", v1alpha1.ClusterProgressing), inPhase("c", v1alpha1.ClusterUnknown), inPhase("d", v1alpha1.ClusterFailed),
				inPhase("e", v1alpha1.ClusterFailed), inPhase("f", v1alpha1.ClusterFailed), inPhase("g", v1alpha1.ClusterFailed)),
			want: "7 of 7 clusters not ready: d (Refused), e (Refused), f (Refused), g (Refused), c (ClusterUnreachable) and 2 more",
		},
		"a deletion names five clusters": {
			in: NewInput(Deleting, inPhase("a", v1alpha1.ClusterReady), inPhase("b", v1alpha1.ClusterReady), inPhase("c", v1alpha1.ClusterReady), inPhase("d", v1alpha1.ClusterReady),
				inPhase("e", v1alpha1.ClusterReady), inPhase("f", v1alpha1.ClusterReady), Unreachable("f")),
			want: "removing it from 6 clusters: a, b, c, d, e and 1 more; to stop waiting for 1 cluster that cannot be reached: kubectl annotate appservice web -n shop fleetwright.dev/abandon=f",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			var got string
			for _, condition := range StatusOf(test.in).Conditions {
				if condition.Type == v1alpha1.ConditionReady {
					got = condition.Message
				}
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("message (-want +got):\n%s", diff)
			}
		})
	}
}

func TestMessages_have_a_shared_failure_once(t *testing.T) {
	const quota = `Deployment web: exceeded quota: pods`
	failed := func(message string, names ...string) func(*rollout.Input) {
		return func(in *rollout.Input) {
			for _, name := range names {
				Chosen(name)(in)
				Observed(name, Observation(v1alpha1.ClusterFailed, Reporting(v1alpha1.ReasonRefused, message)))(in)
			}
		}
	}
	pulling := func(name string) func(*rollout.Input) {
		return func(in *rollout.Input) {
			Chosen(name)(in)
			Observed(name, Observation(v1alpha1.ClusterProgressing, Reporting(v1alpha1.ReasonImagePullBackOff, `2 of 2 pods: no such image`)))(in)
		}
	}
	many := make([]string, 60)
	for i := range many {
		many[i] = fmt.Sprintf("m%02d", i)
	}
	tests := map[string]struct {
		in   rollout.Input
		want string
	}{
		"all clusters":                        {NewInput(failed(quota, "a", "b", "c")), "refused by all 3 clusters: " + quota},
		"the only cluster":                    {NewInput(failed(quota, "a")), "refused by cluster a: " + quota},
		"all clusters that are not ready":     {NewInput(failed(quota, "a", "b"), inPhase("c", v1alpha1.ClusterReady)), "refused by 2 of 3 clusters: " + quota},
		"all failing clusters":                {NewInput(failed(quota, "a", "b"), inPhase("c", v1alpha1.ClusterUnknown), Chosen("d")), "refused by 2 of 4 clusters: " + quota + "; 2 more not ready: c (ClusterUnreachable), d (Pending)"},
		"pods that cannot run":                {NewInput(pulling("a"), pulling("b")), "ImagePullBackOff on all 2 clusters: 2 of 2 pods: no such image"},
		"one of several":                      {NewInput(failed(quota, "a"), inPhase("c", v1alpha1.ClusterReady)), "1 of 2 clusters not ready: a (Refused)"},
		"different messages":                  {NewInput(failed(quota, "a"), failed("other", "b")), "refused by all 2 clusters; a says: " + quota},
		"different messages on some clusters": {NewInput(failed(quota, "a"), failed("other", "b"), Chosen("c")), "refused by 2 of 3 clusters; a says: " + quota + "; 1 more not ready: c (Pending)"},
		"different reasons":                   {NewInput(failed(quota, "a"), pulling("b")), "2 of 2 clusters not ready: a (Refused), b (ImagePullBackOff)"},
		"no message":                          {NewInput(inPhase("a", v1alpha1.ClusterFailed), inPhase("b", v1alpha1.ClusterFailed)), "2 of 2 clusters not ready: a (Refused), b (Refused)"},
		"more clusters than have a message":   {NewInput(failed(quota, many...)), "refused by all 60 clusters; the first 50 say: " + quota},
		"a rollout in progress":               {NewInput(inPhase("a", v1alpha1.ClusterProgressing), inPhase("b", v1alpha1.ClusterProgressing)), "2 of 2 clusters not ready: a (RollingOut), b (RollingOut)"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got := meta.FindStatusCondition(StatusOf(test.in).Conditions, v1alpha1.ConditionReady)
			if diff := cmp.Diff(test.want, got.Message); diff != "" {
				t.Errorf("message (-want +got):\n%s", diff)
			}
			after := Next(test.in, Restarted)
			if again := meta.FindStatusCondition(StatusOf(after).Conditions, v1alpha1.ConditionReady); again.Message != got.Message {
				t.Errorf("message after a restart: %q", again.Message)
			}
		})
	}
}

func TestCompute_sets_the_other_fields(t *testing.T) {
	tests := map[string]struct {
		in   rollout.Input
		want v1alpha1.AppServiceStatus
	}{
		"no clusters": {
			in: NewInput(),
			want: v1alpha1.AppServiceStatus{
				ObservedGeneration: Generation,
				AvailableReplicas:  new(int32(0)),
				Selector:           "fleetwright.dev/appservice=web",
				Summary:            v1alpha1.ClusterSummary{Display: "0/0"},
			},
		},
		"one cluster in each phase: Removing and Detached clusters are not part of the plan, pods of Removing clusters count, last known pods count separately": {
			in: NewInput(Chosen("a"), inPhase("b", v1alpha1.ClusterProgressing), inPhase("c", v1alpha1.ClusterReady), inPhase("d", v1alpha1.ClusterFailed),
				inPhase("e", v1alpha1.ClusterUnknown), inPhase("f", v1alpha1.ClusterRemoving), inPhase("g", v1alpha1.ClusterDetached), excluded("h", v1alpha1.ReasonUnschedulable)),
			want: v1alpha1.AppServiceStatus{
				ObservedGeneration: Generation,
				Replicas:           2, // 4 clusters with 2 pods and 1 with none: the mean is 1.6
				AvailableReplicas:  new(int32(8)),
				Selector:           "fleetwright.dev/appservice=web",
				Summary: v1alpha1.ClusterSummary{
					Clusters: 5, Ready: 1, Display: "1/5", Replicas: 10, ReadyReplicas: 8, LastKnownReadyReplicas: 4,
					Progressing: 2, Failed: 1, Unknown: 1, Detached: 1, Removing: 1,
				},
				Placement: v1alpha1.PlacementStatus{Excluded: []v1alpha1.ExcludedClusters{
					{Reason: v1alpha1.ReasonSelectorMismatch, Count: 1, Examples: []string{"f"}},
					{Reason: v1alpha1.ReasonUnschedulable, Count: 1, Examples: []string{"h"}},
				}},
			},
		},
		"an unreachable Removing cluster: its pods count as last known": {
			in: NewInput(inPhase("a", v1alpha1.ClusterReady), inPhase("b", v1alpha1.ClusterRemoving), func(in *rollout.Input) { in.Members["b"] = NewMember("b", metav1.ConditionFalse) }),
			want: v1alpha1.AppServiceStatus{
				ObservedGeneration: Generation,
				Replicas:           2,
				AvailableReplicas:  new(int32(2)),
				Selector:           "fleetwright.dev/appservice=web",
				Summary:            v1alpha1.ClusterSummary{Clusters: 1, Ready: 1, Display: "1/1", Replicas: 2, ReadyReplicas: 2, LastKnownReadyReplicas: 2, Removing: 1},
				Placement:          v1alpha1.PlacementStatus{Excluded: []v1alpha1.ExcludedClusters{{Reason: v1alpha1.ReasonSelectorMismatch, Count: 1, Examples: []string{"b"}}}},
			},
		},
		"pods that are ready and not available yet": {
			in: NewInput(Chosen("a"), Chosen("b"), Observed("a", Observation(v1alpha1.ClusterProgressing, CountingAvailable(0))), Observed("b", Observation(v1alpha1.ClusterReady))),
			want: v1alpha1.AppServiceStatus{
				ObservedGeneration: Generation,
				Replicas:           2,
				AvailableReplicas:  new(int32(2)),
				Selector:           "fleetwright.dev/appservice=web",
				Summary:            v1alpha1.ClusterSummary{Clusters: 2, Ready: 1, Progressing: 1, Display: "1/2", Replicas: 4, ReadyReplicas: 4},
			},
		},
		"available pods of clusters that cannot be observed do not count": {
			in: NewInput(inPhase("a", v1alpha1.ClusterReady), Chosen("b"), WithEntries(Entry("b", v1alpha1.ClusterProgressing, WithAvailable(1))),
				func(in *rollout.Input) { in.Members["b"] = NewMember("b", metav1.ConditionFalse) }),
			want: v1alpha1.AppServiceStatus{
				ObservedGeneration: Generation,
				Replicas:           2,
				AvailableReplicas:  new(int32(2)),
				Selector:           "fleetwright.dev/appservice=web",
				Summary:            v1alpha1.ClusterSummary{Clusters: 2, Ready: 1, Unknown: 1, Display: "1/2", Replicas: 4, ReadyReplicas: 2, LastKnownReadyReplicas: 2},
			},
		},
		"Duplicated: replicas of one cluster": {
			in: NewInput(Chosen("a"), Chosen("b"), Observed("a", Observation(v1alpha1.ClusterReady, Counting(3, 3))), Observed("b", Observation(v1alpha1.ClusterReady, Counting(3, 3)))),
			want: v1alpha1.AppServiceStatus{
				ObservedGeneration: Generation,
				Replicas:           3,
				AvailableReplicas:  new(int32(6)),
				Selector:           "fleetwright.dev/appservice=web",
				Summary:            v1alpha1.ClusterSummary{Clusters: 2, Ready: 2, Display: "2/2", Replicas: 4, ReadyReplicas: 6},
			},
		},
		"Divided: replicas of all clusters of the plan": {
			in: NewInput(Divided(4), Chosen("a"), Chosen("b"), inPhase("c", v1alpha1.ClusterRemoving), Observed("a", Observation(v1alpha1.ClusterReady)), Observed("b", Observation(v1alpha1.ClusterReady, Counting(3, 3)))),
			want: v1alpha1.AppServiceStatus{
				ObservedGeneration: Generation,
				Replicas:           5,
				AvailableReplicas:  new(int32(7)),
				Selector:           "fleetwright.dev/appservice=web",
				Summary:            v1alpha1.ClusterSummary{Clusters: 2, Ready: 2, Display: "2/2", Replicas: 4, ReadyReplicas: 7, Removing: 1},
				Placement:          v1alpha1.PlacementStatus{Excluded: []v1alpha1.ExcludedClusters{{Reason: v1alpha1.ReasonSelectorMismatch, Count: 1, Examples: []string{"c"}}}},
			},
		},
		"more pods than can be counted": {
			in: NewInput(Chosen("a"), Chosen("b"), Observed("a", Observation(v1alpha1.ClusterReady, Counting(math.MaxInt32, math.MaxInt32))), Observed("b", Observation(v1alpha1.ClusterReady))),
			want: v1alpha1.AppServiceStatus{
				ObservedGeneration: Generation,
				Replicas:           1 << 30, // the mean
				AvailableReplicas:  new(int32(math.MaxInt32)),
				Selector:           "fleetwright.dev/appservice=web",
				Summary:            v1alpha1.ClusterSummary{Clusters: 2, Ready: 2, Display: "2/2", Replicas: 4, ReadyReplicas: math.MaxInt32},
			},
		},
		"Duplicated with different replicas: the mean, rounded up": {
			in: NewInput(Chosen("a"), Chosen("b"), Chosen("c"), Observed("a", Observation(v1alpha1.ClusterReady, Counting(1, 1)))),
			want: v1alpha1.AppServiceStatus{
				ObservedGeneration: Generation,
				Replicas:           1,
				AvailableReplicas:  new(int32(1)),
				Selector:           "fleetwright.dev/appservice=web",
				Summary:            v1alpha1.ClusterSummary{Clusters: 3, Ready: 1, Progressing: 2, Display: "1/3", Replicas: 6, ReadyReplicas: 1},
			},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			rest := cmpopts.IgnoreFields(v1alpha1.AppServiceStatus{}, "Conditions", "Clusters")
			test.want.PlannedSpecs, test.want.Placement.SpecHash = lineage.Planned(test.in.App), lineage.PlacementHash(test.in.App)
			test.want.Placement.ReplicasHash = lineage.ReplicasHash(test.in.App)
			numbers := cmpopts.IgnoreFields(v1alpha1.PlacementStatus{}, "Count")
			if diff := cmp.Diff(test.want, StatusOf(test.in), rest, numbers); diff != "" {
				t.Errorf("status (-want +got):\n%s", diff)
			}
		})
	}
}

// inPhase adds a cluster that is in a phase and stays in it.
func inPhase(cluster string, phase v1alpha1.ClusterPhase) func(*rollout.Input) {
	return func(in *rollout.Input) {
		entry := Entry(cluster, phase)
		switch phase {
		case v1alpha1.ClusterDetached:
			entry.Reason = v1alpha1.ReasonClusterDetached
		case v1alpha1.ClusterRemoving:
			NotChosen(cluster)(in)
		default:
			Chosen(cluster)(in)
		}
		switch phase {
		case v1alpha1.ClusterUnknown:
			Unreachable(cluster)(in)
		case v1alpha1.ClusterFailed:
			entry.Reason = v1alpha1.ReasonRefused
		case v1alpha1.ClusterProgressing:
			entry.Reason = v1alpha1.ReasonRollingOut
		}
		WithEntries(entry)(in)
	}
}

func excluded(cluster, reason string) func(*rollout.Input) { return unmet(cluster, reason, "") }

// unreachable adds members that ran the AppService and cannot be reached.
func unreachable(clusters ...string) func(*rollout.Input) {
	return func(in *rollout.Input) {
		for _, cluster := range clusters {
			WithEntries(Entry(cluster, v1alpha1.ClusterRemoving))(in)
			Unreachable(cluster)(in)
		}
	}
}

// unmet makes the plan exclude a cluster that does not meet a requirement.
func unmet(cluster, reason, requirement string) func(*rollout.Input) {
	return func(in *rollout.Input) {
		SetDecision(in, placement.Decision{Cluster: cluster, Reason: reason, Requirement: requirement})
		if reason != v1alpha1.ReasonNoSuchCluster && reason != v1alpha1.ReasonSecretMissing && in.Members[cluster] == nil {
			Reachable(cluster)(in)
		}
	}
}

// withoutSecret adds a MemberCluster without a Secret.
func withoutSecret(cluster string) func(*rollout.Input) {
	return func(in *rollout.Input) {
		in.Secretless = map[string]*v1alpha1.MemberCluster{cluster: NewMember(cluster, metav1.ConditionFalse)}
	}
}

// withConditions adds conditions to the AppService that have been True since this time.
func withConditions(since metav1.Time, types ...string) func(*rollout.Input) {
	return func(in *rollout.Input) {
		for _, kind := range types {
			in.App.Status.Conditions = append(in.App.Status.Conditions, metav1.Condition{
				Type: kind, Status: metav1.ConditionTrue, Reason: "Old", Message: "old", LastTransitionTime: since,
			})
		}
	}
}

// current sets the generation and the time of new conditions.
func current(conditions ...metav1.Condition) []metav1.Condition {
	for i := range conditions {
		conditions[i].ObservedGeneration, conditions[i].LastTransitionTime = Generation, Now
	}
	return conditions
}

func condition(kind string, status metav1.ConditionStatus, reason, message string) metav1.Condition {
	return metav1.Condition{Type: kind, Status: status, Reason: reason, Message: message}
}

func placed(message string) metav1.Condition {
	return condition(v1alpha1.ConditionPlaced, metav1.ConditionTrue, v1alpha1.ReasonPlaced, message)
}

func notPlaced(reason, message string) metav1.Condition {
	return condition(v1alpha1.ConditionPlaced, metav1.ConditionFalse, reason, message)
}

func ready(message string) metav1.Condition {
	return condition(v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonReady, message)
}

func notReady(reason, message string) metav1.Condition {
	return condition(v1alpha1.ConditionReady, metav1.ConditionFalse, reason, message)
}

// unknown returns the Ready condition of an AppService with clusters that cannot be observed.
func unknown(message string) metav1.Condition {
	return condition(v1alpha1.ConditionReady, metav1.ConditionUnknown, v1alpha1.ReasonClustersUnknown, message)
}

func stalled(reason, message string) metav1.Condition {
	return condition(v1alpha1.ConditionStalled, metav1.ConditionTrue, reason, message)
}

// Each reason for which placement excludes a cluster has its own text.
func TestPlaced_explains_every_reason(t *testing.T) {
	files, err := filepath.Glob("../placement/*.go")
	if err != nil || len(files) == 0 {
		t.Fatal("no files of package placement:", err)
	}
	reasons := map[string]bool{}
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, match := range regexp.MustCompile(`v1alpha1\.(Reason\w+)`).FindAllStringSubmatch(string(content), -1) {
			reasons[strings.TrimPrefix(match[1], "Reason")] = true
		}
	}
	if len(reasons) < 9 {
		t.Fatalf("found only %v", reasons)
	}
	for reason := range reasons {
		in := NewInput(Chosen("a"), excluded("b", reason))
		got := meta.FindStatusCondition(StatusOf(in).Conditions, v1alpha1.ConditionPlaced).Message
		if !regexp.MustCompile(`; not on 1 cluster [a-z]+`).MatchString(got) {
			t.Errorf("reason %s has the message %q", reason, got)
		}
	}
}

func TestPlaced_has_a_bounded_message(t *testing.T) {
	in := NewInput()
	for i := range 3 {
		name := fmt.Sprintf("%d%s", i, strings.Repeat("x", 252))
		excluded(name, v1alpha1.ReasonNoSuchCluster)(&in)
		unmet("l"+name[1:]+name[:1], v1alpha1.ReasonSelectorMismatch, strings.Repeat("l", 199)+name[:1])(&in)
		unmet("t"+name[1:]+name[:1], v1alpha1.ReasonTaintNotTolerated, strings.Repeat("t", 199)+name[:1])(&in)
	}
	conditions := StatusOf(in).Conditions
	for _, condition := range conditions {
		if n := len([]rune(condition.Message)); n > 1200 {
			t.Errorf("the message of %s has %d characters", condition.Type, n)
		}
	}
	if diff := cmp.Diff(conditions, StatusOf(in).Conditions); diff != "" {
		t.Errorf("the next time (-want +got):\n%s", diff)
	}
}
