// Package timetravel takes clusters back to an earlier state of their etcd, while the operator runs,
// and runs an operator whose clock is an hour off. Nothing may be deleted on a member, the status
// must say what happened, and the way out in docs/operations.md must work.
//
// A restore of etcd is real: the control plane is stopped, its etcd gets the data of an earlier
// time, and the control plane starts at the same address. So resource versions go back too, and the
// caches of the operator are ahead of the API server. The time between the backup and the restore is
// seconds; the code compares generations, hashes and creation times, never how old a backup is.
//
// The clock of one process cannot be moved on Linux, so the operator is built with a package time
// whose Now adds an hour (clock_test.go). That compiles everything, so it is a flag:
//
//	go test ./e2e/timetravel -v -count=1                              # make e2e runs a sample: one restore
//	go test ./e2e/timetravel -v -count=1 -run TestClock -clock        # make clock
package timetravel

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/fleetwright/fleetwright/e2e/framework"
	"github.com/fleetwright/fleetwright/internal/environment"
	"github.com/fleetwright/fleetwright/internal/environment/kwok"
	"github.com/fleetwright/fleetwright/internal/sample"
)

var (
	binFlag   = flag.String("bin", "../../bin", "directory of the programs")
	dirFlag   = flag.String("dir", ".timetravel", "directory of the clusters' files")
	clockFlag = flag.Bool("clock", false, "run TestClock, which compiles the operator and the standard library")
)

// config is the directory of the shipped manifests.
const config = "../../config"

// env is where each test creates a fleet of its own. Only TestMain sets it.
var env *kwok.Environment

func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(run(m))
}

// run runs the tests and returns the exit code.
func run(m *testing.M) int {
	fail := func(err error) int {
		fmt.Fprintln(os.Stderr, "timetravel:", err)
		return 1
	}
	bin := *binFlag
	if *clockFlag {
		dir, err := os.MkdirTemp("", "fleetwright-timetravel-")
		if err != nil {
			return fail(err)
		}
		defer func() { _ = os.RemoveAll(dir) }() // only temporary files
		fmt.Println("timetravel: compiling the operator with another clock")
		if bin, err = newBin(dir, bin); err != nil {
			return fail(err)
		}
	}
	var err error
	if env, err = kwok.New(kwok.Options{Dir: *dirFlag, Bin: bin, Config: config}); err != nil {
		return fail(err)
	}
	return framework.Main(m, framework.MainOptions{Name: "timetravel", Environment: env})
}

// fleet is a fleet whose members have not joined.
type fleet struct {
	*framework.Fleet

	dir string // of the backups
}

func newFleet(t *testing.T, members ...string) *fleet {
	t.Helper()
	created, err := framework.New(t.Context(), env, members...)
	if err == nil {
		err = environment.PrepareHub(t.Context(), created.Hub.Client, filepath.Join(config, "crd", "bases"))
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { // the next test starts an operator of its own
		if created.Operator == nil {
			return
		}
		if err := created.Operator.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return &fleet{Fleet: created, dir: t.TempDir()}
}

// skipUnlessSampled skips a test of the two restores that a sample does not have. Half of the samples have
// a part of e2e/crash instead.
func skipUnlessSampled(t *testing.T, number uint64) {
	t.Helper()
	if commit, isSample := sample.Number(); isSample && (commit%2 == 1 || commit/2%2 != number) {
		t.Skipf("SAMPLE=%d has the other restore, or a part of e2e/crash; all: make e2e SAMPLE=0", commit)
	}
}

// backups are the saved states of clusters, by name.
type backups map[string]string

// backUp saves the state of clusters, once. They are stopped meanwhile.
func (f *fleet) backUp(t *testing.T, clusters ...*framework.Cluster) backups {
	t.Helper()
	saved := backups{}
	for _, c := range clusters {
		saved[c.Name()] = filepath.Join(f.dir, c.Name())
	}
	f.whileStopped(t, func(c *framework.Cluster) error { return env.SaveEtcd(c, saved[c.Name()]) }, clusters...)
	return saved
}

// restore takes clusters back to their saved state.
func (f *fleet) restore(t *testing.T, saved backups, clusters ...*framework.Cluster) {
	t.Helper()
	f.whileStopped(t, func(c *framework.Cluster) error { return env.RestoreEtcd(c, saved[c.Name()]) }, clusters...)
}

func (f *fleet) whileStopped(t *testing.T, do func(*framework.Cluster) error, clusters ...*framework.Cluster) {
	t.Helper()
	errs := make(chan error)
	for _, c := range clusters {
		go func() {
			err := c.Stop(context.Background())
			if err == nil {
				err = do(c)
			}
			errs <- errors.Join(err, c.Start(context.Background()))
		}()
	}
	var all error
	for range clusters {
		all = errors.Join(all, <-errs)
	}
	if all != nil {
		t.Fatal(all)
	}
}
