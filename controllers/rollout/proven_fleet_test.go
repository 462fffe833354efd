package rollout_test

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/util/intstr"
	"pgregory.net/rapid"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
)

// Each of the properties for one subject has few actions, and starts from a proven fleet. So a
// fault in this subject is found within a hundred checks. TestStages combines all actions.

// newProvenFleet returns a fleet of healthy clusters, named c01 and so on, one for each of these
// labels of a stage. It has completed the rollout of revision 1.
func newProvenFleet(t *rapid.T, strategy v1alpha1.Rollout, labels ...string) *stagedLoop {
	l := newEmptyLoop()
	l.app.Spec.Rollout = &strategy
	for i, label := range labels {
		l.join(fmt.Sprintf("c%02d", i+1), label).startup = time.Duration(rapid.IntRange(0, 40).Draw(t, "startup")) * time.Second
	}
	l.plan()
	l.annotate(v1alpha1.AnnotationPromote, "1")
	if !l.run(nil) || l.app.Status.Rollout.Phase != v1alpha1.RolloutCompleted {
		t.Fatalf("the first rollout does not complete:\n%s", toText(l.app.Status))
	}
	l.annotate(v1alpha1.AnnotationPromote, "")
	return l
}

// stageOf returns a stage of the clusters with its name as their label.
func stageOf(name string, changes ...func(*v1alpha1.RolloutStage)) v1alpha1.RolloutStage {
	s := v1alpha1.RolloutStage{Name: name}
	s.ClusterSelector = &v1alpha1.ClusterSelector{MatchLabels: map[string]string{"stage": name}}
	for _, change := range changes {
		change(&s)
	}
	return s
}

// paceOf returns the pace of a rollout: how many clusters may be unavailable and may fail, and how
// long a cluster must be Ready.
func paceOf(maxUnavailable, maxFailures int32, minReady time.Duration) v1alpha1.RolloutPace {
	unavailable, failures := intstr.FromInt32(maxUnavailable), intstr.FromInt32(maxFailures)
	return v1alpha1.RolloutPace{MaxUnavailable: &unavailable, MaxFailures: &failures, MinReadySeconds: new(int32(minReady / time.Second))}
}

// isAvailable reports whether an entry says that its cluster is available with its revision.
func isAvailable(e *v1alpha1.ClusterStatus) bool {
	return e.Phase == v1alpha1.ClusterReady && e.UnavailableSince == nil
}

// drawDuration draws a number of seconds.
func drawDuration(t *rapid.T, name string, seconds ...int) time.Duration {
	return time.Duration(rapid.SampledFrom(seconds).Draw(t, name)) * time.Second
}

// decides makes a decision, and returns the status before it.
func (l *stagedLoop) decides() v1alpha1.AppServiceStatus {
	before := l.app.Status
	l.plan()
	return before
}
