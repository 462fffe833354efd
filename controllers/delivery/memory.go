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
	pods *podLists // has its own lock

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
	objects   map[string]*objectMemory // by kind
	drift     driftBackoff
	pods      podDiagnosis
	copies    copies.Memory
	records   recordWrites
	removal   removal
}

// objectMemory is the memory of the object of one kind.
type objectMemory struct {
	object.Memory
	// isUnlisted is set if an optional object was created that the cached Deployment may not list
	// yet.
	isUnlisted bool
	// createTime is when an object was created that the cache has not shown yet; otherwise zero.
	createTime time.Time
}

// of returns the memory of an AppService, which is empty for one with another UID than before.
func (m *memories) of(app *v1alpha1.AppService) *memory {
	m.mu.Lock()
	defer m.mu.Unlock()
	key := client.ObjectKeyFromObject(app)
	known := m.byApp[key]
	if known == nil || known.uid != app.UID {
		known = &memory{uid: app.UID, objects: map[string]*objectMemory{}}
		if m.byApp == nil {
			m.byApp = map[types.NamespacedName]*memory{}
		}
		m.byApp[key] = known
	}
	return known
}

// forget drops the memory of an AppService that has no entry for this member.
func (m *memories) forget(app types.NamespacedName) {
	m.pods.forget(app)
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.byApp, app)
}

// ofKind returns the memory of the object of a kind.
func (m *memory) ofKind(kind string) *objectMemory {
	if m.objects[kind] == nil {
		m.objects[kind] = &objectMemory{}
	}
	return m.objects[kind]
}

// awaitsCache reports whether an object was created a moment ago, or its record of copies was
// written, and the cache does not show that yet. To write it again would be a conflict.
func (m *memory) awaitsCache(kind string, existing *object.Existing) bool {
	known := m.ofKind(kind)
	if existing == nil {
		return time.Since(known.createTime) < maxCacheLag
	}
	known.createTime = time.Time{}
	return kind == "Deployment" && m.records.hasWrittenSince(existing.Object, time.Now())
}

// forgetPruned forgets what the member discards from the object of a kind that is not desired.
func (m *memory) forgetPruned(kind string) {
	if known := m.objects[kind]; known != nil {
		known.Pruned = object.Pruned{}
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
