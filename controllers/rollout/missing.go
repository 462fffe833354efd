package rollout

import (
	"slices"
	"time"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/observation"
)

// ReportTimeout is how long a decision waits, after a start of the operator or a restore of the hub,
// for the reports of all clusters that an AppService may run on.
const ReportTimeout = 30 * time.Second

// answerMissing answers the clusters on which delivery found the workload missing at its first look.
// The hub may have lost an edit that moved the workload, and another cluster can show that. So the
// answer waits until each cluster of the AppService has been looked at, or for ReportTimeout. It names
// the look, so it has no effect for another process, or after a restore. It does not wait for clusters
// that this AppService does not name.
func (in Input) answerMissing(plans []entryPlan) []time.Time {
	var deadlines []time.Time
	areReported := map[string]bool{} // by look
	isAnswerable := func(look observation.Look) bool {
		if _, isKnown := areReported[look.ID]; !isKnown {
			areReported[look.ID] = len(in.unreported(plans, look)) == 0
		}
		return areReported[look.ID] || in.isPast(look)
	}
	for i := range plans {
		e := &plans[i]
		switch {
		case e.seen == nil:
		case !e.seen.Missing:
			e.entry.Recreate = ""
		case e.entry.Recreate == e.seen.Look.ID:
		case isAnswerable(e.seen.Look):
			e.entry.Recreate = e.seen.Look.ID
		default:
			deadlines = append(deadlines, e.seen.Look.Since.Add(ReportTimeout))
		}
	}
	return deadlines
}

// isPast reports whether ReportTimeout has passed since a look began.
func (in Input) isPast(look observation.Look) bool {
	return in.Now.Sub(look.Since.Time) >= ReportTimeout
}

// unreported returns the clusters whose state is not known since a look began: clusters with an entry,
// which include those of the plan, and clusters with a tombstone of the AppService.
func (in Input) unreported(plans []entryPlan, look observation.Look) []string {
	var names []string
	for i := range plans {
		if seen := plans[i].seen; seen == nil || seen.Look.ID != look.ID {
			names = append(names, plans[i].entry.Name)
		}
	}
	for _, members := range []map[string]*v1alpha1.MemberCluster{in.Members, in.Secretless} {
		for name, member := range members {
			seen := in.ObservationOf(name)
			if HasTombstone(member, in.App.UID) && (seen == nil || seen.Look.ID != look.ID) {
				names = append(names, name)
			}
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}
