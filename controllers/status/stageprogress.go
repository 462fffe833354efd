package status

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/rollout/stages"
	"github.com/fleetwright/fleetwright/controllers/rollout/wording"
)

// stageProgress is how far the target is in a stage.
type stageProgress struct {
	outcome *stages.Outcome
	// spec is spec.rollout, or nil.
	spec   *v1alpha1.Rollout
	counts revisionCounts
	// pause says why the rollout is paused, or is "".
	pause string
	// stage is the next status of the stage, or nil if no stage is active.
	stage *v1alpha1.RolloutStageStatus
}

// report reports a rollout that is in progress. At most one stage is active.
func (p stageProgress) report() rolloutReport {
	switch {
	case p.pause != "":
		return rolloutReport{reason: v1alpha1.ReasonRolloutPaused, message: p.progress() + "; " + p.pause}
	case p.stage == nil || p.stage.Name == p.outcome.WaitingStage:
		return rolloutReport{reason: v1alpha1.ReasonWaitingForClusters, message: p.waiting()}
	case p.stage.Phase == v1alpha1.StageAwaitingApproval:
		return rolloutReport{reason: v1alpha1.ReasonAwaitingApproval, message: p.approval()}
	case p.stage.Phase == v1alpha1.StageSoaking:
		return rolloutReport{reason: v1alpha1.ReasonSoaking, message: p.soaking()}
	}
	return rolloutReport{reason: v1alpha1.ReasonRollingOut, message: p.progress()}
}

// name returns the target and the stage: "revision 8, stage eu". If there is only one stage, that has no
// name.
func (p stageProgress) name() string {
	if p.stage == nil || !hasNamedStages(p.spec) {
		return p.target()
	}
	return p.target() + ", stage " + p.stage.Name
}

func (p stageProgress) target() string { return targetName(&p.outcome.Rollout) }

// begins reports a stage whose turn has come.
func (p stageProgress) begins() string {
	return fmt.Sprintf("%s: the rollout begins on %s", p.name(), wording.CountClusters(p.stage.Clusters))
}

// progress reports how far a stage is.
func (p stageProgress) progress() string {
	if p.stage == nil || p.stage.Phase == v1alpha1.StageAwaitingApproval {
		return fmt.Sprintf("%s has not begun%s", p.name(), p.held())
	}
	return fmt.Sprintf("%s: %d of %s %s updated, %d %s available%s%s", p.name(),
		p.stage.UpToDate, wording.CountClusters(p.stage.Clusters), p.verb(p.stage.UpToDate), p.stage.Available, verb(p.stage.Available, "is", "are"), p.failed(), p.held())
}

func (p stageProgress) soaking() string {
	return fmt.Sprintf("%s, soaking for %d s%s; %s to end the stage now", p.result(), p.soakSeconds(), p.held(), p.promote())
}

func (p stageProgress) approval() string {
	return fmt.Sprintf("%s waits for approval of stage %s (%s): %s", p.target(), p.stage.Name, wording.CountClusters(p.stage.Clusters),
		annotate(v1alpha1.AnnotationApprove, p.outcome.Rollout.Revision, p.stage.Name))
}

// waiting reports a stage that has no result, or, without one, that the target is available nowhere.
func (p stageProgress) waiting() string {
	switch {
	case p.counts.all == 0:
		return fmt.Sprintf("%s waits for a cluster: the condition Placed says why there is none", p.target())
	case p.stage == nil && len(p.outcome.IdleClusters) > 0:
		return fmt.Sprintf("%s went through all stages, but %s, or change the spec", p.target(), p.idle())
	case p.stage == nil:
		return fmt.Sprintf("%s went through all stages, but is available on no cluster: fix the clusters that are not Ready, or change the spec", p.target())
	}
	if stopped := p.outcome.StoppedOn; len(stopped) > 0 {
		return fmt.Sprintf("%s, and no other cluster gets it, because it failed on %s: fix that, or change the spec", p.result(), wording.ListClusters(stopped))
	}
	return fmt.Sprintf("%s, and %s, or %s", p.result(), p.blocker(), p.promote())
}

// blocker says why a stage has no result, and what to fix.
func (p stageProgress) blocker() string {
	switch lost := p.outcome.LostClusters; {
	case p.stage.Clusters == 0:
		return "its clusters have left the stage before it was completed: bring them back"
	case len(lost) > 0:
		return fmt.Sprintf("%s became unreachable after %s got it: fix %s", wording.ListClusters(lost), verb(int32(len(lost)), "it", "they"), verb(int32(len(lost)), "it", "them"))
	case len(p.outcome.IdleClusters) > 0 && p.stage.Available == 0:
		return p.idle()
	}
	return "too few others can be updated: fix the clusters that are not Ready"
}

// idle says that no pods run with the target, and what to do.
func (p stageProgress) idle() string {
	return fmt.Sprintf("no pods run with it on %s: scale the AppService up", wording.ListClusters(p.outcome.IdleClusters))
}

// result reports on how many clusters of a stage the target is available, and on how many it failed.
func (p stageProgress) result() string {
	return fmt.Sprintf("%s: %d of %s %s available%s", p.name(), p.stage.Available, wording.CountClusters(p.stage.Clusters), p.verb(p.stage.Available), p.failed())
}

func (p stageProgress) failed() string {
	if p.stage.Failed == 0 {
		return ""
	}
	return fmt.Sprintf(", %d failed", p.stage.Failed)
}

// verb returns the form of "to be" for a number of the clusters of a stage: "0 of 1 cluster is".
func (p stageProgress) verb(n int32) string {
	if p.stage.Clusters == 1 {
		return "is"
	}
	return verb(n, "is", "are")
}

// held returns what the clusters run that do not have the target.
func (p stageProgress) held() string {
	var parts []string
	for _, group := range []struct {
		count int32
		what  string
	}{
		{p.counts.stable, "revision " + strconv.FormatInt(p.outcome.Rollout.StableRevision, 10)},
		{p.counts.other, "another revision"},
		{p.counts.none, "no revision yet"},
	} {
		switch runs := verb(group.count, "runs", "run"); {
		case group.count == 0:
		case len(parts) == 0:
			parts = append(parts, fmt.Sprintf("; %s %s %s", wording.CountClusters(group.count), runs, group.what))
		default:
			parts = append(parts, fmt.Sprintf("%d %s %s", group.count, runs, group.what))
		}
	}
	return strings.Join(parts, ", ")
}

// soakSeconds returns how long a stage soaks.
func (p stageProgress) soakSeconds() int32 {
	for _, s := range p.spec.Stages {
		if s.Name == p.stage.Name && s.SoakSeconds != nil {
			return *s.SoakSeconds
		}
	}
	return 0
}

// promote returns how to end a stage. The name of the last stage would need quotes in a shell; all
// stages before it are over, so that the revision alone has the same effect.
func (p stageProgress) promote() string {
	name := p.stage.Name
	if name == stages.RestStage {
		name = ""
	}
	return annotate(v1alpha1.AnnotationPromote, p.outcome.Rollout.Revision, name)
}
