package rollout_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
)

// At no time are more clusters of a stage unavailable or lost than maxUnavailable, of those that
// were available when a rollout gave them another revision. What the revision does has no influence
// on that (it starts, does not start, or cuts the cluster off), nor has what users do (edit, abort,
// retry) or a link that flaps. A cluster that cannot be reached must not hold up a fix. So it no
// longer counts in a rollback, when a new target begins, or at its deadline if it has a revision
// before the target.
func TestStages_keep_maxUnavailable(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		l := newHealthyLoop(t, nil)
		l.edit(func(spec *v1alpha1.AppServiceSpec) {
			spec.Rollout = spec.Rollout.DeepCopy()
			spec.Rollout.MaxFailures = nil
			for i := range spec.Rollout.Stages {
				spec.Rollout.Stages[i].MaxFailures, spec.Rollout.Stages[i].Limit = nil, nil
			}
		})
		l.run(nil)
		caused := map[string]bool{}
		for range rapid.IntRange(1, 60).Draw(t, "actions") {
			l.deliverAll() // before time passes, so that no deadline does without a delivery
			l.disturbRollout(t, caused)
			l.deliverAll()
			for name, m := range l.members { // the revision cuts its cluster off
				if strings.Contains(l.templates[m.runs], "cut") {
					l.setReady(name, false)
					l.deliver(name)
				}
			}
			l.checkCaused(t, caused)
		}
	})
}

// disturbRollout performs one random action of a user or a link, or lets time pass.
func (l *stagedLoop) disturbRollout(t *rapid.T, caused map[string]bool) {
	number := fmt.Sprint(l.app.Status.Rollout.Revision)
	switch rapid.SampledFrom(append(slices.Repeat([]string{"time"}, 10), "edit", "edit", "abort", "retry", "link")).Draw(t, "action") {
	case "time":
		l.advance(time.Duration(rapid.SampledFrom([]int{10, 30, 60, 120, 250}).Draw(t, "seconds")) * time.Second)
	case "edit":
		l.editImage(rapid.SampledFrom([]string{"ok-0", "ok-1", "ok-2", "bad-1", "cut-1"}).Draw(t, "image"))
		l.checkCaused(t, caused) // the decision in which the target is new
		l.approve()
	case "abort":
		l.annotate(v1alpha1.AnnotationAbort, number)
	case "retry":
		l.annotate(v1alpha1.AnnotationRetry, number)
		l.checkCaused(t, caused)
		l.approve()
	case "link":
		if len(l.members) > 0 {
			name := rapid.SampledFrom(l.names()).Draw(t, "member")
			l.setReady(name, !l.members[name].member.IsReady())
		}
	}
}

// checkCaused makes one decision, and checks that it changes no available cluster beside as many as
// maxUnavailable that rollouts have made unavailable.
func (l *stagedLoop) checkCaused(t *rapid.T, caused map[string]bool) {
	in := l.input()
	before := l.app.Status
	after := v1alpha1.AppServiceStatus{Clusters: l.planFor(in).Entries, Rollout: l.app.Status.Rollout}
	isNew := before.Rollout.Revision != after.Rollout.Revision
	for _, s := range ruleStages(in) {
		count, isChanged := 0, false
		for _, name := range s.clusters {
			was, is := before.Cluster(name), after.Cluster(name)
			wasAvailable := isAvailable(was)
			switch {
			case was.Revision != is.Revision && wasAvailable && is.Phase != v1alpha1.ClusterUnknown:
				caused[name], isChanged = true, true
			case isAvailable(is), is.Phase == v1alpha1.ClusterUnknown && (isNew || l.holdsUpNothing(is)):
				delete(caused, name)
			}
			if caused[name] {
				count++
			}
		}
		if isChanged && count > s.maxUnavailable() {
			t.Fatalf("stage %s: %d clusters are unavailable because of a revision, and %d may be\nbefore:\n%s\nafter:\n%s",
				s.spec.Name, count, s.maxUnavailable(), toText(before), toText(after))
		}
	}
}

// holdsUpNothing reports whether an unreachable cluster does not count, because it has the stable
// revision, or has had one before the target for the progress deadline.
func (l *stagedLoop) holdsUpNothing(e *v1alpha1.ClusterStatus) bool {
	state := l.app.Status.Rollout
	deadline := 900 * time.Second
	if own := l.app.Spec.Rollout.ProgressDeadlineSeconds; own != nil {
		deadline = time.Duration(*own) * time.Second
	}
	isLate := e.UnavailableSince != nil && l.now.Sub(e.UnavailableSince.Time) >= deadline
	return e.Revision == state.StableRevision || e.Revision != state.Revision && isLate
}
