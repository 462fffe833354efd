// Package kind runs clusters as containers of a Docker engine, with kind, and the operator as a
// Deployment on the hub: with real kubelets, pods and Services, and members over a network. A
// cluster takes some 15 s and 450 MB.
//
// The names of the containers start with a prefix that is unique to the directory of the
// [Environment]. So a later process finds them, and never removes another container. The directory
// has the kubeconfigs, the operator's log and the machine's original settings.
package kind

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	kindcluster "sigs.k8s.io/kind/pkg/cluster"

	"github.com/fleetwright/fleetwright/internal/environment"
)

// Options are the options of an environment.
type Options struct {
	// Dir is the directory of the environment's files. It belongs to one environment.
	Dir string
	// Root is the directory of the repository, with the manifests.
	Root string
	// Image is the operator's image, which the Docker engine has: `make image`.
	Image string
	// Workloads are images of the Docker engine that every cluster gets, with their aliases: a pod
	// with an alias runs the image, and nothing is pulled.
	Workloads map[string][]string
}

// Environment creates clusters in a Docker engine.
type Environment struct {
	Options
	prefix   string
	provider *kindcluster.Provider
	// creating limits how many clusters are created at once.
	creating chan struct{}
	// machine guards the file with the machine's settings.
	machine sync.Mutex
}

var _ environment.Environment = &Environment{}

// New returns the environment of a directory, which need not exist.
func New(options Options) (*Environment, error) {
	var err error
	if options.Dir, err = filepath.Abs(options.Dir); err != nil {
		return nil, fmt.Errorf("find directory %s: %w", options.Dir, err)
	}
	hash := fnv.New32a()
	_, _ = hash.Write([]byte(options.Dir)) // never fails
	return &Environment{
		Options:  options,
		prefix:   fmt.Sprintf("fleetwright-%04x-", hash.Sum32()&0xffff),
		provider: kindcluster.NewProvider(kindcluster.ProviderWithDocker()),
		// On two processors, creating three at once takes twice as long as one after the other. The
		// next one starts while the previous one becomes ready.
		creating: make(chan struct{}, max(1, runtime.NumCPU()/3)),
	}, nil
}

// CheckPrograms returns an error if the Docker engine does not respond, or an image or kustomize is
// missing. Clusters can be stopped and removed without them.
func (e *Environment) CheckPrograms() error {
	ctx := context.Background()
	if _, err := docker(ctx, "version", "--format", "{{.Server.Version}}"); err != nil {
		return fmt.Errorf("no Docker engine responds: %w", err)
	}
	if _, err := NodeImage(ctx); err != nil {
		return err
	}
	for _, image := range append(slices.Sorted(maps.Keys(e.Workloads)), e.Image) {
		if imageID(ctx, image) == "" {
			return fmt.Errorf("the Docker engine has no image %s: make e2e-kind builds it", image)
		}
	}
	if _, err := os.Stat(e.kustomize()); err != nil {
		return fmt.Errorf("%w: run make tools", err)
	}
	return nil
}

// Lock makes this process the only one that uses the directory, until it exits.
func (e *Environment) Lock() error {
	if err := os.MkdirAll(e.Dir, 0o750); err != nil {
		return err
	}
	// Not an os.File: its finalizer would close the file and release the lock.
	dir, err := syscall.Open(e.Dir, syscall.O_RDONLY|syscall.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("open %s: %w", e.Dir, err)
	}
	if err := syscall.Flock(dir, syscall.LOCK_EX|syscall.LOCK_NB); errors.Is(err, syscall.EWOULDBLOCK) {
		return fmt.Errorf("another process uses %s", e.Dir)
	} else if err != nil {
		return fmt.Errorf("lock %s: %w", e.Dir, err)
	}
	return nil
}

// Create is part of [environment.Environment]. kind cannot be interrupted: when ctx ends, Create
// returns after the cluster is created.
func (e *Environment) Create(ctx context.Context, name string) (environment.Cluster, error) {
	c := e.cluster(name)
	if err := e.create(ctx, c); err != nil {
		return nil, fmt.Errorf("create cluster %s: %w", name, err)
	}
	if err := environment.Await(ctx, 4*time.Minute, "cluster "+name+" to be ready", c.Ready); err != nil {
		return nil, fmt.Errorf("create cluster %s: %w", name, err)
	}
	return c, nil
}

// create creates the cluster when the limit allows it.
func (e *Environment) create(ctx context.Context, c *cluster) error {
	e.creating <- struct{}{}
	defer func() { <-e.creating }()
	if err := context.Cause(ctx); err != nil {
		return err
	}
	if err := c.Delete(ctx); err != nil {
		return err
	}
	if err := e.PrepareMachine(ctx); err != nil {
		return err
	}
	return c.create(ctx)
}

// Clusters is part of [environment.Environment].
func (e *Environment) Clusters() ([]environment.Cluster, error) {
	all, err := e.provider.List()
	if err != nil {
		return nil, fmt.Errorf("list clusters: %w", err)
	}
	var names []string
	for _, name := range all {
		if name, ours := strings.CutPrefix(name, e.prefix); ours {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	var clusters []environment.Cluster
	for _, name := range names {
		clusters = append(clusters, e.cluster(name))
	}
	return clusters, nil
}

// Clean is part of [environment.Environment]. The operator is removed with the hub; images stay.
func (e *Environment) Clean(ctx context.Context) error {
	// Wait until no cluster is being created, and let no new one start.
	for range cap(e.creating) {
		e.creating <- struct{}{}
	}
	defer func() {
		for range cap(e.creating) {
			<-e.creating
		}
	}()
	clusters, err := e.Clusters()
	if err != nil {
		return err
	}
	var errs []error
	for _, cluster := range clusters {
		errs = append(errs, cluster.Delete(ctx))
	}
	if err := errors.Join(append(errs, e.restoreMachine(ctx))...); err != nil {
		return err
	}
	// The directory itself stays, because it is locked.
	entries, err := os.ReadDir(e.Dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("list %s: %w", e.Dir, err)
	}
	for _, entry := range entries {
		if err := os.RemoveAll(filepath.Join(e.Dir, entry.Name())); err != nil {
			return fmt.Errorf("empty %s: %w", e.Dir, err)
		}
	}
	return nil
}

func (e *Environment) cluster(name string) *cluster {
	return &cluster{env: e, name: name, dir: filepath.Join(e.Dir, "clusters", name)}
}
