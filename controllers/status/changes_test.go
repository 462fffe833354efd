package status_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/rollout"
	"github.com/fleetwright/fleetwright/controllers/status"
)

func TestChanges(t *testing.T) {
	gone := saw("a", seen(v1alpha1.ClusterRemoving, goneSince(before)))
	long := row("east", v1alpha1.ClusterDetached, since(ago(time.Hour)))
	tests := map[string]struct {
		in   rollout.Input
		want []status.Change
	}{
		"nothing happened": {in: clusters("rG")},
		"after a restart":  {in: with(clusters("rG"), restarted)},
		"a cluster is new": {in: given(chosen("east"))},
		"a rollout begins": {in: given(chosen("east"), has(row("east", v1alpha1.ClusterReady, plannedFor(1, 2), tookOn(1))))},
		"a removal begins": {in: clusters("e")},
		"the AppService is ready": {
			in:   given(chosen("east"), has(row("east", v1alpha1.ClusterPending)), saw("east", seen(v1alpha1.ClusterReady))),
			want: []status.Change{{"east", v1alpha1.ReasonReady, "the AppService is ready", false}},
		},
		"its pods cannot run": {
			in:   given(chosen("a"), has(row("a", v1alpha1.ClusterProgressing, because(v1alpha1.ReasonRollingOut, ""))), saw("a", seen(v1alpha1.ClusterProgressing, saying(v1alpha1.ReasonImagePullBackOff, "1 of 2 pods: no such image")))),
			want: []status.Change{{"a", v1alpha1.ReasonImagePullBackOff, "1 of 2 pods: no such image", true}},
		},
		"its pods cannot run for another reason": {
			in:   given(chosen("a"), has(row("a", v1alpha1.ClusterProgressing, because(v1alpha1.ReasonFailedMount, ""))), saw("a", seen(v1alpha1.ClusterProgressing, saying(v1alpha1.ReasonCrashLoopBackOff, "exit code 1")))),
			want: []status.Change{{"a", v1alpha1.ReasonCrashLoopBackOff, "exit code 1", true}},
		},
		"its pods still cannot run, in other words": {
			in: given(chosen("a"), has(row("a", v1alpha1.ClusterProgressing, because(v1alpha1.ReasonContainerConfig, "1 of 2 pods: no Secret"))), saw("a", seen(v1alpha1.ClusterProgressing, saying(v1alpha1.ReasonContainerConfig, "2 of 2 pods: no Secret")))),
		},
		"what is bad comes first": {
			in: given(chosen("a"), has(row("a", v1alpha1.ClusterPending)), saw("a", seen(v1alpha1.ClusterReady)),
				has(row("b", v1alpha1.ClusterReady)), chosen("b"), saw("b", seen(v1alpha1.ClusterFailed, saying(v1alpha1.ReasonRefused, "quota"))),
				has(row("c", v1alpha1.ClusterReady)), chosen("c"), unreachable("c"), has(row("d", v1alpha1.ClusterReady))),
			want: []status.Change{
				{"b", v1alpha1.ReasonRefused, "quota", true},
				{"c", v1alpha1.ReasonClusterUnreachable, "MemberCluster c is not Ready; last known: Ready, 2 of 2 replicas ready", true},
				{"d", v1alpha1.ReasonClusterDetached, secretGone, true},
				{"a", v1alpha1.ReasonReady, "the AppService is ready", false},
			},
		},
		"a removal ends": {
			in:   with(clusters("G"), gone),
			want: []status.Change{{"a", v1alpha1.ReasonRemoved, "the AppService was removed from the cluster", false}},
		},
		"a removal ends that leaves it": {
			in:   with(clusters("G"), gone, orphaning),
			want: []status.Change{{"a", v1alpha1.ReasonOrphaned, "the workload is left running, without the labels and annotations of Fleetwright", false}},
		},
		"a removal is confirmed on a cluster that was to be abandoned": {
			in:   with(clusters("G"), gone, annotated(v1alpha1.AnnotationAbandon, "a")),
			want: []status.Change{{"a", v1alpha1.ReasonRemoved, "the AppService was removed from the cluster", false}},
		},
		"a cluster is abandoned": {
			in:   with(clusters("U"), annotated(v1alpha1.AnnotationAbandon, "a"), remembering("a")),
			want: []status.Change{{"a", v1alpha1.ReasonAbandoned, "the AppService was abandoned on the cluster; its objects are removed when the cluster can be reached again", true}},
		},
		"a cluster is abandoned with deletionPolicy Orphan": {
			in:   with(clusters("U"), annotated(v1alpha1.AnnotationAbandon, "a"), orphaning),
			want: []status.Change{{"a", v1alpha1.ReasonAbandoned, "the AppService was abandoned on the cluster; its objects stay there", true}},
		},
		"a Detached cluster is abandoned": {
			in:   given(has(long), annotated(v1alpha1.AnnotationAbandon, "east")),
			want: []status.Change{{"east", v1alpha1.ReasonAbandoned, "the AppService was abandoned on the cluster; its objects stay there", true}},
		},
		"a Detached cluster is released after its grace period": {
			in:   given(has(long), deleting),
			want: []status.Change{{"east", v1alpha1.ReasonClusterDetached, "the AppService was released; the workload on the cluster is left running", true}},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, status.Changes(test.in, statusOf(test.in))); diff != "" {
				t.Errorf("changes (-want +got):\n%s", diff)
			}
		})
	}
}
