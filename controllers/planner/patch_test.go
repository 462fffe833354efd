package planner

import (
	"encoding/json"
	"fmt"
	"testing"

	jsonpatch "github.com/evanphx/json-patch/v5"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
)

func TestStatusPatch_turns_any_status_into_any_other(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		app := &v1alpha1.AppService{ObjectMeta: metav1.ObjectMeta{ResourceVersion: "7"}, Status: drawStatus(t)}
		next := drawStatus(t)
		patch, err := statusPatch(app.ResourceVersion, app.Status, next)
		if err != nil {
			t.Fatal(err)
		}
		app.Status.Clusters, next.Clusters = storedEntries(app.Status), storedEntries(next)
		if patch == nil {
			if diff := cmp.Diff(next, app.Status, cmpopts.EquateEmpty()); diff != "" {
				t.Fatalf("there is no patch (-want +got):\n%s", diff)
			}
			return
		}
		data, err := patch.Data(nil)
		if err != nil {
			t.Fatal(err)
		}
		before, err := json.Marshal(app)
		if err != nil {
			t.Fatal(err)
		}
		after, err := jsonpatch.MergePatch(before, data)
		if err != nil {
			t.Fatal(err)
		}
		got := v1alpha1.AppService{}
		if err := json.Unmarshal(after, &got); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(next, got.Status, cmpopts.EquateEmpty()); diff != "" {
			t.Fatalf("status (-want +got):\n%s\npatch: %s", diff, data)
		}
		if got.ResourceVersion != "7" {
			t.Fatalf("the patch does not lock the AppService: %s", data)
		}
	})
}

func drawStatus(t *rapid.T) v1alpha1.AppServiceStatus {
	var s v1alpha1.AppServiceStatus
	s.ObservedGeneration = rapid.Int64Range(0, 2).Draw(t, "generation")
	s.ClustersIn = rapid.SampledFrom([]v1alpha1.ClustersIn{"", v1alpha1.ClustersInSlices}).Draw(t, "clusters in")
	s.Replicas = rapid.Int32Range(0, 1).Draw(t, "replicas")
	s.Summary.Ready = rapid.Int32Range(0, 1).Draw(t, "ready")
	s.Placement.ReplicasHash = rapid.SampledFrom([]string{"", "x", "y"}).Draw(t, "replicas hash")
	s.Placement.SpecHash = rapid.SampledFrom([]string{"", "x", "y"}).Draw(t, "hash")
	s.AcceptedStamps = rapid.SampledFrom([][]string{nil, {"a"}, {"b"}}).Draw(t, "stamps")
	if rapid.Bool().Draw(t, "has conditions") {
		s.Conditions = []metav1.Condition{{Type: "Ready", Status: "True", Reason: rapid.SampledFrom([]string{"A", "B"}).Draw(t, "reason")}}
	}
	for i := range rapid.IntRange(0, 3).Draw(t, "entries") {
		s.Clusters = append(s.Clusters, v1alpha1.ClusterStatus{
			Name: fmt.Sprint("member-", i), Phase: v1alpha1.ClusterReady, Message: rapid.SampledFrom([]string{"", "x"}).Draw(t, "message"),
		})
	}
	return s
}

func BenchmarkStatusPatch(b *testing.B) {
	for _, entries := range []int{50, 1000, 10000} {
		app := &v1alpha1.AppService{ObjectMeta: metav1.ObjectMeta{ResourceVersion: "7"}}
		for i := range entries {
			app.Status.Clusters = append(app.Status.Clusters, v1alpha1.ClusterStatus{
				Name: fmt.Sprintf("member-%05d", i), Generation: 3, ObservedGeneration: 3, Phase: v1alpha1.ClusterReady, Replicas: 2, ReadyReplicas: 2,
			})
		}
		next := app.DeepCopy().Status
		next.Clusters[3].ReadyReplicas = 1
		b.Run(fmt.Sprintf("%d entries", entries), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := statusPatch(app.ResourceVersion, app.Status, next); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
