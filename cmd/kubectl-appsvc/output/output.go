package output

import (
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/duration"
)

// ListShort joins texts. It counts the ones beyond the third.
func ListShort(texts []string) string {
	const listed = 3
	if len(texts) <= listed {
		return strings.Join(texts, ",")
	}
	return fmt.Sprintf("%s,… %d more", strings.Join(texts[:listed], ","), len(texts)-listed)
}

// FormatTime returns a time in UTC, to the minute.
func FormatTime(at time.Time) string { return at.UTC().Format("2006-01-02 15:04 UTC") }

// Age returns how long ago a time was, as kubectl prints it.
func Age(since time.Time) string {
	if since.IsZero() {
		return "<unknown>"
	}
	return duration.HumanDuration(time.Since(since))
}

// OrNone returns the text, or <none> if it is empty.
func OrNone(text string) string {
	if text == "" {
		return "<none>"
	}
	return text
}
