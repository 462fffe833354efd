// Package environment is where whole fleets run: it makes clusters and runs the operator against one of
// them. The end-to-end suite and the demo know only these interfaces; of the packages beside this one, kwok runs
// everything as local processes, with simulated pods, and kind as containers.
//
// What an Environment makes outlives the process that asked for it: contexts bound the waiting, not the
// clusters or the operator. A later process finds it again, and [Environment.Clean] removes all of it.
package environment

import (
	"context"
	"syscall"
)

// Environment makes clusters and runs the operator.
type Environment interface {
	// Create makes a cluster and waits until it can run pods. What an earlier run left under that name is
	// removed first. It may be called for several clusters at once.
	Create(ctx context.Context, name string) (Cluster, error)

	// Clusters are those that exist, running or not, from this process or an earlier one, sorted by name.
	Clusters() ([]Cluster, error)

	// StartOperator runs so many replicas of the operator with this cluster as their hub, by its ServiceAccount with the shipped rights,
	// and waits until all say that they are ready. args come after the environment's own. There is one operator at a time.
	StartOperator(ctx context.Context, hub Cluster, replicas int, args ...string) (Operator, error)

	// Operator is the operator that runs, from this process or an earlier one, or nil.
	Operator() (Operator, error)

	// Clean ends the operator and removes every cluster, in whatever state they are. It may be repeated.
	Clean(ctx context.Context) error
}

// Cluster is one Kubernetes cluster.
type Cluster interface {
	// Name is unique in its environment.
	Name() string

	// Kubeconfig is the administrator's, whole in itself: it names no file and runs no program. Its server
	// is reachable from this process. It is nil while a cluster is only half made.
	Kubeconfig() []byte

	// MemberKubeconfig is what a hub is given to join this cluster: that of a ServiceAccount with the shipped rights, which it makes. Its
	// server is reachable from the operator.
	MemberKubeconfig(ctx context.Context) ([]byte, error)

	// Requests are those that the operator has sent to this cluster, as hub or as member, in the order of their answers.
	Requests(ctx context.Context) ([]Request, error)

	// Ready tells with a nil error that the API server answers, is ready, and has a node to run pods on.
	Ready(ctx context.Context) error

	// Stop ends the whole control plane at once, as a power cut does. The state is kept.
	Stop(ctx context.Context) error

	// Start brings a stopped cluster back at the same address, or what has died of a cluster, and waits
	// until it is ready.
	Start(ctx context.Context) error

	// Delete removes the cluster and everything that it holds. It may be repeated.
	Delete(ctx context.Context) error
}

// Operator is a running operator: all its replicas.
type Operator interface {
	// Kill ends it as a crash does (SIGKILL), and waits until it is gone.
	Kill(ctx context.Context) error

	// Stop asks it to end (SIGTERM) and waits until it has.
	Stop(ctx context.Context) error

	// Log is what it and its predecessors have logged.
	Log() string

	// Replicas are those that it was started with, and that may have ended or been started again by themselves since.
	Replicas(ctx context.Context) ([]Replica, error)
}

// Replica is one process of an operator.
type Replica interface {
	// Name is unique in its operator.
	Name() string

	// Signal sends a signal to the process, whatever becomes of that. One that was started since in its place does not get it: that is an
	// error.
	Signal(ctx context.Context, signal syscall.Signal) error

	// Metrics are what it serves as its metrics.
	Metrics(ctx context.Context) ([]byte, error)
}
