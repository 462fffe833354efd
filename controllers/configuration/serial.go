package configuration

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
)

// knownSerials are what is known of the serials of an AppService.
type knownSerials struct {
	app types.NamespacedName
	// last is status.configurationSerial.
	last int64
	// onMembers are the highest serials that members have reported for their copies.
	onMembers map[Ref]int64
	stored    storedSnapshots
	// accepted is the value of the annotation accept-configuration.
	accepted string
}

// next returns the serial of the present content of a source, which is another than before. A
// hub that knows no content at all before it may have been restored: it does not use a serial that is
// higher than those on the members, so that the content is accepted first.
func (n knownSerials) next(s *source) int64 {
	switch {
	case !s.isInPlace && s.last.Serial == 0:
		return 0
	case s.last.Snapshot == "": // a source that is added, maybe again: a member may still have its last content
		return max(n.last, s.last.Serial) + 1
	}
	return n.highest(s) + 1
}

// nextLast returns the next status.configurationSerial.
func (n knownSerials) nextLast(next []v1alpha1.ConfigurationStatus) int64 {
	highest := n.last
	for _, status := range next {
		highest = max(highest, status.Serial)
	}
	return highest
}

// highest returns the highest serial that a content of the source may have had.
func (n knownSerials) highest(s *source) int64 {
	_, newest := n.stored.newest(s.Ref)
	return max(n.last, s.last.Serial, n.onMembers[s.Ref], newest)
}

// settle sets the serial of a source that was not updated in place before, and the one that
// ends a difference that was accepted. Otherwise, it reports a difference.
func (n knownSerials) settle(s *source) {
	switch onMembers := n.onMembers[s.Ref]; {
	case !s.isInPlace || s.last.Snapshot == "" || IsAbsent(s.last.Snapshot):
	case s.last.Serial == 0:
		s.last.Serial = n.highest(s) + 1
	case s.isAdded && !s.isOther() && s.last.Serial < n.last && onMembers <= n.last:
		// A member that cannot be reached may have a later content, which this hub has given.
		s.last.Serial = n.highest(s) + 1
	case onMembers <= s.last.Serial:
	case n.isAccepted(s.last.Snapshot, onMembers):
		s.last.Serial = onMembers + 1
	default:
		s.isBlocked, s.isFailed = false, false // the message is complete
		s.problem = &Problem{v1alpha1.ReasonHubBehind, fmt.Sprintf("members have a later content of %s than this hub, so it is left alone: if the hub was restored, bring the source up to date; to overwrite the members, kubectl annotate appservice %s -n %s %s=%s",
			s.describe(), n.app.Name, n.app.Namespace, v1alpha1.AnnotationAcceptConfiguration, acceptValue(s.last.Snapshot, onMembers))}
	}
}

// acceptValue returns the value that accepts that a snapshot overwrites the content with a serial.
func acceptValue(snapshot string, serial int64) string {
	return snapshot + "@" + strconv.FormatInt(serial, 10)
}

func (n knownSerials) isAccepted(snapshot string, serial int64) bool {
	values := strings.Split(strings.ReplaceAll(n.accepted, " ", ""), ",")
	return slices.Contains(values, acceptValue(snapshot, serial))
}
