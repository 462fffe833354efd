package clusters_test

import (
	"errors"
	"fmt"
	"net/http"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/internal/wait"
)

// faultCase is one way in which a member can be faulty.
type faultCase struct {
	name string
	// inject makes a member faulty. repair reverts its changes to the link and the proxy.
	inject func(testing.TB, *testMember)
	// whenNew is the expected Ready condition of a member whose Secret is new, and whenConnected
	// that of a member that was healthy before. "" means that the case does not apply. The expected
	// CredentialsValid condition follows from these.
	whenNew, whenConnected string
	// mayEngage is set if the member can be engaged with the fault, again and again: its lists succeed.
	mayEngage bool
}

const (
	unaffected  = "True Connected" // the member is engaged and stays engaged
	unreachable = "Unknown Unreachable"
	unhealthy   = "Unknown Unhealthy"
	forbidden   = "False Forbidden"
)

func faultCases() []faultCase {
	code := respondWithCode
	return []faultCase{
		// Faults of the network.
		{name: "refuses connections", inject: onLink(modeRefuse), whenNew: unreachable, whenConnected: unreachable},
		{name: "drops SYNs", inject: onLink(modeDropSYN), whenNew: unreachable, whenConnected: unreachable},
		{name: "accepts connections and sends nothing", inject: onLink(modeSilent), whenNew: unreachable, whenConnected: unreachable},
		{name: "stops in its TLS hello", inject: onLink(modeTruncate), whenNew: unreachable, whenConnected: unreachable},
		// Another server.
		{name: "has a certificate of another CA", inject: onServer(hubAddress), whenNew: unhealthy, whenConnected: unhealthy},
		{name: "has a certificate for another name", inject: onServer(serverWithOtherName), whenNew: unhealthy, whenConnected: unhealthy},
		{name: "is another cluster", inject: withOtherIdentity, whenConnected: "False IdentityChanged"},
		// Faulty responses to all requests.
		{name: "hangs", inject: onAllRequests(hang), whenNew: unreachable, whenConnected: unreachable},
		{name: "takes 10 s for each response", inject: onAllRequests(respondAfter(10 * time.Second)), whenNew: unreachable, whenConnected: unreachable},
		{name: "responds with 401", inject: onAllRequests(code(http.StatusUnauthorized)), whenNew: "False Unauthorized", whenConnected: "False Unauthorized"},
		{name: "responds with 403", inject: onAllRequests(code(http.StatusForbidden)), whenNew: forbidden, whenConnected: forbidden},
		{name: "responds with 429", inject: onAllRequests(code(http.StatusTooManyRequests)), whenNew: unhealthy, whenConnected: unhealthy},
		{name: "responds with 500", inject: onAllRequests(code(http.StatusInternalServerError)), whenNew: unhealthy, whenConnected: unhealthy},
		{name: "responds with 503", inject: onAllRequests(code(http.StatusServiceUnavailable)), whenNew: unhealthy, whenConnected: unhealthy},
		{name: "redirects", inject: onAllRequests(redirect), whenNew: unhealthy, whenConnected: unhealthy},
		{name: "responds with a gzip bomb", inject: onAllRequests(gzipBomb), whenNew: unhealthy, whenConnected: unhealthy},
		{name: "responds with large headers", inject: onAllRequests(largeHeaders), whenNew: unreachable, whenConnected: unreachable},
		// Faulty responses to lists, watches and writes, but not to probes.
		{name: "hangs except for probes", inject: onAllButProbes(hang), whenNew: unreachable, whenConnected: unreachable},
		{name: "responds with 403 except to probes", inject: onAllButProbes(code(http.StatusForbidden)), whenNew: forbidden, whenConnected: forbidden},
		{name: "responds with 429 except to probes", inject: onAllButProbes(code(http.StatusTooManyRequests)), whenNew: unhealthy, whenConnected: unhealthy},
		{name: "responds with 503 except to probes", inject: onAllButProbes(code(http.StatusServiceUnavailable)), whenNew: unhealthy, whenConnected: unhealthy},
		{name: "responds with a gzip bomb except to probes", inject: onAllButProbes(gzipBomb), whenNew: unhealthy, whenConnected: unhealthy},
		// Faulty lists.
		{name: "responds to lists with 403", inject: onLists(code(http.StatusForbidden)), whenNew: forbidden, whenConnected: forbidden},
		{name: "sends a list of 1 GB", inject: onLists(endlessList), whenNew: unhealthy, whenConnected: unhealthy},
		{name: "sends lists in endless pages", inject: onLists(endlessPages), whenNew: unhealthy, whenConnected: unhealthy},
		{name: "truncates its lists", inject: onLists(truncatedList), whenNew: unreachable, whenConnected: unreachable},
		{name: "lists an expensive quantity", inject: onLists(respondWithQuantity(listPrefix+"%s]}", `"1e-2000000000"`)), whenNew: unhealthy, whenConnected: unhealthy},
		{name: "stalls in its lists", inject: onLists(headersOnly), whenNew: unreachable, whenConnected: unreachable},
		{name: "responds to lists with a Retry-After of a day", inject: onLists(retryAfterADay), whenNew: unhealthy, whenConnected: unhealthy},
		// Faulty watches.
		{name: "responds to watches with 503", inject: onWatches(code(http.StatusServiceUnavailable)), whenConnected: unhealthy, mayEngage: true},
		{name: "responds to watches with an endless error", inject: onWatches(endlessError), whenConnected: unhealthy, mayEngage: true},
		{name: "sends an expensive quantity in watches", inject: onWatches(respondWithQuantity(addedEvent, `1234567890123456789e2000000000`)), whenConnected: unhealthy, mayEngage: true},
		{name: "sends garbage in watches", inject: onWatches(garbage), whenConnected: unhealthy, mayEngage: true},
		{name: "ends every watch as expired", inject: onWatches(expiredWatch), whenConnected: unhealthy, mayEngage: true},
		{name: "ends one watch as expired", inject: onOneWatch(expiredWatch), whenNew: unaffected, whenConnected: unaffected},
	}
}

// Each fault affects members whose Secret is new and members that were healthy before. The operator
// reports the fault, and connects the member again after the fault is repaired.
func TestMember_with_a_fault_is_reported_and_reconnected_after_its_repair(t *testing.T) {
	t.Parallel()
	env := sharedEnv(t)
	o := env.newOperator(t, "fleet-faults", func(o *setup) { o.ConnectTimeout = 15 * time.Second })
	for i, test := range faultCases() {
		if test.whenNew != "" {
			t.Run("a new member that "+test.name, func(t *testing.T) {
				t.Parallel()
				env.newMember(t, o, fmt.Sprintf("fault-new-%d", i)).testFaultWhenNew(t, test)
			})
		}
		if test.whenConnected != "" {
			t.Run("a connected member that "+test.name, func(t *testing.T) {
				t.Parallel()
				env.newMember(t, o, fmt.Sprintf("fault-%d", i)).testFaultWhenConnected(t, test)
			})
		}
	}
}

// testFaultWhenNew makes a faulty member join, and repairs it.
func (m *testMember) testFaultWhenNew(t *testing.T, test faultCase) {
	t.Helper()
	test.inject(t, m)
	m.createSecret(t, m.kubeconfig(t))
	if test.whenNew == unaffected {
		m.checkUnaffected(t, m.waitForEngagement(t, 1))
		return
	}
	logDuration(t, "reported", func() {
		m.waitForConditions(t, expectedConditions(test.whenNew, "Unknown NotVerified"))
	})
	m.checkNotEngaged(t, 0)
	m.repair(t)
	logDuration(t, "connected", func() {
		e := m.waitForEngagement(t, 1)
		e.waitForRead(t)
		m.checkContinues(t, e)
	})
}

// Without a limit, an open watch without events would leave a member Ready forever, with an
// outdated cache.
func TestWatch_that_sends_no_event_ends_the_engagement(t *testing.T) {
	t.Parallel()
	env := sharedEnv(t)
	// A healthy API server sends a bookmark each minute, so this limit ends healthy watches too.
	o := env.newOperator(t, "fleet-silent-watches", func(o *setup) { o.WatchSilence = 10 * time.Second })
	for name, response := range map[string]http.HandlerFunc{"sends one byte per second": slowBytes, "sends only headers": headersOnly} {
		t.Run("a watch that "+name, func(t *testing.T) {
			t.Parallel()
			m := env.newMember(t, o, "silent-watch-"+memberName(name))
			onWatches(response)(t, m)
			e := m.join(t)
			m.waitForEnd(t, e)
			m.waitForConditions(t, expectedConditions(unhealthy, "True Accepted"))
		})
	}
}

// Failures during connecting do not count after the caches have synced.
func TestMember_that_failed_while_it_connected_stays_engaged(t *testing.T) {
	t.Parallel()
	env := sharedEnv(t)
	m := env.newMember(t, env.operator, "failed-at-first")
	onLists(respondWithCode(http.StatusServiceUnavailable))(t, m)
	m.createSecret(t, m.kubeconfig(t))
	m.waitForFault(t)
	// The failures last longer than a connected member may fail, and not longer than connecting may
	// take. Lists are retried after a second.
	const failing = 18 * time.Second
	<-time.After(failing)
	wait.Eventually(t, func() error {
		if faults := m.proxy.faults(); faults < 3 {
			return fmt.Errorf("only %d lists have failed", faults)
		}
		return nil
	})
	m.repair(t)
	e := m.waitForEngagement(t, 1)
	m.waitForProbes(t, 2)
	m.checkContinues(t, e)
	m.checkConditions(t, summaryConnected)
}

// testFaultWhenConnected makes a healthy member join, become faulty, and recover.
func (m *testMember) testFaultWhenConnected(t *testing.T, test faultCase) {
	t.Helper()
	first, id := m.join(t), m.proxy.identity()
	m.makeWatchesResumable(t, first)
	test.inject(t, m)
	if test.whenConnected == unaffected {
		m.checkUnaffected(t, first)
		return
	}
	logDuration(t, "reported", func() {
		m.waitForConditions(t, expectedConditions(test.whenConnected, "True Accepted"))
	})
	m.waitForEnd(t, first)
	m.createDeployment(t, m.name)
	m.proxy.setIdentity(id)
	m.repair(t)
	m.createDeployment(t, m.name+"-later")
	logDuration(t, "connected", func() {
		if !test.mayEngage {
			m.waitForEngagement(t, 2)
		}
		// The engagements that began before the repair end. The one that lasts has what was created during the
		// fault and after it.
		var last engagement
		wait.Eventually(t, func() error {
			last = m.newestEngagement()
			reader := last.cluster.GetClient()
			return errors.Join(
				reader.Get(ctx, client.ObjectKey{Namespace: memberNamespace, Name: m.name}, &appsv1.Deployment{}),
				reader.Get(ctx, client.ObjectKey{Namespace: memberNamespace, Name: m.name + "-later"}, &appsv1.Deployment{}))
		})
		m.waitForConditions(t, summaryConnected)
		if !last.synced {
			t.Errorf("%s was engaged before its caches had synced", m.name)
		}
		last.waitForRead(t)
		m.checkContinues(t, last)
	})
}

// checkUnaffected checks that an engagement continues after the fault has occurred, and that its
// cache is still updated.
func (m *testMember) checkUnaffected(t *testing.T, e engagement) {
	t.Helper()
	m.waitForFault(t)
	m.createDeployment(t, m.name)
	e.waitForDeployment(t, m.name)
	m.waitForProbes(t, 2)
	m.checkContinues(t, e)
	m.checkConditions(t, summaryConnected)
}

// makeWatchesResumable makes the watches of a member resume after a disconnect. client-go lists again
// after a watch that ends within a second without an event, and a slow machine delays the begin of
// that second. So each watch gets an event.
func (m *testMember) makeWatchesResumable(t testing.TB, e engagement) {
	t.Helper()
	name := fmt.Sprintf("%s-%d", m.name, time.Now().UnixNano())
	m.createDeployment(t, name)
	service := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: memberNamespace, Name: name, Labels: map[string]string{v1alpha1.LabelManagedBy: v1alpha1.ManagedBy}},
		Spec:       corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}},
	}
	m.createObject(t, m.testEnv.member, service)
	e.waitForDeployment(t, name)
	wait.Eventually(t, func() error {
		return e.cluster.GetClient().Get(ctx, client.ObjectKeyFromObject(service), &corev1.Service{})
	})
}

// waitForRead waits until an engagement can read. A member that has just sent much data may be
// throttled for a while.
func (e engagement) waitForRead(t testing.TB) {
	t.Helper()
	wait.Eventually(t, func() error {
		return e.cluster.GetAPIReader().Get(ctx, client.ObjectKey{Name: metav1.NamespaceSystem}, &corev1.Namespace{})
	})
}

// expectedConditions returns the conditions of a faulty member. The credentials keep their
// condition, unless the member refuses them.
func expectedConditions(ready, credentials string) string {
	if ready == "False Unauthorized" {
		credentials = ready
	}
	return "Ready " + ready + ", CredentialsValid " + credentials
}

// logDuration logs how long do takes.
func logDuration(t testing.TB, what string, do func()) {
	t.Helper()
	begun := time.Now()
	do()
	t.Logf("%s after %s", what, time.Since(begun).Round(100*time.Millisecond))
}

// repair reverts a fault of the link or the proxy.
func (m *testMember) repair(t testing.TB) {
	t.Helper()
	m.proxy.setFault(nil)
	m.link.setServer(m.proxy.address())
	m.link.setMode(t, modePass)
	m.link.resetConnections() // closes requests that hang in the fault
}

// With the probe interval of production, the operator detects that a member's open connections
// carry no data.
func TestMember_with_half_open_connections_is_disengaged(t *testing.T) {
	t.Parallel()
	env := sharedEnv(t)
	m := env.newMember(t, env.newOperator(t, "fleet-half-open", productionProbeInterval), "half-open")
	m.testFaultWhenConnected(t, faultCase{inject: onLink(modeSilent), whenConnected: unreachable})
}

// productionProbeInterval sets the probe interval of production.
func productionProbeInterval(o *setup) { o.ProbeInterval = 10 * time.Second }
