// Command gotest runs `go test` for many packages, and shows what runs.
//
//	gotest concurrent|all|none [-FLAG=VALUE...] PACKAGE...
//
// The first argument says which packages are tested with the race detector. It makes tests several
// times slower, and finds nothing in a package without concurrency. So `concurrent` takes the packages
// that start or synchronize goroutines: see isConcurrent. Flags are passed to `go test`.
//
// `go test` prints the results of many packages in the order of its arguments, so one slow package
// hides all others. gotest prints the result of a package when it ends: the line of `go test`, and
// before it the output of the tests that failed. Every half minute, it prints what runs.
//
// The package imports only the standard library, so that `go run` downloads no module.
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
	raced, plain, err := divide(args[0], packages)
	if err != nil {
		return err
	}
	r := newReport(os.Stdout, time.Now, len(raced)+len(plain))
	for _, group := range []struct {
		flags, packages []string
		env             []string
	}{
		{append([]string{"-race"}, flags...), raced, []string{"CGO_ENABLED=1"}}, // it needs cgo
		{flags, plain, nil},
	} {
		if len(group.packages) == 0 || ctx.Err() != nil {
			continue
		}
		if err := r.follow(goTest(ctx, group.flags, group.packages, group.env)); err != nil {
			return err
		}
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	return r.finish(len(raced))
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
