package lineage_test

import (
	"context"
	"errors"
	"flag"
	"os"
	"testing"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/internal/servertest"
	"github.com/fleetwright/fleetwright/internal/wait"
)

// All tests share these API servers: the hub and two members.
var (
	kinds   = runtime.NewScheme()
	hub     = &server{environment: servertest.New("../../config/crd/bases")}
	members = map[string]*server{"east": {environment: servertest.New()}, "west": {environment: servertest.New()}}
)

// server is an API server with an uncached client of its administrator.
type server struct {
	client.Client
	environment *envtest.Environment
}

func TestMain(m *testing.M) {
	flag.Parse()
	if !testing.Verbose() {
		klog.SetLogger(logr.Discard())
	}
	ctrl.SetLogger(klog.Background())
	os.Exit(servertest.Run(m.Run, connect, hub.environment, members["east"].environment, members["west"].environment))
}

// connect sets the clients of the servers.
func connect() error {
	if err := errors.Join(scheme.AddToScheme(kinds), v1alpha1.AddToScheme(kinds)); err != nil {
		return err
	}
	for _, s := range []*server{hub, members["east"], members["west"]} {
		var err error
		if s.Client, err = client.New(s.environment.Config, client.Options{Scheme: kinds}); err != nil {
			return err
		}
	}
	return nil
}

// background returns a context for cleanup that must run even if a test has failed.
func background() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), wait.Patience)
}
