package clusters_test

import (
	"fmt"
	"os"
	"runtime"
	"runtime/pprof"
	"strings"
	"testing"

	"github.com/fleetwright/fleetwright/internal/wait"
)

// This test does not run in parallel with others, because it counts goroutines and open files of
// the process.
//
// With FLEETWRIGHT_LONG=1 in the environment, fifty members join and leave twenty times, which
// takes some minutes:
//
//	FLEETWRIGHT_LONG=1 go test -run TestMembers_that_leave_release_all_resources ./clusters
func TestMembers_that_leave_release_all_resources(t *testing.T) {
	count, rounds := 10, 3
	if os.Getenv("FLEETWRIGHT_LONG") != "" {
		count, rounds = 50, 20
	}
	env := sharedEnv(t)
	first := env.newMember(t, env.operator, "lifetime")
	first.join(t)
	first.deleteMember(t)
	members := make([]*testMember, count)
	for i := range members {
		members[i] = env.newMember(t, env.operator, fmt.Sprintf("lifetime-%d", i))
	}
	goroutines, files := runtime.NumGoroutine(), openFiles(t)
	for range rounds {
		joinAndLeave(t, members)
	}
	t.Logf("%d goroutines and %d files at the beginning, %d and %d after %d members left %d times", goroutines, files, runtime.NumGoroutine(), openFiles(t), count, rounds)
	wait.Eventually(t, func() error {
		for _, m := range members {
			if _, open := m.link.connectionCounts(); open > 0 {
				return fmt.Errorf("%d connections to %s are open", open, m.name)
			}
		}
		// A few more belong to the clients of the tests. A leak of one per member that left would
		// add 30.
		if g, f := runtime.NumGoroutine(), openFiles(t); g > goroutines+10 || f > files+10 {
			var stacks strings.Builder
			_ = pprof.Lookup("goroutine").WriteTo(&stacks, 1)
			return fmt.Errorf("%d goroutines and %d files, want %d and %d\n%s", g, f, goroutines, files, stacks.String())
		}
		return nil
	})
}

// joinAndLeave makes members join, some of them with faults, makes some rotate or disconnect, and
// makes all leave.
func joinAndLeave(t *testing.T, members []*testMember) {
	t.Helper()
	var healthy []*testMember
	var times []int
	for i, m := range members {
		switch i {
		case 0:
			m.link.setMode(t, modeSilent)
			m.createSecret(t, m.kubeconfig(t))
		case 1:
			m.proxy.setFault(exceptProbes(hang))
			m.createSecret(t, m.kubeconfig(t))
		default:
			healthy, times = append(healthy, m), append(times, len(m.operator.recorder.engagements(m.name)))
			m.createSecret(t, m.kubeconfig(t))
		}
	}
	for i, m := range healthy {
		m.waitForEngagement(t, times[i]+1)
	}
	for i, m := range healthy {
		switch i % 4 {
		case 0:
			m.replaceKubeconfig(t, m.kubeconfig(t))
		case 1:
			m.link.resetConnections()
		case 2:
			m.link.setMode(t, modeRefuse)
		}
	}
	for _, m := range members {
		m.deleteSecret(t)
	}
	for _, m := range members {
		m.waitForConditions(t, summarySecretMissing)
	}
	for _, m := range members {
		m.link.setMode(t, modePass)
		m.proxy.setFault(nil)
	}
}

func openFiles(t *testing.T) int {
	t.Helper()
	open, err := os.ReadDir("/dev/fd") // a link to /proc/self/fd on Linux
	if err != nil {
		t.Fatal(err)
	}
	return len(open)
}
