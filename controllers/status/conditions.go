package status

import (
	"cmp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/rollout"
	"github.com/fleetwright/fleetwright/controllers/rollout/wording"
)

// nextConditions returns the conditions Placed and Ready. It also returns Suspended, Reconciling and
// Stalled, each only while it is True; at most one of Reconciling and Stalled is True. With
// spec.rollout, it returns RolledOut, and with spec.configuration, Configured. An AppService that is
// being deleted has none of Placed, RolledOut and Configured.
func nextConditions(in rollout.Input, decision rollout.Decision, entries []v1alpha1.ClusterStatus, sum v1alpha1.ClusterSummary) []metav1.Condition {
	staged := reportRollout(in, &decision.Outcome, entries)
	conditions := readiness{in, decision, newChoice(in), entries, sum, staged}.conditions()
	if staged != nil && in.App.Spec.Rollout != nil {
		conditions = append(conditions, staged.rolledOut())
	}
	if in.Configuration != nil && in.Configuration.Configured != nil {
		conditions = append(conditions, *in.Configuration.Configured)
	}
	return conditions
}

// readiness is what the condition Ready depends on.
type readiness struct {
	in       rollout.Input
	decision rollout.Decision
	choice   choice
	entries  []v1alpha1.ClusterStatus
	sum      v1alpha1.ClusterSummary
	// rollout is what the conditions say about the rollout, or nil.
	rollout *rolloutReport
}

// blockers are the problems that block changes, in order. Each returns the conditions while it exists,
// without Suspended, otherwise nil.
var blockers = []func(readiness) []metav1.Condition{
	readiness.hubBehind,
	readiness.badPlacement,
	readiness.suspended,
	readiness.outOfBounds,
	readiness.badStage,
}

// conditions returns all conditions but RolledOut and Configured. The first problem that blocks
// changes decides Ready; without one, the rollout and the worst of the entries do.
func (r readiness) conditions() []metav1.Condition {
	if r.in.App.IsDeleting() {
		return r.deleting()
	}
	for _, blocker := range blockers {
		if conditions := blocker(r); conditions != nil {
			return append(conditions, suspension(r.in.App)...)
		}
	}
	ready := r.clustersReady()
	if r.rollout != nil && !r.rollout.isOver && r.sum.Clusters > 0 {
		return slices.Concat([]metav1.Condition{r.choice.placed()}, r.rollout.limit(ready), suspension(r.in.App))
	}
	ready.Message += requestErrors(r.decision.RequestErrors)
	return slices.Concat([]metav1.Condition{r.choice.placed(), ready}, suspension(r.in.App), kstatus(ready, r.sum))
}

// deleting returns the conditions of an AppService that is being deleted.
func (r readiness) deleting() []metav1.Condition {
	message := cmp.Or(behindMessage(r.entries), removing(r.in.App, r.entries))
	return []metav1.Condition{
		condition(v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonDeleting, message),
		condition(v1alpha1.ConditionReconciling, metav1.ConditionTrue, v1alpha1.ReasonDeleting, message),
	}
}

func (r readiness) hubBehind() []metav1.Condition {
	message := behindMessage(r.entries)
	if message == "" {
		return nil
	}
	return stalled(r.choice.placed(), v1alpha1.ReasonHubBehind, message)
}

func (r readiness) badPlacement() []metav1.Condition {
	if r.in.PlanError == nil {
		return nil
	}
	return unplaced(v1alpha1.ReasonInvalidPlacement, r.in.PlanError.Error())
}

// suspended returns the conditions while changes are pending that spec.suspend stops, with the clusters
// that are not ready.
func (r readiness) suspended() []metav1.Condition {
	waits := r.choice.pendingChanges(r.entries)
	if waits == "" {
		return nil
	}
	message := "suspended: " + waits
	if r.sum.Ready < r.sum.Clusters {
		message += "; " + r.notReady()
	}
	return []metav1.Condition{r.choice.placed(), condition(v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonSuspended, message)}
}

func (r readiness) outOfBounds() []metav1.Condition {
	contradiction, short := r.choice.outOfBounds()
	if contradiction == "" {
		return nil
	}
	conditions := unplaced(v1alpha1.ReasonReplicasOutOfBounds, contradiction)
	if short && len(r.in.NotReadyCandidates(true)) > 0 { // a candidate may become Ready soon
		conditions[len(conditions)-1].Type = v1alpha1.ConditionReconciling
	}
	return conditions
}

func (r readiness) badStage() []metav1.Condition {
	if r.decision.StageError == nil {
		return nil
	}
	message := wording.Bound(r.decision.StageError.Error()) + "; every cluster keeps its revision, and new clusters wait"
	return stalled(r.choice.placed(), v1alpha1.ReasonInvalidPlacement, message)
}

// unplaced returns the conditions of an AppService whose spec cannot be fulfilled until a user
// changes something.
func unplaced(reason, message string) []metav1.Condition {
	return stalled(condition(v1alpha1.ConditionPlaced, metav1.ConditionFalse, reason, message), reason, message)
}

// stalled returns the conditions of an AppService that does not change until a user changes something.
func stalled(placed metav1.Condition, reason, message string) []metav1.Condition {
	return []metav1.Condition{
		placed,
		condition(v1alpha1.ConditionReady, metav1.ConditionFalse, reason, message),
		condition(v1alpha1.ConditionStalled, metav1.ConditionTrue, reason, message),
	}
}

// clustersReady returns the Ready condition that the worst of the entries decides.
func (r readiness) clustersReady() metav1.Condition {
	status, reason := metav1.ConditionFalse, v1alpha1.ReasonProgressing
	switch sum := r.sum; {
	case sum.Clusters == 0:
		reason = v1alpha1.ReasonNoClusters
	case sum.Ready == sum.Clusters:
		return condition(v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonReady, r.withNotes("running "+runningOn(r.entries)))
	case sum.Failed > 0:
		reason = v1alpha1.ReasonClustersFailed
	case sum.Unknown > 0 && sum.Progressing == 0:
		status, reason = metav1.ConditionUnknown, v1alpha1.ReasonClustersUnknown
	}
	message := r.withNotes(r.notReady())
	if state := &r.decision.Rollout; r.in.App.Spec.Rollout == nil && len(state.ChangedSources) > 0 && state.Revision != state.StableRevision {
		message = targetName(state) + ": " + message
	}
	return condition(v1alpha1.ConditionReady, status, reason, message)
}

// withNotes returns a message with the notes on pending scale-downs and removals. They may wait for a user
// although all clusters are Ready.
func (r readiness) withNotes(message string) string {
	return strings.Join(append([]string{message}, r.decision.Notes...), "; ")
}

// notReady returns the clusters that are not ready with their reasons. Without clusters, it returns why
// there are none.
func (r readiness) notReady() string {
	if r.sum.Clusters == 0 {
		return r.choice.whyNone()
	}
	return notReady(r.entries, r.sum.Clusters)
}

func condition(kind string, status metav1.ConditionStatus, reason, message string) metav1.Condition {
	return metav1.Condition{Type: kind, Status: status, Reason: reason, Message: strings.TrimSpace(message)}
}

// keepTimes sets the observed generation and the time of the last transition of each condition. A
// condition whose status has not changed keeps its time.
func keepTimes(app *v1alpha1.AppService, now metav1.Time, conditions []metav1.Condition) []metav1.Condition {
	for i := range conditions {
		next := &conditions[i]
		next.ObservedGeneration, next.LastTransitionTime = app.Generation, now
		previous := meta.FindStatusCondition(app.Status.Conditions, next.Type)
		if previous != nil && previous.Status == next.Status {
			next.LastTransitionTime = previous.LastTransitionTime
		}
	}
	return conditions
}
