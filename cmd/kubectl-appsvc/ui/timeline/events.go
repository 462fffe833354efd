package timeline

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
)

// entry is an event of the rollout of a revision.
type entry struct {
	reason string
	// stage is the stage that it is about, or "".
	stage string
	time  metav1.Time
	text  string
}

// reasons are those of the steps of a rollout.
var reasons = []string{
	v1alpha1.ReasonRolloutStarted, v1alpha1.ReasonSuperseded, v1alpha1.ReasonStageStarted, v1alpha1.ReasonApprovalNeeded,
	v1alpha1.ReasonStageCompleted, v1alpha1.ReasonRolloutCompleted, v1alpha1.ReasonRolloutFailed, v1alpha1.ReasonRollingBack,
	v1alpha1.ReasonRolloutHalted, v1alpha1.ReasonRolledBack,
}

// Where the message of a step has the revision that it is about, as RolloutSteps in package status of
// the operator writes it.
var (
	ofRevision   = regexp.MustCompile(`^revision (\d+)\b`)
	fromRevision = regexp.MustCompile(`^\d+ of .* from revision (\d+) to \d+: `)
	againSpec    = regexp.MustCompile(`^the spec has the template(?: and the configuration)? of revision (\d+) again`)
	// prefix is what the name of the step says already.
	prefix = regexp.MustCompile(`^revision \d+(?: \(configuration: [^)]*\))?(?:, stage [^:]+)?: `)
)

// revisionOf returns the revision that a message is about, or 0.
func revisionOf(message string) int64 {
	for _, pattern := range []*regexp.Regexp{ofRevision, fromRevision, againSpec} {
		if match := pattern.FindStringSubmatch(message); match != nil {
			number, _ := strconv.ParseInt(match[1], 10, 64) // 0 if there are too many digits
			return number
		}
	}
	return 0
}

// entriesOf returns the events of the rollout of the current revision, oldest first.
func entriesOf(app *v1alpha1.AppService, events []corev1.Event) []entry {
	var found []entry
	for i := range events {
		event := &events[i]
		isOurs := event.InvolvedObject.UID == app.UID && slices.Contains(reasons, event.Reason)
		if !isOurs || revisionOf(event.Message) != app.Status.Rollout.Revision {
			continue
		}
		_, stage, _ := strings.Cut(event.Action, " stage ")
		found = append(found, entry{event.Reason, stage, firstTime(event), prefix.ReplaceAllString(event.Message, "")})
	}
	slices.SortStableFunc(found, func(a, b entry) int { return a.time.Compare(b.time.Time) })
	return found
}

// firstTime returns when an event was seen first. Its message is of that time. Times of events may have
// fractions of a second, and those of the status have none.
func firstTime(event *corev1.Event) metav1.Time {
	first := event.CreationTimestamp.Time
	switch {
	case !event.EventTime.IsZero():
		first = event.EventTime.Time
	case !event.FirstTimestamp.IsZero():
		first = event.FirstTimestamp.Time
	}
	return metav1.NewTime(first.Truncate(time.Second))
}

// since returns the events from the last one on that has a reason, or all of them if none has it.
func since(events []entry, reason string) []entry {
	for i, e := range slices.Backward(events) {
		if e.reason == reason {
			return events[i:]
		}
	}
	return events
}
