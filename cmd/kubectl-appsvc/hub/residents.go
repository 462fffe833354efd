package hub

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
)

// Residents are the AppServices that have an entry for a cluster.
type Residents map[client.ObjectKey]Resident

// Resident is an AppService that has an entry for a cluster.
type Resident struct {
	App *v1alpha1.AppService
	// Entry has only a reason if it is not known.
	Entry *v1alpha1.ClusterStatus
}

// ResidentsOn returns all AppServices that have an entry for a cluster.
func (h Client) ResidentsOn(ctx context.Context, cluster string) (Residents, error) {
	list := &v1alpha1.AppServiceList{}
	if err := h.List(ctx, list); err != nil {
		return nil, fmt.Errorf("list AppServices: %w", err)
	}
	slot := v1alpha1.SlotOf(cluster)
	var stored map[sliceKey]*v1alpha1.AppServiceSlice
	if slices.ContainsFunc(list.Items, func(app v1alpha1.AppService) bool { return app.Status.HasSlices() }) {
		var err error
		if stored, err = h.listSlices(ctx, client.MatchingLabels{v1alpha1.LabelSlot: strconv.Itoa(int(slot))}); err != nil {
			return nil, fmt.Errorf("list AppServiceSlices: %w", err)
		}
	}
	there := Residents{}
	for i := range list.Items {
		app := &list.Items[i]
		entry := app.Status.Cluster(cluster)
		if app.Status.HasSlices() {
			entry = &v1alpha1.ClusterStatus{Name: cluster, Reason: "its AppServiceSlice is missing; the operator writes it again"}
			if slice := stored[keyOfSlice(app, slot)]; slice != nil {
				entry = slice.Cluster(cluster)
			}
		}
		if entry != nil {
			there[client.ObjectKeyFromObject(app)] = Resident{app, entry}
		}
	}
	return there, nil
}

// SortedKeys returns AppServices by namespace and name.
func SortedKeys[V any](of map[client.ObjectKey]V) []client.ObjectKey {
	return slices.SortedFunc(maps.Keys(of), func(a, b client.ObjectKey) int { return cmp.Compare(a.String(), b.String()) })
}
