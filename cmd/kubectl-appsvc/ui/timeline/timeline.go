package timeline

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/cmd/kubectl-appsvc/output"
	"github.com/fleetwright/fleetwright/controllers/revision"
)

// State is how far a step is, or a moment.
type State string

const (
	// Done is over.
	Done State = "Done"
	// Current is what the rollout does now, or waits for.
	Current State = "Current"
	// Failed is where the rollout ended.
	Failed State = "Failed"
	// Pending has not begun.
	Pending State = "Pending"
	// Skipped does not happen.
	Skipped State = "Skipped"
)

// Timeline is the rollout of a revision.
type Timeline struct {
	Revision int64 `json:"revision"`
	// Image is that of the revision. It is empty if the revision is not stored.
	Image string                `json:"image,omitempty"`
	Phase v1alpha1.RolloutPhase `json:"phase"`
	Steps []Step                `json:"steps"`
	// Notes say what is not known.
	Notes []string `json:"notes,omitempty"`
}

// Step is a part of a rollout: its start, a stage, a return to the stable revision, or its end.
type Step struct {
	Name  string `json:"name"`
	State State  `json:"state"`
	// Clusters are the clusters of a stage. It is nil for another step.
	Clusters *Counts  `json:"clusters,omitempty"`
	Moments  []Moment `json:"moments,omitempty"`
}

// Counts are the numbers of the clusters of a stage.
type Counts struct {
	All       int32 `json:"all"`
	UpToDate  int32 `json:"upToDate"`
	Available int32 `json:"available"`
	Failed    int32 `json:"failed,omitempty"`
}

// Moment is something that happened, happens, or is to happen in a step.
type Moment struct {
	Text  string `json:"text"`
	State State  `json:"state"`
	// Time is when it happened, or began. It is nil if that is not known, or has not happened yet.
	Time *metav1.Time `json:"time,omitempty"`
	// Until is the earliest time at which it ends, if it has one.
	Until *metav1.Time `json:"until,omitempty"`
}

// Input is what is known of a rollout.
type Input struct {
	App *v1alpha1.AppService
	// Stored are the revisions that the hub has stored.
	Stored []revision.Stored
	// Events are those of the AppService, in any order.
	Events []corev1.Event
	// HasNoEvents is set if the events could not be read.
	HasNoEvents bool
}

// Of returns the timeline of the rollout of the current revision, or nil if there is none: without
// spec.rollout, an edit has no stages.
func Of(in Input) *Timeline {
	state := &in.App.Status.Rollout
	if state.Revision == 0 || state.Phase == "" || len(state.Stages) == 0 {
		return nil
	}
	s := newStory(in)
	line := &Timeline{Revision: state.Revision, Phase: state.Phase, Image: output.Printable(s.image())}
	line.Steps = append(line.Steps, s.start())
	if !s.isReturn() {
		for i := range state.Stages {
			line.Steps = append(line.Steps, s.stage(&state.Stages[i]))
		}
	}
	line.Steps = append(line.Steps, s.ending()...)
	for i := range line.Steps {
		moments := line.Steps[i].Moments
		for j := range moments {
			moments[j].Text = output.Printable(moments[j].Text)
		}
	}
	line.Notes = s.notes(line.Steps)
	return line
}

// notes says what is not known.
func (s *story) notes(steps []Step) []string {
	var notes []string
	if s.in.HasNoEvents {
		notes = append(notes, "The events cannot be read: when something happened is known only of what the status shows.")
	} else if hasUnknownTime(steps) {
		notes = append(notes, "Where no time stands, it is not known: the hub deletes events, by default after an hour.")
	}
	if !s.isReturn() && s.stored() == nil {
		notes = append(notes, fmt.Sprintf("Revision %d is not stored, or cannot be read: its image is not known.", s.state.Revision))
	}
	return notes
}

// hasUnknownTime reports whether something happened of which the time is not known.
func hasUnknownTime(steps []Step) bool {
	for _, step := range steps {
		for _, moment := range step.Moments {
			if moment.Time == nil && (moment.State == Done || moment.State == Failed) {
				return true
			}
		}
	}
	return false
}
