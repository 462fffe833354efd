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

// observesAhead makes an observation one of a cluster that the hub is behind.
func observesAhead(seen *observation.Observation) {
	seen.Phase, seen.Reason, seen.Message, seen.HubBehind = v1alpha1.ClusterFailed, v1alpha1.ReasonHubBehind, aheadMessage, &ahead
}

// isHubBehind makes an entry that of a cluster that the hub is behind.
func isHubBehind(entry *v1alpha1.ClusterStatus) {
	entry.Phase, entry.Reason, entry.Message, entry.HubBehind = v1alpha1.ClusterFailed, v1alpha1.ReasonHubBehind, aheadMessage, &ahead
}

// blockedElsewhere makes an entry that of another cluster, which the hub is not behind.
func blockedElsewhere(entry *v1alpha1.ClusterStatus) {
	entry.Phase, entry.Reason, entry.Message = v1alpha1.ClusterFailed, v1alpha1.ReasonHubBehind, behindMessage
}

// What a hub that is behind takes for the stable revision may be older than what was rolled out since.
func TestHubBehind_on_one_cluster_pauses_a_rollback_on_all(t *testing.T) {
	s := newScenario(t, stageWith(1, soaksFor(3600))).edited("ok-1").passes(20 * time.Minute)
	s.is("Progressing 2, stable 1: canary Completed 2/2, world Soaking 3/3")
	isAhead := func() {
		s.deliverAll()
		seen := s.seen["world-1"]
		observesAhead(&seen)
		s.seen["world-1"] = seen
		s.plan()
	}
	s.annotate(v1alpha1.AnnotationAbort, "2")
	for range 100 {
		isAhead()
		s.advance(10 * time.Second)
	}
	s.revisionsAre("22222")
	s.annotate(v1alpha1.AnnotationAcceptHub, token)
	isAhead()
	s.settles("RolledBack 2, stable 1: canary Completed 0/2, world Soaking 0/3").revisionsAre("11111")
}

func TestHubBehind_on_one_cluster_stops_all_clusters(t *testing.T) {
	rollsOut := Observation(v1alpha1.ClusterProgressing, Reporting(v1alpha1.ReasonRollingOut, ""))
	tests := map[string]struct {
		in   rollout.Input
		want []v1alpha1.ClusterStatus
	}{
		"other clusters that need a change have the reason HubBehind": {
			in: NewInput(Chosen("a"), Chosen("b"), Chosen("c"), WithEntries(Entry("a", v1alpha1.ClusterReady), Entry("b", v1alpha1.ClusterProgressing)),
				Observed("a", Observation("", observesAhead)), Observed("b", rollsOut)),
			want: []v1alpha1.ClusterStatus{
				Entry("a", "", isHubBehind, Since(Now)), Entry("b", "", blockedElsewhere, Since(Now)),
				Entry("c", "", blockedElsewhere, NeverObserved, Surging, Since(Now), Placed(1)),
			},
		},
		"other clusters that are Ready stay Ready": {
			in: NewInput(Chosen("a"), Chosen("b"), WithEntries(Entry("a", v1alpha1.ClusterReady), Entry("b", v1alpha1.ClusterReady)),
				Observed("a", Observation("", observesAhead)), Observed("b", Observation(v1alpha1.ClusterReady))),
			want: []v1alpha1.ClusterStatus{Entry("a", "", isHubBehind, Since(Now)), Entry("b", v1alpha1.ClusterReady)},
		},
		"the state stays when it is no longer observed": {
			in: NewInput(Chosen("a"), Chosen("b"), WithEntries(Entry("a", "", isHubBehind), Entry("b", "", blockedElsewhere)), Observed("a", Observation(v1alpha1.ClusterReady))),
			want: []v1alpha1.ClusterStatus{
				Entry("a", "", isHubBehind), Entry("b", "", blockedElsewhere),
			},
		},
		"the state stays when the cluster is unreachable": {
			in: NewInput(Chosen("a"), Unreachable("a"), WithEntries(Entry("a", "", isHubBehind))),
			want: []v1alpha1.ClusterStatus{Entry("a", v1alpha1.ClusterUnknown, Since(Now), func(entry *v1alpha1.ClusterStatus) {
				entry.Reason, entry.HubBehind, entry.LastKnownPhase = v1alpha1.ReasonClusterUnreachable, &ahead, v1alpha1.ClusterFailed
				entry.Message = "MemberCluster a is not Ready; last known: Failed, 2 of 2 replicas ready"
			})},
		},
		"a removal has the reason HubBehind": {
			in:   NewInput(NotChosen("b"), Chosen("a"), WithEntries(Entry("a", "", isHubBehind), Entry("b", v1alpha1.ClusterRemoving))),
			want: []v1alpha1.ClusterStatus{Entry("a", "", isHubBehind), Entry("b", v1alpha1.ClusterRemoving, WithReason(v1alpha1.ReasonHubBehind, behindMessage))},
		},
		"the rollout continues after the acceptance": {
			in: NewInput(Chosen("a"), Chosen("b"), WithEntries(Entry("a", "", isHubBehind), Entry("b", "", blockedElsewhere)), Annotated(v1alpha1.AnnotationAcceptHub, token)),
			want: []v1alpha1.ClusterStatus{
				Entry("a", v1alpha1.ClusterProgressing, WithReason(v1alpha1.ReasonRollingOut, ""), Since(Now)),
				Entry("b", v1alpha1.ClusterProgressing, WithReason(v1alpha1.ReasonRollingOut, ""), Since(Now)),
			},
		},
		"the acceptance of another stamp changes nothing": {
			in:   NewInput(Chosen("a"), WithEntries(Entry("a", "", isHubBehind)), Annotated(v1alpha1.AnnotationAcceptHub, "8-0a0b0c0d")),
			want: []v1alpha1.ClusterStatus{Entry("a", "", isHubBehind)},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			status := StatusOf(test.in)
			if diff := cmp.Diff(test.want, status.Clusters); diff != "" {
				t.Errorf("entries (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(status, StatusOf(Next(test.in))); diff != "" {
				t.Errorf("the status changed at rest (-want +got):\n%s", diff)
			}
		})
	}
}

// An edit does not end the state. Only an approval does.
func TestHubBehind_stays_after_an_edit(t *testing.T) {
	in := NewInput(Chosen("a"), WithEntries(Entry("a", "", isHubBehind)), func(in *rollout.Input) { in.App.Generation = 9 })
	want := Entry("a", "", isHubBehind, Desired(9, 2))
	if diff := cmp.Diff([]v1alpha1.ClusterStatus{want}, StatusOf(in).Clusters); diff != "" {
		t.Errorf("entries (-want +got):\n%s", diff)
	}
}

func TestHubBehind_is_explained_in_the_conditions(t *testing.T) {
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
			t.Errorf("during the deletion, condition %s has reason %s and message %s", c.Type, c.Reason, c.Message)
		}
	}
}

// A removal that waits for a user's approval is identified by its reason.
func TestHubBehind_does_not_hide_a_removal_that_needs_approval(t *testing.T) {
	in := NewInput(Chosen("a"), NotChosen("b"), WithEntries(Entry("a", "", isHubBehind)), Observed("b", Found))
	status := StatusOf(in)
	if got := status.Cluster("b").Reason; got != v1alpha1.ReasonRemovalNeedsApproval {
		t.Errorf("the reason is %s", got)
	}
}

// An abandoned workload is removed when its cluster returns.
func TestHubBehind_prevents_abandoning_a_cluster(t *testing.T) {
	in := NewInput(Chosen("a"), NotChosen("b"), Unreachable("b"), Annotated(v1alpha1.AnnotationAbandon, "b"),
		WithEntries(Entry("a", "", isHubBehind), Entry("b", v1alpha1.ClusterRemoving)))
	if got := in.TombstonesToAdd(); got != nil {
		t.Errorf("tombstones to add: %v", got)
	}
	if status := StatusOf(in); status.Cluster("b") == nil {
		t.Error("the entry ended")
	}
}

func TestHubBehind_prevents_tombstones_of_a_termination(t *testing.T) {
	in := NewInput(Chosen("a"), NotChosen("b"), WithEntries(Entry("a", "", isHubBehind), Entry("b", v1alpha1.ClusterRemoving)))
	if got := in.TombstonesOfTermination(); got != nil {
		t.Errorf("tombstones to add: %v", got)
	}
	in.App.Status.Clusters[0].HubBehind = nil
	if diff := cmp.Diff([]string{"b"}, in.TombstonesOfTermination()); diff != "" {
		t.Errorf("tombstones to add when the hub is not behind (-want +got):\n%s", diff)
	}
}

// The value in the message accepts all stamps that are ahead, regardless of their number, also if
// it replaces another value.
func TestHubBehind_is_accepted_by_the_value_in_the_message(t *testing.T) {
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
			t.Fatalf("message %q", message)
		}
		Annotated(v1alpha1.AnnotationAcceptHub, value)(&in)
		in = Next(in)
	}
	Annotated(v1alpha1.AnnotationAcceptHub, "9-00000000")(&in)
	if in = Next(in); in.App.Status.Cluster("m00").HubBehind == nil {
		t.Error("an accepted cluster has no HubBehind although others are not accepted")
	}
	accept()
	if in.App.Status.IsHubBehind() {
		t.Fatal("the hub is still behind")
	}
	if in = Next(in, Later(time.Minute)); in.App.Status.IsHubBehind() {
		t.Error("the hub is behind again")
	}
	late := v1alpha1.HubBehind{Kind: "Deployment", Generation: 9, Accept: "9-0000abcd"}
	Observed("m01", Observation("", observesAhead, func(seen *observation.Observation) { seen.HubBehind = &late }))(&in)
	if in = Next(in); !in.App.Status.IsHubBehind() {
		t.Error("a digest accepts a stamp that it does not contain")
	}
	accept()
	if in.App.Status.IsHubBehind() {
		t.Error("the hub is still behind after the rest was accepted")
	}
}
