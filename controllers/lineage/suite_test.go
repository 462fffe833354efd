package lineage_test

import (
	"context"
	"errors"
	"flag"
	"os"
	"strconv"
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

// free are the servers that no test uses. A test has a hub to itself, because MemberClusters have no
// namespace, and members, because the operator of a hub looks for its objects in all namespaces.
// These tests mostly wait.
var free = make(chan *servers, 2)

// servers are the API servers of a hub and its members.
type servers struct {
	hub     *server
	members map[string]*server
}

// server is an API server with an uncached client of its administrator.
type server struct {
	client.Client
	environment *envtest.Environment
}

var kinds = runtime.NewScheme()

func TestMain(m *testing.M) {
	flag.Parse()
	if !testing.Verbose() {
		klog.SetLogger(logr.Discard())
	}
	ctrl.SetLogger(klog.Background())
	if err := errors.Join(scheme.AddToScheme(kinds), v1alpha1.AddToScheme(kinds), flag.Set("test.parallel", strconv.Itoa(cap(free)))); err != nil {
		panic(err)
	}
	var all []*server
	newServer := func(crds ...string) *server {
		s := &server{environment: servertest.New(crds...)}
		all = append(all, s)
		return s
	}
	for range cap(free) {
		free <- &servers{newServer("../../config/crd/bases"), map[string]*server{"east": newServer(), "west": newServer()}}
	}
	var environments []*envtest.Environment
	for _, s := range all {
		environments = append(environments, s.environment)
	}
	connect := func() error {
		for _, s := range all {
			var err error
			if s.Client, err = client.New(s.environment.Config, client.Options{Scheme: kinds}); err != nil {
				return err
			}
		}
		return nil
	}
	os.Exit(servertest.Run(m.Run, connect, environments...))
}

// takeServers returns servers that no other test uses until this one ends. A test takes them once: if
// each of them took more, all would wait for each other.
func takeServers(t *testing.T) *servers {
	taken := <-free
	t.Cleanup(func() { free <- taken })
	return taken
}

// background returns a context for cleanup that must run even if a test has failed.
func background() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), wait.Patience)
}
