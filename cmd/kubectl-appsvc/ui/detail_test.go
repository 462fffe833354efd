package ui

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
)

func TestDetail(t *testing.T) {
	t.Parallel()
	app := rollingApp()
	app.Spec.Placement = &v1alpha1.Placement{ClusterMatch: v1alpha1.ClusterMatch{ClusterSelector: &v1alpha1.ClusterSelector{MatchLabels: map[string]string{"tier": "gold"}}}}
	members := []v1alpha1.MemberCluster{*readyMember(), *lostMember()}
	west := readyMember()
	west.Name, west.Labels = "west", map[string]string{"tier": "silver"}
	members = append(members, *west)
	compareGolden(t, "testdata/detail.json", map[string]Detail{
		"application":                 appDetail(app, app.Status.Clusters, past{}, []string{"--context=prod"}),
		"cluster Unknown":             cellDetail(app, app.Status.Clusters, "south", members, []string{"--context=prod"}),
		"cluster with autoscaler":     cellDetail(app, app.Status.Clusters, "north", members, nil),
		"cluster not placed":          cellDetail(app, app.Status.Clusters, "west", members, nil),
		"deletion waits":              cellDetail(deletedApp(), deletedApp().Status.Clusters, "south", members, nil),
		"MemberCluster":               memberDetail(readyMember(), nil),
		"MemberCluster not Ready":     memberDetail(lostMember(), []string{"--context=prod"}),
		"application rolled back":     appDetail(rolledBack(), nil, past{}, nil),
		"application without rollout": appDetail(unplacedApp(), nil, past{}, nil),
	})
}

func rolledBack() *v1alpha1.AppService {
	app := rollingApp()
	app.Status.Rollout.Phase, app.Status.Rollout.FailedRevision = v1alpha1.RolloutRolledBack, 5
	app.Annotations = map[string]string{v1alpha1.AnnotationPause: "5"}
	return app
}

func TestQuote(t *testing.T) {
	t.Parallel()
	for word, want := range map[string]string{
		"fleetwright.dev/approve=5/eu":      "fleetwright.dev/approve=5/eu",
		"fleetwright.dev/promote=5/(rest)":  "'fleetwright.dev/promote=5/(rest)'",
		"--context=$(rm -rf ~)":             "'--context=$(rm -rf ~)'",
		"--context=it's":                    `'--context=it'\''s'`,
		"":                                  "''",
		"--context=arn:aws:eks:eu:1:c/prod": "--context=arn:aws:eks:eu:1:c/prod",
	} {
		if got := quote(word); got != want {
			t.Errorf("quote(%q) = %s, want %s", word, got, want)
		}
	}
}

func TestNewestEvents(t *testing.T) {
	t.Parallel()
	event := func(minute int, related, message string) corev1.Event {
		e := corev1.Event{Message: message, LastTimestamp: metav1.NewTime(noon.Add(time.Duration(minute) * time.Minute))}
		if related != "" {
			e.Related = &corev1.ObjectReference{Kind: "MemberCluster", Name: related}
		}
		return e
	}
	events := []corev1.Event{
		event(1, "", "stage eu started"),
		event(3, "east", "east: Ready"),
		event(2, "west", "west: Failed"),
		event(4, "north", "north, west and 3 more: Unknown"),
	}
	for cluster, want := range map[string]string{
		"":      "north, west and 3 more: Unknown|east: Ready|west: Failed|stage eu started",
		"west":  "north, west and 3 more: Unknown|west: Failed|stage eu started",
		"south": "stage eu started",
	} {
		var got []string
		for _, e := range newestEvents(events, cluster) {
			got = append(got, e.Message)
		}
		if diff := cmp.Diff(want, strings.Join(got, "|")); diff != "" {
			t.Errorf("events of cluster %q (-want +got):\n%s", cluster, diff)
		}
	}
	many := make([]corev1.Event, 2*maxEvents)
	if got := len(newestEvents(many, "")); got != maxEvents {
		t.Errorf("got %d events, want %d", got, maxEvents)
	}
}
