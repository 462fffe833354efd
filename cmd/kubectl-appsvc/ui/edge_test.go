package ui

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
)

// edgeRegions are the regions of an edge fleet. Each has the same number of clusters.
var edgeRegions = []string{
	"af-south", "ap-east", "ap-south", "eu-central", "eu-west", "sa-east", "us-east", "us-west",
}

// edgeServices and edgeParts are the two halves of the names of applications.
var (
	edgeServices = []string{"checkout", "inventory", "loyalty", "pricing", "receipts"}
	edgeParts    = []string{
		"api", "archiver", "cache", "gateway", "importer", "indexer", "notifier", "reporter", "scheduler", "worker",
	}
)

// createEdge creates a fleet as large fleets are: names that differ at their end, two of a hundred
// clusters that do not respond, and applications that fail or roll out on a part of the clusters.
func createEdge(t *testing.T, apps, clusters int) {
	t.Helper()
	const namespace = "retail-stores-production"
	object := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}
	if err := hub.Create(t.Context(), object); err != nil {
		t.Fatal(err)
	}
	createMany(t, namespace, apps, clusters, manyObjects{member: newEdgeMember, app: newEdgeApp})
}

func newEdgeMember(i int) *v1alpha1.MemberCluster {
	region := edgeRegions[i%len(edgeRegions)]
	member := &v1alpha1.MemberCluster{}
	member.Name, member.Labels = edgeCluster(i), map[string]string{regionLabel: region}
	member.Status.Version = "v1.36.1"
	ready := metav1.Condition{Type: "Ready", Status: "True", Reason: "Connected", LastTransitionTime: noon}
	if isLost(i) {
		ready.Status, ready.Reason, ready.Message = "False", "Unreachable", "no answer"
	}
	member.Status.Conditions = []metav1.Condition{ready}
	return member
}

func edgeCluster(i int) string {
	return fmt.Sprintf("edge-%s-%03d", edgeRegions[i%len(edgeRegions)], i/len(edgeRegions))
}

// isLost reports whether a cluster does not respond: two of a hundred.
func isLost(cluster int) bool { return cluster%50 == 7 }

func newEdgeApp(namespace string, i, clusters int) (*v1alpha1.AppService, []v1alpha1.ClusterStatus) {
	var entries []v1alpha1.ClusterStatus
	failed, reason := 0, "ClustersUnknown"
	for j := range clusters {
		if i%5 == 4 && j%len(edgeRegions) == 2 {
			continue // one of five applications is not placed in one of the regions
		}
		entry := newEdgeEntry(i, j)
		if entry.Phase == v1alpha1.ClusterFailed {
			failed++
		}
		entries = append(entries, entry)
	}
	if failed > 0 {
		reason = "ClustersFailed"
	}
	service, part := edgeServices[i/len(edgeParts)%len(edgeServices)], edgeParts[i%len(edgeParts)]
	app := newApp(namespace, service+"-"+part, entries...)
	app.Status.Summary = summaryOf(entries)
	app.Status.Rollout.Revision = 2
	app.Status.Conditions = []metav1.Condition{{
		Type: "Ready", Status: "False", Reason: reason, Message: "some clusters are not ready", LastTransitionTime: noon,
	}}
	return app, nil
}

// newEdgeEntry returns the entry of an application on a cluster: some applications fail on a part of
// the clusters of one region, and one of twenty rolls out.
func newEdgeEntry(app, cluster int) v1alpha1.ClusterStatus {
	region, inRegion := cluster%len(edgeRegions), cluster/len(edgeRegions)
	entry := newEntry(edgeCluster(cluster), v1alpha1.ClusterReady)
	entry.Revision = 2
	switch {
	case isLost(cluster):
		entry.Phase, entry.LastKnownPhase = v1alpha1.ClusterUnknown, v1alpha1.ClusterReady
		entry.Reason = "ClusterUnreachable"
	case app == 13 && region == 4 && inRegion%2 == 1, app == 6 && region >= 5 && inRegion%9 == 1, app == 2 && cluster == 3:
		entry.Phase, entry.Reason = v1alpha1.ClusterFailed, "ImagePullBackOff"
		entry.ReadyReplicas, entry.UnreadyReplicas = 1, 2
	case app%20 == 8 && region < 3 && inRegion%2 == 0:
		entry.Phase, entry.Reason = v1alpha1.ClusterProgressing, "RollingOut"
		entry.ReadyReplicas, entry.UnreadyReplicas = 2, 1
	case app%20 == 8 && region >= 3:
		entry.Revision = 1
	}
	return entry
}
