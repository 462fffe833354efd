package clusters_test

import (
	"fmt"
	"io"
	"net/http"
	"path"
	"strings"
	"testing"
	"time"
)

// ofAllKinds answers lists of all watched kinds with that many objects of 20 KiB, and watches with
// no event.
func ofAllKinds(count int) fault {
	return func(w http.ResponseWriter, r *http.Request) bool {
		kind, watched := map[string]string{"deployments": "Deployment", "services": "Service"}[path.Base(r.URL.Path)]
		switch {
		case r.Method != http.MethodGet || !watched:
			return false
		case r.URL.Query().Has("watch"):
			mute(w, r)
			return true
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = fmt.Fprintf(w, `{"kind":"%sList","metadata":{"resourceVersion":"1"},"items":[{"metadata":{"namespace":"default","name":"first"}}`, kind)
		for i := range count {
			_, _ = fmt.Fprintf(w, `,{"metadata":{"namespace":"default","name":"x-%d","annotations":{"filler":"%s"}}}`, i, strings.Repeat("x", 20<<10))
		}
		_, _ = io.WriteString(w, "]}")
		return true
	}
}

// The objects of each kind fit into the cache, but all kinds together do not: the member is not
// engaged with an incomplete cache.
func TestAnIncompleteCacheIsNotEngaged(t *testing.T) {
	t.Parallel()
	w := shared(t)
	m := w.newMember(t, w.own(t, "fleet-overflow", func(o *setup) { o.MaxListBytes = 4 << 20 }), "overflow")
	m.front.fail(ofAllKinds(150))
	m.create(t, m.kubeconfig(t))
	m.shows(t, soon, conditions(unhealthy, "Unknown NotVerified"))
	m.says(t, "the member's objects take up more than 4Mi of memory")
	m.neverEngaged(t, 0)
	m.front.fail(ofAllKinds(50))
	e := m.engaged(t, 1, mended)
	m.goesOn(t, e)
}

// After a restart of the operator, an outdated Ready condition of a MemberCluster is replaced if
// connecting takes long.
func TestReadyIsUnknownWhenConnectingTakesLongAfterARestart(t *testing.T) {
	t.Parallel()
	w := shared(t)
	const fleet = "fleet-slow-restart"
	o := w.own(t, fleet)
	m := w.newMember(t, o, "slow-restart")
	m.join(t)
	if err := o.stop(); err != nil {
		t.Fatal(err)
	}
	m.front.fail(ofAllKinds(200))
	m.shows(t, 0, joined)
	m.operator = w.own(t, fleet, func(o *setup) {
		// With these values, the hub throttles the member for some eight seconds.
		o.ConnectTimeout, o.ReadBurst, o.ReadRate = 2*time.Second, 64<<10, 1<<20
	})
	m.shows(t, soon, "Ready Unknown Connecting, CredentialsValid True Accepted")
	m.engaged(t, 1, soon)
}
