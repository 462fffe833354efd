package kwok

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/fleetwright/fleetwright/internal/environment"
	"github.com/fleetwright/fleetwright/internal/sample"
)

const root = "../../.."

// On a busy machine, the controller manager exits before the API server responds: it waits some ten
// seconds. A quarter of the runs with a sample have it: it waits for a minute.
func TestCluster_whose_API_server_starts_slowly_becomes_ready(t *testing.T) {
	if !sample.Takes(t.Name(), 4) {
		t.Skip("not in this sample: SAMPLE=0 has it")
	}
	dir := t.TempDir()
	env, err := New(Options{Dir: dir, Bin: filepath.Join(root, "bin"), Config: filepath.Join(root, "config")})
	must(t, err)
	t.Cleanup(func() {
		if err := env.Clean(context.Background()); err != nil {
			t.Errorf("clean up: %v", err)
		}
	})
	c := env.cluster("slow")
	steps := []struct {
		name string
		do   func(context.Context) error
	}{
		{"created", func(ctx context.Context) error { _, err := env.Create(ctx, c.name); return err }},
		{"started", c.Start},
	}
	for _, step := range steps {
		if step.name == "started" {
			must(t, c.Stop(t.Context()))
		}
		slowed := make(chan error)
		go func() { slowed <- slowStart(t.Context(), c) }()
		err := step.do(t.Context())
		must(t, <-slowed)
		if err != nil {
			t.Fatalf("%s: %v", step.name, err)
		}
		if err := c.Ready(t.Context()); err != nil {
			t.Errorf("%s: %v", step.name, err)
		}
	}
}

// slowStart freezes the API server of a starting cluster from the start of the controller manager
// until that has exited.
func slowStart(ctx context.Context, c *cluster) error {
	var server int
	err := environment.Await(ctx, time.Minute, "the API server and the controller manager to start", func(context.Context) (err error) {
		if server, err = c.pid("kube-apiserver"); err != nil {
			return err
		}
		_, err = c.pid("kube-controller-manager")
		return err
	})
	if err != nil {
		return err
	}
	if err := syscall.Kill(server, syscall.SIGSTOP); err != nil {
		return err
	}
	defer func() { _ = syscall.Kill(server, syscall.SIGCONT) }()
	return environment.Await(ctx, time.Minute, "the controller manager to exit", func(context.Context) error {
		if pid, err := c.pid("kube-controller-manager"); err == nil {
			return fmt.Errorf("the component runs as process %d", pid)
		}
		return nil
	})
}

// pid returns the process of a component.
func (c *cluster) pid(component string) (int, error) {
	found, err := processesIn(c.dir)
	if err != nil {
		return 0, err
	}
	i := slices.IndexFunc(found, func(p process) bool { return filepath.Base(p.program) == component })
	if i < 0 {
		return 0, fmt.Errorf("%s does not run", component)
	}
	return found[i].pid, nil
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
