package explore

import (
	"fmt"
	"math"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
)

// World is what is explored. Its functions must not change their arguments, and may be called at the
// same time. S is a small value that shares what does not change.
type World[S any] struct {
	// Starts are the first states.
	Starts  []Start[S]
	Actions []Action[S]
	// Key identifies a state: states with the same key have the same future. It is a hash. The
	// probability that any two of n states share a key by accident is n²/2⁶⁵: one in 41,000 for 30
	// million.
	Key func(S) uint64
	// Healthy are the ways in which the world goes on if nothing is wrong with it any more.
	Healthy []Healthy[S]
}

// Start is a state in which a world begins.
type Start[S any] struct {
	Name  string
	State S
}

// Action is an event in a world.
type Action[S any] struct {
	Name string
	// Do returns the state after the event, and false if it cannot happen or changes nothing. An error
	// is a violation: the event broke a rule.
	Do func(S) (S, bool, error)
}

// Healthy is a way in which the world goes on if nothing is wrong with it any more.
type Healthy[S any] struct {
	Name string
	// Heal repairs everything that may be broken.
	Heal func(S) S
	// Next returns the state after the next step, and false at the end. An error is a violation: the end
	// is not as it should be.
	Next func(S) (S, bool, error)
}

// RuleError says which rule an event broke, and how.
type RuleError struct{ Rule, Problem string }

func (e *RuleError) Error() string { return e.Rule + ": " + e.Problem }

// Limits are where an exploration stops.
type Limits struct {
	// Depth is the largest number of events in a row, and States the largest number of states; 0 is no
	// limit.
	Depth, States int
	// HealthyEvery explores the healthy ways from every n-th state, by their hashes, and 0 from none.
	HealthyEvery int
	// HealthySteps is within how many steps a healthy world must come to an end.
	HealthySteps int
}

// Result is what was explored.
type Result struct {
	// States is the number of different states, and Steps how many events were tried in them.
	States, Steps int
	// Levels has the number of states for each number of events.
	Levels []int
	// IsComplete is set if every state that can be reached was.
	IsComplete bool
	// Taken counts how often each action led to another state.
	Taken []int
	// HealthyStates is the number of states in which a healthy world was.
	HealthyStates int
	// Violations has the first violation of each rule, with the shortest trace.
	Violations []Violation
}

// Violation is a broken rule.
type Violation struct {
	Error *RuleError
	// Start is the name of the first state, and Trace are the names of the actions from there.
	Start string
	Trace []string
	// Healthy is the healthy way after the trace in which it broke, or "".
	Healthy string
}

// isStart is the action that has led to a first state.
const isStart = math.MaxUint16

// batch is how many states are expanded before what they lead to is put in order. So the result does
// not depend on the number of processors.
const batch = 4096

type explorer[S any] struct {
	world  World[S]
	limits Limits
	result Result
	seen   map[uint64]struct{}
	// parent and action say how each state was reached first. The first ones are the starts, and have the
	// action isStart.
	parent []uint32
	action []uint16
	broken map[string]bool
	ends   ends
}

// successor is a state that an event leads to.
type successor[S any] struct {
	state   S
	key     uint64
	action  uint16
	broken  *RuleError
	healthy string
}

// Explore visits the states of a world breadth first, so that each trace is a shortest one. It keeps a hash
// of each state. It keeps the states themselves of two levels only, and not those at the depth of the limits.
func Explore[S any](world World[S], limits Limits) Result {
	e := &explorer[S]{world: world, limits: limits, seen: map[uint64]struct{}{}, broken: map[string]bool{}}
	e.result.Taken = make([]int, len(world.Actions))
	var level []S
	for i, start := range world.Starts {
		key := world.Key(start.State)
		if !e.add(key, i, isStart) {
			continue
		}
		level = append(level, start.State)
		for _, s := range e.healthyWays(start.State, key, isStart) {
			e.report(len(e.parent)-1, s)
		}
	}
	first := 0
	for depth := 0; len(level) > 0; depth++ {
		e.result.Levels = append(e.result.Levels, len(level))
		if limits.States > 0 && e.result.States >= limits.States {
			return e.finish(false)
		}
		isLast, before := limits.Depth > 0 && depth+1 == limits.Depth, e.result.States
		var next []S
		for start := 0; start < len(level); start += batch {
			states := level[start:min(start+batch, len(level))]
			for i, successors := range e.expand(states) {
				if next = e.merge(next, first+start+i, successors); isLast {
					next = nil // they are not expanded
				}
			}
			clear(states)
		}
		if found := e.result.States - before; isLast && found > 0 {
			e.result.Levels = append(e.result.Levels, found)
			return e.finish(false)
		}
		first += len(level)
		level = next
	}
	return e.finish(true)
}

func (e *explorer[S]) finish(isComplete bool) Result {
	e.result.IsComplete, e.result.HealthyStates = isComplete, e.ends.len()
	return e.result
}

// expand returns what each of the states leads to. All processors do it at the same time.
func (e *explorer[S]) expand(states []S) [][]successor[S] {
	found := make([][]successor[S], len(states))
	var taken atomic.Int64
	var workers sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		workers.Go(func() {
			for i := int(taken.Add(1)) - 1; i < len(states); i = int(taken.Add(1)) - 1 {
				found[i] = e.successors(states[i])
			}
		})
	}
	workers.Wait()
	return found
}

func (e *explorer[S]) successors(state S) []successor[S] {
	var found []successor[S]
	for i, action := range e.world.Actions {
		next, happens, err := action.Do(state)
		if err != nil {
			found = append(found, successor[S]{action: uint16(i), broken: asRule(err)})
			continue
		}
		if !happens {
			continue
		}
		key := e.world.Key(next)
		if _, isKnown := e.seen[key]; isKnown { // nobody writes while states are expanded
			found = append(found, successor[S]{action: uint16(i), key: key})
			continue
		}
		found = append(found, successor[S]{state: next, key: key, action: uint16(i)})
		found = append(found, e.healthyWays(next, key, uint16(i))...)
	}
	return found
}

// healthyWays returns how the healthy ways from a state break a rule.
func (e *explorer[S]) healthyWays(state S, key uint64, action uint16) []successor[S] {
	var found []successor[S]
	if e.limits.HealthyEvery == 0 || key%uint64(e.limits.HealthyEvery) != 0 {
		return nil
	}
	for _, healthy := range e.world.Healthy {
		if broken := e.runHealthy(healthy, state); broken != nil {
			found = append(found, successor[S]{action: action, broken: broken, healthy: healthy.Name})
		}
	}
	return found
}

// merge adds what a state leads to.
func (e *explorer[S]) merge(next []S, index int, successors []successor[S]) []S {
	for _, s := range successors {
		if s.broken != nil {
			e.report(index, s)
			continue
		}
		e.result.Steps++
		e.result.Taken[s.action]++
		if e.add(s.key, index, s.action) {
			next = append(next, s.state)
		}
	}
	return next
}

func (e *explorer[S]) add(key uint64, parent int, action uint16) bool {
	if _, isKnown := e.seen[key]; isKnown {
		return false
	}
	e.seen[key] = struct{}{}
	e.parent, e.action = append(e.parent, uint32(parent)), append(e.action, action)
	e.result.States++
	return true
}

// report keeps the first violation of each rule.
func (e *explorer[S]) report(index int, s successor[S]) {
	if e.broken[s.broken.Rule] {
		return
	}
	e.broken[s.broken.Rule] = true
	start, trace := e.trace(index)
	if s.action != isStart {
		trace = append(trace, e.world.Actions[s.action].Name)
	}
	e.result.Violations = append(e.result.Violations, Violation{Error: s.broken, Start: start, Trace: trace, Healthy: s.healthy})
}

// trace returns how a state was reached first.
func (e *explorer[S]) trace(index int) (start string, trace []string) {
	for ; e.action[index] != isStart; index = int(e.parent[index]) {
		trace = append(trace, e.world.Actions[e.action[index]].Name)
	}
	slices.Reverse(trace)
	return e.world.Starts[e.parent[index]].Name, trace
}

func asRule(err error) *RuleError {
	if broken, ok := err.(*RuleError); ok { //nolint:errorlint // actions return it as it is
		return broken
	}
	return &RuleError{Rule: "error", Problem: err.Error()}
}

// Replay returns the state to which a trace leads, and the first violation on the way. Each event must happen.
func Replay[S any](world World[S], start string, trace ...string) (S, error) {
	first := slices.IndexFunc(world.Starts, func(s Start[S]) bool { return s.Name == start })
	if first < 0 {
		var none S
		return none, fmt.Errorf("the world has no start %q", start)
	}
	state := world.Starts[first].State
	for i, name := range trace {
		action := slices.IndexFunc(world.Actions, func(a Action[S]) bool { return a.Name == name })
		if action < 0 {
			return state, fmt.Errorf("the world has no action %q", name)
		}
		next, happens, err := world.Actions[action].Do(state)
		if err != nil {
			return next, err
		}
		if !happens {
			return state, fmt.Errorf("event %d, %q, does not happen", i+1, name)
		}
		state = next
	}
	return state, nil
}
