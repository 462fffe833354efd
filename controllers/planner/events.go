package planner

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/rollout"
	"github.com/fleetwright/fleetwright/controllers/status"
)

const (
	// maxEvents is the maximum number of events per status write. One more event counts the rest.
	// docs/decisions/at-most-ten-events-for-each-status.md says why.
	maxEvents = 10
	// maxNames is the maximum number of clusters that an event names.
	maxNames = 10
	// planAction is the action of the events.
	planAction = "Plan"
	// maxNote is the maximum length of a note in bytes. The API server accepts 1024.
	maxNote = 1000
)

// announce emits an event for each change since the previous status. The first MemberCluster of a
// change that names clusters is the related object, because events that differ only in their notes
// are merged.
//
// Changes that repeat within six minutes are one event with a series, such as those of pods that
// crash, run for a while and crash again. The recorder does that for events about the same objects.
// It compares their resource versions too, which differ after each status write, so the references
// have none.
func (r *Reconciler) announce(in rollout.Input, next v1alpha1.AppServiceStatus) {
	changes := status.Changes(in, next)
	for _, change := range changes[:min(len(changes), maxEvents)] {
		app := &v1alpha1.AppService{ObjectMeta: metav1.ObjectMeta{Namespace: in.App.Namespace, Name: in.App.Name, UID: in.App.UID}}
		if len(change.Clusters) == 0 {
			r.event(app, nil, change.Bad, change.Reason, planAction, change.Message)
			continue
		}
		member := &v1alpha1.MemberCluster{ObjectMeta: metav1.ObjectMeta{Name: change.Clusters[0]}}
		if known := in.Members[member.Name]; known != nil {
			member.UID = known.UID
		}
		r.event(app, member, change.Bad, change.Reason, planAction, namesOf(change.Clusters)+": "+change.Message)
	}
	if rest := len(changes) - maxEvents; rest > 0 {
		next := changes[maxEvents]
		r.event(in.App, nil, next.Bad, next.Reason, planAction, fmt.Sprintf("%d more changes; see the entries of the status, or of its AppServiceSlices", rest))
	}
}

// announceRollout emits an event for each step of the rollout. The stage is in the action, because
// events that differ only in their notes are merged.
func (r *Reconciler) announceRollout(in rollout.Input, decision rollout.Decision) {
	for _, step := range status.RolloutSteps(in, decision) {
		action := planAction
		if step.Stage != "" {
			action += " stage " + step.Stage
		}
		r.event(in.App, nil, step.Bad, step.Reason, action, step.Message)
	}
}

// announceConfiguration emits an event for each change of the configuration. What it is about is in
// the action, because events that differ only in their notes are merged.
func (r *Reconciler) announceConfiguration(in rollout.Input, decision rollout.Decision, next v1alpha1.AppServiceStatus) {
	for _, step := range status.ConfigurationSteps(in, decision, next) {
		action := planAction
		if step.Subject != "" {
			action += " " + step.Subject
		}
		r.event(in.App, nil, step.Bad, step.Reason, action, step.Message)
	}
}

// namesOf returns the first names and the number of the others.
func namesOf(clusters []string) string {
	names := strings.Join(clusters[:min(len(clusters), maxNames)], ", ")
	if rest := len(clusters) - maxNames; rest > 0 {
		names += fmt.Sprintf(" and %d more", rest)
	}
	return names
}

func (r *Reconciler) event(app *v1alpha1.AppService, related runtime.Object, isBad bool, reason, action, note string) {
	severity := corev1.EventTypeNormal
	if isBad {
		severity = corev1.EventTypeWarning
	}
	if len(note) > maxNote {
		note = strings.ToValidUTF8(note[:maxNote], "") + "…"
	}
	r.events.Eventf(app, related, severity, reason, action, "%s", note)
}
