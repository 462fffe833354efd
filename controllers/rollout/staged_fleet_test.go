package rollout_test

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/configuration"
	"github.com/fleetwright/fleetwright/controllers/lineage"
	"github.com/fleetwright/fleetwright/controllers/observation"
	"github.com/fleetwright/fleetwright/controllers/placement"
	"github.com/fleetwright/fleetwright/controllers/rollout"
	. "github.com/fleetwright/fleetwright/controllers/rollout/rollouttest"
	"github.com/fleetwright/fleetwright/controllers/rollout/stages"
)

// stagedFleet simulates an AppService with spec.rollout, its planner, and members that run
// revisions. The image and the content of the configuration are the template: pods of a template
// with "bad" never start.
type stagedFleet struct {
	app       *v1alpha1.AppService
	members   map[string]*stagedMember
	seen      map[string]observation.Observation
	now       metav1.Time
	seenSince map[string]metav1.Time // since when seen has had an observation
	templates map[int64]string       // the ControllerRevisions
	decision  rollout.Decision       // the last one
	// planned is called after each decision with its input and the status before it; it may be nil.
	planned func(rollout.Input, v1alpha1.AppServiceStatus)

	content string // of the configuration, which is part of the template
	waits   bool   // the spec waits for a source that has no content
	// isUnlisted is set while it is not known which snapshots exist, as after a restart.
	isUnlisted bool
	lost       map[string]bool // the contents whose snapshots are lost
	// unstartable are revisions whose pods do not start any more, as without their image. Pods that
	// run already are not affected.
	unstartable map[int64]bool
	looks       int // how often an operator began to know the hub
}

// stagedMember is a member of a stagedFleet.
type stagedMember struct {
	member  v1alpha1.MemberCluster
	runs    int64       // the revision of its Deployment
	stamped int64       // the generation for which it was applied
	looks   int         // of the look since which the Deployment may be changed
	started metav1.Time // when its pods were started
	startup time.Duration
	sick    bool // its pods do not become ready with any revision
	refuses bool // it refuses every change
	errs    bool // it answers every change with an error that may be temporary

	// wants is the number of pods that an autoscaler of the member wants; 0 is that of the entry.
	wants int32
	// isAtZero is set while an autoscaler of the member runs no pods.
	isAtZero bool
	// adds is how many pods an autoscaler of the member has added that are not ready; loses is how
	// many of the others are not.
	adds, loses int32
	// lags is set while its Deployment is not up to date, although all pods are ready.
	lags bool
	// isWithoutAddress is set while its Service has no address, although all pods are ready.
	isWithoutAddress bool
	// isStuck is set if the pods were started with a revision that does not start any more.
	isStuck bool
	// isSilent is set while nothing comes from the member, and its MemberCluster is still Ready.
	isSilent    bool
	silentSince metav1.Time
}

func newStagedFleet() *stagedFleet {
	w := &stagedFleet{app: NewInput().App, members: map[string]*stagedMember{}, seen: map[string]observation.Observation{}, seenSince: map[string]metav1.Time{}, now: Now, templates: map[int64]string{}, lost: map[string]bool{}, unstartable: map[int64]bool{}}
	w.app.Generation = 1
	w.app.Spec.Image = "ok-0"
	w.app.Spec.Replicas = new(int32(2))
	w.app.Spec.Rollout = &v1alpha1.Rollout{}
	return w
}

// join adds a member with the label stage.
func (w *stagedFleet) join(name, stage string) *stagedMember {
	m := &stagedMember{member: *NewMember(name, metav1.ConditionTrue), startup: 10 * time.Second}
	m.member.Labels = map[string]string{"stage": stage, "zone": name[len(name)-1:], "size": "normal"}
	w.members[name] = m
	return m
}

func (w *stagedFleet) edit(change func(*v1alpha1.AppServiceSpec)) {
	w.app = w.app.DeepCopy()
	change(&w.app.Spec)
	w.app.Generation++
}

func (w *stagedFleet) editImage(image string) {
	w.edit(func(spec *v1alpha1.AppServiceSpec) { spec.Image = image })
}

func (w *stagedFleet) annotate(key, value string) {
	w.app = w.app.DeepCopy()
	metav1.SetMetaDataAnnotation(&w.app.ObjectMeta, key, value)
}

func (w *stagedFleet) names() []string { return slices.Sorted(maps.Keys(w.members)) }

// input returns the input that the planner would gather.
func (w *stagedFleet) input() rollout.Input {
	in := rollout.Input{App: w.app, Members: map[string]*v1alpha1.MemberCluster{}, Observations: maps.Clone(w.seen), Now: w.now}
	in.SeenSince, in.Answers = maps.Clone(w.seenSince), map[string]metav1.Time{}
	var members []v1alpha1.MemberCluster
	for _, name := range w.names() {
		member := w.members[name].member
		in.Members[name] = &member
		in.Answers[name] = w.now
		if m := w.members[name]; m.isSilent {
			in.Answers[name] = m.silentSince
		}
		members = append(members, member)
	}
	in = in.Recover()
	in.Plan, in.PlanError = placement.Decide(in.App, members)
	if !in.AwaitsReports() {
		in.Revision, in.Origin = w.revise()
	}
	for _, entry := range w.app.Status.Clusters {
		isSame := entry.Revision != in.Revision && entry.Revision != 0 && w.templates[entry.Revision] == w.templates[in.Revision]
		if isSame && !slices.Contains(in.SameRevisions, entry.Revision) {
			in.SameRevisions = append(in.SameRevisions, entry.Revision)
		}
	}
	in.IsSpecPending = in.Revision == 0 || w.templates[in.Revision] != w.template()
	in.IsRevisionMissing, in.IsStableMissing = w.isLost(in.Revision), w.isLost(w.app.Status.Rollout.StableRevision)
	in.Configuration = &configuration.Decision{AreUnlisted: w.isUnlisted}
	return in
}

// template returns what a revision of the spec has: the image, and the content of the
// configuration.
func (w *stagedFleet) template() string { return w.app.Spec.Image + " " + w.content }

// isLost reports whether the snapshot of a revision is lost. The decision about the configuration
// creates that of the content in use again, or waits.
func (w *stagedFleet) isLost(revision int64) bool {
	_, content, _ := strings.Cut(w.templates[revision], " ")
	return w.lost[content]
}

// revise returns the revision of the spec, as the planner does.
func (w *stagedFleet) revise() (int64, stages.RevisionOrigin) {
	state, template := w.app.Status.Rollout, w.template()
	is := func(revision int64) bool { return revision != 0 && w.templates[revision] == template }
	if w.waits || w.lost[w.content] {
		return state.Revision, stages.RevisionEdited
	}
	next, origin := int64(len(w.templates)+1), stages.RevisionEdited
	if next-1 > max(state.Revision, state.FailedRevision, state.StableRevision) && is(next-1) { // stored before a crash
		next--
	}
	switch {
	case is(state.Revision) && !stages.RetriesRevision(w.app):
		return state.Revision, origin
	case is(state.Revision):
		origin = stages.RevisionRetried
	case is(state.StableRevision):
		return state.StableRevision, origin
	case is(state.PreviousRevision):
		origin = stages.RevisionUndone
	}
	w.templates[next] = template
	return next, origin
}

// plan makes a decision and writes it.
func (w *stagedFleet) plan() rollout.Decision {
	return w.planFor(w.input())
}

func (w *stagedFleet) planFor(in rollout.Input) rollout.Decision {
	decision, before := rollout.Plan(in), w.app.Status
	w.write(decision)
	if w.planned != nil {
		w.planned(in, before)
	}
	return decision
}

// write stores the parts of the status on which later decisions depend.
func (w *stagedFleet) write(decision rollout.Decision) {
	w.decision = decision
	for _, name := range decision.StaleObservations {
		delete(w.seen, name)
	}
	for _, entry := range w.app.Status.Clusters {
		if !slices.ContainsFunc(decision.Entries, func(e v1alpha1.ClusterStatus) bool { return e.Name == entry.Name }) {
			delete(w.seen, entry.Name)
		}
	}
	w.app = w.app.DeepCopy()
	w.app.Status.ObservedGeneration, w.app.Status.Clusters, w.app.Status.Rollout = w.app.Generation, decision.Entries, decision.Rollout
	if w.waits || len(w.lost) > 0 || w.content != "" {
		w.app.Status.Configuration = []v1alpha1.ConfigurationStatus{{Kind: v1alpha1.ConfigurationConfigMap, From: "settings"}}
	}
	w.app.Status.Removals, w.app.Status.PlannedSpecs, w.app.Status.Placement.SpecHash = decision.Removals, decision.PlannedSpecs, decision.PlacementHash
	w.app.Status.Placement.ReplicasHash = decision.ReplicasHash
}

// deliver makes a member carry out its entry, and reports its state.
func (w *stagedFleet) deliver(name string) {
	m, entry := w.members[name], w.app.Status.Cluster(name)
	if m == nil || entry == nil || !m.member.IsReady() {
		delete(w.seen, name)
		return
	}
	if m.isSilent {
		return
	}
	if _, found := w.seen[name]; !found {
		w.seenSince[name] = w.now
	}
	seen := observation.Observation{UID: w.app.UID, Generation: entry.Generation, Revision: entry.Revision, Planned: entry.Replicas, Applied: entry.ObservedGeneration}
	isApplied := !w.app.Spec.Suspend && entry.Revision != 0 && entry.Generation == w.app.Generation
	switch {
	case entry.Phase == v1alpha1.ClusterRemoving:
		m.runs = 0
		seen.Phase, seen.GoneSince = v1alpha1.ClusterRemoving, entry.LastTransitionTime
		w.seen[name] = seen
		return
	case isApplied && m.errs && seen.Applied < entry.Generation:
		seen.Phase, seen.Reason = v1alpha1.ClusterProgressing, v1alpha1.ReasonApplyFailed
		w.seen[name] = seen
		return
	case isApplied && m.refuses && m.runs != entry.Revision:
		seen.Phase, seen.Reason = v1alpha1.ClusterFailed, v1alpha1.ReasonRefused
		w.seen[name] = seen
		return
	case isApplied && w.isTakenBack(m, entry):
		seen.Phase, seen.IsTakenBack, seen.StampedRevision = v1alpha1.ClusterProgressing, true, m.runs
		seen.Look = w.look()
		w.seen[name] = seen
		return
	case isApplied && m.runs != entry.Revision:
		m.runs, m.stamped, m.started, m.isStuck = entry.Revision, w.app.Generation, w.now, w.unstartable[entry.Revision]
	}
	if isApplied {
		m.looks = w.looks
		seen.Applied = entry.Generation
	}
	w.observePods(m, entry, &seen)
	w.seen[name] = seen
}

// observePods sets in an observation the state of the pods of a member.
func (w *stagedFleet) observePods(m *stagedMember, entry *v1alpha1.ClusterStatus, seen *observation.Observation) {
	seen.Phase, seen.Reason = v1alpha1.ClusterProgressing, v1alpha1.ReasonRollingOut
	pods := cmp.Or(m.wants, entry.Replicas)
	if m.isAtZero {
		pods = 0
	}
	isUp := !m.sick && !m.isStuck && !strings.Contains(w.templates[m.runs], "bad") && w.now.Sub(m.started.Time) >= m.startup
	switch {
	case m.runs == 0, pods > 0 && !isUp:
	case pods > 0 && (m.adds+m.loses > 0 || m.lags):
		seen.Replicas, seen.ReadyReplicas = pods+m.adds, pods-m.loses
	default:
		seen.Phase, seen.Reason = v1alpha1.ClusterReady, ""
		seen.Replicas, seen.ReadyReplicas = pods, pods
		if m.isWithoutAddress {
			seen.Phase, seen.Reason = v1alpha1.ClusterProgressing, v1alpha1.ReasonLoadBalancerPending
		}
	}
}

// look returns the look of the running operator.
func (w *stagedFleet) look() observation.Look { return observation.Look{ID: fmt.Sprint(w.looks)} }

// isTakenBack reports whether delivery holds the Deployment of a member, as it does at its first look.
func (w *stagedFleet) isTakenBack(m *stagedMember, entry *v1alpha1.ClusterStatus) bool {
	stamp := lineage.Stamp{UID: w.app.UID, Revision: m.runs, Generation: m.stamped}
	return m.looks != w.looks && entry.Recreate != w.look().ID && lineage.IsTakenBack(w.app, entry, stamp)
}

// restart starts another operator.
func (w *stagedFleet) restart() {
	clear(w.seen)
	w.looks++
}

// restore takes the hub back to a backup.
func (w *stagedFleet) restore(backup *v1alpha1.AppService) {
	w.app = backup.DeepCopy()
	w.restart()
}

func (w *stagedFleet) deliverAll() {
	for _, name := range w.names() {
		w.deliver(name)
	}
}

func (w *stagedFleet) setReady(name string, ready bool) {
	status := metav1.ConditionFalse
	if ready {
		status = metav1.ConditionTrue
	}
	m := w.members[name]
	if m.member.IsReady() != ready {
		m.member.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionReady, Status: status, LastTransitionTime: w.now}}
	}
}

// with returns the names of the clusters that have a revision.
func (w *stagedFleet) with(revision int64) []string {
	var names []string
	for _, e := range w.app.Status.Clusters {
		if e.Revision == revision {
			names = append(names, e.Name)
		}
	}
	return names
}

// advance lets time pass. If d is negative, the clock is set back, and the pods are as old as
// before.
func (w *stagedFleet) advance(d time.Duration) {
	w.now = metav1.NewTime(w.now.Add(d))
	for _, m := range w.members {
		m.started = metav1.NewTime(m.started.Add(min(0, d)))
	}
}

// run delivers and plans until nothing changes any more, and reports whether it comes to that. Time
// advances only to what a member or a decision waits for. check runs after each decision.
func (w *stagedFleet) run(check func()) bool {
	for range 400 {
		w.deliverAll()
		before := fmt.Sprint(toText(w.app.Status))
		w.plan()
		if check != nil {
			check()
		}
		isChanged := before != fmt.Sprint(toText(w.app.Status))
		wait := w.decision.RecheckAfter
		for _, m := range w.members {
			if left := m.startup - w.now.Sub(m.started.Time); left > 0 && (wait == 0 || left < wait) {
				wait = left
			}
		}
		if !isChanged && wait == 0 {
			return true
		}
		if !isChanged {
			w.advance(wait)
		}
	}
	return false
}

// toText returns the parts of a status that decisions depend on, for comparisons.
func toText(status v1alpha1.AppServiceStatus) string {
	var text strings.Builder
	for _, e := range status.Clusters {
		fmt.Fprintf(&text, "%s@%d %s %s %s a=%d i=%t b=%t s=%s g=%d/%d r=%d\n", e.Name, e.Revision, e.Phase, timeOf(&e.LastTransitionTime), timeOf(e.UnavailableSince), e.AvailableReplicas, e.Impaired, e.Returned, e.Stage, e.ObservedGeneration, e.Generation, e.Replicas)
	}
	s := status.Rollout
	fmt.Fprintf(&text, "%d stable=%d previous=%d failed=%d %s %v paused=%t undo=%t stableFails=%v\n", s.Revision, s.StableRevision, s.PreviousRevision, s.FailedRevision, s.Phase, timeOf(s.Since), s.Paused, s.Undo, s.ReturnFailedClusters)
	for _, stage := range s.Stages {
		fmt.Fprintf(&text, "  %s %s %s a=%t p=%t %d/%d/%d/%d\n", stage.Name, stage.Phase, timeOf(&stage.Since), stage.Approved, stage.Promoted, stage.Clusters, stage.UpToDate, stage.Available, stage.Failed)
	}
	return text.String()
}

func timeOf(t *metav1.Time) string {
	if t == nil {
		return "-"
	}
	return t.UTC().Format("2 15:04:05")
}
