package planner

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// statusInterval is the least time between two writes of what was merely observed of one AppService.
const statusInterval = time.Second

// pace spreads the writes of observations: the first goes at once, then one each interval.
type pace struct {
	mu   sync.Mutex
	last map[types.UID]time.Time
}

func newPace() pace { return pace{last: map[types.UID]time.Time{}} }

// wait returns how long an observation has to wait before it may be written; 0 when it may now.
func (p *pace) wait(app types.UID, now time.Time) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	return max(0, p.last[app].Add(statusInterval).Sub(now))
}

// wrote notes a write.
func (p *pace) wrote(app types.UID, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.last[app] = now
}

// forget drops an AppService that is no more.
func (p *pace) forget(app types.UID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.last, app)
}
