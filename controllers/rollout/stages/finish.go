package stages

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
)

// retryRecheck is after how long a failed revision is tried again, if a user asked for it before its
// rollback had ended. No event may come.
const retryRecheck = time.Second

// Finish completes the decision with the final entries, and returns the times at which it may differ
// although no input changes. Call it once: it changes how the decision judges the clusters.
func (r *Rollout) Finish(entries []v1alpha1.ClusterStatus) (Outcome, []time.Time) {
	deadlines := r.finish(entries)
	if !RetriesRevision(r.in.App) && retries(r.in.App, &r.status.RolloutStatus) {
		deadlines = append(deadlines, r.now.Add(retryRecheck))
	}
	outcome := Outcome{
		Rollout:          r.status.RolloutStatus,
		Transitions:      transitions(r.in.App.Status.Rollout, r.status.RolloutStatus),
		RequestErrors:    r.requests.Errors,
		IsPauseRequested: r.requests.IsPaused,
		StageError:       r.stageError,
	}
	r.setWaiting(&outcome)
	return outcome, deadlines
}

// StageNames returns the name of the stage of each cluster that is in one.
func (r *Rollout) StageNames() map[string]string {
	names := make(map[string]string, len(r.clusters))
	for _, c := range r.clusters {
		if c.stage != nil {
			names[c.Entry.Name] = c.stage.Name
		}
	}
	return names
}

// finish sets what depends on the final entries: the status of the stages, and the stable revision
// of an AppService without stages. It returns the times at which the decision may differ although no
// input changes.
func (r *Rollout) finish(entries []v1alpha1.ClusterStatus) []time.Time {
	atOnce{r.scope, r.in}.adopt(entries)
	if r.stages == nil {
		return nil
	}
	deadlines := r.deadlines(entries)
	// The status does not depend on what this process has observed. So a restart does not change it.
	clock := r.judge.clock
	clock.observedSince, clock.seenSince, clock.assumesAnswers = metav1.Time{}, nil, true
	for _, c := range r.clusters {
		c.isConfirmed = true
	}
	r.status.Stages = nil
	for _, s := range r.stages {
		if r.isLeftOut(s) {
			continue
		}
		s.count()
		r.reportRefused(s)
		r.status.Stages = append(r.status.Stages, s.status)
	}
	return append(deadlines, r.deadlines(entries)...)
}

// isLeftOut reports whether the status does not have a stage: the last one, if it has not begun and all
// clusters are in others.
func (r *Rollout) isLeftOut(s *stage) bool {
	return s.Name == RestStage && len(r.stages) > 1 && len(s.clusters) == 0 && !s.isActive()
}

// deadlines returns the times at which a cluster becomes available or fails, or a soak ends.
func (r *Rollout) deadlines(entries []v1alpha1.ClusterStatus) []time.Time {
	clock := r.judge.clock
	var deadlines []time.Time
	status := v1alpha1.AppServiceStatus{Clusters: entries}
	for _, c := range r.clusters {
		if clock.isUnanswered(c) {
			deadlines = append(deadlines, clock.unansweredSince(c).Add(failedGrace))
		}
		if c.Entry.UnavailableSince == nil {
			continue
		}
		if clock.awaitsAnswer(c) {
			deadlines = append(deadlines, r.now.Add(answerRecheck))
		}
		since := status.Cluster(c.Entry.Name).LastTransitionTime
		switch {
		case c.Entry.Phase == v1alpha1.ClusterReady, c.Entry.ReadySince != nil:
			deadlines = append(deadlines, clock.readySince(c, since).Add(c.stage.minReady()))
			continue
		case c.Entry.Phase == v1alpha1.ClusterFailed:
			deadlines = append(deadlines, clock.failedSince(c.unavailableSince(), since).Add(failedGrace))
		}
		deadlines = append(deadlines, clock.deadlineStart(c).Add(clock.deadline), since.Add(failedGrace), c.unavailableSince().Add(failedGrace))
	}
	for _, s := range r.stages {
		if s.status.Phase == v1alpha1.StageSoaking {
			deadlines = append(deadlines, s.soakEnd())
		}
	}
	return deadlines
}
