// Package crash kills the operator at each request by which it changes something, and tests that a
// crash has no other effect than a delay.
//
// The hub and the members north, south and east are whole clusters (package kwok), and the operator
// is its own binary, as a process. All requests of the operator to the hub and to the members go
// through one proxy. The proxy numbers the requests that change something: POST, PUT, PATCH and
// DELETE, except dry runs and except Events, Leases and reviews, which are not part of any state.
// Reads change nothing: a crash between two reads is a crash before the next write.
//
// The operator is killed by SIGKILL at a request in one of two modes: before the request is sent
// (the proxy kills, and drops the request), or after it is committed (the proxy forwards the
// request, kills, and drops the response). The proxy drops all later requests of the killed
// operator.
//
// The scenario is the lifecycle of an AppService in a namespace that the members do not have: it is
// created on three members, its image is edited at once and then in stages, an image that cannot be
// pulled is rolled back, it is scaled up and down, its port is removed, another port is added, a
// ConfigMap of the hub is added, changed, and rolled back together with an image, its placement is
// reduced to two members, and it is deleted. The baseline is one lifecycle without a crash, with a
// restart at rest that must not write. It gives the number of requests of each step and the state
// after it, on the hub and on each member, without what differs between any two lifecycles (UIDs,
// numbers of placements, times, resource versions, the hash that includes a UID). In each further
// lifecycle, the operator is killed once in each step: at the first request of each step in
// lifecycle 1, at the second in lifecycle 2, and so on, in both modes. After each kill, the
// operator is started again; then
//
//   - the state of the baseline must be reached, and
//   - no request may change anything during the quiet period, and the state must stay the same.
//
// The order of the requests of a step differs between lifecycles, because members are served in
// parallel, and so does the number of status writes. So the campaign continues to one number more
// than the baseline has requests, and reports numbers that were not reached. At the end, it runs
// lifecycles for the kinds of requests (verb, resource, hub or member) that were not hit in both
// modes.
//
// Many lifecycles run in parallel: in each step, one after the other is disturbed, and then all of
// them share one quiet period. A kill in one lifecycle must not cause a write in another one.
//
// A ledger in the proxy (package e2e/ledger) records each DELETE of an object on a member, and each
// write that scales a Deployment down there. The suite fails if one of them cannot be traced to an
// edit or a deletion of the user.
//
// A sample (SAMPLE, from the commit) takes one of three parts of the lifecycle, and its number is the
// seed. Half of the samples only make random edits: they have a restore of e2e/timetravel instead.
//
// In half of the runs, the entries of the AppService are in AppServiceSlices: -crash.slices=on sets
// --slice-threshold one below the number of members, and the scenario ends with a placement on one
// member, by which the entries move back into the status. The requests that write slices are
// numbered like all others.
//
// The tests also log the number of requests of a lifecycle without a crash: use -crash.more 7
// -crash.idle 10m for ten members and for ten minutes at rest.
//
//	make crash                                   # every request, both modes, quiet periods of 60 s; with slices every eighth
//	go test ./e2e/crash -v -count=1              # one kill in each step
//	SAMPLE=7 go test ./e2e/crash -v -count=1     # one kill in each step of a part; so does make e2e
//	go test ./e2e/crash -v -count=1 -run TestEveryRequest -crash.seed 7 -crash.every 4
//	go test ./e2e/crash -v -count=1 -run TestEveryRequest -crash.step 'scale down' -crash.every 1 -crash.parallel 64
//	go test ./e2e/crash -v -count=1 -run TestEveryRequest -crash.take 'create,scale up,delete'
package crash

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/fleetwright/fleetwright/e2e/framework"
	"github.com/fleetwright/fleetwright/internal/environment/kwok"
	"github.com/fleetwright/fleetwright/internal/sample"
)

var (
	binFlag      = flag.String("bin", "../../bin", "directory of the programs")
	dirFlag      = flag.String("dir", ".crash", "directory of the clusters' files")
	everyFlag    = flag.Int("crash.every", 0, "kill at every n-th request of each step; 0 for one request of each step")
	stepFlag     = flag.String("crash.step", "", "kill in these steps only, separated by commas, for example 'scale up,scale down'")
	takeFlag     = flag.String("crash.take", "", "take these steps only, separated by commas; by default all")
	quietFlag    = flag.Duration("crash.quiet", 2*time.Second, "the quiet period after a kill and its recovery, in which no request may change anything")
	parallelFlag = flag.Int("crash.parallel", 1, "how many lifecycles share a quiet period")
	moreFlag     = flag.Int("crash.more", 0, "number of members in addition to the three")
	idleFlag     = flag.Duration("crash.idle", 0, "how long to count the requests of the operator at rest")
	seedFlag     = flag.Uint64("crash.seed", 0, "seed of the choice of requests; 0 for SAMPLE, or for another seed at each run")
	slicesFlag   = flag.String("crash.slices", "", "on or off: whether the entries are in AppServiceSlices; by default, the seed decides")
)

// intoStatus is the step by which the entries move from slices into the status.
const intoStatus = "shrink to 1 member"

// allSteps are the steps of which the flags select some.
var allSteps []step

// useSlices is set if the entries of the AppServices are in AppServiceSlices.
var useSlices bool

// isOnlyEdits is set if the sample has no TestEveryRequest: half of them have a restore of e2e/timetravel
// instead.
var isOnlyEdits bool

// config is the directory of the shipped manifests.
const config = "../../config"

// pool has one fleet, because no test runs in parallel. Only TestMain and testFleet use it.
var pool = &framework.Pool[*fleet]{Name: "crash"}

// testFleet returns the fleet of the tests.
func testFleet(t *testing.T) *fleet {
	t.Helper()
	return pool.Get(t)
}

func TestMain(m *testing.M) {
	// Each check of rapid runs two lifecycles on real clusters.
	for name, value := range map[string]string{"rapid.checks": "2", "rapid.shrinktime": "1ms", "rapid.nofailfile": "true"} {
		if err := flag.Set(name, value); err != nil {
			panic(err)
		}
	}
	flag.Parse()
	for i := range *moreFlag {
		members = append(members, fmt.Sprintf("west-%d", i+1))
	}
	number, isSample := sample.Number()
	if *seedFlag == 0 {
		*seedFlag = cmp.Or(number, uint64(time.Now().Unix()))
	}
	useSlices = *slicesFlag == "on" || *slicesFlag == "" && rand.New(rand.NewPCG(*seedFlag, 1)).IntN(2) == 1
	fmt.Printf("crash: -crash.seed %d, entries in slices: %v\n", *seedFlag, useSlices)
	if useSlices {
		scenario = slices.Insert(scenario, len(scenario)-1, step{name: intoStatus, change: on("east")})
	}
	allSteps = slices.Clone(scenario)
	if isSample && *everyFlag == 0 && *takeFlag == "" && *stepFlag == "" {
		isOnlyEdits = number%2 == 0
		*takeFlag = parts[number/2%uint64(len(parts))]
		if useSlices {
			*takeFlag += "," + intoStatus
		}
		fmt.Printf("crash: SAMPLE=%d: -crash.take '%s'; all: make crash\n", number, *takeFlag)
	}
	if err := selectSteps(); err != nil {
		fmt.Fprintln(os.Stderr, "crash:", err)
		os.Exit(1)
	}
	env, err := kwok.New(kwok.Options{Dir: *dirFlag, Bin: *binFlag, Config: config})
	if err != nil {
		fmt.Fprintln(os.Stderr, "crash:", err)
		os.Exit(1)
	}
	pool.SetUp = func(ctx context.Context, _ int) (*fleet, error) { return newFleet(ctx, env) }
	os.Exit(framework.Main(m, framework.MainOptions{Name: "crash", Environment: env, Verify: verifyLedger}))
}
