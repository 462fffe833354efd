package main

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	certutil "k8s.io/client-go/util/cert"

	"github.com/fleetwright/fleetwright/e2e/environment"
)

// front is an HTTPS server that is many members: each is a path, with a token and an identity of its own, before
// one of a few clusters.
type front struct {
	address  string
	ca       []byte
	backends []http.Handler

	mu      sync.RWMutex
	members map[string]*virtual
}

// virtual is one of them.
type virtual struct {
	uid     types.UID
	token   string
	backend http.Handler
	forbids bool
}

// newFront serves until the context ends.
func newFront(ctx context.Context, clusters []environment.Cluster) (*front, error) {
	certificate, key, err := certutil.GenerateSelfSignedCertKey("127.0.0.1", []net.IP{net.IPv4(127, 0, 0, 1)}, nil)
	if err != nil {
		return nil, fmt.Errorf("make a certificate: %w", err)
	}
	pair, err := tls.X509KeyPair(certificate, key)
	if err != nil {
		return nil, fmt.Errorf("read the certificate: %w", err)
	}
	_, ca := pem.Decode(certificate) // the CA's follows the server's
	listener, err := listen(ctx)
	if err != nil {
		return nil, err
	}
	f := &front{address: listener.Addr().String(), ca: ca, members: map[string]*virtual{}}
	for _, cluster := range clusters {
		backend, err := newBackend(cluster)
		if err != nil {
			return nil, err
		}
		f.backends = append(f.backends, backend)
	}
	paths := http.NewServeMux()
	paths.HandleFunc("GET /m/{member}/api/v1/namespaces/kube-system", f.identify)
	paths.HandleFunc("/m/{member}/", f.forward)
	server := &http.Server{
		Handler:           paths,
		TLSConfig:         &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12},
		ReadHeaderTimeout: 10 * time.Second,
		ErrorLog:          silent,
	}
	context.AfterFunc(ctx, func() { _ = server.Close() })
	go func() { _ = server.ServeTLS(listener, "", "") }() // ends with the context
	return f, nil
}

// silent takes what the servers have to say of connections that the operator has cut.
var silent = log.New(io.Discard, "", 0)

func listen(ctx context.Context) (net.Listener, error) {
	return new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
}

// newBackend forwards to a cluster, as its administrator.
func newBackend(cluster environment.Cluster) (http.Handler, error) {
	config, err := clientcmd.RESTConfigFromKubeConfig(cluster.Kubeconfig())
	if err != nil {
		return nil, fmt.Errorf("read the kubeconfig of %s: %w", cluster.Name(), err)
	}
	transport, err := rest.TransportFor(config)
	if err != nil {
		return nil, fmt.Errorf("use the kubeconfig of %s: %w", cluster.Name(), err)
	}
	server, err := url.Parse(config.Host)
	if err != nil {
		return nil, fmt.Errorf("read the kubeconfig of %s: %w", cluster.Name(), err)
	}
	return &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(server)
			r.Out.Header.Del("Authorization")
		},
		Transport:     transport,
		FlushInterval: -1, // watches
		ErrorLog:      silent,
	}, nil
}

// add makes the next member, and returns its kubeconfig. One that forbids answers who it is, and nothing else.
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

// token is as long as those of service accounts are.
func token() string {
	var long strings.Builder
	for long.Len() < 900 {
		long.WriteString(rand.Text())
	}
	return long.String()
}

// member returns the one that the request is for, or answers that the token is not its.
func (f *front) member(w http.ResponseWriter, r *http.Request) *virtual {
	f.mu.RLock()
	defer f.mu.RUnlock()
	v := f.members[r.PathValue("member")]
	if v == nil || r.Header.Get("Authorization") != "Bearer "+v.token {
		refuse(w, http.StatusUnauthorized, metav1.StatusReasonUnauthorized)
		return nil
	}
	return v
}

// identify answers with the kube-system namespace, of which only the identity is asked.
func (f *front) identify(w http.ResponseWriter, r *http.Request) {
	if v := f.member(w, r); v != nil {
		answer(w, http.StatusOK, &metav1.PartialObjectMetadata{
			TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Namespace"},
			ObjectMeta: metav1.ObjectMeta{Name: metav1.NamespaceSystem, UID: v.uid},
		})
	}
}

func (f *front) forward(w http.ResponseWriter, r *http.Request) {
	switch v := f.member(w, r); {
	case v == nil:
	case v.forbids:
		refuse(w, http.StatusForbidden, metav1.StatusReasonForbidden)
	default:
		v.backend.ServeHTTP(w, r)
	}
}

func refuse(w http.ResponseWriter, code int32, reason metav1.StatusReason) {
	answer(w, int(code), &metav1.Status{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"},
		Status:   metav1.StatusFailure, Code: code, Reason: reason, Message: "the benchmark refuses this",
	})
}

func answer(w http.ResponseWriter, code int, object any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(object) // the client is gone, or has it
}

// blackHole returns the address of a server that accepts connections and never says a word, until the context ends.
func blackHole(ctx context.Context) (string, error) {
	listener, err := listen(ctx)
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
				_, _ = io.Copy(io.Discard, connection) // until the client gives up
			}()
		}
	}()
	return listener.Addr().String(), nil
}

func kubeconfig(server string, ca []byte, token string) ([]byte, error) {
	config := clientcmdapi.NewConfig()
	config.Clusters["member"] = &clientcmdapi.Cluster{Server: "https://" + server, CertificateAuthorityData: ca}
	config.AuthInfos["fleetwright"] = &clientcmdapi.AuthInfo{Token: token}
	config.Contexts["member"] = &clientcmdapi.Context{Cluster: "member", AuthInfo: "fleetwright"}
	config.CurrentContext = "member"
	return clientcmd.Write(*config)
}
