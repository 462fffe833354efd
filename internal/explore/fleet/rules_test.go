package fleet

import (
	"fmt"
	"slices"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/rollout/entryplan"
	"github.com/fleetwright/fleetwright/internal/explore"
)

// step is a plan, with the states around it.
type step struct {
	*config
	before, after state
	planned
	// isWritten is set if the plan changes anything.
	isWritten bool
}

// rule is an invariant of each plan. It returns what is wrong, or "".
type rule struct {
	name  string
	check func(*step) string
}

// rules state the invariants of docs/architecture.md and of package stages a second time, as simply as
// possible, so that they do not repeat what the packages compute.
var rules = []rule{
	{"a decision twice is the same as once", (*step).repeats},
	{"no decision depends on a reason", (*step).ignoresReasons},
	{"Unknown is called Unknown", (*step).knows},
	{"Ready is what was observed", (*step).tellsReady},
	{"what runs has an entry", (*step).records},
	{"a cluster gets only the target or the stable revision", (*step).getsKnownRevision},
	{"a cluster gets only a revision that is stored", (*step).getsStoredRevision},
	{"a new cluster begins with the stable revision", (*step).beginsWithStable},
	{"a failed revision comes back to no cluster", (*step).keepsFailedAway},
	{"a failed template is tried again after the rollback", (*step).retriesLate},
	{"no cluster gets another revision while the rollout is paused", (*step).pauses},
	{"a cluster that nobody observes does not get the target", (*step).looksFirst},
	{"a stage begins when the stages before it are proven", (*step).provesInOrder},
	{"an undo has the template of the stable revision before", (*step).undoes},
	{"a stage that needs approval begins with one", (*step).asks},
	{"no more clusters are updating than maxUnavailable", (*step).keepsBudget},
	{"no more Ready clusters go back than maxUnavailable", (*step).goesBackSlowly},
	{"a stage gives the target to one cluster more than it has proven", (*step).provesOneByOne},
	{"a cluster is available after minReadySeconds", (*step).waitsUntilAvailable},
	{"a stage ends when none of its clusters is updating", (*step).waitsForUpdating},
	{"a stage soaks before it is completed", (*step).soaks},
	{"a completed stage stays completed", (*step).staysCompleted},
	{"the stable revision was ready", (*step).provesStable},
	{"a failed revision does not become stable", (*step).adoptsNoFailed},
	{"without stages, a revision is stable when every cluster runs it", (*step).adoptsComplete},
	{"a completed rollout was ready in each stage", (*step).provesCompleted},
	{"the plan chooses what the spec asks for", (*step).choosesClusters},
	{"the plan has the replicas of the spec", (*step).plansReplicas},
	{"a removal has a reason", (*step).removesWithIntent},
	{"a removal waits for another cluster", (*step).removesWithReplacement},
	{"one removal at a time", (*step).removesOneByOne},
	{"few removals and scale-downs start without an edit", (*step).limitsRemovals},
	{"no more removals and scale-downs are approved than a user has", (*step).acceptsFew},
	{"without an edit, something keeps running", (*step).keepsServing},
	{"without an edit, divided replicas that are ready stay", (*step).keepsDivided},
	{"no replica count is lower than in the plan", (*step).keepsReplicas},
}

// checkedPlan makes a plan and checks it by all rules.
func (c *config) checkedPlan(s state) (state, bool, error) {
	if s.isGone {
		return s, false, nil
	}
	next, p := c.plan(s)
	isWritten := !equality.Semantic.DeepEqual(s.app.Status, p.status) || !slices.Equal(next.history, s.history) ||
		next.process != s.process || next.members != s.members || next.isGone
	st := &step{config: c, before: s, after: next, planned: p, isWritten: isWritten}
	for _, rule := range rules {
		if problem := rule.check(st); problem != "" {
			return s, false, &explore.RuleError{Rule: rule.name, Problem: problem}
		}
	}
	if !isWritten {
		return s, false, nil
	}
	return st.remember(), true, nil
}

// was returns the entry of a cluster before the plan, or nil. One that is being removed counts as none.
func (st *step) was(cluster string) *v1alpha1.ClusterStatus {
	if entry := st.before.app.Status.Cluster(cluster); entry != nil && entry.Phase != v1alpha1.ClusterRemoving {
		return entry
	}
	return nil
}

// gets returns the entries that get another revision.
func (st *step) gets() []v1alpha1.ClusterStatus {
	var entries []v1alpha1.ClusterStatus
	for _, entry := range st.status.Clusters {
		had := int64(0)
		if was := st.in.App.Status.Cluster(entry.Name); was != nil && (was.Phase != v1alpha1.ClusterRemoving || !entryplan.IsPlanned(entry)) {
			had = was.Revision
		}
		if entry.Revision != had {
			entries = append(entries, entry)
		}
	}
	return entries
}

func (st *step) target() int64 { return st.in.Revision }

// label returns the label of a cluster, which says to which stage it belongs.
func (st *step) label(cluster string) string {
	return st.before.members[indexOf(cluster)].object.Labels["stage"]
}

// repeats checks that the next decisions change nothing. If one does, because the cluster of an entry that
// ended is excluded for another reason, the decision before it says that it is to be made soon.
func (st *step) repeats() string {
	if !st.isWritten { // the next decision is this one
		return ""
	}
	s, p := st.after, st.planned
	for range 3 {
		next, again := st.plan(s)
		if equality.Semantic.DeepEqual(p.status, again.status) && slices.Equal(s.history, next.history) {
			return ""
		}
		if p.decision.RecheckAfter != time.Second && !st.isDeleting() { // a deletion is planned again after some seconds
			return "the status changes (-first +second):\n" + cmp.Diff(p.status, again.status)
		}
		s, p = next, again
	}
	return "the status changes again and again"
}

// ignoresReasons checks that a plan decides the same if the entries have another reason. It does so where one
// is Failed, because only then a reason may say why.
func (st *step) ignoresReasons() string {
	isFailed := func(entry v1alpha1.ClusterStatus) bool { return entry.Phase == v1alpha1.ClusterFailed }
	if !slices.ContainsFunc(st.before.app.Status.Clusters, isFailed) {
		return ""
	}
	other := st.before.withApp(func(app *v1alpha1.AppService) {
		app.Status.Clusters = slices.Clone(app.Status.Clusters)
		for i := range app.Status.Clusters {
			app.Status.Clusters[i].Reason = v1alpha1.ReasonImagePullBackOff
		}
	})
	_, again := st.plan(other)
	for i, entry := range st.status.Clusters {
		if i >= len(again.status.Clusters) || again.status.Clusters[i].Revision != entry.Revision || again.status.Clusters[i].Phase != entry.Phase {
			return entry.Name + " is planned otherwise if it has another reason"
		}
	}
	if is, was := again.status.Rollout, st.status.Rollout; is.Phase != was.Phase || is.FailedRevision != was.FailedRevision {
		return fmt.Sprintf("the rollout is %s, and %s if an entry has another reason", was.Phase, is.Phase)
	}
	return ""
}

func (st *step) knows() string {
	for _, entry := range st.status.Clusters {
		if entry.Phase == v1alpha1.ClusterReady && !st.after.members[indexOf(entry.Name)].isReachable() {
			return entry.Name + " cannot be reached and is Ready"
		}
	}
	return ""
}

// tellsReady checks that an entry becomes Ready by an observation, and then says what runs on the cluster.
func (st *step) tellsReady() string {
	for _, entry := range st.status.Clusters {
		m := st.after.members[indexOf(entry.Name)]
		isAutoscaled := entry.MaxReplicas > 0
		was := st.before.app.Status.Cluster(entry.Name)
		if isObserved := st.in.ObservationOf(entry.Name) != nil; !isObserved && entry.Phase == v1alpha1.ClusterReady && (was == nil || was.Phase != v1alpha1.ClusterReady) {
			return entry.Name + " becomes Ready, and was not observed"
		}
		isSo := m.exists && m.runs == entry.Revision && (isAutoscaled || int32(m.replicas) == entry.Replicas)
		if entry.Phase == v1alpha1.ClusterReady && entry.Revision != 0 && st.in.ObservationOf(entry.Name) != nil && !isSo {
			return fmt.Sprintf("%s is Ready with revision %d and %d replicas, and runs revision %d with %d", entry.Name, entry.Revision, entry.Replicas, m.runs, m.replicas)
		}
	}
	return ""
}

func (st *step) records() string {
	for _, was := range st.before.app.Status.Clusters {
		m := st.after.members[indexOf(was.Name)]
		isForgotten := !m.object.HasSecret() && st.in.IsAbandoned(was.Name) // a user wants that
		if m.exists && st.status.Cluster(was.Name) == nil && !m.object.IsAbandoned(uid) && !isForgotten {
			return was.Name + " has a Deployment and no entry"
		}
	}
	return ""
}

func (st *step) isDeleting() bool { return !st.before.app.DeletionTimestamp.IsZero() }
