package clusters_test

import (
	"fmt"
	"os"
	"runtime"
	"runtime/pprof"
	"strings"
	"testing"
)

// Not beside other tests: it counts what there is in the process.
//
// With FLEETWRIGHT_LONG=1 in the environment, fifty members come and go twenty times over, which
// takes some minutes:
//
//	FLEETWRIGHT_LONG=1 go test -run TestNothingOutlivesItsMember ./clusters
func TestNothingOutlivesItsMember(t *testing.T) {
	count, rounds := 10, 3
	if os.Getenv("FLEETWRIGHT_LONG") != "" {
		count, rounds = 50, 20
	}
	w := shared(t)
	first := w.newMember(t, w.operator, "lifetime")
	first.join(t)
	first.leave(t)
	members := make([]*member, count)
	for i := range members {
		members[i] = w.newMember(t, w.operator, fmt.Sprintf("lifetime-%d", i))
	}
	goroutines, files := runtime.NumGoroutine(), descriptors(t)
	for range rounds {
		joinAndLeave(t, members)
	}
	t.Logf("%d goroutines and %d files at first, %d and %d after %d members left %d times", goroutines, files, runtime.NumGoroutine(), descriptors(t), count, rounds)
	eventually(t, soon, func() error {
		for _, m := range members {
			if _, open := m.link.count(); open > 0 {
				return fmt.Errorf("%d connections to %s are open", open, m.name)
			}
		}
		// A few more belong to the tests' own clients. One leak for each member that left would add
		// 30.
		if g, f := runtime.NumGoroutine(), descriptors(t); g > goroutines+10 || f > files+10 {
			var stacks strings.Builder
			_ = pprof.Lookup("goroutine").WriteTo(&stacks, 1)
			return fmt.Errorf("%d goroutines and %d files, from %d and %d\n%s", g, f, goroutines, files, stacks.String())
		}
		return nil
	})
}

// joinAndLeave makes members join, each in its way, be rotated or disconnected, and leave.
func joinAndLeave(t *testing.T, members []*member) {
	t.Helper()
	var healthy []*member
	var times []int
	for i, m := range members {
		switch i {
		case 0:
			m.link.turn(t, silent)
			m.create(t, m.kubeconfig(t))
		case 1:
			m.front.fail(beyondProbes(hang))
			m.create(t, m.kubeconfig(t))
		default:
			healthy, times = append(healthy, m), append(times, len(m.operator.engagements.of(m.name)))
			m.create(t, m.kubeconfig(t))
		}
	}
	for i, m := range healthy {
		m.engaged(t, times[i]+1, soon)
	}
	for i, m := range healthy {
		switch i % 4 {
		case 0:
			m.replace(t, m.kubeconfig(t))
		case 1:
			m.link.cut()
		case 2:
			m.link.turn(t, refuse)
		}
	}
	for _, m := range members {
		m.remove(t)
	}
	for _, m := range members {
		m.shows(t, soon, detached)
	}
	for _, m := range members {
		m.link.turn(t, pass)
		m.front.fail(nil)
	}
}

func descriptors(t *testing.T) int {
	t.Helper()
	open, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(open)
}
