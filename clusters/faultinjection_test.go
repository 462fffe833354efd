package clusters_test

import (
	"fmt"
	"net/http"
	"path"
	"sync/atomic"
	"testing"

	"github.com/fleetwright/fleetwright/internal/wait"
)

// onLink returns a fault of the link.
func onLink(to mode) func(testing.TB, *testMember) {
	return func(t testing.TB, m *testMember) { m.link.setMode(t, to) }
}

// onServer redirects the link to another server.
func onServer(to func(testing.TB, *testMember) string) func(testing.TB, *testMember) {
	return func(t testing.TB, m *testMember) {
		m.link.setServer(to(t, m))
		m.link.resetConnections()
	}
}

func hubAddress(_ testing.TB, m *testMember) string { return m.hub.address() }

func withOtherIdentity(_ testing.TB, m *testMember) {
	m.proxy.setIdentity("another-" + m.proxy.identity())
}

// onRequests makes the proxy answer the selected requests with do. It resets the open connections,
// so that watches restart and meet the fault.
func onRequests(do http.HandlerFunc, selects func(*http.Request) bool) func(testing.TB, *testMember) {
	return func(_ testing.TB, m *testMember) {
		m.proxy.setFault(func(w http.ResponseWriter, r *http.Request) bool {
			if !selects(r) {
				return false
			}
			m.proxy.countFault()
			do(w, r)
			return true
		})
		m.link.resetConnections()
	}
}

func onAllRequests(do http.HandlerFunc) func(testing.TB, *testMember) {
	return onRequests(do, func(*http.Request) bool { return true })
}

func onAllButProbes(do http.HandlerFunc) func(testing.TB, *testMember) {
	return onRequests(do, func(r *http.Request) bool { return !isProbe(r) })
}

func onWatches(do http.HandlerFunc) func(testing.TB, *testMember) {
	return onRequests(do, isWatch)
}

// onOneWatch answers one watch with do.
func onOneWatch(do http.HandlerFunc) func(testing.TB, *testMember) {
	return func(t testing.TB, m *testMember) {
		var done atomic.Bool
		onRequests(do, func(r *http.Request) bool { return isWatch(r) && !done.Swap(true) })(t, m)
	}
}

// onLists answers lists with do. A connected member lists only when a watch has expired, so onLists
// lets each watch expire. The watch lasts long enough not to count as a failure itself.
func onLists(do http.HandlerFunc) func(testing.TB, *testMember) {
	return func(_ testing.TB, m *testMember) {
		m.proxy.setFault(func(w http.ResponseWriter, r *http.Request) bool {
			switch base := path.Base(r.URL.Path); {
			case r.Method != http.MethodGet || base != "deployments" && base != "services":
				return false
			case isWatch(r):
				expireLater(w, r)
			default:
				m.proxy.countFault()
				do(w, r)
			}
			return true
		})
		m.link.resetConnections()
	}
}

func isWatch(r *http.Request) bool { return r.URL.Query().Has("watch") }

// waitForFault waits until a request of the operator has met the fault of the proxy.
func (m *testMember) waitForFault(t testing.TB) {
	t.Helper()
	wait.Eventually(t, func() error {
		if m.proxy.faults() == 0 {
			return fmt.Errorf("no request to %s has met the fault", m.name)
		}
		return nil
	})
}
