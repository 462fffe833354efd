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

// badMember is one way in which a member can be faulty.
type badMember struct {
	name string
	// turn makes a member faulty. mend reverts its changes to the link and the front.
	turn func(testing.TB, *member)
	// fresh is the expected Ready condition of a member whose Secret is new, and joined that of a
	// member that was healthy before. goesOn means that the fault has no effect, "" that the case
	// is impossible. The expected CredentialsValid condition follows from these.
	fresh, joined string
	// The condition must be reported within this time; the default is soon.
	freshWithin, joinedWithin time.Duration
}

const (
	goesOn      = "True Connected"
	unreachable = "Unknown Unreachable"
	unhealthy   = "Unknown Unhealthy"
	forbids     = "False Forbidden"

	// A list that hangs is abandoned and reported after ConnectTimeout.
	afterTimeout = 75 * time.Second
	// Failing watches are abandoned after 15 seconds of failures, at the second probe that notices.
	afterTrouble = time.Minute
	// A member is connected again within this time after its fault is fixed, because it was
	// unavailable for less than a minute.
	mended = time.Minute
)

func badMembers() []badMember {
	return []badMember{
		// Faults of the network.
		{name: "refuses connections", turn: linked(refuse), fresh: unreachable, joined: unreachable},
		{name: "drops SYNs", turn: linked(drop), fresh: unreachable, joined: unreachable},
		{name: "accepts and is silent", turn: linked(silent), fresh: unreachable, joined: unreachable},
		{name: "breaks off in its TLS hello", turn: linked(halfway), fresh: unreachable, joined: unreachable},
		// Another server.
		{name: "has a certificate of another CA", turn: led(func(_ testing.TB, m *member) string { return m.hub.address() }), fresh: unhealthy, joined: unhealthy},
		{name: "has a certificate of another name", turn: led(otherName), fresh: unhealthy, joined: unhealthy},
		{name: "is another cluster", turn: func(_ testing.TB, m *member) { m.front.become("another-" + m.front.identity()) }, joined: "False IdentityChanged"},
		// Faulty responses to all requests.
		{name: "hangs", turn: all(hang), fresh: unreachable, joined: unreachable},
		{name: "takes 10 s for each answer", turn: all(late(10 * time.Second)), fresh: unreachable, joined: unreachable},
		{name: "answers 401", turn: all(code(http.StatusUnauthorized)), fresh: "False Unauthorized", joined: "False Unauthorized"},
		{name: "answers 403", turn: all(code(http.StatusForbidden)), fresh: forbids, joined: forbids},
		{name: "answers 429", turn: all(code(http.StatusTooManyRequests)), fresh: unhealthy, joined: unhealthy},
		{name: "answers 500", turn: all(code(http.StatusInternalServerError)), fresh: unhealthy, joined: unhealthy},
		{name: "answers 503", turn: all(code(http.StatusServiceUnavailable)), fresh: unhealthy, joined: unhealthy},
		{name: "redirects", turn: all(redirect), fresh: unhealthy, joined: unhealthy},
		{name: "answers with a gzip bomb", turn: all(bomb), fresh: unhealthy, joined: unhealthy},
		{name: "answers with huge headers", turn: all(hugeHeaders), fresh: unreachable, joined: unreachable},
		// Faulty responses to lists, watches and writes, but not to probes.
		{name: "hangs but for probes", turn: others(hang), fresh: unreachable, joined: unreachable, freshWithin: afterTimeout, joinedWithin: afterTrouble},
		{name: "answers 403 but to probes", turn: others(code(http.StatusForbidden)), fresh: forbids, joined: forbids, joinedWithin: afterTrouble},
		{name: "answers 429 but to probes", turn: others(code(http.StatusTooManyRequests)), fresh: unhealthy, joined: unhealthy, freshWithin: afterTimeout, joinedWithin: afterTrouble},
		{name: "answers 503 but to probes", turn: others(code(http.StatusServiceUnavailable)), fresh: unhealthy, joined: unhealthy, freshWithin: afterTimeout, joinedWithin: afterTrouble},
		{name: "answers with a gzip bomb but to probes", turn: others(bomb), fresh: unhealthy, joined: unhealthy, freshWithin: afterTimeout, joinedWithin: afterTrouble},
		// Faulty lists. A watch resumes at its last resource version and needs no list.
		{name: "answers 403 to lists", turn: lists(code(http.StatusForbidden)), fresh: forbids, joined: goesOn},
		{name: "sends a list of 1 GB", turn: lists(endless), fresh: unhealthy, joined: goesOn, freshWithin: afterTimeout},
		{name: "sends its lists in pages without end", turn: lists(pages), fresh: unhealthy, joined: goesOn},
		{name: "sends a relist in pages without end", turn: relists(pages), joined: unhealthy, joinedWithin: afterTimeout},
		{name: "breaks off in its lists", turn: lists(breakOff), fresh: unreachable, joined: goesOn, freshWithin: afterTimeout},
		{name: "has an absurd quantity", turn: lists(quantities(listHead+"%s]}", `"1e-2000000000"`)), fresh: unhealthy, joined: goesOn, freshWithin: afterTimeout},
		// Faulty watches.
		{name: "answers 503 to watches", turn: watches(code(http.StatusServiceUnavailable)), joined: unhealthy, joinedWithin: afterTrouble},
		{name: "answers watches with an error that does not end", turn: watches(neverDone), joined: unhealthy, joinedWithin: afterTrouble},
		{name: "tells watches an absurd quantity", turn: watches(quantities(event, `1234567890123456789e2000000000`)), joined: unhealthy, joinedWithin: afterTrouble},
		{name: "sends garbage to watches", turn: watches(garbage), joined: unhealthy, joinedWithin: afterTrouble},
		{name: "calls every watch too old", turn: watches(gone), joined: unhealthy, joinedWithin: afterTrouble},
		{name: "stalls in the list that a watch too old calls for", turn: relists(mute), joined: unreachable, joinedWithin: afterTimeout},
		{name: "puts off the list that a watch too old calls for by a day", turn: relists(tomorrow), joined: unhealthy, joinedWithin: afterTimeout},
		{name: "calls a watch too old", turn: func(t testing.TB, m *member) { watches(once(gone))(t, m) }, fresh: goesOn, joined: goesOn},
	}
}

// Each fault hits healthy members and members whose Secret is new. The operator reports the fault
// in time, and reconnects the members by itself after the fault is fixed.
func TestFaults(t *testing.T) {
	t.Parallel()
	w := shared(t)
	o := w.own(t, "fleet-faults")
	for i, bad := range badMembers() {
		if bad.fresh != "" {
			t.Run("a new member that "+bad.name, func(t *testing.T) {
				t.Parallel()
				m := w.newMember(t, o, fmt.Sprintf("fault-new-%d", i))
				bad.turn(t, m)
				m.create(t, m.kubeconfig(t))
				if bad.fresh == goesOn {
					m.engaged(t, 1, soon)
					return
				}
				timed(t, "shown", func() { m.shows(t, cmp.Or(bad.freshWithin, soon), conditions(bad.fresh, "Unknown NotVerified")) })
				m.neverEngaged(t, 0)
				m.mend(t)
				timed(t, "connected", func() {
					e := m.engaged(t, 1, mended)
					e.works(t)
					m.goesOn(t, e)
				})
			})
		}
		if bad.joined != "" {
			t.Run("a member that "+bad.name, func(t *testing.T) {
				t.Parallel()
				m := w.newMember(t, o, fmt.Sprintf("fault-%d", i))
				m.breaks(t, bad, cmp.Or(bad.joinedWithin, soon))
			})
		}
	}
}

// An open watch without events would leave a member Ready forever, with an outdated cache.
func TestAWatchThatTellsNothing(t *testing.T) {
	t.Parallel()
	w := shared(t)
	// With this limit, a healthy watch is lost, too.
	soonSilent := func(o *setup) { o.WatchSilence = 10 * time.Second }
	o := w.own(t, "fleet-silent-watches", soonSilent)
	for name, fault := range map[string]http.HandlerFunc{"sends a byte a second": dripping, "says nothing": mute} {
		t.Run("a member that "+name+" to watches", func(t *testing.T) {
			t.Parallel()
			m := w.newMember(t, o, "silent-watch-"+label(name))
			watches(fault)(t, m)
			m.create(t, m.kubeconfig(t))
			e := m.engaged(t, 1, soon)
			m.ends(t, e, soon)
			m.shows(t, soon, conditions(unhealthy, "True Accepted"))
		})
	}
}

// Failures before the caches were in sync do not count later.
func TestAMemberThatWasNotWellAtFirstIsEngagedForGood(t *testing.T) {
	t.Parallel()
	w := shared(t)
	m := w.newMember(t, w.operator, "not-well-at-first")
	lists(code(http.StatusServiceUnavailable))(t, m)
	m.create(t, m.kubeconfig(t))
	time.Sleep(18 * time.Second) // within the time that connecting may take
	m.mend(t)
	e := m.engaged(t, 1, mended)
	time.Sleep(6 * time.Second) // two probes
	m.goesOn(t, e)
	m.shows(t, 0, joined)
}

// relists ends the watches as too old, and answers the following lists with do.
func relists(do http.HandlerFunc) func(testing.TB, *member) {
	return answered(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Has("watch") {
			gone(w, r)
			return
		}
		do(w, r)
	}, func(r *http.Request) bool { return r.Method == http.MethodGet && r.URL.RawQuery != "" })
}

// tomorrow answers with a Retry-After of a day.
func tomorrow(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Retry-After", "86400")
	w.WriteHeader(http.StatusServiceUnavailable)
}

// neverDone answers with an error whose body never ends.
func neverDone(w http.ResponseWriter, r *http.Request) {
	w.WriteHeader(http.StatusServiceUnavailable)
	if http.NewResponseController(w).Flush() == nil {
		<-r.Context().Done()
	}
}

// mute sends the header of a response, and no body.
func mute(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	if http.NewResponseController(w).Flush() == nil {
		<-r.Context().Done()
	}
}

// breaks makes a member join, turn faulty, and recover.
func (m *member) breaks(t *testing.T, bad badMember, within time.Duration) {
	t.Helper()
	first, id := m.join(t), m.front.identity()
	m.settles(t)
	bad.turn(t, m)
	if bad.joined == goesOn {
		m.deploy(t, m.name)
		timed(t, "cached", func() { first.has(t, m.name, soon) })
		m.goesOn(t, first)
		m.shows(t, 0, joined)
		return
	}
	timed(t, "shown", func() { m.shows(t, within, conditions(bad.joined, "True Accepted")) })
	m.ends(t, first, 5*time.Second)
	m.deploy(t, m.name)
	m.front.become(id)
	m.mend(t)
	timed(t, "connected", func() {
		second := m.engaged(t, 2, mended)
		// The member may have been engaged, and fail again, before the fault was fixed.
		second.has(t, m.name, soon)
		second.works(t)
		m.goesOn(t, second)
	})
}

// settles waits until the watches of a member would resume after a disconnect. client-go lists
// again after a watch that ends within a second without an event, and counts from the moment at
// which the initial objects were in the cache.
func (m *member) settles(t testing.TB) {
	t.Helper()
	begun := time.Now()
	eventually(t, soon, func() error {
		open, newest := m.front.watches()
		if newest.Before(begun) {
			newest = begun
		}
		if open < len(watched()) || time.Since(newest) < 2*time.Second {
			return fmt.Errorf("%d watches are open, the newest for %s", open, time.Since(newest))
		}
		return nil
	})
}

// works waits until an engagement can read. A member that has just sent much data may be throttled
// for a while.
func (e engagement) works(t testing.TB) {
	t.Helper()
	eventually(t, soon, func() error {
		return e.cluster.GetAPIReader().Get(ctx, client.ObjectKey{Name: metav1.NamespaceSystem}, &corev1.Namespace{})
	})
}

// conditions returns the conditions of a faulty member. The credentials keep their condition,
// unless the member refuses them.
func conditions(ready, credentials string) string {
	if ready == "False Unauthorized" {
		credentials = ready
	}
	return "Ready " + ready + ", CredentialsValid " + credentials
}

// timed logs how long do takes.
func timed(t testing.TB, what string, do func()) {
	t.Helper()
	begun := time.Now()
	do()
	t.Logf("%s after %s", what, time.Since(begun).Round(100*time.Millisecond))
}

// mend reverts a fault of the link or the front.
func (m *member) mend(t testing.TB) {
	t.Helper()
	m.front.fail(nil)
	m.link.lead(m.front.address())
	m.link.turn(t, pass)
	m.link.cut() // closes requests that hang in the fault
}

// linked returns a fault of the link.
func linked(to mode) func(testing.TB, *member) {
	return func(t testing.TB, m *member) { m.link.turn(t, to) }
}

// led redirects the link to another server.
func led(to func(testing.TB, *member) string) func(testing.TB, *member) {
	return func(t testing.TB, m *member) {
		m.link.lead(to(t, m))
		m.link.cut()
	}
}

// answered makes the front answer the selected requests with do. It resets the open connections, so
// that watches restart and meet the fault.
func answered(do http.HandlerFunc, which func(*http.Request) bool) func(testing.TB, *member) {
	return func(_ testing.TB, m *member) {
		m.front.fail(func(w http.ResponseWriter, r *http.Request) bool {
			if !which(r) {
				return false
			}
			do(w, r)
			return true
		})
		m.link.cut()
	}
}

func all(do http.HandlerFunc) func(testing.TB, *member) {
	return answered(do, func(*http.Request) bool { return true })
}

func others(do http.HandlerFunc) func(testing.TB, *member) {
	return answered(do, func(r *http.Request) bool { return !asksIdentity(r) })
}

func lists(do http.HandlerFunc) func(testing.TB, *member) {
	return answered(do, func(r *http.Request) bool {
		q := r.URL.Query()
		return r.Method == http.MethodGet && !asksIdentity(r) && (!q.Has("watch") || q.Has("sendInitialEvents"))
	})
}

func watches(do http.HandlerFunc) func(testing.TB, *member) {
	return answered(do, func(r *http.Request) bool { return r.URL.Query().Has("watch") })
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

func code(code int) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", "1")
		w.WriteHeader(code)
	}
}

func late(delay time.Duration) http.HandlerFunc {
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

// aMillionZeros is a megabyte of zeros in gzip format. Any number of copies can be concatenated.
var aMillionZeros = sync.OnceValue(func() []byte {
	var zeros bytes.Buffer
	compressed := gzip.NewWriter(&zeros)
	_, _ = compressed.Write(make([]byte, 1<<20))
	_ = compressed.Close()
	return zeros.Bytes()
})

// bomb sends a megabyte that decompresses to a gigabyte.
func bomb(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Encoding", "gzip")
	_, _ = w.Write(bytes.Repeat(aMillionZeros(), 1<<10))
}

func hugeHeaders(w http.ResponseWriter, _ *http.Request) {
	for i := range 16 {
		w.Header().Set(fmt.Sprintf("X-Huge-%d", i), strings.Repeat("x", 1<<20))
	}
	w.WriteHeader(http.StatusOK)
}

// flood sends a piece repeatedly, up to a gigabyte.
func flood(w io.Writer, piece string) {
	pieces := []byte(strings.Repeat(piece, 32<<10/len(piece)))
	for sent := 0; sent < 1<<30; {
		n, err := w.Write(pieces)
		if err != nil {
			return
		}
		sent += n
	}
}

const listHead = `{"kind": "DeploymentList", "apiVersion": "apps/v1", "metadata": {"resourceVersion": "1"}, "items": [`

func endless(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	_, _ = io.WriteString(w, listHead)
	flood(w, `{"metadata": {"namespace": "default", "name": "x"}},`)
}

// pages answers each list request with a page that has a continuation.
func pages(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	_, _ = io.WriteString(w, strings.Replace(listHead, `"resourceVersion"`, `"continue": "more", "resourceVersion"`, 1)+`{"metadata": {"name": "x"}}]}`)
}

func breakOff(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	_, _ = io.WriteString(w, listHead+`{"metadata": {"name`)
	panic(http.ErrAbortHandler)
}

func garbage(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	_, _ = io.WriteString(w, strings.Repeat("\x00garbage\xff", 1000))
}

func gone(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	_, _ = io.WriteString(w, `{"type": "ERROR", "object": {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
		"message": "too old resource version: 1 (2)", "reason": "Expired", "code": 410}}`+"\n")
}

func dripping(w http.ResponseWriter, r *http.Request) {
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

// another is a certificate for a name that is not a front's. Its own authority signs it, and all
// members trust that authority.
var another = sync.OnceValue(func() tls.Certificate {
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

func otherName(t testing.TB, _ *member) string {
	t.Helper()
	server := httptest.NewUnstartedServer(http.NotFoundHandler())
	server.TLS = &tls.Config{Certificates: []tls.Certificate{another()}}
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.StartTLS()
	t.Cleanup(server.Close)
	return server.Listener.Addr().String()
}

// With the probes of production, the hub detects within 45 seconds that a member's open connections
// carry no data.
func TestAHalfOpenConnectionIsNoticed(t *testing.T) {
	t.Parallel()
	w := shared(t)
	m := w.newMember(t, w.own(t, "fleet-half-open", asInProduction), "half-open")
	m.breaks(t, badMember{turn: linked(silent), joined: unreachable}, 45*time.Second)
}

// asInProduction sets the probe interval of production.
func asInProduction(o *setup) { o.ProbeInterval = 10 * time.Second }
