package object

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// A change is reported as Progressing, until the cache shows its outcome. What is applied is
// logged.
func TestResult_says_whether_the_member_may_have_changed(t *testing.T) {
	t.Parallel()
	type answer struct{ IsApplied, IsChange bool }
	want := map[Action]answer{
		"":        {},
		Unchanged: {},
		Record:    {},
		Stale:     {IsChange: true},
		Create:    {IsApplied: true, IsChange: true},
		Update:    {IsApplied: true, IsChange: true},
		Correct:   {IsApplied: true, IsChange: true},
		Adopt:     {IsApplied: true, IsChange: true},
	}
	got := map[Action]answer{}
	for action := range want {
		result := Result{Step: Step{Action: action}}
		got[action] = answer{result.IsApplied(), result.IsChange()}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
