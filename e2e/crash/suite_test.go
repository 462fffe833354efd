// Package crash kills the operator at each request by which it changes something, and checks that nothing comes of it.
//
// A hub and three members, north, south and east, are whole clusters (package kwok); the operator is its own binary, as a
// process. All that it asks of the hub and of the members goes through one proxy, which knows it by a token. The proxy
// numbers the requests that change something: POST, PUT, PATCH and DELETE, but for Events, Leases and reviews, which are no part of any
// state, and dry runs. Reads change nothing, so a crash between two of them is the crash before the write that follows.
//
// At a request the operator is ended by SIGKILL in one of two ways: before the request is sent (the proxy keeps it, kills, and
// drops it) and when it is committed but its answer is lost (the proxy sends it, takes the answer, kills, and drops that).
// What the operator asks beside it from then on is dropped too; what it had asked before is committed.
//
// The scenario is one life of an AppService, in a namespace of its own that the members do not have yet: declared on three members, its
// image edited, scaled up, scaled down, its port removed, another added, its placement shrunk to two members, deleted. It is lived once
// undisturbed, but for a restart at rest that must not write: that gives the number of requests of each step, and the state after it, on the hub and on each member, but for what
// differs between any two lives (UIDs, times, resource versions, the hash over a UID). Then it is lived again, and in each step of a
// life the operator is killed once, at the life's number: life 1 at the first request of each step, life 2 at the second ... until no
// step has as many, in both ways. After each kill the operator is started again; then
//
//   - the state of the undisturbed life must come about, and
//   - no request that changes anything may follow for the quiet window, and the state still be the same at its end.
//
// Which request of a step is the n-th differs from life to life, for members are served at the same time, and so does how often the status
// is written. So lives go on to one number more than there were requests, and a number that is not reached is told. Last come lives for
// the kinds of requests of a step (verb, resource, hub or member) that the numbers did not hit in both ways.
//
// Many lives are lived beside each other: in each step, one after the other is disturbed, and when that is done for all, one quiet window
// is all lives'. In it nobody does anything, and the operator is not killed. Nor may a kill that is due to one life make the operator
// write anything for those whose turn in the step was before.
//
// A ledger in the proxy notes each DELETE of anything on a member, and each write that lowers the replicas of a Deployment there. Each
// must trace to an intent of the user, which the tests declare as they act: the object's own AppService by UID, deleted
// or, at a generation not older than the one that the object was applied for, without this cluster, without ports (for a Service), or with
// that number of replicas. What traces to none fails the suite.
//
// Besides, it tells what an undisturbed life costs in requests: with -crash.more 7 -crash.idle 10m for ten members, and ten minutes at rest.
//
//	make crash                                   # every request, both ways, quiet windows of 60 s
//	go test ./e2e/crash -v -count=1              # a sample: one life, killed once in each step; a part of make e2e
//	go test ./e2e/crash -v -count=1 -run TestEveryRequest -crash.seed 7 -crash.every 4
package crash

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"testing"
	"time"
)

var (
	binFlag   = flag.String("bin", "../../bin", "directory of the programs")
	dirFlag   = flag.String("dir", ".crash", "directory of everything that the clusters keep")
	everyFlag = flag.Int("crash.every", 0, "kill at every n-th request of each step; 0 for one request of each step")
	quietFlag = flag.Duration("crash.quiet", 2*time.Second, "how long no request may follow a kill and what it leads to")
	lanesFlag = flag.Int("crash.lanes", 1, "how many lives share a quiet window")
	moreFlag  = flag.Int("crash.more", 0, "how many members there are besides the three")
	idleFlag  = flag.Duration("crash.idle", 0, "how long the requests are counted of an operator at rest")
	seedFlag  = flag.Uint64("crash.seed", 0, "which requests a sample takes; 0 for another at each run")
)

// patience bounds every wait for a state.
const patience = 90 * time.Second

// theFleet is what all tests share. Only TestMain sets it up.
var theFleet *fleet

func TestMain(m *testing.M) {
	// Each of rapid's checks is lives on real clusters.
	for name, value := range map[string]string{"rapid.checks": "2", "rapid.shrinktime": "1ms", "rapid.nofailfile": "true"} {
		if err := flag.Set(name, value); err != nil {
			panic(err)
		}
	}
	flag.Parse()
	for i := range *moreFlag {
		members = append(members, fmt.Sprintf("west-%d", i+1))
	}
	os.Exit(run(m))
}

func run(m *testing.M) (code int) {
	begun := time.Now()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	f, err := prepareFleet(ctx)
	if err != nil {
		fmt.Fprintln(os.Stderr, "crash:", err)
		return 1
	}
	defer f.clean()
	interrupted := make(chan os.Signal, 1)
	signal.Notify(interrupted, os.Interrupt, syscall.SIGTERM)
	go func() {
		<-interrupted
		cancel()
		f.clean()
		os.Exit(1)
	}()
	if err := f.setUp(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "crash: set up the fleet:", err)
		return 1
	}
	theFleet = f
	fmt.Printf("crash: the fleet is up after %s\n", time.Since(begun).Round(time.Second))
	code = m.Run()
	if err := f.account(); err != nil {
		fmt.Fprintln(os.Stderr, "crash:", err)
		code = max(code, 1)
	}
	return code
}
