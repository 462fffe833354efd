package delivery

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/delivery/object"
	"github.com/fleetwright/fleetwright/controllers/eventaction"
)

// eventSource is the reporting controller of events.
const eventSource = "fleetwright"

// announcer emits events about the objects of one member.
type announcer struct {
	hubID   string
	cluster string
	hub     events.EventRecorder
	// member returns the member's recorder. Its first event starts nine goroutines, so events are
	// for what is rare.
	member func() events.EventRecorder
	// cause is what makes an event on the hub another one than those with the same reason and action.
	cause []string
}

// dueTo returns an announcer of events with a cause.
func (a announcer) dueTo(cause ...string) announcer {
	a.cause = cause
	return a
}

// announce emits an event on the member, about the object. If an AppService is given, it emits one
// on the hub as well, about the AppService.
func (a announcer) announce(app *v1alpha1.AppService, about client.Object, reason, action, note string, args ...any) {
	severity := corev1.EventTypeNormal
	if reason == v1alpha1.ReasonDriftCorrected {
		severity = corev1.EventTypeWarning
	}
	text := sanitize(fmt.Sprintf(note, args...))
	a.member().Eventf(about, nil, severity, reason, action, "%s (by hub %s)", text, a.hubID)
	if app != nil {
		// Events that differ only in their notes count as one: the member, the kind and the cause make
		// them differ.
		related := &v1alpha1.MemberCluster{}
		related.Name = a.cluster
		a.hub.Eventf(app, related, severity, reason, eventaction.Of(action+object.KindOf(about), a.cause...), "%s: %s", a.cluster, text)
	}
}
