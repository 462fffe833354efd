package clusters_test

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/uuid"
)

// front is a member's view of the shared API server. It passes every request to the real API server
// with the member's own credentials, but has its own identity and certificate, and can inject
// faults into responses.
type front struct {
	server *httptest.Server

	mu    sync.Mutex
	id    types.UID
	fault fault
	open  map[*http.Request]time.Time // the open watches, and when each began
}

// fault answers a request in place of the API server, or reports that it does not.
type fault func(http.ResponseWriter, *http.Request) (answered bool)

// newFront starts a front that stops with the test.
func newFront(t testing.TB, behind *apiServer) *front {
	t.Helper()
	at, err := url.Parse(behind.environment.Config.Host)
	if err != nil {
		t.Fatal(err)
	}
	authority := x509.NewCertPool()
	authority.AppendCertsFromPEM(behind.environment.Config.CAData)
	f := &front{id: uuid.NewUUID(), open: map[*http.Request]time.Time{}}
	backend := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(at)
			if asksIdentity(r.In) {
				r.Out.Header.Set("Accept", "application/json")
			}
		},
		Transport: &http.Transport{
			TLSClientConfig: &tls.Config{RootCAs: authority}, ForceAttemptHTTP2: true,
			IdleConnTimeout: time.Second, // idle ones must not be mistaken for the operator's
		},
		ModifyResponse: f.identify,
		FlushInterval:  -1, // flush at once, for watches
		ErrorLog:       log.New(io.Discard, "", 0),
	}
	f.server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer f.note(r)()
		f.mu.Lock()
		fault := f.fault
		f.mu.Unlock()
		if fault == nil || !fault(w, r) {
			backend.ServeHTTP(w, r)
		}
	}))
	f.server.EnableHTTP2 = true
	f.server.Config.ErrorLog = log.New(io.Discard, "", 0)
	f.server.StartTLS()
	t.Cleanup(f.server.Close)
	t.Cleanup(f.server.CloseClientConnections)
	return f
}

// note records the beginning of a watch, and returns a function that records its end.
func (f *front) note(r *http.Request) (end func()) {
	if !r.URL.Query().Has("watch") {
		return func() {}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.open[r] = time.Now()
	return func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		delete(f.open, r)
	}
}

// watches returns the number of open watches, and when the newest began.
func (f *front) watches() (open int, newest time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, begun := range f.open {
		if begun.After(newest) {
			newest = begun
		}
	}
	return len(f.open), newest
}

// identify replaces the UID of the kube-system namespace with the member's own UID.
func (f *front) identify(response *http.Response) error {
	if !asksIdentity(response.Request) || response.StatusCode != http.StatusOK {
		return nil
	}
	var namespace unstructured.Unstructured
	if err := json.NewDecoder(response.Body).Decode(&namespace.Object); err != nil {
		return err
	}
	namespace.SetUID(f.identity())
	body, err := namespace.MarshalJSON()
	if err != nil {
		return err
	}
	response.Body = io.NopCloser(bytes.NewReader(body))
	response.Header.Set("Content-Length", strconv.Itoa(len(body)))
	return nil
}

func asksIdentity(r *http.Request) bool {
	return r.URL.Path == "/api/v1/namespaces/"+metav1.NamespaceSystem
}

func (f *front) identity() types.UID {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.id
}

// become changes the identity of the cluster.
func (f *front) become(id types.UID) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.id = id
}

// fail passes all requests from now on to the fault first; nil removes the fault.
func (f *front) fail(fault fault) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.fault = fault
}

// address returns the host and port.
func (f *front) address() string { return f.server.Listener.Addr().String() }

// authority returns the certificate that signs the front's, and one more, in PEM form.
func (f *front) authority() []byte {
	return slices.Concat(pemOf(f.server.Certificate().Raw), pemOf(another().Certificate[0]))
}

// pemOf returns a certificate in PEM form.
func pemOf(certificate []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certificate})
}

// beyondProbes answers every request except a probe's.
func beyondProbes(do http.HandlerFunc) fault {
	return func(w http.ResponseWriter, r *http.Request) bool {
		if asksIdentity(r) {
			return false
		}
		do(w, r)
		return true
	}
}

// hang does not answer until the client cancels the request.
func hang(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }
