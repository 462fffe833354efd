package eventaction

import (
	"strings"
	"testing"
	"unicode/utf8"
)

func TestOf(t *testing.T) {
	for want, parts := range map[string][]string{
		"Plan":                          {"", ""},
		"Plan revision 4":               {"revision 4", ""},
		"Plan revision 4 container app": {"revision 4", "container app"},
	} {
		if got := Of("Plan", parts...); got != want {
			t.Errorf("%q: got %q, want %q", parts, got, want)
		}
	}
}

func TestOf_a_long_cause_is_bounded_and_stays_different(t *testing.T) {
	long := strings.Repeat("é", 200)
	one, other := Of("Plan", long, "a"), Of("Plan", long, "b")
	if one == other || one != Of("Plan", long, "a") {
		t.Errorf("got %q and %q", one, other)
	}
	for _, action := range []string{one, other, Of("Plan", strings.Repeat("x", 123))} {
		if len(action) > maxLength || !utf8.ValidString(action) {
			t.Errorf("%d bytes: %q", len(action), action)
		}
	}
}
