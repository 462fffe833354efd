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

func TestSuspended_rows(t *testing.T) {
	tests := map[string]struct {
		in   rollout.Input
		want []v1alpha1.ClusterStatus
	}{
		"an edit is not planned":               {in: NewInput(Suspended, Chosen("east"), WithEntries(OldEntry("east"))), want: []v1alpha1.ClusterStatus{OldEntry("east")}},
		"a cluster is not added":               {in: NewInput(Suspended, Chosen("east"))},
		"a cluster is not removed":             {in: NewInput(Suspended, NotChosen("east"), WithEntries(OldEntry("east"))), want: []v1alpha1.ClusterStatus{OldEntry("east", WithTransition(v1alpha1.TransitionRemovalPending, v1alpha1.CauseEdit))}},
		"nor one that drifted":                 {in: NewInput(Suspended, NotChosen("east"), WithEntries(Entry("east", v1alpha1.ClusterReady))), want: onlyEast(v1alpha1.ClusterReady, WithTransition(v1alpha1.TransitionRemovalPending, v1alpha1.CauseDrift))},
		"a removal that has begun goes on":     {in: NewInput(Suspended, NotChosen("east"), WithEntries(Entry("east", v1alpha1.ClusterRemoving, WithReason(v1alpha1.ReasonRemoving, "")))), want: onlyEast(v1alpha1.ClusterRemoving, WithReason(v1alpha1.ReasonRemoving, ""))},
		"a removal ends that nobody wants":     {in: NewInput(Suspended, Chosen("east"), WithEntries(Entry("east", v1alpha1.ClusterRemoving, Desired(1, 3)))), want: onlyEast(v1alpha1.ClusterPending, WithReason(v1alpha1.ReasonPending, ""), Desired(1, 3), Surging, Since(Now))},
		"a deletion goes on":                   {in: NewInput(Suspended, Deleting, Chosen("east"), WithEntries(Entry("east", v1alpha1.ClusterReady))), want: onlyEast(v1alpha1.ClusterRemoving, WithReason(v1alpha1.ReasonRemoving, ""), WithTransition(v1alpha1.TransitionRemoving, v1alpha1.CauseDeletion), Since(Now))},
		"it is observed: Failed":               {in: NewInput(Suspended, Chosen("east"), WithEntries(OldEntry("east")), Observed("east", Observation(v1alpha1.ClusterFailed, Answering(1), AnsweringReplicas(3), Reporting("Because", "of it"), Counting(3, 0)))), want: []v1alpha1.ClusterStatus{OldEntry("east", func(entry *v1alpha1.ClusterStatus) { entry.Phase = v1alpha1.ClusterFailed }, WithReason("Because", "of it"), WithPods(3, 0), Since(Now))}},
		"it is observed: Unknown":              {in: NewInput(Suspended, Chosen("east"), Unreachable("east"), WithEntries(Entry("east", v1alpha1.ClusterReady))), want: onlyEast(v1alpha1.ClusterUnknown, WithReason(v1alpha1.ReasonClusterUnreachable, MessageNotReady), Since(Now))},
		"it is observed: Detached":             {in: NewInput(Suspended, WithEntries(Entry("east", v1alpha1.ClusterReady))), want: onlyEast(v1alpha1.ClusterDetached, WithReason(v1alpha1.ReasonClusterDetached, MessageSecretGone), Since(Now))},
		"what waited for its removal stays so": {in: NewInput(Suspended, NotChosen("east"), WithEntries(Entry("east", v1alpha1.ClusterProgressing, WithReason(v1alpha1.ReasonRemovalPending, "it waits"), WithTransition(v1alpha1.TransitionRemovalPending, v1alpha1.CauseEdit)))), want: onlyEast(v1alpha1.ClusterProgressing, WithReason(v1alpha1.ReasonRemovalPending, "it waits"), WithTransition(v1alpha1.TransitionRemovalPending, v1alpha1.CauseEdit))},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, StatusOf(test.in).Clusters); diff != "" {
				t.Errorf("rows (-want +got):\n%s", diff)
			}
		})
	}
}

// While an AppService is suspended, the desired state of no cluster changes, regardless of other
// changes.
func TestSuspended_asks_nothing_new_of_any_cluster(t *testing.T) {
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
					t.Fatalf("%s is asked something new:\n%s", entry.Name, cmp.Diff(*before, entry))
				case entry.Phase == v1alpha1.ClusterRemoving && before.Phase != v1alpha1.ClusterRemoving:
					t.Fatalf("%s begins to be removed", entry.Name)
				}
			}
			in = Next(in, Later(time.Second))
		}
	})
}
