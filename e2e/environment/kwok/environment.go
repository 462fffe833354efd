// Package kwok runs whole clusters, and the operator, as processes of this machine: etcd, API server,
// controller manager and scheduler are the real ones; nodes and pods are simulated by kwok. It needs no
// container engine and takes a few seconds and some 500 MB for each cluster.
//
// Everything of an environment lies in its directory, and every process that it starts has, as its program
// name, a path in that directory. So the processes are found again by any later process, even when the files
// that told of them are gone, and nothing else is ever ended. All of them listen on 127.0.0.1 alone.
package kwok

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/fleetwright/fleetwright/e2e/environment"
)

// Options are what an environment is made of.
type Options struct {
	// Dir is the directory of everything that the environment keeps, and need not exist. Two environments do not share one.
	Dir string
	// Bin is the directory of the programs, and Config that of the shipped manifests.
	Bin, Config string
}

// Environment makes clusters in a directory.
type Environment struct {
	dir    string
	bin    string
	config string
	ports  *ports
}

var _ environment.Environment = &Environment{}

// New returns the environment of a directory.
func New(options Options) (*Environment, error) {
	e := &Environment{dir: options.Dir, bin: options.Bin, config: options.Config}
	for _, dir := range []*string{&e.dir, &e.bin, &e.config} {
		absolute, err := filepath.Abs(*dir)
		if err != nil {
			return nil, fmt.Errorf("find directory %s: %w", *dir, err)
		}
		*dir = absolute
	}
	e.ports = newPorts(e.dir)
	return e, nil
}

// CheckPrograms tells with a nil error that all the programs are there. Without them clusters can still be
// stopped and removed.
func (e *Environment) CheckPrograms() error {
	var missing []string
	for _, name := range []string{"etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubectl", "kwok", "kwokctl", operatorProgram} {
		if _, err := os.Stat(filepath.Join(e.bin, name)); err != nil {
			missing = append(missing, name)
		}
	}
	if len(missing) > 0 {
		return fmt.Errorf("%s lacks %s: run make tools build", e.bin, strings.Join(missing, ", "))
	}
	return nil
}

// Lock makes this process the only one that works with the directory, until it ends.
func (e *Environment) Lock() error {
	if err := os.MkdirAll(e.dir, 0o750); err != nil {
		return err
	}
	// It is left open, or it would be unlocked as soon as the garbage is collected.
	dir, err := syscall.Open(e.dir, syscall.O_RDONLY|syscall.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("open %s: %w", e.dir, err)
	}
	if err := syscall.Flock(dir, syscall.LOCK_EX|syscall.LOCK_NB); errors.Is(err, syscall.EWOULDBLOCK) {
		return fmt.Errorf("another process is at work with %s", e.dir)
	} else if err != nil {
		return fmt.Errorf("lock %s: %w", e.dir, err)
	}
	return nil
}

// Create is part of [environment.Environment].
func (e *Environment) Create(ctx context.Context, name string) (environment.Cluster, error) {
	c := e.cluster(name)
	if err := c.Delete(ctx); err != nil {
		return nil, err
	}
	if err := c.create(ctx); err != nil {
		return nil, fmt.Errorf("create cluster %s: %w%s", name, err, c.diagnosis())
	}
	return c, nil
}

// Clusters is part of [environment.Environment].
func (e *Environment) Clusters() ([]environment.Cluster, error) {
	var names []string
	entries, err := os.ReadDir(e.clustersDir())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("list clusters: %w", err)
	}
	for _, entry := range entries {
		names = append(names, entry.Name())
	}
	processes, err := processesIn(e.clustersDir())
	if err != nil {
		return nil, err
	}
	for _, p := range processes {
		name, _, _ := strings.Cut(strings.TrimPrefix(p.program, e.clustersDir()+"/"), "/")
		names = append(names, name)
	}
	slices.Sort(names)
	var clusters []environment.Cluster
	for _, name := range slices.Compact(names) {
		clusters = append(clusters, e.cluster(name))
	}
	return clusters, nil
}

// Clean is part of [environment.Environment].
func (e *Environment) Clean(ctx context.Context) error {
	// The operator first, and gently: it is not to find its clusters dead.
	operator, err := e.Operator()
	if err != nil {
		return err
	}
	if operator != nil {
		if err := operator.Stop(ctx); err != nil {
			return err
		}
	}
	if err := endAll(ctx, e.dir, syscall.SIGKILL); err != nil {
		return err
	}
	// The directory itself stays: it bears the lock.
	entries, err := os.ReadDir(e.dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("list %s: %w", e.dir, err)
	}
	for _, entry := range entries {
		if err := os.RemoveAll(filepath.Join(e.dir, entry.Name())); err != nil {
			return fmt.Errorf("empty %s: %w", e.dir, err)
		}
	}
	return nil
}

func (e *Environment) clustersDir() string { return filepath.Join(e.dir, "clusters") }

func (e *Environment) cluster(name string) *cluster {
	return &cluster{env: e, name: name, dir: filepath.Join(e.clustersDir(), name)}
}

// kwokctl runs it with nothing of the user's: neither configuration nor working directory.
func (e *Environment) kwokctl(ctx context.Context, config []byte, args ...string) error {
	cmd := exec.CommandContext(ctx, filepath.Join(e.bin, "kwokctl"), args...)
	cmd.Stdin = bytes.NewReader(config)
	cmd.Env = slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "KWOK_") })
	cmd.Env = append(cmd.Env, "KWOK_WORKDIR="+e.dir, "PATH="+e.bin+string(os.PathListSeparator)+os.Getenv("PATH"))
	// What kwokctl starts must not hold this process's pipes open.
	cmd.WaitDelay = time.Second
	output, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("kwokctl %s: %w%s", strings.Join(args, " "), errors.Join(err, context.Cause(ctx)), complaints(output))
	}
	return nil
}

// complaints are the errors among kwokctl's log lines, or all that it said if it did not log.
func complaints(output []byte) string {
	var said strings.Builder
	for line := range bytes.Lines(bytes.TrimSpace(output)) {
		var entry struct{ Level, Msg, Err string }
		if json.Unmarshal(line, &entry) != nil {
			fmt.Fprintf(&said, "\n  %s", bytes.TrimSpace(line))
		} else if entry.Level == "ERROR" {
			fmt.Fprintf(&said, "\n  %s: %s", entry.Msg, entry.Err)
		}
	}
	return said.String()
}
