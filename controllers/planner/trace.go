package planner

import (
	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
)

// settled tells that an AppService is Ready as it was last edited: what is done for it now is no part of that edit.
func settled(app *v1alpha1.AppService) bool {
	return app.Status.ObservedGeneration == app.Generation && meta.IsStatusConditionTrue(app.Status.Conditions, v1alpha1.ConditionReady)
}
