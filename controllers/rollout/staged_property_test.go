package rollout_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/util/intstr"
	"pgregory.net/rapid"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/rollout"
	"github.com/fleetwright/fleetwright/controllers/rollout/entryplan"
)

// stagedLoop is a staged fleet and what was recorded about it.
type stagedLoop struct {
	*stagedFleet
	wasStable    map[int64]bool // revisions that were stable
	hasFailed    map[int64]bool // revisions that failed
	wasAvailable map[int64]bool // revisions that were available, or Ready without spec.rollout
	// stageOf has the stage with a limit in which each cluster got the target.
	stageOf map[string]string
	joined  int
}

// TestStages tests a closed loop: the planner decides, members carry out what it decides, and the
// result is the input of the next decision. Meanwhile users edit, approve, promote, pause, abort
// and retry; sources of the configuration change, are missing and return; members fail, become
// unreachable, come and go; and the operator restarts. Each decision must keep the rules. When
// nothing more happens, the rollout must end.
func TestStages(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		l := newStagedLoop(t)
		for range rapid.IntRange(1, 60).Draw(t, "actions") {
			l.act(t)
		}
		l.heal()
		for isWaiting := true; isWaiting; isWaiting = l.promoteEmpty() {
			if !l.run(func() { l.record() }) {
				t.Fatalf("the rollout does not end:\n%s", toText(l.app.Status))
			}
		}
		l.checkEnd(t)
	})
}

func newEmptyLoop() *stagedLoop {
	l := &stagedLoop{stagedFleet: newStagedFleet(), wasStable: map[int64]bool{}, hasFailed: map[int64]bool{}, wasAvailable: map[int64]bool{}, stageOf: map[string]string{}}
	l.planned = l.recordStages
	return l
}

func newStagedLoop(t *rapid.T) *stagedLoop {
	l := newEmptyLoop()
	l.app.Spec.Rollout = anyStrategy.Draw(t, "strategy")
	for range rapid.IntRange(0, 7).Draw(t, "clusters") {
		l.joinAny(t)
	}
	switch rapid.IntRange(0, 3).Draw(t, "start") {
	case 0: // the first rollout
	case 1: // the AppService was rolled out at once before
		strategy := l.app.Spec.Rollout
		l.app.Spec.Rollout = nil
		l.run(l.record)
		l.edit(func(spec *v1alpha1.AppServiceSpec) { spec.Rollout = strategy })
	default:
		l.approveAll()
		l.run(l.record)
	}
	return l
}

func (l *stagedLoop) joinAny(t *rapid.T) {
	l.joined++
	m := l.join(fmt.Sprintf("c%02d", l.joined), rapid.SampledFrom([]string{"a", "b", "c", "d"}).Draw(t, "stage"))
	m.startup = time.Duration(rapid.IntRange(0, 120).Draw(t, "startup")) * time.Second
	m.sick = rapid.IntRange(0, 9).Draw(t, "sick") == 0
	m.member.Labels["size"] = rapid.SampledFrom([]string{"normal", "normal", "normal", "none"}).Draw(t, "size")
}

// withoutReplicas runs no pods on the clusters of the size none.
var withoutReplicas = []v1alpha1.Override{{
	Name: "none", Replicas: new(int32(0)), ClusterMatch: v1alpha1.ClusterMatch{ClusterSelector: &v1alpha1.ClusterSelector{MatchLabels: map[string]string{"size": "none"}}},
}}

var anyPace = rapid.Custom(func(t *rapid.T) v1alpha1.RolloutPace {
	number := func(name string, values ...intstr.IntOrString) *intstr.IntOrString {
		if i := rapid.IntRange(-1, len(values)-1).Draw(t, name); i >= 0 {
			return &values[i]
		}
		return nil
	}
	return v1alpha1.RolloutPace{
		MaxUnavailable:  number("maxUnavailable", intstr.FromInt32(1), intstr.FromInt32(2), intstr.FromInt32(3), intstr.FromString("50%")),
		MaxFailures:     number("maxFailures", intstr.FromInt32(0), intstr.FromInt32(1), intstr.FromString("50%")),
		MinReadySeconds: rapid.SampledFrom([]*int32{nil, new(int32(0)), new(int32(30)), new(int32(120))}).Draw(t, "minReady"),
	}
})

var anyStrategy = rapid.Custom(func(t *rapid.T) *v1alpha1.Rollout {
	r := &v1alpha1.Rollout{RolloutPace: anyPace.Draw(t, "pace")}
	for _, name := range []string{"a", "b", "c"}[:rapid.IntRange(0, 3).Draw(t, "stages")] {
		s := v1alpha1.RolloutStage{Name: name, RolloutPace: anyPace.Draw(t, "pace of "+name)}
		if rapid.IntRange(0, 3).Draw(t, "selects") > 0 {
			s.ClusterSelector = &v1alpha1.ClusterSelector{MatchLabels: map[string]string{"stage": name}}
		}
		if rapid.IntRange(0, 2).Draw(t, "limited") == 0 {
			limit := rapid.SampledFrom([]intstr.IntOrString{intstr.FromInt32(1), intstr.FromInt32(2), intstr.FromString("10%"), intstr.FromString("60%")}).Draw(t, "limit")
			s.Limit = &limit
			s.SpreadKey = rapid.SampledFrom([]string{"", "zone"}).Draw(t, "spread")
		}
		if rapid.IntRange(0, 2).Draw(t, "needs approval") == 0 {
			s.Approval = v1alpha1.ApprovalRequired
		}
		s.SoakSeconds = rapid.SampledFrom([]*int32{nil, new(int32(60)), new(int32(600))}).Draw(t, "soak")
		r.Stages = append(r.Stages, s)
	}
	r.ProgressDeadlineSeconds = rapid.SampledFrom([]*int32{nil, new(int32(300))}).Draw(t, "deadline")
	r.OnFailure = rapid.SampledFrom([]v1alpha1.RolloutFailurePolicy{v1alpha1.RolloutRollback, v1alpha1.RolloutRollback, v1alpha1.RolloutPause}).Draw(t, "onFailure")
	return r
})

// anyAction is the name of an action. The frequent ones are in the list several times.
var anyAction = rapid.SampledFrom(append(slices.Repeat([]string{"work"}, 12),
	"edit", "edit", "edit", "content", "content", "source", "snapshot", "listing", "strategy", "fail", "fail", "outage", "outage",
	"heal member", "crash", "crash", "annotate", "annotate", "annotate", "pause", "join", "leave", "relabel", "placement", "placement",
	"suspend", "replicas", "clock", "torn"))

// act performs one random action.
func (l *stagedLoop) act(t *rapid.T) {
	name := ""
	if len(l.members) > 0 {
		name = rapid.SampledFrom(l.names()).Draw(t, "member")
	}
	m := l.members[name]
	kind := anyAction.Draw(t, "action")
	switch kind {
	case "work":
		l.work(t)
	case "content": // the generation does not move
		l.content = rapid.SampledFrom([]string{"", "ok", "bad"}).Draw(t, "content")
	case "snapshot": // a snapshot is deleted, or its content comes back
		l.lost[l.content] = !l.lost[l.content]
	case "listing": // the operator restarts, and cannot list the snapshots for a while
		l.isUnlisted = !l.isUnlisted
	case "crash":
		clear(l.seen)
	case "annotate":
		l.annotateAny(t)
	case "join":
		l.joinAny(t)
	case "clock":
		l.advance(-time.Duration(rapid.IntRange(1, 600).Draw(t, "clock goes back")) * time.Second)
	case "torn":
		l.tornWrite(t)
	default:
		l.editAny(t, kind)
		if m != nil {
			l.disturb(t, kind, name, m)
		}
	}
	if kind == "work" || rapid.Bool().Draw(t, "decides") {
		l.step(t)
	}
}

// editAny edits the spec.
func (l *stagedLoop) editAny(t *rapid.T, kind string) {
	switch kind {
	case "edit":
		l.editImage(rapid.SampledFrom([]string{"ok-0", "ok-1", "ok-2", "bad-1", "bad-2"}).Draw(t, "image"))
	case "source": // the spec gets a source without content, or that has content now
		l.edit(func(*v1alpha1.AppServiceSpec) { l.waits = !l.waits })
	case "strategy":
		strategy := anyStrategy.Draw(t, "strategy")
		if rapid.IntRange(0, 3).Draw(t, "none") == 0 {
			strategy = nil
		}
		l.edit(func(spec *v1alpha1.AppServiceSpec) { spec.Rollout = strategy })
	case "pause":
		if l.app.Spec.Rollout != nil {
			l.edit(func(spec *v1alpha1.AppServiceSpec) {
				spec.Rollout = spec.Rollout.DeepCopy()
				spec.Rollout.Paused = !spec.Rollout.Paused
			})
		}
	case "placement": // stages may lose all of their clusters, and get them back
		names := rapid.SliceOfDistinct(rapid.SampledFrom(append(l.names(), "nowhere")), rapid.ID[string]).Draw(t, "placement")
		l.edit(func(spec *v1alpha1.AppServiceSpec) { spec.Placement = nil })
		if len(names) > 0 {
			l.edit(func(spec *v1alpha1.AppServiceSpec) {
				spec.Placement = &v1alpha1.Placement{ClusterMatch: v1alpha1.ClusterMatch{ClusterNames: names}}
			})
		}
	case "suspend":
		l.edit(func(spec *v1alpha1.AppServiceSpec) { spec.Suspend = !spec.Suspend })
	case "replicas":
		l.edit(func(spec *v1alpha1.AppServiceSpec) {
			spec.Replicas = rapid.SampledFrom([]*int32{new(int32(0)), new(int32(2)), new(int32(3))}).Draw(t, "replicas")
			spec.Overrides = rapid.SampledFrom([][]v1alpha1.Override{nil, withoutReplicas}).Draw(t, "overrides")
		})
	}
}

// disturb changes a member.
func (l *stagedLoop) disturb(t *rapid.T, kind, name string, m *stagedMember) {
	switch kind {
	case "fail":
		m.sick, m.refuses = rapid.Bool().Draw(t, "sick"), rapid.Bool().Draw(t, "refuses")
	case "heal member":
		m.sick, m.refuses = false, false
		l.setReady(name, true)
	case "outage":
		l.setReady(name, !m.member.IsReady())
	case "leave":
		m.member.Spec.Taints = []v1alpha1.Taint{{Key: "leave", Effect: v1alpha1.TaintNoExecute}}
		if rapid.Bool().Draw(t, "comes back") {
			m.member.Spec.Taints = nil
		}
		if rapid.Bool().Draw(t, "is deleted") {
			delete(l.members, name)
		}
	case "relabel":
		m.member.Labels = maps.Clone(m.member.Labels)
		m.member.Labels["stage"] = rapid.SampledFrom([]string{"a", "b", "c", "d"}).Draw(t, "label")
	}
}

func (l *stagedLoop) annotateAny(t *rapid.T) {
	revision := l.app.Status.Rollout.Revision + int64(rapid.SampledFrom([]int{0, 0, 0, 0, -1, 1}).Draw(t, "of"))
	stage := rapid.SampledFrom([]string{"a", "b", "c", "(rest)", "nowhere"}).Draw(t, "stage")
	number := fmt.Sprint(revision)
	key := rapid.SampledFrom([]string{v1alpha1.AnnotationApprove, v1alpha1.AnnotationApprove, v1alpha1.AnnotationPromote, v1alpha1.AnnotationPause, v1alpha1.AnnotationAbort, v1alpha1.AnnotationRetry}).Draw(t, "annotation")
	value := number
	switch {
	case key == v1alpha1.AnnotationApprove, key == v1alpha1.AnnotationPromote && rapid.Bool().Draw(t, "one stage"):
		value = number + "/" + stage
	}
	l.annotate(key, rapid.SampledFrom([]string{value, value, "", "garbage"}).Draw(t, "value"))
}

// work lets time pass, and some members carry out their entries.
func (l *stagedLoop) work(t *rapid.T) {
	l.advance(time.Duration(rapid.SampledFrom([]int{1, 10, 30, 60, 120, 400}).Draw(t, "seconds")) * time.Second)
	for _, name := range l.names() {
		if rapid.IntRange(0, 4).Draw(t, name+" delivers") > 0 {
			l.deliver(name)
		}
	}
}

// tornWrite kills the operator after it has written the status, and only some of the slices with
// the entries.
func (l *stagedLoop) tornWrite(t *rapid.T) {
	in, status := l.input(), l.app.Status
	decision := rollout.Plan(in)
	for i, entry := range decision.Entries {
		before := status.Cluster(entry.Name)
		if before != nil && rapid.Bool().Draw(t, entry.Name+" is not written") {
			decision.Entries[i] = *before
		}
	}
	l.write(decision)
	l.app.Status.ObservedGeneration = status.ObservedGeneration
	l.recordStages(in, status)
	clear(l.seen)
	l.record()
}

// record records what the history of the fleet is.
func (l *stagedLoop) record() {
	state := l.app.Status.Rollout
	l.wasStable[state.StableRevision] = true
	l.hasFailed[state.FailedRevision] = true
	for _, e := range l.app.Status.Clusters {
		if e.Phase == v1alpha1.ClusterReady && (e.UnavailableSince == nil || l.app.Spec.Rollout == nil) {
			l.wasAvailable[e.Revision] = true
		}
	}
}

// recordStages records in which stage with a limit clusters have got the target. While it is rolled out,
// that is the stage in which a cluster is that has the target.
func (l *stagedLoop) recordStages(in rollout.Input, before v1alpha1.AppServiceStatus) {
	after, spec := l.app.Status, in.App.Spec.Rollout
	if spec == nil || before.Rollout.Revision != after.Rollout.Revision {
		clear(l.stageOf)
	}
	maps.DeleteFunc(l.stageOf, func(name, _ string) bool { return after.Cluster(name) == nil || after.Cluster(name).Revision == 0 })
	if spec == nil {
		return
	}
	stages := rollout.StagesOf(in)
	isNew := before.Rollout.Revision != in.Revision && before.Rollout.FailedRevision != in.Revision || before.Rollout.Phase == "" && in.Revision != after.Rollout.StableRevision
	isRollingOut := (isNew || before.Rollout.Phase == v1alpha1.RolloutProgressing) && in.Revision != before.Rollout.StableRevision && !after.Rollout.Paused
	for _, entry := range after.Clusters {
		previous := before.Cluster(entry.Name)
		isBack := previous != nil && previous.Phase == v1alpha1.ClusterRemoving && entryplan.IsPlanned(entry)
		had := previous != nil && previous.Revision == in.Revision && !isBack
		gets := entry.Revision == in.Revision && !had
		if isBack || gets && stages[entry.Name] != "" {
			delete(l.stageOf, entry.Name)
		}
		for _, s := range spec.Stages {
			if s.Limit != nil && s.Name == stages[entry.Name] && (gets || had && isRollingOut) {
				l.stageOf[entry.Name] = s.Name
			}
		}
	}
}

// step makes one decision, checks it, and writes it.
func (l *stagedLoop) step(t *rapid.T) {
	in := l.input()
	before := l.app
	decision := l.planFor(in)
	l.check(t, in, decision)
	l.checkRepetition(t, in.Revision, decision)
	l.checkTexts(t, in, decision)
	l.record()
	for _, entry := range l.app.Status.Clusters {
		if entry.Stage != l.stageOf[entry.Name] {
			t.Fatalf("%s has the stage %q, and got the target in the stage %q\n%s", entry.Name, entry.Stage, l.stageOf[entry.Name], toText(l.app.Status))
		}
	}
	if state := decision.Rollout; state.StableRevision != before.Status.Rollout.StableRevision && !l.wasAvailable[state.StableRevision] {
		t.Fatalf("revision %d is stable, and was available nowhere\n%s", state.StableRevision, toText(l.app.Status))
	}
}

// checkRepetition checks that the next decision changes nothing: at once, before the recheck, and
// after a restart.
func (l *stagedLoop) checkRepetition(t *rapid.T, revision int64, decision rollout.Decision) {
	same := func(what string, in rollout.Input) {
		in.Revision = revision // the annotation retry may make another one
		next := rollout.Plan(in)
		after := l.app.Status
		after.Clusters, after.Rollout = next.Entries, next.Rollout
		if diff := cmp.Diff(toText(l.app.Status), toText(after)); diff != "" {
			t.Fatalf("the decision %s differs (-first +second):\n%s\nfirst:\n%s", what, diff, toText(l.app.Status))
		}
	}
	again := l.input()
	same("made again", again)
	wait := decision.RecheckAfter
	if wait == 0 {
		wait = 48 * time.Hour
	}
	again.Now.Time = again.Now.Add(wait - time.Second)
	same("before the recheck", again)
	restarted := l.input()
	clear(restarted.Observations)
	same("after a restart", restarted)
}

// checkTexts checks that no reason and no message changes the decision.
func (l *stagedLoop) checkTexts(t *rapid.T, in rollout.Input, decision rollout.Decision) {
	in.App = in.App.DeepCopy()
	for i := range in.App.Status.Clusters {
		in.App.Status.Clusters[i].Reason, in.App.Status.Clusters[i].Message = v1alpha1.ReasonRefused, "7/eu"
	}
	other := rollout.Plan(in)
	if diff := cmp.Diff(withoutTexts(decision).Rollout, withoutTexts(other).Rollout) + cmp.Diff(withoutTexts(decision).Entries, withoutTexts(other).Entries); diff != "" {
		t.Fatalf("the decision depends on texts:\n%s", diff)
	}
}

// check checks that a decision keeps the rules.
func (l *stagedLoop) check(t *rapid.T, in rollout.Input, decision rollout.Decision) {
	before, after := in.App.Status, v1alpha1.AppServiceStatus{Clusters: decision.Entries, Rollout: decision.Rollout}
	fail := func(format string, args ...any) {
		t.Helper()
		t.Fatalf(format+"\nspec.rollout: %s\nbefore:\n%s\nafter:\n%s", append(args, toJSON(t, in.App.Spec.Rollout), toText(before), toText(after))...)
	}
	var stages []ruleStage
	if in.App.Spec.Rollout != nil {
		stages = ruleStages(in)
		l.checkStages(fail, in, stages, before, after)
	}
	isPaused := in.App.Spec.Suspend || in.App.Spec.Rollout != nil && (in.App.Spec.Rollout.Paused || in.App.Annotations[v1alpha1.AnnotationPause] == fmt.Sprint(in.Revision))
	for _, entry := range after.Clusters {
		if chosen := in.Plan.Find(entry.Name); chosen.Chosen() && !in.App.Spec.Suspend && entryplan.IsPlanned(entry) && entry.Replicas != chosen.Replicas && entry.Transition.Type == "" {
			fail("%s has %d replicas, and the plan has %d", entry.Name, entry.Replicas, chosen.Replicas)
		}
		had := int64(0)
		if previous := before.Cluster(entry.Name); previous != nil && (previous.Phase != v1alpha1.ClusterRemoving || !entryplan.IsPlanned(entry)) {
			had = previous.Revision
		}
		if entry.Revision == had {
			continue
		}
		isTarget := entry.Revision == in.Revision
		isBack := entry.Revision == before.Rollout.StableRevision && (before.Rollout.Phase != v1alpha1.RolloutCompleted || !isTarget)
		isStable := entry.Revision == before.Rollout.StableRevision || entry.Revision == after.Rollout.StableRevision
		switch {
		case entry.Revision == 0:
			if previous := before.Cluster(entry.Name); previous == nil || previous.Phase != v1alpha1.ClusterRemoving {
				fail("%s lost its revision", entry.Name)
			}
		case !in.Plan.Find(entry.Name).Chosen():
			fail("%s is not in the plan, and got revision %d", entry.Name, entry.Revision)
		case l.isUnlisted:
			fail("%s got revision %d, and it is not known which snapshots exist", entry.Name, entry.Revision)
		case l.isLost(entry.Revision):
			fail("%s got revision %d, whose snapshot is lost", entry.Name, entry.Revision)
		case in.IsSpecPending && in.Revision == 0:
			fail("%s got revision %d, and the spec has none", entry.Name, entry.Revision)
		case l.hasFailed[entry.Revision] || entry.Revision == after.Rollout.FailedRevision:
			fail("%s got revision %d, which failed", entry.Name, entry.Revision)
		case isPaused && had != 0:
			fail("%s got revision %d while paused", entry.Name, entry.Revision)
		case in.App.Spec.Rollout == nil && !isTarget && !isStable:
			fail("%s got revision %d", entry.Name, entry.Revision)
		case in.App.Spec.Rollout == nil, isBack, isStable && !isTarget:
		case !isTarget:
			fail("%s got revision %d, which is neither the target nor stable", entry.Name, entry.Revision)
		case entry.Phase == v1alpha1.ClusterUnknown:
			fail("%s is Unknown and got the target", entry.Name)
		case had != 0 && had == before.Rollout.StableRevision && before.Cluster(entry.Name).Phase == v1alpha1.ClusterReady && in.ObservationOf(entry.Name) == nil:
			fail("%s got the target, and nobody has observed it", entry.Name)
		default:
			l.checkTurn(fail, in, stages, after, entry, had)
		}
	}
}

// checkTurn checks that a cluster that got the target is in a stage whose turn has come.
func (l *stagedLoop) checkTurn(fail func(string, ...any), in rollout.Input, stages []ruleStage, after v1alpha1.AppServiceStatus, entry v1alpha1.ClusterStatus, had int64) {
	for _, s := range stages {
		if !slices.Contains(s.clusters, entry.Name) {
			continue
		}
		status := ruleStatus(after.Rollout, s.spec.Name)
		isActive := status.Phase == v1alpha1.StageProgressing || status.Phase == v1alpha1.StageSoaking || status.Phase == v1alpha1.StageCompleted
		if !isActive {
			fail("%s got the target in stage %s, which is %s", entry.Name, s.spec.Name, status.Phase)
		}
		return
	}
	fail("%s got the target, and is in no stage", entry.Name)
}

// checkStages checks the budgets and the gates of all stages.
func (l *stagedLoop) checkStages(fail func(string, ...any), in rollout.Input, stages []ruleStage, before, after v1alpha1.AppServiceStatus) {
	isRollingOut := !after.Rollout.Paused && after.Rollout.Phase == v1alpha1.RolloutProgressing && in.Revision != after.Rollout.StableRevision
	isNew := before.Rollout.Revision != in.Revision || before.Rollout.Strategy != after.Rollout.Strategy
	isPassed := true // all stages before this one are completed or skipped
	for _, s := range stages {
		was, is := ruleStatus(before.Rollout, s.spec.Name), ruleStatus(after.Rollout, s.spec.Name)
		if isNew {
			was = v1alpha1.RolloutStageStatus{}
		}
		isActive := is.Phase == v1alpha1.StageProgressing || is.Phase == v1alpha1.StageSoaking || is.Phase == v1alpha1.StageCompleted
		wasActive := was.Phase == v1alpha1.StageProgressing || was.Phase == v1alpha1.StageSoaking || was.Phase == v1alpha1.StageCompleted
		if was.Phase == v1alpha1.StageCompleted && is.Phase != v1alpha1.StageCompleted {
			fail("stage %s was Completed and is %s", s.spec.Name, is.Phase)
		}
		isLate := before.Rollout.Phase == v1alpha1.RolloutCompleted && after.Rollout.Phase == v1alpha1.RolloutCompleted && !isNew && was.Phase != ""
		if isLate && isActive && !wasActive && s.spec.Approval != "" && !is.Approved && !is.Promoted {
			fail("stage %s, which was %s, began without approval after the rollout was completed", s.spec.Name, was.Phase)
		}
		completes := before.Rollout.Phase != "" && after.Rollout.Phase == v1alpha1.RolloutCompleted && before.Rollout.Phase != v1alpha1.RolloutCompleted && in.Revision != before.Rollout.StableRevision
		if isRollingOut || completes {
			wasCompleted := before.Rollout.Strategy != after.Rollout.Strategy && ruleStatus(before.Rollout, s.spec.Name).Phase == v1alpha1.StageCompleted && before.Rollout.Revision == in.Revision
			isKept := wasCompleted && is.Phase == v1alpha1.StageCompleted // an edit has put an unfinished stage before it
			if isActive && !wasActive && !isPassed && !isKept {
				fail("stage %s began before its turn", s.spec.Name)
			}
			needsApproval := s.spec.Approval != "" && !after.Rollout.Undo && !before.Rollout.Undo
			if isActive && !wasActive && needsApproval && !is.Approved && !is.Promoted && len(s.clusters) > 0 && !isKept {
				fail("stage %s began without approval", s.spec.Name)
			}
			if is.Approved && !ruleStatus(before.Rollout, s.spec.Name).Approved && !strings.Contains(in.App.Annotations[v1alpha1.AnnotationApprove], fmt.Sprintf("%d/%s", in.Revision, s.spec.Name)) {
				fail("nobody approved stage %s", s.spec.Name)
			}
			if is.Phase == v1alpha1.StageCompleted && was.Phase != v1alpha1.StageCompleted && !is.Promoted && !isKept {
				l.checkCompleted(fail, in, s, was, before, after)
			}
			if wasActive && is.Phase == v1alpha1.StageSkipped && before.Rollout.Revision == in.Revision {
				fail("stage %s has begun, and is Skipped", s.spec.Name)
			}
			isPassed = isPassed && (is.Phase == v1alpha1.StageCompleted || is.Phase == v1alpha1.StageSkipped || is.Phase == "")
			isProven := len(s.clusters) > 0 || is.Promoted || was.Phase == v1alpha1.StageCompleted
			if is.Phase == v1alpha1.StageSkipped && len(s.clusters) > 0 || is.Phase == v1alpha1.StageCompleted && !isProven {
				fail("stage %s has %d clusters and is %s", s.spec.Name, len(s.clusters), is.Phase)
			}
		}
		l.checkBudget(fail, in, s, is, before, after)
		l.checkChoice(fail, in, s, before, after)
	}
}

// checkChoice checks which of the matching clusters a stage with a limit has: as many as the limit
// says; each one that got the target there, also after it has failed; and no dead cluster, or one that is
// to run no pods, beside a Ready one.
func (l *stagedLoop) checkChoice(fail func(string, ...any), in rollout.Input, s ruleStage, before, after v1alpha1.AppServiceStatus) {
	if in.Revision == 0 { // there are no stages yet
		return
	}
	if len(s.clusters) != s.most() {
		fail("stage %s has %d clusters, and its limit is %d", s.spec.Name, len(s.clusters), s.most())
	}
	runsNone := func(name string) bool { // once the plan is carried out
		if in.App.Spec.Suspend {
			return after.Cluster(name).Replicas == 0
		}
		return in.Plan.Find(name).Replicas == 0
	}
	for _, out := range s.matching {
		was, entry := before.Cluster(out), after.Cluster(out)
		if slices.Contains(s.clusters, out) || was == nil || entry == nil || was.Phase == v1alpha1.ClusterRemoving {
			continue
		}
		gotTarget := func(name string) bool {
			return before.Rollout.Revision == in.Revision && l.stageOf[name] == s.spec.Name
		}
		isFree := l.stageOf[out] == "" || l.stageOf[out] == s.spec.Name
		isReady := entry.Phase == v1alpha1.ClusterReady && !runsNone(out) && isFree
		for _, name := range s.clusters {
			isDead := after.Cluster(name).Phase == v1alpha1.ClusterUnknown || runsNone(name)
			if !gotTarget(name) && (gotTarget(out) || isReady && isDead && s.spec.SpreadKey == "") {
				fail("stage %s has %s, and not %s", s.spec.Name, name, out)
			}
		}
	}
}

// checkCompleted checks that the clusters of a stage have proven the target.
func (l *stagedLoop) checkCompleted(fail func(string, ...any), in rollout.Input, s ruleStage, was v1alpha1.RolloutStageStatus, before, after v1alpha1.AppServiceStatus) {
	t := s.tally(in, after, func(string) bool { return false })
	isAssigned := func(name string) bool { // as a new one, or as one that is late
		previous := before.Cluster(name)
		return previous == nil || previous.Revision != after.Cluster(name).Revision
	}
	t.updating = s.tally(in, after, isAssigned).updating
	if t.confirmed == 0 || 2*(t.confirmed+t.failed) < t.size || t.updating > 0 {
		fail("stage %s is Completed with %+v", s.spec.Name, t)
	}
	if s.spec.SoakSeconds != nil && *s.spec.SoakSeconds > 0 && !before.Rollout.Undo && !after.Rollout.Undo {
		soaked := in.Now.Sub(was.Since.Time)
		if was.Phase != v1alpha1.StageSoaking || soaked < time.Duration(*s.spec.SoakSeconds)*time.Second {
			fail("stage %s is Completed after %s for %v", s.spec.Name, was.Phase, soaked)
		}
	}
}

// checkBudget checks how many clusters of a stage are updating after a decision that assigned the
// target, or the stable revision in a rollback.
func (l *stagedLoop) checkBudget(fail func(string, ...any), in rollout.Input, s ruleStage, is v1alpha1.RolloutStageStatus, before, after v1alpha1.AppServiceStatus) {
	previous := func(name string) v1alpha1.ClusterStatus {
		if entry := before.Cluster(name); entry != nil && entry.Phase != v1alpha1.ClusterRemoving {
			return *entry
		}
		return v1alpha1.ClusterStatus{}
	}
	isNew := func(name string) bool { return previous(name).Revision == 0 }
	assigned, impaired, returned := 0, 0, 0
	for _, name := range s.clusters {
		entry := after.Cluster(name)
		if entry == nil || isNew(name) || entry.Revision == previous(name).Revision {
			continue
		}
		seen := in.ObservationOf(name)
		wasReady := previous(name).Phase == v1alpha1.ClusterReady && (seen == nil || seen.Phase == v1alpha1.ClusterReady)
		switch {
		case entry.Revision == in.Revision && in.Revision != before.Rollout.StableRevision:
			assigned++
			if entry.Impaired {
				impaired++
			}
		case entry.Revision == after.Rollout.StableRevision && wasReady && entry.Phase != v1alpha1.ClusterUnknown:
			returned++
		}
	}
	t := s.tally(in, after, isNew)
	all := s.tally(in, after, func(string) bool { return false })
	budget := min(s.maxUnavailable(), all.confirmed+1)
	if is.Promoted {
		budget = s.maxUnavailable()
	}
	if assigned > impaired && t.updating+t.degraded > budget {
		fail("stage %s: %d clusters are updating, and %d may be: %+v", s.spec.Name, t.updating, budget, all)
	}
	if impaired > 0 && !in.App.Spec.Suspend {
		l.checkLast(fail, in, s, before, after)
	}
	if impaired > budget {
		fail("stage %s: %d broken clusters are tried at once, and %d may be", s.spec.Name, impaired, budget)
	}
	if after.Rollout.Phase != v1alpha1.RolloutCompleted && returned > s.maxUnavailable() {
		fail("stage %s: %d Ready clusters go back at once, and %d may", s.spec.Name, returned, s.maxUnavailable())
	}
}

// checkLast checks that a stage in which a broken cluster got the target has no Ready cluster with pods that
// has not got it and may.
func (l *stagedLoop) checkLast(fail func(string, ...any), in rollout.Input, s ruleStage, before, after v1alpha1.AppServiceStatus) {
	for _, name := range s.clusters {
		was, entry, seen := before.Cluster(name), after.Cluster(name), in.ObservationOf(name)
		isReady := was != nil && was.Phase == v1alpha1.ClusterReady && seen != nil && seen.Phase == v1alpha1.ClusterReady && in.Members[name].IsReady()
		if isReady && entry.Revision != in.Revision && entry.Replicas > 0 && was.ReadyReplicas > 0 {
			fail("stage %s: a broken cluster got the target before %s", s.spec.Name, name)
		}
	}
}

// approveAll approves the stages of the first revision.
func (l *stagedLoop) approveAll() {
	l.plan()
	l.record()
	l.annotate(v1alpha1.AnnotationApprove, "1/a,1/b,1/c")
}

// heal ends all disturbances, and approves what waits for approval.
func (l *stagedLoop) heal() {
	for name, m := range l.members {
		m.sick, m.refuses = false, false
		l.setReady(name, true)
		m.member.Spec.Taints = nil
	}
	l.waits, l.isUnlisted = false, false
	clear(l.lost)
	l.edit(func(spec *v1alpha1.AppServiceSpec) {
		spec.Replicas, spec.Overrides = new(int32(2)), nil // a revision without pods proves nothing
		spec.Suspend, spec.Placement = false, nil
		if spec.Rollout != nil {
			spec.Rollout = spec.Rollout.DeepCopy()
			spec.Rollout.Paused = false
		}
	})
	l.app.Annotations = map[string]string{v1alpha1.AnnotationAcceptUnready: "true"}
	l.approve()
	l.advance(2 * time.Hour) // clocks went back, and removals count for an hour
}

// promoteEmpty promotes the stage that waits because all of its clusters have left, and reports
// whether there was one.
func (l *stagedLoop) promoteEmpty() bool {
	state := l.app.Status.Rollout
	if l.decision.WaitingStage == "" || ruleStatus(state, l.decision.WaitingStage).Clusters > 0 {
		return false
	}
	l.annotate(v1alpha1.AnnotationPromote, fmt.Sprintf("%d/%s", state.Revision, l.decision.WaitingStage))
	return !ruleStatus(state, l.decision.WaitingStage).Promoted
}

// checkEnd checks where a rollout has ended, when nothing more happens.
func (l *stagedLoop) checkEnd(t *rapid.T) {
	state := l.app.Status.Rollout
	fail := func(format string, args ...any) {
		t.Fatalf(format+"\nspec.rollout: %s\n%s", append(args, toJSON(t, l.app.Spec.Rollout), toText(l.app.Status))...)
	}
	isBad := strings.Contains(l.template(), "bad")
	waits := map[string]bool{} // clusters of a stage that needs approval and that the stable revision never passed
	if l.app.Spec.Rollout != nil {
		for _, s := range ruleStages(l.input()) {
			for _, name := range s.clusters {
				waits[name] = s.spec.Approval != "" && ruleStatus(state, s.spec.Name).StableSkipped
			}
		}
	}
	all := func(revision int64) {
		for _, e := range l.app.Status.Clusters {
			if entryplan.IsPlanned(e) && e.Transition.Type == "" && e.Revision != revision && !(e.Revision == 0 && waits[e.Name]) {
				fail("the phase is %s, and %s has revision %d", state.Phase, e.Name, e.Revision)
			}
		}
	}
	switch state.Phase {
	case v1alpha1.RolloutCompleted:
		all(state.Revision)
		if isBad && state.StableRevision == state.Revision && !l.wasAvailable[state.Revision] {
			fail("a revision that does not start is stable")
		}
	case v1alpha1.RolloutRolledBack:
		all(state.StableRevision)
	case v1alpha1.RolloutHalted:
	case "":
		if l.app.Spec.Rollout != nil {
			fail("there is no phase")
		}
		all(state.Revision)
	default:
		isPlanned := slices.ContainsFunc(l.decision.Entries, func(e v1alpha1.ClusterStatus) bool { return entryplan.IsPlanned(e) && e.Transition.Type == "" })
		hasLostAll := slices.ContainsFunc(state.Stages, func(s v1alpha1.RolloutStageStatus) bool {
			return s.Name == l.decision.WaitingStage && s.Clusters == 0 // it had begun, and waits by name
		})
		if isPlanned && !isBad && !hasLostAll {
			fail("the rollout ends in %s", state.Phase)
		}
		// After promoted stages, the target may be available nowhere. No stage is active then, and
		// that is what the conditions say.
		isActive := slices.ContainsFunc(state.Stages, func(s v1alpha1.RolloutStageStatus) bool {
			return s.Phase != v1alpha1.StageCompleted && s.Phase != v1alpha1.StageSkipped
		})
		if l.decision.WaitingStage == "" && isPlanned && isActive {
			fail("the rollout waits for nothing")
		}
	}
}

// One dead cluster in a stage of two or more does not hold up a rollout, and gets the revision when
// it is back.
func TestStages_pass_a_dead_cluster(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		l := newHealthyLoop(t, nil)
		if len(l.members) == 0 {
			return
		}
		dead := rapid.SampledFrom(l.names()).Draw(t, "dead")
		l.setReady(dead, false)
		l.deliverAll()
		l.plan()
		l.editImage("ok-1")
		l.approve()
		peers := 0 // a stage with a limit may have left the dead cluster to a later one, where it is alone
		for _, s := range ruleStages(l.input()) {
			if slices.Contains(s.clusters, dead) {
				peers = len(s.clusters) - 1
			}
		}
		l.run(nil)
		if state := l.app.Status.Rollout; peers > 0 && state.Phase != v1alpha1.RolloutCompleted {
			t.Fatalf("%s holds up the rollout:\n%s", dead, toText(l.app.Status))
		} else if state.Phase != v1alpha1.RolloutCompleted && l.decision.WaitingStage == "" {
			t.Fatalf("the rollout waits for nothing:\n%s", toText(l.app.Status))
		}
		l.setReady(dead, true)
		l.run(nil)
		if state := l.app.Status.Rollout; state.Phase != v1alpha1.RolloutCompleted || l.app.Status.Cluster(dead).Revision != state.Revision {
			t.Fatalf("%s did not catch up:\n%s", dead, toText(l.app.Status))
		}
	})
}

// A stage is completed exactly if at least half of its clusters can prove the revision.
func TestStages_need_half_of_their_clusters(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		l := newHealthyLoop(t, rapid.SampledFrom([][]v1alpha1.Override{nil, withoutReplicas}).Draw(t, "overrides"))
		for _, name := range l.names() {
			if rapid.Bool().Draw(t, name+" is dead") {
				l.setReady(name, false)
			}
		}
		l.deliverAll()
		l.plan()
		l.editImage("ok-1")
		l.approve()
		stages := ruleStages(l.input())
		l.run(nil)
		mayPass := true
		for _, s := range stages {
			size, alive := 0, 0
			for _, name := range s.clusters {
				if l.app.Status.Cluster(name).Replicas == 0 {
					continue
				}
				size++
				if l.members[name].member.IsReady() {
					alive++
				}
			}
			mayPass = mayPass && (len(s.clusters) == 0 || alive > 0 && 2*alive >= size)
			if phase := ruleStatus(l.app.Status.Rollout, s.spec.Name).Phase; phase == v1alpha1.StageCompleted != mayPass && len(s.clusters) > 0 {
				t.Fatalf("stage %s, in which %d of %d clusters are alive, is %s:\n%s", s.spec.Name, alive, size, phase, toText(l.app.Status))
			}
		}
	})
}

// A template that never starts reaches one cluster, and no other: because of its image, or of the content of
// its configuration, without an edit of the spec.
func TestStages_stop_a_bad_template(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		l := newHealthyLoop(t, nil)
		if len(l.members) == 0 {
			return
		}
		l.edit(func(spec *v1alpha1.AppServiceSpec) {
			spec.Rollout = spec.Rollout.DeepCopy()
			spec.Rollout.MaxFailures = nil
			for i := range spec.Rollout.Stages {
				spec.Rollout.Stages[i].MaxFailures = nil
			}
		})
		l.run(nil)
		if rapid.Bool().Draw(t, "the configuration is bad") {
			l.content = "bad"
		} else {
			l.editImage("bad-1")
		}
		l.approve()
		reached := map[string]bool{}
		if !l.run(func() {
			for _, e := range l.app.Status.Clusters {
				if e.Revision == l.app.Status.Rollout.Revision {
					reached[e.Name] = true
				}
			}
		}) {
			t.Fatalf("the rollout does not end:\n%s", toText(l.app.Status))
		}
		want := v1alpha1.RolloutRolledBack
		if l.app.Spec.Rollout.OnFailure == v1alpha1.RolloutPause {
			want = v1alpha1.RolloutHalted
		}
		if state := l.app.Status.Rollout; len(reached) != 1 || state.Phase != want || state.StableRevision != 1 {
			t.Fatalf("the template reached %v; want one cluster, and %s:\n%s", reached, want, toText(l.app.Status))
		}
	})
}

// newHealthyLoop returns a fleet that has completed its first rollout.
func newHealthyLoop(t *rapid.T, overrides []v1alpha1.Override) *stagedLoop {
	l := newEmptyLoop()
	l.app.Spec.Rollout = anyStrategy.Draw(t, "strategy")
	for range rapid.IntRange(0, 7).Draw(t, "clusters") {
		l.joinAny(t)
	}
	for _, m := range l.members {
		m.sick = false
	}
	l.approveAll()
	if !l.run(nil) || len(l.members) > 0 && l.app.Status.Rollout.Phase != v1alpha1.RolloutCompleted {
		t.Fatalf("the first rollout does not complete:\n%s", toText(l.app.Status))
	}
	l.edit(func(spec *v1alpha1.AppServiceSpec) { spec.Overrides = overrides })
	l.run(nil)
	return l
}

// approve approves all stages for the revision of the spec, after the status shows it.
func (l *stagedLoop) approve() {
	l.plan()
	l.record()
	n := fmt.Sprint(l.app.Status.Rollout.Revision)
	l.annotate(v1alpha1.AnnotationApprove, n+"/a,"+n+"/b,"+n+"/c")
}
