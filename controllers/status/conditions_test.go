package status_test

import (
	"errors"
	"fmt"
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

func TestStatus_conditions(t *testing.T) {
	const (
		isTrue  = metav1.ConditionTrue
		isFalse = metav1.ConditionFalse
		unknown = metav1.ConditionUnknown
	)
	tests := map[string]struct {
		in   rollout.Input
		want []metav1.Condition
	}{
		"every cluster Ready": {
			in: NewInput(in("east", v1alpha1.ClusterReady), in("west", v1alpha1.ClusterReady), NotChosen("north")),
			want: conditions(
				is("Placed", isTrue, v1alpha1.ReasonPlaced, "placed on 2 clusters of 3; not on 1 cluster with other labels"),
				is("Ready", isTrue, v1alpha1.ReasonReady, "running on 2 clusters: east, west"),
			),
		},
		"the only cluster Ready": {
			in: NewInput(in("east", v1alpha1.ClusterReady)),
			want: conditions(
				is("Placed", isTrue, v1alpha1.ReasonPlaced, "placed on 1 cluster of 1"),
				is("Ready", isTrue, v1alpha1.ReasonReady, "running on 1 cluster: east"),
			),
		},
		"one Progressing": {
			in: NewInput(in("east", v1alpha1.ClusterProgressing), in("west", v1alpha1.ClusterReady)),
			want: conditions(
				is("Placed", isTrue, v1alpha1.ReasonPlaced, "placed on 2 clusters of 2"),
				is("Ready", isFalse, v1alpha1.ReasonProgressing, "1 of 2 clusters not ready: east (RollingOut)"),
				is("Reconciling", isTrue, v1alpha1.ReasonProgressing, "1 of 2 clusters not ready: east (RollingOut)"),
			),
		},
		"one Pending": {
			in: NewInput(in("east", v1alpha1.ClusterReady), Chosen("west")),
			want: conditions(
				is("Placed", isTrue, v1alpha1.ReasonPlaced, "placed on 2 clusters of 2"),
				is("Ready", isFalse, v1alpha1.ReasonProgressing, "1 of 2 clusters not ready: west (Pending)"),
				is("Reconciling", isTrue, v1alpha1.ReasonProgressing, "1 of 2 clusters not ready: west (Pending)"),
			),
		},
		"one Failed, the others Ready: nothing more will happen": {
			in: NewInput(in("east", v1alpha1.ClusterFailed), in("west", v1alpha1.ClusterReady)),
			want: conditions(
				is("Placed", isTrue, v1alpha1.ReasonPlaced, "placed on 2 clusters of 2"),
				is("Ready", isFalse, v1alpha1.ReasonClustersFailed, "1 of 2 clusters not ready: east (Refused)"),
				is("Stalled", isTrue, v1alpha1.ReasonClustersFailed, "1 of 2 clusters not ready: east (Refused)"),
			),
		},
		"one Failed, one Progressing: something is under way": {
			in: NewInput(in("east", v1alpha1.ClusterProgressing), in("west", v1alpha1.ClusterFailed)),
			want: conditions(
				is("Placed", isTrue, v1alpha1.ReasonPlaced, "placed on 2 clusters of 2"),
				is("Ready", isFalse, v1alpha1.ReasonClustersFailed, "2 of 2 clusters not ready: west (Refused), east (RollingOut)"),
				is("Reconciling", isTrue, v1alpha1.ReasonClustersFailed, "2 of 2 clusters not ready: west (Refused), east (RollingOut)"),
			),
		},
		"one Failed, one Unknown that may come back": {
			in: NewInput(in("east", v1alpha1.ClusterUnknown), in("west", v1alpha1.ClusterFailed)),
			want: conditions(
				is("Placed", isTrue, v1alpha1.ReasonPlaced, "placed on 2 clusters of 2"),
				is("Ready", isFalse, v1alpha1.ReasonClustersFailed, "2 of 2 clusters not ready: west (Refused), east (ClusterUnreachable)"),
				is("Reconciling", isTrue, v1alpha1.ReasonClustersFailed, "2 of 2 clusters not ready: west (Refused), east (ClusterUnreachable)"),
			),
		},
		"one Unknown, the others Ready": {
			in: NewInput(in("east", v1alpha1.ClusterUnknown), in("west", v1alpha1.ClusterReady)),
			want: conditions(
				is("Placed", isTrue, v1alpha1.ReasonPlaced, "placed on 2 clusters of 2"),
				is("Ready", unknown, v1alpha1.ReasonClustersUnknown, "1 of 2 clusters not ready: east (ClusterUnreachable)"),
				is("Reconciling", isTrue, v1alpha1.ReasonClustersUnknown, "1 of 2 clusters not ready: east (ClusterUnreachable)"),
			),
		},
		"one Unknown, one Progressing": {
			in: NewInput(in("east", v1alpha1.ClusterUnknown), in("west", v1alpha1.ClusterProgressing)),
			want: conditions(
				is("Placed", isTrue, v1alpha1.ReasonPlaced, "placed on 2 clusters of 2"),
				is("Ready", isFalse, v1alpha1.ReasonProgressing, "2 of 2 clusters not ready: east (ClusterUnreachable), west (RollingOut)"),
				is("Reconciling", isTrue, v1alpha1.ReasonProgressing, "2 of 2 clusters not ready: east (ClusterUnreachable), west (RollingOut)"),
			),
		},
		"Ready, and one Removing": {
			in: NewInput(in("east", v1alpha1.ClusterReady), in("west", v1alpha1.ClusterRemoving)),
			want: conditions(
				is("Placed", isTrue, v1alpha1.ReasonPlaced, "placed on 1 cluster of 2; not on 1 cluster with other labels"),
				is("Ready", isTrue, v1alpha1.ReasonReady, "running on 1 cluster: east"),
				is("Reconciling", isTrue, v1alpha1.ReasonRemoving, "removing it from 1 cluster"),
			),
		},
		"Failed, and one Removing": {
			in: NewInput(in("east", v1alpha1.ClusterFailed), in("west", v1alpha1.ClusterRemoving)),
			want: conditions(
				is("Placed", isTrue, v1alpha1.ReasonPlaced, "placed on 1 cluster of 2; not on 1 cluster with other labels"),
				is("Ready", isFalse, v1alpha1.ReasonClustersFailed, "1 of 1 cluster not ready: east (Refused)"),
				is("Stalled", isTrue, v1alpha1.ReasonClustersFailed, "1 of 1 cluster not ready: east (Refused)"),
			),
		},
		"Ready, and one Detached, which counts no more": {
			in: NewInput(in("east", v1alpha1.ClusterReady), in("west", v1alpha1.ClusterDetached)),
			want: conditions(
				is("Placed", isTrue, v1alpha1.ReasonPlaced, "placed on 1 cluster of 1"),
				is("Ready", isTrue, v1alpha1.ReasonReady, "running on 1 cluster: east"),
			),
		},
		"no member": {
			in: NewInput(),
			want: conditions(
				is("Placed", isFalse, v1alpha1.ReasonNoClusters, "there is no MemberCluster: create a kubeconfig Secret to add a cluster"),
				is("Ready", isFalse, v1alpha1.ReasonNoClusters, "no cluster is chosen; see status.placement.excluded"),
				is("Reconciling", isTrue, v1alpha1.ReasonNoClusters, "no cluster is chosen; see status.placement.excluded"),
			),
		},
		"no member chosen": {
			in: NewInput(NotChosen("east"), NotChosen("west"), excluded("north", v1alpha1.ReasonNoSuchCluster)),
			want: conditions(
				is("Placed", isFalse, v1alpha1.ReasonNoClusters, "none of 3 clusters is chosen: 1 cluster in clusterNames without a MemberCluster (north), 2 clusters with other labels"),
				is("Ready", isFalse, v1alpha1.ReasonNoClusters, "no cluster is chosen; see status.placement.excluded"),
				is("Reconciling", isTrue, v1alpha1.ReasonNoClusters, "no cluster is chosen; see status.placement.excluded"),
			),
		},
		"a placement that cannot be understood": {
			in: NewInput(in("east", v1alpha1.ClusterReady), WithPlanError(errors.New("spec.placement.clusterSelector: no"))),
			want: conditions(
				is("Placed", isFalse, v1alpha1.ReasonInvalidPlacement, "spec.placement.clusterSelector: no"),
				is("Ready", isFalse, v1alpha1.ReasonInvalidPlacement, "spec.placement.clusterSelector: no"),
				is("Stalled", isTrue, v1alpha1.ReasonInvalidPlacement, "spec.placement.clusterSelector: no"),
			),
		},
		"a deletion, and what is in its way": {
			in: NewInput(Deleting, in("east", v1alpha1.ClusterReady), in("north", v1alpha1.ClusterReady), Unreachable("north"), WithEntries(Entry("west", v1alpha1.ClusterReady))),
			want: conditions(
				is("Ready", isFalse, v1alpha1.ReasonDeleting, "removing it from 3 clusters: east, north (ClusterUnreachable), west (ClusterDetached)"),
				is("Reconciling", isTrue, v1alpha1.ReasonDeleting, "removing it from 3 clusters: east, north (ClusterUnreachable), west (ClusterDetached)"),
			),
		},
		"a deletion without a plan": {
			in: NewInput(Deleting, in("east", v1alpha1.ClusterReady), WithPlanError(errors.New("no"))),
			want: conditions(
				is("Ready", isFalse, v1alpha1.ReasonDeleting, "removing it from 1 cluster: east"),
				is("Reconciling", isTrue, v1alpha1.ReasonDeleting, "removing it from 1 cluster: east"),
			),
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, StatusOf(test.in).Conditions); diff != "" {
				t.Errorf("conditions (-want +got):\n%s", diff)
			}
		})
	}
}

func TestStatus_conditions_keep_their_time_while_their_status_is_the_same(t *testing.T) {
	old := metav1.NewTime(AnHourAgo.Add(-time.Hour))
	tests := map[string]struct {
		in   rollout.Input
		want map[string]metav1.Time
	}{
		"nothing changed": {
			in:   NewInput(in("east", v1alpha1.ClusterReady), had(old, "Placed", "Ready")),
			want: map[string]metav1.Time{"Placed": old, "Ready": old},
		},
		"the status changed, and what comes with it is new": {
			in:   NewInput(in("east", v1alpha1.ClusterProgressing), had(old, "Placed", "Ready")),
			want: map[string]metav1.Time{"Placed": old, "Ready": Now, "Reconciling": Now},
		},
		"only the reason and the message changed": {
			in:   NewInput(in("east", v1alpha1.ClusterReady), in("west", v1alpha1.ClusterRemoving), had(old, "Placed", "Ready", "Reconciling")),
			want: map[string]metav1.Time{"Placed": old, "Ready": old, "Reconciling": old},
		},
		"Stalled takes the place of Reconciling": {
			in:   NewInput(in("east", v1alpha1.ClusterFailed), had(old, "Placed", "Reconciling")),
			want: map[string]metav1.Time{"Placed": old, "Ready": Now, "Stalled": Now},
		},
		"only the generation changed": {
			in: NewInput(in("east", v1alpha1.ClusterReady), had(old, "Placed", "Ready"), func(in *rollout.Input) {
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
					t.Errorf("%s speaks of generation %d, want %d", condition.Type, condition.ObservedGeneration, Generation)
				}
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("times (-want +got):\n%s", diff)
			}
		})
	}
}

func TestStatus_messages_name_the_first_five_the_worst_first_and_then_by_name(t *testing.T) {
	tests := map[string]struct {
		in   rollout.Input
		want string
	}{
		"five are all named": {
			in:   NewInput(in("e", v1alpha1.ClusterReady), in("d", v1alpha1.ClusterReady), in("c", v1alpha1.ClusterReady), in("b", v1alpha1.ClusterReady), in("a", v1alpha1.ClusterReady)),
			want: "running on 5 clusters: a, b, c, d, e",
		},
		"of more the rest is counted": {
			in: NewInput(in("g", v1alpha1.ClusterReady), in("f", v1alpha1.ClusterReady), in("e", v1alpha1.ClusterReady), in("d", v1alpha1.ClusterReady),
				in("c", v1alpha1.ClusterReady), in("b", v1alpha1.ClusterReady), in("a", v1alpha1.ClusterReady)),
			want: "running on 7 clusters: a, b, c, d, e and 2 more",
		},
		"the worst are named first": {
			in: NewInput(Chosen("a"), in("b", v1alpha1.ClusterProgressing), in("c", v1alpha1.ClusterUnknown), in("d", v1alpha1.ClusterFailed),
				in("e", v1alpha1.ClusterReady), in("f", v1alpha1.ClusterFailed), in("g", v1alpha1.ClusterRemoving), in("h", v1alpha1.ClusterDetached)),
			want: "5 of 6 clusters not ready: d (Refused), f (Refused), c (ClusterUnreachable), b (RollingOut), a (Pending)",
		},
		"what is not named is the least bad": {
			in: NewInput(Chosen("a"), in("b", v1alpha1.ClusterProgressing), in("c", v1alpha1.ClusterUnknown), in("d", v1alpha1.ClusterFailed),
				in("e", v1alpha1.ClusterFailed), in("f", v1alpha1.ClusterFailed), in("g", v1alpha1.ClusterFailed)),
			want: "7 of 7 clusters not ready: d (Refused), e (Refused), f (Refused), g (Refused), c (ClusterUnreachable) and 2 more",
		},
		"a deletion names the first five": {
			in: NewInput(Deleting, in("a", v1alpha1.ClusterReady), in("b", v1alpha1.ClusterReady), in("c", v1alpha1.ClusterReady), in("d", v1alpha1.ClusterReady),
				in("e", v1alpha1.ClusterReady), in("f", v1alpha1.ClusterReady), Unreachable("f")),
			want: "removing it from 6 clusters: a, b, c, d, e and 1 more",
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

func TestStatus_says_once_what_all_failing_clusters_have_in_common(t *testing.T) {
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
		"all clusters":                {NewInput(failed(quota, "a", "b", "c")), "refused by all 3 clusters: " + quota},
		"the only cluster":            {NewInput(failed(quota, "a")), "refused by cluster a: " + quota},
		"all that are not ready":      {NewInput(failed(quota, "a", "b"), in("c", v1alpha1.ClusterReady)), "refused by 2 of 3 clusters: " + quota},
		"all that fail":               {NewInput(failed(quota, "a", "b"), in("c", v1alpha1.ClusterUnknown), Chosen("d")), "refused by 2 of 4 clusters: " + quota + "; 2 more not ready: c (ClusterUnreachable), d (Pending)"},
		"pods that cannot run":        {NewInput(pulling("a"), pulling("b")), "ImagePullBackOff on all 2 clusters: 2 of 2 pods: no such image"},
		"one of several":              {NewInput(failed(quota, "a"), in("c", v1alpha1.ClusterReady)), "1 of 2 clusters not ready: a (Refused)"},
		"different messages":          {NewInput(failed(quota, "a"), failed("other", "b")), "refused by all 2 clusters; a says: " + quota},
		"different messages of some":  {NewInput(failed(quota, "a"), failed("other", "b"), Chosen("c")), "refused by 2 of 3 clusters; a says: " + quota + "; 1 more not ready: c (Pending)"},
		"different reasons":           {NewInput(failed(quota, "a"), pulling("b")), "2 of 2 clusters not ready: a (Refused), b (ImagePullBackOff)"},
		"no message":                  {NewInput(in("a", v1alpha1.ClusterFailed), in("b", v1alpha1.ClusterFailed)), "2 of 2 clusters not ready: a (Refused), b (Refused)"},
		"more than keep their text":   {NewInput(failed(quota, many...)), "refused by all 60 clusters; the first 50 say: " + quota},
		"a rollout that goes its way": {NewInput(in("a", v1alpha1.ClusterProgressing), in("b", v1alpha1.ClusterProgressing)), "2 of 2 clusters not ready: a (RollingOut), b (RollingOut)"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got := meta.FindStatusCondition(StatusOf(test.in).Conditions, v1alpha1.ConditionReady)
			if diff := cmp.Diff(test.want, got.Message); diff != "" {
				t.Errorf("message (-want +got):\n%s", diff)
			}
			after := Next(test.in, Restarted)
			if again := meta.FindStatusCondition(StatusOf(after).Conditions, v1alpha1.ConditionReady); again.Message != got.Message {
				t.Errorf("after a restart it says %q", again.Message)
			}
		})
	}
}

func TestStatus_says_the_rest(t *testing.T) {
	tests := map[string]struct {
		in   rollout.Input
		want v1alpha1.AppServiceStatus
	}{
		"of nothing": {
			in: NewInput(),
			want: v1alpha1.AppServiceStatus{
				ObservedGeneration: Generation,
				Selector:           "fleetwright.dev/appservice=web",
				Summary:            v1alpha1.ClusterSummary{Display: "0/0"},
			},
		},
		"of one cluster in each phase: those Removing and Detached are not of the plan; the pods of those Removing are counted; what is not known now is apart": {
			in: NewInput(Chosen("a"), in("b", v1alpha1.ClusterProgressing), in("c", v1alpha1.ClusterReady), in("d", v1alpha1.ClusterFailed),
				in("e", v1alpha1.ClusterUnknown), in("f", v1alpha1.ClusterRemoving), in("g", v1alpha1.ClusterDetached), excluded("h", v1alpha1.ReasonUnschedulable)),
			want: v1alpha1.AppServiceStatus{
				ObservedGeneration: Generation,
				Replicas:           2, // 4 clusters with 2 pods and 1 with none: the mean is 1.6
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
		"of a cluster that it is removed from and that cannot be reached: its pods are not known": {
			in: NewInput(in("a", v1alpha1.ClusterReady), in("b", v1alpha1.ClusterRemoving), func(in *rollout.Input) { in.Members["b"] = NewMember("b", metav1.ConditionFalse) }),
			want: v1alpha1.AppServiceStatus{
				ObservedGeneration: Generation,
				Replicas:           2,
				Selector:           "fleetwright.dev/appservice=web",
				Summary:            v1alpha1.ClusterSummary{Clusters: 1, Ready: 1, Display: "1/1", Replicas: 2, ReadyReplicas: 2, LastKnownReadyReplicas: 2, Removing: 1},
				Placement:          v1alpha1.PlacementStatus{Excluded: []v1alpha1.ExcludedClusters{{Reason: v1alpha1.ReasonSelectorMismatch, Count: 1, Examples: []string{"b"}}}},
			},
		},
		"of replicas in the unit of spec.replicas: what one cluster has": {
			in: NewInput(Chosen("a"), Chosen("b"), Observed("a", Observation(v1alpha1.ClusterReady, Counting(3, 3))), Observed("b", Observation(v1alpha1.ClusterReady, Counting(3, 3)))),
			want: v1alpha1.AppServiceStatus{
				ObservedGeneration: Generation,
				Replicas:           3,
				Selector:           "fleetwright.dev/appservice=web",
				Summary:            v1alpha1.ClusterSummary{Clusters: 2, Ready: 2, Display: "2/2", Replicas: 4, ReadyReplicas: 6},
			},
		},
		"of replicas in the unit of spec.replicas where they are divided: what the clusters of the plan have together": {
			in: NewInput(Divided(4), Chosen("a"), Chosen("b"), in("c", v1alpha1.ClusterRemoving), Observed("a", Observation(v1alpha1.ClusterReady)), Observed("b", Observation(v1alpha1.ClusterReady, Counting(3, 3)))),
			want: v1alpha1.AppServiceStatus{
				ObservedGeneration: Generation,
				Replicas:           5,
				Selector:           "fleetwright.dev/appservice=web",
				Summary:            v1alpha1.ClusterSummary{Clusters: 2, Ready: 2, Display: "2/2", Replicas: 4, ReadyReplicas: 7, Removing: 1},
				Placement:          v1alpha1.PlacementStatus{Excluded: []v1alpha1.ExcludedClusters{{Reason: v1alpha1.ReasonSelectorMismatch, Count: 1, Examples: []string{"c"}}}},
			},
		},
		"of replicas that are not the same everywhere: the mean, rounded up": {
			in: NewInput(Chosen("a"), Chosen("b"), Chosen("c"), Observed("a", Observation(v1alpha1.ClusterReady, Counting(1, 1)))),
			want: v1alpha1.AppServiceStatus{
				ObservedGeneration: Generation,
				Replicas:           1,
				Selector:           "fleetwright.dev/appservice=web",
				Summary:            v1alpha1.ClusterSummary{Clusters: 3, Ready: 1, Progressing: 2, Display: "1/3", Replicas: 6, ReadyReplicas: 1},
			},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			rest := cmpopts.IgnoreFields(v1alpha1.AppServiceStatus{}, "Conditions", "Clusters")
			test.want.PlannedSpecs, test.want.Placement.SpecHash = lineage.Planned(test.in.App), lineage.PlacementHash(test.in.App)
			if diff := cmp.Diff(test.want, StatusOf(test.in), rest); diff != "" {
				t.Errorf("status (-want +got):\n%s", diff)
			}
		})
	}
}

// in adds a cluster to the AppService that is in a phase already and stays in it.
func in(cluster string, phase v1alpha1.ClusterPhase) func(*rollout.Input) {
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

func excluded(cluster, reason string) func(*rollout.Input) {
	return func(in *rollout.Input) { SetDecision(in, placement.Decision{Cluster: cluster, Reason: reason}) }
}

// had adds conditions to the AppService that have been True since this time.
func had(since metav1.Time, types ...string) func(*rollout.Input) {
	return func(in *rollout.Input) {
		for _, kind := range types {
			in.App.Status.Conditions = append(in.App.Status.Conditions, metav1.Condition{
				Type: kind, Status: metav1.ConditionTrue, Reason: "Old", Message: "old", LastTransitionTime: since,
			})
		}
	}
}

// conditions returns the conditions as new ones of the present generation.
func conditions(conditions ...metav1.Condition) []metav1.Condition {
	for i := range conditions {
		conditions[i].ObservedGeneration, conditions[i].LastTransitionTime = Generation, Now
	}
	return conditions
}

func is(kind string, status metav1.ConditionStatus, reason, message string) metav1.Condition {
	return metav1.Condition{Type: kind, Status: status, Reason: reason, Message: message}
}

// Each reason for which placement excludes a cluster has its own text.
func TestPlaced_says_why_for_every_reason(t *testing.T) {
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
			t.Errorf("of %s it says %q", reason, got)
		}
	}
}
