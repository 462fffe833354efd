// Package servertest starts the API servers that the tests of a package share. Only tests import it.
//
//	var environment = servertest.New("../../config/crd/bases")
//
//	func TestMain(m *testing.M) { os.Exit(servertest.Run(m.Run, connect, environment)) }
//
//	func connect() (err error) {
//		hub, err = client.New(environment.Config, client.Options{})
//		return err
//	}
package servertest

import (
	"errors"
	"fmt"
	"os"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/envtest"
)

// New returns an API server with the CRDs in these directories. It is not started. It may take
// minutes to start on a busy machine.
func New(crds ...string) *envtest.Environment {
	return &envtest.Environment{
		CRDDirectoryPaths:        crds,
		ErrorIfCRDPathMissing:    true,
		UseExistingCluster:       new(false),
		ControlPlaneStartTimeout: 5 * time.Minute,
	}
}

// Run starts the API servers, calls connect and then tests, stops the API servers, and returns the
// exit code of the process. The Config of an API server that runs is that of its administrator,
// without throttling.
func Run(tests func() int, connect func() error, environments ...*envtest.Environment) int {
	if os.Getenv("KUBEBUILDER_ASSETS") == "" {
		fmt.Fprintln(os.Stderr, "KUBEBUILDER_ASSETS must name the directory of etcd and kube-apiserver: use `make test`, or `make tools` and KUBEBUILDER_ASSETS=$PWD/bin")
		return 1
	}
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

func start(environment *envtest.Environment) error {
	config, err := environment.Start()
	if err != nil {
		return fmt.Errorf("start an API server: %w", err)
	}
	config.QPS = -1
	return nil
}

func stop(environment *envtest.Environment) {
	if err := environment.Stop(); err != nil {
		fmt.Fprintln(os.Stderr, "stop an API server:", err)
	}
}
