package lineage_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/entries/appslice"
	"github.com/fleetwright/fleetwright/controllers/rollout"
)

// waitForQuestion waits until the entry of a member says that its workload is missing.
func (f *fleet) waitForQuestion(name string) {
	f.Helper()
	f.eventually("the entry of "+name+" to say that the workload is missing", func() error {
		f.read()
		if entry := f.app.Status.Cluster(name); entry == nil || !strings.Contains(entry.Message, "the workload is missing") {
			runs, _ := f.workload(name)
			return fmt.Errorf("it runs %s, and the entry is %+v", runs, entry)
		}
		return nil
	})
}

// The edit that was lost had moved the workload to east, and only east shows that.
func TestRestored_hub_creates_nothing_before_all_clusters_have_reported(t *testing.T) {
	t.Parallel()
	for name, sliceThreshold := range map[string]int{"entries in the status": appslice.DefaultThreshold, "entries in slices": 1} {
		t.Run(name, func(t *testing.T) { testRestoredAfterMove(newFleetWith(t, sliceThreshold, withImage("web:1", 2))) })
	}
}

func testRestoredAfterMove(f *fleet) {
	f.waitForReady("east", "west")
	if got, want := f.app.Status.ClustersIn != "", f.sliceThreshold == 1; got != want {
		f.Fatalf("the entries are in slices: %v", got)
	}
	old := f.backup()
	f.edit(func(app *v1alpha1.AppService) {
		app.Spec.Image = "web:2"
		app.Spec.Placement = &v1alpha1.Placement{ClusterMatch: v1alpha1.ClusterMatch{ClusterNames: []string{"east"}}}
	})
	f.waitForWorkload("2 × web:2", "east")
	f.rollOut("east")
	f.waitForRemoval("west")
	f.waitForReady("east")
	f.restore(old)
	f.setReady("east", metav1.ConditionFalse)
	f.start()
	f.waitForQuestion("west")
	f.reconnect("east")
	f.waitForEntries(map[string]string{"east": failedHubBehind, "west": failedHubBehind})
	f.waitForWorkload("nothing", "west")
	f.waitForWorkload("2 × web:2", "east")
	f.acceptHub()
	f.waitForReady("east", "west")
	f.waitForWorkload("2 × web:1", "east", "west")
}

// deleteWorkload deletes the workload of a member.
func (f *fleet) deleteWorkload(name string) {
	f.Helper()
	f.must(f.members[name].Delete(f.Context(), f.deployment(name), client.PropagationPolicy(metav1.DeletePropagationBackground)))
}

func TestMissing_workload_is_created_again_after_a_restart(t *testing.T) {
	t.Parallel()
	f := newFleet(t, withImage("web:1", 2))
	f.waitForReady("east", "west")
	t.Run("at once, when all clusters have reported", func(t *testing.T) {
		f.operator.stop()
		f.deleteWorkload("west")
		f.waitsForReports = true
		f.start()
		f.waitForReady("east", "west")
		for _, entry := range f.app.Status.Clusters {
			if entry.Recreate != "" {
				t.Errorf("the answer is still in the entry: %+v", entry)
			}
		}
	})
	t.Run("when the other cluster was found unreachable", func(t *testing.T) {
		f.operator.stop()
		f.deleteWorkload("west")
		f.setReady("east", metav1.ConditionFalse)
		f.waitsForReports = false // package rollout shows that the evidence ends the wait
		f.start()
		f.waitForQuestion("west")
		f.operator.observations.ReportUnreachable("east") // as package clusters does after three attempts
		f.waitForWorkload("2 × web:1", "west")
		f.reconnect("east")
		f.waitForReady("east", "west")
	})
	t.Run("after a limit, while nobody knows whether the other cluster can be reached", func(t *testing.T) {
		f.operator.stop()
		f.deleteWorkload("west")
		f.setReady("east", metav1.ConditionFalse)
		start := time.Now()
		f.start()
		f.waitForQuestion("west")
		f.waitForWorkload("2 × web:1", "west")
		if took := time.Since(start); took < rollout.ReportTimeout-2*time.Second {
			t.Errorf("it took %s", took)
		}
		f.reconnect("east")
	})
	t.Run("at once, while the operator runs", func(t *testing.T) {
		f.waitForReady("east", "west")
		f.operator.stop()
		f.waitsForReports = true
		f.start()
		f.waitForReady("east", "west")
		f.disconnect("east")
		f.deleteWorkload("west")
		f.eventually("the workload on west to be created again", func() error {
			if got, _ := f.workload("west"); got != "2 × web:1" {
				return fmt.Errorf("it runs %s", got)
			}
			return nil
		})
	})
}

// The tombstone shows that the AppService has run on west, so west may show that an edit was lost.
func TestMissing_workload_is_created_again_when_a_cluster_with_a_tombstone(t *testing.T) {
	t.Parallel()
	tests := map[string]func(*fleet){
		"was found unreachable": func(f *fleet) { f.operator.observations.ReportUnreachable("west") },
		"has nothing left": func(f *fleet) {
			f.deleteWorkload("west")
			f.reconnect("west")
			f.waitForTombstones("west", 0)
		},
	}
	for name, explain := range tests {
		t.Run(name, func(t *testing.T) {
			f := newAbandonedOnWest(t)
			f.waitForEntries(map[string]string{"east": "Ready"})
			f.operator.stop()
			f.deleteWorkload("east")
			f.waitsForReports = name == "has nothing left"
			f.start()
			f.waitForQuestion("east")
			explain(f)
			f.waitForWorkload("2 × web:1", "east")
		})
	}
}
