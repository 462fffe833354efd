package framework

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
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

// Shared is a fleet that the tests of a package share. Each test leaves it as it found it.
type Shared[F any] struct {
	// Name describes the fleet in messages.
	Name string

	// SetUp creates the fleet.
	SetUp func(ctx context.Context) (F, error)

	once    sync.Once
	fleet   F
	err     error
	created bool
}

// Get returns the fleet. The first call creates it.
func (s *Shared[F]) Get(t testing.TB) F {
	t.Helper()
	s.once.Do(func() {
		start := time.Now()
		s.fleet, s.err = s.SetUp(context.Background())
		s.created = s.err == nil
		fmt.Printf("%s: set up in %s\n", s.Name, time.Since(start).Round(time.Second))
	})
	if s.err != nil {
		t.Fatalf("set up %s: %v", s.Name, s.err)
	}
	return s.fleet
}

// Created returns the fleet, and false if no test has asked for it or it could not be set up.
func (s *Shared[F]) Created() (F, bool) { return s.fleet, s.created }
