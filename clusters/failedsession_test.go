package clusters_test

import (
	"net/http"
	"testing"
	"time"
)

// The supervisor disconnects a session that has failed at once, not at the next probe.
func TestAFailedSessionEndsBeforeTheNextProbe(t *testing.T) {
	t.Parallel()
	w := shared(t)
	noProbe := func(o *setup) { o.ProbeInterval = time.Hour }

	t.Run("if the decoder panics", func(t *testing.T) {
		t.Parallel()
		m := w.newMember(t, w.own(t, "fleet-unprobed-panic", noProbe, watchingVolatiles(t, nil)), "unprobed-panic")
		m.volatiles(volatile("good"), "")
		e := m.join(t)
		m.volatiles(volatile("good"), volatile("panic"))
		timed(t, "ended", func() { m.ends(t, e, soon) })
		m.says(t, "the decoder panicked")
	})

	t.Run("if a watch is silent", func(t *testing.T) {
		t.Parallel()
		// With this limit, healthy watches count as silent, too.
		silent := func(o *setup) { o.WatchSilence = 5 * time.Second }
		m := w.newMember(t, w.own(t, "fleet-unprobed-silent", noProbe, silent), "unprobed-silent")
		e := m.join(t)
		timed(t, "ended", func() { m.ends(t, e, soon) })
	})

	t.Run("if its objects exceed the limit", func(t *testing.T) {
		t.Parallel()
		small := func(o *setup) { o.MaxListBytes = 4 << 20 }
		m := w.newMember(t, w.own(t, "fleet-unprobed-large", noProbe, small), "unprobed-large")
		m.front.fail(ofAllKinds(1))
		e := m.join(t)
		m.front.fail(relistOf(150))
		m.link.cut()
		timed(t, "ended", func() { m.ends(t, e, soon) })
		m.says(t, "the member's objects take up more than 4Mi of memory")
	})
}

// relistOf ends each watch as too old, and answers lists with that many objects.
func relistOf(count int) fault {
	lists := ofAllKinds(count)
	return func(w http.ResponseWriter, r *http.Request) bool {
		if r.URL.Query().Has("watch") {
			gone(w, r)
			return true
		}
		return lists(w, r)
	}
}
