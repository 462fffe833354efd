// Package kwok runs clusters and the operator as processes of this machine: etcd, API server,
// controller manager and scheduler are real, and kwok simulates nodes and pods. It needs no
// container engine. A cluster takes a few seconds and some 500 MB.
//
// All files of an environment are in its directory, and the program of each of its processes has a
// path in that directory. So a later process finds the processes without any other file, and never
// kills another process. All of them listen on 127.0.0.1 only.
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

	"github.com/fleetwright/fleetwright/internal/environment"
)

// Options are the options of an environment.
type Options struct {
	// Dir is the directory of the environment's files, and need not exist. It belongs to one
	// environment.
	Dir string
	// Bin is the directory of the programs, Config the directory of the shipped manifests.
	Bin, Config string
}

// Environment creates clusters in a directory.
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

// CheckPrograms returns an error if a program is missing. Clusters can be stopped and removed
// without the programs.
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

// Lock makes this process the only one that uses the directory, until it exits.
func (e *Environment) Lock() error {
	if err := os.MkdirAll(e.dir, 0o750); err != nil {
		return err
	}
	// Not an os.File: its finalizer would close the file and release the lock.
	dir, err := syscall.Open(e.dir, syscall.O_RDONLY|syscall.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("open %s: %w", e.dir, err)
	}
	if err := syscall.Flock(dir, syscall.LOCK_EX|syscall.LOCK_NB); errors.Is(err, syscall.EWOULDBLOCK) {
		return fmt.Errorf("another process uses %s", e.dir)
	} else if err != nil {
		return fmt.Errorf("lock %s: %w", e.dir, err)
	}
	return nil
}

// createAttempts is how often Create tries other ports.
const createAttempts = 3

// Create is part of [environment.Environment].
func (e *Environment) Create(ctx context.Context, name string) (environment.Cluster, error) {
	c := e.cluster(name)
	endTurn, err := awaitTurn(ctx)
	if err != nil {
		return nil, err
	}
	defer endTurn()
	for attempt := 1; ; attempt++ {
		if err := c.Delete(ctx); err != nil {
			return nil, err
		}
		err := c.create(ctx)
		if err == nil {
			return c, nil
		}
		// Another program may take a port between the choice of the port and its use.
		if attempt == createAttempts || !errors.Is(err, errPortTaken) {
			return nil, fmt.Errorf("create cluster %s: %w%s", name, err, c.diagnosis(err))
		}
	}
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
	// Stop the operator first, so that it does not lose its clusters while it runs.
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
	// Nothing is taken for a complete cluster if the removal is interrupted.
	markers, _ := filepath.Glob(filepath.Join(e.clustersDir(), "*", completeMarker)) // The pattern is valid.
	for _, marker := range markers {
		if err := os.Remove(marker); err != nil {
			return err
		}
	}
	// The directory itself stays, because it is locked.
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

// kwokctl runs kwokctl for a cluster, without the user's configuration and working directory. The
// first word of its command line is a path in the cluster's directory, so that a later process finds
// it after this process was killed: otherwise it would start components of a deleted cluster.
func (c *cluster) kwokctl(ctx context.Context, config []byte, args ...string) error {
	e := c.env
	args = append(args, "--name", c.name)
	cmd := exec.CommandContext(ctx, filepath.Join(e.bin, "kwokctl"), args...)
	cmd.Args[0] = c.kwokctlProgram()
	cmd.Stdin = bytes.NewReader(config)
	cmd.Env = slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "KWOK_") })
	// kwokctl runs kubectl, which has a cache in the home directory.
	cmd.Env = append(cmd.Env, "KWOK_WORKDIR="+e.dir, "HOME="+e.dir, "PATH="+e.bin+string(os.PathListSeparator)+os.Getenv("PATH"))
	// The processes that kwokctl starts must not keep this process's pipes open.
	cmd.WaitDelay = time.Second
	output, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("kwokctl %s: %w%s", strings.Join(args, " "), errors.Join(err, context.Cause(ctx)), errorsIn(output))
	}
	return nil
}

// kwokctlProgram is how kwokctl appears in the list of processes.
func (c *cluster) kwokctlProgram() string { return filepath.Join(c.dir, "kwokctl") }

// errorsIn returns the errors in kwokctl's log, or the whole output if it is not a log.
func errorsIn(output []byte) string {
	var found strings.Builder
	for line := range bytes.Lines(bytes.TrimSpace(output)) {
		var entry struct{ Level, Msg, Err string }
		if json.Unmarshal(line, &entry) != nil {
			fmt.Fprintf(&found, "\n  %s", bytes.TrimSpace(line))
		} else if entry.Level == "ERROR" {
			fmt.Fprintf(&found, "\n  %s: %s", entry.Msg, entry.Err)
		}
	}
	return found.String()
}
