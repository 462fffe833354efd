package ui

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/cmd/kubectl-appsvc/explain"
	"github.com/fleetwright/fleetwright/cmd/kubectl-appsvc/ui/timeline"
	"github.com/fleetwright/fleetwright/controllers/revision"
)

// Detail is what the page shows of one AppService, of one of its clusters, or of a MemberCluster,
// when a user opens it.
type Detail struct {
	Message string `json:"message,omitempty"`
	// Timeline is the rollout of the current revision, or nil if there is none.
	Timeline   *timeline.Timeline `json:"timeline,omitempty"`
	Facts      []Fact             `json:"facts"`
	Conditions []Condition        `json:"conditions"`
	Revisions  []Revision         `json:"revisions,omitempty"`
	// RevisionsProblem is why the stored revisions cannot be read.
	RevisionsProblem string    `json:"revisionsProblem,omitempty"`
	Commands         []Command `json:"commands"`
	Events           []Event   `json:"events"`
	// EventsProblem is why the events cannot be read.
	EventsProblem string `json:"eventsProblem,omitempty"`
}

// Fact is a name and a value.
type Fact struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// Condition is a condition of an object.
type Condition struct {
	Type    string      `json:"type"`
	Status  string      `json:"status"`
	Reason  string      `json:"reason,omitempty"`
	Message string      `json:"message,omitempty"`
	Since   metav1.Time `json:"since"`
}

// Command is a command line that continues where the page ends, because the page changes nothing.
type Command struct {
	Purpose string `json:"purpose"`
	Line    string `json:"line"`
}

// past is what is known of what happened to an AppService.
type past struct {
	stored        []revision.Stored
	storedProblem string
	events        []corev1.Event
	hasNoEvents   bool
}

// appDetail returns the detail of an AppService, without its list of events.
func appDetail(app *v1alpha1.AppService, entries []v1alpha1.ClusterStatus, known past, hubFlags []string) Detail {
	status := &app.Status
	detail := Detail{
		Message:    appOf(app, nil).Message,
		Conditions: conditionsOf(status.Conditions),
		Revisions:  revisionsOf(&status.Rollout, entries, known.stored),
		Commands:   appCommands(app, hubFlags),
		Timeline:   timeline.Of(timeline.Input{App: app, Stored: known.stored, Events: known.events, HasNoEvents: known.hasNoEvents}),

		RevisionsProblem: known.storedProblem,
	}
	detail.Facts = append(detail.Facts,
		Fact{"image", app.Spec.Image},
		Fact{"generation", fmt.Sprintf("%d, observed %d", app.Generation, status.ObservedGeneration)},
		Fact{"pods", fmt.Sprintf("%d of %d ready", status.Summary.ReadyReplicas, status.Summary.Replicas)})
	if known := status.Summary.LastKnownReadyReplicas; known > 0 {
		detail.Facts = append(detail.Facts, Fact{"last known ready pods", strconv.Itoa(int(known)) + " on clusters that cannot be observed"})
	}
	for _, source := range status.Configuration {
		detail.Facts = append(detail.Facts, Fact{strings.ToLower(string(source.Kind)) + " " + source.From, describeSource(source)})
	}
	return detail
}

// describeSource says which content of a source of the configuration is in use, and why it is not the
// present one.
func describeSource(source v1alpha1.ConfigurationStatus) string {
	text := cmp.Or(source.Snapshot, "no content yet")
	if source.UpToDate != "" {
		text += ", on " + source.UpToDate + " clusters"
	}
	if source.Reason != "" {
		text += "; " + source.Reason
	}
	if source.Message != "" {
		text += ": " + source.Message
	}
	return text
}

// cellDetail returns the detail of an AppService on one cluster without events. The members decide
// why it is not placed there.
func cellDetail(app *v1alpha1.AppService, entries []v1alpha1.ClusterStatus, cluster string, members []v1alpha1.MemberCluster, hubFlags []string) Detail {
	detail := Detail{Conditions: []Condition{}}
	at := slices.IndexFunc(entries, func(entry v1alpha1.ClusterStatus) bool { return entry.Name == cluster })
	if at < 0 {
		detail.Message = whyNotPlaced(app, entries, cluster, members)
		detail.Facts = []Fact{{"placed", "no"}}
		detail.Commands = notPlacedCommands(app, cluster, hubFlags)
		return detail
	}
	entry := &entries[at]
	detail.Message = entry.Message
	detail.Facts = entryFacts(entry)
	detail.Commands = cellCommands(app, entry, hubFlags)
	return detail
}

// whyNotPlaced says why a cluster without an entry is not chosen, as the planner would decide now.
func whyNotPlaced(app *v1alpha1.AppService, entries []v1alpha1.ClusterStatus, cluster string, members []v1alpha1.MemberCluster) string {
	planned := *app
	planned.Status.Clusters = entries
	explained, err := explain.Placement(&planned, members)
	if err != nil {
		return "the placement is invalid: " + err.Error()
	}
	at := slices.IndexFunc(explained, func(c explain.Cluster) bool { return c.Name == cluster })
	switch {
	case at < 0:
		return "there is no MemberCluster " + cluster + " that you may read"
	case explained[at].Chosen:
		return "the placement chooses this cluster, and the operator has not planned it yet"
	default:
		return "not placed: " + explained[at].Because
	}
}

func entryFacts(entry *v1alpha1.ClusterStatus) []Fact {
	facts := []Fact{
		{"pods", fmt.Sprintf("%d of %d ready", entry.ReadyReplicas, entry.Replicas)},
		{"revision", strconv.FormatInt(entry.Revision, 10)},
		{"generation", fmt.Sprintf("%d, applied %d", entry.Generation, entry.ObservedGeneration)},
	}
	if entry.MaxReplicas > 0 {
		facts = append(facts, Fact{"autoscaler", fmt.Sprintf("%d to %d pods", entry.MinReplicas, entry.MaxReplicas)})
	}
	if entry.LastKnownPhase != "" {
		facts = append(facts, Fact{"last known phase", string(entry.LastKnownPhase)})
	}
	if entry.Transition.Type != "" {
		facts = append(facts, Fact{"transition", fmt.Sprintf("%s, because of %s", entry.Transition.Type, entry.Transition.Cause)})
	}
	if len(entry.Addresses) > 0 {
		facts = append(facts, Fact{"addresses", strings.Join(entry.Addresses, ", ")})
	}
	return facts
}

// memberDetail returns the detail of a MemberCluster without events.
func memberDetail(member *v1alpha1.MemberCluster, hubFlags []string) Detail {
	detail := Detail{Conditions: conditionsOf(member.Status.Conditions), Commands: memberCommands(member, hubFlags)}
	for _, condition := range detail.Conditions {
		if condition.Type == v1alpha1.ConditionReady {
			detail.Message = condition.Message
		}
	}
	detail.Facts = append(detail.Facts, Fact{"applications", strconv.Itoa(int(member.Status.AppServices))})
	for _, resource := range slices.Sorted(maps.Keys(member.Status.Allocatable)) {
		quantity := member.Status.Allocatable[resource]
		detail.Facts = append(detail.Facts, Fact{"allocatable " + string(resource), quantity.String()})
	}
	if expires := member.Status.CredentialsExpirationTime; expires != nil {
		detail.Facts = append(detail.Facts, Fact{"credentials expire", expires.UTC().Format("2006-01-02 15:04 UTC")})
	}
	for _, taint := range member.Spec.Taints {
		detail.Facts = append(detail.Facts, Fact{"taint", formatTaint(taint)})
	}
	for _, key := range slices.Sorted(maps.Keys(member.Labels)) {
		detail.Facts = append(detail.Facts, Fact{"label " + key, member.Labels[key]})
	}
	return detail
}

func conditionsOf(conditions []metav1.Condition) []Condition {
	shown := make([]Condition, 0, len(conditions))
	for _, c := range conditions {
		shown = append(shown, Condition{Type: c.Type, Status: string(c.Status), Reason: c.Reason, Message: c.Message, Since: c.LastTransitionTime})
	}
	return shown
}
