package sources

import (
	"maps"
	"sync"
	"time"

	"github.com/fleetwright/fleetwright/controllers/configuration"
)

// keepLookup is how long the result of a live read is known, unless an event of the object comes.
const keepLookup = time.Minute

// lookups are the results of live reads of sources that the watches lack: they do not exist, or have
// no label, or have changed just now. It is safe for concurrent use.
type lookups struct {
	mu    sync.Mutex
	found map[objectKey]lookup
	sweep time.Time
}

type lookup struct {
	configuration.Source
	until time.Time
}

func newLookups() *lookups { return &lookups{found: map[objectKey]lookup{}} }

func (l *lookups) get(key objectKey, now time.Time) (configuration.Source, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	known, exists := l.found[key]
	return known.Source, exists && now.Before(known.until)
}

func (l *lookups) set(key objectKey, source configuration.Source, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if now.Sub(l.sweep) > keepLookup {
		maps.DeleteFunc(l.found, func(_ objectKey, known lookup) bool { return !now.Before(known.until) })
		l.sweep = now
	}
	l.found[key] = lookup{source, now.Add(keepLookup)}
}

func (l *lookups) drop(key objectKey) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.found, key)
}
