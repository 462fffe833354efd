// Package environment creates clusters and runs the operator on one of them. The end-to-end suites,
// the demo and the benchmarks use these interfaces. Package kwok runs everything as local processes
// with simulated pods, and package kind runs containers.
//
// Clusters and the operator outlive the process that created them: a context only limits how long a
// call waits. A later process finds them, and [Environment.Clean] removes them.
package environment

import (
	"context"
	"syscall"
)

// Environment creates clusters and runs the operator.
type Environment interface {
	// Create creates a cluster and waits until it can run pods. It first removes a cluster of that
	// name from an earlier run. It may be called for several clusters at once.
	Create(ctx context.Context, name string) (Cluster, error)

	// Clusters returns the existing clusters, running or not, of this process or an earlier one,
	// sorted by name.
	Clusters() ([]Cluster, error)

	// StartOperator runs replicas of the operator with this cluster as their hub, with the shipped
	// permissions, and waits until all are ready. args follow the environment's own arguments.
	// There is one operator at a time.
	StartOperator(ctx context.Context, hub Cluster, replicas int, args ...string) (Operator, error)

	// Operator returns the running operator, of this process or an earlier one, or nil.
	Operator() (Operator, error)

	// Clean stops the operator and removes every cluster, in any state. It may be repeated.
	Clean(ctx context.Context) error
}

// Cluster is a Kubernetes cluster.
type Cluster interface {
	// Name returns a name that is unique in the environment.
	Name() string

	// Kubeconfig returns the administrator's kubeconfig, which names no file and no program. Its
	// server is reachable from this process. It is nil until the cluster is created.
	Kubeconfig() []byte

	// MemberKubeconfig returns the kubeconfig to join this cluster with. It creates the
	// ServiceAccount with the shipped permissions. Its server is reachable from the operator.
	MemberKubeconfig(ctx context.Context) ([]byte, error)

	// TokenKey returns the private key with which the API server signs tokens of ServiceAccounts,
	// in PEM form.
	TokenKey(ctx context.Context) ([]byte, error)

	// Requests returns the requests of the operator to this cluster, in the order of the responses.
	Requests(ctx context.Context) ([]Request, error)

	// Ready returns an error unless the API server is ready and the cluster has a ready node.
	Ready(ctx context.Context) error

	// Stop kills the whole control plane at once, as a power cut does. The state is kept.
	Stop(ctx context.Context) error

	// Start starts a stopped cluster at the same address, or the components that died, and waits
	// until the cluster is ready.
	Start(ctx context.Context) error

	// Delete removes the cluster and everything in it. It may be repeated.
	Delete(ctx context.Context) error
}

// Operator is all replicas of a running operator.
type Operator interface {
	// Kill kills the operator, as a crash does (SIGKILL), and waits until it is gone.
	Kill(ctx context.Context) error

	// Stop stops the operator (SIGTERM) and waits until it is gone.
	Stop(ctx context.Context) error

	// Log returns the log of this operator and of the operators before it.
	Log() string

	// Replicas returns the replicas. Some may have exited or restarted since the start.
	Replicas(ctx context.Context) ([]Replica, error)
}

// Replica is one process of an operator.
type Replica interface {
	// Name returns a name that is unique in the operator.
	Name() string

	// Signal sends a signal to the process. It returns an error if the process has exited, also if
	// another one has replaced it.
	Signal(ctx context.Context, signal syscall.Signal) error

	// Metrics returns the metrics that the process serves.
	Metrics(ctx context.Context) ([]byte, error)
}
