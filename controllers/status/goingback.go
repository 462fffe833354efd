package status

import (
	"fmt"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/configuration"
	"github.com/fleetwright/fleetwright/controllers/rollout/wording"
)

// goingBack are the clusters that return to the stable revision: because the target failed, or because
// the spec has the template of the stable revision again.
type goingBack struct {
	failure failure
	counts  revisionCounts
	// pause says why the rollout is paused, or is "".
	pause string
	// app is the name of the AppService.
	app string
	// configuration is what was decided about spec.configuration, or nil.
	configuration *configuration.Decision
}

// isGoingBack reports whether the spec has the template of the stable revision again, and clusters
// return to it.
func isGoingBack(state *v1alpha1.RolloutStatus) bool {
	return state.Phase == v1alpha1.RolloutProgressing && state.Revision == state.StableRevision
}

// report reports clusters that return to the stable revision.
func (b goingBack) report() rolloutReport {
	switch {
	case b.pause != "":
		return rolloutReport{reason: v1alpha1.ReasonRolloutPaused, message: b.message() + "; " + b.pause}
	case b.failure.isStableMissing:
		return rolloutReport{reason: v1alpha1.ReasonRollingBack, message: b.message() + ", but " + b.stableMissing(), needsUser: true}
	case b.failure.state.IsHalted():
		return rolloutReport{reason: v1alpha1.ReasonRolloutHalted, message: b.message(), needsUser: true}
	}
	return rolloutReport{reason: v1alpha1.ReasonRollingBack, message: b.message()}
}

// message says how many clusters return to the stable revision, and why.
func (b goingBack) message() string {
	n := b.counts.returning
	switch returns := fmt.Sprintf("%d of %s %s", n, wording.CountClusters(b.counts.all), verb(n, "returns", "return")); {
	case !isGoingBack(b.failure.state):
		return fmt.Sprintf("%s; %s to revision %d", b.failure.ofTarget(), returns, b.stable())
	case n == 0:
		return b.returned()
	case b.failure.ofStable() != "":
		return fmt.Sprintf("%s; %s to it, but %s: fix that, or change the spec", b.returned(), returns, b.failure.ofStable())
	default:
		return fmt.Sprintf("%s; %s to it", b.returned(), returns)
	}
}

// begins reports a rollback that begins.
func (b goingBack) begins() string {
	n := b.counts.returning
	return fmt.Sprintf("%d of %s %s from revision %d to %d: those that are not Ready at once, the others as maxUnavailable of their stage allows",
		n, wording.CountClusters(b.counts.all), verb(n, "returns", "return"), b.failure.state.Revision, b.stable())
}

// returned says that the spec has the template of the stable revision again.
func (b goingBack) returned() string {
	if b.configuration != nil {
		return fmt.Sprintf("the spec has the template and the configuration of revision %d again", b.stable())
	}
	return fmt.Sprintf("the spec has the template of revision %d again", b.stable())
}

// stableMissing says why the clusters cannot return to the stable revision.
func (b goingBack) stableMissing() string {
	if b.configuration != nil && len(b.configuration.Lost) > 0 {
		return fmt.Sprintf("a snapshot of revision %d was deleted: the condition Configured says what to do, or change the spec", b.stable())
	}
	return fmt.Sprintf("ControllerRevision %s-%d is missing or was changed: change the spec", b.app, b.stable())
}

func (b goingBack) stable() int64 { return b.failure.state.StableRevision }
