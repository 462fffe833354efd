package lineage_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
)

// All tests share these API servers: the hub and two members.
var (
	kinds   = runtime.NewScheme()
	hub     = &server{}
	members = map[string]*server{"east": {}, "west": {}}
)

// server is an API server with an uncached client of its administrator.
type server struct {
	client.Client
	environment envtest.Environment
	config      *rest.Config
}

func TestMain(m *testing.M) {
	flag.Parse()
	if !testing.Verbose() {
		klog.SetLogger(logr.Discard())
	}
	ctrl.SetLogger(klog.Background())
	os.Exit(onServers(m.Run))
}

// onServers runs the tests on real API servers and returns the exit code.
func onServers(run func() int) int {
	if os.Getenv("KUBEBUILDER_ASSETS") == "" {
		fmt.Fprintln(os.Stderr, "KUBEBUILDER_ASSETS must name the directory of etcd and kube-apiserver: use `make test`, or `make tools` and KUBEBUILDER_ASSETS=$PWD/bin")
		return 1
	}
	if err := errors.Join(scheme.AddToScheme(kinds), v1alpha1.AddToScheme(kinds)); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	hub.environment.CRDDirectoryPaths = []string{"../../config/crd/bases"}
	servers := []*server{hub, members["east"], members["west"]}
	started := make(chan error)
	for _, s := range servers {
		go func() { started <- s.start() }()
		defer s.stop()
	}
	if err := errors.Join(<-started, <-started, <-started); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return run()
}

func (s *server) start() (err error) {
	s.environment.UseExistingCluster = new(false)
	s.environment.ErrorIfCRDPathMissing = true
	s.environment.ControlPlaneStartTimeout = time.Minute
	if s.config, err = s.environment.Start(); err != nil {
		return fmt.Errorf("start an API server: %w", err)
	}
	s.config.QPS = -1
	s.Client, err = client.New(s.config, client.Options{Scheme: kinds})
	return err
}

func (s *server) stop() {
	if err := s.environment.Stop(); err != nil {
		fmt.Fprintln(os.Stderr, "stop an API server:", err)
	}
}

// background returns a context for cleanup that must run even if a test has failed.
func background() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), patience)
}
