package explore

import (
	"fmt"
	"sync"
)

// ends remembers from which states a healthy world comes to its end.
type ends struct {
	shards [64]struct {
		sync.Mutex
		known map[uint64]struct{}
	}
}

func (e *ends) has(key uint64) bool {
	shard := &e.shards[key%uint64(len(e.shards))]
	shard.Lock()
	defer shard.Unlock()
	_, has := shard.known[key]
	return has
}

func (e *ends) add(keys []uint64) {
	for _, key := range keys {
		shard := &e.shards[key%uint64(len(e.shards))]
		shard.Lock()
		if shard.known == nil {
			shard.known = map[uint64]struct{}{}
		}
		shard.known[key] = struct{}{}
		shard.Unlock()
	}
}

func (e *ends) len() int {
	n := 0
	for i := range e.shards {
		n += len(e.shards[i].known)
	}
	return n
}

// RunHealthy runs a healthy world from a state to its end, which must come within some steps.
func RunHealthy[S any](healthy Healthy[S], state S, steps int) error {
	state = healthy.Heal(state)
	for range steps {
		next, goesOn, err := healthy.Next(state)
		if err != nil || !goesOn {
			return err
		}
		state = next
	}
	return errNoEnd(healthy.Name, steps)
}

func errNoEnd(healthy string, steps int) *RuleError {
	return &RuleError{Rule: "progress", Problem: fmt.Sprintf("the healthy world %q does not end within %d steps", healthy, steps)}
}

// runHealthy runs a healthy world from a state to its end, or to a state from which it is known to end.
func (e *explorer[S]) runHealthy(healthy Healthy[S], state S) *RuleError {
	state = healthy.Heal(state)
	var path []uint64
	for range e.limits.HealthySteps {
		key := e.world.Key(state)
		if e.ends.has(key) {
			e.ends.add(path)
			return nil
		}
		path = append(path, key)
		next, goesOn, err := healthy.Next(state)
		if err != nil {
			return asRule(err)
		}
		if !goesOn {
			e.ends.add(path)
			return nil
		}
		state = next
	}
	return errNoEnd(healthy.Name, e.limits.HealthySteps)
}
