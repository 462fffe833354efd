package lineage_test

import (
	"errors"
	"fmt"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/rollout"
)

// The status is lost while a revision soaks, and only the cluster that has it can be reached at
// first. The revision does not become stable, and reaches no other cluster.
func TestLost_status_in_a_rollout_waits_for_all_clusters(t *testing.T) {
	t.Parallel()
	f := newStagedFleet(t, 3600)
	f.waitForRolledOut(v1alpha1.ReasonSoaking)
	f.clearStatus(wholeStatus)
	f.setReady("west", metav1.ConditionFalse)
	f.start()
	f.eventually("the AppService to wait for west", func() error {
		f.read()
		ready := meta.FindStatusCondition(f.app.Status.Conditions, v1alpha1.ConditionReady)
		if east := f.app.Status.Cluster("east"); ready == nil || ready.Reason != v1alpha1.ReasonStatusLost || east == nil || east.Revision != 2 {
			return fmt.Errorf("Ready is %+v, and the entry of east is %+v", ready, east)
		}
		return nil
	})
	if state := f.app.Status.Rollout; state.Revision != 0 || state.StableRevision != 0 {
		t.Errorf("the rollout is %+v", state)
	}
	f.reconnect("west")
	f.waitForRolledOut(v1alpha1.ReasonSoaking)
	if state := f.app.Status.Rollout; state.Revision != 2 || state.StableRevision != 1 {
		t.Errorf("the rollout is %+v", state)
	}
	f.expectRevisions(map[string]int64{"east": 2, "west": 1})
	f.waitForWorkload("2 × web:1", "west")
	f.waitForWorkload("2 × web:2", "east")
	f.expectNoApply("west")
	f.expectNoApply("east")
}

// A cluster that was tried and found unreachable since the status was lost is not waited for any longer.
func TestLost_status_in_a_rollout_does_not_wait_for_an_unreachable_cluster(t *testing.T) {
	t.Parallel()
	f := newStagedFleet(t, 3600)
	f.waitForRolledOut(v1alpha1.ReasonSoaking)
	f.clearStatus(wholeStatus)
	f.setReady("west", metav1.ConditionFalse)
	f.start()
	var began metav1.Time
	f.eventually("the AppService to wait for west, and for nothing else", func() error {
		f.read()
		east, since := f.app.Status.Cluster("east"), f.app.Status.Rollout.Since
		if since == nil || east == nil || east.Revision != 2 {
			return fmt.Errorf("the wait began at %v, and the entry of east is %+v", since, east)
		}
		began = *since
		return nil
	})
	f.operator.observations.ReportUnreachable("west") // as package clusters does after three attempts
	f.eventually("the wait to end", func() error {
		if f.read(); f.app.Status.Rollout.Revision == 0 {
			return errors.New("revisions are frozen")
		}
		return nil
	})
	if ended := f.app.Status.Rollout.Since; ended.Sub(began.Time) >= rollout.ReportTimeout {
		t.Errorf("it ended at %s, after the limit; it began at %s", ended, began)
	}
	if stable := f.app.Status.Rollout.StableRevision; stable != 0 {
		t.Errorf("revision %d is stable, and half of the clusters are silent", stable)
	}
	f.reconnect("west")
	f.waitForWorkload("2 × web:1", "west")
}
