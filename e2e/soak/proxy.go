package main

import (
	"context"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fleetwright/fleetwright/e2e/ledger"
	"github.com/fleetwright/fleetwright/internal/environment/front"
)

// faultRate is the share of the requests that get a fault.
const faultRate = 0.01

// fault is what happens to a request.
type fault string

const (
	noFault      fault = ""
	notSent      fault = "closed before it was forwarded"
	responseLost fault = "closed after it was forwarded"
	watchEnded   fault = "a watch closed" // after some seconds
	error500     fault = "500"
	error503     fault = "503"
	throttled    fault = "429"
)

// faults chooses the faults of requests. Their order is not that of the actions, because the order
// of the operator's requests differs in each run.
type faults struct {
	mu      sync.Mutex
	random  *rand.Rand
	enabled bool
	counts  map[fault]int
	total   int // requests, with and without a fault
}

func newFaults(seed uint64) *faults {
	return &faults{random: rand.New(rand.NewPCG(seed, 1)), enabled: true, counts: map[fault]int{}}
}

// choose returns the fault of a request.
func (f *faults) choose(isWatch bool) fault {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.total++
	if !f.enabled || f.random.Float64() >= faultRate {
		return noFault
	}
	kinds := []fault{notSent, responseLost, error500, error503, throttled}
	if isWatch {
		kinds = []fault{notSent, watchEnded, watchEnded, error500, throttled}
	}
	chosen := kinds[f.random.IntN(len(kinds))]
	f.counts[chosen]++
	return chosen
}

// disable lets all further requests pass.
func (f *faults) disable() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.enabled = false
}

// figures returns the number of requests, and of those with each fault.
func (f *faults) figures() (total int, counts map[fault]int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.total, maps.Clone(f.counts)
}

// proxy forwards the requests of the operator to one cluster.
type proxy struct {
	*gate

	cluster string
	ca      []byte
	backend http.Handler
	reader  client.Reader // of the cluster, not through the proxy
	faults  *faults
	ledger  *ledger.Ledger

	writing sync.Mutex // one write at a time, because the ledger compares before and after

	mu     sync.Mutex
	tokens []string         // which are valid, the newest one last
	writes int              // the number of requests that changed something
	last   []ledger.Request // the last of them
}

// newProxy returns a proxy that serves until the context ends. It forwards requests with the
// kubeconfig.
func newProxy(ctx context.Context, cluster string, kubeconfig []byte, reader client.Reader, f *faults, losses *ledger.Ledger) (*proxy, error) {
	backend, err := front.Backend(kubeconfig)
	if err != nil {
		return nil, err
	}
	p := &proxy{cluster: cluster, backend: backend, reader: reader, faults: f, ledger: losses, tokens: []string{front.Token()}}
	server, err := front.Serve(ctx, p)
	if err != nil {
		return nil, err
	}
	p.ca = server.CA
	p.gate, err = newGate(ctx, server.Address)
	return p, err
}

// kubeconfig returns the operator's kubeconfig, with the newest token.
func (p *proxy) kubeconfig() ([]byte, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return front.Kubeconfig(p.address, p.ca, p.tokens[len(p.tokens)-1])
}

// addToken makes another token valid.
func (p *proxy) addToken() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.tokens = append(p.tokens, front.Token())
}

// revokeOld makes the newest token the only valid one.
func (p *proxy) revokeOld() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.tokens = p.tokens[len(p.tokens)-1:]
}

func (p *proxy) isAuthenticated(r *http.Request) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, token := range p.tokens {
		if front.HasToken(r, token) {
			return true
		}
	}
	return false
}

// ServeHTTP serves one request of the operator.
func (p *proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !p.isAuthenticated(r) {
		front.Refuse(w, http.StatusUnauthorized, metav1.StatusReasonUnauthorized)
		return
	}
	body := front.Body(r)
	request := ledger.Describe(p.cluster, r, body)
	isWatch := request.Verb == "WATCH"
	switch chosen := p.faults.choose(isWatch); chosen {
	case notSent:
		panic(http.ErrAbortHandler)
	case error500:
		front.Refuse(w, http.StatusInternalServerError, metav1.StatusReasonInternalError)
	case error503:
		front.Refuse(w, http.StatusServiceUnavailable, metav1.StatusReasonServiceUnavailable)
	case throttled:
		w.Header().Set("Retry-After", "1")
		front.Refuse(w, http.StatusTooManyRequests, metav1.StatusReasonTooManyRequests)
	case watchEnded:
		p.endWatch(w, r)
	case noFault, responseLost:
		if isWatch {
			p.backend.ServeHTTP(w, r)
			return
		}
		response := p.forward(r, request)
		if chosen == responseLost {
			panic(http.ErrAbortHandler)
		}
		maps.Copy(w.Header(), response.Header())
		w.WriteHeader(response.Code)
		_, _ = w.Write(response.Body.Bytes()) // fails only if the operator is gone
	}
}

// endWatch forwards a watch and ends it after some seconds.
func (p *proxy) endWatch(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), 5*time.Second)
	defer cancel()
	p.backend.ServeHTTP(w, r.WithContext(ctx))
	panic(http.ErrAbortHandler)
}

// forward forwards a request, even if the operator is gone meanwhile, and records it.
func (p *proxy) forward(r *http.Request, request ledger.Request) *httptest.ResponseRecorder {
	response := httptest.NewRecorder()
	if !request.Changes {
		p.backend.ServeHTTP(response, r)
		return response
	}
	p.writing.Lock()
	defer p.writing.Unlock()
	before := ledger.ReadObject(p.reader, request)
	p.backend.ServeHTTP(response, r.WithContext(context.WithoutCancel(r.Context())))
	request.Code = response.Code
	p.count(request)
	p.ledger.Record(request, before, ledger.ReadObject(p.reader, request))
	return response
}

// keptWrites is the number of writes that a proxy remembers.
const keptWrites = 100

// count counts a write. The number of AppServices of a MemberCluster is not counted: it is written
// after a while, also when everything has converged.
func (p *proxy) count(request ledger.Request) {
	if request.Counts {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.writes++
	p.last = append(p.last[max(0, len(p.last)-keptWrites+1):], request)
}

// written returns the number of writes so far, and the last of them.
func (p *proxy) written() (int, []ledger.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.writes, slices.Clone(p.last)
}
