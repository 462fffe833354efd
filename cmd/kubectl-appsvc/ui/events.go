package ui

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
)

const (
	// maxEvents is how many events a detail shows.
	maxEvents     = 20
	eventsPage    = 500
	eventsTimeout = 10 * time.Second
)

// Event is an event of an object.
type Event struct {
	Time    metav1.Time `json:"time"`
	Warning bool        `json:"warning,omitempty"`
	Reason  string      `json:"reason"`
	Message string      `json:"message"`
	Count   int32       `json:"count,omitempty"`
}

// listEvents reads the events of an object. Events of cluster-scoped objects are in the namespace
// default.
func listEvents(ctx context.Context, client corev1client.EventsGetter, kind, namespace, name string) ([]corev1.Event, error) {
	ctx, cancel := context.WithTimeout(ctx, eventsTimeout)
	defer cancel()
	var found []corev1.Event
	options := metav1.ListOptions{
		FieldSelector: fields.Set{"involvedObject.kind": kind, "involvedObject.name": name}.String(),
		Limit:         eventsPage,
	}
	for { // the hub does not sort events by their time
		list, err := client.Events(cmp.Or(namespace, metav1.NamespaceDefault)).List(ctx, options)
		if err != nil {
			return nil, err
		}
		found = append(found, list.Items...)
		if options.Continue = list.Continue; options.Continue == "" {
			return found, nil
		}
	}
}

// newestEvents returns the newest events, newest first. With a cluster, events about other clusters
// are left out.
func newestEvents(events []corev1.Event, cluster string) []Event {
	shown := make([]Event, 0, len(events))
	for i := range events {
		event := &events[i]
		if cluster == "" || concerns(event, cluster) {
			shown = append(shown, Event{
				Time: timeOf(event), Warning: event.Type == corev1.EventTypeWarning,
				Reason: event.Reason, Message: event.Message, Count: countOf(event),
			})
		}
	}
	slices.SortStableFunc(shown, func(a, b Event) int { return b.Time.Compare(a.Time.Time) })
	return shown[:min(len(shown), maxEvents)]
}

// concerns reports whether an event is about a cluster, or about no cluster in particular. An event
// about several clusters is related to the first, and names them all at the start of its message.
func concerns(event *corev1.Event, cluster string) bool {
	if event.Related == nil || event.Related.Kind != "MemberCluster" || event.Related.Name == cluster {
		return true
	}
	names, _, _ := strings.Cut(event.Message, ": ")
	return slices.Contains(strings.FieldsFunc(names, func(r rune) bool { return r == ',' || r == ' ' }), cluster)
}

// timeOf returns when an event was last seen.
func timeOf(event *corev1.Event) metav1.Time {
	switch {
	case event.Series != nil:
		return metav1.Time{Time: event.Series.LastObservedTime.Time}
	case !event.LastTimestamp.IsZero():
		return event.LastTimestamp
	case !event.EventTime.IsZero():
		return metav1.Time{Time: event.EventTime.Time}
	default:
		return event.CreationTimestamp
	}
}

func countOf(event *corev1.Event) int32 {
	if event.Series != nil {
		return event.Series.Count
	}
	return event.Count
}
