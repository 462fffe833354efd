package rollout_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
)

// approvals is what users approved or promoted, and which stages have begun so. The keys are
// REVISION/STAGE.
type approvals struct {
	*stagedLoop
	counts   map[string]map[string]bool // by annotation: values that are set, and whether they count
	hasBegun map[string]bool
}

// In a stage that needs approval, no cluster gets a revision unless a user has approved or promoted
// this stage for this revision, when the status showed both, and has not withdrawn that before the
// stage began: in any order of approvals, edits of the template, of the stages and of the
// placement.
func TestStages_begin_only_with_an_approval_of_what_the_status_shows(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		strategy := v1alpha1.Rollout{RolloutPace: paceOf(3, 0, 0), Stages: anyApprovals(t)}
		a := &approvals{stagedLoop: newProvenFleet(t, strategy, "a", "b", "b", "c"), counts: map[string]map[string]bool{}, hasBegun: map[string]bool{}}
		a.decideAndCheck(t)
		for range rapid.IntRange(20, 60).Draw(t, "actions") {
			a.actAny(t)
			a.deliverAll()
			a.decideAndCheck(t)
			a.advance(30 * time.Second)
		}
	})
}

// anyApprovals returns the stages a and b, or one of them, or none. Any of them may need approval.
func anyApprovals(t *rapid.T) []v1alpha1.RolloutStage {
	var stages []v1alpha1.RolloutStage
	for _, name := range []string{"a", "b"} {
		s := stageOf(name)
		if rapid.IntRange(0, 2).Draw(t, name+" needs approval") > 0 {
			s.Approval = v1alpha1.ApprovalRequired
		}
		if rapid.IntRange(0, 3).Draw(t, name+" exists") > 0 {
			stages = append(stages, s)
		}
	}
	return stages
}

// actAny performs one random action of a user.
func (a *approvals) actAny(t *rapid.T) {
	actions := []string{"time", "time", "approve", "approve", "approve", "promote", "withdraw", "edit", "stages", "placement"}
	switch rapid.SampledFrom(actions).Draw(t, "action") {
	case "approve":
		a.set(v1alpha1.AnnotationApprove, a.anyStage(t))
	case "promote":
		a.set(v1alpha1.AnnotationPromote, a.anyStage(t))
	case "withdraw":
		a.set(v1alpha1.AnnotationApprove, "")
		a.set(v1alpha1.AnnotationPromote, "")
	case "edit":
		a.editImage(rapid.SampledFrom([]string{"ok-0", "ok-1", "ok-2", "ok-3"}).Draw(t, "image"))
	case "stages":
		stages := anyApprovals(t)
		a.edit(func(spec *v1alpha1.AppServiceSpec) {
			spec.Rollout = spec.Rollout.DeepCopy()
			spec.Rollout.Stages = stages
		})
	case "placement":
		placements := []*v1alpha1.Placement{nil, {ClusterMatch: v1alpha1.ClusterMatch{ClusterNames: []string{"c01", "c04"}}}}
		next := rapid.SampledFrom(placements).Draw(t, "placement")
		a.edit(func(spec *v1alpha1.AppServiceSpec) { spec.Placement = next })
	}
}

// anyStage returns a stage of this revision, or of one before or after it.
func (a *approvals) anyStage(t *rapid.T) string {
	revision := a.app.Status.Rollout.Revision + rapid.SampledFrom([]int64{0, 0, 0, 1, -1}).Draw(t, "of")
	return fmt.Sprintf("%d/%s", revision, rapid.SampledFrom([]string{"a", "b"}).Draw(t, "stage"))
}

// set adds a value to an annotation, or removes all. A value that is set counts if the status shows
// its revision and its stage.
func (a *approvals) set(annotation, value string) {
	if value == "" {
		a.counts[annotation] = nil
		a.annotate(annotation, "")
		return
	}
	if a.counts[annotation] == nil {
		a.counts[annotation] = map[string]bool{}
	}
	if _, isSet := a.counts[annotation][value]; isSet {
		return
	}
	state := a.app.Status.Rollout
	number, stage, _ := strings.Cut(value, "/")
	a.counts[annotation][value] = number == fmt.Sprint(state.Revision) &&
		slices.ContainsFunc(state.Stages, func(s v1alpha1.RolloutStageStatus) bool { return s.Name == stage })
	a.annotate(annotation, strings.TrimPrefix(a.app.Annotations[annotation]+","+value, ","))
}

// decideAndCheck makes a decision, and checks the clusters that get the target.
func (a *approvals) decideAndCheck(t *rapid.T) {
	in, before := a.input(), a.app.Status
	a.planFor(in)
	after := a.app.Status
	isReturn := in.Revision == before.Rollout.StableRevision && before.Rollout.Phase != v1alpha1.RolloutCompleted
	isUndo := before.Rollout.Undo || after.Rollout.Undo
	for _, s := range ruleStages(in) {
		key := fmt.Sprintf("%d/%s", in.Revision, s.spec.Name)
		if a.counts[v1alpha1.AnnotationApprove][key] || a.counts[v1alpha1.AnnotationPromote][key] {
			a.hasBegun[key] = a.hasBegun[key] || isActivePhase(ruleStatus(after.Rollout, s.spec.Name).Phase)
		}
		a.hasBegun[key] = a.hasBegun[key] || before.Rollout.Phase == v1alpha1.RolloutCompleted && s.runs(in.Revision, before)
		isFree := s.spec.Approval == "" || isUndo || isReturn
		if isFree && after.Rollout.Phase == v1alpha1.RolloutCompleted && ruleStatus(after.Rollout, s.spec.Name).Phase == v1alpha1.StageCompleted {
			a.hasBegun[key] = true // the stable revision has gone through it, when it needed no approval
		}
		for _, name := range s.clusters {
			was, is := before.Cluster(name), after.Cluster(name)
			gets := is != nil && is.Revision == in.Revision && (was == nil || was.Revision != in.Revision)
			if gets && !isFree && !a.hasBegun[key] {
				t.Fatalf("%s gets revision %d in stage %s, which nobody has approved: %v\nbefore:\n%s\nafter:\n%s",
					name, in.Revision, s.spec.Name, a.counts, toText(before), toText(after))
			}
		}
	}
}

func isActivePhase(phase v1alpha1.RolloutStagePhase) bool {
	return phase == v1alpha1.StageProgressing || phase == v1alpha1.StageSoaking || phase == v1alpha1.StageCompleted
}

// runs reports whether all clusters of a stage have a revision.
func (s ruleStage) runs(revision int64, status v1alpha1.AppServiceStatus) bool {
	return len(s.clusters) > 0 && !slices.ContainsFunc(s.clusters, func(name string) bool {
		e := status.Cluster(name)
		return e == nil || e.Revision != revision
	})
}
