package rollout_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	. "github.com/fleetwright/fleetwright/controllers/rollout/rollouttest"
)

// The number of status writes of a rollout grows much less than the number of clusters, because each
// step of a stage may update one cluster more than are available. The stages, and the pods, which
// start at once, are those of `make bench-members` with -in-stages, which has measured 41 writes. The
// planner writes a status at most once a second, so there is one decision a second.
func TestRollout_over_1000_clusters_writes_few_statuses(t *testing.T) {
	t.Parallel()
	for clusters, most := range map[int]int{100: 35, 1000: 45} {
		t.Run(fmt.Sprint(clusters), func(t *testing.T) {
			w := newStagedFleet()
			w.app.Spec.Rollout = nil
			for i := range clusters {
				w.join(fmt.Sprintf("c%04d", i), "world").startup = 0
			}
			w.countWrites()
			w.edit(func(spec *v1alpha1.AppServiceSpec) {
				spec.Image = "ok-1"
				spec.Rollout = &v1alpha1.Rollout{RolloutPace: v1alpha1.RolloutPace{MinReadySeconds: new(int32(1))}, Stages: []v1alpha1.RolloutStage{
					{Name: "one", Limit: new(intstr.FromInt32(1))},
					{Name: "tenth", Limit: new(intstr.FromString("10%"))},
					{Name: "others"},
				}}
			})
			writes := w.countWrites()
			if state := w.app.Status.Rollout; state.Phase != v1alpha1.RolloutCompleted || state.StableRevision != 2 {
				t.Fatalf("the rollout is %+v", state)
			}
			if t.Logf("%d writes", writes); writes > most {
				t.Errorf("%d writes of the status, want at most %d", writes, most)
			}
		})
	}
}

// countWrites makes a decision each second until five of them have changed nothing, and returns how
// many have changed the status.
func (w *stagedFleet) countWrites() (writes int) {
	for same := 0; same < 5; {
		w.deliverAll()
		before, after := w.app.Status, StatusOf(w.input())
		w.plan()
		w.app.Status = after
		if same++; !cmp.Equal(before, after) {
			writes, same = writes+1, 0
		}
		w.advance(time.Second)
	}
	return writes
}
