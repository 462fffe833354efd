// Command members measures the cost of a member for the operator, and how fast members join. Run it
// from the root of the repository: `make bench-members`. It takes some twenty minutes and leaves
// nothing running.
//
// A hub and two clusters run as processes (package kwok), with the operator's own binary. An HTTPS
// server in front of the two clusters serves as any number of members (see [front]): each has a
// kubeconfig, a path, a token and an identity of its own, and the objects of its cluster: 20
// Deployments and 20 Services of another hub. So a member costs the operator as much as a real one.
//
// Three things are measured:
//
//   - Joining: 30 healthy members alone, and together with three that do not respond and one that
//     forbids to list; the median of some rounds of each.
//   - Delivery, with -deliver: a new operator delivers 100 AppServices to each of this many members,
//     a tenth of the members is cut, and the operator is killed and started again. With -in-stages,
//     an edit of one AppService is measured before, stage by stage. With -configuration, a ConfigMap of
//     the hub travels with each AppService, and a change of all of them is measured. With -restarts, a
//     restart at rest is measured, which must write nothing, and restarts with a Deployment that one
//     member has lost, before and after the cut. In-memory stand-ins serve these members (see
//     [standin]), because each has objects of its own.
//   - Weight: a new operator with no member, with 200 and with 1,000 members. The cost of a member is
//     the difference to no member, divided by the members: live heap, resident memory, heap in use
//     after a garbage collection, goroutines, and processor time at rest.
//
// A member has joined when its MemberCluster is Ready: engaged, with synced caches. The time starts
// before the first Secret of the batch is created. The clusters, the proxy and the operator share
// the processors: compare only figures of the same, idle machine.
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

	"github.com/fleetwright/fleetwright/internal/environment/kwok"
	"github.com/fleetwright/fleetwright/internal/machine"
)

// settings are the values of the flags.
type settings struct {
	dir, bin string
	counts   []int
	rounds   int
	rest     time.Duration
	delivery deliverySettings
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	ctrl.SetLogger(logr.Discard()) // only libraries log; the command returns its errors
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
	if err := errors.Join(machine.EndWithParent(), env.CheckPrograms(), checkFiles(s), env.Lock()); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("the benchmark took longer than %s", limit))
	defer cancel()
	if err := env.Clean(ctx); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, env.Clean(context.WithoutCancel(ctx))) }()
	b, err := newBench(ctx, env, s.rounds > 0 || len(s.counts) > 0)
	if err != nil {
		return err
	}
	if err := b.compareJoining(ctx, s.rounds); err != nil {
		return err
	}
	if s.delivery.members > 0 {
		if err := b.deliver(ctx, s.delivery); err != nil {
			return err
		}
	}
	if len(s.counts) == 0 {
		return nil
	}
	return b.weigh(ctx, s.counts, s.rest)
}

func parse(args []string) (s settings, limit time.Duration, err error) {
	flags := flag.NewFlagSet("members", flag.ContinueOnError)
	flags.StringVar(&s.dir, "dir", ".bench", "directory of everything that the benchmark keeps while it runs")
	flags.StringVar(&s.bin, "bin", "bin", "directory of the programs")
	counts := flags.String("members", "200,1000", "how many members to weigh, rising; nothing to weigh none")
	flags.IntVar(&s.rounds, "rounds", 5, "how often joining beside bad members is compared with joining alone; 0 for never")
	flags.DurationVar(&s.rest, "rest", 3*time.Minute, "how long the operator is left alone before it is weighed")
	flags.IntVar(&s.delivery.members, "deliver", 0, "how many members AppServices are delivered to; 0 for none")
	flags.IntVar(&s.delivery.apps, "apps", 100, "how many AppServices are delivered")
	flags.IntVar(&s.delivery.cut, "cut", 0, "how many of these members are cut; by default a tenth")
	flags.BoolVar(&s.delivery.inStages, "in-stages", false, "also measure an edit of one of them in stages")
	flags.BoolVar(&s.delivery.restarts, "restarts", false, "also measure a restart at rest, and restarts until a Deployment that one member has lost is there again")
	flags.BoolVar(&s.delivery.configuration, "configuration", false, "each of them has a ConfigMap on the hub that travels, and all ConfigMaps change once")
	flags.DurationVar(&s.delivery.timeout, "deliver-timeout", 15*time.Minute, "how long a phase of the delivery may take")
	flags.DurationVar(&limit, "timeout", 40*time.Minute, "how long all of it may take")
	if err := flags.Parse(args); err != nil {
		return s, 0, err
	}
	if s.delivery.cut == 0 {
		s.delivery.cut = s.delivery.members / 10
	}
	if s.delivery.apps < 1 || s.delivery.members < 0 || s.delivery.cut < 0 || s.delivery.cut > s.delivery.members {
		return s, 0, errors.New("-apps must be positive, and -cut at most -deliver")
	}
	if *counts == "" {
		return s, limit, nil
	}
	before := 0
	for count := range strings.SplitSeq(*counts, ",") {
		n, err := strconv.Atoi(count)
		if err != nil || n <= before {
			return s, 0, fmt.Errorf("-members %q: use increasing numbers such as 200,1000", *counts)
		}
		s.counts, before = append(s.counts, n), n
	}
	return s, limit, nil
}

// checkFiles returns an error if the limit of open files is too low: the proxy and the operator
// have a connection for each member.
func checkFiles(s settings) error {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return fmt.Errorf("read the limit of open files: %w", err)
	}
	most := s.delivery.members
	if len(s.counts) > 0 {
		most = max(most, s.counts[len(s.counts)-1])
	}
	if need := uint64(most) + 1000; limit.Max < need {
		return fmt.Errorf("%d open files are needed, the limit is %d: raise ulimit -n", need, limit.Max)
	}
	return nil
}
