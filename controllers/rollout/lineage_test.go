package rollout_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/observation"
	"github.com/fleetwright/fleetwright/controllers/rollout"
)

const (
	token    = "9-0a0b0c0d"
	howTo    = "if the hub was restored, bring the AppService up to date; to overwrite the clusters, annotate it with fleetwright.dev/accept-hub=" + token
	isAhead  = "Deployment was applied for generation 9, which this hub has never planned: the hub is behind the cluster; " + howTo
	isBehind = "nothing is changed here, because the hub is behind 1 cluster: a; " + howTo
)

var ahead = v1alpha1.HubBehind{Kind: "Deployment", Generation: 9, Accept: token}

// seesAhead makes an observation one of a cluster that the hub is behind.
func seesAhead(seen *observation.Observation) {
	seen.Phase, seen.Reason, seen.Message, seen.HubBehind = v1alpha1.ClusterFailed, v1alpha1.ReasonHubBehind, isAhead, &ahead
}

// isHubBehind makes an entry that of a cluster that the hub is behind.
func isHubBehind(row *v1alpha1.ClusterStatus) {
	row.Phase, row.Reason, row.Message, row.HubBehind = v1alpha1.ClusterFailed, v1alpha1.ReasonHubBehind, isAhead, &ahead
}

// blocked makes an entry that of another cluster, which the hub is not behind.
func blocked(row *v1alpha1.ClusterStatus) {
	row.Phase, row.Reason, row.Message = v1alpha1.ClusterFailed, v1alpha1.ReasonHubBehind, isBehind
}

func TestHub_that_is_behind_one_cluster_stops_all(t *testing.T) {
	rollsOut := seen(v1alpha1.ClusterProgressing, saying(v1alpha1.ReasonRollingOut, ""))
	tests := map[string]struct {
		in   rollout.Input
		want []v1alpha1.ClusterStatus
	}{
		"others that need a change say so": {
			in: given(chosen("a"), chosen("b"), chosen("c"), has(row("a", v1alpha1.ClusterReady), row("b", v1alpha1.ClusterProgressing)),
				saw("a", seen("", seesAhead)), saw("b", rollsOut)),
			want: []v1alpha1.ClusterStatus{
				row("a", "", isHubBehind, since(now)), row("b", "", blocked, since(now)),
				row("c", "", blocked, neverSeen, arriving, since(now)),
			},
		},
		"others that are Ready stay so": {
			in: given(chosen("a"), chosen("b"), has(row("a", v1alpha1.ClusterReady), row("b", v1alpha1.ClusterReady)),
				saw("a", seen("", seesAhead)), saw("b", seen(v1alpha1.ClusterReady))),
			want: []v1alpha1.ClusterStatus{row("a", "", isHubBehind, since(now)), row("b", v1alpha1.ClusterReady)},
		},
		"it stays so when nothing is seen of it any more": {
			in: given(chosen("a"), chosen("b"), has(row("a", "", isHubBehind), row("b", "", blocked)), saw("a", seen(v1alpha1.ClusterReady))),
			want: []v1alpha1.ClusterStatus{
				row("a", "", isHubBehind), row("b", "", blocked),
			},
		},
		"it stays so when it cannot be observed": {
			in: given(chosen("a"), unreachable("a"), has(row("a", "", isHubBehind))),
			want: []v1alpha1.ClusterStatus{row("a", v1alpha1.ClusterUnknown, since(now), func(row *v1alpha1.ClusterStatus) {
				row.Reason, row.HubBehind, row.LastKnownPhase = v1alpha1.ReasonClusterUnreachable, &ahead, v1alpha1.ClusterFailed
				row.Message = "MemberCluster a is not Ready; last known: Failed, 2 of 2 replicas ready"
			})},
		},
		"a removal says so": {
			in:   given(notChosen("b"), chosen("a"), has(row("a", "", isHubBehind), row("b", v1alpha1.ClusterRemoving))),
			want: []v1alpha1.ClusterStatus{row("a", "", isHubBehind), row("b", v1alpha1.ClusterRemoving, because(v1alpha1.ReasonHubBehind, isBehind))},
		},
		"it goes on when that is accepted": {
			in: given(chosen("a"), chosen("b"), has(row("a", "", isHubBehind), row("b", "", blocked)), annotated(v1alpha1.AnnotationAcceptHub, token)),
			want: []v1alpha1.ClusterStatus{
				row("a", v1alpha1.ClusterProgressing, because(v1alpha1.ReasonRollingOut, ""), since(now)),
				row("b", v1alpha1.ClusterProgressing, because(v1alpha1.ReasonRollingOut, ""), since(now)),
			},
		},
		"another stamp that is accepted changes nothing": {
			in:   given(chosen("a"), has(row("a", "", isHubBehind)), annotated(v1alpha1.AnnotationAcceptHub, "8-0a0b0c0d")),
			want: []v1alpha1.ClusterStatus{row("a", "", isHubBehind)},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			status := statusOf(test.in)
			if diff := cmp.Diff(test.want, status.Clusters); diff != "" {
				t.Errorf("rows (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(status, statusOf(then(test.in))); diff != "" {
				t.Errorf("status of its own answer (-want +got):\n%s", diff)
			}
		})
	}
}

// An edit does not end the state. Only an approval does.
func TestHub_that_is_behind_stays_so_when_it_is_edited(t *testing.T) {
	in := given(chosen("a"), has(row("a", "", isHubBehind)), func(in *rollout.Input) { in.App.Generation = 9 })
	want := row("a", "", isHubBehind, plannedFor(9, 2))
	if diff := cmp.Diff([]v1alpha1.ClusterStatus{want}, statusOf(in).Clusters); diff != "" {
		t.Errorf("rows (-want +got):\n%s", diff)
	}
}

func TestHub_that_is_behind_is_said_in_a_line(t *testing.T) {
	const message = "the hub is behind 2 clusters: a, b; nothing is created, changed or deleted on any cluster; " +
		"if the hub was restored, bring the AppService up to date; to overwrite the clusters, annotate it with fleetwright.dev/accept-hub=7-0a0b0c0d," + token
	other := func(row *v1alpha1.ClusterStatus) {
		isHubBehind(row)
		row.HubBehind = &v1alpha1.HubBehind{Kind: "Service", Generation: 7, Accept: "7-0a0b0c0d"}
	}
	in := given(chosen("a"), chosen("b"), has(row("a", "", isHubBehind), row("b", "", other)))
	got := map[string]metav1.Condition{}
	for _, c := range statusOf(in).Conditions {
		got[c.Type] = metav1.Condition{Status: c.Status, Reason: c.Reason, Message: c.Message}
	}
	want := map[string]metav1.Condition{
		v1alpha1.ConditionPlaced:  {Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonPlaced, Message: "placed on 2 clusters of 2"},
		v1alpha1.ConditionReady:   {Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonHubBehind, Message: message},
		v1alpha1.ConditionStalled: {Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonHubBehind, Message: message},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("conditions (-want +got):\n%s", diff)
	}
	deleting(&in)
	for _, c := range statusOf(in).Conditions {
		if c.Message != message || c.Reason != v1alpha1.ReasonDeleting {
			t.Errorf("while it is being deleted, %s says %s: %s", c.Type, c.Reason, c.Message)
		}
	}
}

// A removal that waits for a user's approval is identified by its reason.
func TestHub_that_is_behind_hides_no_removal_that_is_held(t *testing.T) {
	in := given(chosen("a"), notChosen("b"), has(row("a", "", isHubBehind)), saw("b", found))
	status := statusOf(in)
	if got := status.Cluster("b").Reason; got != v1alpha1.ReasonRemovalNeedsApproval {
		t.Errorf("the reason is %s", got)
	}
}

// An abandoned workload is removed when its cluster returns.
func TestHub_that_is_behind_lets_go_of_nothing(t *testing.T) {
	in := given(chosen("a"), notChosen("b"), unreachable("b"), annotated(v1alpha1.AnnotationAbandon, "b"),
		has(row("a", "", isHubBehind), row("b", v1alpha1.ClusterRemoving)))
	if got := in.TombstonesToAdd(); got != nil {
		t.Errorf("to remember: %v", got)
	}
	if status := statusOf(in); status.Cluster("b") == nil {
		t.Error("the row is gone")
	}
}

func TestHub_that_is_behind_remembers_no_removal_when_the_namespace_goes(t *testing.T) {
	in := given(chosen("a"), notChosen("b"), has(row("a", "", isHubBehind), row("b", v1alpha1.ClusterRemoving)))
	if got := in.TombstonesOfTermination(); got != nil {
		t.Errorf("to remember: %v", got)
	}
	in.App.Status.Clusters[0].HubBehind = nil
	if diff := cmp.Diff([]string{"b"}, in.TombstonesOfTermination()); diff != "" {
		t.Errorf("to remember once it is not behind (-want +got):\n%s", diff)
	}
}

// The value in the message accepts all stamps that are ahead, regardless of their number, also if
// it replaces another value.
func TestHub_that_is_behind_is_accepted_by_the_message(t *testing.T) {
	in := given()
	for i := range 60 {
		name := fmt.Sprintf("m%02d", i)
		behind := v1alpha1.HubBehind{Kind: "Deployment", Generation: 9, Accept: fmt.Sprintf("9-0000%04d", i)}
		chosen(name)(&in)
		has(row(name, "", isHubBehind, func(row *v1alpha1.ClusterStatus) { row.HubBehind = &behind }))(&in)
		saw(name, seen("", seesAhead, func(seen *observation.Observation) { seen.HubBehind = &behind }))(&in)
	}
	in = then(in)
	accept := func() {
		t.Helper()
		message := meta.FindStatusCondition(in.App.Status.Conditions, v1alpha1.ConditionReady).Message
		_, value, found := strings.Cut(message, v1alpha1.AnnotationAcceptHub+"=")
		if !found || len(message) > 1000 {
			t.Fatalf("it says %q", message)
		}
		annotated(v1alpha1.AnnotationAcceptHub, value)(&in)
		in = then(in)
	}
	annotated(v1alpha1.AnnotationAcceptHub, "9-00000000")(&in)
	if in = then(in); in.App.Status.Cluster("m00").HubBehind == nil {
		t.Error("one that is accepted is forgotten before the others are")
	}
	accept()
	if in.App.Status.IsHubBehind() {
		t.Fatal("it is still behind")
	}
	if in = then(in, later(time.Minute)); in.App.Status.IsHubBehind() {
		t.Error("it is behind again")
	}
	late := v1alpha1.HubBehind{Kind: "Deployment", Generation: 9, Accept: "9-0000abcd"}
	saw("m01", seen("", seesAhead, func(seen *observation.Observation) { seen.HubBehind = &late }))(&in)
	if in = then(in); !in.App.Status.IsHubBehind() {
		t.Error("a digest accepts what it does not have")
	}
	accept()
	if in.App.Status.IsHubBehind() {
		t.Error("it is still behind once the rest is accepted")
	}
}
