package clusters_test

import (
	"net/http"
	"testing"
	"time"
)

// The supervisor disconnects a session that has failed at once, not at the next probe.
func TestSession_that_has_failed_ends_before_the_next_probe(t *testing.T) {
	t.Parallel()
	env := sharedEnv(t)
	noProbe := func(o *setup) { o.ProbeInterval = time.Hour }

	t.Run("if the decoder panics", func(t *testing.T) {
		t.Parallel()
		m := env.newMember(t, env.newOperator(t, "fleet-unprobed-panic", noProbe, watchingVolatiles(t, nil)), "unprobed-panic")
		m.volatiles(volatile("good"), "")
		e := m.join(t)
		m.volatiles(volatile("good"), volatile("panic"))
		logDuration(t, "disengaged", func() { m.waitForEnd(t, e) })
		m.waitForMessage(t, "the decoder panicked")
	})

	t.Run("if a watch is silent", func(t *testing.T) {
		t.Parallel()
		// With this limit, healthy watches count as silent too.
		silent := func(o *setup) { o.WatchSilence = 5 * time.Second }
		m := env.newMember(t, env.newOperator(t, "fleet-unprobed-silent", noProbe, silent), "unprobed-silent")
		e := m.join(t)
		logDuration(t, "disengaged", func() { m.waitForEnd(t, e) })
	})

	t.Run("if its objects exceed the limit", func(t *testing.T) {
		t.Parallel()
		small := func(o *setup) { o.MaxListBytes = 4 << 20 }
		m := env.newMember(t, env.newOperator(t, "fleet-unprobed-large", noProbe, small), "unprobed-large")
		m.proxy.setFault(serveAllKinds(1))
		e := m.join(t)
		m.proxy.setFault(relistOf(150))
		m.link.resetConnections()
		logDuration(t, "disengaged", func() { m.waitForEnd(t, e) })
		m.waitForMessage(t, "the member's objects take up more than 4Mi of memory")
	})
}

// relistOf ends each watch as expired, and responds to lists with that many objects.
func relistOf(count int) fault {
	lists := serveAllKinds(count)
	return func(w http.ResponseWriter, r *http.Request) bool {
		if isWatch(r) {
			expiredWatch(w, r)
			return true
		}
		return lists(w, r)
	}
}
