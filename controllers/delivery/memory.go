package delivery

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
)

// memories has a memory for each AppService that has an entry for this member. It is safe for concurrent use.
type memories struct {
	mu    sync.Mutex
	byApp map[types.NamespacedName]*memory
}

// memory is what one reconcile of an AppService leaves to the next. Everything in it may be lost at any
// time: it saves requests, and nothing is decided by it that cannot be decided again. The queue hands
// an AppService to one worker at a time, so a memory needs no lock.
type memory struct {
	uid     types.UID
	applied map[string]string // kind → hash of what was applied last
	created map[string]bool   // optional kinds that the cached Deployment may not list yet
	pruned  map[string]prunedFields
	drift   driftBackoff
	pods    podDiagnosis
}

// of returns the memory of an AppService, which is empty for one with another UID than before.
func (m *memories) of(app *v1alpha1.AppService) *memory {
	m.mu.Lock()
	defer m.mu.Unlock()
	key := client.ObjectKeyFromObject(app)
	known := m.byApp[key]
	if known == nil || known.uid != app.UID {
		known = &memory{uid: app.UID, applied: map[string]string{}, created: map[string]bool{}, pruned: map[string]prunedFields{}}
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

// hasApplied reports whether the same was applied last. If an object does not hold that, another
// manager has changed it, and perhaps our hash with it.
func (m *memory) hasApplied(want *unstructured.Unstructured) bool {
	hash, known := m.applied[want.GetKind()]
	return known && hash == want.GetAnnotations()[v1alpha1.AnnotationHash]
}

// prunedFields are the fields that the member's API server discards from one object, as it was applied.
type prunedFields struct {
	hash   string
	fields *fieldpath.Set
	next   time.Time // when to ask the member again
}

// rememberPruned records what the member discards from an object.
func (m *memory) rememberPruned(object client.Object, fields *fieldpath.Set, next time.Time) {
	m.pruned[kindOf(object)] = prunedFields{hash: object.GetAnnotations()[v1alpha1.AnnotationHash], fields: fields, next: next}
}

// prunedFrom returns the fields that the member discards from an object. It returns none when the member
// is to be asked again, or when something else was applied since.
func (m *memory) prunedFrom(object client.Object, now time.Time) *fieldpath.Set {
	found, known := m.pruned[kindOf(object)]
	if !known || !now.Before(found.next) || found.hash != object.GetAnnotations()[v1alpha1.AnnotationHash] {
		return fieldpath.NewSet()
	}
	return found.fields
}

// forgetPruned records that nothing is discarded from an object, or that the object is not wanted.
func (m *memory) forgetPruned(kind string) { delete(m.pruned, kind) }

// describePruned returns what the member discards, and when to ask it again.
func (m *memory) describePruned() (what string, next time.Time) {
	var all []string
	for _, kind := range slices.Sorted(maps.Keys(m.pruned)) {
		found := m.pruned[kind]
		all = append(all, fmt.Sprintf("%s of the %s", fields(found.fields), kind))
		if next.IsZero() || found.next.Before(next) {
			next = found.next
		}
	}
	return strings.Join(all, ", and "), next
}
