package planner

import (
	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
)

// isSettled reports whether an AppService is Ready at its current generation, so that further work
// does not belong to the last edit.
func isSettled(app *v1alpha1.AppService) bool {
	return app.Status.ObservedGeneration == app.Generation && meta.IsStatusConditionTrue(app.Status.Conditions, v1alpha1.ConditionReady)
}
