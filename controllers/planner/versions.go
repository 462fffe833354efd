package planner

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
)

const (
	// staleRetry is the time until the cache is expected to show the planner's own writes.
	staleRetry = 50 * time.Millisecond
	// staleReload is how long the cache may be behind before the versions are read live again.
	staleReload = time.Second
)

// errStaleCache is returned while the cache is older than what the planner has written.
var errStaleCache = errors.New("the cache is behind what was written")

// newestVersions knows the newest resource versions of AppServices and of their slices. It is safe
// for concurrent use.
type newestVersions struct {
	live client.Reader

	mu   sync.Mutex
	apps map[types.UID]*appVersions
}

// appVersions are the newest known resource versions of one AppService. They are empty for what was
// not read or written yet.
type appVersions struct {
	app string
	// slices are the versions of the slices by slot. They are nil until they were read live,
	// because another process may have written them just before this one started.
	slices *[v1alpha1.SliceCount]string
	// reloadTime is when the versions are read live again, while the cache is behind.
	reloadTime time.Time
}

// of returns the newest versions of an AppService. Those of slices are read live the first time.
func (n *newestVersions) of(ctx context.Context, app *v1alpha1.AppService) (appVersions, error) {
	n.mu.Lock()
	known := *n.get(app.UID)
	n.mu.Unlock()
	if app.Status.ClustersIn != v1alpha1.ClustersInSlices || known.slices != nil {
		return known, nil
	}
	return n.reload(ctx, app)
}

// reload replaces the known versions of an AppService by those that the hub has.
func (n *newestVersions) reload(ctx context.Context, app *v1alpha1.AppService) (appVersions, error) {
	current := &v1alpha1.AppService{}
	if err := n.live.Get(ctx, client.ObjectKeyFromObject(app), current); client.IgnoreNotFound(err) != nil {
		return appVersions{}, fmt.Errorf("read AppService: %w", err)
	}
	var list v1alpha1.AppServiceSliceList
	if err := n.live.List(ctx, &list, client.InNamespace(app.Namespace), client.MatchingLabels{v1alpha1.LabelAppService: app.Name}); err != nil {
		return appVersions{}, fmt.Errorf("list AppServiceSlices: %w", err)
	}
	known := appVersions{slices: &[v1alpha1.SliceCount]string{}}
	if current.UID == app.UID {
		known.app = current.ResourceVersion
	}
	for i := range list.Items {
		if slice := &list.Items[i]; slice.AppService.UID == app.UID && slice.Name == v1alpha1.SliceName(app.Name, slice.Slot) {
			known.slices[slice.Slot] = slice.ResourceVersion
		}
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.apps[app.UID] = &known
	return known, nil
}

// behind returns errStaleCache. If the cache stays behind, the versions are read live again: a
// slice may have been deleted, or the hub may have been restored from a backup with lower versions.
func (n *newestVersions) behind(ctx context.Context, app *v1alpha1.AppService, now time.Time) error {
	n.mu.Lock()
	known := n.get(app.UID)
	isDue := !known.reloadTime.IsZero() && now.After(known.reloadTime)
	if known.reloadTime.IsZero() {
		known.reloadTime = now.Add(staleReload)
	}
	n.mu.Unlock()
	if isDue {
		if _, err := n.reload(ctx, app); err != nil {
			return err
		}
	}
	return errStaleCache
}

// caughtUp records that the cache is not behind.
func (n *newestVersions) caughtUp(app *v1alpha1.AppService) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.get(app.UID).reloadTime = time.Time{}
}

// get returns the versions of an AppService. The caller holds the lock.
func (n *newestVersions) get(app types.UID) *appVersions {
	if n.apps[app] == nil {
		n.apps[app] = &appVersions{}
	}
	return n.apps[app]
}

// recordApp records the version of an AppService that was written.
func (n *newestVersions) recordApp(app *v1alpha1.AppService, version string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.get(app.UID).app = version
}

// recordSlice records the version of a slice that was written.
func (n *newestVersions) recordSlice(slice *v1alpha1.AppServiceSlice) {
	n.mu.Lock()
	defer n.mu.Unlock()
	known := n.get(slice.AppService.UID)
	if known.slices == nil {
		known.slices = &[v1alpha1.SliceCount]string{}
	}
	known.slices[slice.Slot] = slice.ResourceVersion
}

// isOwnWrite reports whether a slice has the version that the planner wrote.
func (n *newestVersions) isOwnWrite(slice *v1alpha1.AppServiceSlice) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	known := n.apps[slice.AppService.UID]
	return known != nil && known.slices != nil && known.slices[slice.Slot] == slice.ResourceVersion
}

// forgetSlices drops the versions of the slices of an AppService. They are read live before the
// next plan.
func (n *newestVersions) forgetSlices(app types.UID) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.get(app).slices = nil
}

// forget drops the versions of a deleted AppService.
func (n *newestVersions) forget(app types.UID) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.apps, app)
}

// isOlder reports whether a resource version is older than another, which may be empty. Versions
// that cannot be compared are not.
func isOlder(version, than string) bool {
	if than == "" {
		return false
	}
	order, err := resourceversion.CompareResourceVersion(version, than)
	return err == nil && order < 0
}
