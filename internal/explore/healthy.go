package explore

import (
	"fmt"
	"math"
	"sync"
)

// ends remembers from which states a healthy world comes to its end, and in how many steps.
type ends struct {
	shards [64]struct {
		sync.Mutex
		left map[uint64]uint8
	}
}

// left returns how many steps are left from a state to the end, and false if that is not known.
func (e *ends) left(key uint64) (steps int, isKnown bool) {
	shard := &e.shards[key%uint64(len(e.shards))]
	shard.Lock()
	defer shard.Unlock()
	left, isKnown := shard.left[key]
	return int(left), isKnown
}

// add records a path from whose last state some steps are left.
func (e *ends) add(path []uint64, left int) {
	for i, key := range path {
		shard := &e.shards[key%uint64(len(e.shards))]
		shard.Lock()
		if shard.left == nil {
			shard.left = map[uint64]uint8{}
		}
		shard.left[key] = uint8(min(left+len(path)-1-i, math.MaxUint8))
		shard.Unlock()
	}
}

func (e *ends) len() int {
	n := 0
	for i := range e.shards {
		n += len(e.shards[i].left)
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
		if left, isKnown := e.ends.left(key); isKnown {
			if len(path)+left > e.limits.HealthySteps {
				break
			}
			e.ends.add(path, left+1)
			return nil
		}
		path = append(path, key)
		next, goesOn, err := healthy.Next(state)
		if err != nil {
			return asRule(err)
		}
		if !goesOn {
			e.ends.add(path, 0)
			return nil
		}
		state = next
	}
	return errNoEnd(healthy.Name, e.limits.HealthySteps)
}
