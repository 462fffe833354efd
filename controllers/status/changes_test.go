package status_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/rollout"
	. "github.com/fleetwright/fleetwright/controllers/rollout/rollouttest"
	"github.com/fleetwright/fleetwright/controllers/status"
)

func TestChanges(t *testing.T) {
	gone := Observed("a", Observation(v1alpha1.ClusterRemoving, GoneSince(AnHourAgo)))
	long := Entry("east", v1alpha1.ClusterDetached, Since(Ago(time.Hour)))
	tests := map[string]struct {
		in   rollout.Input
		want []status.Change
	}{
		"no change":        {in: Clusters("rG")},
		"after a restart":  {in: With(Clusters("rG"), Restarted)},
		"a new cluster":    {in: NewInput(Chosen("east"))},
		"a rollout starts": {in: NewInput(Chosen("east"), WithEntries(Entry("east", v1alpha1.ClusterReady, Desired(1, 2), Applied(1))))},
		"a removal starts": {in: Clusters("e")},
		"the AppService is ready": {
			in:   NewInput(Chosen("east"), WithEntries(Entry("east", v1alpha1.ClusterPending)), Observed("east", Observation(v1alpha1.ClusterReady))),
			want: []status.Change{{Reason: v1alpha1.ReasonReady, Message: "the AppService is ready on 1 of 1 cluster"}},
		},
		"one cluster is ready, another is on its way": {
			in: NewInput(Chosen("a"), Chosen("b"), WithEntries(Entry("a", v1alpha1.ClusterPending), Entry("b", v1alpha1.ClusterPending)), Observed("a", Observation(v1alpha1.ClusterReady))),
		},
		"the last cluster is ready": {
			in:   NewInput(Chosen("a"), Chosen("b"), WithEntries(Entry("a", v1alpha1.ClusterReady), Entry("b", v1alpha1.ClusterPending)), Observed("a", Observation(v1alpha1.ClusterReady)), Observed("b", Observation(v1alpha1.ClusterReady))),
			want: []status.Change{{Reason: v1alpha1.ReasonReady, Message: "the AppService is ready on 2 of 2 clusters"}},
		},
		"the last cluster that can be reached is ready": {
			in:   NewInput(Chosen("a"), Chosen("b"), WithEntries(Entry("a", v1alpha1.ClusterPending), Entry("b", v1alpha1.ClusterUnknown)), Observed("a", Observation(v1alpha1.ClusterReady)), Unreachable("b")),
			want: []status.Change{{Reason: v1alpha1.ReasonReady, Message: "the AppService is ready on 1 of 2 clusters"}},
		},
		"the last cluster fails": {
			in:   NewInput(Chosen("a"), WithEntries(Entry("a", v1alpha1.ClusterPending)), Observed("a", Observation(v1alpha1.ClusterFailed, Reporting(v1alpha1.ReasonRefused, "quota")))),
			want: []status.Change{{Clusters: []string{"a"}, Reason: v1alpha1.ReasonRefused, Message: "quota", Bad: true}},
		},
		"clusters recover": {
			in: NewInput(Chosen("a"), Chosen("b"), Chosen("c"), WithEntries(Entry("a", v1alpha1.ClusterFailed), Entry("b", v1alpha1.ClusterUnknown), Entry("c", v1alpha1.ClusterReady)),
				Observed("a", Observation(v1alpha1.ClusterReady)), Observed("b", Observation(v1alpha1.ClusterReady)), Observed("c", Observation(v1alpha1.ClusterReady))),
			want: []status.Change{{Clusters: []string{"a", "b"}, Reason: v1alpha1.ReasonReady, Message: "the AppService is ready again"}},
		},
		"pods cannot run": {
			in:   NewInput(Chosen("a"), WithEntries(Entry("a", v1alpha1.ClusterProgressing, WithReason(v1alpha1.ReasonRollingOut, ""))), Observed("a", Observation(v1alpha1.ClusterProgressing, Reporting(v1alpha1.ReasonImagePullBackOff, "1 of 2 pods: no such image")))),
			want: []status.Change{{Clusters: []string{"a"}, Reason: v1alpha1.ReasonImagePullBackOff, Message: "1 of 2 pods: no such image", Bad: true}},
		},
		"pods cannot run for another reason": {
			in:   NewInput(Chosen("a"), WithEntries(Entry("a", v1alpha1.ClusterProgressing, WithReason(v1alpha1.ReasonFailedMount, ""))), Observed("a", Observation(v1alpha1.ClusterProgressing, Reporting(v1alpha1.ReasonCrashLoopBackOff, "exit code 1")))),
			want: []status.Change{{Clusters: []string{"a"}, Reason: v1alpha1.ReasonCrashLoopBackOff, Message: "exit code 1", Bad: true}},
		},
		"pods cannot run, with another message": {
			in: NewInput(Chosen("a"), WithEntries(Entry("a", v1alpha1.ClusterProgressing, WithReason(v1alpha1.ReasonContainerConfig, "1 of 2 pods: no Secret"))), Observed("a", Observation(v1alpha1.ClusterProgressing, Reporting(v1alpha1.ReasonContainerConfig, "2 of 2 pods: no Secret")))),
		},
		"pods of a Failed cluster cannot run": {
			in:   NewInput(Chosen("a"), WithEntries(Entry("a", v1alpha1.ClusterFailed, WithReason(v1alpha1.ReasonPodsNotReady, ""))), Observed("a", Observation(v1alpha1.ClusterFailed, Reporting(v1alpha1.ReasonCrashLoopBackOff, "exit code 1")))),
			want: []status.Change{{Clusters: []string{"a"}, Reason: v1alpha1.ReasonCrashLoopBackOff, Message: "exit code 1", Bad: true}},
		},
		"pods of a Failed cluster cannot run for another reason": {
			in:   NewInput(Chosen("a"), WithEntries(Entry("a", v1alpha1.ClusterFailed, WithReason(v1alpha1.ReasonImagePullBackOff, ""))), Observed("a", Observation(v1alpha1.ClusterFailed, Reporting(v1alpha1.ReasonContainerConfig, "no Secret")))),
			want: []status.Change{{Clusters: []string{"a"}, Reason: v1alpha1.ReasonContainerConfig, Message: "no Secret", Bad: true}},
		},
		"a Failed cluster has another reason that is no pod failure": {
			in: NewInput(Chosen("a"), WithEntries(Entry("a", v1alpha1.ClusterFailed, WithReason(v1alpha1.ReasonCrashLoopBackOff, ""))), Observed("a", Observation(v1alpha1.ClusterFailed, Reporting(v1alpha1.ReasonPodsNotReady, "")))),
		},
		"pods still cannot run, and the cluster is Failed": {
			in:   NewInput(Chosen("a"), WithEntries(Entry("a", v1alpha1.ClusterProgressing, WithReason(v1alpha1.ReasonCrashLoopBackOff, ""))), Observed("a", Observation(v1alpha1.ClusterFailed, Reporting(v1alpha1.ReasonCrashLoopBackOff, "exit code 1")))),
			want: []status.Change{{Clusters: []string{"a"}, Reason: v1alpha1.ReasonCrashLoopBackOff, Message: "exit code 1", Bad: true}},
		},
		"pods of a Failed cluster still cannot run": {
			in: NewInput(Chosen("a"), WithEntries(Entry("a", v1alpha1.ClusterFailed, WithReason(v1alpha1.ReasonCrashLoopBackOff, "exit code 1"))), Observed("a", Observation(v1alpha1.ClusterFailed, Reporting(v1alpha1.ReasonCrashLoopBackOff, "exit code 2")))),
		},
		"pods cannot run, after a restart": {
			in: NewInput(Chosen("a"), WithEntries(Entry("a", v1alpha1.ClusterProgressing, WithReason(v1alpha1.ReasonCrashLoopBackOff, "exit code 1")))),
		},
		"pods run again": {
			in: NewInput(Chosen("a"), WithEntries(Entry("a", v1alpha1.ClusterProgressing, WithReason(v1alpha1.ReasonCrashLoopBackOff, "exit code 1"))), Observed("a", Observation(v1alpha1.ClusterProgressing, Reporting(v1alpha1.ReasonRollingOut, "")))),
		},
		"bad changes come first": {
			in: NewInput(Chosen("a"), WithEntries(Entry("a", v1alpha1.ClusterPending)), Observed("a", Observation(v1alpha1.ClusterReady)),
				WithEntries(Entry("b", v1alpha1.ClusterReady)), Chosen("b"), Observed("b", Observation(v1alpha1.ClusterFailed, Reporting(v1alpha1.ReasonRefused, "quota"))),
				WithEntries(Entry("c", v1alpha1.ClusterReady)), Chosen("c"), Unreachable("c"), WithEntries(Entry("d", v1alpha1.ClusterReady))),
			want: []status.Change{
				{Clusters: []string{"b"}, Reason: v1alpha1.ReasonRefused, Message: "quota", Bad: true},
				{Clusters: []string{"c"}, Reason: v1alpha1.ReasonClusterUnreachable, Message: "MemberCluster c is not Ready; last known: Ready, 2 of 2 replicas ready", Bad: true},
				{Clusters: []string{"d"}, Reason: v1alpha1.ReasonClusterDetached, Message: MessageSecretGone, Bad: true},
				{Reason: v1alpha1.ReasonReady, Message: "the AppService is ready on 1 of 3 clusters"},
			},
		},
		"a removal ends": {
			in:   With(Clusters("G"), gone),
			want: []status.Change{{Clusters: []string{"a"}, Reason: v1alpha1.ReasonRemoved, Message: "the AppService was removed from the cluster"}},
		},
		"removals of a deletion end": {
			in: NewInput(Chosen("a"), Chosen("b"), Chosen("c"), WithEntries(Entry("a", v1alpha1.ClusterRemoving, Since(AnHourAgo)), Entry("b", v1alpha1.ClusterRemoving, Since(AnHourAgo)), Entry("c", v1alpha1.ClusterRemoving, Since(AnHourAgo)), long),
				gone, Observed("c", Observation(v1alpha1.ClusterRemoving, GoneSince(AnHourAgo))), Deleting),
			want: []status.Change{
				{Clusters: []string{"east"}, Reason: v1alpha1.ReasonClusterDetached, Message: "the AppService was released; the workload on the cluster is left running", Bad: true},
				{Clusters: []string{"a", "c"}, Reason: v1alpha1.ReasonRemoved, Message: "the AppService was removed from the cluster"},
			},
		},
		"a removal with deletionPolicy Orphan ends": {
			in:   With(Clusters("G"), gone, Orphaning),
			want: []status.Change{{Clusters: []string{"a"}, Reason: v1alpha1.ReasonOrphaned, Message: "the workload is left running, without the labels and annotations of Fleetwright"}},
		},
		"a removal is confirmed on an abandoned cluster": {
			in:   With(Clusters("G"), gone, Annotated(v1alpha1.AnnotationAbandon, "a")),
			want: []status.Change{{Clusters: []string{"a"}, Reason: v1alpha1.ReasonRemoved, Message: "the AppService was removed from the cluster"}},
		},
		"a cluster is abandoned": {
			in:   With(Clusters("U"), Annotated(v1alpha1.AnnotationAbandon, "a"), WithTombstone("a")),
			want: []status.Change{{Clusters: []string{"a"}, Reason: v1alpha1.ReasonAbandoned, Message: "the AppService was abandoned on the cluster; its objects are removed when the cluster can be reached again", Bad: true}},
		},
		"a cluster is abandoned with deletionPolicy Orphan": {
			in:   With(Clusters("U"), Annotated(v1alpha1.AnnotationAbandon, "a"), Orphaning),
			want: []status.Change{{Clusters: []string{"a"}, Reason: v1alpha1.ReasonAbandoned, Message: "the AppService was abandoned on the cluster; its objects stay there", Bad: true}},
		},
		"a Detached cluster is abandoned": {
			in:   NewInput(WithEntries(long), Annotated(v1alpha1.AnnotationAbandon, "east")),
			want: []status.Change{{Clusters: []string{"east"}, Reason: v1alpha1.ReasonAbandoned, Message: "the AppService was abandoned on the cluster; its objects stay there", Bad: true}},
		},
		"a Detached cluster is released after its grace period": {
			in:   NewInput(WithEntries(long), Deleting),
			want: []status.Change{{Clusters: []string{"east"}, Reason: v1alpha1.ReasonClusterDetached, Message: "the AppService was released; the workload on the cluster is left running", Bad: true}},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, status.Changes(test.in, StatusOf(test.in))); diff != "" {
				t.Errorf("changes (-want +got):\n%s", diff)
			}
		})
	}
}

// What runs fails because of its revision, and of a container. That a cluster cannot be reached has nothing
// to do with either.
func TestChanges_name_the_cause_of_a_failure(t *testing.T) {
	ofRevision := func(number int64) func(*v1alpha1.ClusterStatus) {
		return func(entry *v1alpha1.ClusterStatus) { entry.Revision = number }
	}
	failing := Observation(v1alpha1.ClusterFailed, Reporting(v1alpha1.ReasonCrashLoopBackOff, "exit code 1"))
	failing.Container, failing.Revision = "first", 4
	in := NewInput(Chosen("a"), WithEntries(Entry("a", v1alpha1.ClusterProgressing, ofRevision(4))), Observed("a", failing),
		Chosen("b"), Unreachable("b"), WithEntries(Entry("b", v1alpha1.ClusterReady, ofRevision(4))))
	want := map[string]status.Cause{"a": {Revision: 4, Container: "first"}, "b": {}}
	after := v1alpha1.AppServiceStatus{Clusters: []v1alpha1.ClusterStatus{
		Entry("a", v1alpha1.ClusterFailed, ofRevision(4), WithReason(v1alpha1.ReasonCrashLoopBackOff, "exit code 1")),
		Entry("b", v1alpha1.ClusterUnknown, ofRevision(4), WithReason(v1alpha1.ReasonClusterUnreachable, "")),
	}}
	got := map[string]status.Cause{}
	for _, change := range status.Changes(in, after) {
		got[change.Clusters[0]] = change.Cause
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("causes (-want +got):\n%s", diff)
	}
}

// However the clusters of a fleet become ready, in statuses of one or of many, it is one change.
func TestChanges_of_a_delivery_are_one(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := NewInput()
		for i := range rapid.IntRange(1, 20).Draw(t, "clusters") {
			in = With(in, Chosen(ClusterName(i)), WithEntries(Entry(ClusterName(i), v1alpha1.ClusterPending)))
		}
		var changes []status.Change
		for waiting := len(in.App.Status.Clusters); waiting > 0; {
			for range rapid.IntRange(1, waiting).Draw(t, "become ready") {
				waiting--
				Observed(in.App.Status.Clusters[waiting].Name, Observation(v1alpha1.ClusterReady))(&in)
			}
			next := StatusOf(in)
			changes = append(changes, status.Changes(in, next)...)
			in.App.Status = next
		}
		if len(changes) != 1 || changes[0].Reason != v1alpha1.ReasonReady {
			t.Errorf("changes: %v", changes)
		}
	})
}
