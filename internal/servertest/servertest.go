// Package servertest starts the API servers of tests. Only tests import it. The tests of a package
// share their API servers:
//
//	var environment = servertest.New("../../config/crd/bases")
//
//	func TestMain(m *testing.M) { os.Exit(servertest.Run(m.Run, connect, environment)) }
//
//	func connect() (err error) {
//		hub, err = client.New(environment.Config, client.Options{})
//		return err
//	}
//
// A test that changes an API server as a whole starts its own with [Start]. An API server costs some
// three seconds of CPU time. That is little beside the tests of a package, so packages do not share
// one: it would outlive its test binary, and one package would see the objects of another.
package servertest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
)

// New returns an API server with the CRDs in these directories. It is not started. It may take
// minutes to start, and to accept the CRDs, on a busy machine. It stops within seconds: after one
// second it is killed, because it would wait 20 seconds for its watches to end.
func New(crds ...string) *envtest.Environment {
	return &envtest.Environment{
		CRDDirectoryPaths:        crds,
		ErrorIfCRDPathMissing:    true,
		UseExistingCluster:       new(false),
		ControlPlaneStartTimeout: 5 * time.Minute,
		ControlPlaneStopTimeout:  time.Second,
		CRDInstallOptions:        envtest.CRDInstallOptions{MaxTime: 5 * time.Minute},
	}
}

// Run starts the API servers, calls connect and then tests, stops the API servers, and returns the
// exit code of the process. The Config of an API server that runs is that of its administrator,
// without throttling.
func Run(tests func() int, connect func() error, environments ...*envtest.Environment) int {
	started := make(chan error)
	for _, environment := range environments {
		go func() { started <- start(environment) }()
		defer stop(environment)
	}
	var err error
	for range environments {
		err = errors.Join(err, <-started)
	}
	if err == nil {
		err = connect()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return tests()
}

// Start starts an API server that stops when the test ends. Its Config is that of its administrator,
// without throttling.
func Start(t testing.TB, environment *envtest.Environment) {
	t.Helper()
	t.Cleanup(func() { stop(environment) }) // also if it did not start: some of its processes may run
	if err := start(environment); err != nil {
		t.Fatal(err)
	}
}

func start(environment *envtest.Environment) error {
	if os.Getenv("KUBEBUILDER_ASSETS") == "" {
		return errors.New("KUBEBUILDER_ASSETS must name the directory of etcd, kube-apiserver and kubectl: use `make test`, or `make tools` and KUBEBUILDER_ASSETS=$PWD/bin")
	}
	// An API server does not inherit client-go's detector of changes to cached objects: it takes 7 % of
	// the CPU time of API servers in the tests of controllers/planner. The process of the test has read
	// the variable already. Other processes that it starts do not have the detector either.
	if err := os.Unsetenv("KUBE_CACHE_MUTATION_DETECTOR"); err != nil {
		return err
	}
	config, err := environment.Start()
	if errors.Is(err, context.DeadlineExceeded) && environment.Config != nil {
		config, err = continueStart(environment)
	}
	if err != nil {
		return fmt.Errorf("start an API server: %w", err)
	}
	config.QPS = -1
	return nil
}

// continueStart continues the start of an API server that serves requests and had no namespace default
// yet. envtest waits five seconds for that, which are not enough on a busy machine.
func continueStart(environment *envtest.Environment) (*rest.Config, error) {
	clients, err := kubernetes.NewForConfig(environment.Config)
	if err != nil {
		return nil, err
	}
	err = wait.PollUntilContextTimeout(context.Background(), 100*time.Millisecond, environment.ControlPlaneStartTimeout, true, func(ctx context.Context) (bool, error) {
		_, err := clients.CoreV1().Namespaces().Get(ctx, metav1.NamespaceDefault, metav1.GetOptions{})
		return err == nil, nil
	})
	if err != nil {
		return nil, fmt.Errorf("wait for the namespace %s: %w", metav1.NamespaceDefault, err)
	}
	environment.UseExistingCluster = new(true)
	defer func() { environment.UseExistingCluster = new(false) }() // so that Stop stops it
	return environment.Start()
}

// stop stops an API server. Its error says only that a process had to be killed.
func stop(environment *envtest.Environment) { _ = environment.Stop() }
