package rollout_test

import (
	"encoding/json"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/observation"
	"github.com/fleetwright/fleetwright/controllers/placement"
	"github.com/fleetwright/fleetwright/controllers/rollout"
	. "github.com/fleetwright/fleetwright/controllers/rollout/rollouttest"
)

const (
	toApprove       = ": annotate the AppService with fleetwright.dev/accept-removals=1@2 to approve 1 removal"
	heldAsLastReady = "the plan chooses no cluster, and no other cluster is known to be ready" + toApprove
)

// podsUnlisted is an observation of a process that has not listed the pods yet.
func podsUnlisted(seen *observation.Observation) { seen.PodsUnlisted = true }

func TestPlan_computes_the_entry_of_each_cluster(t *testing.T) {
	tests := map[string]struct {
		in   rollout.Input
		want []v1alpha1.ClusterStatus
	}{
		"a cluster that is not chosen has no entry": {
			in: NewInput(NotChosen("east")),
		},
		"entries are sorted by name": {
			in: NewInput(WithEntries(Entry("south", v1alpha1.ClusterReady), Entry("east", v1alpha1.ClusterReady)),
				Chosen("west"), Chosen("south"), Chosen("north"), Chosen("east")),
			want: []v1alpha1.ClusterStatus{
				Entry("east", v1alpha1.ClusterReady),
				Entry("north", v1alpha1.ClusterPending, WithReason(v1alpha1.ReasonPending, ""), NeverObserved, Surging, Since(Now), Placed(1)),
				Entry("south", v1alpha1.ClusterReady),
				Entry("west", v1alpha1.ClusterPending, WithReason(v1alpha1.ReasonPending, ""), NeverObserved, Surging, Since(Now), Placed(1)),
			},
		},

		// Pending.
		"a cluster is Pending when it is new in the plan": {
			in:   NewInput(Chosen("east")),
			want: onlyEast(v1alpha1.ClusterPending, WithReason(v1alpha1.ReasonPending, ""), NeverObserved, Surging, Since(Now), Placed(1)),
		},
		"a cluster stays Pending until it is observed": {
			in:   NewInput(Chosen("east"), WithEntries(Entry("east", v1alpha1.ClusterPending, WithReason(v1alpha1.ReasonPending, ""), NeverObserved))),
			want: onlyEast(v1alpha1.ClusterPending, WithReason(v1alpha1.ReasonPending, ""), NeverObserved),
		},
		"an observation of another AppService of the same name is ignored": {
			in:   NewInput(Chosen("east"), Observed("east", Observation(v1alpha1.ClusterReady, OfAnotherUID))),
			want: onlyEast(v1alpha1.ClusterPending, WithReason(v1alpha1.ReasonPending, ""), NeverObserved, Surging, Since(Now), Placed(1)),
		},
		"the zero observation is ignored": {
			in:   NewInput(Chosen("east"), Observed("east", observation.Observation{})),
			want: onlyEast(v1alpha1.ClusterPending, WithReason(v1alpha1.ReasonPending, ""), NeverObserved, Surging, Since(Now), Placed(1)),
		},

		// Progressing, Ready and Failed.
		"a Progressing observation is copied": {
			in: NewInput(Chosen("east"), WithEntries(Entry("east", v1alpha1.ClusterPending, WithReason(v1alpha1.ReasonPending, ""), NeverObserved)),
				Observed("east", Observation(v1alpha1.ClusterProgressing, Reporting(v1alpha1.ReasonRollingOut, "1 of 2 available"), Counting(2, 1)))),
			want: onlyEast(v1alpha1.ClusterProgressing, WithReason(v1alpha1.ReasonRollingOut, "1 of 2 available"), WithPods(2, 1), Since(Now)),
		},
		"an entry has a number of available pods of its own while not all ready pods are available": {
			in: NewInput(Chosen("east"), WithEntries(Entry("east", v1alpha1.ClusterProgressing, WithReason(v1alpha1.ReasonRollingOut, ""), WithPods(2, 0))),
				Observed("east", Observation(v1alpha1.ClusterProgressing, Reporting(v1alpha1.ReasonRollingOut, ""), CountingAvailable(0)))),
			want: onlyEast(v1alpha1.ClusterProgressing, WithReason(v1alpha1.ReasonRollingOut, ""), WithAvailable(0)),
		},
		"an entry has no number of available pods when all ready pods are available": {
			in: NewInput(Chosen("east"), WithEntries(Entry("east", v1alpha1.ClusterProgressing, WithReason(v1alpha1.ReasonRollingOut, ""), WithAvailable(1))),
				Observed("east", Observation(v1alpha1.ClusterReady))),
			want: onlyEast(v1alpha1.ClusterReady, Since(Now)),
		},
		"an observation of an older generation sets the available pods": {
			in: NewInput(Chosen("east"), WithEntries(Entry("east", v1alpha1.ClusterProgressing, WithReason(v1alpha1.ReasonRollingOut, ""), Applied(1))),
				Observed("east", Observation(v1alpha1.ClusterReady, Answering(1), CountingAvailable(1)))),
			want: onlyEast(v1alpha1.ClusterProgressing, WithReason(v1alpha1.ReasonRollingOut, ""), Applied(1), WithAvailable(1)),
		},
		"an entry keeps the available pods until the cluster is observed again": {
			in:   NewInput(Chosen("east"), WithEntries(Entry("east", v1alpha1.ClusterProgressing, WithReason(v1alpha1.ReasonRollingOut, ""), WithAvailable(1)))),
			want: onlyEast(v1alpha1.ClusterProgressing, WithReason(v1alpha1.ReasonRollingOut, ""), WithAvailable(1)),
		},
		"what an entry says about its pods stays until they are listed": {
			in: NewInput(Chosen("east"), WithEntries(Entry("east", v1alpha1.ClusterFailed, WithReason(v1alpha1.ReasonImagePullBackOff, "no"), WithPods(2, 0))),
				Observed("east", Observation(v1alpha1.ClusterFailed, Reporting(v1alpha1.ReasonRolloutFailed, "too late"), Counting(2, 1), podsUnlisted))),
			want: onlyEast(v1alpha1.ClusterFailed, WithReason(v1alpha1.ReasonImagePullBackOff, "no"), WithPods(2, 1)),
		},
		"what an entry says about its pods goes with its phase": {
			in: NewInput(Chosen("east"), WithEntries(Entry("east", v1alpha1.ClusterFailed, WithReason(v1alpha1.ReasonImagePullBackOff, "no"), WithPods(2, 0))),
				Observed("east", Observation(v1alpha1.ClusterProgressing, Reporting(v1alpha1.ReasonRollingOut, ""), Counting(2, 0), podsUnlisted))),
			want: onlyEast(v1alpha1.ClusterProgressing, WithReason(v1alpha1.ReasonRollingOut, ""), WithPods(2, 0), Since(Now)),
		},
		"what an entry says about the Deployment does not wait for its pods": {
			in: NewInput(Chosen("east"), WithEntries(Entry("east", v1alpha1.ClusterProgressing, WithReason(v1alpha1.ReasonRollingOut, "0 of 2 available"), WithPods(2, 0))),
				Observed("east", Observation(v1alpha1.ClusterProgressing, Reporting(v1alpha1.ReasonRollingOut, "1 of 2 available"), Counting(2, 1), podsUnlisted))),
			want: onlyEast(v1alpha1.ClusterProgressing, WithReason(v1alpha1.ReasonRollingOut, "1 of 2 available"), WithPods(2, 1)),
		},
		"a Ready observation is copied and has no message": {
			in: NewInput(Chosen("east"), WithEntries(Entry("east", v1alpha1.ClusterProgressing, WithReason(v1alpha1.ReasonRollingOut, "1 of 2 available"), WithPods(2, 1))),
				Observed("east", Observation(v1alpha1.ClusterReady))),
			want: onlyEast(v1alpha1.ClusterReady, Since(Now)),
		},
		"a Failed observation is copied": {
			in: NewInput(Chosen("east"), WithEntries(Entry("east", v1alpha1.ClusterReady)),
				Observed("east", Observation(v1alpha1.ClusterFailed, Reporting(v1alpha1.ReasonConflict, "Deployment web is Helm's"), Counting(0, 0)))),
			want: onlyEast(v1alpha1.ClusterFailed, WithReason(v1alpha1.ReasonConflict, "Deployment web is Helm's"), WithPods(0, 0), Since(Now)),
		},
		"a new message in the same phase keeps the transition time": {
			in: NewInput(Chosen("east"), WithEntries(Entry("east", v1alpha1.ClusterProgressing, WithReason(v1alpha1.ReasonRollingOut, "0 of 2"), WithPods(2, 0))),
				Observed("east", Observation(v1alpha1.ClusterProgressing, Reporting(v1alpha1.ReasonApplyFailed, "timeout"), Counting(2, 1)))),
			want: onlyEast(v1alpha1.ClusterProgressing, WithReason(v1alpha1.ReasonApplyFailed, "timeout"), WithPods(2, 1)),
		},
		"the highest applied generation is kept": {
			in: NewInput(Chosen("east"), WithEntries(Entry("east", v1alpha1.ClusterReady)),
				Observed("east", Observation(v1alpha1.ClusterProgressing, Reporting(v1alpha1.ReasonRollingOut, ""), func(o *observation.Observation) { o.Applied = 0 }))),
			want: onlyEast(v1alpha1.ClusterProgressing, WithReason(v1alpha1.ReasonRollingOut, ""), Since(Now)),
		},

		// Revisions.
		"another revision is like another generation": {
			in: NewInput(AtRevision(2), Chosen("east"), WithEntries(Entry("east", v1alpha1.ClusterReady, DesiredRevision(1))),
				Observed("east", Observation(v1alpha1.ClusterReady, AnsweringRevision(1)))),
			want: onlyEast(v1alpha1.ClusterProgressing, DesiredRevision(2), Applied(Generation-1), WithReason(v1alpha1.ReasonRollingOut, ""), Since(Now)),
		},
		"an observation of another revision sets only the counts": {
			in: NewInput(AtRevision(2), Chosen("east"), WithEntries(Entry("east", v1alpha1.ClusterProgressing, DesiredRevision(2), Applied(Generation-1))),
				Observed("east", Observation(v1alpha1.ClusterReady, AnsweringRevision(1), Counting(2, 1)))),
			want: onlyEast(v1alpha1.ClusterProgressing, DesiredRevision(2), Applied(Generation-1), WithReason(v1alpha1.ReasonRollingOut, ""), WithPods(2, 1)),
		},
		"an observation of the revision is copied": {
			in: NewInput(AtRevision(2), Chosen("east"), WithEntries(Entry("east", v1alpha1.ClusterProgressing, DesiredRevision(2), Applied(Generation-1))),
				Observed("east", Observation(v1alpha1.ClusterReady, AnsweringRevision(2)))),
			want: onlyEast(v1alpha1.ClusterReady, DesiredRevision(2), Since(Now)),
		},
		"an entry of an older version of Fleetwright has the first revision": {
			in:   NewInput(AtRevision(1), Chosen("east"), WithEntries(Entry("east", v1alpha1.ClusterReady)), Observed("east", Observation(v1alpha1.ClusterReady))),
			want: onlyEast(v1alpha1.ClusterReady, DesiredRevision(1)),
		},
		"an entry of an older version that is Failed stays Failed until an observation of the first revision": {
			in: NewInput(AtRevision(1), Chosen("east"),
				WithEntries(Entry("east", v1alpha1.ClusterFailed, NeverObserved, Surging, WithReason(v1alpha1.ReasonInvalidOverride, "no label"))),
				Observed("east", Observation(v1alpha1.ClusterFailed))),
			want: onlyEast(v1alpha1.ClusterFailed, DesiredRevision(1), NeverObserved, Surging, WithReason(v1alpha1.ReasonInvalidOverride, "no label")),
		},
		"also if the first revision is in the entry before delivery has seen it": {
			in: NewInput(AtRevision(1), Chosen("east"),
				WithEntries(Entry("east", v1alpha1.ClusterFailed, DesiredRevision(1), NeverObserved, Surging, WithReason(v1alpha1.ReasonInvalidOverride, "no label"))),
				Observed("east", Observation(v1alpha1.ClusterFailed))),
			want: onlyEast(v1alpha1.ClusterFailed, DesiredRevision(1), NeverObserved, Surging, WithReason(v1alpha1.ReasonInvalidOverride, "no label")),
		},
		"an observation of an entry without a revision is none of a new one": {
			in: NewInput(AtRevision(1), Chosen("east"), WithEntries(Entry("east", v1alpha1.ClusterPending, NeverObserved)),
				Observed("east", Observation(v1alpha1.ClusterReady))),
			want: onlyEast(v1alpha1.ClusterProgressing, DesiredRevision(1), Applied(Generation-1), WithReason(v1alpha1.ReasonRollingOut, ""), Since(Now)),
		},

		// Addresses.
		"observed addresses replace the old ones": {
			in:   NewInput(Chosen("east"), WithEntries(Entry("east", v1alpha1.ClusterReady, reachedAt("192.0.2.1"))), Observed("east", Observation(v1alpha1.ClusterReady, addresses("192.0.2.2", "east.example")))),
			want: onlyEast(v1alpha1.ClusterReady, reachedAt("192.0.2.2", "east.example")),
		},
		"addresses that are no longer observed are removed": {
			in:   NewInput(Chosen("east"), WithEntries(Entry("east", v1alpha1.ClusterReady, reachedAt("192.0.2.1"))), Observed("east", Observation(v1alpha1.ClusterReady))),
			want: onlyEast(v1alpha1.ClusterReady),
		},
		"addresses of a cluster that cannot be observed are kept": {
			in: NewInput(Chosen("east"), Unreachable("east"), WithEntries(Entry("east", v1alpha1.ClusterReady, reachedAt("192.0.2.1"))), Observed("east", Observation(v1alpha1.ClusterReady))),
			want: onlyEast(v1alpha1.ClusterUnknown, WithReason(v1alpha1.ReasonClusterUnreachable, MessageNotReady),
				reachedAt("192.0.2.1"), Since(Now)),
		},
		"addresses are kept while there is no observation after a restart": {
			in:   NewInput(Chosen("east"), WithEntries(Entry("east", v1alpha1.ClusterReady, reachedAt("192.0.2.1")))),
			want: onlyEast(v1alpha1.ClusterReady, reachedAt("192.0.2.1")),
		},
		"addresses of a Removing cluster are the observed ones": {
			in: NewInput(NotChosen("east"), WithEntries(Entry("east", v1alpha1.ClusterRemoving, WithReason(v1alpha1.ReasonRemoving, ""), reachedAt("192.0.2.1"))),
				Observed("east", Observation(v1alpha1.ClusterRemoving))),
			want: onlyEast(v1alpha1.ClusterRemoving, WithReason(v1alpha1.ReasonRemoving, "")),
		},

		// A new plan.
		"the bounds of an autoscaler follow the plan": {
			in: NewInput(Chosen("east"), WithEntries(Entry("east", v1alpha1.ClusterReady)), Observed("east", Observation(v1alpha1.ClusterReady)), func(in *rollout.Input) {
				SetDecision(in, placement.Decision{Cluster: "east", Replicas: 2, MinReplicas: 1, MaxReplicas: 9})
			}),
			want: onlyEast(v1alpha1.ClusterReady, WithBounds(1, 9)),
		},
		"a new generation is Progressing until the observation answers it": {
			in: NewInput(Chosen("east"), WithEntries(Entry("east", v1alpha1.ClusterReady, Desired(1, 3), Applied(1))),
				Observed("east", Observation(v1alpha1.ClusterReady, Answering(1), Counting(3, 3)))),
			want: onlyEast(v1alpha1.ClusterProgressing, WithReason(v1alpha1.ReasonRollingOut, ""), Applied(1), WithPods(3, 3), Since(Now)),
		},
		"a new generation is Progressing without an observation": {
			in:   NewInput(Chosen("east"), WithEntries(Entry("east", v1alpha1.ClusterReady, Desired(1, 3), Applied(1)))),
			want: onlyEast(v1alpha1.ClusterProgressing, WithReason(v1alpha1.ReasonRollingOut, ""), Applied(1), Since(Now)),
		},
		"a new generation does not hide a failure before the next observation": {
			in:   NewInput(Chosen("east"), WithEntries(Entry("east", v1alpha1.ClusterFailed, WithReason(v1alpha1.ReasonRefused, "quota"), Desired(1, 3), Applied(1)))),
			want: onlyEast(v1alpha1.ClusterFailed, WithReason(v1alpha1.ReasonRefused, "quota"), Applied(1)),
		},
		"a failure of the previous generation does not count for a new one": {
			in: NewInput(Chosen("east"), WithEntries(Entry("east", v1alpha1.ClusterFailed, WithReason(v1alpha1.ReasonRefused, "quota"), Desired(1, 3), Applied(0))),
				Observed("east", Observation(v1alpha1.ClusterFailed, Reporting(v1alpha1.ReasonRefused, "quota"), Answering(1)))),
			want: onlyEast(v1alpha1.ClusterProgressing, WithReason(v1alpha1.ReasonRollingOut, ""), Applied(1), Since(Now)),
		},
		"an observation of a newer generation than the entry's counts": {
			in: NewInput(Chosen("east"), WithEntries(Entry("east", v1alpha1.ClusterProgressing, WithReason(v1alpha1.ReasonRollingOut, ""))),
				Observed("east", Observation(v1alpha1.ClusterReady, Answering(3)))),
			want: onlyEast(v1alpha1.ClusterReady, Applied(3), Since(Now)),
		},

		// Unknown.
		"a cluster that cannot be observed is Unknown and keeps its last known values": {
			in:   NewInput(Chosen("east"), Unreachable("east"), WithEntries(Entry("east", v1alpha1.ClusterReady))),
			want: onlyEast(v1alpha1.ClusterUnknown, WithReason(v1alpha1.ReasonClusterUnreachable, MessageNotReady), Since(Now)),
		},
		"a cluster that cannot be observed is Unknown regardless of its observation": {
			in: NewInput(Chosen("east"), Unreachable("east"), WithEntries(Entry("east", v1alpha1.ClusterReady)),
				Observed("east", Observation(v1alpha1.ClusterReady, Counting(9, 9)))),
			want: onlyEast(v1alpha1.ClusterUnknown, WithReason(v1alpha1.ReasonClusterUnreachable, MessageNotReady), Since(Now)),
		},
		"an Unknown cluster keeps its message, counts and time, and gets a new plan": {
			in: NewInput(Chosen("east"), Unreachable("east"),
				WithEntries(Entry("east", v1alpha1.ClusterUnknown, WithReason(v1alpha1.ReasonClusterUnreachable, MessageNotReady), Desired(1, 3), Applied(1)))),
			want: onlyEast(v1alpha1.ClusterUnknown, WithReason(v1alpha1.ReasonClusterUnreachable, MessageNotReady), Applied(1)),
		},
		"a cluster that became unreachable before its first observation is Unknown": {
			in: NewInput(Chosen("east"), Unreachable("east"), WithEntries(Entry("east", v1alpha1.ClusterPending, WithReason(v1alpha1.ReasonPending, ""), NeverObserved))),
			want: onlyEast(v1alpha1.ClusterUnknown,
				WithReason(v1alpha1.ReasonClusterUnreachable, "MemberCluster east is not Ready; the workload has not been observed yet"), NeverObserved, LastKnown(v1alpha1.ClusterPending), Since(Now)),
		},
		"a new cluster that cannot be observed is Unknown": {
			in: NewInput(Chosen("east"), Unreachable("east")),
			want: onlyEast(v1alpha1.ClusterUnknown,
				WithReason(v1alpha1.ReasonClusterUnreachable, "MemberCluster east is not Ready; the workload has not been observed yet"), NeverObserved, LastKnown(v1alpha1.ClusterPending), Surging, Since(Now), Placed(1)),
		},
		"a cluster stays Unknown until it is observed again": {
			in: NewInput(Chosen("east"),
				WithEntries(Entry("east", v1alpha1.ClusterUnknown, WithReason(v1alpha1.ReasonClusterUnreachable, MessageNotReady)))),
			want: onlyEast(v1alpha1.ClusterUnknown, WithReason(v1alpha1.ReasonClusterUnreachable, MessageNotReady)),
		},
		"a cluster that is observed again has the observed phase": {
			in: NewInput(Chosen("east"), Observed("east", Observation(v1alpha1.ClusterReady)),
				WithEntries(Entry("east", v1alpha1.ClusterUnknown, WithReason(v1alpha1.ReasonClusterUnreachable, MessageNotReady)))),
			want: onlyEast(v1alpha1.ClusterReady, Since(Now)),
		},

		// Detached.
		"a cluster without a MemberCluster is Detached and keeps its last known values": {
			in:   NewInput(WithEntries(Entry("east", v1alpha1.ClusterReady))),
			want: onlyEast(v1alpha1.ClusterDetached, WithReason(v1alpha1.ReasonClusterDetached, MessageSecretGone), Since(Now)),
		},
		"a Removing cluster without a MemberCluster is Detached": {
			in: NewInput(WithEntries(Entry("east", v1alpha1.ClusterRemoving, WithReason(v1alpha1.ReasonRemoving, ""))), Observed("east", Observation(v1alpha1.ClusterRemoving, GoneSince(AnHourAgo)))),
			want: onlyEast(v1alpha1.ClusterDetached, WithReason(v1alpha1.ReasonClusterDetached,
				"the cluster's Secret is gone; its workload is left running; last known: Removing, 2 of 2 replicas ready"), LastKnown(v1alpha1.ClusterRemoving), Since(Now)),
		},
		"a Detached cluster stays Detached": {
			in:   NewInput(WithEntries(Entry("east", v1alpha1.ClusterDetached, WithReason(v1alpha1.ReasonClusterDetached, MessageSecretGone)))),
			want: onlyEast(v1alpha1.ClusterDetached, WithReason(v1alpha1.ReasonClusterDetached, MessageSecretGone)),
		},
		"a Detached cluster that has rejoined is Pending": {
			in:   NewInput(Chosen("east"), WithEntries(Entry("east", v1alpha1.ClusterDetached, WithReason(v1alpha1.ReasonClusterDetached, MessageSecretGone)))),
			want: onlyEast(v1alpha1.ClusterPending, WithReason(v1alpha1.ReasonPending, ""), Surging, Since(Now)),
		},
		"a Detached cluster that has rejoined and is not chosen needs approval": {
			in:   NewInput(NotChosen("east"), WithEntries(Entry("east", v1alpha1.ClusterDetached, WithReason(v1alpha1.ReasonClusterDetached, MessageSecretGone)))),
			want: onlyEast(v1alpha1.ClusterPending, WithReason(v1alpha1.ReasonRemovalNeedsApproval, heldAsLastReady), WithTransition(v1alpha1.TransitionRemovalNeedsApproval, v1alpha1.CauseRejoined), Since(Now)),
		},
		"a cluster that detaches during a deletion has a grace period": {
			in:   NewInput(Deleting, WithEntries(Entry("east", v1alpha1.ClusterReady))),
			want: onlyEast(v1alpha1.ClusterDetached, WithReason(v1alpha1.ReasonClusterDetached, MessageSecretGone), Since(Now)),
		},
		"a deletion waits for a Detached cluster during its grace period": {
			in:   NewInput(Deleting, WithEntries(Entry("east", v1alpha1.ClusterDetached, WithReason(v1alpha1.ReasonClusterDetached, MessageSecretGone), Since(Ago(30*time.Second-1))))),
			want: onlyEast(v1alpha1.ClusterDetached, WithReason(v1alpha1.ReasonClusterDetached, MessageSecretGone), Since(Ago(30*time.Second-1))),
		},
		"a deletion releases a Detached cluster after its grace period": {
			in: NewInput(Deleting, WithEntries(Entry("east", v1alpha1.ClusterDetached, WithReason(v1alpha1.ReasonClusterDetached, MessageSecretGone), Since(Ago(30*time.Second))))),
		},
		"a deletion removes the AppService from a Detached cluster that has rejoined": {
			in:   NewInput(Deleting, Chosen("east"), WithEntries(Entry("east", v1alpha1.ClusterDetached, WithReason(v1alpha1.ReasonClusterDetached, MessageSecretGone)))),
			want: onlyEast(v1alpha1.ClusterRemoving, WithReason(v1alpha1.ReasonRemoving, ""), WithTransition(v1alpha1.TransitionRemoving, v1alpha1.CauseDeletion), Since(Now)),
		},

		// Removing.
		"a cluster that is no longer chosen is Removing and keeps its counts and generation": {
			in:   NewInput(NotChosen("east"), AcceptRemovals("1@2"), WithEntries(Entry("east", v1alpha1.ClusterReady, Desired(1, 2)))),
			want: onlyEast(v1alpha1.ClusterRemoving, WithReason(v1alpha1.ReasonRemoving, ""), Desired(1, 2), WithTransition(v1alpha1.TransitionRemoving, v1alpha1.CauseEdit), Approved, Since(Now)),
		},
		"a member that is not in the plan at all is Removing": {
			in:   NewInput(Reachable("east"), AcceptRemovals("1@2"), WithEntries(Entry("east", v1alpha1.ClusterReady))),
			want: onlyEast(v1alpha1.ClusterRemoving, WithReason(v1alpha1.ReasonRemoving, ""), WithTransition(v1alpha1.TransitionRemoving, v1alpha1.CauseClustersChanged), Approved, Since(Now)),
		},
		"all clusters of a deleted AppService are Removing, and none is added": {
			in:   NewInput(Deleting, Chosen("east"), Chosen("west"), WithEntries(Entry("east", v1alpha1.ClusterReady))),
			want: onlyEast(v1alpha1.ClusterRemoving, WithReason(v1alpha1.ReasonRemoving, ""), WithTransition(v1alpha1.TransitionRemoving, v1alpha1.CauseDeletion), Since(Now)),
		},
		"a cluster is Removing until delivery confirms the removal": {
			in: NewInput(NotChosen("east"), WithEntries(Entry("east", v1alpha1.ClusterRemoving, WithReason(v1alpha1.ReasonRemoving, ""))),
				Observed("east", Observation(v1alpha1.ClusterReady))),
			want: onlyEast(v1alpha1.ClusterRemoving, WithReason(v1alpha1.ReasonRemoving, "")),
		},
		"a Removing cluster has the observed reason": {
			in: NewInput(NotChosen("east"), WithEntries(Entry("east", v1alpha1.ClusterRemoving, WithReason(v1alpha1.ReasonRemoving, ""))),
				Observed("east", Observation(v1alpha1.ClusterRemoving, Reporting(v1alpha1.ReasonRefused, "forbidden"), Counting(1, 0)))),
			want: onlyEast(v1alpha1.ClusterRemoving, WithReason(v1alpha1.ReasonRefused, "forbidden"), WithPods(1, 0)),
		},
		"a Removing cluster without an observed reason has the reason Removing": {
			in: NewInput(NotChosen("east"), WithEntries(Entry("east", v1alpha1.ClusterRemoving, WithReason(v1alpha1.ReasonRefused, "forbidden"))),
				Observed("east", Observation(v1alpha1.ClusterRemoving, Counting(1, 0)))),
			want: onlyEast(v1alpha1.ClusterRemoving, WithReason(v1alpha1.ReasonRemoving, ""), WithPods(1, 0)),
		},
		"an entry ends when delivery confirms that no object is left": {
			in: NewInput(NotChosen("east"), WithEntries(Entry("east", v1alpha1.ClusterRemoving, WithReason(v1alpha1.ReasonRemoving, ""))),
				Observed("east", Observation(v1alpha1.ClusterRemoving, GoneSince(AnHourAgo)))),
		},
		"an entry of a deleted AppService ends when delivery confirms that no object is left": {
			in: NewInput(Deleting, Chosen("east"), WithEntries(Entry("east", v1alpha1.ClusterRemoving, WithReason(v1alpha1.ReasonRemoving, ""))),
				Observed("east", Observation(v1alpha1.ClusterRemoving, GoneSince(AnHourAgo)))),
		},
		"a confirmation of an earlier removal does not end an entry": {
			in: NewInput(NotChosen("east"), WithEntries(Entry("east", v1alpha1.ClusterRemoving, WithReason(v1alpha1.ReasonRemoving, ""))),
				Observed("east", Observation(v1alpha1.ClusterRemoving, GoneSince(Ago(2*time.Hour))))),
			want: onlyEast(v1alpha1.ClusterRemoving, WithReason(v1alpha1.ReasonRemoving, ""), WithPods(0, 0)),
		},
		"a confirmation of an earlier removal does not end an entry that has become Removing": {
			in: NewInput(NotChosen("east"), AcceptRemovals("1@2"), WithEntries(Entry("east", v1alpha1.ClusterReady)),
				Observed("east", Observation(v1alpha1.ClusterRemoving, GoneSince(AnHourAgo), Counting(2, 2)))),
			want: onlyEast(v1alpha1.ClusterRemoving, WithReason(v1alpha1.ReasonRemoving, ""), WithTransition(v1alpha1.TransitionRemoving, v1alpha1.CauseClustersChanged), Approved, Since(Now)),
		},
		"a confirmation for another AppService of the same name does not end an entry": {
			in: NewInput(NotChosen("east"), WithEntries(Entry("east", v1alpha1.ClusterRemoving, WithReason(v1alpha1.ReasonRemoving, ""))),
				Observed("east", Observation(v1alpha1.ClusterRemoving, GoneSince(AnHourAgo), OfAnotherUID))),
			want: onlyEast(v1alpha1.ClusterRemoving, WithReason(v1alpha1.ReasonRemoving, "")),
		},
		"a confirmation from an unreachable cluster does not end an entry": {
			in: NewInput(NotChosen("east"), Unreachable("east"), WithEntries(Entry("east", v1alpha1.ClusterRemoving, WithReason(v1alpha1.ReasonRemoving, ""))),
				Observed("east", Observation(v1alpha1.ClusterRemoving, GoneSince(AnHourAgo)))),
			want: onlyEast(v1alpha1.ClusterRemoving, WithReason(v1alpha1.ReasonClusterUnreachable, MessageUnreachableRemoval), LastKnown(v1alpha1.ClusterRemoving)),
		},
		"an unreachable cluster is Removing with the reason ClusterUnreachable": {
			in:   NewInput(NotChosen("east"), AcceptRemovals("1@2"), Unreachable("east"), WithEntries(Entry("east", v1alpha1.ClusterReady))),
			want: onlyEast(v1alpha1.ClusterRemoving, WithReason(v1alpha1.ReasonClusterUnreachable, MessageUnreachableRemoval), LastKnown(v1alpha1.ClusterRemoving), WithTransition(v1alpha1.TransitionRemoving, v1alpha1.CauseClustersChanged), Approved, Since(Now)),
		},
		"the message of an unreachable cluster has no command while the AppService is suspended": {
			in: NewInput(Suspended, NotChosen("east"), Unreachable("east"), WithEntries(Entry("east", v1alpha1.ClusterRemoving, WithReason(v1alpha1.ReasonRemoving, "")))),
			want: onlyEast(v1alpha1.ClusterRemoving, WithReason(v1alpha1.ReasonClusterUnreachable, "the removal continues when the cluster can be reached; see MemberCluster east"),
				LastKnown(v1alpha1.ClusterRemoving)),
		},
		"the command of an unreachable cluster replaces the annotation of another one": {
			in: NewInput(NotChosen("east"), Unreachable("east"), Annotated(v1alpha1.AnnotationAbandon, "west"), WithEntries(Entry("east", v1alpha1.ClusterRemoving, WithReason(v1alpha1.ReasonRemoving, "")))),
			want: onlyEast(v1alpha1.ClusterRemoving, WithReason(v1alpha1.ReasonClusterUnreachable, "the removal continues when the cluster can be reached; see MemberCluster east"+
				"; to stop waiting: kubectl annotate appservice web -n shop --overwrite fleetwright.dev/abandon=east"), LastKnown(v1alpha1.ClusterRemoving)),
		},
		"a cluster that is reachable again has the reason Removing": {
			in:   NewInput(NotChosen("east"), WithEntries(Entry("east", v1alpha1.ClusterRemoving, WithReason(v1alpha1.ReasonClusterUnreachable, MessageUnreachableRemoval), LastKnown(v1alpha1.ClusterRemoving)))),
			want: onlyEast(v1alpha1.ClusterRemoving, WithReason(v1alpha1.ReasonRemoving, "")),
		},
		"a cluster that is chosen again is Pending": {
			in:   NewInput(Chosen("east"), WithEntries(Entry("east", v1alpha1.ClusterRemoving, WithReason(v1alpha1.ReasonRemoving, "")))),
			want: onlyEast(v1alpha1.ClusterPending, WithReason(v1alpha1.ReasonPending, ""), Surging, Since(Now), Placed(1)),
		},
		"a cluster that is chosen again is Progressing after an observation of its removal": {
			in: NewInput(Chosen("east"), WithEntries(Entry("east", v1alpha1.ClusterRemoving, WithReason(v1alpha1.ReasonRemoving, ""))),
				Observed("east", Observation(v1alpha1.ClusterRemoving, GoneSince(AnHourAgo)))),
			want: onlyEast(v1alpha1.ClusterProgressing, WithReason(v1alpha1.ReasonRollingOut, ""), WithPods(0, 0), Surging, Since(Now), Placed(1)),
		},

		// Without a plan.
		"without a plan the desired state is kept and observations are copied": {
			in: NewInput(WithPlanError(errors.New("no")), Reachable("east"), WithEntries(Entry("east", v1alpha1.ClusterProgressing, Desired(1, 3), Applied(1))),
				Observed("east", Observation(v1alpha1.ClusterReady, Answering(1), AnsweringReplicas(3), Counting(3, 3)))),
			want: onlyEast(v1alpha1.ClusterReady, Desired(1, 3), Applied(1), WithPods(3, 3), Since(Now)),
		},
		"without a plan a cluster that cannot be observed is Unknown": {
			in:   NewInput(WithPlanError(errors.New("no")), Unreachable("east"), WithEntries(Entry("east", v1alpha1.ClusterReady, Desired(1, 2)))),
			want: onlyEast(v1alpha1.ClusterUnknown, WithReason(v1alpha1.ReasonClusterUnreachable, MessageNotReady), Desired(1, 2), Since(Now)),
		},
		"without a plan a deletion continues": {
			in:   NewInput(WithPlanError(errors.New("no")), Deleting, Reachable("east"), WithEntries(Entry("east", v1alpha1.ClusterReady))),
			want: onlyEast(v1alpha1.ClusterRemoving, WithReason(v1alpha1.ReasonRemoving, ""), WithTransition(v1alpha1.TransitionRemoving, v1alpha1.CauseDeletion), Since(Now)),
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, StatusOf(test.in).Clusters); diff != "" {
				t.Errorf("entries (-want +got):\n%s", diff)
			}
		})
	}
}

func reachedAt(addresses ...string) func(*v1alpha1.ClusterStatus) {
	return func(entry *v1alpha1.ClusterStatus) { entry.Addresses = addresses }
}

func addresses(addresses ...string) func(*observation.Observation) {
	return func(seen *observation.Observation) { seen.Addresses = addresses }
}

// Invariant 5: after a restart in a converged state, nothing is written.
func TestPlan_does_not_change_the_status_after_a_restart(t *testing.T) {
	in := Next(NewInput(Chosen("east"), Chosen("north"), Chosen("west"), Unreachable("west"),
		WithEntries(Entry("west", v1alpha1.ClusterReady), Entry("gone", v1alpha1.ClusterReady)),
		Observed("east", Observation(v1alpha1.ClusterReady)),
		Observed("north", Observation(v1alpha1.ClusterFailed, Reporting(v1alpha1.ReasonRefused, "quota"))),
	))
	after := Next(in, Restarted, Later(time.Hour))
	if diff := cmp.Diff(toJSON(t, in.App.Status), toJSON(t, StatusOf(after))); diff != "" {
		t.Errorf("status (-before +after):\n%s", diff)
	}
}

// onlyEast returns the entry of east as the only one.
func onlyEast(phase v1alpha1.ClusterPhase, changes ...func(*v1alpha1.ClusterStatus)) []v1alpha1.ClusterStatus {
	return []v1alpha1.ClusterStatus{Entry("east", phase, changes...)}
}

func toJSON(t interface{ Fatal(...any) }, value any) string {
	content, err := json.MarshalIndent(value, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

// A user may have edited the status, and the entries are found by binary search.
func TestPlan_sorts_the_entries(t *testing.T) {
	want := Clusters("rre")
	unsorted := Clusters("rre")
	slices.Reverse(unsorted.App.Status.Clusters)
	if diff := cmp.Diff(StatusOf(want), StatusOf(unsorted)); diff != "" {
		t.Errorf("status (-sorted +unsorted):\n%s", diff)
	}
}
