package rollout_test

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/entries/appslice"
	"github.com/fleetwright/fleetwright/controllers/rollout"
	. "github.com/fleetwright/fleetwright/controllers/rollout/rollouttest"
)

// TestClosedLoop tests a closed loop: placement.Decide and rollout.Plan make decisions, simulated
// members carry them out, and the result is the input of the next decisions. Meanwhile members
// become unreachable, detach, fail, recover and get other labels, the operator restarts, and the
// spec is edited.
//
// Each decision must keep the invariants (see loop.check). After all members have recovered and all
// removals are approved, the loop must come to rest: the AppService is Ready on exactly the
// clusters of the plan, and nothing changes.
func TestClosedLoop(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := &loop{simulation: newSimulation(rapid.IntRange(1, 6).Draw(t, "clusters")), leftWithoutEdit: map[string]bool{}}
		l.sliceThreshold = rapid.SampledFrom([]int{0, 1, 3}).Draw(t, "slice threshold")
		if rapid.Bool().Draw(t, "starts at rest") {
			l.editPlacement(func(p *v1alpha1.Placement) { p.ClusterSelector = inRegion("eu") })
			l.converge(t)
		}
		for range rapid.IntRange(1, 25).Draw(t, "actions") {
			l.act(t)
			switch rapid.IntRange(0, 5).Draw(t, "plans") {
			case 0, 1:
			case 2:
				l.crash(t)
			default:
				l.step(t)
			}
		}
		l.heal()
		l.converge(t)
		l.checkConverged(t)
		if rapid.Bool().Draw(t, "is deleted") {
			l.delete(t)
		}
	})
}

// loop is a simulation and a record of the decisions that were made in it.
type loop struct {
	*simulation
	plan            map[string]bool // the clusters that the last plan chose
	planned         int64           // the generation of the last plan
	editing         bool            // whether an edit has not been carried out completely
	leftWithoutEdit map[string]bool // clusters that left the plan without an edit
	removals        []metav1.Time   // the start times of removals that no user requested
}

// act performs one random action.
func (l *loop) act(t *rapid.T) {
	name := rapid.SampledFrom(l.names()).Draw(t, "member")
	s := l.members[name]
	switch rapid.IntRange(0, 9).Draw(t, "kind") {
	case 0, 1:
		edit := rapid.SampledFrom(edits).Draw(t, "edit")
		edit.do(t, l.simulation, s)
		l.editing = true
	case 2, 3, 4:
		action := rapid.SampledFrom(memberActions).Draw(t, "member action")
		action.do(t, l.simulation, s)
		l.deliver(name)
	case 5:
		clear(l.seen) // the operator restarts
	case 6:
		l.advance(rapid.SampledFrom([]time.Duration{time.Second, time.Minute, 11 * time.Minute, 2 * time.Hour}).Draw(t, "elapsed time"))
	case 7:
		key := rapid.SampledFrom([]string{v1alpha1.AnnotationAcceptUnready, v1alpha1.AnnotationAcceptRemovals}).Draw(t, "annotation")
		value := map[string]string{v1alpha1.AnnotationAcceptUnready: "true", v1alpha1.AnnotationAcceptRemovals: l.toAccept()}[key]
		l.annotate(key, rapid.SampledFrom([]string{"", value}).Draw(t, "value"))
	default:
		l.work(t)
	}
}

// work makes some members carry out part of their entries.
func (l *loop) work(t *rapid.T) {
	for _, name := range l.names() {
		if rapid.Bool().Draw(t, name+" delivers") {
			l.deliver(name)
			l.members[name].start(rapid.Int32Range(0, 3).Draw(t, name+"'s started pods"))
			l.deliver(name)
		}
	}
}

// step makes one decision, checks it, and writes it.
func (l *loop) step(t *rapid.T) {
	in := l.input()
	status := StatusOf(in)
	l.recordLeftWithoutEdit(in)
	l.check(t, in, status, status)
	before := l.app.Status
	l.write(status)
	if len(status.Clusters) < len(in.App.Status.Clusters) { // a cluster without an entry may have another reason to be excluded
		status = StatusOf(l.input())
		l.write(status)
	}
	again := l.input()
	if diff := cmp.Diff(toJSON(t, status), toJSON(t, StatusOf(again))); diff != "" {
		t.Fatalf("the next decision differs (-first +second):\n%s\nbefore:\n%s\nplan:\n%s", diff, toJSON(t, before), toJSON(t, in.Plan))
	}
	until := 48 * time.Hour
	if wait := rollout.Plan(again).RecheckAfter; wait > 0 {
		until = wait - time.Second
	}
	again.Now = metav1.NewTime(l.now.Add(until))
	if diff := cmp.Diff(toJSON(t, status), toJSON(t, StatusOf(again))); diff != "" {
		t.Fatalf("the decision changes within %v, before the recheck (-before +after):\n%s", until, diff)
	}
	if meta.IsStatusConditionTrue(status.Conditions, v1alpha1.ConditionReady) && status.Summary.Removing == 0 {
		l.editing = false
	}
}

// crash makes one decision, and kills the operator while it writes the decision. The planner writes
// what limits later plans first, then the slices in any order, and then the rest of the status.
func (l *loop) crash(t *rapid.T) {
	in := l.input()
	decided := StatusOf(in)
	written := l.app.Status
	if decided.ClustersIn == v1alpha1.ClustersInSlices {
		written.Removals, written.PlannedSpecs, written.AcceptedStamps = decided.Removals, decided.PlannedSpecs, decided.AcceptedStamps
	}
	if written.ClustersIn == v1alpha1.ClustersInSlices && decided.ClustersIn == v1alpha1.ClustersInSlices {
		stored := appslice.Split(l.app, written.Clusters)
		for slot, next := range appslice.Split(l.app, decided.Clusters) {
			isNew := !appslice.IsStored(stored[slot], next)
			if isNew && rapid.Bool().Draw(t, fmt.Sprintf("slice %d is written", slot)) {
				stored[slot] = next
			}
		}
		written.Clusters = appslice.Join(stored)
	}
	planned, before := l.planned, maps.Clone(l.leftWithoutEdit)
	l.recordLeftWithoutEdit(in)
	l.check(t, in, written, decided)
	l.write(written)
	clear(l.seen)
	// Nobody knows that a cluster left the plan if that was not written.
	l.planned = planned
	for name := range l.leftWithoutEdit {
		if entry := written.Cluster(name); !before[name] && (entry == nil || entry.Transition.Type == "") {
			delete(l.leftWithoutEdit, name)
			l.plan[name] = true
		}
	}
}

// recordLeftWithoutEdit records which clusters left the plan without an edit.
func (l *loop) recordLeftWithoutEdit(in rollout.Input) {
	plan := map[string]bool{}
	for _, decision := range in.Plan {
		plan[decision.Cluster] = decision.Chosen()
		if l.plan[decision.Cluster] && !decision.Chosen() && l.planned == in.App.Generation && decision.Reason != v1alpha1.ReasonLimitReached {
			l.leftWithoutEdit[decision.Cluster] = true
		}
	}
	for name, chosen := range plan {
		if chosen {
			delete(l.leftWithoutEdit, name)
		}
	}
	l.plan, l.planned = plan, in.App.Generation
}

// check checks that one decision keeps the invariants. known is the decision, which has what was
// observed; status is the part of it that was written.
func (l *loop) check(t *rapid.T, in rollout.Input, status, known v1alpha1.AppServiceStatus) {
	for name, s := range l.members {
		if s.objects && status.Cluster(name) == nil {
			t.Fatalf("%s has objects and no entry", name)
		}
	}
	if !in.App.DeletionTimestamp.IsZero() {
		return
	}
	for _, entry := range status.Clusters {
		before := in.App.Status.Cluster(entry.Name)
		if before != nil && before.Phase != v1alpha1.ClusterRemoving && entry.Phase == v1alpha1.ClusterRemoving {
			l.checkRemoval(t, in, status, known, entry)
		}
	}
	unready := in.App.Annotations[v1alpha1.AnnotationAcceptUnready] == "true"
	if l.editing || unready || in.App.DesiredReplicas() == 0 || !slices.Contains(chosenNames(in), true) {
		return
	}
	if before, after := servingClusters(in, in.App.Status, known), servingClusters(in, status, known); before > 0 && after == 0 {
		t.Fatalf("without an edit, no cluster that is known to be ready keeps the AppService\nbefore:\n%s\nafter:\n%s", toJSON(t, in.App.Status.Clusters), toJSON(t, status.Clusters))
	}
	if in.App.Spec.ReplicaPolicy == nil || in.App.Spec.Autoscaling != nil {
		return
	}
	before, after, wanted := keptReplicas(in, in.App.Status, known), keptReplicas(in, status, known), in.App.DesiredReplicas()
	if after < min(before, wanted) {
		t.Fatalf("without an edit, only %[2]d of %[1]d ready replicas are kept; %[3]d are desired\nbefore:\n%s\nafter:\n%s",
			before, after, wanted, toJSON(t, in.App.Status.Clusters), toJSON(t, status.Clusters))
	}
}

// checkRemoval checks a removal that starts.
func (l *loop) checkRemoval(t *rapid.T, in rollout.Input, status, known v1alpha1.AppServiceStatus, entry v1alpha1.ClusterStatus) {
	if in.PlanError != nil || in.Plan.Find(entry.Name).Chosen() || in.App.Spec.Suspend {
		t.Fatalf("%s is Removing without intent", entry.Name)
	}
	accepted := in.App.Annotations[v1alpha1.AnnotationAcceptRemovals] != "" || entry.Transition.Accepted // now or before
	unready := in.App.Annotations[v1alpha1.AnnotationAcceptUnready] == "true"
	wanted := in.App.DesiredReplicas() > 0 && entry.ReadyReplicas > 0
	anyChosen := slices.Contains(chosenNames(in), true)
	switch {
	case wanted && anyChosen && !unready && !anyReady(in, known):
		t.Fatalf("the removal from %s starts, and no cluster of the plan is Ready with what it is to run\n%s", entry.Name, toJSON(t, status.Clusters))
	case !wanted || servingClusters(in, status, known) > 0:
	case !anyChosen && !accepted:
		t.Fatalf("the plan chooses no cluster, and the removal from %s, the last one that may be ready, starts without approval\n%s", entry.Name, toJSON(t, status.Clusters))
	case anyChosen && l.leftWithoutEdit[entry.Name] && !unready:
		t.Fatalf("the removal from %s starts without an edit, and no cluster that is known to be ready remains\n%s", entry.Name, toJSON(t, status.Clusters))
	}
	if !l.leftWithoutEdit[entry.Name] || accepted {
		return
	}
	l.removals = append(l.removals, l.now)
	recent := slices.DeleteFunc(slices.Clone(l.removals), func(at metav1.Time) bool { return l.now.Sub(at.Time) >= time.Hour })
	if len(recent) > 1 { // the limit for six clusters is one
		t.Fatalf("%d removals without an edit started within an hour", len(recent))
	}
}

// anyReady reports whether any cluster of the plan is Ready.
func anyReady(in rollout.Input, status v1alpha1.AppServiceStatus) bool {
	return slices.ContainsFunc(status.Clusters, func(entry v1alpha1.ClusterStatus) bool {
		return entry.Phase == v1alpha1.ClusterReady && in.Plan.Find(entry.Name).Chosen()
	})
}

func chosenNames(in rollout.Input) []bool {
	var chosen []bool
	for _, decision := range in.Plan {
		chosen = append(chosen, decision.Chosen() && in.Members[decision.Cluster] != nil)
	}
	return chosen
}

// servingClusters returns the number of clusters that keep running replicas that are currently
// known to be ready.
func servingClusters(in rollout.Input, plan, known v1alpha1.AppServiceStatus) int {
	n := 0
	for _, entry := range plan.Clusters {
		if readyNow(in, known, entry) > 0 {
			n++
		}
	}
	return n
}

// keptReplicas returns the number of replicas that are currently known to be ready and keep
// running.
func keptReplicas(in rollout.Input, plan, known v1alpha1.AppServiceStatus) int32 {
	var n int32
	for _, entry := range plan.Clusters {
		n += readyNow(in, known, entry)
	}
	return n
}

func readyNow(in rollout.Input, known v1alpha1.AppServiceStatus, entry v1alpha1.ClusterStatus) int32 {
	now := known.Cluster(entry.Name)
	if now == nil || in.Members[entry.Name] == nil || !in.Members[entry.Name].IsReady() ||
		entry.Phase == v1alpha1.ClusterRemoving || entry.Phase == v1alpha1.ClusterDetached || now.Phase == v1alpha1.ClusterPending {
		return 0
	}
	return min(now.ReadyReplicas, entry.Replicas)
}

var acceptance = regexp.MustCompile(`fleetwright\.dev/accept-removals=([0-9@]+)`)

// toAccept returns the annotation value that the Ready condition asks for, or "".
func (l *loop) toAccept() string {
	ready := meta.FindStatusCondition(l.app.Status.Conditions, v1alpha1.ConditionReady)
	if ready == nil {
		return ""
	}
	if found := acceptance.FindStringSubmatch(ready.Message); found != nil {
		return found[1]
	}
	return ""
}

// heal makes all members joined, Ready and able to run the AppService.
func (l *loop) heal() {
	for _, s := range l.members {
		s.joined, s.refuses, s.crashLoops = true, false, false
		l.setReady(s, true)
	}
	if l.app.Spec.Suspend {
		l.edit(func(spec *v1alpha1.AppServiceSpec) { spec.Suspend = false })
		l.editing = true
	}
	l.annotate(v1alpha1.AnnotationAcceptRemovals, "")
}

// converge makes the members carry out their entries, and approves what the status asks for, until
// nothing changes.
func (l *loop) converge(t *rapid.T) {
	for range 20 * len(l.members) {
		before := toJSON(t, l.app)
		if value := l.toAccept(); value != "" {
			l.annotate(v1alpha1.AnnotationAcceptRemovals, value)
		}
		for _, name := range l.names() {
			l.deliver(name)
			l.members[name].start(9)
			l.deliver(name)
		}
		l.advance(time.Minute)
		l.step(t)
		if toJSON(t, l.app) == before {
			return
		}
	}
	t.Fatalf("the loop does not come to rest:\n%s", toJSON(t, l.app.Status))
}

// checkConverged checks that exactly the desired state runs, and that nothing changes any more.
func (l *loop) checkConverged(t *rapid.T) {
	in := l.input()
	chosen := 0
	for _, decision := range in.Plan {
		entry := l.app.Status.Cluster(decision.Cluster)
		if !decision.Chosen() {
			if entry != nil || l.members[decision.Cluster] != nil && l.members[decision.Cluster].objects {
				t.Fatalf("%s is not in the plan (%s), and still has the entry\n%s", decision.Cluster, decision.Reason, toJSON(t, entry))
			}
			continue
		}
		chosen++
		if entry == nil || entry.Phase != v1alpha1.ClusterReady || entry.Replicas != decision.Replicas && decision.MaxReplicas == 0 || !l.members[decision.Cluster].objects {
			t.Fatalf("%s has %d desired replicas and the entry\n%s", decision.Cluster, decision.Replicas, toJSON(t, entry))
		}
	}
	if ready := meta.IsStatusConditionTrue(l.app.Status.Conditions, v1alpha1.ConditionReady); ready != (chosen > 0) {
		t.Fatalf("%d clusters are chosen; conditions:\n%s", chosen, toJSON(t, l.app.Status.Conditions))
	}
	l.advance(48 * time.Hour)
	if diff := cmp.Diff(toJSON(t, l.app.Status), toJSON(t, StatusOf(l.input()))); diff != "" {
		t.Fatalf("the status changed within two days (-before +after):\n%s", diff)
	}
}

// delete deletes the AppService, and checks that nothing is left of it.
func (l *loop) delete(t *rapid.T) {
	l.app = l.app.DeepCopy()
	l.app.DeletionTimestamp = &metav1.Time{Time: l.now.Time}
	l.converge(t)
	for name, s := range l.members {
		if s.objects {
			t.Fatal(fmt.Sprintf("%s still has objects", name))
		}
	}
	if len(l.app.Status.Clusters) > 0 {
		t.Fatalf("entries are left:\n%s", toJSON(t, l.app.Status.Clusters))
	}
}
