package clusters_test

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
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

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/uuid"

	"github.com/fleetwright/fleetwright/internal/wait"
)

// faultProxy is a member's view of the shared API server. It passes every request to the real API
// server with the member's own credentials, but has its own identity and certificate, and can
// inject faults into responses.
type faultProxy struct {
	server *httptest.Server

	mu     sync.Mutex
	id     types.UID
	fault  fault
	probes int // probes that were answered
	faulty int // requests that met the fault
}

// fault answers a request in place of the API server, or reports that it does not.
type fault func(http.ResponseWriter, *http.Request) (answered bool)

// newFaultProxy starts a proxy for an API server. It stops with the test.
func newFaultProxy(t testing.TB, behind *apiServer) *faultProxy {
	t.Helper()
	at, err := url.Parse(behind.environment.Config.Host)
	if err != nil {
		t.Fatal(err)
	}
	authority := x509.NewCertPool()
	authority.AppendCertsFromPEM(behind.environment.Config.CAData)
	f := &faultProxy{id: uuid.NewUUID()}
	backend := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(at)
			if isProbe(r.In) {
				r.Out.Header.Set("Accept", "application/json")
			}
		},
		Transport: &http.Transport{
			TLSClientConfig: &tls.Config{RootCAs: authority}, ForceAttemptHTTP2: true,
			IdleConnTimeout: time.Second, // idle ones must not be mistaken for the operator's
		},
		ModifyResponse: func(r *http.Response) error { return errors.Join(f.replaceIdentity(r), recordToken(r)) },
		FlushInterval:  -1, // flush at once, for watches
		ErrorLog:       log.New(io.Discard, "", 0),
	}
	f.server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer f.countProbe(r)
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

// replaceIdentity replaces the UID of the kube-system namespace with the member's own UID.
func (f *faultProxy) replaceIdentity(response *http.Response) error {
	if !isProbe(response.Request) || response.StatusCode != http.StatusOK {
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

// recordToken adds a token that the API server issued to the knownCredentials.
func recordToken(response *http.Response) error {
	if !isTokenRequest(response.Request) || response.StatusCode != http.StatusCreated {
		return nil
	}
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return err
	}
	response.Body = io.NopCloser(bytes.NewReader(body))
	var issued authenticationv1.TokenRequest
	if err := json.Unmarshal(body, &issued); err != nil {
		return err
	}
	knownCredentials.add(signatureOf(issued.Status.Token))
	return nil
}

// countProbe counts a request that is a probe.
func (f *faultProxy) countProbe(r *http.Request) {
	if isProbe(r) {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.probes++
	}
}

// waitForProbes waits until the proxy has answered that many more probes.
func (m *testMember) waitForProbes(t testing.TB, count int) {
	t.Helper()
	answered := func() int {
		m.proxy.mu.Lock()
		defer m.proxy.mu.Unlock()
		return m.proxy.probes
	}
	before := answered()
	wait.Eventually(t, func() error {
		if now := answered(); now < before+count {
			return fmt.Errorf("%s was probed %d times, want %d", m.name, now-before, count)
		}
		return nil
	})
}

// countFault counts a request that met the fault.
func (f *faultProxy) countFault() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.faulty++
}

// faults returns the number of requests that met the fault.
func (f *faultProxy) faults() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.faulty
}

func isProbe(r *http.Request) bool {
	return r.URL.Path == "/api/v1/namespaces/"+metav1.NamespaceSystem
}

func (f *faultProxy) identity() types.UID {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.id
}

// setIdentity changes the identity of the cluster.
func (f *faultProxy) setIdentity(id types.UID) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.id = id
}

// setFault passes all requests from now on to the fault first; nil removes the fault.
func (f *faultProxy) setFault(fault fault) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.fault, f.faulty = fault, 0
}

// address returns the host and port.
func (f *faultProxy) address() string { return f.server.Listener.Addr().String() }

// caBundle returns the certificate that signs the proxy's, and otherCertificate, in PEM form.
func (f *faultProxy) caBundle() []byte {
	return slices.Concat(encodePEM(f.server.Certificate().Raw), encodePEM(otherCertificate().Certificate[0]))
}

// encodePEM returns a certificate in PEM form.
func encodePEM(certificate []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certificate})
}

// exceptProbes answers every request except a probe's.
func exceptProbes(do http.HandlerFunc) fault {
	return func(w http.ResponseWriter, r *http.Request) bool {
		if isProbe(r) {
			return false
		}
		do(w, r)
		return true
	}
}

// hang does not answer until the client cancels the request.
func hang(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }
