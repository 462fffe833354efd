// Package numbering decides which numbers that a member reports are plausible. It is pure.
//
// The hub numbers the revisions of an AppService, the contents of its sources that are updated in
// place, and its placements on a cluster. Objects on members carry these numbers, so that a hub that
// was restored, or has lost a status, gives none of them again: it continues above what members
// report. But whoever may edit an object on a member can write any number there. One such number must
// not become the number of all clusters, and must not use up the numbers.
//
// So a number counts only if it is at most [MaxLead] above the highest number that the hub has given.
// A higher one is an outlier: it is ignored, and the planner names it in an event.
package numbering

import "strconv"

// MaxLead is how far a number that a member reports may be above the highest number that the hub has
// given. A hub falls behind its members only by a restore, or because a status was lost. The lead is
// then what was counted since the backup: [MaxLead] is one change each minute for two years. A member
// that reports a false number below this limit raises the next number by the lead at most. So it takes
// nine billion edits, with a false number before each, until numbers are not exact in JSON any more.
const MaxLead = 1_000_000

// IsOutlier reports whether a number that a member reports must be ignored. Given is the highest
// number that the hub has given, or 0 if none is known.
func IsOutlier(reported, given int64) bool { return reported-MaxLead > max(0, given) }

// Parse returns a number in an annotation on a member's object, or 0 if it is missing, malformed or
// negative.
func Parse(text string) int64 {
	number, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return 0
	}
	return max(0, number)
}
