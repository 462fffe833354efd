package crash

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fleetwright/fleetwright/e2e/environment/front"
)

const hubName = "hub"

// way is how a request is cut off.
type way string

const (
	beforeSent way = "before it is sent"
	answerLost way = "committed, answer lost"
)

var ways = []way{beforeSent, answerLost}

// trap waits for the number-th request that changes something of a namespace, or the number-th of one kind, and kills the operator there.
type trap struct {
	namespace string
	kill

	seen   int
	sprung chan request // one at most
}

// proxy stands between the operator and all clusters.
type proxy struct {
	server   *front.Server
	token    string
	backends map[string]http.Handler
	writing  map[string]*sync.Mutex // one write at a time to a cluster: the ledger compares before and after
	ledger   *ledger
	api      map[string]client.Client
	kill     func() error

	mu       sync.Mutex
	trap     *trap
	frozen   bool // the operator is being killed: nothing that it asks is sent any more
	requests []request
	watched  map[string]time.Time // by cluster and resource, when a watch began last
}

// newProxy serves until the context ends. What the operator asks of a cluster is sent on by that cluster's kubeconfig.
func newProxy(ctx context.Context, kubeconfigs map[string][]byte, api map[string]client.Client, ledger *ledger, kill func() error) (*proxy, error) {
	p := &proxy{
		token: front.Token(), backends: map[string]http.Handler{}, writing: map[string]*sync.Mutex{},
		ledger: ledger, api: api, kill: kill, watched: map[string]time.Time{},
	}
	for name, kubeconfig := range kubeconfigs {
		backend, err := front.Backend(kubeconfig)
		if err != nil {
			return nil, err
		}
		p.backends[name], p.writing[name] = backend, &sync.Mutex{}
	}
	paths := http.NewServeMux()
	for name := range p.backends {
		paths.Handle("/"+name+"/", http.StripPrefix("/"+name, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { p.serve(w, r, name) })))
	}
	var err error
	p.server, err = front.Serve(ctx, paths)
	return p, err
}

// kubeconfig is the operator's for a cluster.
func (p *proxy) kubeconfig(cluster string) ([]byte, error) {
	return front.Kubeconfig(p.server.Address+"/"+cluster, p.server.CA, p.token)
}

func (p *proxy) serve(w http.ResponseWriter, r *http.Request, cluster string) {
	if !front.Bears(r, p.token) {
		front.Refuse(w, http.StatusUnauthorized, metav1.StatusReasonUnauthorized)
		return
	}
	var body []byte
	if r.Method != http.MethodGet {
		var err error
		if body, err = io.ReadAll(r.Body); err != nil {
			panic(http.ErrAbortHandler) // the operator died over it
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
	}
	d := describe(cluster, r, body)
	if !d.changes {
		p.note(d)
		p.backends[cluster].ServeHTTP(w, r)
		return
	}
	p.change(w, r, d)
}

// change sends a request that changes something, unless the operator is to die of it.
func (p *proxy) change(w http.ResponseWriter, r *http.Request, d request) {
	sprung, dropped := p.number(d)
	if dropped {
		<-r.Context().Done() // the end of the operator
		panic(http.ErrAbortHandler)
	}
	if sprung == nil || sprung.way == answerLost {
		answer := p.send(r, &d)
		if sprung == nil {
			maps.Copy(w.Header(), answer.Header())
			w.WriteHeader(answer.Code)
			_, _ = w.Write(answer.Body.Bytes()) // the operator has it, or is dead
			return
		}
	}
	if err := p.kill(); err != nil {
		fmt.Println("crash: the operator could not be killed:", err) // so the life fails
	}
	sprung.sprung <- d
	panic(http.ErrAbortHandler)
}

// number counts the request, and tells whether it springs the trap, or comes when the operator is dying already.
func (p *proxy) number(d request) (sprung *trap, dropped bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.frozen {
		return nil, true
	}
	if t := p.trap; t != nil && t.namespace == d.namespace && (t.kind == "" || t.kind == d.kind()) {
		if t.seen++; t.seen == t.number {
			p.trap, p.frozen = nil, true
			return t, false
		}
	}
	return nil, false
}

// send sends a request to its end, whatever becomes of the operator meanwhile, and notes it.
func (p *proxy) send(r *http.Request, d *request) *httptest.ResponseRecorder {
	p.writing[d.cluster].Lock()
	defer p.writing[d.cluster].Unlock()
	before := p.look(*d)
	answer := httptest.NewRecorder()
	p.backends[d.cluster].ServeHTTP(answer, r.WithContext(context.WithoutCancel(r.Context())))
	d.code = answer.Code
	p.note(*d)
	p.ledger.enter(*d, before, p.look(*d))
	return answer
}

// look reads what a request to a member is about, as far as the ledger wants it.
func (p *proxy) look(d request) held {
	if d.cluster == hubName {
		return held{}
	}
	return look(p.api[d.cluster], d)
}

func (p *proxy) note(d request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.requests = append(p.requests, d)
	if d.verb == "WATCH" {
		p.watched[d.cluster+"/"+d.resource] = d.at
	}
}

// set arms a trap.
func (p *proxy) set(namespace string, at kill) *trap {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.trap = &trap{namespace: namespace, kill: at, sprung: make(chan request, 1)}
	return p.trap
}

// disarm takes a trap away, and tells whether it has not sprung.
func (p *proxy) disarm(t *trap) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.trap != t {
		return false
	}
	p.trap = nil
	return true
}

// thaw lets requests pass again.
func (p *proxy) thaw() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.frozen = false
}

// since returns the requests that came at this time or later, and for which keep holds.
func (p *proxy) since(at time.Time, keep func(request) bool) []request {
	p.mu.Lock()
	defer p.mu.Unlock()
	var kept []request
	for _, r := range p.requests { // they are in the order of their answers
		if !r.at.Before(at) && keep(r) {
			kept = append(kept, r)
		}
	}
	return kept
}

// watches is nil when the operator has begun to watch Deployments and Services of all members since a time.
func (p *proxy) watches(since time.Time) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, name := range members {
		for _, resource := range []string{"deployments", "services"} {
			if p.watched[name+"/"+resource].Before(since) {
				return fmt.Errorf("it does not watch the %s of %s", resource, name)
			}
		}
	}
	return nil
}

// changing keeps the numbered requests about a namespace.
func changing(namespace string) func(request) bool {
	return func(r request) bool { return r.changes && r.namespace == namespace }
}
