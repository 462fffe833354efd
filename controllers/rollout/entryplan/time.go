package entryplan

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
)

// Entries returns the entries of all plans with their transition times.
func Entries(plans []Plan, now metav1.Time) []v1alpha1.ClusterStatus {
	if len(plans) == 0 {
		return nil
	}
	entries := make([]v1alpha1.ClusterStatus, len(plans))
	for i := range plans {
		e := &plans[i]
		entries[i] = e.Entry
		entries[i].LastTransitionTime = e.transitionTime(now)
	}
	return entries
}

// transitionTime returns the LastTransitionTime of an entry. Times have whole
// seconds, but two transitions of an entry never have the same time, because delivery confirms a
// removal by the time of the entry that requested it: with equal times, the confirmation of an earlier
// removal would confirm a later one too.
//
// An entry that gets another revision begins its phase again. If it is Unknown, it keeps its time,
// which is the age of the observed state.
//
// If the clock was set back since the transition, the phase begins now. Otherwise the time would
// begin to count in the middle of the phase, when the clock reaches it. A removal keeps its time, by
// which delivery knows it.
func (e *Plan) transitionTime(now metav1.Time) metav1.Time {
	phase, previous := e.Entry.Phase, e.Previous
	switch {
	case previous == nil:
		return now
	case previous.Phase == phase && phase == v1alpha1.ClusterRemoving:
		return previous.LastTransitionTime
	case IsFromOtherClock(previous.LastTransitionTime, now):
		return now
	case previous.Phase == phase && (!e.IsReassigned || phase == v1alpha1.ClusterUnknown):
		return previous.LastTransitionTime
	case previous.LastTransitionTime.Before(&now):
		return now
	}
	next := metav1.NewTime(previous.LastTransitionTime.Add(time.Second))
	if IsFromOtherClock(next, now) { // the next decision would change it
		return now
	}
	return next
}

// IsFromOtherClock reports whether a time is so far in the future that the clock was set back since
// then.
func IsFromOtherClock(t, now metav1.Time) bool { return t.Sub(now.Time) > time.Minute }
