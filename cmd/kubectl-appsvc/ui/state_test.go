package ui

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
)

var update = flag.Bool("update", false, "write testdata/*.json again")

// noon is the time of the last transition of all objects in these tests.
var noon = metav1.NewTime(time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC))

// The golden file is what the page gets. page/src/types.ts has the same fields: change them
// together.
func TestState(t *testing.T) {
	t.Parallel()
	state := struct {
		Clusters []Cluster `json:"clusters"`
		Apps     []App     `json:"apps"`
	}{
		[]Cluster{clusterOf(readyMember()), clusterOf(lostMember()), clusterOf(&v1alpha1.MemberCluster{ObjectMeta: metav1.ObjectMeta{Name: "new"}})},
		[]App{appOf(rollingApp(), rollingApp().Status.Clusters), appOf(unplacedApp(), nil), appOf(deletedApp(), deletedApp().Status.Clusters)},
	}
	compareGolden(t, "testdata/state.json", state)
}

func compareGolden(t *testing.T, path string, value any) {
	t.Helper()
	var got bytes.Buffer
	encoder := json.NewEncoder(&got)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(value); err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := os.WriteFile(path, got.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got.String()); diff != "" {
		t.Errorf("%s (-want +got):\n%s", path, diff)
	}
}

func TestReason_of_an_app_whose_configuration_is_not_the_present_one(t *testing.T) {
	for name, test := range map[string]struct {
		ready, configured metav1.ConditionStatus
		want              string
	}{
		"Ready":                           {metav1.ConditionTrue, metav1.ConditionTrue, "Ready"},
		"Ready, and a source was deleted": {metav1.ConditionTrue, metav1.ConditionFalse, "SourceDeleted: it was deleted"},
		"not Ready for another reason":    {metav1.ConditionFalse, metav1.ConditionFalse, "Ready"},
	} {
		t.Run(name, func(t *testing.T) {
			app := &v1alpha1.AppService{Status: v1alpha1.AppServiceStatus{Conditions: []metav1.Condition{
				{Type: v1alpha1.ConditionReady, Status: test.ready, Reason: "Ready"},
				{Type: v1alpha1.ConditionConfigured, Status: test.configured, Reason: v1alpha1.ReasonSourceDeleted, Message: "it was deleted"},
			}}}
			shown := appOf(app, nil)
			if got := strings.TrimSuffix(shown.Reason+": "+shown.Message, ": "); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

func TestWorstPhase(t *testing.T) {
	t.Parallel()
	entries := func(phases ...v1alpha1.ClusterPhase) []v1alpha1.ClusterStatus {
		var all []v1alpha1.ClusterStatus
		for _, phase := range phases {
			all = append(all, v1alpha1.ClusterStatus{Phase: phase})
		}
		return all
	}
	stalled := &v1alpha1.AppService{}
	stalled.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionStalled, Status: metav1.ConditionTrue}}
	for _, test := range []struct {
		name    string
		app     *v1alpha1.AppService
		entries []v1alpha1.ClusterStatus
		want    v1alpha1.ClusterPhase
	}{
		{"all clusters are Ready", &v1alpha1.AppService{}, entries("Ready", "Ready"), "Ready"},
		{"one cluster is Unknown", &v1alpha1.AppService{}, entries("Ready", "Unknown", "Progressing"), "Unknown"},
		{"Failed is worse than Unknown", &v1alpha1.AppService{}, entries("Unknown", "Failed", "Ready"), "Failed"},
		{"a phase of a newer operator is no phase of ours", &v1alpha1.AppService{}, entries("Frozen", "Ready"), "Ready"},
		{"nothing is planned yet", &v1alpha1.AppService{}, nil, "Pending"},
		{"it is stalled", stalled, entries("Ready"), "Failed"},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := worstPhase(test.app, test.entries); got != test.want {
				t.Errorf("got %s, want %s", got, test.want)
			}
		})
	}
}

func condition(kind, status, reason, message string) metav1.Condition {
	return metav1.Condition{Type: kind, Status: metav1.ConditionStatus(status), Reason: reason, Message: message, LastTransitionTime: noon}
}

func readyMember() *v1alpha1.MemberCluster {
	return &v1alpha1.MemberCluster{
		ObjectMeta: metav1.ObjectMeta{Name: "east", Labels: map[string]string{regionLabel: "eu", "tier": "gold"}},
		Spec:       v1alpha1.MemberClusterSpec{Unschedulable: true, Taints: []v1alpha1.Taint{{Key: "gpu", Value: "true", Effect: v1alpha1.TaintNoSchedule}}},
		Status: v1alpha1.MemberClusterStatus{
			Version:    "v1.36.1",
			Conditions: []metav1.Condition{condition("Ready", "True", "Connected", "")},
		},
	}
}

func lostMember() *v1alpha1.MemberCluster {
	return &v1alpha1.MemberCluster{
		ObjectMeta: metav1.ObjectMeta{Name: "south", Labels: map[string]string{"region": "us"}},
		Status: v1alpha1.MemberClusterStatus{
			Conditions:         []metav1.Condition{condition("Ready", "False", "Unreachable", "no route")},
			SecretMissingSince: &noon,
		},
	}
}

// rollingApp is in the second stage of a rollout, and one of its clusters cannot be observed.
func rollingApp() *v1alpha1.AppService {
	soak := int32(600)
	return &v1alpha1.AppService{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", Generation: 7, Labels: map[string]string{"team": "shop"}},
		Spec: v1alpha1.AppServiceSpec{Image: "web:2", Rollout: &v1alpha1.Rollout{Stages: []v1alpha1.RolloutStage{
			{Name: "canary", SoakSeconds: &soak},
			{Name: "eu", Approval: v1alpha1.ApprovalRequired},
		}}},
		Status: v1alpha1.AppServiceStatus{
			ObservedGeneration: 7,
			Conditions:         []metav1.Condition{condition("Ready", "False", "AwaitingApproval", "revision 5 waits for approval of stage eu")},
			Summary:            v1alpha1.ClusterSummary{Clusters: 3, Ready: 2, Replicas: 9, ReadyReplicas: 6, LastKnownReadyReplicas: 3},
			Rollout: v1alpha1.RolloutStatus{
				Revision: 5, StableRevision: 4, PreviousRevision: 3, FailedRevision: 2, Phase: v1alpha1.RolloutProgressing,
				Stages: []v1alpha1.RolloutStageStatus{
					{Name: "canary", Phase: v1alpha1.StageCompleted, Since: noon, Clusters: 1, UpToDate: 1, Available: 1},
					{Name: "eu", Phase: v1alpha1.StageAwaitingApproval, Since: noon, Clusters: 1},
					{Name: "(rest)", Phase: v1alpha1.StagePending, Since: noon, Clusters: 1, Failed: 1},
				},
			},
			Configuration: []v1alpha1.ConfigurationStatus{
				{Kind: v1alpha1.ConfigurationConfigMap, From: "settings", Reason: v1alpha1.ReasonConfigurationMissing, Message: "ConfigMap settings does not exist"},
				{Kind: v1alpha1.ConfigurationSecret, From: "tls", Snapshot: "web-tls-k2x7m9q4ta.snapshot", UpToDate: "38/40"},
			},
			Placement: v1alpha1.PlacementStatus{Excluded: []v1alpha1.ExcludedClusters{
				{Reason: "SelectorMismatch", Count: 12, Examples: []string{"a", "b", "c"}, Requirements: []string{"region=eu"}},
			}},
			Clusters: []v1alpha1.ClusterStatus{
				{Name: "east", Generation: 7, ObservedGeneration: 7, Revision: 5, Phase: "Ready", Replicas: 3, ReadyReplicas: 3, LastTransitionTime: noon},
				{Name: "north", Generation: 7, ObservedGeneration: 6, Revision: 4, Phase: "Progressing", Reason: "RollingOut", Replicas: 3, ReadyReplicas: 1, UnreadyReplicas: 1, MinReplicas: 1, MaxReplicas: 5, LastTransitionTime: noon},
				{Name: "south", Generation: 7, ObservedGeneration: 7, Revision: 5, Phase: "Unknown", LastKnownPhase: "Ready", Reason: "ClusterUnreachable", Message: "no answer", Replicas: 3, ReadyReplicas: 3, LastTransitionTime: noon},
			},
		},
	}
}

// unplacedApp fits no cluster.
func unplacedApp() *v1alpha1.AppService {
	app := &v1alpha1.AppService{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "batch"}, Spec: v1alpha1.AppServiceSpec{Suspend: true}}
	app.Status.Conditions = []metav1.Condition{condition("Ready", "False", "NoClusters", "no cluster fits"), condition("Stalled", "True", "NoClusters", "no cluster fits")}
	return app
}

// deletedApp waits for a cluster that cannot be reached.
func deletedApp() *v1alpha1.AppService {
	app := &v1alpha1.AppService{ObjectMeta: metav1.ObjectMeta{Namespace: "lab", Name: "old", DeletionTimestamp: &noon}}
	app.Status.Clusters = []v1alpha1.ClusterStatus{
		{Name: "south", Phase: "Removing", Reason: "ClusterUnreachable", Transition: v1alpha1.ClusterTransition{Type: v1alpha1.TransitionRemoving, Cause: v1alpha1.CauseDeletion}, LastTransitionTime: noon},
	}
	return app
}

func TestIsUpToDate(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name  string
		entry v1alpha1.ClusterStatus
		want  bool
	}{
		{"it has applied the revision", v1alpha1.ClusterStatus{Revision: 5, Generation: 7, ObservedGeneration: 7}, true},
		{"it cannot be observed", v1alpha1.ClusterStatus{Revision: 5, Generation: 7, ObservedGeneration: 7, Phase: "Unknown"}, true},
		{"it has applied an older revision", v1alpha1.ClusterStatus{Revision: 4, Generation: 7, ObservedGeneration: 7}, false},
		{"it has not applied the revision yet", v1alpha1.ClusterStatus{Revision: 5, Generation: 7, ObservedGeneration: 6}, false},
		{"it leaves the plan", v1alpha1.ClusterStatus{Revision: 5, Generation: 7, ObservedGeneration: 7, Phase: "Removing"}, false},
		{"it has no Secret", v1alpha1.ClusterStatus{Revision: 5, Generation: 7, ObservedGeneration: 7, Phase: "Detached"}, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := isUpToDate(&test.entry, 5); got != test.want {
				t.Errorf("got %t, want %t", got, test.want)
			}
		})
	}
}
