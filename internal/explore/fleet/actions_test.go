package fleet

import (
	"fmt"
	"regexp"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/rollout/stages"
	"github.com/fleetwright/fleetwright/internal/explore"
)

type action = explore.Action[state]

// Groups of actions.
const (
	eventPods     = "pods"     // pods fail and recover
	eventOutage   = "outage"   // members are lost and answer again
	eventRestart  = "restart"  // the operator restarts, also between two writes
	eventLate     = "late"     // members act on what they read before the last write
	eventBack     = "edit"     // the template is edited
	eventReplicas = "replicas" // and the replicas
	eventLimit    = "limit"
	eventStages   = "stages" // spec.rollout is edited
	eventMove     = "move"   // spec.placement is edited
	eventApprove  = "approve"
	eventPromote  = "promote"
	eventPause    = "pause"
	eventAbort    = "abort"
	eventRetry    = "retry"
	eventWrong    = "wrong" // requests that name another revision
	eventSecret   = "secret"
	eventLabel    = "label"
	eventCordon   = "cordon"
	eventDrain    = "drain"
	eventAbandon  = "abandon"
	eventScaling  = "scaling"   // autoscaling is edited, and autoscalers change the replicas
	eventOverride = "overrides" // overrides are edited
	eventAccept   = "accept"    // accept-unready, and accept-removals with what the status asks for
	eventSuspend  = "suspend"
	eventDelete   = "delete"
	eventHour     = "hour"
)

// actions returns what may happen in a world.
func (c *config) actions() []action {
	actions := []action{
		{Name: "plan", Do: c.checkedPlan},
		simple("a tick passes", func(s state) (state, bool) { s.now += c.tick*minute + 2; return s, true }),
	}
	if c.has(eventHour) {
		actions = append(actions, simple("an hour passes", func(s state) (state, bool) { s.now += hour + 2; return s, true }))
	}
	for i := range c.clusters {
		actions = append(actions, c.memberActions(i)...)
	}
	if c.has(eventRestart) {
		actions = append(actions,
			simple("the operator restarts", func(s state) (state, bool) { return s.restart(), true }),
			simple("the operator stores a revision and crashes", c.crash))
	}
	if c.has(eventLate) {
		actions = append(actions, simple("the operator plans what was before, and loses the write", c.planStale))
	}
	return append(append(actions, c.edits()...), c.requests()...)
}

// simple returns an action that breaks no rule by itself.
func simple(name string, do func(state) (state, bool)) action {
	return action{Name: name, Do: func(s state) (state, bool, error) {
		next, happens := do(s)
		return next, happens, nil
	}}
}

// restart starts another process.
func (s state) restart() state {
	s.process = process{since: s.now, isNew: s.process.isNew && s.app.Status.ObservedGeneration == 0}
	return s
}

// crash ends the process after it has written what comes before the status.
func (c *config) crash(s state) (state, bool) {
	next, _ := c.prepare(s)
	if slices.Equal(next.history, s.history) && next.members == s.members {
		return s, false
	}
	return next.restart(), true
}

// planStale makes a plan from the AppService before its last change. Its status is refused, because the
// version differs; what was written before it stays.
func (c *config) planStale(s state) (state, bool) {
	live := s.app
	if s.previous == live {
		return s, false
	}
	stale := s
	stale.app = s.previous
	next, _ := c.prepare(stale)
	next.app = live
	return next, !slices.Equal(next.history, s.history) || next.members != s.members
}

// memberActions returns what happens to one member.
func (c *config) memberActions(i int) []action {
	var actions []action
	add := func(group, what string, do func(s state) (state, bool)) {
		if group == "" || c.has(group) {
			actions = append(actions, simple(clusterName(i)+" "+what, func(s state) (state, bool) {
				if s.members[i].object == nil {
					return s, false
				}
				return do(s)
			}))
		}
	}
	add("", "carries out its entry", func(s state) (state, bool) { return c.deliver(s, i) })
	add(eventLate, "acts on what was before", func(s state) (state, bool) { return c.deliverStale(s, i) })
	add("", "starts its pods", func(s state) (state, bool) { return c.startPods(s, i) })
	add(eventPods, "has pods that fail", func(s state) (state, bool) {
		m := &s.members[i]
		if !m.exists || m.replicas == 0 || m.isFailing && m.ready == 0 {
			return s, false
		}
		if m.isUpdated || m.isFailing { // otherwise those of the revision before go on
			m.ready = 0
		}
		m.isFailing = true
		return s, true
	})
	for _, more := range []int8{1, -1} {
		add(eventScaling, fmt.Sprintf("gets %+d pods from its autoscaler", more), func(s state) (state, bool) {
			m, entry := &s.members[i], s.entry(clusterName(i))
			if !m.exists || entry == nil || entry.MaxReplicas == 0 || int32(m.replicas+more) < entry.MinReplicas || int32(m.replicas+more) > entry.MaxReplicas {
				return s, false
			}
			m.replicas += more
			m.ready, m.isUpdated = min(m.ready, m.replicas), m.isUpdated && m.ready >= m.replicas
			return s, true
		})
	}
	add(eventOutage, "is lost", func(s state) (state, bool) { return s.setReady(i, metav1.ConditionFalse) })
	add(eventOutage, "answers again", func(s state) (state, bool) {
		if !s.members[i].object.HasSecret() {
			return s, false
		}
		return s.setReady(i, metav1.ConditionTrue)
	})
	add(eventSecret, "loses its Secret or gets it back", func(s state) (state, bool) {
		if !s.members[i].object.HasSecret() {
			s, _ = s.withMember(i, func(object *v1alpha1.MemberCluster) { object.Status.SecretMissingSince = nil }).setReady(i, metav1.ConditionTrue)
			return s, true
		}
		s, _ = s.setReady(i, metav1.ConditionUnknown)
		return s.withMember(i, func(object *v1alpha1.MemberCluster) { object.Status.SecretMissingSince = new(s.now.time()) }), true
	})
	add(eventLabel, "changes its label", func(s state) (state, bool) {
		return s.withMember(i, func(object *v1alpha1.MemberCluster) {
			label := c.clusters[i]
			if object.Labels["stage"] == label {
				label = "other"
			}
			object.Labels = map[string]string{"stage": label}
		}), true
	})
	add(eventCordon, "is cordoned or uncordoned", func(s state) (state, bool) {
		return s.withMember(i, func(object *v1alpha1.MemberCluster) { object.Spec.Unschedulable = !object.Spec.Unschedulable }), true
	})
	add(eventDrain, "is drained or not any more", func(s state) (state, bool) {
		return s.withMember(i, func(object *v1alpha1.MemberCluster) {
			if len(object.Spec.Taints) > 0 {
				object.Spec.Taints = nil
			} else {
				object.Spec.Taints = []v1alpha1.Taint{{Key: "drain", Effect: v1alpha1.TaintEffect(corev1.TaintEffectNoExecute)}}
			}
		}), true
	})
	add(eventAbandon, "is abandoned", func(s state) (state, bool) {
		return s.annotate(v1alpha1.AnnotationAbandon, clusterName(i))
	})
	return actions
}

// startPods makes the pods of a member ready.
func (c *config) startPods(s state, i int) (state, bool) {
	m := &s.members[i]
	if !m.exists || m.isUpdated && m.ready == m.replicas {
		return s, false
	}
	m.ready, m.isUpdated, m.isFailing = m.replicas, true, false
	s.memory.ready = with(s.memory.ready, compareAt, revisionAt{m.runs, m.object.Labels["stage"]})
	return s, true
}

func (s state) setReady(i int, status metav1.ConditionStatus) (state, bool) {
	if object := s.members[i].object; object.IsReady() == (status == metav1.ConditionTrue) {
		return s, false
	}
	s = s.withMember(i, func(object *v1alpha1.MemberCluster) {
		object.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionReady, Status: status, LastTransitionTime: s.now.time()}}
	})
	s.members[i].answered = s.now
	s.process.seen[i], s.process.seenSince[i] = nil, 0
	return s, true
}

// edits returns what users change in the spec.
func (c *config) edits() []action {
	var actions []action
	add := func(group, name string, change func(*wish)) {
		if c.has(group) {
			actions = append(actions, simple("edit: "+name, func(s state) (state, bool) {
				next, happens := c.edit(s, change)
				next.memory.isEdited = next.memory.isEdited || happens
				return next, happens
			}))
		}
	}
	for i, image := range c.templates {
		add(eventBack, "image "+image, func(w *wish) { w.template = int8(i) })
	}
	for i, replicas := range c.replicas {
		add(eventReplicas, fmt.Sprintf("%d replicas", replicas), func(w *wish) { w.replicas = int8(i) })
	}
	for i, limit := range c.limits {
		add(eventLimit, fmt.Sprintf("limit %d", limit), func(w *wish) { w.limit = int8(i) })
	}
	for i := range c.rollouts {
		add(eventStages, fmt.Sprintf("rollout %d", i), func(w *wish) { w.rollout = int8(i) })
	}
	for i := range c.placements {
		add(eventMove, fmt.Sprintf("placement %d", i), func(w *wish) { w.placement = int8(i) })
	}
	for i, scaling := range c.scalings {
		name := "no autoscaling"
		if scaling != nil {
			name = fmt.Sprintf("autoscaling up to %d", scaling.MaxReplicas)
		}
		add(eventScaling, name, func(w *wish) { w.autoscaling = int8(i) })
	}
	for i := range c.overrides {
		add(eventOverride, fmt.Sprintf("overrides %d", i), func(w *wish) { w.overrides = int8(i) })
	}
	add(eventPause, "pause or go on", func(w *wish) { w.paused = !w.paused })
	add(eventSuspend, "suspend or resume", func(w *wish) { w.suspended = !w.suspended })
	if c.has(eventDelete) {
		actions = append(actions, simple("the AppService is deleted", func(s state) (state, bool) {
			if !s.app.DeletionTimestamp.IsZero() {
				return s, false
			}
			return s.withApp(func(app *v1alpha1.AppService) {
				app.DeletionTimestamp = new(s.now.time())
				app.Generation++
			}), true
		}))
	}
	return actions
}

// requests returns what users ask for by annotations.
func (c *config) requests() []action {
	var actions []action
	add := func(group, name, key, stage string, newer int64) {
		if !c.has(group) {
			return
		}
		actions = append(actions, simple(name, func(s state) (state, bool) { return s.request(key, stage, newer) }))
	}
	names := c.stageNames()
	for _, stage := range names {
		add(eventApprove, "approve "+stage, v1alpha1.AnnotationApprove, stage, 0)
		add(eventPromote, "promote "+stage, v1alpha1.AnnotationPromote, stage, 0)
	}
	add(eventPromote, "promote all stages", v1alpha1.AnnotationPromote, "", 0)
	add(eventPause, "pause this revision", v1alpha1.AnnotationPause, "", 0)
	add(eventAbort, "abort", v1alpha1.AnnotationAbort, "", 0)
	add(eventRetry, "retry", v1alpha1.AnnotationRetry, "", 0)
	if c.has(eventWrong) {
		for _, stage := range names {
			add(eventApprove, "approve "+stage+" of the next revision", v1alpha1.AnnotationApprove, stage, 1)
		}
		add(eventAbort, "abort the next revision", v1alpha1.AnnotationAbort, "", 1)
		add(eventRetry, "retry the next revision", v1alpha1.AnnotationRetry, "", 1)
	}
	if c.has(eventAccept) {
		actions = append(actions, simple("accept removals", func(s state) (state, bool) {
			value := s.toAccept()
			if value == "" {
				return s, false
			}
			return s.annotate(v1alpha1.AnnotationAcceptRemovals, value)
		}), simple("accept no removals any more", func(s state) (state, bool) {
			return s.annotate(v1alpha1.AnnotationAcceptRemovals, "")
		}), simple("accept unready clusters, or not any more", func(s state) (state, bool) {
			if s.app.Annotations[v1alpha1.AnnotationAcceptUnready] != "" {
				return s.annotate(v1alpha1.AnnotationAcceptUnready, "")
			}
			return s.annotate(v1alpha1.AnnotationAcceptUnready, "true")
		}))
	}
	return actions
}

// request sets an annotation that names the revision of the status, or a newer one, and a stage.
func (s state) request(key, stage string, newer int64) (state, bool) {
	number := s.app.Status.Rollout.Revision
	if number == 0 {
		return s, false
	}
	value := fmt.Sprint(number + newer)
	if stage != "" {
		value += "/" + stage
	}
	next, happens := s.annotate(key, value)
	for _, shown := range s.app.Status.Rollout.Stages {
		if happens && newer == 0 && (stage == "" || stage == shown.Name) {
			next.memory.approved = with(next.memory.approved, compareAt, revisionAt{number, key + "/" + shown.Name})
		}
	}
	return next, happens
}

var acceptance = regexp.MustCompile(`fleetwright\.dev/accept-removals=([0-9@]+)`)

// toAccept returns the value of the annotation that the condition Ready asks for, or "".
func (s state) toAccept() string {
	ready := meta.FindStatusCondition(s.app.Status.Conditions, v1alpha1.ConditionReady)
	if ready == nil {
		return ""
	}
	if found := acceptance.FindStringSubmatch(ready.Message); found != nil {
		return found[1]
	}
	return ""
}

// stageNames returns the names of the stages of all rollouts.
func (c *config) stageNames() []string {
	var names []string
	if len(c.rollouts) == 0 || c.rollouts[0] == nil {
		return nil
	}
	for _, stage := range c.rollouts[0].Stages {
		names = append(names, stage.Name)
	}
	return append(names, stages.RestStage)
}

func (s state) annotate(key, value string) (state, bool) {
	if s.app.Annotations[key] == value {
		return s, false
	}
	return s.withApp(func(app *v1alpha1.AppService) {
		annotations := map[string]string{}
		for k, v := range app.Annotations {
			annotations[k] = v
		}
		if annotations[key] = value; value == "" {
			delete(annotations, key)
		}
		app.Annotations = annotations
	}), true
}
