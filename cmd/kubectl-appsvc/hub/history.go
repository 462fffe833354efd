package hub

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/revision"
)

// ReadHistory returns the revisions of an AppService that the hub has stored, oldest first.
func (h Client) ReadHistory(ctx context.Context, app *v1alpha1.AppService) ([]revision.Stored, error) {
	list := &appsv1.ControllerRevisionList{}
	if err := h.List(ctx, list, client.InNamespace(app.Namespace), client.MatchingLabels{v1alpha1.LabelAppService: app.Name}); err != nil {
		return nil, fmt.Errorf("list the ControllerRevisions of %s: %w", app.Name, err)
	}
	var history []revision.Stored
	for i := range list.Items {
		if stored, err := revision.Read(app, &list.Items[i]); err == nil { // others are no revisions of it
			history = append(history, stored)
		}
	}
	slices.SortFunc(history, func(a, b revision.Stored) int { return cmp.Compare(a.Number, b.Number) })
	return history, nil
}
