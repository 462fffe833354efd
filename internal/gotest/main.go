// Command gotest runs `go test` for many packages, and shows what runs.
//
//	gotest concurrent|all|none [-FLAG=VALUE...] PACKAGE...
//
// The first argument says which packages are tested with the race detector. It makes tests several
// times slower, and finds nothing in a package without concurrency. So `concurrent` takes the packages
// that start or synchronize goroutines: see isConcurrent. Of those whose tests start API servers, it
// takes a sample of the packages and of their tests (package sample), and runs the others without the
// race detector. Flags are passed to `go test`; there is no sample if they choose the tests.
//
// Tests without the race detector have client-go's detector of changes to cached objects, which compares
// all of them once a second: with the race detector, it takes as much CPU time as all tests of
// controllers/delivery.
//
// `go test` prints the results of many packages in the order of its arguments, so one slow package
// hides all others. gotest prints the result of a package when it ends: the line of `go test`, and
// before it the output of the tests that failed. Every half minute, it prints what runs. Tests with the
// race detector run beside those without it.
//
// Only the standard library is imported, so that `go run` downloads no module.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/fleetwright/fleetwright/internal/sample"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintf(os.Stderr, "gotest: %v\n", err)
		stop()
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	if len(args) == 0 {
		return errors.New("no arguments: gotest concurrent|all|none [-FLAG=VALUE...] PACKAGE")
	}
	var flags, patterns []string
	for _, arg := range args[1:] {
		if strings.HasPrefix(arg, "-") {
			flags = append(flags, arg)
		} else {
			patterns = append(patterns, arg)
		}
	}
	packages, err := list(ctx, patterns)
	if err != nil {
		return err
	}
	selects := func(flag string) bool { return strings.HasPrefix(flag, "-run") || strings.HasPrefix(flag, "-skip") }
	_, isSample := sample.Number()
	parts, err := groups(args[0], packages, isSample && !slices.ContainsFunc(flags, selects))
	if err != nil {
		return err
	}
	total := 0
	for _, g := range parts {
		total += len(g.packages)
	}
	r := newReport(os.Stdout, time.Now, total)
	pulsing, stop := context.WithCancel(ctx)
	defer stop()
	go r.pulseUntilDone(pulsing)
	ended := make(chan error)
	for _, isRaced := range []bool{true, false} {
		go func() {
			var err error
			for _, g := range parts {
				if g.isRaced == isRaced {
					err = errors.Join(err, runGroup(ctx, r, g, flags))
				}
			}
			ended <- err
		}()
	}
	err = errors.Join(<-ended, <-ended)
	if err := errors.Join(err, ctx.Err()); err != nil {
		return err
	}
	return r.finish()
}

// runGroup tests the packages of a group. A test that fails is no error.
func runGroup(ctx context.Context, r *report, g group, flags []string) error {
	env := []string{"KUBE_CACHE_MUTATION_DETECTOR=true"}
	if g.isRaced {
		env = []string{"CGO_ENABLED=1"} // the race detector needs it
	}
	r.begin(g)
	all := slices.Concat([]string{fmt.Sprintf("-p=%d", g.atOnce), fmt.Sprintf("-race=%t", g.isRaced)}, g.flags, flags)
	return r.follow(goTest(ctx, all, g.packages, env), g.isRaced)
}

// goTest returns the command that tests packages. A signal ends it, but its tests may clean up: a
// terminal sends the signal to all of them.
func goTest(ctx context.Context, flags, packages, env []string) *exec.Cmd {
	command := exec.CommandContext(ctx, "go", slices.Concat([]string{"test", "-json"}, flags, packages)...)
	command.Cancel = func() error { return command.Process.Signal(os.Interrupt) }
	command.Env = append(os.Environ(), env...)
	command.Stderr = os.Stderr
	return command
}
