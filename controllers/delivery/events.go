package delivery

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
)

// eventSource is what events come from.
const eventSource = "fleetwright"

// tell emits an event on the hub, for the AppService, and one on the member, for whoever looks at the object there. The member's
// recorder costs nine goroutines from its first event on: it is for what is rare.
func (r *reconciler) tell(app *v1alpha1.AppService, object client.Object, reason, action, note string, args ...any) {
	severity := corev1.EventTypeNormal
	if reason == v1alpha1.ReasonDriftCorrected {
		severity = corev1.EventTypeWarning
	}
	text := clean(fmt.Sprintf(note, args...))
	r.memberEvents().Eventf(object, nil, severity, reason, action, "%s (by hub %s)", text, r.hubID)
	if app != nil {
		// Events that differ only in their notes are one: the member and the kind make them differ.
		member := &v1alpha1.MemberCluster{}
		member.Name = r.cluster
		r.hubEvents.Eventf(app, member, severity, reason, action+kindOf(object), "%s: %s", r.cluster, text)
	}
}
