package planner

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/eventaction"
	"github.com/fleetwright/fleetwright/controllers/planner/revise"
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

// announcer emits the events of plans.
type announcer struct {
	events   events.EventRecorder
	outliers knownOutliers
}

// announce emits the events of a plan that was written.
func (a *announcer) announce(p planned) {
	a.announceChanges(p.in, p.next)
	a.announceConfiguration(p.in, p.decision, p.next)
	a.announceRefusal(p.in)
	a.announceRollout(p.in, p.decision)
}

// announceChanges emits an event for each change since the previous status. The first MemberCluster of a
// change that names clusters is the related object, and its cause is in the action, because events that
// differ only in their notes are merged.
//
// Changes that repeat within six minutes are one event with a series, such as those of pods that
// crash, run for a while and crash again. The recorder does that for events about the same objects.
// It compares their resource versions too, which differ after each status write, so the references
// have none.
func (a *announcer) announceChanges(in rollout.Input, next v1alpha1.AppServiceStatus) {
	changes := status.Changes(in, next)
	for _, change := range changes[:min(len(changes), maxEvents)] {
		app := &v1alpha1.AppService{ObjectMeta: metav1.ObjectMeta{Namespace: in.App.Namespace, Name: in.App.Name, UID: in.App.UID}}
		if len(change.Clusters) == 0 {
			a.event(app, nil, change.Bad, change.Reason, actionOf(change.Cause), change.Message)
			continue
		}
		member := &v1alpha1.MemberCluster{ObjectMeta: metav1.ObjectMeta{Name: change.Clusters[0]}}
		if known := in.Members[member.Name]; known != nil {
			member.UID = known.UID
		}
		a.event(app, member, change.Bad, change.Reason, actionOf(change.Cause), namesOf(change.Clusters)+": "+change.Message)
	}
	if rest := len(changes) - maxEvents; rest > 0 {
		next := changes[maxEvents]
		a.event(in.App, nil, next.Bad, next.Reason, planAction, fmt.Sprintf("%d more changes; see the entries of the status, or of its AppServiceSlices", rest))
	}
}

// announceRollout emits an event for each step of the rollout. The stage is in the action, because
// events that differ only in their notes are merged.
func (a *announcer) announceRollout(in rollout.Input, decision rollout.Decision) {
	for _, step := range status.RolloutSteps(in, decision) {
		a.event(in.App, nil, step.Bad, step.Reason, eventaction.Of(planAction, named("stage", step.Stage)), step.Message)
	}
}

// announceConfiguration emits an event for each change of the configuration. What it is about is in
// the action, because events that differ only in their notes are merged.
func (a *announcer) announceConfiguration(in rollout.Input, decision rollout.Decision, next v1alpha1.AppServiceStatus) {
	for _, step := range status.ConfigurationSteps(in, decision, next) {
		a.event(in.App, nil, step.Bad, step.Reason, eventaction.Of(planAction, step.Subject), step.Message)
	}
}

// actionOf returns the action of the event for a change with this cause.
func actionOf(cause status.Cause) string {
	revision := ""
	if cause.Revision != 0 {
		revision = fmt.Sprintf("revision %d", cause.Revision)
	}
	return eventaction.Of(planAction, revision, named("container", cause.Container))
}

// named returns a kind and a name, or "" without a name.
func named(kind, name string) string {
	if name == "" {
		return ""
	}
	return kind + " " + name
}

// namesOf returns the first names and the number of the others.
func namesOf(clusters []string) string {
	names := strings.Join(clusters[:min(len(clusters), maxNames)], ", ")
	if rest := len(clusters) - maxNames; rest > 0 {
		names += fmt.Sprintf(" and %d more", rest)
	}
	return names
}

func (a *announcer) event(app *v1alpha1.AppService, related runtime.Object, isBad bool, reason, action, note string) {
	severity := corev1.EventTypeNormal
	if isBad {
		severity = corev1.EventTypeWarning
	}
	if len(note) > maxNote {
		note = strings.ToValidUTF8(note[:maxNote], "") + "…"
	}
	a.events.Eventf(app, related, severity, reason, action, "%s", note)
}

// announceRefusal emits an event for each edit that is refused.
func (a *announcer) announceRefusal(in rollout.Input) {
	if in.SpecRefusal != "" && (revise.IsEdited(in.App) || !in.App.Status.Rollout.SpecRefused) {
		a.event(in.App, nil, true, v1alpha1.ReasonPodSecurityRefused, planAction, status.SpecRefusedMessage(in))
	}
}

// announceRelease emits an event about a namespace or a CRD with which an AppService is deleted,
// because nothing can be created in a terminating namespace.
func (a *announcer) announceRelease(app *v1alpha1.AppService, deleted *metav1.PartialObjectMetadata, kept int) {
	a.events.Eventf(deleted, app, corev1.EventTypeWarning, v1alpha1.ReasonNamespaceOrCRDDeleted, "NamespaceOrCRDDeleted",
		"AppService %s/%s is deleted with %s %s; %d clusters keep the workload", app.Namespace, app.Name, deleted.Kind, deleted.Name, kept)
}
