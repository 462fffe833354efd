// Command members measures what a member costs the operator, and how fast members join. It is run from the root of the
// repository, by `make bench-members`, takes some twenty minutes, and leaves nothing running.
//
// A hub and two clusters run as processes (package kwok), and the operator's own binary against that hub. In front of the two
// clusters stands one HTTPS server that is as many members as are asked for (see [front]): each has a kubeconfig, a
// path, a token and an identity of its own, and holds what its cluster holds, 20 Deployments and 20 Services as
// Fleetwright makes them for another hub. So the operator does for each member all that it does for a real one.
//
// Two things are measured:
//
//   - Joining: 30 healthy members alone, and beside three that are silent and one that forbids to list; the median of
//     some rounds of each.
//   - Weight: an operator that is started anew, with no member, with 200 and with 1,000. What is there more than with no
//     member, divided by the members, is what a member costs: the live heap, the memory that is resident, the heap in use just
//     after a collection, the goroutines, and the processor time that the operator takes when nothing happens.
//
// A member has joined when its MemberCluster is Ready: engaged, its caches in step. The clock starts before the first
// Secret of the batch is made. The clusters, the proxy and the operator share the machine's processors: compare
// figures of one machine, and of times when it does nothing else.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/fleetwright/fleetwright/e2e/environment/kwok"
)

// settings are what the flags say.
type settings struct {
	dir, bin string
	counts   []int
	rounds   int
	rest     time.Duration
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	ctrl.SetLogger(logr.Discard()) // of the libraries only: what goes wrong here is returned
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "bench-members:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) (err error) {
	s, limit, err := parse(args)
	if errors.Is(err, flag.ErrHelp) {
		return nil
	} else if err != nil {
		return err
	}
	env, err := kwok.New(kwok.Options{Dir: s.dir, Bin: s.bin, Config: "config"})
	if err != nil {
		return err
	}
	if err := errors.Join(env.CheckPrograms(), checkFiles(s.counts), env.Lock()); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("it took longer than %s", limit))
	defer cancel()
	if err := env.Clean(ctx); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, env.Clean(context.WithoutCancel(ctx))) }()
	b, err := newBench(ctx, env)
	if err != nil {
		return err
	}
	if err := b.compareJoining(ctx, s.rounds); err != nil {
		return err
	}
	return b.weigh(ctx, s.counts, s.rest)
}

func parse(args []string) (s settings, limit time.Duration, err error) {
	flags := flag.NewFlagSet("members", flag.ContinueOnError)
	flags.StringVar(&s.dir, "dir", ".bench", "directory of everything that the benchmark keeps while it runs")
	flags.StringVar(&s.bin, "bin", "bin", "directory of the programs")
	counts := flags.String("members", "200,1000", "how many members to weigh, rising")
	flags.IntVar(&s.rounds, "rounds", 5, "how often joining beside bad members is compared with joining alone; 0 for never")
	flags.DurationVar(&s.rest, "rest", 3*time.Minute, "how long the operator is left alone before it is weighed")
	flags.DurationVar(&limit, "timeout", 40*time.Minute, "how long all of it may take")
	if err := flags.Parse(args); err != nil {
		return s, 0, err
	}
	before := 0
	for count := range strings.SplitSeq(*counts, ",") {
		n, err := strconv.Atoi(count)
		if err != nil || n <= before {
			return s, 0, fmt.Errorf("-members %q: want rising numbers such as 200,1000", *counts)
		}
		s.counts, before = append(s.counts, n), n
	}
	return s, limit, nil
}

// checkFiles tells with a nil error that a process may open enough files: the proxy and the operator have a connection for
// each member.
func checkFiles(counts []int) error {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return fmt.Errorf("read the limit of open files: %w", err)
	}
	if need := uint64(counts[len(counts)-1]) + 1000; limit.Max < need {
		return fmt.Errorf("%d open files are needed, and %d permitted: raise ulimit -n", need, limit.Max)
	}
	return nil
}
