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
	. "github.com/fleetwright/fleetwright/controllers/rollout/rollouttest"
)

const (
	token         = "9-0a0b0c0d"
	howToAccept   = "if the hub was restored, bring the AppService up to date; to overwrite the clusters, annotate it with fleetwright.dev/accept-hub=" + token
	aheadMessage  = "Deployment was applied for generation 9, which this hub has never planned: the hub is behind the cluster; " + howToAccept
	behindMessage = "nothing is changed here, because the hub is behind 1 cluster: a; " + howToAccept
)

var ahead = v1alpha1.HubBehind{Kind: "Deployment", Generation: 9, Accept: token}

// seesAhead makes an observation one of a cluster that the hub is behind.
func observesAhead(seen *observation.Observation) {
	seen.Phase, seen.Reason, seen.Message, seen.HubBehind = v1alpha1.ClusterFailed, v1alpha1.ReasonHubBehind, aheadMessage, &ahead
}

// isHubBehind makes an entry that of a cluster that the hub is behind.
func isHubBehind(entry *v1alpha1.ClusterStatus) {
	entry.Phase, entry.Reason, entry.Message, entry.HubBehind = v1alpha1.ClusterFailed, v1alpha1.ReasonHubBehind, aheadMessage, &ahead
}

// blocked makes an entry that of another cluster, which the hub is not behind.
func blockedElsewhere(entry *v1alpha1.ClusterStatus) {
	entry.Phase, entry.Reason, entry.Message = v1alpha1.ClusterFailed, v1alpha1.ReasonHubBehind, behindMessage
}

func TestHub_that_is_behind_one_cluster_stops_all(t *testing.T) {
	rollsOut := Observation(v1alpha1.ClusterProgressing, Reporting(v1alpha1.ReasonRollingOut, ""))
	tests := map[string]struct {
		in   rollout.Input
		want []v1alpha1.ClusterStatus
	}{
		"others that need a change say so": {
			in: NewInput(Chosen("a"), Chosen("b"), Chosen("c"), WithEntries(Entry("a", v1alpha1.ClusterReady), Entry("b", v1alpha1.ClusterProgressing)),
				Observed("a", Observation("", observesAhead)), Observed("b", rollsOut)),
			want: []v1alpha1.ClusterStatus{
				Entry("a", "", isHubBehind, Since(Now)), Entry("b", "", blockedElsewhere, Since(Now)),
				Entry("c", "", blockedElsewhere, NeverObserved, Surging, Since(Now)),
			},
		},
		"others that are Ready stay so": {
			in: NewInput(Chosen("a"), Chosen("b"), WithEntries(Entry("a", v1alpha1.ClusterReady), Entry("b", v1alpha1.ClusterReady)),
				Observed("a", Observation("", observesAhead)), Observed("b", Observation(v1alpha1.ClusterReady))),
			want: []v1alpha1.ClusterStatus{Entry("a", "", isHubBehind, Since(Now)), Entry("b", v1alpha1.ClusterReady)},
		},
		"it stays so when nothing is seen of it any more": {
			in: NewInput(Chosen("a"), Chosen("b"), WithEntries(Entry("a", "", isHubBehind), Entry("b", "", blockedElsewhere)), Observed("a", Observation(v1alpha1.ClusterReady))),
			want: []v1alpha1.ClusterStatus{
				Entry("a", "", isHubBehind), Entry("b", "", blockedElsewhere),
			},
		},
		"it stays so when it cannot be observed": {
			in: NewInput(Chosen("a"), Unreachable("a"), WithEntries(Entry("a", "", isHubBehind))),
			want: []v1alpha1.ClusterStatus{Entry("a", v1alpha1.ClusterUnknown, Since(Now), func(entry *v1alpha1.ClusterStatus) {
				entry.Reason, entry.HubBehind, entry.LastKnownPhase = v1alpha1.ReasonClusterUnreachable, &ahead, v1alpha1.ClusterFailed
				entry.Message = "MemberCluster a is not Ready; last known: Failed, 2 of 2 replicas ready"
			})},
		},
		"a removal says so": {
			in:   NewInput(NotChosen("b"), Chosen("a"), WithEntries(Entry("a", "", isHubBehind), Entry("b", v1alpha1.ClusterRemoving))),
			want: []v1alpha1.ClusterStatus{Entry("a", "", isHubBehind), Entry("b", v1alpha1.ClusterRemoving, WithReason(v1alpha1.ReasonHubBehind, behindMessage))},
		},
		"it goes on when that is accepted": {
			in: NewInput(Chosen("a"), Chosen("b"), WithEntries(Entry("a", "", isHubBehind), Entry("b", "", blockedElsewhere)), Annotated(v1alpha1.AnnotationAcceptHub, token)),
			want: []v1alpha1.ClusterStatus{
				Entry("a", v1alpha1.ClusterProgressing, WithReason(v1alpha1.ReasonRollingOut, ""), Since(Now)),
				Entry("b", v1alpha1.ClusterProgressing, WithReason(v1alpha1.ReasonRollingOut, ""), Since(Now)),
			},
		},
		"another stamp that is accepted changes nothing": {
			in:   NewInput(Chosen("a"), WithEntries(Entry("a", "", isHubBehind)), Annotated(v1alpha1.AnnotationAcceptHub, "8-0a0b0c0d")),
			want: []v1alpha1.ClusterStatus{Entry("a", "", isHubBehind)},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			status := StatusOf(test.in)
			if diff := cmp.Diff(test.want, status.Clusters); diff != "" {
				t.Errorf("rows (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(status, StatusOf(Next(test.in))); diff != "" {
				t.Errorf("status of its own answer (-want +got):\n%s", diff)
			}
		})
	}
}

// An edit does not end the state. Only an approval does.
func TestHub_that_is_behind_stays_so_when_it_is_edited(t *testing.T) {
	in := NewInput(Chosen("a"), WithEntries(Entry("a", "", isHubBehind)), func(in *rollout.Input) { in.App.Generation = 9 })
	want := Entry("a", "", isHubBehind, Desired(9, 2))
	if diff := cmp.Diff([]v1alpha1.ClusterStatus{want}, StatusOf(in).Clusters); diff != "" {
		t.Errorf("rows (-want +got):\n%s", diff)
	}
}

func TestHub_that_is_behind_is_said_in_a_line(t *testing.T) {
	const message = "the hub is behind 2 clusters: a, b; nothing is created, changed or deleted on any cluster; " +
		"if the hub was restored, bring the AppService up to date; to overwrite the clusters, annotate it with fleetwright.dev/accept-hub=7-0a0b0c0d," + token
	other := func(entry *v1alpha1.ClusterStatus) {
		isHubBehind(entry)
		entry.HubBehind = &v1alpha1.HubBehind{Kind: "Service", Generation: 7, Accept: "7-0a0b0c0d"}
	}
	in := NewInput(Chosen("a"), Chosen("b"), WithEntries(Entry("a", "", isHubBehind), Entry("b", "", other)))
	got := map[string]metav1.Condition{}
	for _, c := range StatusOf(in).Conditions {
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
	Deleting(&in)
	for _, c := range StatusOf(in).Conditions {
		if c.Message != message || c.Reason != v1alpha1.ReasonDeleting {
			t.Errorf("while it is being deleted, %s says %s: %s", c.Type, c.Reason, c.Message)
		}
	}
}

// A removal that waits for a user's approval is identified by its reason.
func TestHub_that_is_behind_hides_no_removal_that_is_held(t *testing.T) {
	in := NewInput(Chosen("a"), NotChosen("b"), WithEntries(Entry("a", "", isHubBehind)), Observed("b", Found))
	status := StatusOf(in)
	if got := status.Cluster("b").Reason; got != v1alpha1.ReasonRemovalNeedsApproval {
		t.Errorf("the reason is %s", got)
	}
}

// An abandoned workload is removed when its cluster returns.
func TestHub_that_is_behind_lets_go_of_nothing(t *testing.T) {
	in := NewInput(Chosen("a"), NotChosen("b"), Unreachable("b"), Annotated(v1alpha1.AnnotationAbandon, "b"),
		WithEntries(Entry("a", "", isHubBehind), Entry("b", v1alpha1.ClusterRemoving)))
	if got := in.TombstonesToAdd(); got != nil {
		t.Errorf("to remember: %v", got)
	}
	if status := StatusOf(in); status.Cluster("b") == nil {
		t.Error("the row is gone")
	}
}

func TestHub_that_is_behind_remembers_no_removal_when_the_namespace_goes(t *testing.T) {
	in := NewInput(Chosen("a"), NotChosen("b"), WithEntries(Entry("a", "", isHubBehind), Entry("b", v1alpha1.ClusterRemoving)))
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
	in := NewInput()
	for i := range 60 {
		name := fmt.Sprintf("m%02d", i)
		behind := v1alpha1.HubBehind{Kind: "Deployment", Generation: 9, Accept: fmt.Sprintf("9-0000%04d", i)}
		Chosen(name)(&in)
		WithEntries(Entry(name, "", isHubBehind, func(entry *v1alpha1.ClusterStatus) { entry.HubBehind = &behind }))(&in)
		Observed(name, Observation("", observesAhead, func(seen *observation.Observation) { seen.HubBehind = &behind }))(&in)
	}
	in = Next(in)
	accept := func() {
		t.Helper()
		message := meta.FindStatusCondition(in.App.Status.Conditions, v1alpha1.ConditionReady).Message
		_, value, found := strings.Cut(message, v1alpha1.AnnotationAcceptHub+"=")
		if !found || len(message) > 1000 {
			t.Fatalf("it says %q", message)
		}
		Annotated(v1alpha1.AnnotationAcceptHub, value)(&in)
		in = Next(in)
	}
	Annotated(v1alpha1.AnnotationAcceptHub, "9-00000000")(&in)
	if in = Next(in); in.App.Status.Cluster("m00").HubBehind == nil {
		t.Error("one that is accepted is forgotten before the others are")
	}
	accept()
	if in.App.Status.IsHubBehind() {
		t.Fatal("it is still behind")
	}
	if in = Next(in, Later(time.Minute)); in.App.Status.IsHubBehind() {
		t.Error("it is behind again")
	}
	late := v1alpha1.HubBehind{Kind: "Deployment", Generation: 9, Accept: "9-0000abcd"}
	Observed("m01", Observation("", observesAhead, func(seen *observation.Observation) { seen.HubBehind = &late }))(&in)
	if in = Next(in); !in.App.Status.IsHubBehind() {
		t.Error("a digest accepts what it does not have")
	}
	accept()
	if in.App.Status.IsHubBehind() {
		t.Error("it is still behind once the rest is accepted")
	}
}
