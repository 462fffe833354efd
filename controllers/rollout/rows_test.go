package rollout_test

import (
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/observation"
	"github.com/fleetwright/fleetwright/controllers/placement"
	"github.com/fleetwright/fleetwright/controllers/rollout"
)

const (
	lastKnownReady = "MemberCluster east is not Ready; last known: Ready, 2 of 2 replicas ready"
	secretGone     = "the cluster's Secret is gone; its workload is left running; last known: Ready, 2 of 2 replicas ready"
	waitsToRemove  = "the removal continues when the cluster can be reached; see MemberCluster east"
)

const (
	asks       = ": annotate the AppService with fleetwright.dev/accept-removals=1@2 to approve 1 removal"
	heldAsLast = "the plan chooses no cluster, and no other cluster is known to be ready" + asks
)

func TestStatus_rows(t *testing.T) {
	tests := map[string]struct {
		in   rollout.Input
		want []v1alpha1.ClusterStatus
	}{
		"without clusters there are none": {
			in: given(notChosen("east")),
		},
		"they are sorted by name, old and new": {
			in: given(has(row("south", v1alpha1.ClusterReady), row("east", v1alpha1.ClusterReady)),
				chosen("west"), chosen("south"), chosen("north"), chosen("east")),
			want: []v1alpha1.ClusterStatus{
				row("east", v1alpha1.ClusterReady),
				row("north", v1alpha1.ClusterPending, because(v1alpha1.ReasonPending, ""), neverSeen, arriving, since(now)),
				row("south", v1alpha1.ClusterReady),
				row("west", v1alpha1.ClusterPending, because(v1alpha1.ReasonPending, ""), neverSeen, arriving, since(now)),
			},
		},

		// Pending.
		"a cluster is Pending when it is new in the plan": {
			in:   given(chosen("east")),
			want: rows(v1alpha1.ClusterPending, because(v1alpha1.ReasonPending, ""), neverSeen, arriving, since(now)),
		},
		"a cluster stays Pending until it is observed": {
			in:   given(chosen("east"), has(row("east", v1alpha1.ClusterPending, because(v1alpha1.ReasonPending, ""), neverSeen))),
			want: rows(v1alpha1.ClusterPending, because(v1alpha1.ReasonPending, ""), neverSeen),
		},
		"an observation of another AppService of that name says nothing": {
			in:   given(chosen("east"), saw("east", seen(v1alpha1.ClusterReady, ofAnother))),
			want: rows(v1alpha1.ClusterPending, because(v1alpha1.ReasonPending, ""), neverSeen, arriving, since(now)),
		},
		"the zero observation says nothing": {
			in:   given(chosen("east"), saw("east", observation.Observation{})),
			want: rows(v1alpha1.ClusterPending, because(v1alpha1.ReasonPending, ""), neverSeen, arriving, since(now)),
		},

		// Progressing, Ready and Failed follow the observation.
		"a cluster is what was observed: Progressing": {
			in: given(chosen("east"), has(row("east", v1alpha1.ClusterPending, because(v1alpha1.ReasonPending, ""), neverSeen)),
				saw("east", seen(v1alpha1.ClusterProgressing, saying(v1alpha1.ReasonRollingOut, "1 of 2 available"), counting(2, 1)))),
			want: rows(v1alpha1.ClusterProgressing, because(v1alpha1.ReasonRollingOut, "1 of 2 available"), running(2, 1), since(now)),
		},
		"a cluster is what was observed: Ready, without a word": {
			in: given(chosen("east"), has(row("east", v1alpha1.ClusterProgressing, because(v1alpha1.ReasonRollingOut, "1 of 2 available"), running(2, 1))),
				saw("east", seen(v1alpha1.ClusterReady))),
			want: rows(v1alpha1.ClusterReady, since(now)),
		},
		"a cluster is what was observed: Failed": {
			in: given(chosen("east"), has(row("east", v1alpha1.ClusterReady)),
				saw("east", seen(v1alpha1.ClusterFailed, saying(v1alpha1.ReasonConflict, "Deployment web is Helm's"), counting(0, 0)))),
			want: rows(v1alpha1.ClusterFailed, because(v1alpha1.ReasonConflict, "Deployment web is Helm's"), running(0, 0), since(now)),
		},
		"another message of the same phase keeps the time": {
			in: given(chosen("east"), has(row("east", v1alpha1.ClusterProgressing, because(v1alpha1.ReasonRollingOut, "0 of 2"), running(2, 0))),
				saw("east", seen(v1alpha1.ClusterProgressing, saying(v1alpha1.ReasonApplyFailed, "timeout"), counting(2, 1)))),
			want: rows(v1alpha1.ClusterProgressing, because(v1alpha1.ReasonApplyFailed, "timeout"), running(2, 1)),
		},
		"a generation that the cluster took on once is not forgotten": {
			in: given(chosen("east"), has(row("east", v1alpha1.ClusterReady)),
				saw("east", seen(v1alpha1.ClusterProgressing, saying(v1alpha1.ReasonRollingOut, ""), func(o *observation.Observation) { o.Applied = 0 }))),
			want: rows(v1alpha1.ClusterProgressing, because(v1alpha1.ReasonRollingOut, ""), since(now)),
		},

		// Addresses.
		"addresses are those that were observed": {
			in:   given(chosen("east"), has(row("east", v1alpha1.ClusterReady, reachedAt("192.0.2.1"))), saw("east", seen(v1alpha1.ClusterReady, addresses("192.0.2.2", "east.example")))),
			want: rows(v1alpha1.ClusterReady, reachedAt("192.0.2.2", "east.example")),
		},
		"addresses that are gone are gone": {
			in:   given(chosen("east"), has(row("east", v1alpha1.ClusterReady, reachedAt("192.0.2.1"))), saw("east", seen(v1alpha1.ClusterReady))),
			want: rows(v1alpha1.ClusterReady),
		},
		"addresses of a cluster that cannot be observed are kept": {
			in: given(chosen("east"), unreachable("east"), has(row("east", v1alpha1.ClusterReady, reachedAt("192.0.2.1"))), saw("east", seen(v1alpha1.ClusterReady))),
			want: rows(v1alpha1.ClusterUnknown, because(v1alpha1.ReasonClusterUnreachable, lastKnownReady),
				reachedAt("192.0.2.1"), since(now)),
		},
		"addresses are kept while nothing was seen since the start": {
			in:   given(chosen("east"), has(row("east", v1alpha1.ClusterReady, reachedAt("192.0.2.1")))),
			want: rows(v1alpha1.ClusterReady, reachedAt("192.0.2.1")),
		},
		"addresses of a Removing cluster are those that are left": {
			in: given(notChosen("east"), has(row("east", v1alpha1.ClusterRemoving, because(v1alpha1.ReasonRemoving, ""), reachedAt("192.0.2.1"))),
				saw("east", seen(v1alpha1.ClusterRemoving))),
			want: rows(v1alpha1.ClusterRemoving, because(v1alpha1.ReasonRemoving, "")),
		},

		// A new plan.
		"the bounds of an autoscaler are those of the plan": {
			in: given(chosen("east"), has(row("east", v1alpha1.ClusterReady)), saw("east", seen(v1alpha1.ClusterReady)), func(in *rollout.Input) {
				decide(in, placement.Decision{Cluster: "east", Replicas: 2, MinReplicas: 1, MaxReplicas: 9})
			}),
			want: rows(v1alpha1.ClusterReady, scaled(1, 9)),
		},
		"a new generation is Progressing until the cluster answers to it": {
			in: given(chosen("east"), has(row("east", v1alpha1.ClusterReady, plannedFor(1, 3), tookOn(1))),
				saw("east", seen(v1alpha1.ClusterReady, answering(1), counting(3, 3)))),
			want: rows(v1alpha1.ClusterProgressing, because(v1alpha1.ReasonRollingOut, ""), tookOn(1), running(3, 3), since(now)),
		},
		"a new generation is Progressing when nothing was seen since the start": {
			in:   given(chosen("east"), has(row("east", v1alpha1.ClusterReady, plannedFor(1, 3), tookOn(1)))),
			want: rows(v1alpha1.ClusterProgressing, because(v1alpha1.ReasonRollingOut, ""), tookOn(1), since(now)),
		},
		"a new generation does not hide a failure until the cluster is seen": {
			in:   given(chosen("east"), has(row("east", v1alpha1.ClusterFailed, because(v1alpha1.ReasonRefused, "quota"), plannedFor(1, 3), tookOn(1)))),
			want: rows(v1alpha1.ClusterFailed, because(v1alpha1.ReasonRefused, "quota"), tookOn(1)),
		},
		"a failure of the last generation is not one of the new": {
			in: given(chosen("east"), has(row("east", v1alpha1.ClusterFailed, because(v1alpha1.ReasonRefused, "quota"), plannedFor(1, 3), tookOn(0))),
				saw("east", seen(v1alpha1.ClusterFailed, saying(v1alpha1.ReasonRefused, "quota"), answering(1)))),
			want: rows(v1alpha1.ClusterProgressing, because(v1alpha1.ReasonRollingOut, ""), tookOn(1), since(now)),
		},
		"an answer to a newer generation than the row's counts": {
			in: given(chosen("east"), has(row("east", v1alpha1.ClusterProgressing, because(v1alpha1.ReasonRollingOut, ""))),
				saw("east", seen(v1alpha1.ClusterReady, answering(3)))),
			want: rows(v1alpha1.ClusterReady, tookOn(3), since(now)),
		},

		// Unknown.
		"a cluster that cannot be observed is Unknown and keeps what was known last": {
			in:   given(chosen("east"), unreachable("east"), has(row("east", v1alpha1.ClusterReady))),
			want: rows(v1alpha1.ClusterUnknown, because(v1alpha1.ReasonClusterUnreachable, lastKnownReady), since(now)),
		},
		"a cluster that cannot be observed is Unknown whatever was observed before": {
			in: given(chosen("east"), unreachable("east"), has(row("east", v1alpha1.ClusterReady)),
				saw("east", seen(v1alpha1.ClusterReady, counting(9, 9)))),
			want: rows(v1alpha1.ClusterUnknown, because(v1alpha1.ReasonClusterUnreachable, lastKnownReady), since(now)),
		},
		"an Unknown cluster keeps its message, its counts and its time, and is planned for": {
			in: given(chosen("east"), unreachable("east"),
				has(row("east", v1alpha1.ClusterUnknown, because(v1alpha1.ReasonClusterUnreachable, lastKnownReady), plannedFor(1, 3), tookOn(1)))),
			want: rows(v1alpha1.ClusterUnknown, because(v1alpha1.ReasonClusterUnreachable, lastKnownReady), tookOn(1)),
		},
		"a cluster that became unreachable before it was seen says so": {
			in: given(chosen("east"), unreachable("east"), has(row("east", v1alpha1.ClusterPending, because(v1alpha1.ReasonPending, ""), neverSeen))),
			want: rows(v1alpha1.ClusterUnknown,
				because(v1alpha1.ReasonClusterUnreachable, "MemberCluster east is not Ready; the workload has not been observed yet"), neverSeen, lastSeen(v1alpha1.ClusterPending), since(now)),
		},
		"a new cluster that cannot be observed is Unknown": {
			in: given(chosen("east"), unreachable("east")),
			want: rows(v1alpha1.ClusterUnknown,
				because(v1alpha1.ReasonClusterUnreachable, "MemberCluster east is not Ready; the workload has not been observed yet"), neverSeen, lastSeen(v1alpha1.ClusterPending), arriving, since(now)),
		},
		"a cluster stays Unknown until it is observed again": {
			in: given(chosen("east"),
				has(row("east", v1alpha1.ClusterUnknown, because(v1alpha1.ReasonClusterUnreachable, lastKnownReady)))),
			want: rows(v1alpha1.ClusterUnknown, because(v1alpha1.ReasonClusterUnreachable, lastKnownReady)),
		},
		"a cluster that is observed again is what was observed": {
			in: given(chosen("east"), saw("east", seen(v1alpha1.ClusterReady)),
				has(row("east", v1alpha1.ClusterUnknown, because(v1alpha1.ReasonClusterUnreachable, lastKnownReady)))),
			want: rows(v1alpha1.ClusterReady, since(now)),
		},

		// Detached.
		"a cluster without a MemberCluster is Detached and keeps what was known last": {
			in:   given(has(row("east", v1alpha1.ClusterReady))),
			want: rows(v1alpha1.ClusterDetached, because(v1alpha1.ReasonClusterDetached, secretGone), since(now)),
		},
		"a cluster that was being removed is Detached too": {
			in: given(has(row("east", v1alpha1.ClusterRemoving, because(v1alpha1.ReasonRemoving, ""))), saw("east", seen(v1alpha1.ClusterRemoving, goneSince(before)))),
			want: rows(v1alpha1.ClusterDetached, because(v1alpha1.ReasonClusterDetached,
				"the cluster's Secret is gone; its workload is left running; last known: Removing, 2 of 2 replicas ready"), lastSeen(v1alpha1.ClusterRemoving), since(now)),
		},
		"a Detached cluster stays so, however long": {
			in:   given(has(row("east", v1alpha1.ClusterDetached, because(v1alpha1.ReasonClusterDetached, secretGone)))),
			want: rows(v1alpha1.ClusterDetached, because(v1alpha1.ReasonClusterDetached, secretGone)),
		},
		"a Detached cluster whose Secret is back is Pending": {
			in:   given(chosen("east"), has(row("east", v1alpha1.ClusterDetached, because(v1alpha1.ReasonClusterDetached, secretGone)))),
			want: rows(v1alpha1.ClusterPending, because(v1alpha1.ReasonPending, ""), arriving, since(now)),
		},
		"a Detached cluster whose Secret is back and that is no longer chosen is held": {
			in:   given(notChosen("east"), has(row("east", v1alpha1.ClusterDetached, because(v1alpha1.ReasonClusterDetached, secretGone)))),
			want: rows(v1alpha1.ClusterPending, because(v1alpha1.ReasonRemovalNeedsApproval, heldAsLast), moves(v1alpha1.TransitionRemovalNeedsApproval, v1alpha1.CauseRejoined), since(now)),
		},
		"a cluster that detaches while it is deleted has its grace": {
			in:   given(deleting, has(row("east", v1alpha1.ClusterReady))),
			want: rows(v1alpha1.ClusterDetached, because(v1alpha1.ReasonClusterDetached, secretGone), since(now)),
		},
		"a deletion waits for a Detached cluster up to its grace": {
			in:   given(deleting, has(row("east", v1alpha1.ClusterDetached, because(v1alpha1.ReasonClusterDetached, secretGone), since(ago(30*time.Second-1))))),
			want: rows(v1alpha1.ClusterDetached, because(v1alpha1.ReasonClusterDetached, secretGone), since(ago(30*time.Second-1))),
		},
		"a deletion lets go of a Detached cluster after its grace": {
			in: given(deleting, has(row("east", v1alpha1.ClusterDetached, because(v1alpha1.ReasonClusterDetached, secretGone), since(ago(30*time.Second))))),
		},
		"a deletion removes it from a Detached cluster that is back": {
			in:   given(deleting, chosen("east"), has(row("east", v1alpha1.ClusterDetached, because(v1alpha1.ReasonClusterDetached, secretGone)))),
			want: rows(v1alpha1.ClusterRemoving, because(v1alpha1.ReasonRemoving, ""), moves(v1alpha1.TransitionRemoving, v1alpha1.CauseDeletion), since(now)),
		},

		// Removing.
		"a cluster that is no longer chosen is Removing and keeps its counts and its generation": {
			in:   given(notChosen("east"), accepting("1@2"), has(row("east", v1alpha1.ClusterReady, plannedFor(1, 2)))),
			want: rows(v1alpha1.ClusterRemoving, because(v1alpha1.ReasonRemoving, ""), plannedFor(1, 2), moves(v1alpha1.TransitionRemoving, v1alpha1.CauseEdit), accepted, since(now)),
		},
		"a member that is not in the plan at all is Removing": {
			in:   given(reachable("east"), accepting("1@2"), has(row("east", v1alpha1.ClusterReady))),
			want: rows(v1alpha1.ClusterRemoving, because(v1alpha1.ReasonRemoving, ""), moves(v1alpha1.TransitionRemoving, v1alpha1.CauseDrift), accepted, since(now)),
		},
		"all clusters of a deleted AppService are Removing, and none is added": {
			in:   given(deleting, chosen("east"), chosen("west"), has(row("east", v1alpha1.ClusterReady))),
			want: rows(v1alpha1.ClusterRemoving, because(v1alpha1.ReasonRemoving, ""), moves(v1alpha1.TransitionRemoving, v1alpha1.CauseDeletion), since(now)),
		},
		"a cluster is Removing until delivery says that it is gone": {
			in: given(notChosen("east"), has(row("east", v1alpha1.ClusterRemoving, because(v1alpha1.ReasonRemoving, ""))),
				saw("east", seen(v1alpha1.ClusterReady))),
			want: rows(v1alpha1.ClusterRemoving, because(v1alpha1.ReasonRemoving, "")),
		},
		"a Removing cluster shows what is in the way": {
			in: given(notChosen("east"), has(row("east", v1alpha1.ClusterRemoving, because(v1alpha1.ReasonRemoving, ""))),
				saw("east", seen(v1alpha1.ClusterRemoving, saying(v1alpha1.ReasonRefused, "forbidden"), counting(1, 0)))),
			want: rows(v1alpha1.ClusterRemoving, because(v1alpha1.ReasonRefused, "forbidden"), running(1, 0)),
		},
		"a Removing cluster with nothing in the way says only that": {
			in: given(notChosen("east"), has(row("east", v1alpha1.ClusterRemoving, because(v1alpha1.ReasonRefused, "forbidden"))),
				saw("east", seen(v1alpha1.ClusterRemoving, counting(1, 0)))),
			want: rows(v1alpha1.ClusterRemoving, because(v1alpha1.ReasonRemoving, ""), running(1, 0)),
		},
		"a row goes when it is answered that nothing is left": {
			in: given(notChosen("east"), has(row("east", v1alpha1.ClusterRemoving, because(v1alpha1.ReasonRemoving, ""))),
				saw("east", seen(v1alpha1.ClusterRemoving, goneSince(before)))),
		},
		"a row of a deleted AppService goes when it is answered that nothing is left": {
			in: given(deleting, chosen("east"), has(row("east", v1alpha1.ClusterRemoving, because(v1alpha1.ReasonRemoving, ""))),
				saw("east", seen(v1alpha1.ClusterRemoving, goneSince(before)))),
		},
		"an answer to an earlier row does not remove this one": {
			in: given(notChosen("east"), has(row("east", v1alpha1.ClusterRemoving, because(v1alpha1.ReasonRemoving, ""))),
				saw("east", seen(v1alpha1.ClusterRemoving, goneSince(ago(2*time.Hour))))),
			want: rows(v1alpha1.ClusterRemoving, because(v1alpha1.ReasonRemoving, ""), running(0, 0)),
		},
		"an answer to an earlier row does not remove one that only now is Removing": {
			in: given(notChosen("east"), accepting("1@2"), has(row("east", v1alpha1.ClusterReady)),
				saw("east", seen(v1alpha1.ClusterRemoving, goneSince(before), counting(2, 2)))),
			want: rows(v1alpha1.ClusterRemoving, because(v1alpha1.ReasonRemoving, ""), moves(v1alpha1.TransitionRemoving, v1alpha1.CauseDrift), accepted, since(now)),
		},
		"an answer for another AppService of that name does not remove a row": {
			in: given(notChosen("east"), has(row("east", v1alpha1.ClusterRemoving, because(v1alpha1.ReasonRemoving, ""))),
				saw("east", seen(v1alpha1.ClusterRemoving, goneSince(before), ofAnother))),
			want: rows(v1alpha1.ClusterRemoving, because(v1alpha1.ReasonRemoving, "")),
		},
		"an answer from a cluster that cannot be observed does not remove a row": {
			in: given(notChosen("east"), unreachable("east"), has(row("east", v1alpha1.ClusterRemoving, because(v1alpha1.ReasonRemoving, ""))),
				saw("east", seen(v1alpha1.ClusterRemoving, goneSince(before)))),
			want: rows(v1alpha1.ClusterRemoving, because(v1alpha1.ReasonClusterUnreachable, waitsToRemove), lastSeen(v1alpha1.ClusterRemoving)),
		},
		"a cluster that cannot be reached waits to be removed": {
			in:   given(notChosen("east"), accepting("1@2"), unreachable("east"), has(row("east", v1alpha1.ClusterReady))),
			want: rows(v1alpha1.ClusterRemoving, because(v1alpha1.ReasonClusterUnreachable, waitsToRemove), lastSeen(v1alpha1.ClusterRemoving), moves(v1alpha1.TransitionRemoving, v1alpha1.CauseDrift), accepted, since(now)),
		},
		"a cluster that can be reached again is being removed": {
			in:   given(notChosen("east"), has(row("east", v1alpha1.ClusterRemoving, because(v1alpha1.ReasonClusterUnreachable, waitsToRemove), lastSeen(v1alpha1.ClusterRemoving)))),
			want: rows(v1alpha1.ClusterRemoving, because(v1alpha1.ReasonRemoving, "")),
		},
		"a cluster that is chosen again is Pending": {
			in:   given(chosen("east"), has(row("east", v1alpha1.ClusterRemoving, because(v1alpha1.ReasonRemoving, "")))),
			want: rows(v1alpha1.ClusterPending, because(v1alpha1.ReasonPending, ""), arriving, since(now)),
		},
		"a cluster that is chosen again is Progressing after what was seen of its removal": {
			in: given(chosen("east"), has(row("east", v1alpha1.ClusterRemoving, because(v1alpha1.ReasonRemoving, ""))),
				saw("east", seen(v1alpha1.ClusterRemoving, goneSince(before)))),
			want: rows(v1alpha1.ClusterProgressing, because(v1alpha1.ReasonRollingOut, ""), running(0, 0), arriving, since(now)),
		},

		// Without a plan.
		"without a plan rows stay as they were planned, and are observed": {
			in: given(planError(errors.New("no")), reachable("east"), has(row("east", v1alpha1.ClusterProgressing, plannedFor(1, 3), tookOn(1))),
				saw("east", seen(v1alpha1.ClusterReady, answering(1), to(3), counting(3, 3)))),
			want: rows(v1alpha1.ClusterReady, plannedFor(1, 3), tookOn(1), running(3, 3), since(now)),
		},
		"without a plan a cluster that cannot be observed is Unknown": {
			in:   given(planError(errors.New("no")), unreachable("east"), has(row("east", v1alpha1.ClusterReady, plannedFor(1, 2)))),
			want: rows(v1alpha1.ClusterUnknown, because(v1alpha1.ReasonClusterUnreachable, lastKnownReady), plannedFor(1, 2), since(now)),
		},
		"without a plan a deletion goes on": {
			in:   given(planError(errors.New("no")), deleting, reachable("east"), has(row("east", v1alpha1.ClusterReady))),
			want: rows(v1alpha1.ClusterRemoving, because(v1alpha1.ReasonRemoving, ""), moves(v1alpha1.TransitionRemoving, v1alpha1.CauseDeletion), since(now)),
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, statusOf(test.in).Clusters); diff != "" {
				t.Errorf("rows (-want +got):\n%s", diff)
			}
		})
	}
}

func reachedAt(addresses ...string) func(*v1alpha1.ClusterStatus) {
	return func(row *v1alpha1.ClusterStatus) { row.Addresses = addresses }
}

func addresses(addresses ...string) func(*observation.Observation) {
	return func(seen *observation.Observation) { seen.Addresses = addresses }
}

// Invariant 5: after a restart in a converged state, nothing is written.
func TestStatus_is_the_same_to_the_byte_when_nothing_was_seen_since_a_restart(t *testing.T) {
	in := then(given(chosen("east"), chosen("north"), chosen("west"), unreachable("west"),
		has(row("west", v1alpha1.ClusterReady), row("gone", v1alpha1.ClusterReady)),
		saw("east", seen(v1alpha1.ClusterReady)),
		saw("north", seen(v1alpha1.ClusterFailed, saying(v1alpha1.ReasonRefused, "quota"))),
	))
	after := then(in, restarted, later(time.Hour))
	if diff := cmp.Diff(text(t, in.App.Status), text(t, statusOf(after))); diff != "" {
		t.Errorf("status (-before +after):\n%s", diff)
	}
}

// rows returns the only entry, which is that of east.
func rows(phase v1alpha1.ClusterPhase, changes ...func(*v1alpha1.ClusterStatus)) []v1alpha1.ClusterStatus {
	return []v1alpha1.ClusterStatus{row("east", phase, changes...)}
}

// reachable adds a Ready member without a decision.
func reachable(cluster string) func(*rollout.Input) {
	return func(in *rollout.Input) { in.Members[cluster] = member(cluster, "True") }
}

func text(t interface{ Fatal(...any) }, value any) string {
	content, err := json.MarshalIndent(value, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}
