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

func TestRemovals_begin_on_so_many_clusters_at_a_time(t *testing.T) {
	tests := map[string]struct {
		clusters, want string
		accept         string
	}{
		// Clusters that left the plan by an edit.
		"one of few at a time, in order of name":               {"reee", "rRww", ""},
		"a fifth at a time":                                    {"eeeeerrrrr", "RRwwwrrrrr", ""},
		"a fifth is rounded down":                              {"eeeeerrrr", "Rwwwwrrrr", ""},
		"as many as accepted":                                  {"eeeer", "RRRwr", "3@2"},
		"accepting less than a fifth takes nothing away":       {"eeeeerrrrr", "RRwwwrrrrr", "1@2"},
		"those under way have their places":                    {"eeeeGrrrrr", "RwwwRrrrrr", ""},
		"those under way, however many, let no other begin":    {"eGGGrrrrrr", "wRRRrrrrrr", ""},
		"all of it, one at a time":                             {"eee", "Rww", ""},
		"all of it, and the last is held":                      {"Ge", "Rh", ""},
		"all of it, by somebody's word":                        {"ee", "RR", "2@2"},
		"the last of it, by somebody's word":                   {"Ge", "RR", "1@2"},
		"the last that is known to be ready":                   {"Geu", "Rh?", ""},
		"of an annotation that is no number nothing follows":   {"eee", "Rww", "lots"},
		"of an annotation that is zero nothing follows":        {"eee", "Rww", "0@2"},
		"of an annotation that is negative nothing follows":    {"eee", "Rww", "-3@2"},
		"a lost cluster takes no place from the others":        {"UUUeeer", "RRRRwwr", ""},
		"a lost cluster begins when there is a place":          {"ueer", "RRwr", ""},
		"of lost clusters no more begin than of any":           {"uuuer", "R??Rr", ""},
		"a lost cluster waits for those that can be reached":   {"Guuur", "R???r", ""},
		"a lost cluster that goes on lets no lost one begin":   {"Uuur", "R??r", ""},
		"a lost one and one that can be reached, side by side": {"Uer", "RRr", ""},

		// Clusters that left the plan without an edit.
		"one of few":                                          {"drr", "Rrr", ""},
		"more than one of few: none":                          {"ddr", "hhr", ""},
		"a fifth":                                             {"ddrrrrrrrr", "RRrrrrrrrr", ""},
		"more than a fifth: none":                             {"dddrrrrrrr", "hhhrrrrrrr", ""},
		"all of it: none":                                     {"ddd", "hhh", ""},
		"those under way count":                               {"dDDrrrrrrr", "hRRrrrrrrr", ""},
		"more than a fifth, accepted: all":                    {"dddrrrrrrr", "RRRrrrrrrr", "3@2"},
		"accepted are fewer than there are: none":             {"dddrrrrrrr", "hhhrrrrrrr", "2@2"},
		"those that leave by an edit do not count":            {"dGrrrrrrrr", "RRrrrrrrrr", ""},
		"those that leave by an edit take their places":       {"dGGrrrrrrr", "wRRrrrrrrr", ""},
		"what drifted too far keeps no edited one from going": {"dddeeerrrr", "hhhRRwrrrr", ""},
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
					t.Errorf("%s is to run generation %d, was %d", entry.Name, entry.Generation, before.Generation)
				}
			}
			if diff := cmp.Diff(toJSON(t, status), toJSON(t, StatusOf(Next(in, Later(time.Hour))))); diff != "" {
				t.Errorf("at rest (-before +after):\n%s", diff)
			}
			if diff := cmp.Diff(toJSON(t, status), toJSON(t, StatusOf(Next(in, Restarted)))); diff != "" {
				t.Errorf("after a restart (-before +after):\n%s", diff)
			}
		})
	}
}

func TestRemovals_that_do_not_begin_are_told(t *testing.T) {
	const wrong = `; annotation fleetwright.dev/accept-removals is "lots", not NUMBER@GENERATION: set fleetwright.dev/accept-removals=1@2`
	const held2 = "2 clusters left the plan within an hour, and spec.placement was not edited"
	const held3 = "3 clusters left the plan within an hour, and spec.placement was not edited"
	const accept = ": annotate the AppService with fleetwright.dev/accept-removals="
	tests := map[string]struct {
		in           rollout.Input
		entry, ready string
	}{
		"waiting": {
			in:    Clusters("reee"),
			entry: "the removal waits for removals from other clusters: b; at most 1 may run at a time; annotate the AppService with fleetwright.dev/accept-removals=2@2 to approve 2 removals regardless of this limit",
			ready: "2 of 3 clusters not ready: c (RemovalPending), d (RemovalPending); the removal from 2 clusters is pending: at most 1 may run at a time",
		},
		"held": {
			in:    Clusters("rddd"),
			entry: held3 + accept + "3@2 to approve 3 removals",
			ready: "3 of 4 clusters not ready: b (RemovalNeedsApproval), c (RemovalNeedsApproval), d (RemovalNeedsApproval); " +
				"the removal from 3 clusters needs approval: annotate the AppService with fleetwright.dev/accept-removals=3@2",
		},
		"held, and what is under way counts": {
			in:    Clusters("rDDd"),
			entry: held3 + accept + "1@2 to approve 1 removal",
			ready: "1 of 2 clusters not ready: d (RemovalNeedsApproval); " +
				"the removal from 1 cluster needs approval: annotate the AppService with fleetwright.dev/accept-removals=1@2",
		},
		"waiting, with an annotation that is no number": {
			in:    With(Clusters("ree"), Annotated(v1alpha1.AnnotationAcceptRemovals, "lots")),
			entry: "the removal waits for removals from other clusters: b; at most 1 may run at a time" + wrong,
			ready: "1 of 2 clusters not ready: c (RemovalPending); the removal from 1 cluster is pending: at most 1 may run at a time" + wrong,
		},
		"waiting, with an annotation that allows none": {
			in:    With(Clusters("ree"), Annotated(v1alpha1.AnnotationAcceptRemovals, "0")),
			entry: "the removal waits for removals from other clusters: b; at most 1 may run at a time" + strings.ReplaceAll(wrong, "lots", "0"),
			ready: "1 of 2 clusters not ready: c (RemovalPending); the removal from 1 cluster is pending: at most 1 may run at a time" + strings.ReplaceAll(wrong, "lots", "0"),
		},
		"held, with an annotation that is no number": {
			in:    With(Clusters("rdd"), Annotated(v1alpha1.AnnotationAcceptRemovals, "lots")),
			entry: held2 + accept + "2@2 to approve 2 removals" + strings.ReplaceAll(wrong, "=1@2", "=2@2"),
			ready: "2 of 3 clusters not ready: b (RemovalNeedsApproval), c (RemovalNeedsApproval); " +
				"the removal from 2 clusters needs approval: annotate the AppService with fleetwright.dev/accept-removals=2@2" + strings.ReplaceAll(wrong, "=1@2", "=2@2"),
		},
		"held, and failed": {
			in:    With(Clusters("rdd"), Observed("c", Observation(v1alpha1.ClusterFailed, Reporting(v1alpha1.ReasonRefused, "quota")))),
			entry: "quota",
			ready: "2 of 3 clusters not ready: c (Refused), b (RemovalNeedsApproval); the removal from 2 clusters needs approval: annotate the AppService with fleetwright.dev/accept-removals=2@2",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			status := StatusOf(test.in)
			if diff := cmp.Diff(test.entry, status.Clusters[len(status.Clusters)-1].Message); diff != "" {
				t.Errorf("the last row (-want +got):\n%s", diff)
			}
			ready := status.Conditions[1]
			if diff := cmp.Diff(test.ready, ready.Message); diff != "" || ready.Type != v1alpha1.ConditionReady || ready.Status != metav1.ConditionFalse {
				t.Errorf("%s is %s (-want +got):\n%s", ready.Type, ready.Status, diff)
			}
		})
	}
}

func TestRemovals_that_nobody_wants_any_more_are_forgotten(t *testing.T) {
	for _, how := range []string{"ree", "rdd"} {
		waiting := Clusters(how)
		chosenAgain := Next(waiting, Restarted, Chosen("b"), Chosen("c"))
		want := Entry("c", v1alpha1.ClusterProgressing, WithReason(v1alpha1.ReasonRollingOut, ""), Since(Now))
		if how == "ree" {
			Applied(1)(&want)
		}
		if diff := cmp.Diff(want, *new(StatusOf(chosenAgain)).Cluster("c")); diff != "" {
			t.Errorf("%s: row (-want +got):\n%s", how, diff)
		}
	}
}

// A cluster that is new in the plan does not raise the limit: an edit from five clusters to fifty
// must not stop all five at once.
func TestRemovals_do_not_count_clusters_that_have_yet_to_take_it_on(t *testing.T) {
	in := Clusters("eeeee" + strings.Repeat("r", 15))
	for i := range 15 {
		NeverObserved(&in.App.Status.Clusters[5+i])
		delete(in.Observations, in.App.Status.Clusters[5+i].Name)
	}
	if got := Letters(StatusOf(in))[:5]; got != "Rwwww" {
		t.Errorf("got %s, want Rwwww", got)
	}
}

// Invariant 2: no step starts more removals than the limit allows, and no removal starts if too
// many clusters drifted.
func TestRemovals_never_begin_on_more_clusters_than_may_be(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := Clusters(string(rapid.SliceOfN(rapid.SampledFrom([]rune{StateLeftByEdit, StateReady, StateLeftByDrift, StateRemovingByEdit, StateRemovingByDrift, StateRemovingUnreachable, StateLeftUnreachable}), 1, 25).Draw(t, "clusters")))
		accept := rapid.IntRange(0, 6).Draw(t, "accept")
		AcceptRemovals(fmt.Sprintf("%d@2", accept))(&in)
		most := max(1, len(in.App.Status.Clusters)/5)
		status := StatusOf(in)
		var begins, removing, drifted, accepted int
		for _, entry := range status.Clusters {
			before := in.App.Status.Cluster(entry.Name)
			reachable, isDrift := in.Members[entry.Name].IsReady(), before.Generation == Generation
			if entry.Transition.Accepted {
				accepted++
				continue
			}
			if entry.Phase == v1alpha1.ClusterRemoving && reachable {
				removing++
			}
			if entry.Phase == v1alpha1.ClusterRemoving && reachable && before.Phase != v1alpha1.ClusterRemoving {
				begins++
			}
			if isDrift && !in.Plan.Find(entry.Name).Chosen() {
				drifted++
			}
		}
		if accepted > accept {
			t.Fatalf("%d removals are accepted, of %d", accepted, accept)
		}
		if begins > 0 && removing > most {
			t.Fatalf("removing from %d clusters, and %d begin; at most %d may be\n%s", removing, begins, most, Letters(status))
		}
		for _, entry := range status.Clusters {
			before := in.App.Status.Cluster(entry.Name)
			if drifted > most && !entry.Transition.Accepted && before.Generation == Generation && before.Phase != v1alpha1.ClusterRemoving && entry.Phase == v1alpha1.ClusterRemoving {
				t.Fatalf("%s begins to be removed, though %d clusters drifted and nobody accepted that\n%s", entry.Name, drifted, Letters(status))
			}
		}
	})
}

// If there are only edits, and members carry out their entries, every edit is completed. An
// unreachable cluster does not prevent that.
func TestRemovals_come_to_an_end(t *testing.T) {
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
