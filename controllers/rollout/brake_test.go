package rollout_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/placement"
	"github.com/fleetwright/fleetwright/controllers/rollout"
	. "github.com/fleetwright/fleetwright/controllers/rollout/rollouttest"
)

// fleetOf returns an AppService that this number of clusters run, each with ten replicas, after it was
// planned.
func fleetOf(clusters int, changes ...func(*rollout.Input)) rollout.Input {
	in := NewInput()
	for i := range clusters {
		share(ClusterName(i), 10, 10, 10)(&in)
	}
	in.App.Spec.Replicas = new(int32(10))
	in = With(in, changes...)
	answerAll(&in)
	in = Next(in)
	answerAll(&in)
	return Next(in)
}

// answerAll makes all clusters run what their entries say.
func answerAll(in *rollout.Input) {
	for i := range in.App.Status.Clusters {
		finish(in.App.Status.Clusters[i].Name, in)
	}
}

// labelled changes what the plan has for the first clusters, as a changed label does.
func labelled(clusters int, replicas int32) func(*rollout.Input) {
	return func(in *rollout.Input) {
		for i := range clusters {
			SetDecision(in, placement.Decision{Cluster: ClusterName(i), Replicas: replicas})
		}
	}
}

// edited changes the spec, as a user does.
func edited(change func(*v1alpha1.AppServiceSpec)) func(*rollout.Input) {
	return func(in *rollout.Input) {
		in.App = in.App.DeepCopy()
		in.App.Generation++
		change(&in.App.Spec)
	}
}

// scaledDown returns the number of clusters with fewer than ten replicas.
func scaledDown(status v1alpha1.AppServiceStatus) int {
	count := 0
	for _, entry := range status.Clusters {
		if entry.Replicas < 10 {
			count++
		}
	}
	return count
}

// A label of many clusters was changed by accident, so that an override or a rule matches.
func TestScale_downs_that_follow_from_labels_need_approval_if_they_are_many(t *testing.T) {
	hundred := Divided(100)
	lessThanAFifth, aFifth := labelled(3, 1), labelled(3, 2)
	image := edited(func(spec *v1alpha1.AppServiceSpec) { spec.Image = "web:2" })
	tests := map[string]struct {
		in   rollout.Input
		want int
	}{
		"a fifth of the clusters":       {With(fleetOf(10), labelled(2, 3)), 2},
		"more":                          {With(fleetOf(10), labelled(3, 3)), 0},
		"all":                           {With(fleetOf(10), labelled(10, 9)), 0},
		"one of two":                    {With(fleetOf(2), labelled(1, 3)), 1},
		"to zero":                       {With(fleetOf(10), labelled(3, 0)), 0},
		"with another edit":             {With(fleetOf(10), labelled(3, 3), image), 0},
		"with an edit of the replicas":  {With(fleetOf(10), labelled(3, 3), edited(func(spec *v1alpha1.AppServiceSpec) { spec.Replicas = new(int32(11)) })), 3},
		"with an edit of the placement": {With(fleetOf(10), labelled(3, 3), editPlacement), 3},
		"with an edit of the image of an override":  {With(fleetOf(10), labelled(3, 3), edited(func(spec *v1alpha1.AppServiceSpec) { spec.Overrides = []v1alpha1.Override{{Image: "web:3"}} })), 0},
		"with an edit of the replicas of overrides": {With(fleetOf(10), labelled(3, 3), edited(func(spec *v1alpha1.AppServiceSpec) { spec.Overrides = []v1alpha1.Override{{Replicas: new(int32(3))}} })), 3},
		"with approval":                              {With(fleetOf(10), labelled(3, 3), AcceptRemovals("3@2")), 3},
		"with approval for too few":                  {With(fleetOf(10), labelled(3, 3), AcceptRemovals("2@2")), 0},
		"with approval for removals beside them":     {With(fleetOf(10), labelled(2, 3), NotChosen(ClusterName(8)), NotChosen(ClusterName(9)), AcceptRemovals("2@2")), 2},
		"with approval for removals beside too many": {With(fleetOf(10), labelled(3, 3), NotChosen(ClusterName(8)), NotChosen(ClusterName(9)), AcceptRemovals("2@2")), 0},
		"with approval for another generation":       {With(fleetOf(10), labelled(3, 3), AcceptRemovals("3@1")), 0},
		"after removals without an edit":             {With(fleetOf(10), labelled(2, 3), RemovedWithoutEdit(2, time.Minute)), 0},
		"after removals more than an hour ago":       {With(fleetOf(10), labelled(2, 3), RemovedWithoutEdit(2, 2*time.Hour)), 2},
		"with an edit, after an older version":       {With(fleetOf(10), labelled(3, 3), image, func(in *rollout.Input) { in.App.Status.Placement.ReplicasHash = "" }), 3},
		"externally scaled: initial replicas":        {With(fleetOf(10), labelled(3, 3), func(in *rollout.Input) { in.App.Spec.ExternallyScaled = true }), 0},
		"Divided: to less than a fifth of the share": {With(fleetOf(10, hundred), lessThanAFifth), 0},
		"Divided: to a fifth of the share":           {With(fleetOf(10, hundred), aFifth), 3},
		"Divided: on a fifth of the clusters":        {With(fleetOf(10, hundred), labelled(2, 0)), 2},
		"Divided: with approval":                     {With(fleetOf(10, hundred), lessThanAFifth, AcceptRemovals("3@2")), 3},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			next := Next(test.in)
			if got := scaledDown(next.App.Status); got != test.want {
				t.Errorf("%d clusters were scaled down, want %d\n%s", got, test.want, toJSON(t, next.App.Status.Clusters))
			}
			if diff := cmp.Diff(toJSON(t, next.App.Status), toJSON(t, StatusOf(With(next, Later(time.Minute))))); diff != "" {
				t.Errorf("the status changed at rest (-before +after):\n%s", diff)
			}
		})
	}
}

// The message has the value that approves all of them, together with the removals that need approval.
func TestScale_downs_that_need_approval_are_explained(t *testing.T) {
	in := With(fleetOf(10), labelled(3, 3), NotChosen(ClusterName(8)), NotChosen(ClusterName(9)))
	decision := rollout.Plan(in)
	notes := strings.Join(decision.Notes, "\n")
	for _, want := range []string{"the scale-down on 3 clusters needs approval", "accept-removals=5@2", "the removal from 2 clusters needs approval"} {
		if !strings.Contains(notes, want) {
			t.Errorf("the notes lack %q:\n%s", want, notes)
		}
	}
	if strings.Contains(notes, "accept-removals=2@2") {
		t.Errorf("one of the notes has another value:\n%s", notes)
	}
	if notes := strings.Join(rollout.Plan(With(in, AcceptRemovals("2@2"))).Notes, "\n"); !strings.Contains(notes, "accept-removals=5@2") {
		t.Errorf("after the removals were approved, the notes lack the number for all of them:\n%s", notes)
	}
	status := StatusOf(With(in, AcceptRemovals("5@2")))
	if got := scaledDown(status); got != 3 || status.Removals.Accepted != 5 {
		t.Errorf("%d clusters were scaled down, and %d approvals used", got, status.Removals.Accepted)
	}
}

// The count is that of an hour, and nothing but time is needed.
func TestScale_downs_count_for_an_hour(t *testing.T) {
	in := With(fleetOf(10), labelled(2, 3))
	in = Next(in, labelled(3, 3), Later(30*time.Minute))
	decision := rollout.Plan(in)
	if got := scaledDown(StatusOf(in)); got != 2 || decision.RecheckAfter <= 0 || decision.RecheckAfter > time.Hour {
		t.Fatalf("%d clusters are scaled down, and the next plan is in %v", got, decision.RecheckAfter)
	}
	in = Next(in, Later(decision.RecheckAfter))
	if got := scaledDown(StatusOf(in)); got != 3 {
		t.Errorf("%d clusters are scaled down after an hour", got)
	}
}

// Clusters that join take replicas over from the others, and nobody has to approve that.
func TestScale_downs_for_clusters_that_join_need_no_approval(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		before, after := rapid.IntRange(1, 6).Draw(t, "clusters"), rapid.IntRange(1, 19).Draw(t, "clusters that join")
		total := int32(before * 10)
		in := fleetOf(before, Divided(total))
		var members []v1alpha1.MemberCluster
		for i := range before + after {
			Reachable(ClusterName(i))(&in)
			members = append(members, *in.Members[ClusterName(i)])
		}
		for range 20 {
			var err error
			if in.Plan, err = placement.Decide(in.App, members); err != nil {
				t.Fatal(err)
			}
			for _, note := range rollout.Plan(in).Notes {
				if strings.Contains(note, "approval") {
					t.Fatalf("%d clusters join %d: %s", after, before, note)
				}
			}
			in = Next(in, Later(time.Minute))
			answerAll(&in)
		}
		var sum int32
		for _, entry := range in.App.Status.Clusters {
			sum += entry.Replicas
		}
		if sum != total {
			t.Fatalf("%d replicas at the end, want %d", sum, total)
		}
	})
}

// Whatever happens to labels, no more than a fifth of the clusters are scaled down within an hour.
func TestScale_downs_that_follow_from_labels_are_limited(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		clusters := rapid.IntRange(1, 12).Draw(t, "clusters")
		in := fleetOf(clusters)
		var starts []time.Time
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			for range rapid.IntRange(0, 4).Draw(t, "labels that change") {
				name := ClusterName(rapid.IntRange(0, clusters-1).Draw(t, "cluster"))
				SetDecision(&in, placement.Decision{Cluster: name, Replicas: rapid.Int32Range(0, 12).Draw(t, "replicas")})
			}
			if rapid.IntRange(0, 5).Draw(t, "edit") == 5 {
				edited(func(spec *v1alpha1.AppServiceSpec) { spec.Image = fmt.Sprint("web:", in.App.Generation) })(&in)
			}
			if rapid.IntRange(0, 5).Draw(t, "restart") == 5 {
				Restarted(&in)
			}
			previous := in.App.Status
			in = Next(in)
			for _, entry := range in.App.Status.Clusters {
				if entry.Replicas < previous.Cluster(entry.Name).Replicas {
					starts = append(starts, in.Now.Time)
				}
			}
			recent := 0
			for _, start := range starts {
				if in.Now.Sub(start) < time.Hour {
					recent++
				}
			}
			if limit := max(1, clusters/5); recent > limit {
				t.Fatalf("%d scale-downs within an hour on %d clusters", recent, clusters)
			}
			answerAll(&in)
			Later(time.Duration(rapid.IntRange(0, 40).Draw(t, "minutes")) * time.Minute)(&in)
		}
	})
}
