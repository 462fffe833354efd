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
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/entries"
	"github.com/fleetwright/fleetwright/controllers/entries/appslice"
)

const (
	// sliceWriters is the number of AppServiceSlices of one AppService that are written at a time.
	sliceWriters = 8
	// refusedRetry is the time until the planner tries again to write objects that the hub has
	// refused.
	refusedRetry = 10 * time.Second
)

// errRefused is returned after the hub has refused objects that a plan needs, and the conditions
// say so.
var errRefused = errors.New("the hub refuses objects of the plan")

// store reads AppServices with all their entries from the cache, and writes AppServiceSlices. It
// never returns what is older than the planner's own last writes. Otherwise a plan from old slices
// could exceed a limit that counts over all entries, such as the removal limit, and would meet no
// write conflict, because the slices of an AppService are separate objects. It is safe for
// concurrent use, but one AppService is planned by one worker at a time.
type store struct {
	hub      client.Client // cached
	live     client.Reader
	versions newestVersions

	mu sync.Mutex
	// mayHaveSlices are the AppServices that have slices, or had them since the start.
	mayHaveSlices map[types.NamespacedName]bool
	// deleted are the slices that another client deleted, as they were, by AppService. They are
	// dropped when they are written again.
	deleted map[types.NamespacedName]*appslice.Slices
}

func newStore(hub client.Client, live client.Reader) *store {
	return &store{
		hub: hub, live: live,
		versions:      newestVersions{live: live, apps: map[types.UID]*appVersions{}},
		mayHaveSlices: map[types.NamespacedName]bool{},
		deleted:       map[types.NamespacedName]*appslice.Slices{},
	}
}

// stored is what the hub has of an AppService.
type stored struct {
	// app is the AppService with all entries, wherever they are stored.
	app *v1alpha1.AppService
	// slices are the AppServiceSlices, also if they are left over.
	slices appslice.Slices
	// hasMissing is set if another client deleted slices, and their entries are not known.
	hasMissing bool
}

// read adds the entries of its slices to an AppService of the cache, also of slices that another
// client deleted while this process ran. Of other slices that are missing, it adds the entries that
// status.worstClusters has, so that a removal in progress is not forgotten. It returns errStaleCache if
// the cache does not have what was last written.
func (s *store) read(ctx context.Context, app *v1alpha1.AppService) (stored, error) {
	newest, err := s.versions.of(ctx, app)
	if err != nil {
		return stored{}, err
	}
	if isOlder(app.ResourceVersion, newest.app) {
		return stored{}, s.versions.behind(ctx, app, time.Now())
	}
	if app.Status.ClustersIn != v1alpha1.ClustersInSlices {
		s.versions.caughtUp(app)
		s.forgetDeleted(client.ObjectKeyFromObject(app))
		left, err := s.readLeftovers(ctx, app)
		return stored{app: app, slices: left}, err
	}
	all, slices, err := entries.Read(ctx, s.hub, app)
	if err != nil {
		return stored{}, err
	}
	for slot, slice := range slices {
		if version := newest.slices[slot]; version != "" && (slice == nil || isOlder(slice.ResourceVersion, version)) {
			return stored{}, s.versions.behind(ctx, app, time.Now())
		}
	}
	s.versions.caughtUp(app)
	complete := s.withDeleted(app, slices)
	if slices.Missing() > 0 {
		all = appslice.Join(complete.WithLastKnown(app))
	}
	return stored{app: entries.WithEntries(app, all), slices: slices, hasMissing: complete.Missing() > 0}, nil
}

// noteDeleted records a slice that is no longer on the hub. If its last state is not known, an
// older one is dropped.
func (s *store) noteDeleted(slice *v1alpha1.AppServiceSlice, isLastState bool) {
	if slice.Name != v1alpha1.SliceName(slice.AppService.Name, slice.Slot) {
		return // a copy
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	app := types.NamespacedName{Namespace: slice.Namespace, Name: slice.AppService.Name}
	if s.deleted[app] == nil {
		s.deleted[app] = &appslice.Slices{}
	}
	s.deleted[app][slice.Slot] = nil
	if isLastState {
		s.deleted[app][slice.Slot] = slice
	}
}

// withDeleted returns the slices of an AppService together with those that were deleted. It drops
// deleted slices that are on the hub again.
func (s *store) withDeleted(app *v1alpha1.AppService, stored appslice.Slices) appslice.Slices {
	s.mu.Lock()
	defer s.mu.Unlock()
	key := client.ObjectKeyFromObject(app)
	deleted := s.deleted[key]
	if deleted == nil {
		return stored
	}
	for slot, slice := range deleted {
		if stored[slot] != nil || slice == nil || slice.AppService.UID != app.UID {
			deleted[slot] = nil
		} else {
			stored[slot] = slice
		}
	}
	if deleted.Missing() == v1alpha1.SliceCount {
		delete(s.deleted, key)
	}
	return stored
}

// forgetDeleted drops the deleted slices of an AppService that has none any more.
func (s *store) forgetDeleted(app types.NamespacedName) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.deleted, app)
}

// readLeftovers returns the slices of an AppService whose entries are in its status, for example
// because the operator was killed while it moved them. They are replaced when the entries move
// again.
func (s *store) readLeftovers(ctx context.Context, app *v1alpha1.AppService) (appslice.Slices, error) {
	s.mu.Lock()
	mayHave := s.mayHaveSlices[client.ObjectKeyFromObject(app)]
	s.mu.Unlock()
	if !mayHave {
		return appslice.Slices{}, nil
	}
	return entries.ReadSlices(ctx, s.hub, app)
}

// noteSlice records that an AppService has slices.
func (s *store) noteSlice(slice *v1alpha1.AppServiceSlice) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mayHaveSlices[types.NamespacedName{Namespace: slice.Namespace, Name: slice.AppService.Name}] = true
}

// forget drops what is known of a deleted AppService.
func (s *store) forget(app *v1alpha1.AppService) {
	s.versions.forget(app.UID)
	s.forgetDeleted(client.ObjectKeyFromObject(app))
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.mayHaveSlices, client.ObjectKeyFromObject(app))
}

// unwritten returns the slices that differ from the stored ones, if the next entries belong in
// slices. For the entries that are known, it returns the slices that another client changed.
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

// write writes slices. An existing slice must have the version that was read. It returns the error
// of the first slice that fails. The others are written, and the next plan starts from them.
func (s *store) write(ctx context.Context, slices []*v1alpha1.AppServiceSlice) error {
	errs := make([]error, len(slices))
	var writers errgroup.Group
	writers.SetLimit(sliceWriters)
	for i, slice := range slices {
		writers.Go(func() error {
			errs[i] = s.writeSlice(ctx, slice)
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

// writeSlice writes one slice. The request has a copy, because the response is decoded into it, and
// the entries share memory with the cache.
func (s *store) writeSlice(ctx context.Context, slice *v1alpha1.AppServiceSlice) error {
	written := slice.DeepCopy()
	var err error
	if slice.ResourceVersion != "" {
		err = s.hub.Update(ctx, written)
	} else {
		err = s.hub.Create(ctx, written)
	}
	var answer apierrors.APIStatus
	switch {
	case err == nil:
		s.versions.recordSlice(written)
		return nil
	case apierrors.IsAlreadyExists(err):
		return s.replace(ctx, slice)
	case apierrors.IsNotFound(err) && slice.ResourceVersion != "": // another client deleted it
		s.versions.forgetSlices(slice.AppService.UID)
		return errStaleCache
	case !errors.As(err, &answer): // the hub may have written the slice
		s.versions.forgetSlices(slice.AppService.UID)
	}
	return err
}

// replace creates a slice whose name is taken. A previous AppService of this name left that slice,
// or the cache is behind.
func (s *store) replace(ctx context.Context, slice *v1alpha1.AppServiceSlice) error {
	left := &v1alpha1.AppServiceSlice{}
	if err := s.live.Get(ctx, client.ObjectKeyFromObject(slice), left); err != nil {
		return err
	}
	if left.AppService.UID == slice.AppService.UID {
		s.noteSlice(left)
		return errStaleCache
	}
	if err := s.delete(ctx, left); err != nil {
		return err
	}
	written := slice.DeepCopy()
	if err := s.hub.Create(ctx, written); err != nil {
		return err
	}
	s.versions.recordSlice(written)
	return nil
}

// isStillRefused returns the error of the hub if it refuses this slice. It changes nothing.
func (s *store) isStillRefused(ctx context.Context, slice *v1alpha1.AppServiceSlice) error {
	trial := slice.DeepCopy()
	if slice.ResourceVersion != "" {
		return s.hub.Update(ctx, trial, client.DryRunAll)
	}
	return s.hub.Create(ctx, trial, client.DryRunAll)
}

// delete deletes exactly this version of a slice.
func (s *store) delete(ctx context.Context, slice *v1alpha1.AppServiceSlice) error {
	exactly := client.Preconditions{UID: &slice.UID, ResourceVersion: &slice.ResourceVersion}
	return client.IgnoreNotFound(s.hub.Delete(ctx, slice, exactly))
}

// deleteLeftovers deletes the slices of an AppService whose entries are in its status.
func (s *store) deleteLeftovers(ctx context.Context, app *v1alpha1.AppService) error {
	if app.Status.ClustersIn == v1alpha1.ClustersInSlices || !s.takeNote(app) {
		return nil
	}
	err := s.deleteSlices(ctx, app)
	if err != nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.mayHaveSlices[client.ObjectKeyFromObject(app)] = true
	}
	return err
}

// takeNote reports whether an AppService may have slices, and forgets that. A slice that is created
// from now on is noted again.
func (s *store) takeNote(app *v1alpha1.AppService) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	key := client.ObjectKeyFromObject(app)
	defer delete(s.mayHaveSlices, key)
	return s.mayHaveSlices[key]
}

// deleteSlices deletes the slices of an AppService, unless its entries are there. The cache is no
// evidence for that: the AppService is read live.
func (s *store) deleteSlices(ctx context.Context, app *v1alpha1.AppService) error {
	current := &v1alpha1.AppService{}
	if err := s.live.Get(ctx, client.ObjectKeyFromObject(app), current); err != nil {
		return client.IgnoreNotFound(err)
	}
	if current.UID != app.UID || current.Status.HasSlices() {
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
	s.versions.forgetSlices(app.UID)
	return nil
}
