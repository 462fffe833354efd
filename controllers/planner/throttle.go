package planner

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// statusInterval is the minimum time between two status writes of one AppService that contain only
// observations.
const statusInterval = time.Second

// statusThrottle limits status writes that contain only observations: the first is written at once,
// then one per statusInterval. It is safe for concurrent use.
type statusThrottle struct {
	mu        sync.Mutex
	lastWrite map[types.UID]time.Time
}

func newStatusThrottle() statusThrottle {
	return statusThrottle{lastWrite: map[types.UID]time.Time{}}
}

// remaining returns the time until the next write of an AppService is allowed; 0 if it is allowed
// now.
func (t *statusThrottle) remaining(app types.UID, now time.Time) time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	return max(0, t.lastWrite[app].Add(statusInterval).Sub(now))
}

// recordWrite records that the status of an AppService was written.
func (t *statusThrottle) recordWrite(app types.UID, now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.lastWrite[app] = now
}

// forget removes a deleted AppService.
func (t *statusThrottle) forget(app types.UID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.lastWrite, app)
}
