package planner

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/appslice"
	"github.com/fleetwright/fleetwright/controllers/entries"
)

const (
	// sliceWriters is the number of AppServiceSlices of one AppService that are written at a time.
	sliceWriters = 8
	// staleRetry is the time until the cache is expected to show the planner's own writes.
	staleRetry = 50 * time.Millisecond
)

// refusedRetry is the time until the planner tries again to write slices that the hub has refused.
const refusedRetry = 10 * time.Second

// errRefusedSlices is returned after the hub has refused slices, and the conditions say so.
var errRefusedSlices = errors.New("the hub refuses AppServiceSlices")

// errStaleCache is returned while the cache is older than the planner's own writes.
var errStaleCache = errors.New("the cache is behind what was written")

// store reads AppServices with all their entries from the cache, and writes AppServiceSlices. It never
// returns what is older than the planner's own last writes. Otherwise a plan from old slices could
// exceed a limit that counts over all entries, such as the removal limit, and would meet no write
// conflict, because the slices of an AppService are separate objects. It is safe for concurrent use,
// but one AppService is planned by one worker at a time.
type store struct {
	hub  client.Client // cached
	live client.Reader

	mu sync.Mutex
	// versions are the newest known versions of each AppService.
	versions map[types.UID]*versions
	// leftovers are the AppServices that may have slices although their entries are not there.
	leftovers map[types.NamespacedName]bool
}

func newStore(hub client.Client, live client.Reader) *store {
	return &store{
		hub: hub, live: live,
		versions:  map[types.UID]*versions{},
		leftovers: map[types.NamespacedName]bool{},
	}
}

// versions are the newest known resource versions of an AppService and of its slices, by slot. They
// are empty for what was not read or written yet.
type versions struct {
	app string
	// slices is nil until the slices were read live once, because another process may have written
	// them just before this one started.
	slices *[appslice.Slots]string
}

// stored is what the hub has of an AppService.
type stored struct {
	// app is the AppService with all entries, wherever they are stored.
	app *v1alpha1.AppService
	// slices are the AppServiceSlices, also if they are left over.
	slices appslice.Slices
	// hasMissing is set if another client deleted slices.
	hasMissing bool
}

// read adds the entries of its slices to an AppService of the cache. It returns errStaleCache if the
// cache does not have the slices that were last written.
func (s *store) read(ctx context.Context, app *v1alpha1.AppService) (stored, error) {
	if s.isStale(app) {
		return stored{}, errStaleCache
	}
	if app.Status.ClustersIn != v1alpha1.ClustersInSlices {
		left, err := s.readLeftovers(ctx, app)
		return stored{app: app, slices: left}, err
	}
	known, err := s.knownVersions(ctx, app)
	if err != nil {
		return stored{}, err
	}
	all, slices, err := entries.Read(ctx, s.hub, app)
	if err != nil {
		return stored{}, err
	}
	for slot, slice := range slices {
		if isCurrent, err := s.isCurrent(ctx, app, int32(slot), slice, known[slot]); err != nil {
			return stored{}, err
		} else if !isCurrent {
			return stored{}, errStaleCache
		}
	}
	return stored{app: entries.WithEntries(app, all), slices: slices, hasMissing: slices.Missing() > 0}, nil
}

// readLeftovers returns the slices of an AppService whose entries are in its status, for example
// because the operator was killed while it moved them. They are replaced when the entries move again.
func (s *store) readLeftovers(ctx context.Context, app *v1alpha1.AppService) (appslice.Slices, error) {
	s.mu.Lock()
	mayHave := s.leftovers[client.ObjectKeyFromObject(app)]
	s.mu.Unlock()
	if !mayHave {
		return appslice.Slices{}, nil
	}
	return entries.ReadSlices(ctx, s.hub, app)
}

// isStale reports whether an AppService of the cache is older than the planner's last write.
func (s *store) isStale(app *v1alpha1.AppService) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	known := s.versions[app.UID]
	return known != nil && known.app != "" && isOlder(app.ResourceVersion, known.app)
}

// knownVersions returns the newest known versions of the slices. The first time, it reads them live.
func (s *store) knownVersions(ctx context.Context, app *v1alpha1.AppService) ([appslice.Slots]string, error) {
	s.mu.Lock()
	isRead := s.versionsOf(app.UID).slices != nil
	s.mu.Unlock()
	if !isRead {
		var list v1alpha1.AppServiceSliceList
		if err := s.live.List(ctx, &list, client.InNamespace(app.Namespace), client.MatchingLabels{v1alpha1.LabelAppService: app.Name}); err != nil {
			return [appslice.Slots]string{}, fmt.Errorf("list AppServiceSlices: %w", err)
		}
		for i := range list.Items {
			if list.Items[i].AppService.UID == app.UID {
				s.record(&list.Items[i])
			}
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return *s.slicesOf(app.UID), nil
}

// versionsOf returns the known versions of an AppService. The caller holds the lock.
func (s *store) versionsOf(app types.UID) *versions {
	if s.versions[app] == nil {
		s.versions[app] = &versions{}
	}
	return s.versions[app]
}

// slicesOf returns the known versions of the slices of an AppService. The caller holds the lock.
func (s *store) slicesOf(app types.UID) *[appslice.Slots]string {
	known := s.versionsOf(app)
	if known.slices == nil {
		known.slices = &[appslice.Slots]string{}
	}
	return known.slices
}

// isCurrent reports whether a slice of the cache, or nil, is as new as a known version. If the slice
// is missing, the hub decides whether the cache is behind or the slice was deleted.
func (s *store) isCurrent(ctx context.Context, app *v1alpha1.AppService, slot int32, cached *v1alpha1.AppServiceSlice, known string) (bool, error) {
	switch {
	case known == "":
		return true, nil
	case cached != nil:
		return !isOlder(cached.ResourceVersion, known), nil
	}
	current := &v1alpha1.AppServiceSlice{}
	if err := s.live.Get(ctx, client.ObjectKey{Namespace: app.Namespace, Name: appslice.Name(app.Name, slot)}, current); client.IgnoreNotFound(err) != nil {
		return false, fmt.Errorf("read AppServiceSlice: %w", err)
	}
	return current.AppService.UID != app.UID, nil // it does not exist, or belongs to another AppService
}

// isOlder reports whether a resource version is older than another. Versions that cannot be compared
// are not.
func isOlder(version, than string) bool {
	order, err := resourceversion.CompareResourceVersion(version, than)
	return err == nil && order < 0
}

// record records the version of a slice, unless a newer one is known.
func (s *store) record(slice *v1alpha1.AppServiceSlice) {
	s.mu.Lock()
	defer s.mu.Unlock()
	known := &s.slicesOf(slice.AppService.UID)[slice.Slot]
	if *known == "" || isOlder(*known, slice.ResourceVersion) {
		*known = slice.ResourceVersion
	}
}

// recordApp records the version of an AppService that was written.
func (s *store) recordApp(app *v1alpha1.AppService, version string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.versionsOf(app.UID).app = version
}

// isOwnWrite reports whether an event shows what the planner wrote itself.
func (s *store) isOwnWrite(slice *v1alpha1.AppServiceSlice) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	known := s.versions[slice.AppService.UID]
	return known != nil && known.slices != nil && known.slices[slice.Slot] == slice.ResourceVersion
}

// noteLeftover records that an AppService may have slices.
func (s *store) noteLeftover(slice *v1alpha1.AppServiceSlice) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.leftovers[types.NamespacedName{Namespace: slice.Namespace, Name: slice.AppService.Name}] = true
}

// forget drops what is known of a deleted AppService.
func (s *store) forget(app *v1alpha1.AppService) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.versions, app.UID)
	delete(s.leftovers, client.ObjectKeyFromObject(app))
}

// unwritten returns the slices that differ from the stored ones, if the next entries belong in
// slices.
func (s *stored) unwritten(next *v1alpha1.AppServiceStatus) []*v1alpha1.AppServiceSlice {
	if next.ClustersIn != v1alpha1.ClustersInSlices {
		return nil
	}
	var unwritten []*v1alpha1.AppServiceSlice
	split := appslice.Split(s.app, next.Clusters)
	for slot, want := range split {
		if have := s.slices[slot]; have == nil {
			unwritten = append(unwritten, want)
		} else if !appslice.IsStored(have, want) {
			unwritten = append(unwritten, appslice.Replace(have, want))
		}
	}
	return unwritten
}

// write writes slices. An existing slice must have the version that was read. It returns the error of
// the first slice that fails. The others are written, and the next plan starts from them.
func (s *store) write(ctx context.Context, slices []*v1alpha1.AppServiceSlice) error {
	errs := make([]error, len(slices))
	var writers errgroup.Group
	writers.SetLimit(sliceWriters)
	for i, slice := range slices {
		writers.Go(func() error {
			if errs[i] = s.writeSlice(ctx, slice); errs[i] == nil {
				s.record(slice)
			}
			return nil
		})
	}
	_ = writers.Wait()
	for i, err := range errs { // in order of the slots, so that a refusal is always reported alike
		if err != nil {
			return fmt.Errorf("write AppServiceSlice %s: %w", slices[i].Name, err)
		}
	}
	return nil
}

func (s *store) writeSlice(ctx context.Context, slice *v1alpha1.AppServiceSlice) error {
	if slice.ResourceVersion != "" {
		return s.hub.Update(ctx, slice)
	}
	err := s.hub.Create(ctx, slice)
	if !apierrors.IsAlreadyExists(err) {
		return err
	}
	// A previous AppService of this name left it, or the cache is behind.
	left := &v1alpha1.AppServiceSlice{}
	if err := s.live.Get(ctx, client.ObjectKeyFromObject(slice), left); err != nil {
		return err
	}
	if left.AppService.UID == slice.AppService.UID {
		s.record(left)
		s.noteLeftover(left)
		return errStaleCache
	}
	if err := s.delete(ctx, left); err != nil {
		return err
	}
	return s.hub.Create(ctx, slice)
}

// delete deletes exactly this version of a slice.
func (s *store) delete(ctx context.Context, slice *v1alpha1.AppServiceSlice) error {
	exactly := client.Preconditions{UID: &slice.UID, ResourceVersion: &slice.ResourceVersion}
	return client.IgnoreNotFound(s.hub.Delete(ctx, slice, exactly))
}

// deleteLeftovers deletes the slices of an AppService whose entries are in its status.
func (s *store) deleteLeftovers(ctx context.Context, app *v1alpha1.AppService) error {
	if app.Status.ClustersIn == v1alpha1.ClustersInSlices || !s.takeLeftover(app) {
		return nil
	}
	err := s.deleteSlices(ctx, app)
	if err != nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.leftovers[client.ObjectKeyFromObject(app)] = true
	}
	return err
}

// takeLeftover reports whether an AppService may have slices, and forgets that. A slice that is
// created from now on is noted again.
func (s *store) takeLeftover(app *v1alpha1.AppService) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	key := client.ObjectKeyFromObject(app)
	defer delete(s.leftovers, key)
	return s.leftovers[key]
}

// deleteSlices deletes the slices of an AppService, unless its entries are there. The cache is no
// evidence for that: the AppService is read live.
func (s *store) deleteSlices(ctx context.Context, app *v1alpha1.AppService) error {
	key := client.ObjectKeyFromObject(app)
	current := &v1alpha1.AppService{}
	if err := s.live.Get(ctx, key, current); err != nil {
		return client.IgnoreNotFound(err)
	}
	if current.UID != app.UID || current.Status.ClustersIn == v1alpha1.ClustersInSlices {
		return nil
	}
	var list v1alpha1.AppServiceSliceList
	if err := s.live.List(ctx, &list, client.InNamespace(app.Namespace), client.MatchingLabels{v1alpha1.LabelAppService: app.Name}); err != nil {
		return fmt.Errorf("list AppServiceSlices: %w", err)
	}
	for i := range list.Items {
		if slice := &list.Items[i]; slice.AppService.Name == app.Name {
			if err := s.delete(ctx, slice); err != nil {
				return fmt.Errorf("delete AppServiceSlice %s: %w", slice.Name, err)
			}
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.versions, app.UID)
	return nil
}
