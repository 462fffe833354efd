package rollout_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/rollout"
)

func TestSuspended_rows(t *testing.T) {
	tests := map[string]struct {
		in   rollout.Input
		want []v1alpha1.ClusterStatus
	}{
		"an edit is not planned":               {in: given(suspended, chosen("east"), has(old("east"))), want: []v1alpha1.ClusterStatus{old("east")}},
		"a cluster is not added":               {in: given(suspended, chosen("east"))},
		"a cluster is not removed":             {in: given(suspended, notChosen("east"), has(old("east"))), want: []v1alpha1.ClusterStatus{old("east", moves(v1alpha1.TransitionRemovalPending, v1alpha1.CauseEdit))}},
		"nor one that drifted":                 {in: given(suspended, notChosen("east"), has(row("east", v1alpha1.ClusterReady))), want: rows(v1alpha1.ClusterReady, moves(v1alpha1.TransitionRemovalPending, v1alpha1.CauseDrift))},
		"a removal that has begun goes on":     {in: given(suspended, notChosen("east"), has(row("east", v1alpha1.ClusterRemoving, because(v1alpha1.ReasonRemoving, "")))), want: rows(v1alpha1.ClusterRemoving, because(v1alpha1.ReasonRemoving, ""))},
		"a removal ends that nobody wants":     {in: given(suspended, chosen("east"), has(row("east", v1alpha1.ClusterRemoving, plannedFor(1, 3)))), want: rows(v1alpha1.ClusterPending, because(v1alpha1.ReasonPending, ""), plannedFor(1, 3), arriving, since(now))},
		"a deletion goes on":                   {in: given(suspended, deleting, chosen("east"), has(row("east", v1alpha1.ClusterReady))), want: rows(v1alpha1.ClusterRemoving, because(v1alpha1.ReasonRemoving, ""), moves(v1alpha1.TransitionRemoving, v1alpha1.CauseDeletion), since(now))},
		"it is observed: Failed":               {in: given(suspended, chosen("east"), has(old("east")), saw("east", seen(v1alpha1.ClusterFailed, answering(1), to(3), saying("Because", "of it"), counting(3, 0)))), want: []v1alpha1.ClusterStatus{old("east", func(row *v1alpha1.ClusterStatus) { row.Phase = v1alpha1.ClusterFailed }, because("Because", "of it"), running(3, 0), since(now))}},
		"it is observed: Unknown":              {in: given(suspended, chosen("east"), unreachable("east"), has(row("east", v1alpha1.ClusterReady))), want: rows(v1alpha1.ClusterUnknown, because(v1alpha1.ReasonClusterUnreachable, lastKnownReady), since(now))},
		"it is observed: Detached":             {in: given(suspended, has(row("east", v1alpha1.ClusterReady))), want: rows(v1alpha1.ClusterDetached, because(v1alpha1.ReasonClusterDetached, secretGone), since(now))},
		"what waited for its removal stays so": {in: given(suspended, notChosen("east"), has(row("east", v1alpha1.ClusterProgressing, because(v1alpha1.ReasonRemovalPending, "it waits"), moves(v1alpha1.TransitionRemovalPending, v1alpha1.CauseEdit)))), want: rows(v1alpha1.ClusterProgressing, because(v1alpha1.ReasonRemovalPending, "it waits"), moves(v1alpha1.TransitionRemovalPending, v1alpha1.CauseEdit))},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, statusOf(test.in).Clusters); diff != "" {
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
		suspended(&in)
		in.App.DeletionTimestamp = nil
		for range 3 {
			anyChange(t)(&in)
			in.App.DeletionTimestamp = nil
			status := statusOf(in)
			for _, row := range status.Clusters {
				before := in.App.Status.Cluster(row.Name)
				switch {
				case before == nil && (row.Generation != 0 || row.Phase == v1alpha1.ClusterRemoving): // generation 0: the objects were found and are only observed
					t.Fatalf("%s was added: %+v", row.Name, row)
				case before == nil:
				case before.Generation != row.Generation || before.Replicas != row.Replicas:
					t.Fatalf("%s is asked something new:\n%s", row.Name, cmp.Diff(*before, row))
				case row.Phase == v1alpha1.ClusterRemoving && before.Phase != v1alpha1.ClusterRemoving:
					t.Fatalf("%s begins to be removed", row.Name)
				}
			}
			in = then(in, later(time.Second))
		}
	})
}

// old returns an entry that runs the previous generation.
func old(cluster string, changes ...func(*v1alpha1.ClusterStatus)) v1alpha1.ClusterStatus {
	return row(cluster, v1alpha1.ClusterReady, append([]func(*v1alpha1.ClusterStatus){plannedFor(1, 3), tookOn(1)}, changes...)...)
}
