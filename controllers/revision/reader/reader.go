// Package reader reads the templates of revisions from the hub. Delivery needs one for each
// cluster that keeps an older template than the one in the spec.
//
//	reader := reader.New(hub.GetAPIReader(), restores.Epoch)
//	desired, err := reader.DesiredFor(ctx, app, entry)
//	if reader.IsMissing(err) { … } // the cluster keeps what it runs
//
// ControllerRevisions are not cached by an informer, because at rest the spec of an AppService is the
// template of all its clusters. They are immutable, so each is read once, live, and kept: a thousand
// members share one read.
//
// After a restore of the hub, a number may belong to another template: nothing that names a revision
// has the UID of its ControllerRevision. So what is kept is valid in one epoch only. Another one begins
// for all AppServices when the hub may have been restored, and for one AppService when its status goes
// back to lower revisions.
package reader

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"
	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/lru"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/configuration"
	"github.com/fleetwright/fleetwright/controllers/lineage"
	"github.com/fleetwright/fleetwright/controllers/revision"
)

const (
	// maxEarlier is the number of templates that are kept for clusters with an older revision. A
	// template has a few KiB.
	maxEarlier = 1000
	// maxCurrent is the number of AppServices with configuration whose present template is kept. They
	// need it also at rest.
	maxCurrent = 4000
	// missingTime is how long a revision that is missing is not read again.
	missingTime = 10 * time.Second
	// readTimeout bounds a read.
	readTimeout = 10 * time.Second
)

// errMissing is the cause of an error that [IsMissing] reports.
var errMissing = errors.New("the revision is missing")

// IsMissing reports whether a revision does not exist, belongs to another object, or cannot be
// decoded.
func IsMissing(err error) bool { return errors.Is(err, errMissing) }

// Reader reads templates. It is safe for concurrent use.
type Reader struct {
	live  client.Reader
	reads singleflight.Group
	// hubEpoch returns a number that is another one after a restore of the hub was noticed.
	hubEpoch func() int64

	mu sync.Mutex // guards progress and setbacks
	// progress is the progress of the AppServices that were used last, by UID.
	progress *lru.Cache
	// setbacks is the number of times when a status has gone back. An AppService whose progress is not
	// kept any more continues with it, so that no epoch comes back.
	setbacks int64

	// earlier are the results that were used last, by key.
	earlier *lru.Cache
	// current are the results for the present revisions of AppServices with configuration, by UID. The
	// others have their present template in the spec.
	current *lru.Cache
}

// key identifies a revision. The UID is that of the AppService: another AppService of the same name
// may have another revision with the number. So may the same AppService in another epoch.
type key struct {
	app    types.UID
	epoch  epoch
	number int64
}

// epoch is a time without a restore of the hub.
type epoch struct {
	// hub is the epoch of the hub.
	hub int64
	// setback numbers the times when the status of an AppService has gone back.
	setback int64
}

// progress is the highest revision that the status of an AppService has named in an epoch.
type progress struct {
	latest, setback int64
}

// result is what a read of a revision found.
type result struct {
	key      key
	stored   revision.Stored // without the object
	missing  error           // nil if the revision exists
	readTime time.Time       // when it was missing
}

// NeverRestored is the epoch of a hub whose restores are not noticed.
func NeverRestored() int64 { return 0 }

// New returns a Reader that reads from the API server of the hub. The function hubEpoch returns
// another number after each time when the hub may have been restored.
func New(live client.Reader, hubEpoch func() int64) *Reader {
	return &Reader{live: live, hubEpoch: hubEpoch, progress: lru.New(maxCurrent), earlier: lru.New(maxEarlier), current: lru.New(maxCurrent)}
}

// epochOf returns the epoch of an AppService, which another one replaces if the status names only
// lower revisions than before.
func (r *Reader) epochOf(app *v1alpha1.AppService) epoch {
	r.mu.Lock()
	defer r.mu.Unlock()
	latest, known := lineage.LatestRevision(app), progress{setback: r.setbacks}
	if value, isKnown := r.progress.Get(app.UID); isKnown {
		known = value.(progress)
	}
	if latest < known.latest {
		r.setbacks++
		known = progress{setback: r.setbacks}
	}
	known.latest = max(known.latest, latest)
	r.progress.Add(app.UID, known)
	return epoch{hub: r.hubEpoch(), setback: known.setback}
}

// Desired is what a cluster is to run. It shares memory with the AppService, and must not be
// modified.
type Desired struct {
	Spec v1alpha1.AppServiceSpec
	// Configuration are the snapshots that the revision of the cluster names.
	Configuration []configuration.Named
	// PodSecurity is what the pod template must comply with, or nil.
	PodSecurity *v1alpha1.PodSecurity
}

// DesiredFor returns what the cluster of an entry is to run: the template and the snapshots of its
// revision, with the other fields of the current spec.
func (r *Reader) DesiredFor(ctx context.Context, app *v1alpha1.AppService, entry *v1alpha1.ClusterStatus) (Desired, error) {
	epoch := r.epochOf(app)
	// A status of an older generation does not know which revision the spec has now. With
	// configuration, the spec may have no revision yet: it waits for a source. If its pod template is
	// refused, it has none either.
	isOfSpec := app.Status.ObservedGeneration == app.Generation && !app.HasConfiguration() && !app.Status.Rollout.SpecRefused
	if isOfSpec && entry.Revision == app.Status.Rollout.Revision {
		return Desired{Spec: app.Spec, PodSecurity: app.Status.Rollout.PodSecurity}, nil
	}
	stored, err := r.revisionIn(ctx, epoch, app, entry.Revision)
	if err != nil {
		return Desired{}, err
	}
	policy := stored.PodSecurity
	if entry.Revision == app.Status.Rollout.Revision {
		policy = app.Status.Rollout.PodSecurity // it may allow more since the revision was stored
	}
	return Desired{Spec: revision.Compose(app.Spec, stored.Template), Configuration: stored.Configuration, PodSecurity: policy}, nil
}

// Revision returns a revision of an AppService, without its ControllerRevision. It must not be
// modified.
func (r *Reader) Revision(ctx context.Context, app *v1alpha1.AppService, number int64) (revision.Stored, error) {
	return r.revisionIn(ctx, r.epochOf(app), app, number)
}

// revisionIn returns a revision of an AppService in an epoch.
func (r *Reader) revisionIn(ctx context.Context, in epoch, app *v1alpha1.AppService, number int64) (revision.Stored, error) {
	of := key{app: app.UID, epoch: in, number: number}
	isCurrent := app.HasConfiguration() && number == app.Status.Rollout.Revision
	found, isKnown := r.lookUp(of)
	if !isKnown {
		read, err, _ := r.reads.Do(fmt.Sprint(of), func() (any, error) {
			if found, isKnown := r.lookUp(of); isKnown { // another read has just ended
				return found, nil
			}
			shared, cancel := context.WithTimeout(context.WithoutCancel(ctx), readTimeout) // others wait for it too
			defer cancel()
			found, err := r.read(shared, app, number)
			found.key = of // an epoch that has begun meanwhile has another key
			if err == nil {
				r.remember(found, isCurrent)
			}
			return found, err
		})
		if err != nil {
			return revision.Stored{}, err
		}
		found = read.(result)
	}
	return found.stored, found.missing
}

// remember keeps a result. The revision that was current until now is still on clusters.
func (r *Reader) remember(found result, isCurrent bool) {
	if !isCurrent {
		r.earlier.Add(found.key, found)
		return
	}
	if value, hasBefore := r.current.Get(found.key.app); hasBefore {
		before := value.(result)
		r.earlier.Add(before.key, before)
	}
	r.current.Add(found.key.app, found)
}

// lookUp returns the result of an earlier read. A revision that was missing is read again after a
// while.
func (r *Reader) lookUp(of key) (result, bool) {
	value, isKnown := r.current.Get(of.app)
	if !isKnown || value.(result).key != of {
		value, isKnown = r.earlier.Get(of)
	}
	if !isKnown {
		return result{}, false
	}
	found := value.(result)
	return found, found.missing == nil || time.Since(found.readTime) < missingTime
}

// read reads a revision from the hub.
func (r *Reader) read(ctx context.Context, app *v1alpha1.AppService, number int64) (result, error) {
	object := &appsv1.ControllerRevision{}
	object.Namespace, object.Name = app.Namespace, revision.Name(app.Name, number)
	if err := r.live.Get(ctx, client.ObjectKeyFromObject(object), object); apierrors.IsNotFound(err) {
		return result{missing: fmt.Errorf("%w: there is no ControllerRevision %s", errMissing, object.Name), readTime: time.Now()}, nil
	} else if err != nil {
		return result{}, fmt.Errorf("read ControllerRevision %s: %w", object.Name, err)
	}
	stored, err := revision.Read(app, object)
	if err != nil {
		return result{missing: fmt.Errorf("%w: %w", errMissing, err), readTime: time.Now()}, nil
	}
	stored.Object = nil
	return result{stored: stored}, nil
}
