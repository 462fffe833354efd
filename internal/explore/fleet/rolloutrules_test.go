package fleet

import (
	"fmt"
	"slices"
	"time"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/rollout/entryplan"
	"github.com/fleetwright/fleetwright/controllers/rollout/stages"
)

// getsTarget returns the entries that get the target, while it is rolled out.
func (st *step) getsTarget() []v1alpha1.ClusterStatus {
	before := st.before.app.Status.Rollout
	if st.in.App.Spec.Rollout == nil || st.target() == before.StableRevision || st.target() == st.status.Rollout.StableRevision {
		return nil
	}
	return slices.DeleteFunc(st.gets(), func(entry v1alpha1.ClusterStatus) bool { return entry.Revision != st.target() })
}

// stageOf returns the index of the stage of a cluster. A stage with a limit has the clusters that got the
// target there.
func (st *step) stageOf(cluster string) int {
	for i, stage := range st.in.App.Spec.Rollout.Stages {
		entry := st.status.Cluster(cluster)
		switch {
		case stage.Limit != nil && entry != nil && entry.Stage == stage.Name:
			return i
		case stage.Limit == nil && stage.ClusterSelector.MatchLabels["stage"] == st.label(cluster):
			return i
		}
	}
	return len(st.in.App.Spec.Rollout.Stages)
}

// stageName returns the name of a stage. That of the last one is not in the spec.
func (st *step) stageName(i int) string {
	if i < len(st.in.App.Spec.Rollout.Stages) {
		return st.in.App.Spec.Rollout.Stages[i].Name
	}
	return stages.RestStage
}

// pace returns what applies to a stage.
func (st *step) pace(i int) v1alpha1.RolloutStage {
	spec := st.in.App.Spec.Rollout
	stage := v1alpha1.RolloutStage{RolloutPace: spec.RolloutPace}
	if i < len(spec.Stages) {
		stage = spec.Stages[i]
		if stage.MinReadySeconds == nil {
			stage.MinReadySeconds = spec.MinReadySeconds
		}
		if stage.MaxUnavailable == nil {
			stage.MaxUnavailable = spec.MaxUnavailable
		}
	}
	return stage
}

func statusOf(rollout v1alpha1.RolloutStatus, stage string) v1alpha1.RolloutStageStatus {
	for _, s := range rollout.Stages {
		if s.Name == stage {
			return s
		}
	}
	return v1alpha1.RolloutStageStatus{}
}

func seconds(n *int32) time.Duration {
	if n == nil {
		return 0
	}
	return time.Duration(*n) * time.Second
}

func (st *step) getsKnownRevision() string {
	before, after := st.before.app.Status.Rollout, st.status.Rollout
	for _, entry := range st.gets() {
		switch {
		case entry.Revision == 0:
			return entry.Name + " lost its revision"
		case !st.in.Plan.Find(entry.Name).Chosen():
			return fmt.Sprintf("%s is not in the plan, and got revision %d", entry.Name, entry.Revision)
		case entry.Revision != st.target() && entry.Revision != before.StableRevision && entry.Revision != after.StableRevision:
			return fmt.Sprintf("%s got revision %d, which is neither the target nor stable", entry.Name, entry.Revision)
		}
	}
	return ""
}

func (st *step) getsStoredRevision() string {
	for _, entry := range st.gets() {
		if !slices.ContainsFunc(st.after.history, func(stored storedRevision) bool { return stored.number == entry.Revision }) {
			return fmt.Sprintf("%s got revision %d, which is not stored", entry.Name, entry.Revision)
		}
	}
	return ""
}

// beginsWithStable checks that a cluster without a revision does not get one that is not stable. In the first
// rollout it does, and in a stage that needs approval.
func (st *step) beginsWithStable() string {
	for _, entry := range st.getsTarget() {
		was := st.was(entry.Name)
		isNew := was == nil || was.Revision == 0
		if isNew && st.status.Rollout.StableRevision != 0 && st.pace(st.stageOf(entry.Name)).Approval == "" {
			return fmt.Sprintf("%s had no revision, and got revision %d", entry.Name, entry.Revision)
		}
	}
	return ""
}

func (st *step) keepsFailedAway() string {
	for _, entry := range st.gets() {
		if slices.Contains(st.before.memory.failed, entry.Revision) || entry.Revision == st.status.Rollout.FailedRevision {
			return fmt.Sprintf("%s got revision %d, which failed", entry.Name, entry.Revision)
		}
	}
	return ""
}

// retriesLate checks that a revision that has just failed is stored again, for a retry, only if the
// rollback has ended, or the rollout if it does not go back.
func (st *step) retriesLate() string {
	before := st.before.app.Status.Rollout
	isEnded := before.Phase == v1alpha1.RolloutHalted || before.Phase == v1alpha1.RolloutRolledBack
	if isEnded || before.Revision != before.FailedRevision || len(st.before.history) == 0 || st.after.history[0].number == st.before.history[0].number {
		return ""
	}
	for _, stored := range st.before.history {
		if stored.number == before.FailedRevision && stored.template == st.after.history[0].template {
			return fmt.Sprintf("revision %d has the template of revision %d, which failed, and the rollout is %s", st.after.history[0].number, before.FailedRevision, before.Phase)
		}
	}
	return ""
}

func (st *step) pauses() string {
	if !st.in.App.Spec.Suspend && !isPaused(st.in.App, st.in.Revision) {
		return ""
	}
	for _, entry := range st.gets() {
		if was := st.was(entry.Name); was != nil && was.Revision != 0 {
			return fmt.Sprintf("%s got revision %d", entry.Name, entry.Revision)
		}
	}
	return ""
}

// isPaused reports whether the spec or an annotation pauses the rollout of a revision.
func isPaused(app *v1alpha1.AppService, revision int64) bool {
	return app.Spec.Rollout != nil && (app.Spec.Rollout.Paused || app.Annotations[v1alpha1.AnnotationPause] == fmt.Sprint(revision))
}

func (st *step) looksFirst() string {
	for _, entry := range st.getsTarget() {
		was := st.was(entry.Name)
		isServing := was != nil && was.Phase == v1alpha1.ClusterReady && was.Revision == st.before.app.Status.Rollout.StableRevision
		if entry.Phase == v1alpha1.ClusterUnknown || isServing && st.in.ObservationOf(entry.Name) == nil {
			return fmt.Sprintf("%s got revision %d", entry.Name, entry.Revision)
		}
	}
	return ""
}

func (st *step) provesInOrder() string {
	for _, entry := range st.getsTarget() {
		for i := range st.stageOf(entry.Name) {
			name := st.stageName(i)
			hasBegun := st.isIn(st.before.memory.given, i, st.target())
			isPassed := st.isProven(i) || st.isLetPass(v1alpha1.AnnotationPromote, name)
			if phase := statusOf(st.status.Rollout, name).Phase; !isPassed && (hasBegun || phase != v1alpha1.StageSkipped) {
				return fmt.Sprintf("%s got revision %d, and stage %s is %s and was never Ready with it", entry.Name, entry.Revision, name, phase)
			}
		}
	}
	return ""
}

// isProven reports whether the target was ready in a stage, or is.
func (st *step) isProven(i int) bool {
	isReady := func(entry v1alpha1.ClusterStatus) bool {
		m := st.before.members[indexOf(entry.Name)]
		return m.runs == st.target() && m.isUpdated && m.ready == m.replicas && m.ready > 0
	}
	return st.isIn(st.before.memory.ready, i, st.target()) || slices.ContainsFunc(st.clustersOf(i), isReady)
}

// isIn reports whether a set has a revision for the clusters of a stage. Those of a stage with a limit may have
// any label.
func (st *step) isIn(set []revisionAt, i int, revision int64) bool {
	stage := st.in.App.Spec.Rollout.Stages[i]
	return slices.ContainsFunc(set, func(is revisionAt) bool {
		return is.revision == revision && (stage.Limit != nil || is.at == stage.ClusterSelector.MatchLabels["stage"])
	})
}

// isLetPass reports whether a user has approved or promoted a stage for the target.
func (st *step) isLetPass(annotation, stage string) bool {
	return slices.Contains(st.before.memory.approved, revisionAt{st.target(), annotation + "/" + stage})
}

// undoes checks that a rollout without approval and soak is an undo.
func (st *step) undoes() string {
	after := st.status.Rollout
	previous := slices.IndexFunc(st.before.history, func(stored storedRevision) bool { return stored.number == after.PreviousRevision })
	if after.Undo && previous >= 0 && st.before.history[previous].template != st.templateOf(st.in.App) {
		return fmt.Sprintf("revision %d has another template than revision %d", after.Revision, after.PreviousRevision)
	}
	return ""
}

func (st *step) asks() string {
	for _, entry := range st.getsTarget() {
		i := st.stageOf(entry.Name)
		name := st.stageName(i)
		isAllowed := st.isLetPass(v1alpha1.AnnotationApprove, name) || st.isLetPass(v1alpha1.AnnotationPromote, name)
		if st.pace(i).Approval == v1alpha1.ApprovalRequired && !isAllowed && !st.status.Rollout.Undo {
			return fmt.Sprintf("%s got revision %d, and nobody approved stage %s", entry.Name, entry.Revision, name)
		}
	}
	return ""
}

// clustersOf returns the entries of the clusters of a stage.
func (st *step) clustersOf(i int) []v1alpha1.ClusterStatus {
	return slices.DeleteFunc(slices.Clone(st.status.Clusters), func(entry v1alpha1.ClusterStatus) bool {
		return !st.in.Plan.Find(entry.Name).Chosen() || st.stageOf(entry.Name) != i
	})
}

// countUpdating returns how many clusters of a stage are updating.
func (st *step) countUpdating(i int) int {
	n := 0
	for _, entry := range st.clustersOf(i) {
		if st.isUpdating(entry) {
			n++
		}
	}
	return n
}

func (st *step) keepsBudget() string {
	for _, entry := range st.getsTarget() {
		i := st.stageOf(entry.Name)
		budget := st.budget(i)
		if updating := st.countUpdating(i); updating > budget {
			return fmt.Sprintf("%s got revision %d, and %d clusters of stage %s are updating", entry.Name, entry.Revision, updating, st.stageName(i))
		}
	}
	return ""
}

// isUpdating reports whether a cluster has the target, its pods are not ready with it, and that is no
// failure yet.
func (st *step) isUpdating(entry v1alpha1.ClusterStatus) bool {
	m := st.after.members[indexOf(entry.Name)]
	isReady := m.exists && m.runs == entry.Revision && m.isUpdated && m.ready == m.replicas
	if entry.Revision != st.target() || isReady || entry.Replicas == 0 || entry.UnavailableSince == nil || !entryplan.IsPlanned(entry) || entry.Impaired {
		return false
	}
	isLate := st.in.Now.Sub(entry.UnavailableSince.Time) >= seconds(st.in.App.Spec.Rollout.ProgressDeadlineSeconds)
	hasFailed := entry.Phase == v1alpha1.ClusterFailed && st.in.Now.Sub(entry.LastTransitionTime.Time) >= 3*time.Minute
	return !isLate && !hasFailed
}

// budget returns how many clusters of a stage may be updating.
func (st *step) budget(i int) int {
	if limit := st.pace(i).MaxUnavailable; limit != nil {
		return limit.IntValue()
	}
	return 1 // 25 % of so few clusters
}

func (st *step) goesBackSlowly() string {
	if st.in.App.Spec.Rollout == nil || st.status.Rollout.FailedRevision != st.target() {
		return ""
	}
	back := map[int][]string{} // by stage
	for _, entry := range st.gets() {
		was, m := st.was(entry.Name), st.after.members[indexOf(entry.Name)]
		isReady := was != nil && was.Phase == v1alpha1.ClusterReady && m.isReachable() && m.runs == was.Revision && m.ready == m.replicas && m.ready > 0
		if isReady && entry.Revision == st.before.app.Status.Rollout.StableRevision {
			i := st.stageOf(entry.Name)
			back[i] = append(back[i], entry.Name)
		}
	}
	for i, names := range back {
		if len(names) > st.budget(i) {
			return fmt.Sprintf("%v, which are Ready, go back at once in stage %s", names, st.stageName(i))
		}
	}
	return ""
}

// provesOneByOne checks that a stage has one cluster that is updating, or was lost with the target, for
// each one that is Ready with it, and one more. A promoted stage is not proven.
func (st *step) provesOneByOne() string {
	for _, entry := range st.getsTarget() {
		i := st.stageOf(entry.Name)
		if statusOf(st.status.Rollout, st.stageName(i)).Promoted {
			continue
		}
		proven := 0
		for _, other := range st.clustersOf(i) {
			m := st.after.members[indexOf(other.Name)]
			if other.Revision == st.target() && other.Phase == v1alpha1.ClusterReady && m.runs == st.target() {
				proven++
			}
		}
		if updating := st.countUpdating(i); updating > proven+1 {
			return fmt.Sprintf("%s got revision %d, %d clusters of stage %s are updating, and %d are Ready with it", entry.Name, entry.Revision, updating, st.stageName(i), proven)
		}
	}
	return ""
}

func (st *step) waitsForUpdating() string {
	before := st.before.app.Status.Rollout
	if st.in.App.Spec.Rollout == nil || before.Revision != st.target() || st.target() == before.StableRevision {
		return ""
	}
	for i := range len(st.in.App.Spec.Rollout.Stages) + 1 {
		was, is := statusOf(before, st.stageName(i)), statusOf(st.status.Rollout, st.stageName(i))
		hasEnded := is.Phase == v1alpha1.StageSoaking || is.Phase == v1alpha1.StageCompleted
		clusters := st.clustersOf(i)
		isOverfull := st.pace(i).Limit != nil && len(clusters) > st.pace(i).Limit.IntValue() // some of these belong to the next stage
		if was.Phase != v1alpha1.StageProgressing || !hasEnded || isOverfull {
			continue
		}
		for _, entry := range clusters {
			hasJoined := st.was(entry.Name) == nil // in this decision, which may make the target stable
			if !hasJoined && st.isUpdating(entry) && entry.AvailableReplicas == 0 && entry.Phase != v1alpha1.ClusterUnknown {
				return fmt.Sprintf("stage %s is %s, and %s is updating", st.stageName(i), is.Phase, entry.Name)
			}
		}
	}
	return ""
}

func (st *step) waitsUntilAvailable() string {
	if st.in.App.Spec.Rollout == nil {
		return ""
	}
	for _, entry := range st.status.Clusters {
		was := st.was(entry.Name)
		if was == nil || was.UnavailableSince == nil || entry.UnavailableSince != nil || was.Revision != entry.Revision || !st.in.Plan.Find(entry.Name).Chosen() {
			continue
		}
		if was.AvailableReplicas > 0 { // it was available before, and has got back the pods that it had lost
			continue
		}
		i := indexOf(entry.Name)
		since := max(st.before.process.since, st.before.process.seenSince[i])
		isGrowing := entry.Phase == v1alpha1.ClusterProgressing && min(was.ReadyReplicas, entry.ReadyReplicas) > 0 // an edit adds pods
		if wait := seconds(st.pace(st.stageOf(entry.Name)).MinReadySeconds); entry.Phase != v1alpha1.ClusterReady && !isGrowing || st.in.Now.Sub(since.time().Time) < wait {
			return fmt.Sprintf("%s is %s, was observed for %v, and counts as available", entry.Name, entry.Phase, st.in.Now.Sub(since.time().Time))
		}
	}
	return ""
}

func (st *step) soaks() string {
	before := st.before.app.Status.Rollout
	wasStable, isStable := before.StableRevision == st.target(), st.status.Rollout.StableRevision == st.target()
	if st.in.App.Spec.Rollout == nil || before.Undo || st.status.Rollout.Undo || wasStable && isStable {
		return ""
	}
	for i, stage := range st.in.App.Spec.Rollout.Stages {
		was, is := statusOf(before, stage.Name), statusOf(st.status.Rollout, stage.Name)
		isCompleted := is.Phase == v1alpha1.StageCompleted && (was.Phase != v1alpha1.StageCompleted || before.Revision != st.target())
		if !isCompleted || seconds(stage.SoakSeconds) == 0 || is.Promoted {
			continue
		}
		if was.Phase != v1alpha1.StageSoaking || before.Revision != st.target() || st.in.Now.Sub(was.Since.Time) < seconds(stage.SoakSeconds) {
			return fmt.Sprintf("stage %s was %s for %v", st.stageName(i), was.Phase, st.in.Now.Sub(was.Since.Time))
		}
		if edited := st.before.memory.stagesEdited; st.before.now-edited < instant(*stage.SoakSeconds) {
			return fmt.Sprintf("stage %s is completed, and the stages were edited %d s ago", st.stageName(i), st.before.now-edited)
		}
	}
	return ""
}

func (st *step) staysCompleted() string {
	before := st.before.app.Status.Rollout
	after := st.status.Rollout
	isSame := before.Revision == after.Revision && before.Strategy == after.Strategy && before.PausedStrategy == after.PausedStrategy
	if !isSame {
		return ""
	}
	for _, was := range before.Stages {
		if is := statusOf(after, was.Name); was.Phase == v1alpha1.StageCompleted && is.Phase != v1alpha1.StageCompleted {
			return fmt.Sprintf("stage %s was Completed and is %s", was.Name, is.Phase)
		}
	}
	return ""
}

func (st *step) provesStable() string {
	stable := st.status.Rollout.StableRevision
	if stable == st.before.app.Status.Rollout.StableRevision || stable == 0 {
		return ""
	}
	if !slices.ContainsFunc(st.before.memory.ready, func(is revisionAt) bool { return is.revision == stable }) {
		return fmt.Sprintf("revision %d is stable, and was Ready nowhere", stable)
	}
	return ""
}

func (st *step) adoptsNoFailed() string {
	stable := st.status.Rollout.StableRevision
	if stable != st.before.app.Status.Rollout.StableRevision && slices.Contains(st.before.memory.failed, stable) {
		return fmt.Sprintf("revision %d is stable, and has failed", stable)
	}
	return ""
}

// adoptsComplete checks that a revision that no rollout has proven becomes stable, instead of another one, if
// it is Ready on each cluster that could be observed before.
func (st *step) adoptsComplete() string {
	before, stable := st.before.app.Status.Rollout, st.status.Rollout.StableRevision
	if before.Phase != "" || before.StableRevision == 0 || stable == before.StableRevision || st.in.App.Spec.Rollout == nil {
		return ""
	}
	for _, was := range st.before.app.Status.Clusters {
		isReady := was.Phase == v1alpha1.ClusterReady
		isEvidence := entryplan.IsPlanned(was) && was.Phase != v1alpha1.ClusterUnknown && (!isReady || was.ReadyReplicas > 0)
		if isEvidence && (!isReady || was.Revision != stable) {
			return fmt.Sprintf("revision %d is stable, and %s was %s with revision %d", stable, was.Name, was.Phase, was.Revision)
		}
	}
	return ""
}

func (st *step) provesCompleted() string {
	before, after := st.before.app.Status.Rollout, st.status.Rollout
	isCompleted := after.Phase == v1alpha1.RolloutCompleted && (before.Phase != v1alpha1.RolloutCompleted || before.Revision != after.Revision)
	if st.in.App.Spec.Rollout == nil || !isCompleted || before.Phase == "" || after.Revision == before.StableRevision {
		return ""
	}
	for i := range st.in.App.Spec.Rollout.Stages {
		name := st.stageName(i)
		is := statusOf(after, name)
		if is.Phase == v1alpha1.StageCompleted && !is.Promoted && !st.isProven(i) {
			return fmt.Sprintf("revision %d was never Ready in stage %s", after.Revision, name)
		}
	}
	return ""
}
