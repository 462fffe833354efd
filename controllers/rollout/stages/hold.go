package stages

// Hold says which clusters may get another revision.
type Hold int

const (
	// Released: each cluster, when it is its turn.
	Released Hold = iota
	// Resumed is Released in the first decision after a pause. The clocks of the clusters that are
	// updating start again.
	Resumed
	// Paused: only a cluster without a revision. Without spec.rollout, each cluster: it says that the
	// hub is behind, and then delivery waits.
	Paused
	// Frozen: no cluster.
	Frozen
)

// isPaused reports whether no cluster of a stage that has a revision may get another one.
func (h Hold) isPaused() bool { return h >= Paused }
