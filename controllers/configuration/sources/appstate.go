package sources

import (
	"maps"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/configuration"
)

const (
	// retryRefused is how long a refusal by the hub is remembered until it is tried again.
	retryRefused = time.Minute
	// retryFailed is the time until a request that failed is tried again. It doubles with each failure,
	// up to retryRefused.
	retryFailed = 2 * time.Second
	// trustWrite is how long an object that was created or found counts as existing although the
	// cache lacks it.
	trustWrite = time.Minute
	// retryPrune is the time until the deletion of a snapshot is tried again.
	retryPrune = 10 * time.Minute
)

// appState is what this process remembers about an AppService. It has no content. Only one caller
// decides about an AppService at a time; the lock is for events.
type appState struct {
	uid      types.UID
	refs     []configuration.Ref
	memory   configuration.Memory
	readings map[configuration.Ref]reading
	refusals map[configuration.Ref]refusal
	failures map[configuration.Ref]failure

	mu sync.Mutex
	// written are snapshots that the cache may lack, and objects without our label that have the
	// name of a snapshot.
	written map[snapshotKey]writtenSnapshot
	// pruned are the snapshots that were deleted, or whose deletion was refused.
	pruned map[types.UID]prunedSnapshot
}

// reading is what was read of a version of a source.
type reading struct {
	version string
	digest  configuration.Digest
	equalTo string
	kind    corev1.SecretType
	size    int64
}

// refusal is why the hub refused to give a version of a source, or to store it. The problem is nil if
// another object has the name of the snapshot, which the decision finds out.
type refusal struct {
	version string
	problem *configuration.Problem
	until   time.Time
}

// failure is a request for a source that failed, and when it may be tried again. It does not depend on
// the version: a source that changes all the time is not tried more often.
type failure struct {
	problem *configuration.Problem
	// count is the number of failures in a row.
	count int
	until time.Time
}

type snapshotKey struct {
	kind v1alpha1.ConfigurationKind
	name string
}

type writtenSnapshot struct {
	configuration.Snapshot
	until time.Time
}

type prunedSnapshot struct {
	isDeleted bool
	until     time.Time
}

func newAppState(uid types.UID) *appState {
	return &appState{
		uid: uid, readings: map[configuration.Ref]reading{}, refusals: map[configuration.Ref]refusal{}, failures: map[configuration.Ref]failure{},
		written: map[snapshotKey]writtenSnapshot{}, pruned: map[types.UID]prunedSnapshot{},
	}
}

// setRefs sets the sources of the AppService, and forgets others.
func (a *appState) setRefs(refs []configuration.Ref) {
	a.refs = refs
	isOther := func(ref configuration.Ref) bool { return !slices.Contains(refs, ref) }
	maps.DeleteFunc(a.readings, func(ref configuration.Ref, _ reading) bool { return isOther(ref) })
	maps.DeleteFunc(a.refusals, func(ref configuration.Ref, _ refusal) bool { return isOther(ref) })
	maps.DeleteFunc(a.failures, func(ref configuration.Ref, _ failure) bool { return isOther(ref) })
}

// addWritten notes an object that exists and that the cache may lack.
func (a *appState) addWritten(snapshot configuration.Snapshot, now time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.written[snapshotKey{snapshot.Kind, snapshot.Name}] = writtenSnapshot{snapshot, now.Add(trustWrite)}
}

// withWritten returns snapshots of a kind with those that the cache lacks.
func (a *appState) withWritten(kind v1alpha1.ConfigurationKind, cached []configuration.Snapshot, now time.Time) []configuration.Snapshot {
	a.mu.Lock()
	defer a.mu.Unlock()
	maps.DeleteFunc(a.written, func(key snapshotKey, written writtenSnapshot) bool {
		isCached := key.kind == kind && slices.ContainsFunc(cached, func(s configuration.Snapshot) bool { return s.Name == key.name })
		return isCached || !now.Before(written.until)
	})
	for _, written := range a.written {
		if written.Kind == kind {
			cached = append(cached, written.Snapshot)
		}
	}
	return cached
}

// withoutPruned returns snapshots without those that were deleted, which the cache may still have.
func (a *appState) withoutPruned(cached []configuration.Snapshot) []configuration.Snapshot {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.DeleteFunc(cached, func(s configuration.Snapshot) bool {
		return a.pruned[s.UID].isDeleted
	})
}

// mayPrune reports whether a snapshot may be deleted now: not again, while the cache still has it.
func (a *appState) mayPrune(uid types.UID, now time.Time) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	maps.DeleteFunc(a.pruned, func(_ types.UID, p prunedSnapshot) bool { return !now.Before(p.until) })
	_, isPruned := a.pruned[uid]
	return !isPruned && uid != ""
}

func (a *appState) setPruned(uid types.UID, isDeleted bool, now time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.pruned[uid] = prunedSnapshot{isDeleted, now.Add(retryPrune)}
}

// isOwnWrite reports whether an event is of a snapshot that was created or deleted here. It forgets
// objects that were deleted.
func (a *appState) isOwnWrite(kind v1alpha1.ConfigurationKind, object metav1.Object, isDeleted bool) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	key := snapshotKey{kind, object.GetName()}
	if isDeleted {
		isOwn := a.pruned[object.GetUID()].isDeleted
		delete(a.pruned, object.GetUID())
		delete(a.written, key)
		return isOwn
	}
	written, exists := a.written[key]
	return exists && written.UID == object.GetUID()
}
