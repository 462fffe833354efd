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
)

// Each letter describes the state of one cluster. The clusters are a, b, c …, in that order.
const (
	runs     = 'r' // chosen and Ready
	edited   = 'e' // no longer chosen since an edit
	drifts   = 'd' // no longer chosen, without an edit
	going    = 'G' // being removed since an edit
	drifting = 'D' // being removed, without an edit
	dead     = 'U' // being removed since an edit, unreachable
	darkness = 'u' // no longer chosen since an edit, unreachable
	begun    = 'R' // expected: Removing
	waits    = 'w' // expected: RemovalPending
	held     = 'h' // expected: RemovalNeedsApproval
	unknown  = '?' // expected: Unknown
)

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
			in := clusters(test.clusters)
			if test.accept != "" {
				accepting(test.accept)(&in)
			}
			status := statusOf(in)
			if diff := cmp.Diff(test.want, letters(status)); diff != "" {
				t.Errorf("clusters (-want +got):\n%s", diff)
			}
			for _, row := range status.Clusters { // entries whose removal waits or is held keep their desired state
				if before := in.App.Status.Cluster(row.Name); before.Generation != row.Generation || before.Replicas != row.Replicas {
					t.Errorf("%s is to run generation %d, was %d", row.Name, row.Generation, before.Generation)
				}
			}
			if diff := cmp.Diff(text(t, status), text(t, statusOf(then(in, later(time.Hour))))); diff != "" {
				t.Errorf("at rest (-before +after):\n%s", diff)
			}
			if diff := cmp.Diff(text(t, status), text(t, statusOf(then(in, restarted)))); diff != "" {
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
		in         rollout.Input
		row, ready string
	}{
		"waiting": {
			in:    clusters("reee"),
			row:   "the removal waits for removals from other clusters: b; at most 1 may run at a time; annotate the AppService with fleetwright.dev/accept-removals=2@2 to approve 2 removals regardless of this limit",
			ready: "2 of 3 clusters not ready: c (RemovalPending), d (RemovalPending); the removal from 2 clusters is pending: at most 1 may run at a time",
		},
		"held": {
			in:  clusters("rddd"),
			row: held3 + accept + "3@2 to approve 3 removals",
			ready: "3 of 4 clusters not ready: b (RemovalNeedsApproval), c (RemovalNeedsApproval), d (RemovalNeedsApproval); " +
				"the removal from 3 clusters needs approval: annotate the AppService with fleetwright.dev/accept-removals=3@2",
		},
		"held, and what is under way counts": {
			in:  clusters("rDDd"),
			row: held3 + accept + "1@2 to approve 1 removal",
			ready: "1 of 2 clusters not ready: d (RemovalNeedsApproval); " +
				"the removal from 1 cluster needs approval: annotate the AppService with fleetwright.dev/accept-removals=1@2",
		},
		"waiting, with an annotation that is no number": {
			in:    with(clusters("ree"), annotated(v1alpha1.AnnotationAcceptRemovals, "lots")),
			row:   "the removal waits for removals from other clusters: b; at most 1 may run at a time" + wrong,
			ready: "1 of 2 clusters not ready: c (RemovalPending); the removal from 1 cluster is pending: at most 1 may run at a time" + wrong,
		},
		"waiting, with an annotation that allows none": {
			in:    with(clusters("ree"), annotated(v1alpha1.AnnotationAcceptRemovals, "0")),
			row:   "the removal waits for removals from other clusters: b; at most 1 may run at a time" + strings.ReplaceAll(wrong, "lots", "0"),
			ready: "1 of 2 clusters not ready: c (RemovalPending); the removal from 1 cluster is pending: at most 1 may run at a time" + strings.ReplaceAll(wrong, "lots", "0"),
		},
		"held, with an annotation that is no number": {
			in:  with(clusters("rdd"), annotated(v1alpha1.AnnotationAcceptRemovals, "lots")),
			row: held2 + accept + "2@2 to approve 2 removals" + strings.ReplaceAll(wrong, "=1@2", "=2@2"),
			ready: "2 of 3 clusters not ready: b (RemovalNeedsApproval), c (RemovalNeedsApproval); " +
				"the removal from 2 clusters needs approval: annotate the AppService with fleetwright.dev/accept-removals=2@2" + strings.ReplaceAll(wrong, "=1@2", "=2@2"),
		},
		"held, and failed": {
			in:    with(clusters("rdd"), saw("c", seen(v1alpha1.ClusterFailed, saying(v1alpha1.ReasonRefused, "quota")))),
			row:   "quota",
			ready: "2 of 3 clusters not ready: c (Refused), b (RemovalNeedsApproval); the removal from 2 clusters needs approval: annotate the AppService with fleetwright.dev/accept-removals=2@2",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			status := statusOf(test.in)
			if diff := cmp.Diff(test.row, status.Clusters[len(status.Clusters)-1].Message); diff != "" {
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
		waiting := clusters(how)
		chosenAgain := then(waiting, restarted, chosen("b"), chosen("c"))
		want := row("c", v1alpha1.ClusterProgressing, because(v1alpha1.ReasonRollingOut, ""), since(now))
		if how == "ree" {
			tookOn(1)(&want)
		}
		if diff := cmp.Diff(want, *new(statusOf(chosenAgain)).Cluster("c")); diff != "" {
			t.Errorf("%s: row (-want +got):\n%s", how, diff)
		}
	}
}

// A cluster that is new in the plan does not raise the limit: an edit from five clusters to fifty
// must not stop all five at once.
func TestRemovals_do_not_count_clusters_that_have_yet_to_take_it_on(t *testing.T) {
	in := clusters("eeeee" + strings.Repeat("r", 15))
	for i := range 15 {
		neverSeen(&in.App.Status.Clusters[5+i])
		delete(in.Observations, in.App.Status.Clusters[5+i].Name)
	}
	if got := letters(statusOf(in))[:5]; got != "Rwwww" {
		t.Errorf("got %s, want Rwwww", got)
	}
}

// Invariant 2: no step starts more removals than the limit allows, and no removal starts if too
// many clusters drifted.
func TestRemovals_never_begin_on_more_clusters_than_may_be(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := clusters(string(rapid.SliceOfN(rapid.SampledFrom([]rune{edited, runs, drifts, going, drifting, dead, darkness}), 1, 25).Draw(t, "clusters")))
		accept := rapid.IntRange(0, 6).Draw(t, "accept")
		accepting(fmt.Sprintf("%d@2", accept))(&in)
		most := max(1, len(in.App.Status.Clusters)/5)
		status := statusOf(in)
		var begins, removing, drifted, accepted int
		for _, row := range status.Clusters {
			before := in.App.Status.Cluster(row.Name)
			reachable, isDrift := in.Members[row.Name].IsReady(), before.Generation == generation
			if row.Transition.Accepted {
				accepted++
				continue
			}
			if row.Phase == v1alpha1.ClusterRemoving && reachable {
				removing++
			}
			if row.Phase == v1alpha1.ClusterRemoving && reachable && before.Phase != v1alpha1.ClusterRemoving {
				begins++
			}
			if isDrift && !in.Plan.Find(row.Name).Chosen() {
				drifted++
			}
		}
		if accepted > accept {
			t.Fatalf("%d removals are accepted, of %d", accepted, accept)
		}
		if begins > 0 && removing > most {
			t.Fatalf("removing from %d clusters, and %d begin; at most %d may be\n%s", removing, begins, most, letters(status))
		}
		for _, row := range status.Clusters {
			before := in.App.Status.Cluster(row.Name)
			if drifted > most && !row.Transition.Accepted && before.Generation == generation && before.Phase != v1alpha1.ClusterRemoving && row.Phase == v1alpha1.ClusterRemoving {
				t.Fatalf("%s begins to be removed, though %d clusters drifted and nobody accepted that\n%s", row.Name, drifted, letters(status))
			}
		}
	})
}

// If there are only edits, and members carry out their entries, every edit is completed. An
// unreachable cluster does not prevent that.
func TestRemovals_come_to_an_end(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := clusters(string(rapid.SliceOfN(rapid.SampledFrom([]rune{edited, runs, dead, darkness}), 1, 25).Draw(t, "clusters")) + string(runs))
		for range len(in.App.Status.Clusters) + 1 {
			in = then(in, later(time.Second))
			for _, row := range in.App.Status.Clusters {
				if row.Phase == v1alpha1.ClusterRemoving {
					saw(row.Name, seen(v1alpha1.ClusterRemoving, goneSince(row.LastTransitionTime)))(&in)
				}
			}
		}
		for _, row := range statusOf(in).Clusters {
			if in.Members[row.Name].IsReady() && !in.Plan.Find(row.Name).Chosen() {
				t.Fatalf("%s is still %s (%s)", row.Name, row.Phase, row.Reason)
			}
		}
	})
}

// clusters returns an input with one cluster per letter. Generation 1 is from before the last edit,
// and generation 2 is the current one.
func clusters(letters string) rollout.Input {
	in := given()
	for i, letter := range letters {
		name := nameOf(i)
		switch letter {
		case runs:
			chosen(name)(&in)
			has(row(name, v1alpha1.ClusterReady))(&in)
			saw(name, seen(v1alpha1.ClusterReady))(&in)
		case edited, darkness:
			notChosen(name)(&in)
			has(row(name, v1alpha1.ClusterReady, plannedFor(1, 2), tookOn(1)))(&in)
			saw(name, seen(v1alpha1.ClusterReady, answering(1)))(&in)
		case drifts:
			notChosen(name)(&in)
			has(row(name, v1alpha1.ClusterReady))(&in)
			saw(name, seen(v1alpha1.ClusterReady))(&in)
		case going, dead:
			notChosen(name)(&in)
			has(row(name, v1alpha1.ClusterRemoving, plannedFor(1, 2), tookOn(1), because(v1alpha1.ReasonRemoving, ""), moves(v1alpha1.TransitionRemoving, v1alpha1.CauseEdit)))(&in)
		case drifting:
			notChosen(name)(&in)
			has(row(name, v1alpha1.ClusterRemoving, because(v1alpha1.ReasonRemoving, ""), moves(v1alpha1.TransitionRemoving, v1alpha1.CauseDrift)))(&in)
		}
		if letter == dead || letter == darkness {
			unreachable(name)(&in)
			delete(in.Observations, name)
		}
	}
	return in
}

func nameOf(i int) string { return string(rune('a' + i)) }

// letters returns the states of the clusters as letters.
func letters(status v1alpha1.AppServiceStatus) string {
	var out strings.Builder
	for _, row := range status.Clusters {
		letter := runs
		switch {
		case row.Phase == v1alpha1.ClusterRemoving:
			letter = begun
		case row.Transition.Type == v1alpha1.TransitionRemovalNeedsApproval:
			letter = held
		case row.Phase == v1alpha1.ClusterUnknown:
			letter = unknown
		case row.Transition.Type == v1alpha1.TransitionRemovalPending:
			letter = waits
		}
		out.WriteRune(letter)
	}
	return out.String()
}

func with(in rollout.Input, changes ...func(*rollout.Input)) rollout.Input {
	for _, change := range changes {
		change(&in)
	}
	return in
}
