package timeline_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/cmd/kubectl-appsvc/ui/timeline"
	"github.com/fleetwright/fleetwright/controllers/observation"
	"github.com/fleetwright/fleetwright/controllers/rollout"
	. "github.com/fleetwright/fleetwright/controllers/rollout/rollouttest"
	"github.com/fleetwright/fleetwright/controllers/status"
	"github.com/fleetwright/fleetwright/internal/golden"
)

// operator makes the decisions of the operator, one a minute, and records its events.
type operator struct {
	in      rollout.Input
	events  []corev1.Event
	crashes bool // revision 7 crashes in the stage eu
}

// newOperator returns an operator of an AppService that runs revision 6 on three clusters.
func newOperator() *operator {
	o := &operator{in: NewInput(AtRevision(6))}
	soak := int32(600)
	stage := func(name string) v1alpha1.RolloutStage {
		return v1alpha1.RolloutStage{Name: name, ClusterMatch: v1alpha1.ClusterMatch{ClusterSelector: &v1alpha1.ClusterSelector{MatchLabels: map[string]string{"stage": name}}}}
	}
	canary, eu := stage("canary"), stage("eu")
	canary.SoakSeconds, eu.Approval = &soak, v1alpha1.ApprovalRequired
	o.in.App.Spec.Rollout = &v1alpha1.Rollout{Stages: []v1alpha1.RolloutStage{canary, eu}}
	for name, stage := range map[string]string{"yyz": "canary", "fra": "eu", "nrt": ""} {
		Chosen(name)(&o.in)
		o.in.Members[name].Labels = map[string]string{"stage": stage}
		WithEntries(Entry(name, v1alpha1.ClusterReady, DesiredRevision(6)))(&o.in)
	}
	o.in.App.Status.ObservedGeneration = Generation
	o.in.App.Status.Rollout = v1alpha1.RolloutStatus{Revision: 6, StableRevision: 6, Phase: v1alpha1.RolloutCompleted, Since: &AnHourAgo}
	o.decide()
	AtRevision(7)(&o.in)
	return o
}

// decide makes one decision, and records its events as the planner writes them.
func (o *operator) decide() {
	o.in.Observations, o.in.Answers = map[string]observation.Observation{}, map[string]metav1.Time{}
	for _, entry := range o.in.App.Status.Clusters {
		seen := Observation(v1alpha1.ClusterReady, AnsweringRevision(entry.Revision))
		if o.crashes && entry.Name == "fra" && entry.Revision == 7 {
			seen.Phase, seen.Reason, seen.Message = v1alpha1.ClusterProgressing, v1alpha1.ReasonCrashLoopBackOff, "exited with code 132"
		}
		o.in.Observations[entry.Name], o.in.Answers[entry.Name] = seen, o.in.Now
	}
	for _, step := range status.RolloutSteps(o.in, rollout.Plan(o.in)) {
		action := "Plan"
		if step.Stage != "" {
			action += " stage " + step.Stage
		}
		o.events = append(o.events, corev1.Event{
			InvolvedObject: corev1.ObjectReference{Kind: "AppService", UID: UID}, Reason: step.Reason, Message: step.Message,
			Action: action, EventTime: metav1.NewMicroTime(o.in.Now.Add(300 * time.Millisecond)),
		})
	}
	o.in = Next(o.in)
}

// runTo makes decisions until the condition RolledOut has a reason.
func (o *operator) runTo(t *testing.T, reason string) {
	t.Helper()
	for range 120 {
		o.decide()
		for _, c := range o.in.App.Status.Conditions {
			if c.Type == v1alpha1.ConditionRolledOut && c.Reason == reason {
				return
			}
		}
		Later(time.Minute)(&o.in)
	}
	t.Fatalf("never %s", reason)
}

// annotate sets an annotation that the next decision sees.
func (o *operator) annotate(key, value string) {
	o.in.App = o.in.App.DeepCopy()
	Annotated(key, value)(&o.in)
}

// TestOf_with_the_decisions_and_the_events_of_the_operator shows that the messages of the operator are
// understood. Without the events, the same rollout has the same steps with fewer times.
func TestOf_with_the_decisions_and_the_events_of_the_operator(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		run func(*testing.T, *operator)
	}{
		"soaking": {
			run: func(t *testing.T, o *operator) { o.runTo(t, v1alpha1.ReasonSoaking) },
		},
		"waiting for approval": {
			run: func(t *testing.T, o *operator) { o.runTo(t, v1alpha1.ReasonAwaitingApproval) },
		},
		"completed": {
			run: func(t *testing.T, o *operator) {
				o.runTo(t, v1alpha1.ReasonAwaitingApproval)
				o.annotate(v1alpha1.AnnotationApprove, "7/eu")
				o.runTo(t, v1alpha1.ReasonCompleted)
			},
		},
		"rolled back": {
			run: func(t *testing.T, o *operator) {
				o.crashes = true
				o.runTo(t, v1alpha1.ReasonAwaitingApproval)
				o.annotate(v1alpha1.AnnotationApprove, "7/eu")
				o.runTo(t, v1alpha1.ReasonRolledBack)
			},
		},
		"halted": {
			run: func(t *testing.T, o *operator) {
				o.crashes = true
				o.in.App.Spec.Rollout.OnFailure = v1alpha1.RolloutPause
				o.runTo(t, v1alpha1.ReasonAwaitingApproval)
				o.annotate(v1alpha1.AnnotationApprove, "7/eu")
				o.runTo(t, v1alpha1.ReasonRolloutHalted)
			},
		},
		"aborted": {
			run: func(t *testing.T, o *operator) {
				o.runTo(t, v1alpha1.ReasonSoaking)
				o.annotate(v1alpha1.AnnotationAbort, "7")
				o.runTo(t, v1alpha1.ReasonRolledBack)
			},
		},
		"an edit returns to the stable revision": {
			run: func(t *testing.T, o *operator) {
				o.runTo(t, v1alpha1.ReasonSoaking)
				AtRevision(6)(&o.in)
				o.runTo(t, v1alpha1.ReasonCompleted)
			},
		},
		"superseded": {
			run: func(t *testing.T, o *operator) {
				o.runTo(t, v1alpha1.ReasonSoaking)
				AtRevision(8)(&o.in)
				o.decide()
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := newOperator()
			test.run(t, o)
			in := timeline.Input{App: o.in.App, Events: o.events}
			got := text(timeline.Of(in)) + "--- without events ---\n"
			in.Events, in.HasNoEvents = nil, true
			got += text(timeline.Of(in))
			golden.Check(t, strings.ReplaceAll(name, " ", "-"), got)
		})
	}
}

// text returns a timeline as lines of text.
func text(line *timeline.Timeline) string {
	if line == nil {
		return "none\n"
	}
	var b strings.Builder
	fmt.Fprintf(&b, "revision %d %s %s\n", line.Revision, line.Phase, line.Image)
	for _, step := range line.Steps {
		fmt.Fprintf(&b, "%s %s", sign(step.State), step.Name)
		if c := step.Clusters; c != nil {
			fmt.Fprintf(&b, " (%d/%d available, %d updated, %d failed)", c.Available, c.All, c.UpToDate, c.Failed)
		}
		b.WriteString("\n")
		for _, moment := range step.Moments {
			at := "  ?  "
			if moment.Time != nil {
				at = moment.Time.UTC().Format("15:04")
			}
			fmt.Fprintf(&b, "    %s %s %s", sign(moment.State), at, moment.Text)
			if moment.Until != nil {
				fmt.Fprintf(&b, " (until %s)", moment.Until.UTC().Format("15:04"))
			}
			b.WriteString("\n")
		}
	}
	for _, note := range line.Notes {
		b.WriteString("! " + note + "\n")
	}
	return b.String()
}

func sign(state timeline.State) string {
	states := []timeline.State{timeline.Done, timeline.Current, timeline.Failed, timeline.Pending, timeline.Skipped}
	return []string{"+", ">", "X", " ", "-"}[slices.Index(states, state)]
}
