package delivery

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/delivery/copies"
	"github.com/fleetwright/fleetwright/controllers/delivery/object"
)

// maxCacheLag is how long an object that was created is expected to appear in the member's cache.
// If it does not appear, it was deleted again.
const maxCacheLag = 10 * time.Second

// memories has a memory for each AppService that has an entry for this member. It is safe for
// concurrent use.
type memories struct {
	mu    sync.Mutex
	byApp map[types.NamespacedName]*memory
}

// memory is what one reconcile of an AppService leaves to the next. Everything in it may be lost at
// any time: it saves requests, and nothing is decided by it that cannot be decided again. The queue
// hands an AppService to one worker at a time, so a memory needs no lock.
type memory struct {
	uid types.UID
	// seenSince is the look since which the Deployment was seen, or might be created.
	seenSince string
	objects   map[string]object.Memory // by kind
	created   map[string]bool          // optional kinds that the cached Deployment may not list yet
	// unseen has when an object was created that the cache has not shown yet, by kind.
	unseen  map[string]time.Time
	drift   driftBackoff
	pods    podDiagnosis
	copies  copies.Memory
	record  recordWrites
	removal removal
}

// of returns the memory of an AppService, which is empty for one with another UID than before.
func (m *memories) of(app *v1alpha1.AppService) *memory {
	m.mu.Lock()
	defer m.mu.Unlock()
	key := client.ObjectKeyFromObject(app)
	known := m.byApp[key]
	if known == nil || known.uid != app.UID {
		known = &memory{
			uid: app.UID, objects: map[string]object.Memory{}, created: map[string]bool{}, unseen: map[string]time.Time{},
		}
		if m.byApp == nil {
			m.byApp = map[types.NamespacedName]*memory{}
		}
		m.byApp[key] = known
	}
	return known
}

// forget drops the memory of an AppService that has no entry for this member.
func (m *memories) forget(app types.NamespacedName) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.byApp, app)
}

// awaitsCache reports whether an object was created a moment ago, or its record of copies was written,
// and the cache does not show that yet. To write it again would be a conflict.
func (m *memory) awaitsCache(kind string, existing *object.Existing) bool {
	if existing != nil {
		delete(m.unseen, kind)
		return kind == "Deployment" && m.record.awaitsCache(existing.Object, time.Now())
	}
	return time.Since(m.unseen[kind]) < maxCacheLag
}

// forgetPruned forgets what the member discards from the object of a kind that is not desired.
func (m *memory) forgetPruned(kind string) {
	if known, found := m.objects[kind]; found {
		known.Pruned = object.Pruned{}
		m.objects[kind] = known
	}
}

// describePruned returns what the member discards, and when to ask it again.
func (m *memory) describePruned() (what string, next time.Time) {
	var all []string
	for _, kind := range slices.Sorted(maps.Keys(m.objects)) {
		found := m.objects[kind].Pruned
		if found.IsEmpty() {
			continue
		}
		all = append(all, fmt.Sprintf("%s of the %s", object.FieldNames(found.Fields), kind))
		if next.IsZero() || found.Retry.Before(next) {
			next = found.Retry
		}
	}
	return strings.Join(all, ", and "), next
}
