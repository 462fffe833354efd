package clusters_test

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"io"
	"log"
	"math/big"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// faultCase is one way in which a member can be faulty.
type faultCase struct {
	name string
	// inject makes a member faulty. mend reverts its changes to the link and the front.
	inject func(testing.TB, *testMember)
	// whenNew is the expected Ready condition of a member whose Secret is new, and joined that of a
	// member that was healthy before. goesOn means that the fault has no effect, "" that the case
	// is impossible. The expected CredentialsValid condition follows from these.
	whenNew, whenConnected string
	// The condition must be reported within this time; the default is soon.
	newWithin, connectedWithin time.Duration
}

const (
	unaffected  = "True Connected"
	unreachable = "Unknown Unreachable"
	unhealthy   = "Unknown Unhealthy"
	forbidden   = "False Forbidden"

	// A list that hangs is abandoned and reported after ConnectTimeout.
	withinConnectTimeout = 75 * time.Second
	// Failing watches are abandoned after 15 seconds of failures, at the second probe that notices.
	withinWatchFailure = time.Minute
	// A member is connected again within this time after its fault is fixed, because it was
	// unavailable for less than a minute.
	withinReconnect = time.Minute
)

func faultCases() []faultCase {
	return []faultCase{
		// Faults of the network.
		{name: "refuses connections", inject: onLink(modeRefuse), whenNew: unreachable, whenConnected: unreachable},
		{name: "drops SYNs", inject: onLink(modeDropSYN), whenNew: unreachable, whenConnected: unreachable},
		{name: "accepts and is silent", inject: onLink(modeSilent), whenNew: unreachable, whenConnected: unreachable},
		{name: "breaks off in its TLS hello", inject: onLink(modeTruncate), whenNew: unreachable, whenConnected: unreachable},
		// Another server.
		{name: "has a certificate of another CA", inject: onServer(func(_ testing.TB, m *testMember) string { return m.hub.address() }), whenNew: unhealthy, whenConnected: unhealthy},
		{name: "has a certificate of another name", inject: onServer(serverWithOtherName), whenNew: unhealthy, whenConnected: unhealthy},
		{name: "is another cluster", inject: func(_ testing.TB, m *testMember) { m.proxy.setIdentity("another-" + m.proxy.identity()) }, whenConnected: "False IdentityChanged"},
		// Faulty responses to all requests.
		{name: "hangs", inject: onAllRequests(hang), whenNew: unreachable, whenConnected: unreachable},
		{name: "takes 10 s for each answer", inject: onAllRequests(respondAfter(10 * time.Second)), whenNew: unreachable, whenConnected: unreachable},
		{name: "answers 401", inject: onAllRequests(respondWithCode(http.StatusUnauthorized)), whenNew: "False Unauthorized", whenConnected: "False Unauthorized"},
		{name: "answers 403", inject: onAllRequests(respondWithCode(http.StatusForbidden)), whenNew: forbidden, whenConnected: forbidden},
		{name: "answers 429", inject: onAllRequests(respondWithCode(http.StatusTooManyRequests)), whenNew: unhealthy, whenConnected: unhealthy},
		{name: "answers 500", inject: onAllRequests(respondWithCode(http.StatusInternalServerError)), whenNew: unhealthy, whenConnected: unhealthy},
		{name: "answers 503", inject: onAllRequests(respondWithCode(http.StatusServiceUnavailable)), whenNew: unhealthy, whenConnected: unhealthy},
		{name: "redirects", inject: onAllRequests(redirect), whenNew: unhealthy, whenConnected: unhealthy},
		{name: "answers with a gzip bomb", inject: onAllRequests(gzipBomb), whenNew: unhealthy, whenConnected: unhealthy},
		{name: "answers with huge headers", inject: onAllRequests(largeHeaders), whenNew: unreachable, whenConnected: unreachable},
		// Faulty responses to lists, watches and writes, but not to probes.
		{name: "hangs but for probes", inject: onAllButProbes(hang), whenNew: unreachable, whenConnected: unreachable, newWithin: withinConnectTimeout, connectedWithin: withinWatchFailure},
		{name: "answers 403 but to probes", inject: onAllButProbes(respondWithCode(http.StatusForbidden)), whenNew: forbidden, whenConnected: forbidden, connectedWithin: withinWatchFailure},
		{name: "answers 429 but to probes", inject: onAllButProbes(respondWithCode(http.StatusTooManyRequests)), whenNew: unhealthy, whenConnected: unhealthy, newWithin: withinConnectTimeout, connectedWithin: withinWatchFailure},
		{name: "answers 503 but to probes", inject: onAllButProbes(respondWithCode(http.StatusServiceUnavailable)), whenNew: unhealthy, whenConnected: unhealthy, newWithin: withinConnectTimeout, connectedWithin: withinWatchFailure},
		{name: "answers with a gzip bomb but to probes", inject: onAllButProbes(gzipBomb), whenNew: unhealthy, whenConnected: unhealthy, newWithin: withinConnectTimeout, connectedWithin: withinWatchFailure},
		// Faulty lists. A watch resumes at its last resource version and needs no list.
		{name: "answers 403 to lists", inject: onLists(respondWithCode(http.StatusForbidden)), whenNew: forbidden, whenConnected: unaffected},
		{name: "sends a list of 1 GB", inject: onLists(endlessList), whenNew: unhealthy, whenConnected: unaffected, newWithin: withinConnectTimeout},
		{name: "sends its lists in pages without end", inject: onLists(endlessPages), whenNew: unhealthy, whenConnected: unaffected},
		{name: "sends a relist in pages without end", inject: onRelists(endlessPages), whenConnected: unhealthy, connectedWithin: withinConnectTimeout},
		{name: "breaks off in its lists", inject: onLists(truncatedList), whenNew: unreachable, whenConnected: unaffected, newWithin: withinConnectTimeout},
		{name: "has an absurd quantity", inject: onLists(respondWithQuantity(listPrefix+"%s]}", `"1e-2000000000"`)), whenNew: unhealthy, whenConnected: unaffected, newWithin: withinConnectTimeout},
		// Faulty watches.
		{name: "answers 503 to watches", inject: onWatches(respondWithCode(http.StatusServiceUnavailable)), whenConnected: unhealthy, connectedWithin: withinWatchFailure},
		{name: "answers watches with an error that does not end", inject: onWatches(endlessError), whenConnected: unhealthy, connectedWithin: withinWatchFailure},
		{name: "tells watches an absurd quantity", inject: onWatches(respondWithQuantity(addedEvent, `1234567890123456789e2000000000`)), whenConnected: unhealthy, connectedWithin: withinWatchFailure},
		{name: "sends garbage to watches", inject: onWatches(garbage), whenConnected: unhealthy, connectedWithin: withinWatchFailure},
		{name: "calls every watch too old", inject: onWatches(expiredWatch), whenConnected: unhealthy, connectedWithin: withinWatchFailure},
		{name: "stalls in the list that a watch too old calls for", inject: onRelists(headersOnly), whenConnected: unreachable, connectedWithin: withinConnectTimeout},
		{name: "puts off the list that a watch too old calls for by a day", inject: onRelists(retryAfterADay), whenConnected: unhealthy, connectedWithin: withinConnectTimeout},
		{name: "calls a watch too old", inject: func(t testing.TB, m *testMember) { onWatches(once(expiredWatch))(t, m) }, whenNew: unaffected, whenConnected: unaffected},
	}
}

// Each fault hits healthy members and members whose Secret is new. The operator reports the fault
// in time, and reconnects the members by itself after the fault is fixed.
func TestFaults(t *testing.T) {
	t.Parallel()
	env := sharedEnv(t)
	o := env.newOperator(t, "fleet-faults")
	for i, bad := range faultCases() {
		if bad.whenNew != "" {
			t.Run("a new member that "+bad.name, func(t *testing.T) {
				t.Parallel()
				m := env.newMember(t, o, fmt.Sprintf("fault-new-%d", i))
				bad.inject(t, m)
				m.createSecret(t, m.kubeconfig(t))
				if bad.whenNew == unaffected {
					m.waitForEngagement(t, 1, testTimeout)
					return
				}
				logDuration(t, "shown", func() {
					m.waitForConditions(t, cmp.Or(bad.newWithin, testTimeout), expectedConditions(bad.whenNew, "Unknown NotVerified"))
				})
				m.checkNotEngaged(t, 0)
				m.repair(t)
				logDuration(t, "connected", func() {
					e := m.waitForEngagement(t, 1, withinReconnect)
					e.waitForRead(t)
					m.checkContinues(t, e)
				})
			})
		}
		if bad.whenConnected != "" {
			t.Run("a member that "+bad.name, func(t *testing.T) {
				t.Parallel()
				m := env.newMember(t, o, fmt.Sprintf("fault-%d", i))
				m.testFault(t, bad, cmp.Or(bad.connectedWithin, testTimeout))
			})
		}
	}
}

// An open watch without events would leave a member Ready forever, with an outdated cache.
func TestAWatchThatTellsNothing(t *testing.T) {
	t.Parallel()
	env := sharedEnv(t)
	// With this limit, a healthy watch is lost, too.
	soonSilent := func(o *setup) { o.WatchSilence = 10 * time.Second }
	o := env.newOperator(t, "fleet-silent-watches", soonSilent)
	for name, fault := range map[string]http.HandlerFunc{"sends a byte a second": slowBytes, "says nothing": headersOnly} {
		t.Run("a member that "+name+" to watches", func(t *testing.T) {
			t.Parallel()
			m := env.newMember(t, o, "silent-watch-"+memberName(name))
			onWatches(fault)(t, m)
			m.createSecret(t, m.kubeconfig(t))
			e := m.waitForEngagement(t, 1, testTimeout)
			m.waitForEnd(t, e, testTimeout)
			m.waitForConditions(t, testTimeout, expectedConditions(unhealthy, "True Accepted"))
		})
	}
}

// Failures before the caches were in sync do not count later.
func TestAMemberThatWasNotWellAtFirstIsEngagedForGood(t *testing.T) {
	t.Parallel()
	env := sharedEnv(t)
	m := env.newMember(t, env.operator, "not-well-at-first")
	onLists(respondWithCode(http.StatusServiceUnavailable))(t, m)
	m.createSecret(t, m.kubeconfig(t))
	time.Sleep(18 * time.Second) // within the time that connecting may take
	m.repair(t)
	e := m.waitForEngagement(t, 1, withinReconnect)
	time.Sleep(6 * time.Second) // two probes
	m.checkContinues(t, e)
	m.waitForConditions(t, 0, summaryConnected)
}

// onRelists ends the watches as too old, and answers the following lists with do.
func onRelists(do http.HandlerFunc) func(testing.TB, *testMember) {
	return onRequests(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Has("watch") {
			expiredWatch(w, r)
			return
		}
		do(w, r)
	}, func(r *http.Request) bool { return r.Method == http.MethodGet && r.URL.RawQuery != "" })
}

// retryAfterADay answers with a Retry-After of a day.
func retryAfterADay(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Retry-After", "86400")
	w.WriteHeader(http.StatusServiceUnavailable)
}

// endlessError answers with an error whose body never ends.
func endlessError(w http.ResponseWriter, r *http.Request) {
	w.WriteHeader(http.StatusServiceUnavailable)
	if http.NewResponseController(w).Flush() == nil {
		<-r.Context().Done()
	}
}

// headersOnly sends the header of a response, and no body.
func headersOnly(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	if http.NewResponseController(w).Flush() == nil {
		<-r.Context().Done()
	}
}

// testFault makes a member join, turn faulty, and recover.
func (m *testMember) testFault(t *testing.T, bad faultCase, within time.Duration) {
	t.Helper()
	first, id := m.join(t), m.proxy.identity()
	m.waitForResumableWatches(t)
	bad.inject(t, m)
	if bad.whenConnected == unaffected {
		m.createDeployment(t, m.name)
		logDuration(t, "cached", func() { first.waitForDeployment(t, m.name, testTimeout) })
		m.checkContinues(t, first)
		m.waitForConditions(t, 0, summaryConnected)
		return
	}
	logDuration(t, "shown", func() { m.waitForConditions(t, within, expectedConditions(bad.whenConnected, "True Accepted")) })
	m.waitForEnd(t, first, 5*time.Second)
	m.createDeployment(t, m.name)
	m.proxy.setIdentity(id)
	m.repair(t)
	logDuration(t, "connected", func() {
		second := m.waitForEngagement(t, 2, withinReconnect)
		// The member may have been engaged, and fail again, before the fault was fixed.
		second.waitForDeployment(t, m.name, testTimeout)
		second.waitForRead(t)
		m.checkContinues(t, second)
	})
}

// waitForResumableWatches waits until the watches of a member would resume after a disconnect. client-go lists
// again after a watch that ends within a second without an event, and counts from the moment at
// which the initial objects were in the cache.
func (m *testMember) waitForResumableWatches(t testing.TB) {
	t.Helper()
	begun := time.Now()
	eventually(t, testTimeout, func() error {
		open, newest := m.proxy.openWatches()
		if newest.Before(begun) {
			newest = begun
		}
		if open < len(watchedKinds()) || time.Since(newest) < 2*time.Second {
			return fmt.Errorf("%d watches are open, the newest for %s", open, time.Since(newest))
		}
		return nil
	})
}

// waitForRead waits until an engagement can read. A member that has just sent much data may be throttled
// for a while.
func (e engagement) waitForRead(t testing.TB) {
	t.Helper()
	eventually(t, testTimeout, func() error {
		return e.cluster.GetAPIReader().Get(ctx, client.ObjectKey{Name: metav1.NamespaceSystem}, &corev1.Namespace{})
	})
}

// expectedConditions returns the conditions of a faulty member. The credentials keep their condition,
// unless the member refuses them.
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

// repair reverts a fault of the link or the front.
func (m *testMember) repair(t testing.TB) {
	t.Helper()
	m.proxy.setFault(nil)
	m.link.setServer(m.proxy.address())
	m.link.setMode(t, modePass)
	m.link.resetConnections() // closes requests that hang in the fault
}

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

// onRequests makes the front answer the selected requests with do. It resets the open connections, so
// that watches restart and meet the fault.
func onRequests(do http.HandlerFunc, which func(*http.Request) bool) func(testing.TB, *testMember) {
	return func(_ testing.TB, m *testMember) {
		m.proxy.setFault(func(w http.ResponseWriter, r *http.Request) bool {
			if !which(r) {
				return false
			}
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

func onLists(do http.HandlerFunc) func(testing.TB, *testMember) {
	return onRequests(do, func(r *http.Request) bool {
		q := r.URL.Query()
		return r.Method == http.MethodGet && !isProbe(r) && (!q.Has("watch") || q.Has("sendInitialEvents"))
	})
}

func onWatches(do http.HandlerFunc) func(testing.TB, *testMember) {
	return onRequests(do, func(r *http.Request) bool { return r.URL.Query().Has("watch") })
}

// once answers one request with do and aborts the others, because a watch of each kind restarts at
// the same time.
func once(do http.HandlerFunc) http.HandlerFunc {
	var first sync.Once
	return func(w http.ResponseWriter, r *http.Request) {
		answered := false
		first.Do(func() { answered = true; do(w, r) })
		if !answered {
			panic(http.ErrAbortHandler)
		}
	}
}

func respondWithCode(code int) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", "1")
		w.WriteHeader(code)
	}
}

func respondAfter(delay time.Duration) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		select {
		case <-time.After(delay):
		case <-r.Context().Done():
		}
		w.WriteHeader(http.StatusOK)
	}
}

func redirect(w http.ResponseWriter, r *http.Request) {
	http.Redirect(w, r, "https://redirected.invalid", http.StatusTemporaryRedirect)
}

// compressedZeros is a megabyte of zeros in gzip format. Any number of copies can be concatenated.
var compressedZeros = sync.OnceValue(func() []byte {
	var zeros bytes.Buffer
	compressed := gzip.NewWriter(&zeros)
	_, _ = compressed.Write(make([]byte, 1<<20))
	_ = compressed.Close()
	return zeros.Bytes()
})

// gzipBomb sends a megabyte that decompresses to a gigabyte.
func gzipBomb(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Encoding", "gzip")
	_, _ = w.Write(bytes.Repeat(compressedZeros(), 1<<10))
}

func largeHeaders(w http.ResponseWriter, _ *http.Request) {
	for i := range 16 {
		w.Header().Set(fmt.Sprintf("X-Huge-%d", i), strings.Repeat("x", 1<<20))
	}
	w.WriteHeader(http.StatusOK)
}

// writeRepeatedly sends a piece repeatedly, up to a gigabyte.
func writeRepeatedly(w io.Writer, piece string) {
	pieces := []byte(strings.Repeat(piece, 32<<10/len(piece)))
	for sent := 0; sent < 1<<30; {
		n, err := w.Write(pieces)
		if err != nil {
			return
		}
		sent += n
	}
}

const listPrefix = `{"kind": "DeploymentList", "apiVersion": "apps/v1", "metadata": {"resourceVersion": "1"}, "items": [`

func endlessList(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	_, _ = io.WriteString(w, listPrefix)
	writeRepeatedly(w, `{"metadata": {"namespace": "default", "name": "x"}},`)
}

// endlessPages answers each list request with a page that has a continuation.
func endlessPages(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	_, _ = io.WriteString(w, strings.Replace(listPrefix, `"resourceVersion"`, `"continue": "more", "resourceVersion"`, 1)+`{"metadata": {"name": "x"}}]}`)
}

func truncatedList(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	_, _ = io.WriteString(w, listPrefix+`{"metadata": {"name`)
	panic(http.ErrAbortHandler)
}

func garbage(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	_, _ = io.WriteString(w, strings.Repeat("\x00garbage\xff", 1000))
}

func expiredWatch(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	_, _ = io.WriteString(w, `{"type": "ERROR", "object": {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
		"message": "too old resource version: 1 (2)", "reason": "Expired", "code": 410}}`+"\n")
}

func slowBytes(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for _, b := range []byte(`{"type": "ADDED", "object": {"kind": "Deployment", "apiVersion": "apps/v1", "metadata": {` + strings.Repeat(" ", 1000)) {
		if _, err := w.Write([]byte{b}); err != nil || http.NewResponseController(w).Flush() != nil {
			return
		}
		select {
		case <-tick.C:
		case <-r.Context().Done():
			return
		}
	}
}

// otherCertificate is a certificate for a name that is not a front's. Its own authority signs it, and all
// members trust that authority.
var otherCertificate = sync.OnceValue(func() tls.Certificate {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		panic(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "another"}, DNSNames: []string{"another.invalid"},
		NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
	}
	certificate, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		panic(err)
	}
	return tls.Certificate{Certificate: [][]byte{certificate}, PrivateKey: key}
})

func serverWithOtherName(t testing.TB, _ *testMember) string {
	t.Helper()
	server := httptest.NewUnstartedServer(http.NotFoundHandler())
	server.TLS = &tls.Config{Certificates: []tls.Certificate{otherCertificate()}}
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.StartTLS()
	t.Cleanup(server.Close)
	return server.Listener.Addr().String()
}

// With the probes of production, the hub detects within 45 seconds that a member's open connections
// carry no data.
func TestAHalfOpenConnectionIsNoticed(t *testing.T) {
	t.Parallel()
	env := sharedEnv(t)
	m := env.newMember(t, env.newOperator(t, "fleet-half-open", productionProbeInterval), "half-open")
	m.testFault(t, faultCase{inject: onLink(modeSilent), whenConnected: unreachable}, 45*time.Second)
}

// productionProbeInterval sets the probe interval of production.
func productionProbeInterval(o *setup) { o.ProbeInterval = 10 * time.Second }
