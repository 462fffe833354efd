package placement_test

import (
	"testing"

	"github.com/fleetwright/fleetwright/api/v1alpha1"

	"github.com/fleetwright/fleetwright/controllers/placement"
)

// Invariant 5: an error whose text varies would cause writes at rest.
func TestDecide_returns_the_same_error_for_a_selector_with_two_mistakes(t *testing.T) {
	app := app(selected(v1alpha1.ClusterSelector{MatchLabels: map[string]string{"a": "not a value", "b": "nor this"}}))
	_, first := placement.Decide(app, nil)
	for range 100 {
		if _, again := placement.Decide(app, nil); again.Error() != first.Error() {
			t.Fatalf("first: %v\nthen:  %v", first, again)
		}
	}
}
