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

func TestSuspended_conditions(t *testing.T) {
	const isTrue, isFalse = metav1.ConditionTrue, metav1.ConditionFalse
	isSuspended := is("Suspended", isTrue, v1alpha1.ReasonSuspended, "spec.suspend stops all changes; the clusters keep what they run")
	tests := map[string]struct {
		in   rollout.Input
		want []metav1.Condition
	}{
		"nothing waits": {
			in: NewInput(Suspended, in("east", v1alpha1.ClusterReady)),
			want: conditions(
				is("Placed", isTrue, v1alpha1.ReasonPlaced, "placed on 1 cluster of 1"),
				is("Ready", isTrue, v1alpha1.ReasonReady, "running on 1 cluster: east"),
				isSuspended,
			),
		},
		"nothing waits, and something has failed": {
			in: NewInput(Suspended, in("east", v1alpha1.ClusterFailed)),
			want: conditions(
				is("Placed", isTrue, v1alpha1.ReasonPlaced, "placed on 1 cluster of 1"),
				is("Ready", isFalse, v1alpha1.ReasonClustersFailed, "1 of 1 cluster not ready: east (Refused)"),
				isSuspended,
				is("Stalled", isTrue, v1alpha1.ReasonClustersFailed, "1 of 1 cluster not ready: east (Refused)"),
			),
		},
		"a removal that has begun, and a cluster that is gone, wait for nothing": {
			in: NewInput(Suspended, in("east", v1alpha1.ClusterReady), in("west", v1alpha1.ClusterRemoving), in("north", v1alpha1.ClusterDetached)),
			want: conditions(
				is("Placed", isTrue, v1alpha1.ReasonPlaced, "placed on 1 cluster of 2; not on 1 cluster with other labels"),
				is("Ready", isTrue, v1alpha1.ReasonReady, "running on 1 cluster: east"),
				isSuspended,
				is("Reconciling", isTrue, v1alpha1.ReasonRemoving, "removing it from 1 cluster"),
			),
		},
		"an edit waits": {
			in: NewInput(Suspended, Chosen("east"), WithEntries(OldEntry("east"))),
			want: conditions(
				is("Placed", isTrue, v1alpha1.ReasonPlaced, "placed on 1 cluster of 1"),
				is("Ready", isFalse, v1alpha1.ReasonSuspended, "suspended: generation 2 is not rolled out to 1 cluster: east"),
				isSuspended,
			),
		},
		"all there is waits, and something has failed: that is no stall": {
			in: NewInput(Suspended, Chosen("east"), WithEntries(OldEntry("east")), Chosen("north"), NotChosen("south"), WithEntries(Entry("south", v1alpha1.ClusterReady)), in("west", v1alpha1.ClusterFailed)),
			want: conditions(
				is("Placed", isTrue, v1alpha1.ReasonPlaced, "placed on 3 clusters of 4; not on 1 cluster with other labels"),
				is("Ready", isFalse, v1alpha1.ReasonSuspended, "suspended: generation 2 is not rolled out to 1 cluster: east; "+
					"it is not added to 1 cluster: north; it is not removed from 1 cluster: south; 1 of 3 clusters not ready: west (Refused)"),
				isSuspended,
			),
		},
		"all of it waits": {
			in: NewInput(Suspended, Chosen("east")),
			want: conditions(
				is("Placed", isTrue, v1alpha1.ReasonPlaced, "placed on 1 cluster of 1"),
				is("Ready", isFalse, v1alpha1.ReasonSuspended, "suspended: it is not added to 1 cluster: east"),
				isSuspended,
			),
		},
		"there is no member": {
			in: NewInput(Suspended),
			want: conditions(
				is("Placed", isFalse, v1alpha1.ReasonNoClusters, "there is no MemberCluster: create a kubeconfig Secret to add a cluster"),
				is("Ready", isFalse, v1alpha1.ReasonNoClusters, "no cluster is chosen; see status.placement.excluded"),
				isSuspended,
				is("Reconciling", isTrue, v1alpha1.ReasonNoClusters, "no cluster is chosen; see status.placement.excluded"),
			),
		},
		"a placement that cannot be understood": {
			in: NewInput(Suspended, in("east", v1alpha1.ClusterReady), WithPlanError(errors.New("no"))),
			want: conditions(
				is("Placed", isFalse, v1alpha1.ReasonInvalidPlacement, "no"),
				is("Ready", isFalse, v1alpha1.ReasonInvalidPlacement, "no"),
				is("Stalled", isTrue, v1alpha1.ReasonInvalidPlacement, "no"),
				isSuspended,
			),
		},
		"a deletion is not suspended": {
			in: NewInput(Suspended, Deleting, in("east", v1alpha1.ClusterReady)),
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
