package planner

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/rollout"
	"github.com/fleetwright/fleetwright/controllers/status"
)

const (
	// maxEvents is how many events one status makes; the rest is counted in one more.
	maxEvents = 10
	// maxNote is how many bytes of a note the API server takes, less than it does.
	maxNote = 1000
)

// announce tells what became of clusters since the status before. Events that differ only in their notes are one: the MemberCluster makes
// them differ.
func (r *Reconciler) announce(in rollout.Input, next v1alpha1.AppServiceStatus) {
	changes := status.Changes(in, next)
	for _, change := range changes[:min(len(changes), maxEvents)] {
		member := in.Members[change.Cluster]
		if member == nil {
			member = &v1alpha1.MemberCluster{}
			member.Name = change.Cluster
		}
		r.event(in.App, member, change, change.Cluster+": "+change.Message)
	}
	if rest := len(changes) - maxEvents; rest > 0 {
		r.event(in.App, nil, changes[maxEvents], fmt.Sprintf("and %d more, see status.clusters", rest))
	}
}

func (r *Reconciler) event(app *v1alpha1.AppService, related runtime.Object, change status.Change, note string) {
	severity := corev1.EventTypeNormal
	if change.Bad {
		severity = corev1.EventTypeWarning
	}
	if len(note) > maxNote {
		note = strings.ToValidUTF8(note[:maxNote], "") + "…"
	}
	r.events.Eventf(app, related, severity, change.Reason, "Plan", "%s", note)
}
