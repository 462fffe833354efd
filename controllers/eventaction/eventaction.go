// Package eventaction puts the cause of an event into its action. It is pure.
//
// The recorder merges events into a series if they differ only in their notes, and the series keeps the
// note of the first one. So what makes two events different must be in another field: an image that
// cannot be pulled in revision 4 is another event than one in revision 5. What may differ within a
// series, such as counts and times, is in the note only.
//
//	recorder.Eventf(app, member, severity, reason, eventaction.Of("Plan", "revision 4", "container app"), "%s", note)
package eventaction

import (
	"fmt"
	"hash/fnv"
	"strings"
)

// maxLength is how many bytes an action may have. The API server refuses a longer one, and the event is
// lost.
const maxLength = 128

// Of returns the action of an event: what was done, and the parts of its cause that are not empty. A
// long one ends with a digest in place of the rest.
func Of(verb string, cause ...string) string {
	action := verb
	for _, part := range cause {
		if part != "" {
			action += " " + part
		}
	}
	if len(action) <= maxLength {
		return action
	}
	digest := fnv.New32a()
	_, _ = digest.Write([]byte(action))
	end := fmt.Sprintf("… %08x", digest.Sum32())
	return strings.ToValidUTF8(action[:maxLength-len(end)], "") + end
}
