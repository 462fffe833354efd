package delivery

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/delivery/object"
)

// removal is what was done for one removal of an AppService from a member. While it lasts, the
// cache shows what is left to delete, and each object is deleted only at the version that the cache
// shows.
type removal struct {
	transitionTime metav1.Time // of the entry, when it became Removing: no two removals have the same
	startTime      time.Time
	deleted        map[string]string // kind → resource version of the object that was deleted
	// hasNoOptional is set when a Deployment was deleted that lists no optional objects. So there
	// are none, and nothing is read to confirm that.
	hasNoOptional bool
}

// removalOf returns what was done for the removal of an entry.
func (m *memory) removalOf(entry *v1alpha1.ClusterStatus) *removal {
	if !m.removal.transitionTime.Equal(&entry.LastTransitionTime) || m.removal.startTime.IsZero() {
		m.removal = removal{transitionTime: entry.LastTransitionTime, startTime: time.Now(), deleted: map[string]string{}}
	}
	return &m.removal
}

// usesCache reports whether the cache shows what to delete, so that the member need not be read. If
// the cache shows nothing, only the member can confirm that. Releasing needs managed fields, which
// the cache does not have. Without a Deployment in the cache, there may be optional objects. After
// removalPoll, the cache is no longer trusted.
func (r *removal) usesCache(t task) bool {
	return !t.app.OrphansWorkloads() &&
		(r.hasNoOptional || t.objects.isOwned("Deployment") && !t.objects.listsAny()) &&
		len(t.objects.owned()) > 0 && time.Since(r.startTime) < removalPoll
}

// hasDeleted reports whether this version of an object was deleted.
func (r *removal) hasDeleted(e object.Existing) bool {
	return r.deleted[object.KindOf(e)] == e.GetResourceVersion()
}

// noteDeployment records that the Deployment which the cache shows was deleted at that version. It
// lists no optional objects, or the cache would not be used.
func (r *removal) noteDeployment(shown objects) {
	if deployment := shown.facts["Deployment"]; deployment != nil && r.hasDeleted(*deployment) {
		r.hasNoOptional = true
	}
}
