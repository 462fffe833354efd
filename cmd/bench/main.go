// Command bench measures how fast the operator is, beside the naked writer: a stateless program
// that server-side-applies the same objects to every member. Run it from the root of the
// repository: `make bench`. docs/benchmarks.md describes the scenarios and what was measured.
//
// A hub and the members are API servers of this machine that share one etcd, without controllers
// and nodes. The writers take turns in one run. An observer of its own watches the hub and the
// members, and says when a change was visible. So a figure is a ratio of two writers on the same
// machine at nearly the same time.
//
// All processes end with this one, also if it is killed.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/fleetwright/fleetwright/cmd/bench/karmada"
	"github.com/fleetwright/fleetwright/internal/machine"
)

// settings are the values of the flags.
type settings struct {
	bin, out    string
	members     int
	apps        int
	crowd       int
	foreign     int
	repetitions int
	scenarios   []string
	rest        time.Duration
	profile     bool
	flags       []string // of the operator
	base        string   // the commit to compare with, or nothing
	peer        string   // the peer to compare with, or nothing
}

var (
	// usual are the scenarios that are measured by default, and known are all.
	usual = []string{"B1", "B2", "B3", "B4", "B5", "B6", "B7", "B9"}
	known = append(slices.Clone(usual), "B8", "B10", "B11", "B12", "B13", "B14", "B15", "B16")
)

// has reports whether one of the scenarios is to be measured.
func (s settings) has(scenarios ...string) bool {
	return slices.ContainsFunc(scenarios, func(scenario string) bool { return slices.Contains(s.scenarios, scenario) })
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	ctrl.SetLogger(logr.Discard()) // only libraries log; the command returns its errors
	klog.SetLogger(logr.Discard())
	do := runBench
	if len(os.Args) > 1 && os.Args[1] == nakedCommand {
		do = func(ctx context.Context, _ []string) error { return runNaked(ctx, os.Stdin, os.Stdout) }
	}
	if err := do(ctx, os.Args[1:]); err != nil {
		if ctx.Err() != nil {
			err = errors.New("interrupted; everything that was started has ended")
		}
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func runBench(ctx context.Context, args []string) error {
	s, err := parse(args)
	if errors.Is(err, flag.ErrHelp) {
		return nil
	} else if err != nil {
		return err
	}
	if err := errors.Join(machine.EndWithParent(), s.check(), os.MkdirAll(s.out, 0o750)); err != nil {
		return err
	}
	var peerPrograms karmada.Programs
	if s.peer != "" {
		say("building Karmada; some minutes the first time")
		if peerPrograms, err = karmada.Build(ctx); err != nil {
			return err
		}
	}
	return withFleet(ctx, s, func(ctx context.Context, f *fleet) error {
		writers, err := s.build(ctx, f.dir)
		if err != nil {
			return err
		}
		if s.peer != "" {
			peers, err := f.addPeer(ctx, peerPrograms)
			if err != nil {
				return err
			}
			writers = append(peers, writers...)
		}
		r := &run{fleet: f, settings: s, delivered: delivered{}, peerVersion: peerPrograms.Version}
		err = r.repeat(ctx, writers)
		if s.base != "" {
			return errors.Join(err, r.reportChanges())
		}
		return errors.Join(err, r.report()) // what was measured before an error
	})
}

func parse(args []string) (s settings, err error) {
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.StringVar(&s.bin, "bin", "bin", "directory of etcd and kube-apiserver")
	flags.StringVar(&s.out, "out", "dist/bench", "directory of the results")
	flags.IntVar(&s.members, "members", 10, "number of members")
	flags.IntVar(&s.apps, "apps", 50, "number of AppServices at once")
	flags.IntVar(&s.crowd, "crowd", 500, "number of AppServices that are edited in B11")
	flags.IntVar(&s.foreign, "foreign", 10000, "number of Deployments of others on a member in B8")
	flags.IntVar(&s.repetitions, "repeat", 5, "number of repetitions")
	scenarios := flags.String("scenarios", strings.Join(usual, ","), "what to measure; or all, with B8, B10 to B16, which take long")
	flags.DurationVar(&s.rest, "rest", 2*time.Minute, "how long the operator rests in B6")
	flags.BoolVar(&s.profile, "profile", false, "leave CPU and heap profiles of the operator in each phase in -out, and CPU profiles of the hub and a member")
	operatorFlags := flags.String("operator-flags", "", "more `flags` of the operator, separated by spaces, such as --member-qps=100")
	flags.StringVar(&s.base, "base", "", "compare this tree with a `commit`, instead of the naked writer; fails if it is worse")
	flags.StringVar(&s.peer, "peer", "", "also measure a `peer`: karmada, in two settings; the scenarios that it has are "+strings.Join(peerScenarios, ","))
	if err := flags.Parse(args); err != nil {
		return s, err
	}
	if flags.NArg() > 0 {
		return s, fmt.Errorf("unknown argument %q", flags.Arg(0))
	}
	s.flags = strings.Fields(*operatorFlags)
	if s.scenarios = strings.Split(*scenarios, ","); *scenarios == "all" {
		s.scenarios = known
	}
	for _, scenario := range s.scenarios {
		if !slices.Contains(known, scenario) {
			return s, fmt.Errorf("-scenarios: unknown scenario %q: use some of %s", scenario, strings.Join(known, ","))
		}
	}
	if err := s.checkComparison(); err != nil {
		return s, err
	}
	if s.members < 1 || s.apps < 2 || s.crowd < 1 || s.foreign < 1 || s.repetitions < 1 || s.rest <= 0 {
		return s, errors.New("-members, -crowd, -foreign, -repeat and -rest must be positive, and -apps at least 2")
	}
	if s.out, err = filepath.Abs(s.out); err != nil {
		return s, err
	}
	return s, nil
}

// checkComparison returns an error if the flags ask for comparisons that exclude each other.
func (s settings) checkComparison() error {
	switch {
	case s.base != "" && s.profile:
		return errors.New("-profile works without -base only")
	case s.peer != "" && s.peer != karmadaPeer:
		return fmt.Errorf("-peer: unknown peer %q: use %s", s.peer, karmadaPeer)
	case s.peer != "" && s.base != "":
		return errors.New("-peer works without -base only: a run compares two commits, or the operator with a peer")
	}
	return nil
}
