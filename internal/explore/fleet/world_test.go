package fleet

import (
	"fmt"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/observation"
	"github.com/fleetwright/fleetwright/controllers/revision"
	"github.com/fleetwright/fleetwright/internal/explore"
)

const (
	// minute is the unit of all times that a rule looks back. Time passes in steps that are a little longer
	// than some minutes, because the planner writes a second transition in one second a second later.
	minute instant = 60
	hour           = 60 * minute
	// most is the maximum number of clusters.
	most = 4

	uid       = "uid-1"
	namespace = "shop"
	appName   = "web"
)

var epoch = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

// instant is a time in seconds.
type instant int32

func (i instant) time() metav1.Time { return metav1.NewTime(epoch.Add(time.Duration(i) * time.Second)) }

// state is everything: the hub, the members, what the process knows, and what the rules remember. Pointers
// are to values that nobody changes.
type state struct {
	now instant
	// wish is the spec, and edits are how often users have changed it, where that is limited.
	wish  wish
	edits int8
	// app is the AppService on the hub.
	app *v1alpha1.AppService
	// previous is the AppService before its last change, which the caches of the operator may still have.
	// It is kept only where that matters.
	previous *v1alpha1.AppService
	// isGone is set when the AppService was deleted, and its last finalizer is removed.
	isGone bool
	// history are the ControllerRevisions, newest first.
	history []storedRevision
	members [most]member
	process process
	memory  memory
	// broken is the template that does not start in a healthy world, or -1. Otherwise pods of every template
	// may start or not.
	broken int8
}

// wish is a spec: the indexes of the choices of a configuration.
type wish struct {
	template, replicas, limit, rollout, placement, autoscaling, overrides int8
	paused, suspended                                                     bool
}

// storedRevision is a ControllerRevision.
type storedRevision struct {
	number   int64
	template int8
	object   *appsv1.ControllerRevision
}

// member is a member cluster: its object on the hub, and what runs there.
type member struct {
	object *v1alpha1.MemberCluster
	// answered is when it answered last; it answers all the time while it is Ready.
	answered instant

	// exists is set if the member has a Deployment, of this revision and placement.
	exists               bool
	runs, placed         int64
	replicas, ready      int8
	isUpdated, isFailing bool
}

// process is what the running operator remembers.
type process struct {
	// since is when it began to observe.
	since instant
	isNew bool
	seen  [most]*observation.Observation
	// seenSince is since when each cluster has been observed.
	seenSince [most]instant
}

// config is a bounded world.
type config struct {
	name string
	// clusters are the values of the label stage, for each cluster.
	clusters []string
	// templates, replicas, limits and so on are what users may choose. The first ones are
	// the initial ones.
	templates  []string
	replicas   []int32
	limits     []int32
	rollouts   []*v1alpha1.Rollout
	placements []*v1alpha1.Placement
	scalings   []*v1alpha1.Autoscaling
	overrides  [][]v1alpha1.Override
	// scenes are lists of events. After each event, the world is healthy until it is at rest.
	scenes [][]string
	// walks are lists of events, too, with nothing between the events.
	walks [][]string
	// events are the groups of actions that happen.
	events []string
	// tick is how many minutes pass at a time, and a little more.
	tick instant
	// maxEdits is how often users change the spec at most; 0 is no limit.
	maxEdits int8
	// isFinite is set if the world is small enough to be explored to its end, for some minutes.
	isFinite bool
	// policy divides the replicas; it may be nil.
	policy *v1alpha1.ReplicaPolicy
	// isRunning is set if the world begins when the first template runs everywhere, and otherwise with an
	// AppService that was never planned.
	isRunning bool
	// isSymmetric is set if clusters with the same label may be exchanged.
	isSymmetric bool
}

func (c *config) has(group string) bool { return slices.Contains(c.events, group) }

func clusterName(i int) string { return string(rune('a' + i)) }

// spec returns the spec of a wish.
func (c *config) spec(w wish) v1alpha1.AppServiceSpec {
	spec := v1alpha1.AppServiceSpec{
		Image: c.templates[w.template], Suspend: w.suspended, RevisionHistoryLimit: new(int32(0)), Replicas: &c.replicas[w.replicas],
		ReplicaPolicy: c.policy,
	}
	if len(c.rollouts) > 0 && c.rollouts[w.rollout] != nil {
		rollout := *c.rollouts[w.rollout]
		rollout.Paused = w.paused
		spec.Rollout = &rollout
	}
	if len(c.placements) > 0 && c.placements[w.placement] != nil {
		placement := *c.placements[w.placement]
		spec.Placement = &placement
	}
	if len(c.scalings) > 0 {
		spec.Autoscaling = c.scalings[w.autoscaling]
	}
	if len(c.overrides) > 0 {
		spec.Overrides = c.overrides[w.overrides]
	}
	if len(c.limits) > 0 && c.limits[w.limit] > 0 {
		if spec.Placement == nil {
			spec.Placement = &v1alpha1.Placement{}
		}
		spec.Placement.Limit = &c.limits[w.limit]
	}
	return spec
}

// initial returns the first state: nothing was planned yet.
func (c *config) initial() state {
	s := state{app: &v1alpha1.AppService{}, broken: -1}
	s.app.Namespace, s.app.Name, s.app.UID, s.app.Generation = namespace, appName, uid, 1
	s.app.Finalizers = []string{v1alpha1.Finalizer}
	s.app.Spec = c.spec(s.wish)
	s.process.isNew = true
	s.memory.stagesEdited = -hour // never
	for i, label := range c.clusters {
		object := &v1alpha1.MemberCluster{}
		object.Name, object.Labels = clusterName(i), map[string]string{"stage": label}
		object.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue, LastTransitionTime: s.now.time()}}
		s.members[i] = member{object: object}
	}
	return s
}

// starts returns the states in which the world begins: at rest, each state on the way through a scene in
// a healthy world, and each state of a walk. So an exploration need not be deep to see all of a rollout.
func (c *config) starts() ([]start, error) {
	s := c.initial()
	if c.has(eventLate) {
		s.previous = s.app
	}
	if !c.isRunning {
		return []start{{Name: "nothing was planned", State: s}}, nil
	}
	s, _, err := c.play(s, c.healthy()[0], "")
	if err != nil {
		return nil, err
	}
	if waiting := s.app.Status.Rollout.ActiveStage(); waiting != nil {
		s, _ = s.request(v1alpha1.AnnotationApprove, waiting.Name, 0)
		if s, _, err = c.play(s, c.healthy()[0], ""); err != nil {
			return nil, err
		}
	}
	all := []start{{Name: atRest, State: s}}
	for _, scene := range c.scenes {
		for _, way := range c.healthy() {
			at := s
			for _, event := range scene {
				name := event + ", " + way.Name
				if at, err = c.do(at, event); err != nil {
					return nil, err
				}
				var passed []start
				if at, passed, err = c.play(way.Heal(at), way, name); err != nil {
					return nil, fmt.Errorf("%s: %w", name, err)
				}
				all = append(all, passed...)
			}
		}
	}
	for _, walk := range c.walks {
		at := s
		for i, event := range walk {
			if at, err = c.do(at, event); err != nil {
				return nil, err
			}
			all = append(all, start{Name: strings.Join(walk[:i+1], "; "), State: at})
		}
	}
	for i := range all {
		all[i].State.broken = -1
	}
	return all, nil
}

// atRest is the name of the state in which the first template runs everywhere.
const atRest = "at rest"

type start = explore.Start[state]

// do returns the state after the event with this name.
func (c *config) do(s state, event string) (state, error) {
	actions := c.actions()
	i := slices.IndexFunc(actions, func(a action) bool { return a.Name == event })
	if i < 0 {
		return s, fmt.Errorf("there is no event %q", event)
	}
	next, happens, err := actions[i].Do(s)
	switch {
	case err != nil:
		return s, fmt.Errorf("%s: %w", event, err)
	case !happens:
		return s, fmt.Errorf("%s: it does not happen", event)
	}
	return next, nil
}

// play runs a healthy world to its end, and returns the states on the way.
func (c *config) play(s state, way explore.Healthy[state], name string) (state, []start, error) {
	passed := []start{{Name: name + ", step 0", State: s}}
	for {
		next, goesOn, err := way.Next(s)
		if err != nil || !goesOn {
			return next, passed, err
		}
		s = next
		passed = append(passed, start{Name: fmt.Sprintf("%s, step %d", name, len(passed)), State: s})
	}
}

// isReachable reports whether the member can be observed.
func (m *member) isReachable() bool {
	return m.object != nil && m.object.HasSecret() && m.object.IsReady()
}

// withApp returns a state with a changed AppService.
func (s state) withApp(change func(*v1alpha1.AppService)) state {
	app := *s.app
	change(&app)
	if s.previous != nil {
		s.previous = s.app
	}
	s.app = &app
	return s
}

// withMember returns a state with a changed MemberCluster.
func (s state) withMember(i int, change func(*v1alpha1.MemberCluster)) state {
	s.members[i].object = s.members[i].object.DeepCopy()
	change(s.members[i].object)
	return s
}

// edit returns a state with another spec.
func (c *config) edit(s state, change func(*wish)) (state, bool) {
	before := s.wish
	change(&s.wish)
	if s.wish == before || !s.app.DeletionTimestamp.IsZero() || c.maxEdits > 0 && s.edits == c.maxEdits {
		return s, false
	}
	if c.maxEdits > 0 {
		s.edits++
	}
	return s.withApp(func(app *v1alpha1.AppService) {
		app.Spec = c.spec(s.wish)
		app.Generation++
	}), true
}

// revisions returns the history as the planner reads it.
func (c *config) revisions(s state) revision.History {
	var history revision.History
	for _, stored := range slices.Backward(s.history) {
		template := revision.Template(c.spec(wish{template: stored.template}))
		history = history.With(revision.Stored{Number: stored.number, Template: template, Object: stored.object})
	}
	return history
}
