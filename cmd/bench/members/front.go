package main

import (
	"context"
	"io"
	"net/http"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/uuid"

	"github.com/fleetwright/fleetwright/internal/environment"
	shared "github.com/fleetwright/fleetwright/internal/environment/front"
)

// front is an HTTPS server that serves as many members: each is a path with a token and an identity
// of its own, in front of one of a few clusters.
type front struct {
	address  string
	ca       []byte
	backends []http.Handler

	mu      sync.RWMutex
	members map[string]*virtual
}

// virtual is one of these members.
type virtual struct {
	uid     types.UID
	token   string
	backend http.Handler
	forbids bool
}

// newFront returns a server that runs until the context ends.
func newFront(ctx context.Context, clusters []environment.Cluster) (*front, error) {
	f := &front{members: map[string]*virtual{}}
	for _, cluster := range clusters {
		kubeconfig, err := cluster.MemberKubeconfig(ctx)
		if err != nil {
			return nil, err
		}
		backend, err := shared.Backend(kubeconfig)
		if err != nil {
			return nil, err
		}
		f.backends = append(f.backends, backend)
	}
	paths := http.NewServeMux()
	paths.HandleFunc("GET /m/{member}/api/v1/namespaces/kube-system", f.identify)
	paths.HandleFunc("/m/{member}/", f.forward)
	server, err := shared.Serve(ctx, paths)
	if err != nil {
		return nil, err
	}
	f.address, f.ca = server.Address, server.CA
	return f, nil
}

// add adds a member and returns its kubeconfig. A forbidding member only responds with its
// identity.
func (f *front) add(name string, forbids bool) ([]byte, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	v := &virtual{
		uid:     uuid.NewUUID(),
		token:   token(),
		backend: http.StripPrefix("/m/"+name, f.backends[len(f.members)%len(f.backends)]),
		forbids: forbids,
	}
	f.members[name] = v
	return kubeconfig(f.address+"/m/"+name, f.ca, v.token)
}

// member returns the member of a request, or responds that the token is wrong.
func (f *front) member(w http.ResponseWriter, r *http.Request) *virtual {
	f.mu.RLock()
	defer f.mu.RUnlock()
	v := f.members[r.PathValue("member")]
	if v == nil || !shared.HasToken(r, v.token) {
		shared.Refuse(w, http.StatusUnauthorized, metav1.StatusReasonUnauthorized)
		return nil
	}
	return v
}

// identify responds with the namespace kube-system, whose UID is the identity.
func (f *front) identify(w http.ResponseWriter, r *http.Request) {
	if v := f.member(w, r); v != nil {
		shared.Answer(w, http.StatusOK, &metav1.PartialObjectMetadata{
			TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Namespace"},
			ObjectMeta: metav1.ObjectMeta{Name: metav1.NamespaceSystem, UID: v.uid},
		})
	}
}

func (f *front) forward(w http.ResponseWriter, r *http.Request) {
	switch v := f.member(w, r); {
	case v == nil:
	case v.forbids:
		shared.Refuse(w, http.StatusForbidden, metav1.StatusReasonForbidden)
	default:
		v.backend.ServeHTTP(w, r)
	}
}

// blackHole returns the address of a server that accepts connections and never responds, until the
// context ends.
func blackHole(ctx context.Context) (string, error) {
	listener, err := shared.Listen(ctx)
	if err != nil {
		return "", err
	}
	context.AfterFunc(ctx, func() { _ = listener.Close() })
	go func() {
		for {
			connection, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer func() { _ = connection.Close() }()
				_, _ = io.Copy(io.Discard, connection) // until the client closes
			}()
		}
	}()
	return listener.Addr().String(), nil
}

func token() string { return shared.Token() }

func kubeconfig(server string, ca []byte, token string) ([]byte, error) {
	return shared.Kubeconfig(server, ca, token)
}
