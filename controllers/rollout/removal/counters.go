package removal

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/rollout/entryplan"
)

// counters count the removals and scale-downs that started without an edit, and the approved removals.
type counters struct {
	v1alpha1.RemovalsStatus
	generation int64
	now        metav1.Time
}

// newCounters returns the counters for the current generation. An approval ends with the generation
// that it names.
func newCounters(app *v1alpha1.AppService, now metav1.Time) *counters {
	c := &counters{app.Status.Removals, app.Generation, now}
	if c.AcceptedGeneration != app.Generation {
		c.Accepted, c.AcceptedGeneration = 0, 0
	}
	if app.Status.ObservedGeneration != app.Generation { // the status is written anyway
		c.WithoutEdit = c.withinWindow()
	}
	return c
}

// withinWindow returns the counts that have not expired.
func (c *counters) withinWindow() []v1alpha1.RemovalCount {
	var recent []v1alpha1.RemovalCount
	for _, count := range c.WithoutEdit {
		if c.now.Sub(count.StartTime.Time) < withoutEditWindow+withoutEditBucket {
			recent = append(recent, count)
		}
	}
	return recent
}

// recentRemovals returns how many removals without an edit have started within the window.
func (c *counters) recentRemovals() int32 {
	var sum int32
	for _, count := range c.withinWindow() {
		sum += count.Count
	}
	return sum
}

// recentScaleDowns returns how many scale-downs without an edit have started within the window.
func (c *counters) recentScaleDowns() int32 {
	var sum int32
	for _, count := range c.withinWindow() {
		sum += count.ScaleDowns
	}
	return sum
}

// countWithoutEdit counts another removal or scale-down without an edit.
func (c *counters) countWithoutEdit(add func(*v1alpha1.RemovalCount)) {
	counts := c.withinWindow()
	if last := len(counts) - 1; last < 0 || c.now.Sub(counts[last].StartTime.Time) >= withoutEditBucket {
		counts = append(counts, v1alpha1.RemovalCount{StartTime: metav1.NewTime(c.now.Time)})
	}
	add(&counts[len(counts)-1])
	c.WithoutEdit = counts
}

// accept marks a removal or a scale-down as approved by a user.
func (c *counters) accept(e *entryplan.Plan) {
	e.Entry.Transition.Accepted = true
	c.Accepted++
	c.AcceptedGeneration = c.generation
}
