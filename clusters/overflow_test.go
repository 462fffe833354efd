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

// serveAllKinds responds to lists of all watched kinds with that many objects of 20 KiB, and to
// watches with no event.
func serveAllKinds(count int) fault {
	return func(w http.ResponseWriter, r *http.Request) bool {
		kind, watched := map[string]string{"deployments": "Deployment", "services": "Service"}[path.Base(r.URL.Path)]
		switch {
		case r.Method != http.MethodGet || !watched:
			return false
		case r.URL.Query().Has("watch"):
			headersOnly(w, r)
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

// The objects of each kind fit into the cache, but the objects of all kinds together do not.
func TestMember_with_an_incomplete_cache_is_not_engaged(t *testing.T) {
	t.Parallel()
	env := sharedEnv(t)
	m := env.newMember(t, env.newOperator(t, "fleet-overflow", func(o *setup) { o.MaxListBytes = 4 << 20 }), "overflow")
	m.proxy.setFault(serveAllKinds(150))
	m.createSecret(t, m.kubeconfig(t))
	m.waitForConditions(t, expectedConditions(unhealthy, "Unknown NotVerified"))
	m.waitForMessage(t, "the member's objects take up more than 4Mi of memory")
	m.checkNotEngaged(t, 0)
	m.proxy.setFault(serveAllKinds(50))
	e := m.waitForEngagement(t, 1)
	m.checkContinues(t, e)
}

func TestReady_is_Unknown_while_connecting_takes_long_after_a_restart_of_the_operator(t *testing.T) {
	t.Parallel()
	env := sharedEnv(t)
	const fleet = "fleet-slow-restart"
	o := env.newOperator(t, fleet)
	m := env.newMember(t, o, "slow-restart")
	m.join(t)
	if err := o.stop(); err != nil {
		t.Fatal(err)
	}
	m.proxy.setFault(serveAllKinds(200))
	m.checkConditions(t, summaryConnected)
	m.operator = env.newOperator(t, fleet, func(o *setup) {
		// With these values, the operator throttles the member for some sixteen seconds. A busy machine
		// still answers within the timeout.
		o.ConnectTimeout, o.ReadBurst, o.ReadRate = 5*time.Second, 64<<10, 1<<19
	})
	m.waitForConditions(t, "Ready Unknown Connecting, CredentialsValid True Accepted")
	m.waitForEngagement(t, 1)
}
