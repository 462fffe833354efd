package framework

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/fleetwright/fleetwright/internal/environment"
)

// Environment is an environment that a suite has for itself.
type Environment interface {
	environment.Environment

	// CheckPrograms returns an error if something is missing that clusters and the operator need.
	CheckPrograms() error

	// Lock makes this process the only one that uses the environment.
	Lock() error
}

// MainOptions are the options of [Main].
type MainOptions struct {
	// Name starts each line that Main prints.
	Name string

	// Environment is where the tests run.
	Environment Environment

	// Keep leaves the clusters and the operator running at the end.
	Keep bool

	// Verify checks, after the tests, the requests of all of them. It gets the exit code of the
	// tests.
	Verify func(ctx context.Context, code int) error
}

// Main runs the tests of a package and returns the exit code. It removes what an earlier run left
// in the environment, and at the end, or when it is interrupted, what this run created.
func Main(m *testing.M, options MainOptions) int {
	fail := func(what string, err error) int {
		fmt.Fprintf(os.Stderr, "%s: %s: %v\n", options.Name, what, err)
		return 1
	}
	env := options.Environment
	if err := errors.Join(env.CheckPrograms(), env.Lock()); err != nil {
		return fail("prepare the environment", err)
	}
	if err := env.Clean(context.Background()); err != nil {
		return fail("remove what an earlier run left", err)
	}
	clean := sync.OnceFunc(func() {
		if options.Keep {
			return
		}
		if err := env.Clean(context.Background()); err != nil {
			fail("clean up", err)
		}
	})
	defer clean()
	interrupted := make(chan os.Signal, 1)
	signal.Notify(interrupted, os.Interrupt, syscall.SIGTERM)
	go func() {
		<-interrupted
		clean()
		os.Exit(1)
	}()

	code := m.Run()
	if options.Verify != nil {
		if err := options.Verify(context.Background(), code); err != nil {
			return max(code, fail("verify", err))
		}
	}
	return code
}

// Pool is the fleets of a package. A test has a fleet for itself, and leaves it as it found it for
// another test.
type Pool[F any] struct {
	// Name describes the fleets in messages.
	Name string

	// SetUp creates a fleet. Several may be created at once. Their numbers begin with 1.
	SetUp func(ctx context.Context, number int) (F, error)

	mu      sync.Mutex
	created []F
	free    []F
	setUps  int
	err     error // of a set-up: the others would fail too
}

// Get returns a fleet that no other test has until this one ends. It creates one if none is free: a
// pool has at most as many fleets as there are parallel tests.
func (p *Pool[F]) Get(t testing.TB) F {
	t.Helper()
	fleet, err := p.take()
	if err != nil {
		t.Fatalf("set up %s: %v", p.Name, err)
	}
	t.Cleanup(func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.free = append(p.free, fleet)
	})
	return fleet
}

func (p *Pool[F]) take() (fleet F, err error) {
	p.mu.Lock()
	if last := len(p.free) - 1; last >= 0 || p.err != nil {
		defer p.mu.Unlock()
		if p.err != nil {
			return fleet, p.err
		}
		fleet, p.free = p.free[last], p.free[:last]
		return fleet, nil
	}
	p.setUps++
	number := p.setUps
	p.mu.Unlock()

	start := time.Now()
	fleet, err = p.SetUp(context.Background(), number)
	fmt.Printf("%s: fleet %d: set up in %s\n", p.Name, number, time.Since(start).Round(time.Second))
	p.mu.Lock()
	defer p.mu.Unlock()
	if err != nil {
		p.err = err
		return fleet, err
	}
	p.created = append(p.created, fleet)
	return fleet, nil
}

// Created returns the fleets that tests have asked for.
func (p *Pool[F]) Created() []F {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.created)
}
