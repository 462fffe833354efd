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
	// deliveryTime is how long a delivery lasts at most, from its last plan. A cluster that never gets
	// Ready must not delay what the status says of the others.
	deliveryTime = time.Minute
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
		if n := len(p.turns); n > 0 && p.turns[n-1].After(last) {
			last = p.turns[n-1]
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
func (p *progressTurns) take(app types.UID, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if place := slices.Index(p.waiting, app); place >= 0 {
		p.last = now
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

// isProgress reports whether a plan only says how far the clusters have come: it asks nothing else of any
// of them, no condition has another status or reason, and nothing has failed or is lost. With a rollout,
// nothing is only progress, because stages read what was observed.
func (p planned) isProgress() bool {
	app, next := p.have.app, p.next
	return app.Spec.Rollout == nil && len(p.decision.Notes) == 0 && len(p.decision.RequestErrors) == 0 &&
		equality.Semantic.DeepEqual(withoutProgress(app.Status), withoutProgress(next)) &&
		slices.EqualFunc(app.Status.Conditions, next.Conditions, sameReason) &&
		matchEntries(app.Status.Clusters, next.Clusters, func(before, after v1alpha1.ClusterStatus) bool {
			return before.SamePlan(after) && isNearer(before, after)
		}, app.IsDeleting())
}

// isAvailability reports whether a plan only has other numbers of available pods. A plan that repairs
// slices, which another client edited or deleted, has more.
func (p planned) isAvailability() bool {
	have, next := p.have.app.Status, p.next
	isAlike := func(before, after v1alpha1.ClusterStatus) bool {
		before.ObservedAvailableReplicas, after.ObservedAvailableReplicas = nil, nil
		return equality.Semantic.DeepEqual(before, after)
	}
	return equality.Semantic.DeepEqual(withoutAvailability(have), withoutAvailability(next)) &&
		slices.EqualFunc(have.WorstClusters, next.WorstClusters, isAlike) &&
		slices.EqualFunc(have.Clusters, next.Clusters, isAlike) &&
		!equality.Semantic.DeepEqual(have, next) && len(p.have.unwritten(&have)) == 0
}

// withoutAvailability returns a status without its entries and the number of available pods.
func withoutAvailability(status v1alpha1.AppServiceStatus) v1alpha1.AppServiceStatus {
	status.Clusters, status.WorstClusters, status.AvailableReplicas = nil, nil, nil
	return status
}

// withoutProgress returns a status without what is observed on clusters.
func withoutProgress(status v1alpha1.AppServiceStatus) v1alpha1.AppServiceStatus {
	status.Conditions, status.Clusters, status.WorstClusters = nil, nil, nil
	status.Summary, status.Replicas, status.AvailableReplicas = v1alpha1.ClusterSummary{}, 0, nil
	return status
}

// sameReason reports whether two conditions differ at most in their message and their time.
func sameReason(a, b metav1.Condition) bool {
	return a.Type == b.Type && a.Status == b.Status && a.Reason == b.Reason && a.ObservedGeneration == b.ObservedGeneration
}

// isNearer reports whether an entry is as it was, or nearer to Ready, and has no new problem.
func isNearer(before, after v1alpha1.ClusterStatus) bool {
	nearer := []v1alpha1.ClusterPhase{v1alpha1.ClusterPending, v1alpha1.ClusterProgressing, v1alpha1.ClusterReady}
	from, to := slices.Index(nearer, before.Phase), slices.Index(nearer, after.Phase)
	isSame := before.Phase == after.Phase && before.Reason == after.Reason
	return isSame || from >= 0 && to >= from && (after.Phase == v1alpha1.ClusterReady || after.Reason == "" || after.Reason == v1alpha1.ReasonRollingOut)
}

// matchEntries reports whether the same clusters have entries, and each entry matches the one before.
// During a deletion, entries may go.
func matchEntries(before, after []v1alpha1.ClusterStatus, matches func(before, after v1alpha1.ClusterStatus) bool, mayGo bool) bool {
	i := 0 // both are sorted by name
	for _, entry := range after {
		for mayGo && i < len(before) && before[i].Name < entry.Name {
			i++
		}
		if i == len(before) || !matches(before[i], entry) {
			return false
		}
		i++
	}
	return mayGo || i == len(before)
}

// isAnotherPlan reports whether a plan asks something else of a cluster, or answers an edit.
func (p planned) isAnotherPlan() bool {
	have, next := p.have.app.Status, p.next
	return have.ObservedGeneration != next.ObservedGeneration ||
		!matchEntries(have.Clusters, next.Clusters, v1alpha1.ClusterStatus.SamePlan, p.have.app.IsDeleting())
}

// isReady reports whether a status says Ready.
func isReady(status v1alpha1.AppServiceStatus) bool {
	return meta.IsStatusConditionTrue(status.Conditions, v1alpha1.ConditionReady)
}
