package timeline

import (
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/revision"
)

// story is the rollout of the current revision, from which the steps are made.
type story struct {
	in     Input
	state  *v1alpha1.RolloutStatus
	events []entry
}

func newStory(in Input) *story {
	s := &story{in: in, state: &in.App.Status.Rollout}
	s.events = entriesOf(in.App, in.Events)
	if s.isReturn() { // the revision had a rollout before
		s.events = since(s.events, v1alpha1.ReasonRolloutStarted)
	}
	return s
}

// isReturn reports whether the spec has the template of the stable revision again, so that the clusters
// only return to it.
func (s *story) isReturn() bool {
	return s.state.LatestRevision > s.state.Revision || s.state.Phase == v1alpha1.RolloutProgressing && s.state.Revision == s.state.StableRevision
}

// isFailed reports whether the revision failed, or was aborted.
func (s *story) isFailed() bool {
	switch s.state.Phase {
	case v1alpha1.RolloutHalted, v1alpha1.RolloutRollingBack, v1alpha1.RolloutRolledBack:
		return true
	}
	return false
}

// stored returns the current revision, or nil if the hub has not stored it.
func (s *story) stored() *revision.Stored {
	i := slices.IndexFunc(s.in.Stored, func(one revision.Stored) bool { return one.Number == s.state.Revision })
	if i < 0 {
		return nil
	}
	return &s.in.Stored[i]
}

func (s *story) image() string {
	if stored := s.stored(); stored != nil {
		return stored.Template.Image
	}
	return ""
}

// find returns the last event with a reason, or nil.
func (s *story) find(reason string) *entry {
	for i := range slices.Backward(s.events) {
		if s.events[i].reason == reason {
			return &s.events[i]
		}
	}
	return nil
}

// at returns a moment at the time of an event, with its text. Without the event, it has the other text,
// and no time.
func (s *story) at(reason string, state State, otherwise string) Moment {
	if e := s.find(reason); e != nil {
		return Moment{Text: e.text, State: state, Time: &e.time}
	}
	return Moment{Text: otherwise, State: state}
}

// start returns the first step.
func (s *story) start() Step {
	step := Step{Name: fmt.Sprintf("revision %d", s.state.Revision), State: Done}
	stored := s.stored()
	if stored != nil && !s.isReturn() {
		step.Moments = append(step.Moments, Moment{Text: "the revision was stored", State: Done, Time: &stored.Object.CreationTimestamp})
	}
	for _, e := range s.events {
		if e.reason == v1alpha1.ReasonSuperseded {
			step.Moments = append(step.Moments, Moment{Text: e.text, State: Done, Time: &e.time})
		}
	}
	began := s.at(v1alpha1.ReasonRolloutStarted, Done, s.startText())
	if began.Time == nil && s.state.Phase == v1alpha1.RolloutProgressing { // this phase begins with the rollout
		began.Time = s.state.Since
	}
	step.Moments = append(step.Moments, began)
	return step
}

// startText says what the revision replaces.
func (s *story) startText() string {
	switch before := s.state.PreviousRevision; {
	case s.isReturn():
		return fmt.Sprintf("the spec has the template of revision %d again", s.state.Revision)
	case s.state.Revision != s.state.StableRevision && s.state.StableRevision != 0:
		return fmt.Sprintf("the rollout began: it is to replace revision %d", s.state.StableRevision)
	case s.state.Revision == s.state.StableRevision && before != 0:
		return fmt.Sprintf("the rollout began: it replaced revision %d", before)
	}
	return "the rollout began"
}

// ending returns the last steps: the end of the rollout, or what follows a failure.
func (s *story) ending() []Step {
	switch {
	case s.isFailed() && s.state.FailedStage == "" && s.state.ActiveStage() == nil:
		return append([]Step{{Name: "aborted", State: Failed, Moments: []Moment{s.failure()}}}, s.aftermath())
	case s.isFailed():
		return []Step{s.aftermath()}
	case s.isReturn() && s.state.Phase == v1alpha1.RolloutProgressing:
		return []Step{s.comeback(), {Name: "completed", State: Pending}}
	case s.state.Phase == v1alpha1.RolloutProgressing:
		return []Step{{Name: "completed", State: Pending}}
	}
	completed := s.at(v1alpha1.ReasonRolloutCompleted, Done, "all stages are over")
	completed.Time = s.state.Since
	return []Step{{Name: "completed", State: Done, Moments: []Moment{completed}}}
}

// comeback returns the step of the clusters that return because the spec has returned.
func (s *story) comeback() Step {
	step := Step{Name: fmt.Sprintf("return to revision %d", s.state.Revision), State: Current}
	if len(s.state.ReturnFailedClusters) > 0 {
		step.State = Failed
		step.Moments = append(step.Moments, s.at(v1alpha1.ReasonRolloutHalted, Failed, s.stableFails()))
		return step
	}
	step.Moments = append(step.Moments, Moment{Text: "the clusters return", State: Current, Time: s.state.Since})
	return s.withPause(step)
}

// aftermath returns the step after a failure.
func (s *story) aftermath() Step {
	isReturnHalted := len(s.state.ReturnFailedClusters) > 0
	if s.state.Phase == v1alpha1.RolloutHalted && !isReturnHalted {
		return Step{Name: "halted", State: Current, Moments: []Moment{
			{Text: "each cluster keeps what it runs, until a person decides", State: Current, Time: s.state.Since}}}
	}
	step := Step{Name: fmt.Sprintf("return to revision %d", s.state.StableRevision), State: Current}
	switch s.state.Phase {
	case v1alpha1.RolloutRollingBack:
		step.Moments = append(step.Moments, Moment{Text: s.at(v1alpha1.ReasonRollingBack, Current, "the clusters return").Text, State: Current, Time: s.state.Since})
	case v1alpha1.RolloutHalted:
		step.State = Failed
		step.Moments = append(step.Moments, s.at(v1alpha1.ReasonRollingBack, Done, "the clusters began to return"),
			Moment{Text: s.stableFails(), State: Failed, Time: s.state.Since})
	default:
		step.State = Done
		step.Moments = append(step.Moments, s.at(v1alpha1.ReasonRollingBack, Done, "the clusters began to return"),
			Moment{Text: fmt.Sprintf("all clusters that can be reached run revision %d", s.state.StableRevision), State: Done, Time: s.state.Since})
	}
	return s.withPause(step)
}

// stableFails says where the stable revision fails too.
func (s *story) stableFails() string {
	return fmt.Sprintf("revision %d fails too on %s (%s), so no other Ready cluster returns to it",
		s.state.StableRevision, strings.Join(s.state.ReturnFailedClusters, ", "), reasonOr(s.state.ReturnFailedReason))
}

// failure returns the moment at which the revision failed.
func (s *story) failure() Moment {
	moment := s.at(v1alpha1.ReasonRolloutFailed, Failed, s.failureText())
	if moment.Time == nil && s.state.Phase == v1alpha1.RolloutHalted && len(s.state.ReturnFailedClusters) == 0 {
		moment.Time = s.state.Since // a revision that is not rolled back is Halted from then on
	}
	return moment
}

func (s *story) failureText() string {
	on := strings.Join(s.state.FailedClusters, ", ")
	switch {
	case s.state.FailedStage == "":
		return "aborted by a user"
	case s.state.FailedReason == v1alpha1.ReasonTakenBack:
		return "taken back on " + on + ", by a failure or an abort that this hub has lost, as by a restore"
	}
	return fmt.Sprintf("failed on %s: %s", on, reasonOr(s.state.FailedReason))
}

// reasonOr returns why clusters failed. A cluster that failed at the deadline may have no other reason.
func reasonOr(reason string) string {
	switch reason {
	case "", v1alpha1.ReasonRollingOut, v1alpha1.ReasonPending:
		return "not available in time"
	}
	return reason
}

// withPause adds that the rollout is paused to a step that is in progress. Since when is not recorded.
func (s *story) withPause(step Step) Step {
	if s.state.Paused && step.State == Current {
		step.Moments = append(step.Moments, Moment{Text: "paused: no cluster gets another revision", State: Current})
	}
	return step
}

// timeOf returns a copy of a time, which the caller may keep.
func timeOf(t metav1.Time) *metav1.Time { return &t }
