package difference_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/cmd/kubectl-appsvc/difference"
	"github.com/fleetwright/fleetwright/controllers/revision"
)

func newApp(image string, regions ...string) *v1alpha1.AppService {
	app := &v1alpha1.AppService{ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "shop", UID: "1"}}
	app.Spec.Image, app.Spec.Replicas = image, new(int32(3))
	app.Spec.Placement = &v1alpha1.Placement{ClusterMatch: v1alpha1.ClusterMatch{ClusterSelector: &v1alpha1.ClusterSelector{
		MatchExpressions: []v1alpha1.ClusterRequirement{{Key: "region", Operator: metav1.LabelSelectorOpIn, Values: regions}}}}}
	return app
}

// on returns the AppService with entries on these clusters.
func on(app *v1alpha1.AppService, clusters ...string) *v1alpha1.AppService {
	app.Status.Rollout.Revision = 2
	for _, name := range clusters {
		app.Status.Clusters = append(app.Status.Clusters, v1alpha1.ClusterStatus{Name: name, Replicas: 3, Revision: 2, Phase: v1alpha1.ClusterReady})
	}
	return app
}

func newMember(name, region string) v1alpha1.MemberCluster {
	return v1alpha1.MemberCluster{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"region": region}},
		Status: v1alpha1.MemberClusterStatus{Conditions: []metav1.Condition{{Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue}}}}
}

func TestBetween(t *testing.T) {
	members := []v1alpha1.MemberCluster{newMember("east", "ap"), newMember("north", "eu"), newMember("south", "us")}
	older := on(newApp("web:2", "ap", "eu"), "east", "north")
	older.Status.Clusters[1].Revision = 1
	overridden := newApp("web:1", "ap")
	overridden.Spec.Overrides = []v1alpha1.Override{{Name: "bad", Patches: []v1alpha1.Patch{{Target: v1alpha1.PatchDeployment, Operations: []v1alpha1.PatchOperation{{Op: "remove", Path: "/spec/none"}}}}}}
	for name, test := range map[string]struct {
		before, after *v1alpha1.AppService
		history       []revision.Stored
		want          map[string]string // by cluster: the kind, and the changed lines
	}{
		"the same": {before: on(newApp("web:1", "ap"), "east"), after: newApp("web:1", "ap"), want: map[string]string{}},
		"another image": {before: on(newApp("web:1", "ap"), "east"), after: newApp("web:2", "ap"),
			want: map[string]string{"east": "Changed -image: web:1 +image: web:2"}},
		"another placement": {before: on(newApp("web:1", "ap"), "east"), after: newApp("web:1", "eu"),
			want: map[string]string{"east": "Removed", "north": "Added"}},
		"a new AppService": {after: newApp("web:1", "us"), want: map[string]string{"south": "Added"}},
		"a cluster with an older revision is compared with that": {
			before: older, after: newApp("web:2", "ap", "eu"),
			history: []revision.Stored{{Number: 1, Template: v1alpha1.AppServiceSpec{Image: "web:1"}}},
			want:    map[string]string{"north": "Changed -image: web:1 +image: web:2"}},
		"a revision that is not stored": {before: older, after: newApp("web:2", "ap", "eu"), want: map[string]string{"north": "Invalid"}},
		"an override that cannot be applied": {before: on(newApp("web:1", "ap"), "east"), after: overridden,
			want: map[string]string{"east": "Invalid"}},
	} {
		t.Run(name, func(t *testing.T) {
			changes, err := difference.Between(test.before, test.after, members, test.history, nil, difference.Standard{})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, summarize(changes)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// summarize returns the kind and the changed lines of each cluster.
func summarize(changes []difference.Cluster) map[string]string {
	summary := map[string]string{}
	for _, change := range changes {
		summary[change.Name] = strings.TrimSpace(string(change.Kind) + " " + changedLines(change))
	}
	return summary
}

// TestBetweenEntries compares without MemberClusters: the clusters that have an entry, by their names.
func TestBetweenEntries(t *testing.T) {
	older := on(newApp("web:2", "ap", "eu"), "east", "north", "south", "west")
	older.Status.Clusters[1].Revision = 1
	older.Status.Clusters[2].Phase, older.Status.Clusters[3].Phase = v1alpha1.ClusterRemoving, v1alpha1.ClusterDetached
	history := []revision.Stored{{Number: 1, Template: v1alpha1.AppServiceSpec{Image: "web:1"}}}
	named, labelled, divided := newApp("web:2"), newApp("web:2", "us"), newApp("web:2", "ap", "eu")
	named.Spec.Placement = &v1alpha1.Placement{ClusterMatch: v1alpha1.ClusterMatch{ClusterNames: []string{"north", "south", "paris"}}}
	labelled.Spec.Replicas = new(int32(4))
	divided.Spec.Replicas, divided.Spec.ReplicaPolicy = new(int32(9)), &v1alpha1.ReplicaPolicy{Type: v1alpha1.ReplicasDivided}
	overridden := newApp("web:2", "ap", "eu")
	overridden.Spec.Overrides = []v1alpha1.Override{{Name: "canary", ImageTag: "3", ClusterMatch: v1alpha1.ClusterMatch{ClusterNames: []string{"east"}}}}
	const behind = "Changed -image: web:1 +image: web:2"
	for name, test := range map[string]struct {
		before, after *v1alpha1.AppService
		want          map[string]string
	}{
		"a cluster with an older revision":      {older, older, map[string]string{"north": behind}},
		"clusters that are no longer named":     {older, named, map[string]string{"east": "Removed", "north": behind}},
		"other labels of clusters count as met": {older, labelled, map[string]string{"east": "Changed -replicas: 3 +replicas: 4", "north": "Changed -replicas: 3 +replicas: 4 -image: web:1 +image: web:2"}},
		"shares of the replicas stay":           {older, divided, map[string]string{"north": behind}},
		"an override by name":                   {older, overridden, map[string]string{"east": "Changed -image: web:2 +image: web:3", "north": behind}},
		"a new AppService: no cluster is known": {nil, named, map[string]string{}},
	} {
		t.Run(name, func(t *testing.T) {
			changes, err := difference.BetweenEntries(test.before, test.after, history, nil, difference.Standard{})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, summarize(changes)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// changedLines returns the lines of a diff that change, on one line.
func changedLines(change difference.Cluster) string {
	if change.Kind != difference.Changed {
		return ""
	}
	var lines []string
	for line := range strings.Lines(change.Diff) {
		if (line[0] == '-' || line[0] == '+') && !strings.HasPrefix(line, "---") && !strings.HasPrefix(line, "+++") {
			lines = append(lines, line[:1]+strings.TrimSpace(strings.TrimLeft(line[1:], " -")))
		}
	}
	return strings.Join(lines, " ")
}

func TestBetween_with_an_invalid_selector(t *testing.T) {
	if _, err := difference.Between(nil, newApp("web:1"), nil, nil, nil, difference.Standard{}); err == nil || !strings.Contains(err.Error(), "clusterSelector") {
		t.Errorf("the error is %v", err)
	}
}
