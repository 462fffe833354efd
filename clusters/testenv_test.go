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
	log := logr.FromSlogHandler(slog.NewTextHandler(operatorLog, nil))
	ctrl.SetLogger(log)
	klog.SetLogger(log)
	code := m.Run()
	if said := findLeaks(); len(said) > 0 {
		fmt.Printf("FAIL: %d times it tells what it must not, such as\n%s\n", len(said), strings.Join(said[:min(len(said), 10)], "\n"))
		code = 1
	}
	if startedEnv != nil {
		startedEnv.stop()
	}
	os.Exit(code)
}

// testTimeout is long enough, on a busy machine, for an operation that takes almost no time.
const testTimeout = time.Minute

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

// testEnv holds what the tests share.
type testEnv struct {
	dir         string
	hub, member *apiServer
	operator    *operator
}

var (
	startedEnv *testEnv
	startEnv   = sync.OnceValues(func() (*testEnv, error) {
		dir, err := os.MkdirTemp("", "fleetwright-clusters-")
		if err != nil {
			return nil, err
		}
		startedEnv = &testEnv{dir: dir}
		return startedEnv, startedEnv.start()
	})
)

// sharedEnv returns the world. The first test that needs the world starts it.
func sharedEnv(t testing.TB) *testEnv {
	t.Helper()
	if os.Getenv("KUBEBUILDER_ASSETS") == "" {
		t.Fatal("KUBEBUILDER_ASSETS is not set: it must name the directory of etcd and kube-apiserver; `make test` builds them and sets it")
	}
	env, err := startEnv()
	if err != nil {
		t.Fatal(err)
	}
	return env
}

func (env *testEnv) start() error {
	var both sync.WaitGroup
	var hubErr, memberErr error
	both.Go(func() { env.hub, hubErr = startAPIServer(filepath.Join(env.dir, "hub"), "../config/crd/bases") })
	both.Go(func() { env.member, memberErr = startAPIServer(filepath.Join(env.dir, "member")) })
	both.Wait()
	if err := errors.Join(hubErr, memberErr); err != nil {
		return err
	}
	if err := errors.Join(env.createMemberRole(), env.recordPublished(ctx), env.grantOperator(namespace)); err != nil {
		return err
	}
	var err error
	env.operator, err = env.startOperator(namespace)
	return err
}

// createMemberRole creates the role on the member that members' users have.
func (env *testEnv) createMemberRole() error {
	role := &rbacv1.ClusterRole{}
	if err := readObject("../config/member/rbac.yaml", role); err != nil {
		return err
	}
	return env.member.admin.Create(ctx, role)
}

func (env *testEnv) stop() {
	if env.operator != nil {
		if err := env.operator.stop(); err != nil {
			fmt.Println("stop the operator:", err)
		}
	}
	for _, server := range []*apiServer{env.hub, env.member} {
		if server != nil {
			_ = server.environment.Stop()
		}
	}
	_ = os.RemoveAll(env.dir)
}
