// Package fleet explores every state of the decision code as it ships, within a bound: placement.Decide,
// revise.Decide, rollout.Plan and status.Compute, in a loop with simulated members. It has only tests.
//
//	make explore         # two minutes on two processors
//	make explore DEPTH=5 # deeper, for half an hour
//
// A world (worlds_test.go) says which clusters there are, what users may choose, and what may happen. It
// begins at rest, and on the way through scenes such as a rollout that succeeds, and one that fails. From
// there, everything that may happen happens in every order (actions_test.go): users edit, approve and abort;
// pods fail; members are lost, drained and relabelled; the operator plans late, crashes and restarts. Each
// plan is checked by the rules (rules_test.go has their list), which state the invariants a second time.
// From the states that are reached, a healthy fleet must end where it should (healthy_test.go).
//
// A violation is told as a story, with the line that keeps it as a test (story_test.go, found_test.go).
//
// A new feature adds what users and members may do with it to actions_test.go, a world to worlds_test.go,
// and what must hold to rules_test.go. A field of the status that decisions depend on needs nothing: the key
// of a state has all fields, but for those that key_test.go names.
package fleet
