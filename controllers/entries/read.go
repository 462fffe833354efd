package entries

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/entries/appslice"
)

// Of returns the entry of an AppService for a cluster, or nil. It is not known whether there is an
// entry while its slice is missing. The hub may be a cache or the API server. Of a cache, the entry
// must not be modified.
func Of(ctx context.Context, hub client.Reader, app *v1alpha1.AppService, cluster string) (entry *v1alpha1.ClusterStatus, known bool, err error) {
	if !app.Status.HasSlices() {
		return app.Status.Cluster(cluster), true, nil
	}
	slice, err := readSlice(ctx, hub, app, v1alpha1.SlotOf(cluster))
	if err != nil || slice == nil {
		return nil, false, err
	}
	return slice.Cluster(cluster), true, nil
}

// Read returns all entries of an AppService, and its slices if it has them. Of a cache, neither
// must be modified.
func Read(ctx context.Context, hub client.Reader, app *v1alpha1.AppService) ([]v1alpha1.ClusterStatus, appslice.Slices, error) {
	if !app.Status.HasSlices() {
		return app.Status.Clusters, appslice.Slices{}, nil
	}
	stored, err := ReadSlices(ctx, hub, app)
	if err != nil {
		return nil, appslice.Slices{}, err
	}
	return appslice.Join(stored), stored, nil
}

// ReadSlices returns the slices of an AppService, even if its entries are not in slices (any more).
func ReadSlices(ctx context.Context, hub client.Reader, app *v1alpha1.AppService) (appslice.Slices, error) {
	var stored appslice.Slices
	for slot := range stored {
		var err error
		if stored[slot], err = readSlice(ctx, hub, app, int32(slot)); err != nil {
			return appslice.Slices{}, err
		}
	}
	return stored, nil
}

// readSlice returns a slice of an AppService, or nil if it is missing.
func readSlice(ctx context.Context, hub client.Reader, app *v1alpha1.AppService, slot int32) (*v1alpha1.AppServiceSlice, error) {
	slice := &v1alpha1.AppServiceSlice{}
	err := hub.Get(ctx, client.ObjectKey{Namespace: app.Namespace, Name: v1alpha1.SliceName(app.Name, slot)}, slice, client.UnsafeDisableDeepCopy)
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("read AppServiceSlice %s: %w", v1alpha1.SliceName(app.Name, slot), err)
	case slice.AppService.UID != app.UID:
		return nil, nil
	}
	return slice, nil
}

// WithEntries returns a copy of an AppService whose status.clusters has all entries, wherever they
// are stored.
func WithEntries(app *v1alpha1.AppService, all []v1alpha1.ClusterStatus) *v1alpha1.AppService {
	joined := *app
	joined.Status.Clusters = all
	return &joined
}
