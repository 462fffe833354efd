// Package explore visits every state of a world, within a bound: explicit-state model checking of the code
// as it ships. It knows nothing of what it explores.
//
//	world := explore.World[state]{Starts: starts, Actions: actions, Key: key, Healthy: healthy}
//	result := explore.Explore(world, explore.Limits{Depth: 8})
//	for _, violation := range result.Violations { ... }
//
// A state is a value. An action is a function from a state to the next one, which also checks the rules of
// that step. The search is breadth first, so the trace of a violation is a shortest one; and its result does
// not depend on the number of processors. After an exploration, no state that was reached breaks a rule that
// the result does not have.
//
// Progress is checked by healthy ways: from a state, everything is repaired, and then the world goes on by
// itself to its end, in steps without a choice. Each state on such a way is remembered, so that the ways
// from a million states take only a few steps each.
//
// Of each state, the search keeps a hash, and how it was reached. The states themselves are kept of two
// levels: that which is expanded, and the next one. See Spin (Holzmann, "The Model Checker SPIN", 1997) for
// the method, and Stern and Dill, "Improved Probabilistic Verification by Hash Compaction", 1995, for the
// hashes.
package explore
