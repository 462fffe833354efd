package clusters_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
)

// The tests of this package share one hub and one member API server, and most of them one operator.
// Each test has its own members: a user of the member's API server who connects through a separate
// link (see link).

const (
	selectedLabel = "sigs.k8s.io/multicluster-runtime-kubeconfig"
	namespace     = "fleetwright-system" // of the operator that most tests share
)

// ctx is the context of the tests' own requests, including cleanup.
var ctx = context.Background()

func TestMain(m *testing.M) {
	flag.Parse()
	// These tests mostly wait, so more of them may run in parallel. A fuzzer would treat that
	// number as its number of workers.
	if flag.Lookup("test.fuzz").Value.String() == "" {
		if err := flag.Set("test.parallel", "24"); err != nil {
			panic(err)
		}
	}
	log := logr.FromSlogHandler(slog.NewTextHandler(logged, nil))
	ctrl.SetLogger(log)
	klog.SetLogger(log)
	code := m.Run()
	if said := leaks(); len(said) > 0 {
		fmt.Printf("FAIL: %d times it tells what it must not, such as\n%s\n", len(said), strings.Join(said[:min(len(said), 10)], "\n"))
		code = 1
	}
	if started != nil {
		started.stop()
	}
	os.Exit(code)
}

// soon is long enough, on a busy machine, for an operation that takes almost no time.
const soon = time.Minute

// eventually waits until wrong returns nil.
func eventually(t testing.TB, within time.Duration, wrong func() error) {
	t.Helper()
	deadline := time.Now().Add(within)
	// A hundred tests that query the hub fifty times a second would leave no capacity for other
	// requests, so the pause grows with the wait.
	for pause := 20 * time.Millisecond; ; pause = min(pause*5/4, 400*time.Millisecond) {
		err := wrong()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("after %s: %v", within, err)
		}
		time.Sleep(pause)
	}
}

// world holds what the tests share.
type world struct {
	dir         string
	hub, member *apiServer
	operator    *operator
}

var (
	started *world
	begin   = sync.OnceValues(func() (*world, error) {
		dir, err := os.MkdirTemp("", "fleetwright-clusters-")
		if err != nil {
			return nil, err
		}
		started = &world{dir: dir}
		return started, started.start()
	})
)

// shared returns the world. The first test that needs the world starts it.
func shared(t testing.TB) *world {
	t.Helper()
	if os.Getenv("KUBEBUILDER_ASSETS") == "" {
		t.Fatal("KUBEBUILDER_ASSETS is not set: it must name the directory of etcd and kube-apiserver; `make test` builds them and sets it")
	}
	w, err := begin()
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func (w *world) start() error {
	var both sync.WaitGroup
	var hubErr, memberErr error
	both.Go(func() { w.hub, hubErr = startAPIServer(filepath.Join(w.dir, "hub"), "../config/crd/bases") })
	both.Go(func() { w.member, memberErr = startAPIServer(filepath.Join(w.dir, "member")) })
	both.Wait()
	if err := errors.Join(hubErr, memberErr); err != nil {
		return err
	}
	if err := errors.Join(w.permit(), w.overhear(ctx), w.grant(namespace)); err != nil {
		return err
	}
	var err error
	w.operator, err = w.operate(namespace)
	return err
}

// permit creates the role on the member that members' users have.
func (w *world) permit() error {
	role := &rbacv1.ClusterRole{}
	if err := fromFile("../config/member/rbac.yaml", role); err != nil {
		return err
	}
	return w.member.admin.Create(ctx, role)
}

func (w *world) stop() {
	if w.operator != nil {
		if err := w.operator.stop(); err != nil {
			fmt.Println("stop the operator:", err)
		}
	}
	for _, server := range []*apiServer{w.hub, w.member} {
		if server != nil {
			_ = server.environment.Stop()
		}
	}
	_ = os.RemoveAll(w.dir)
}
