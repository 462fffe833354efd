package rollout

import (
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/observation"
	"github.com/fleetwright/fleetwright/controllers/rollout/entryplan"
)

// ReportTimeout is how long a decision waits, after a start of the operator or a restore of the hub,
// for the reports of all clusters that an AppService may run on.
const ReportTimeout = 30 * time.Second

// answerMissing answers the clusters on which delivery found the workload missing at its first look.
// The hub may have lost an edit that moved the workload, and another cluster can show that. So the
// answer waits until each cluster of the AppService has been looked at or was found unreachable, or for
// ReportTimeout. It names the look, so it has no effect for another process, or after a restore. It
// does not wait for clusters that this AppService does not name.
//
// Both the limit and the evidence that a cluster is unreachable count from the question. A hub without
// a network finds all clusters unreachable, and nobody asks. When the network is back, those that
// cannot answer have to fail again.
func (in Input) answerMissing(plans []entryplan.Plan) []time.Time {
	var deadlines []time.Time
	silences := map[string]silence{} // by look
	isAnswerable := func(look observation.Look, asked time.Time) bool {
		if _, isKnown := silences[look.ID]; !isKnown {
			silences[look.ID] = silenceOf(in.Unreachable, in.unreported(plans, look))
		}
		return silences[look.ID].isExplained(asked) || isPast(in.Now, asked)
	}
	for i := range plans {
		e := &plans[i]
		if e.Seen == nil {
			continue
		}
		asked := askedAt(in.SeenSince, e.Entry.Name, e.Seen.Look)
		switch {
		case e.IsTakenBack(): // package stages has decided that the entry does not take over what the cluster runs
			e.Entry.Recreate = e.Seen.Look.ID
		case !e.Seen.Missing:
			e.Entry.Recreate = ""
		case e.Entry.Recreate == e.Seen.Look.ID:
		case isAnswerable(e.Seen.Look, asked):
			e.Entry.Recreate = e.Seen.Look.ID
		default:
			deadlines = append(deadlines, asked.Add(ReportTimeout))
		}
	}
	return deadlines
}

// askedAt returns when a cluster was first observed in a look.
func askedAt(seenSince map[string]metav1.Time, cluster string, look observation.Look) time.Time {
	if since := seenSince[cluster].Time; since.After(look.Since.Time) {
		return since
	}
	return look.Since.Time
}

// isPast reports whether ReportTimeout has passed since a time.
func isPast(now metav1.Time, since time.Time) bool { return now.Sub(since) >= ReportTimeout }

// silence is what is known about clusters that have not reported.
type silence struct {
	// isComplete is set if no cluster is silent.
	isComplete bool
	// unreachable is the time at or after which each of them was found unreachable. It is zero if one
	// was not.
	unreachable time.Time
}

func silenceOf(unreachable map[string]metav1.Time, clusters []string) silence {
	s := silence{isComplete: len(clusters) == 0}
	for i, name := range clusters {
		if at := unreachable[name].Time; i == 0 || at.Before(s.unreachable) {
			s.unreachable = at
		}
	}
	return s
}

// isExplained reports whether each silent cluster was found unreachable since a time.
func (s silence) isExplained(since time.Time) bool {
	return s.isComplete || !s.unreachable.IsZero() && !s.unreachable.Before(since)
}

// unreported returns the clusters whose state is not known since a look began: clusters with an entry,
// which include those of the plan, and clusters with a tombstone of the AppService.
func (in Input) unreported(plans []entryplan.Plan, look observation.Look) []string {
	var names []string
	for i := range plans {
		if seen := plans[i].Seen; seen == nil || seen.Look.ID != look.ID {
			names = append(names, plans[i].Entry.Name)
		}
	}
	for _, members := range []map[string]*v1alpha1.MemberCluster{in.Members, in.Secretless} {
		for name, member := range members {
			seen := in.ObservationOf(name)
			if member.IsAbandoned(in.App.UID) && (seen == nil || seen.Look.ID != look.ID) {
				names = append(names, name)
			}
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}
