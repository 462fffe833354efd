package kind

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/fleetwright/fleetwright/internal/environment"
)

var (
	kindFlag  = flag.Bool("kind", false, "run the tests that need a Docker engine and the images (make test-kind)")
	imageFlag = flag.String("image", "localhost/fleetwright:dev", "the operator's image")
	dirFlag   = flag.String("dir", ".kind", "directory of everything that the environment keeps")
)

const root = "../../.."

// TestEnvironment tests what the end-to-end suite relies on: no other container gets the address of
// a stopped cluster, an operator that was stopped is no longer found, and its log is kept.
func TestEnvironment(t *testing.T) {
	if !*kindFlag {
		t.Skip("needs a Docker engine and the flag -kind; make test-kind runs it")
	}
	ctx := t.Context()
	env, err := New(Options{Dir: *dirFlag, Root: root, Image: *imageFlag, Workloads: map[string][]string{Workload: nil}})
	must(t, err)
	must(t, errors.Join(env.CheckPrograms(), env.Lock(), env.Clean(ctx)))
	t.Cleanup(func() {
		if err := env.Clean(context.Background()); err != nil {
			t.Errorf("clean up: %v", err)
		}
	})
	var hub environment.Cluster
	took(t, "create a cluster", func() {
		hub, err = env.Create(ctx, "hub")
		must(t, err)
	})
	api, err := environment.NewClient(hub.Kubeconfig())
	must(t, errors.Join(err, environment.PrepareHub(ctx, api, filepath.Join(root, "config", "crd", "bases"))))

	took(t, "stop it", func() { must(t, hub.Stop(ctx)) })
	if err := hub.Ready(ctx); err == nil {
		t.Error("the cluster is stopped and Ready returns no error")
	}
	intruder := "fleetwright-test-intruder" // without Stop's placeholder, it would get the address
	_, err = docker(ctx, "run", "--detach", "--rm", "--name="+intruder, "--network=kind", Workload)
	must(t, err)
	t.Cleanup(func() { _, _ = docker(context.Background(), "rm", "--force", intruder) })
	took(t, "start it again", func() { must(t, hub.Start(ctx)) })

	for i := range 3 {
		var running environment.Operator
		took(t, "start the operator", func() {
			running, err = env.StartOperator(ctx, hub, 1, "--log-format=text")
			must(t, err)
		})
		must(t, environment.Await(ctx, time.Minute, "the metrics", func(ctx context.Context) error { return serves(ctx, running) }))
		end := []func(context.Context) error{running.Kill, running.Stop, running.Stop}[i]
		took(t, "end it", func() { must(t, end(ctx)) })
		if found, err := env.Operator(); found != nil || err != nil {
			t.Errorf("the stopped operator is still found: %v, %v", found, err)
		}
		if n := strings.Count(running.Log(), "msg=Starting version="); n != i+1 {
			t.Errorf("want %d starts in the log, found %d:\n%s", i+1, n, running.Log())
		}
	}
}

// serves returns an error unless the operator has one replica that serves metrics.
func serves(ctx context.Context, running environment.Operator) error {
	replicas, err := running.Replicas(ctx)
	if err != nil {
		return err
	}
	if len(replicas) != 1 {
		return fmt.Errorf("%d replicas run, want 1", len(replicas))
	}
	metrics, err := replicas[0].Metrics(ctx)
	if err == nil && !strings.Contains(string(metrics), "process_start_time_seconds") {
		err = fmt.Errorf("the operator serves the metrics %s", metrics)
	}
	return err
}

func took(t *testing.T, what string, do func()) {
	t.Helper()
	start := time.Now()
	do()
	t.Logf("%s: %s", what, time.Since(start).Round(100*time.Millisecond))
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
