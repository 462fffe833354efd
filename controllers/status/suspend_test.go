package status_test

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/rollout"
	. "github.com/fleetwright/fleetwright/controllers/rollout/rollouttest"
)

func TestConditions_of_a_suspended_AppService(t *testing.T) {
	isSuspended := condition(v1alpha1.ConditionSuspended, metav1.ConditionTrue, v1alpha1.ReasonSuspended, "spec.suspend stops all changes; the clusters keep what they run")
	tests := map[string]struct {
		in   rollout.Input
		want []metav1.Condition
	}{
		"no pending change": {
			in: NewInput(Suspended, inPhase("east", v1alpha1.ClusterReady)),
			want: current(
				placed("placed on 1 cluster of 1"),
				ready("running on 1 cluster: east"),
				isSuspended,
			),
		},
		"no pending change, and a failed cluster": {
			in: NewInput(Suspended, inPhase("east", v1alpha1.ClusterFailed)),
			want: current(
				placed("placed on 1 cluster of 1"),
				notReady(v1alpha1.ReasonClustersFailed, "1 of 1 cluster not ready: east (Refused)"),
				isSuspended,
				stalled(v1alpha1.ReasonClustersFailed, "1 of 1 cluster not ready: east (Refused)"),
			),
		},
		"a removal in progress and a Detached cluster are not pending": {
			in: NewInput(Suspended, inPhase("east", v1alpha1.ClusterReady), inPhase("west", v1alpha1.ClusterRemoving), inPhase("north", v1alpha1.ClusterDetached)),
			want: current(
				placed("placed on 1 cluster of 2; not on 1 cluster with other labels"),
				ready("running on 1 cluster: east"),
				isSuspended,
				condition(v1alpha1.ConditionReconciling, metav1.ConditionTrue, v1alpha1.ReasonRemoving, "removing it from 1 cluster"),
			),
		},
		"a pending edit": {
			in: NewInput(Suspended, Chosen("east"), WithEntries(OldEntry("east"))),
			want: current(
				placed("placed on 1 cluster of 1"),
				notReady(v1alpha1.ReasonSuspended, "suspended: generation 2 is not rolled out to 1 cluster: east"),
				isSuspended,
			),
		},
		"all kinds of pending changes, and a failed cluster": {
			in: NewInput(Suspended, Chosen("east"), WithEntries(OldEntry("east")), Chosen("north"), NotChosen("south"), WithEntries(Entry("south", v1alpha1.ClusterReady)), inPhase("west", v1alpha1.ClusterFailed)),
			want: current(
				placed("placed on 3 clusters of 4; not on 1 cluster with other labels"),
				notReady(v1alpha1.ReasonSuspended, "suspended: generation 2 is not rolled out to 1 cluster: east; "+
					"it is not added to 1 cluster: north; it is not removed from 1 cluster: south; 1 of 3 clusters not ready: west (Refused)"),
				isSuspended,
			),
		},
		"a pending first rollout": {
			in: NewInput(Suspended, Chosen("east")),
			want: current(
				placed("placed on 1 cluster of 1"),
				notReady(v1alpha1.ReasonSuspended, "suspended: it is not added to 1 cluster: east"),
				isSuspended,
			),
		},
		"no member": {
			in: NewInput(Suspended),
			want: current(
				notPlaced(v1alpha1.ReasonNoClusters, "there is no MemberCluster: add a cluster with kubectl appsvc join CONTEXT"),
				notReady(v1alpha1.ReasonNoClusters, "there is no MemberCluster: add a cluster with kubectl appsvc join CONTEXT"),
				isSuspended,
				condition(v1alpha1.ConditionReconciling, metav1.ConditionTrue, v1alpha1.ReasonNoClusters, "there is no MemberCluster: add a cluster with kubectl appsvc join CONTEXT"),
			),
		},
		"an invalid placement": {
			in: NewInput(Suspended, inPhase("east", v1alpha1.ClusterReady), WithPlanError(errors.New("no"))),
			want: current(
				notPlaced(v1alpha1.ReasonInvalidPlacement, "no"),
				notReady(v1alpha1.ReasonInvalidPlacement, "no"),
				stalled(v1alpha1.ReasonInvalidPlacement, "no"),
				isSuspended,
			),
		},
		"a deletion is not suspended": {
			in: NewInput(Suspended, Deleting, inPhase("east", v1alpha1.ClusterReady)),
			want: current(
				notReady(v1alpha1.ReasonDeleting, "removing it from 1 cluster: east"),
				condition(v1alpha1.ConditionReconciling, metav1.ConditionTrue, v1alpha1.ReasonDeleting, "removing it from 1 cluster: east"),
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
