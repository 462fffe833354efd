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

	"github.com/go-logr/logr"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
)

// The tests of this package share one API server as the hub and one for all members, and most of
// them share one operator. Each test has its own members. A member is a user of the members' API
// server with a separate networkLink and faultProxy.

const (
	selectedLabel = "sigs.k8s.io/multicluster-runtime-kubeconfig"
	namespace     = "fleetwright-system" // of the operator that most tests share
)

// ctx is the context of the tests' own requests, including cleanup.
var ctx = context.Background()

func TestMain(m *testing.M) {
	if kubeconfig := os.Getenv(operatorProcessHub); kubeconfig != "" {
		runOperatorProcess(kubeconfig)
	}
	flag.Parse()
	// These tests mostly wait, so more of them may run in parallel than the machine has processors.
	// A fuzzer would treat that number as its number of workers.
	isSet := map[string]bool{}
	flag.Visit(func(f *flag.Flag) { isSet[f.Name] = true })
	if !isSet["test.fuzz"] && !isSet["test.parallel"] {
		if err := flag.Set("test.parallel", "8"); err != nil {
			panic(err)
		}
	}
	log := logr.FromSlogHandler(slog.NewTextHandler(operatorLog, nil))
	ctrl.SetLogger(log)
	klog.SetLogger(log)
	code := m.Run()
	if lines := findLeaks(); len(lines) > 0 {
		fmt.Printf("FAIL: %d lines contain credentials or addresses, such as\n%s\n", len(lines), strings.Join(lines[:min(len(lines), 10)], "\n"))
		code = 1
	}
	if startedEnv != nil {
		startedEnv.stop()
	}
	os.Exit(code)
}

// testEnv has what the tests share: the API servers and an operator.
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

// sharedEnv returns the shared testEnv. The first test that needs it starts it.
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

// createMemberRole creates the role of the members' users on their API server.
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
			fmt.Println("cannot stop the operator:", err)
		}
	}
	for _, server := range []*apiServer{env.hub, env.member} {
		if server != nil {
			_ = server.stop()
		}
	}
	_ = os.RemoveAll(env.dir)
}
