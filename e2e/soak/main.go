// Command soak disturbs a fleet at random for an hour, and then checks that nothing was lost. Run it
// from the root of the repository: `make soak`, or `make soak SOAK=10m SEED=7`.
//
// The hub and the members are whole clusters (package kwok), and the operator is its own binary, as
// a process. All requests of the operator pass through proxies, one for each cluster.
//
// # What happens
//
//   - A script of random actions (script.go): AppServices are created, edited, moved to other
//     clusters and deleted; Deployments are scaled and deleted on members by somebody else; members
//     and the hub are cut off, with and without an error, and lose all connections; members get
//     other tokens, lose their Secret and get it again; MemberClusters are cordoned; the operator is
//     killed (SIGKILL), stopped (SIGTERM) and started, in a third of its lives with slices for
//     AppServices on more than two clusters.
//   - One percent of all requests get a fault (proxy.go): the connection closes before or after the
//     request is forwarded, a watch ends, or the response is 429, 500 or 503.
//   - In the last third, the operator is not restarted, so that its memory can be measured.
//
// # What is checked
//
//   - Within 60 s of the last disturbance, the hub and the members are as the script wants, and
//     nothing is written any more.
//   - Each deletion and each scale-down on a member is traced to an intent (package ledger).
//   - The resident memory and the goroutines do not grow in the last third, by a straight line
//     through the samples (trend.go), and an operator that is started at rest has about as many
//     goroutines as the one before, and writes nothing.
//   - The operator never panics.
//
// The script depends on the seed and the length only: the same seed replays the same actions. The
// requests of the operator, and so their faults, differ in each run.
//
// It is an end-to-end test that passes or fails, so it is here and uses their fleets and their
// ledger. It is a command because a person follows it for an hour, and may end it early.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/fleetwright/fleetwright/e2e/framework"
	"github.com/fleetwright/fleetwright/internal/environment/kwok"
	"github.com/fleetwright/fleetwright/internal/machine"
	"github.com/fleetwright/fleetwright/internal/sample"
)

// settings are the values of the flags.
type settings struct {
	bin, dir, out string
	length        time.Duration
	seed          uint64
	apps          int
	members       []string
}

const (
	minCores = 2
	// clusterMemory is about what a cluster needs, and otherMemory what this process and the
	// operator need.
	clusterMemory = 600 << 20
	otherMemory   = 512 << 20
	// clusterPorts is the number of ports of a cluster, and otherPorts those of the operator.
	clusterPorts = 6
	otherPorts   = 2
	// minLength is the shortest soak whose last third has enough samples.
	minLength = 3 * time.Minute
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	ctrl.SetLogger(logr.Discard()) // only libraries log; the command returns its errors
	klog.SetLogger(logr.Discard())
	if err := runSoak(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "soak:", err)
		os.Exit(1)
	}
}

func runSoak(ctx context.Context, args []string) (err error) {
	s, err := parse(args)
	if errors.Is(err, flag.ErrHelp) {
		return nil
	} else if err != nil {
		return err
	}
	env, err := kwok.New(kwok.Options{Dir: s.dir, Bin: s.bin, Config: config})
	if err != nil {
		return err
	}
	if err := errors.Join(machine.EndWithParent(), s.check(), env.CheckPrograms(), env.Lock()); err != nil {
		return err
	}
	// What a killed soak left takes ports and memory.
	if err := env.Clean(ctx); err != nil {
		return err
	}
	if err := errors.Join(s.checkRoom(), os.MkdirAll(s.out, 0o750)); err != nil {
		return err
	}
	say("-seed %d -length %s", s.seed, s.length)
	// The proxies and what was started end after the report.
	serving, end := context.WithCancel(context.WithoutCancel(ctx))
	defer func() {
		end()
		err = errors.Join(err, keepLog(s), env.Clean(context.Background()))
	}()
	return soak(ctx, serving, env, s)
}

func parse(args []string) (s settings, err error) {
	flags := flag.NewFlagSet("soak", flag.ContinueOnError)
	flags.StringVar(&s.bin, "bin", "bin", "directory of the programs")
	flags.StringVar(&s.dir, "dir", ".soak", "directory of the clusters' files")
	flags.StringVar(&s.out, "out", "dist/soak", "directory of the list of actions and of the operator's log")
	flags.DurationVar(&s.length, "length", time.Hour, "how long to disturb the fleet")
	flags.Uint64Var(&s.seed, "seed", 0, "seed of the actions; 0 for SAMPLE, or for another seed at each run")
	flags.IntVar(&s.apps, "apps", 10, "largest number of AppServices at a time")
	members := flags.String("members", "east,north,south", "names of the members")
	if err := flags.Parse(args); err != nil {
		return s, err
	}
	if flags.NArg() > 0 {
		return s, fmt.Errorf("unknown argument %q", flags.Arg(0))
	}
	s.members = strings.Split(*members, ",")
	if s.length < minLength || s.apps < 4 || len(s.members) < 2 {
		return s, fmt.Errorf("-length must be at least %s, -apps at least 4, and -members at least two names", minLength)
	}
	if number, isSample := sample.Number(); isSample && s.seed == 0 {
		s.seed = number
	}
	for s.seed == 0 {
		s.seed = uint64(rand.Uint32())
	}
	if s.out, err = filepath.Abs(s.out); err != nil {
		return s, err
	}
	return s, nil
}

func (s settings) scale() scale {
	return scale{length: s.length, apps: s.apps, members: s.members, hub: framework.HubName}
}

// check returns an error if this machine cannot run the soak.
func (s settings) check() error {
	if _, err := os.Stat(config); err != nil {
		return errors.New("run the soak from the root of the repository")
	}
	return machine.NeedCores(minCores)
}

// checkRoom returns an error if too little memory or too few ports are free.
func (s settings) checkRoom() error {
	clusters := len(s.members) + 1
	_, err := kwok.FreePorts(s.dir, clusters*clusterPorts+otherPorts)
	return errors.Join(err, machine.NeedMemory(int64(clusters)*clusterMemory+otherMemory))
}

// keepLog copies the operator's log, because its directory is emptied.
func keepLog(s settings) error {
	log, err := os.ReadFile(filepath.Join(s.dir, "operator.log"))
	if errors.Is(err, os.ErrNotExist) {
		return nil
	} else if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(s.out, "operator.log"), log, 0o600)
}

func say(format string, args ...any) { fmt.Fprintf(os.Stderr, "soak: "+format+"\n", args...) }
