package status

import (
	"fmt"
	"strings"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/rollout/stages"
	"github.com/fleetwright/fleetwright/controllers/rollout/wording"
)

// failure is where and why a revision failed, and what a user can do.
type failure struct {
	state *v1alpha1.RolloutStatus
	// spec is spec.rollout, or nil.
	spec *v1alpha1.Rollout
	// isStableMissing is set if the clusters cannot return to the stable revision.
	isStableMissing bool
}

// ofTarget says where and why the target failed.
func (f failure) ofTarget() string {
	target := targetName(f.state)
	switch {
	case f.state.FailedStage == "":
		return target + " was aborted"
	case f.state.FailedReason == v1alpha1.ReasonTakenBack:
		return fmt.Sprintf("%s was taken back on %s, by a failure or an abort that this hub has lost, as by a restore", target, strings.Join(f.state.FailedClusters, ", "))
	}
	where := " in stage " + f.state.FailedStage
	if f.state.FailedStage == stages.RestStage && !hasNamedStages(f.spec) {
		where = ""
	}
	return fmt.Sprintf("%s failed%s (%s: %s)", target, where, strings.Join(f.state.FailedClusters, ", "), reasonOfFailure(f.state.FailedReason))
}

// ofStable says that the stable revision fails on clusters that returned to it, or "".
func (f failure) ofStable() string {
	if len(f.state.ReturnFailedClusters) == 0 {
		return ""
	}
	return fmt.Sprintf("revision %d fails too where it returned (%s: %s), so no other Ready cluster returns to it",
		f.state.StableRevision, strings.Join(f.state.ReturnFailedClusters, ", "), reasonOfFailure(f.state.ReturnFailedReason))
}

func (f failure) rolledBack() string {
	return fmt.Sprintf("%s and was rolled back to %d: change %s, or %s", f.ofTarget(), f.state.StableRevision, f.culprit(), f.retry())
}

// halted reports a revision that failed, and that is not rolled back. Without a stable revision, or
// without spec.rollout, it cannot be aborted.
func (f failure) halted() string {
	if ofStable := f.ofStable(); ofStable != "" {
		return fmt.Sprintf("%s, and %s: fix that, and the rollback continues; or change %s, or %s", f.ofTarget(), ofStable, f.culprit(), f.retry())
	}
	message := f.ofTarget() + ", and each cluster keeps what it runs: change " + f.culprit() + ", or "
	if stable := f.state.StableRevision; stable != 0 && !f.isStableMissing && f.spec != nil {
		return fmt.Sprintf("%s%s to return to revision %d, or with %s=%d", message, annotate(v1alpha1.AnnotationAbort, f.state.Revision, ""), stable,
			v1alpha1.AnnotationRetry, f.state.Revision)
	}
	return message + f.retry()
}

// culprit returns what to change after the target has failed.
func (f failure) culprit() string {
	if len(f.state.ChangedSources) > 0 {
		return "the content of " + wording.CapNames(f.state.ChangedSources)
	}
	return "the spec"
}

func (f failure) retry() string { return annotate(v1alpha1.AnnotationRetry, f.state.Revision, "") }

// reasonOfFailure returns why a revision failed. A cluster that failed at the deadline may have no other
// reason.
func reasonOfFailure(reason string) string {
	switch reason {
	case "", v1alpha1.ReasonRollingOut, v1alpha1.ReasonPending:
		return "not available in time"
	default:
		return reason
	}
}
