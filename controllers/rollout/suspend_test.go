package rollout_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/rollout"
	. "github.com/fleetwright/fleetwright/controllers/rollout/rollouttest"
)

func TestSuspend_changes_no_desired_state(t *testing.T) {
	tests := map[string]struct {
		in   rollout.Input
		want []v1alpha1.ClusterStatus
	}{
		"an edit is not planned":                                      {in: NewInput(Suspended, Chosen("east"), WithEntries(OldEntry("east"))), want: []v1alpha1.ClusterStatus{OldEntry("east")}},
		"a cluster is not added":                                      {in: NewInput(Suspended, Chosen("east"))},
		"a cluster is not removed":                                    {in: NewInput(Suspended, NotChosen("east"), WithEntries(OldEntry("east"))), want: []v1alpha1.ClusterStatus{OldEntry("east", WithTransition(v1alpha1.TransitionRemovalPending, v1alpha1.CauseEdit))}},
		"a cluster that left the plan without an edit is not removed": {in: NewInput(Suspended, NotChosen("east"), WithEntries(Entry("east", v1alpha1.ClusterReady))), want: onlyEast(v1alpha1.ClusterReady, WithTransition(v1alpha1.TransitionRemovalPending, v1alpha1.CauseClustersChanged))},
		"a removal in progress continues":                             {in: NewInput(Suspended, NotChosen("east"), WithEntries(Entry("east", v1alpha1.ClusterRemoving, WithReason(v1alpha1.ReasonRemoving, "")))), want: onlyEast(v1alpha1.ClusterRemoving, WithReason(v1alpha1.ReasonRemoving, ""))},
		"a removal ends when the cluster is chosen again":             {in: NewInput(Suspended, Chosen("east"), WithEntries(Entry("east", v1alpha1.ClusterRemoving, Desired(1, 3)))), want: onlyEast(v1alpha1.ClusterPending, WithReason(v1alpha1.ReasonPending, ""), Desired(1, 3), Surging, Since(Now), Placed(1))},
		"a deletion continues":                                        {in: NewInput(Suspended, Deleting, Chosen("east"), WithEntries(Entry("east", v1alpha1.ClusterReady))), want: onlyEast(v1alpha1.ClusterRemoving, WithReason(v1alpha1.ReasonRemoving, ""), WithTransition(v1alpha1.TransitionRemoving, v1alpha1.CauseDeletion), Since(Now))},
		"a Failed observation is copied":                              {in: NewInput(Suspended, Chosen("east"), WithEntries(OldEntry("east")), Observed("east", Observation(v1alpha1.ClusterFailed, Answering(1), AnsweringReplicas(3), Reporting("Because", "of it"), Counting(3, 0)))), want: []v1alpha1.ClusterStatus{OldEntry("east", func(entry *v1alpha1.ClusterStatus) { entry.Phase = v1alpha1.ClusterFailed }, WithReason("Because", "of it"), WithPods(3, 0), Since(Now))}},
		"an unreachable cluster is Unknown":                           {in: NewInput(Suspended, Chosen("east"), Unreachable("east"), WithEntries(Entry("east", v1alpha1.ClusterReady))), want: onlyEast(v1alpha1.ClusterUnknown, WithReason(v1alpha1.ReasonClusterUnreachable, MessageNotReady), Since(Now))},
		"a cluster without a MemberCluster is Detached":               {in: NewInput(Suspended, WithEntries(Entry("east", v1alpha1.ClusterReady))), want: onlyEast(v1alpha1.ClusterDetached, WithReason(v1alpha1.ReasonClusterDetached, MessageSecretGone), Since(Now))},
		"a pending removal stays pending":                             {in: NewInput(Suspended, NotChosen("east"), WithEntries(Entry("east", v1alpha1.ClusterProgressing, WithReason(v1alpha1.ReasonRemovalPending, "it waits"), WithTransition(v1alpha1.TransitionRemovalPending, v1alpha1.CauseEdit)))), want: onlyEast(v1alpha1.ClusterProgressing, WithReason(v1alpha1.ReasonRemovalPending, "it waits"), WithTransition(v1alpha1.TransitionRemovalPending, v1alpha1.CauseEdit))},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, StatusOf(test.in).Clusters); diff != "" {
				t.Errorf("entries (-want +got):\n%s", diff)
			}
		})
	}
}

// While an AppService is suspended, the desired state of no cluster changes, regardless of other
// changes.
func TestSuspend_changes_no_desired_state_of_any_input(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := anyInput.Draw(t, "input")
		Suspended(&in)
		in.App.DeletionTimestamp = nil
		for range 3 {
			anyChange(t)(&in)
			in.App.DeletionTimestamp = nil
			status := StatusOf(in)
			for _, entry := range status.Clusters {
				before := in.App.Status.Cluster(entry.Name)
				switch {
				case before == nil && (entry.Generation != 0 || entry.Phase == v1alpha1.ClusterRemoving): // generation 0: the objects were found and are only observed
					t.Fatalf("%s was added: %+v", entry.Name, entry)
				case before == nil:
				case before.Generation != entry.Generation || before.Replicas != entry.Replicas:
					t.Fatalf("the desired state of %s changed:\n%s", entry.Name, cmp.Diff(*before, entry))
				case entry.Phase == v1alpha1.ClusterRemoving && before.Phase != v1alpha1.ClusterRemoving:
					t.Fatalf("the removal from %s started", entry.Name)
				}
			}
			in = Next(in, Later(time.Second))
		}
	})
}
