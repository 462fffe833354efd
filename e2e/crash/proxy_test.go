package crash

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleetwright/fleetwright/e2e/framework"
	"github.com/fleetwright/fleetwright/e2e/ledger"
	"github.com/fleetwright/fleetwright/internal/environment/front"
)

const hubName = framework.HubName

// crashMode defines when the operator is killed at a request.
type crashMode string

const (
	beforeSent   crashMode = "before it is sent"
	responseLost crashMode = "committed, response lost"
)

var modes = []crashMode{beforeSent, responseLost}

// killPoint kills the operator at the number-th request that changes something in a namespace, of
// any kind or of one kind.
type killPoint struct {
	namespace string
	kill

	seen  int
	fired chan ledger.Request // at most one
}

// proxy forwards the requests of the operator to all clusters.
type proxy struct {
	server   *front.Server
	token    string
	backends map[string]http.Handler
	writing  map[string]*sync.Mutex // by cluster: one write at a time, because the ledger compares before and after
	ledger   *ledger.Ledger
	members  map[string]*framework.Cluster
	kill     func() error

	mu       sync.Mutex
	armed    *killPoint
	frozen   bool // the operator is being killed: its requests are dropped
	requests []ledger.Request
	watched  map[string]time.Time // start of the last watch, by cluster and resource
}

// newProxy returns a proxy that serves until the context ends. It forwards requests with the
// kubeconfig of the cluster.
func newProxy(ctx context.Context, kubeconfigs map[string][]byte, members map[string]*framework.Cluster, losses *ledger.Ledger, kill func() error) (*proxy, error) {
	p := &proxy{
		token: front.Token(), backends: map[string]http.Handler{}, writing: map[string]*sync.Mutex{},
		ledger: losses, members: members, kill: kill, watched: map[string]time.Time{},
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

// kubeconfig returns the operator's kubeconfig for a cluster.
func (p *proxy) kubeconfig(cluster string) ([]byte, error) {
	return front.Kubeconfig(p.server.Address+"/"+cluster, p.server.CA, p.token)
}

func (p *proxy) serve(w http.ResponseWriter, r *http.Request, cluster string) {
	if !front.HasToken(r, p.token) {
		front.Refuse(w, http.StatusUnauthorized, metav1.StatusReasonUnauthorized)
		return
	}
	body := front.Body(r)
	d := ledger.Describe(cluster, r, body)
	if !d.Changes {
		p.record(d)
		p.backends[cluster].ServeHTTP(w, r)
		return
	}
	p.change(w, r, d)
}

// change forwards a request that changes something, or kills the operator at it.
func (p *proxy) change(w http.ResponseWriter, r *http.Request, d ledger.Request) {
	point, dropped := p.count(d)
	if dropped {
		<-r.Context().Done() // the operator is gone
		panic(http.ErrAbortHandler)
	}
	if point == nil || point.mode == responseLost {
		response := p.forward(r, &d)
		if point == nil {
			maps.Copy(w.Header(), response.Header())
			w.WriteHeader(response.Code)
			_, _ = w.Write(response.Body.Bytes()) // fails only if the operator is gone
			return
		}
	}
	if err := p.kill(); err != nil {
		fmt.Println("crash: cannot kill the operator:", err) // the lifecycle will fail
	}
	point.fired <- d
	panic(http.ErrAbortHandler)
}

// count counts the request. It returns the kill point if the request reaches it, and whether the
// request is dropped because the operator is being killed.
func (p *proxy) count(d ledger.Request) (point *killPoint, dropped bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.frozen {
		return nil, true
	}
	if a := p.armed; a != nil && a.namespace == d.Namespace && (a.kind == "" || a.kind == d.Kind()) {
		if a.seen++; a.seen == a.number {
			p.armed, p.frozen = nil, true
			return a, false
		}
	}
	return nil, false
}

// forward forwards a request, even if the operator is killed meanwhile, and records it.
func (p *proxy) forward(r *http.Request, d *ledger.Request) *httptest.ResponseRecorder {
	p.writing[d.Cluster].Lock()
	defer p.writing[d.Cluster].Unlock()
	before := p.readObject(*d)
	response := httptest.NewRecorder()
	p.backends[d.Cluster].ServeHTTP(response, r.WithContext(context.WithoutCancel(r.Context())))
	d.Code = response.Code
	p.record(*d)
	p.ledger.Record(*d, before, p.readObject(*d))
	return response
}

// readObject reads the object of a request to a member.
func (p *proxy) readObject(d ledger.Request) ledger.ObjectState {
	if d.Cluster == hubName {
		return ledger.ObjectState{}
	}
	return ledger.ReadObject(p.members[d.Cluster].Client, d)
}

func (p *proxy) record(d ledger.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.requests = append(p.requests, d)
	if d.Verb == "WATCH" {
		p.watched[d.Cluster+"/"+d.Resource] = d.At
	}
}

// arm sets the kill point.
func (p *proxy) arm(namespace string, at kill) *killPoint {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.armed = &killPoint{namespace: namespace, kill: at, fired: make(chan ledger.Request, 1)}
	return p.armed
}

// disarm removes the kill point, and reports whether it has not fired.
func (p *proxy) disarm(point *killPoint) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.armed != point {
		return false
	}
	p.armed = nil
	return true
}

// unfreeze forwards requests again.
func (p *proxy) unfreeze() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.frozen = false
}

// since returns the requests since a time that keep accepts.
func (p *proxy) since(at time.Time, keep func(ledger.Request) bool) []ledger.Request {
	p.mu.Lock()
	defer p.mu.Unlock()
	var kept []ledger.Request
	for _, r := range p.requests { // in the order of the responses
		if !r.At.Before(at) && keep(r) {
			kept = append(kept, r)
		}
	}
	return kept
}

// checkWatches returns an error unless the operator has started, since a time, to watch the
// Deployments and Services of all members.
func (p *proxy) checkWatches(since time.Time) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, name := range members {
		for _, resource := range []string{"deployments", "services"} {
			if p.watched[name+"/"+resource].Before(since) {
				return fmt.Errorf("the operator does not watch the %s of %s", resource, name)
			}
		}
	}
	return nil
}

// changesIn returns a filter for the requests that change something in a namespace.
func changesIn(namespace string) func(ledger.Request) bool {
	return func(r ledger.Request) bool { return r.Changes && r.Namespace == namespace }
}
