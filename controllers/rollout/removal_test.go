package rollout_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/rollout"
	. "github.com/fleetwright/fleetwright/controllers/rollout/rollouttest"
)

// orAcceptUnready is the part of a message that says how to start a removal before other clusters
// are ready.
const orAcceptUnready = "; annotate the AppService with fleetwright.dev/accept-unready=true to end this wait"

func TestRemovals_are_limited(t *testing.T) {
	tests := map[string]struct {
		clusters, want string
		accept         string
	}{
		// Clusters that left the plan by an edit.
		"one at a time, in order of name":                                        {"reee", "rRww", ""},
		"a fifth of the clusters at a time":                                      {"eeeeerrrrr", "RRwwwrrrrr", ""},
		"a fifth is rounded down":                                                {"eeeeerrrr", "Rwwwwrrrr", ""},
		"as many as approved":                                                    {"eeeer", "RRRwr", "3@2"},
		"an approval of fewer than a fifth does not reduce the limit":            {"eeeeerrrrr", "RRwwwrrrrr", "1@2"},
		"removals in progress count":                                             {"eeeeGrrrrr", "RwwwRrrrrr", ""},
		"removals in progress above the limit block others":                      {"eGGGrrrrrr", "wRRRrrrrrr", ""},
		"all clusters left the plan: one at a time":                              {"eee", "Rww", ""},
		"all clusters left the plan: the last one needs approval":                {"Ge", "Rh", ""},
		"all clusters left the plan: approved":                                   {"ee", "RR", "2@2"},
		"the last cluster: approved":                                             {"Ge", "RR", "1@2"},
		"the last cluster that is known to be ready needs approval":              {"Geu", "Rh?", ""},
		"an annotation that is not a number approves nothing":                    {"eee", "Rww", "lots"},
		"an annotation of zero approves nothing":                                 {"eee", "Rww", "0@2"},
		"a negative annotation approves nothing":                                 {"eee", "Rww", "-3@2"},
		"unreachable clusters do not block reachable ones":                       {"UUUeeer", "RRRRwwr", ""},
		"an unreachable cluster is removed within the limit":                     {"ueer", "RRwr", ""},
		"removals from unreachable clusters are limited":                         {"uuuer", "R??Rr", ""},
		"unreachable clusters wait for reachable ones":                           {"Guuur", "R???r", ""},
		"a removal from an unreachable cluster blocks other unreachable ones":    {"Uuur", "R??r", ""},
		"a removal from an unreachable cluster and one from a reachable cluster": {"Uer", "RRr", ""},

		// Clusters that left the plan without an edit.
		"one of three":                                            {"drr", "Rrr", ""},
		"two of three need approval":                              {"ddr", "hhr", ""},
		"two of ten":                                              {"ddrrrrrrrr", "RRrrrrrrrr", ""},
		"three of ten need approval":                              {"dddrrrrrrr", "hhhrrrrrrr", ""},
		"all clusters need approval":                              {"ddd", "hhh", ""},
		"removals without an edit in progress count":              {"dDDrrrrrrr", "hRRrrrrrrr", ""},
		"three of ten, approved":                                  {"dddrrrrrrr", "RRRrrrrrrr", "3@2"},
		"three of ten, two approved: all need approval":           {"dddrrrrrrr", "hhhrrrrrrr", "2@2"},
		"a removal by an edit does not count as one without":      {"dGrrrrrrrr", "RRrrrrrrrr", ""},
		"removals by an edit in progress count against the limit": {"dGGrrrrrrr", "wRRrrrrrrr", ""},
		"held removals do not block removals by an edit":          {"dddeeerrrr", "hhhRRwrrrr", ""},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			in := Clusters(test.clusters)
			if test.accept != "" {
				AcceptRemovals(test.accept)(&in)
			}
			status := StatusOf(in)
			if diff := cmp.Diff(test.want, Letters(status)); diff != "" {
				t.Errorf("clusters (-want +got):\n%s", diff)
			}
			for _, entry := range status.Clusters { // entries whose removal waits or is held keep their desired state
				if before := in.App.Status.Cluster(entry.Name); before.Generation != entry.Generation || before.Replicas != entry.Replicas {
					t.Errorf("%s has generation %d, had %d", entry.Name, entry.Generation, before.Generation)
				}
			}
			if diff := cmp.Diff(toJSON(t, status), toJSON(t, StatusOf(Next(in, Later(time.Hour))))); diff != "" {
				t.Errorf("the status changed at rest (-before +after):\n%s", diff)
			}
			if diff := cmp.Diff(toJSON(t, status), toJSON(t, StatusOf(Next(in, Restarted)))); diff != "" {
				t.Errorf("the status changed after a restart (-before +after):\n%s", diff)
			}
		})
	}
}

func TestRemovals_that_have_not_started_are_explained(t *testing.T) {
	const wrong = `; annotation fleetwright.dev/accept-removals is "lots", not NUMBER@GENERATION: set fleetwright.dev/accept-removals=1@2`
	const held2 = "2 clusters left the plan within an hour, and spec.placement was not edited"
	const held3 = "3 clusters left the plan within an hour, and spec.placement was not edited"
	const accept = ": annotate the AppService with fleetwright.dev/accept-removals="
	tests := map[string]struct {
		in           rollout.Input
		entry, ready string
	}{
		"pending": {
			in:    Clusters("reee"),
			entry: "the removal waits for removals from other clusters: b; at most 1 may run at a time; annotate the AppService with fleetwright.dev/accept-removals=2@2 to approve 2 removals regardless of this limit",
			ready: "2 of 3 clusters not ready: c (RemovalPending), d (RemovalPending); the removal from 2 clusters is pending: at most 1 may run at a time",
		},
		"needs approval": {
			in:    Clusters("rddd"),
			entry: held3 + accept + "3@2 to approve 3 removals",
			ready: "3 of 4 clusters not ready: b (RemovalNeedsApproval), c (RemovalNeedsApproval), d (RemovalNeedsApproval); " +
				"the removal from 3 clusters needs approval: annotate the AppService with fleetwright.dev/accept-removals=3@2",
		},
		"needs approval, with removals in progress": {
			in:    Clusters("rDDd"),
			entry: held3 + accept + "1@2 to approve 1 removal",
			ready: "1 of 2 clusters not ready: d (RemovalNeedsApproval); " +
				"the removal from 1 cluster needs approval: annotate the AppService with fleetwright.dev/accept-removals=1@2",
		},
		"pending, with a malformed annotation": {
			in:    With(Clusters("ree"), Annotated(v1alpha1.AnnotationAcceptRemovals, "lots")),
			entry: "the removal waits for removals from other clusters: b; at most 1 may run at a time" + wrong,
			ready: "1 of 2 clusters not ready: c (RemovalPending); the removal from 1 cluster is pending: at most 1 may run at a time" + wrong,
		},
		"pending, with an annotation of zero": {
			in:    With(Clusters("ree"), Annotated(v1alpha1.AnnotationAcceptRemovals, "0")),
			entry: "the removal waits for removals from other clusters: b; at most 1 may run at a time" + strings.ReplaceAll(wrong, "lots", "0"),
			ready: "1 of 2 clusters not ready: c (RemovalPending); the removal from 1 cluster is pending: at most 1 may run at a time" + strings.ReplaceAll(wrong, "lots", "0"),
		},
		"needs approval, with a malformed annotation": {
			in:    With(Clusters("rdd"), Annotated(v1alpha1.AnnotationAcceptRemovals, "lots")),
			entry: held2 + accept + "2@2 to approve 2 removals" + strings.ReplaceAll(wrong, "=1@2", "=2@2"),
			ready: "2 of 3 clusters not ready: b (RemovalNeedsApproval), c (RemovalNeedsApproval); " +
				"the removal from 2 clusters needs approval: annotate the AppService with fleetwright.dev/accept-removals=2@2" + strings.ReplaceAll(wrong, "=1@2", "=2@2"),
		},
		"needs approval, and failed": {
			in:    With(Clusters("rdd"), Observed("c", Observation(v1alpha1.ClusterFailed, Reporting(v1alpha1.ReasonRefused, "quota")))),
			entry: "quota",
			ready: "2 of 3 clusters not ready: c (Refused), b (RemovalNeedsApproval); the removal from 2 clusters needs approval: annotate the AppService with fleetwright.dev/accept-removals=2@2",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			status := StatusOf(test.in)
			if diff := cmp.Diff(test.entry, status.Clusters[len(status.Clusters)-1].Message); diff != "" {
				t.Errorf("message of the last entry (-want +got):\n%s", diff)
			}
			ready := status.Conditions[1]
			if diff := cmp.Diff(test.ready, ready.Message); diff != "" || ready.Type != v1alpha1.ConditionReady || ready.Status != metav1.ConditionFalse {
				t.Errorf("%s is %s (-want +got):\n%s", ready.Type, ready.Status, diff)
			}
		})
	}
}

func TestRemovals_end_when_the_clusters_are_chosen_again(t *testing.T) {
	for _, how := range []string{"ree", "rdd"} {
		waiting := Clusters(how)
		chosenAgain := Next(waiting, Restarted, Chosen("b"), Chosen("c"))
		want := Entry("c", v1alpha1.ClusterProgressing, WithReason(v1alpha1.ReasonRollingOut, ""), Since(Now))
		if how == "ree" {
			Applied(1)(&want)
		}
		if diff := cmp.Diff(want, *new(StatusOf(chosenAgain)).Cluster("c")); diff != "" {
			t.Errorf("%s: entry (-want +got):\n%s", how, diff)
		}
	}
}

// A cluster that is new in the plan does not raise the limit: an edit from five clusters to fifty
// must not stop all five at once.
func TestRemovals_limit_counts_only_clusters_that_have_applied_the_AppService(t *testing.T) {
	in := Clusters("eeeee" + strings.Repeat("r", 15))
	for i := range 14 {
		NeverObserved(&in.App.Status.Clusters[6+i])
		delete(in.Observations, in.App.Status.Clusters[6+i].Name)
	}
	if got := Letters(StatusOf(in))[:5]; got != "Rwwww" {
		t.Errorf("got %s, want Rwwww", got)
	}
}

// Invariant 2: no step starts more removals than the limit allows, and no removal starts if too
// many clusters left the plan without an edit.
func TestRemovals_never_exceed_the_limit(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := Clusters(string(rapid.SliceOfN(rapid.SampledFrom([]rune{StateLeftByEdit, StateReady, StateLeftWithoutEdit, StateRemovingByEdit, StateRemovingWithoutEdit, StateRemovingUnreachable, StateLeftUnreachable}), 1, 25).Draw(t, "clusters")))
		accept := rapid.IntRange(0, 6).Draw(t, "accept")
		AcceptRemovals(fmt.Sprintf("%d@2", accept))(&in)
		most := max(1, len(in.App.Status.Clusters)/5)
		status := StatusOf(in)
		var started, removing, leftWithoutEdit, accepted int
		for _, entry := range status.Clusters {
			before := in.App.Status.Cluster(entry.Name)
			reachable, isWithoutEdit := in.Members[entry.Name].IsReady(), before.Generation == Generation
			if entry.Transition.Accepted {
				accepted++
				continue
			}
			if entry.Phase == v1alpha1.ClusterRemoving && reachable {
				removing++
			}
			if entry.Phase == v1alpha1.ClusterRemoving && reachable && before.Phase != v1alpha1.ClusterRemoving {
				started++
			}
			if isWithoutEdit && !in.Plan.Find(entry.Name).Chosen() {
				leftWithoutEdit++
			}
		}
		if accepted > accept {
			t.Fatalf("%d removals are approved, want at most %d", accepted, accept)
		}
		if started > 0 && removing > most {
			t.Fatalf("%d removals run, %d of them new; the limit is %d\n%s", removing, started, most, Letters(status))
		}
		for _, entry := range status.Clusters {
			before := in.App.Status.Cluster(entry.Name)
			if leftWithoutEdit > most && !entry.Transition.Accepted && before.Generation == Generation && before.Phase != v1alpha1.ClusterRemoving && entry.Phase == v1alpha1.ClusterRemoving {
				t.Fatalf("the removal from %s starts although %d clusters left the plan without an edit and no user approved it\n%s", entry.Name, leftWithoutEdit, Letters(status))
			}
		}
	})
}

// If there are only edits, and members carry out their entries, every edit is completed. An
// unreachable cluster does not prevent that.
func TestRemovals_by_an_edit_are_completed(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := Clusters(string(rapid.SliceOfN(rapid.SampledFrom([]rune{StateLeftByEdit, StateReady, StateRemovingUnreachable, StateLeftUnreachable}), 1, 25).Draw(t, "clusters")) + string(StateReady))
		for range len(in.App.Status.Clusters) + 1 {
			in = Next(in, Later(time.Second))
			for _, entry := range in.App.Status.Clusters {
				if entry.Phase == v1alpha1.ClusterRemoving {
					Observed(entry.Name, Observation(v1alpha1.ClusterRemoving, GoneSince(entry.LastTransitionTime)))(&in)
				}
			}
		}
		for _, entry := range StatusOf(in).Clusters {
			if in.Members[entry.Name].IsReady() && !in.Plan.Find(entry.Name).Chosen() {
				t.Fatalf("%s is still %s (%s)", entry.Name, entry.Phase, entry.Reason)
			}
		}
	})
}
