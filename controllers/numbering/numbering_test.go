package numbering

import (
	"math"
	"testing"
)

func TestIsOutlier(t *testing.T) {
	for name, test := range map[string]struct {
		reported, given int64
		want            bool
	}{
		"nothing is reported":           {0, 0, false},
		"nothing was given":             {MaxLead, 0, false},
		"nothing was given, far above":  {MaxLead + 1, 0, true},
		"below what was given":          {1, 7, false},
		"the limit":                     {7 + MaxLead, 7, false},
		"above the limit":               {8 + MaxLead, 7, true},
		"the old limit":                 {999_999_999, 7, true},
		"above a high number":           {1_000_000_001, 1_000_000_000, false},
		"the highest number":            {math.MaxInt64, 7, true},
		"the highest number, and above": {math.MaxInt64, math.MaxInt64, false},
		"a negative number":             {math.MinInt64 + MaxLead, -5, false},
	} {
		if got := IsOutlier(test.reported, test.given); got != test.want {
			t.Errorf("%s: IsOutlier(%d, %d) is %t", name, test.reported, test.given, got)
		}
	}
}

// However often a member reports the highest plausible number, the next numbers can be read back.
func TestFalse_numbers_leave_numbers(t *testing.T) {
	given := int64(1)
	for range 1_000_000 {
		for _, reported := range []int64{given + MaxLead, 999_999_999, 1_000_000_000, math.MaxInt64} {
			if !IsOutlier(reported, given) {
				given = reported + 1
			}
		}
	}
	if given > 1<<53 || IsOutlier(given, given) {
		t.Errorf("the number after a million edits is %d", given)
	}
}

func TestParse(t *testing.T) {
	for text, want := range map[string]int64{
		"": 0, "7": 7, "1000000001": 1_000_000_001, "9223372036854775807": math.MaxInt64,
		"-7": 0, "7a": 0, "7.0": 0, "9223372036854775808": 0,
	} {
		if got := Parse(text); got != want {
			t.Errorf("Parse(%q) is %d, want %d", text, got, want)
		}
	}
}
