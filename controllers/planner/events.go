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
	// maxEvents is the maximum number of events per status write. One more event counts the rest.
	maxEvents = 10
	// maxNames is the maximum number of clusters that an event names.
	maxNames = 10
	// maxNote is the maximum length of a note in bytes. The API server accepts 1024.
	maxNote = 1000
)

// announce emits an event for each change since the previous status. The first MemberCluster of a
// change is the related object, because events that differ only in their notes are merged.
func (r *Reconciler) announce(in rollout.Input, next v1alpha1.AppServiceStatus) {
	changes := status.Changes(in, next)
	for _, change := range changes[:min(len(changes), maxEvents)] {
		first := change.Clusters[0]
		member := in.Members[first]
		if member == nil {
			member = &v1alpha1.MemberCluster{}
			member.Name = first
		}
		r.event(in.App, member, change, namesOf(change.Clusters)+": "+change.Message)
	}
	if rest := len(changes) - maxEvents; rest > 0 {
		r.event(in.App, nil, changes[maxEvents], fmt.Sprintf("%d more changes; see the entries of the status, or of its AppServiceSlices", rest))
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
