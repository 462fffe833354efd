package configuration

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
)

// nextSerial returns the serial of the present content of a source, which is another than before. A
// hub that knows no content at all before it may have been restored: it does not use a serial that is
// higher than those on the members, so that the content is accepted first.
func (in Input) nextSerial(s *source) int64 {
	switch {
	case !s.isInPlace && s.last.Serial == 0:
		return 0
	case s.last.Snapshot == "": // a source that is added, maybe again: a member may still have its last content
		return max(in.Serial, s.last.Serial) + 1
	}
	return in.highestSerial(s) + 1
}

// nextHighest returns the next status.configurationSerial.
func (in Input) nextHighest(next []v1alpha1.ConfigurationStatus) int64 {
	highest := in.Serial
	for _, status := range next {
		highest = max(highest, status.Serial)
	}
	return highest
}

// highestSerial returns the highest serial that a content of the source may have had.
func (in Input) highestSerial(s *source) int64 {
	highest := max(in.Serial, s.last.Serial, in.Serials[s.Ref])
	for _, snapshot := range in.Snapshots {
		if snapshot.Ref == s.Ref && snapshot.Owner == in.UID {
			highest = max(highest, snapshot.Serial)
		}
	}
	return highest
}

// settleSerial sets the serial of a source that was not updated in place before, and the one that
// ends a difference that was accepted. Otherwise, it reports a difference.
func (in Input) settleSerial(s *source) {
	switch onMembers := in.Serials[s.Ref]; {
	case !s.isInPlace || s.last.Snapshot == "" || IsAbsent(s.last.Snapshot):
	case s.last.Serial == 0:
		s.last.Serial = in.highestSerial(s) + 1
	case s.isAdded && !s.isOther() && s.last.Serial < in.Serial && onMembers <= in.Serial:
		// A member that cannot be reached may have a later content, which this hub has given.
		s.last.Serial = in.highestSerial(s) + 1
	case onMembers <= s.last.Serial:
	case in.isAccepted(s.last.Snapshot, onMembers):
		s.last.Serial = onMembers + 1
	default:
		s.isBlocked, s.isFailed = false, false // the message is complete
		s.problem = &Problem{v1alpha1.ReasonHubBehind, fmt.Sprintf("members have a later content of %s than this hub, so it is left alone: if the hub was restored, bring the source up to date; to overwrite the members, kubectl annotate appservice %s -n %s %s=%s",
			s.describe(), in.App.Name, in.App.Namespace, v1alpha1.AnnotationAcceptConfiguration, acceptValue(s.last.Snapshot, onMembers))}
	}
}

// acceptValue returns the value that accepts that a snapshot overwrites the content with a serial.
func acceptValue(snapshot string, serial int64) string {
	return snapshot + "@" + strconv.FormatInt(serial, 10)
}

func (in Input) isAccepted(snapshot string, serial int64) bool {
	values := strings.Split(strings.ReplaceAll(in.Accepted, " ", ""), ",")
	return slices.Contains(values, acceptValue(snapshot, serial))
}
