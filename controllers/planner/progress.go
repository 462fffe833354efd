package planner

import (
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
)

const (
	// progressInterval is the time between two writes of the planner, of any AppServices, that only
	// show progress.
	progressInterval = 300 * time.Millisecond
	// maxProgressWait is the longest time until an AppService asks again: it may have moved up.
	maxProgressWait = 2 * time.Second
)

// progressTurns are the turns of AppServices to show the progress of a delivery, first come, first
// served. All AppServices share one rate, because nobody reads the progress of fifty of them each
// second, and the hub is what all clusters share. One that is delivered alone has its turn at once.
// It is safe for concurrent use.
type progressTurns struct {
	mu sync.Mutex
	// waiting are the AppServices that wait, and turns has the time of each of them.
	waiting []types.UID
	turns   []time.Time
	last    time.Time // the last turn that was taken
}

// until returns the time until an AppService should ask again, or 0 if it has its turn.
func (p *progressTurns) until(app types.UID, now time.Time) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	place := slices.Index(p.waiting, app)
	if place < 0 {
		last := p.last
		if len(p.turns) > 0 {
			last = p.turns[len(p.turns)-1]
		}
		next := last.Add(progressInterval)
		if next.Before(now) {
			next = now
		}
		place = len(p.waiting)
		p.waiting, p.turns = append(p.waiting, app), append(p.turns, next)
	}
	return min(max(0, p.turns[place].Sub(now)), maxProgressWait)
}

// take ends the turn of an AppService whose progress was written.
func (p *progressTurns) take(app types.UID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if place := slices.Index(p.waiting, app); place >= 0 {
		p.last = p.turns[place]
		p.waiting, p.turns = slices.Delete(p.waiting, place, place+1), slices.Delete(p.turns, place, place+1)
	}
}

// leave removes an AppService that has nothing to show any more. Those behind it move up.
func (p *progressTurns) leave(app types.UID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if place := slices.Index(p.waiting, app); place >= 0 {
		p.waiting, p.turns = slices.Delete(p.waiting, place, place+1), p.turns[:len(p.turns)-1]
	}
}

// isProgress reports whether a status only says how far the clusters have come: its plan is the one
// before, and no condition has another status or reason. With a rollout, the phase of an entry is more
// than progress, because its time counts.
func isProgress(app *v1alpha1.AppService, next v1alpha1.AppServiceStatus) bool {
	have := app.Status
	return equality.Semantic.DeepEqual(withoutProgress(have), withoutProgress(next)) &&
		slices.EqualFunc(have.Conditions, next.Conditions, sameReason) &&
		samePlans(have, next.Clusters, app.Spec.Rollout != nil)
}

// withoutProgress returns a status without what is observed on clusters.
func withoutProgress(status v1alpha1.AppServiceStatus) v1alpha1.AppServiceStatus {
	status.Conditions, status.Clusters, status.WorstClusters = nil, nil, nil
	status.Summary, status.Replicas = v1alpha1.ClusterSummary{}, 0
	return status
}

func sameReason(a, b metav1.Condition) bool {
	return a.Type == b.Type && a.Status == b.Status && a.Reason == b.Reason && a.ObservedGeneration == b.ObservedGeneration
}

// samePlans reports whether the next entries ask nothing else of any cluster, and optionally whether each
// has the same phase. An entry that was Removing may be gone.
func samePlans(have v1alpha1.AppServiceStatus, next []v1alpha1.ClusterStatus, comparePhases bool) bool {
	gone := map[string]v1alpha1.ClusterStatus{}
	for _, entry := range have.Clusters {
		gone[entry.Name] = entry
	}
	for _, entry := range next {
		before, found := gone[entry.Name]
		if !found || !before.SamePlan(entry) || comparePhases && before.Phase != entry.Phase {
			return false
		}
		delete(gone, entry.Name)
	}
	for _, entry := range gone {
		if entry.Phase != v1alpha1.ClusterRemoving {
			return false
		}
	}
	return true
}

// isAnotherPlan reports whether a status asks something else of a cluster, or answers an edit.
func isAnotherPlan(have, next v1alpha1.AppServiceStatus) bool {
	return have.ObservedGeneration != next.ObservedGeneration || !samePlans(have, next.Clusters, false)
}

func isReady(status v1alpha1.AppServiceStatus) bool {
	return meta.IsStatusConditionTrue(status.Conditions, v1alpha1.ConditionReady)
}
