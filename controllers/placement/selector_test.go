package placement_test

import (
	"testing"

	"github.com/fleetwright/fleetwright/api/v1alpha1"

	"github.com/fleetwright/fleetwright/controllers/placement"
)

// D8, invariant 5: an error whose text varies would cause writes at rest.
func TestDecide_says_the_same_of_a_selector_that_is_wrong_twice(t *testing.T) {
	app := app(selected(v1alpha1.ClusterSelector{MatchLabels: map[string]string{"a": "not a value", "b": "nor this"}}))
	_, first := placement.Decide(app, nil)
	for range 100 {
		if _, again := placement.Decide(app, nil); again.Error() != first.Error() {
			t.Fatalf("first: %v\nthen:  %v", first, again)
		}
	}
}
