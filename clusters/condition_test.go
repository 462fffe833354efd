package clusters

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/clusters/internal/testcert"
	"github.com/fleetwright/fleetwright/clusters/kubeconfig"
	"github.com/fleetwright/fleetwright/clusters/stall"
	"github.com/fleetwright/fleetwright/clusters/transport"
	"github.com/fleetwright/fleetwright/internal/servertest"
	"github.com/fleetwright/fleetwright/internal/wait"
)

// The errors come from real connections to servers on this machine.
func TestConditionFor_connection_errors(t *testing.T) {
	unreachable := func(message string) conditionState {
		return conditionState{metav1.ConditionUnknown, v1alpha1.ReasonUnreachable, "the member does not answer: " + message}
	}
	wrongServer := func(message string) conditionState {
		return conditionState{metav1.ConditionUnknown, v1alpha1.ReasonUnhealthy, "the server is not the member: " + message}
	}
	unauthorized := func(message string) conditionState {
		return conditionState{metav1.ConditionFalse, v1alpha1.ReasonUnauthorized, message + "; renew the Secret's kubeconfig"}
	}
	unhealthy := func(message string) conditionState {
		return conditionState{metav1.ConditionUnknown, v1alpha1.ReasonUnhealthy, message}
	}
	tests := map[string]struct {
		member *kubeconfig.Config
		want   conditionState
	}{
		"refuses connections":         {configFor(servertest.FreeAddress(t), nil), unreachable("connection refused")},
		"sends nothing":               {configFor(listenerAddress(t, func(net.Conn) {}), nil), unreachable("timed out")},
		"closes the connection":       {configFor(listenerAddress(t, func(c net.Conn) { _ = c.(*net.TCPConn).CloseWrite() }), nil), unreachable("the connection failed")},
		"responds without TLS":        {configFor(listenerAddress(t, func(c net.Conn) { _, _ = io.WriteString(c, "SSH-2.0-canary\r\n") }), nil), wrongServer("it does not speak TLS")},
		"responds with plain HTTP":    {newHTTPServer(t), wrongServer("it speaks plain HTTP, not HTTPS")},
		"a certificate of another CA": {newTLSServer(t, respondWithIdentity, withOtherCA), wrongServer("its certificate is not signed by the CA in the kubeconfig")},
		"a certificate for another name": {
			newTLSServer(t, respondWithIdentity, func(_ *httptest.Server, member *kubeconfig.Config) { member.ServerName = "canary.example" }),
			wrongServer("its certificate is for another name than the server of the kubeconfig"),
		},
		"an expired certificate": {
			newTLSServer(t, respondWithIdentity, withExpiredCertificate), wrongServer("its certificate has expired or is not valid yet"),
		},
		"requires a client certificate, TLS 1.3": {
			newTLSServer(t, respondWithIdentity, requiringClientCertificate(tls.VersionTLS13)), unauthorized("the member requires a client certificate"),
		},
		"requires a client certificate, TLS 1.2": { // TLS 1.2 has no separate alert for this
			newTLSServer(t, respondWithIdentity, requiringClientCertificate(tls.VersionTLS12)),
			unhealthy("cannot connect to the member: it rejects the TLS handshake (tls: handshake failure); it may require a client certificate"),
		},
		"requires a client certificate, HTTP/1.1": {
			newTLSServer(t, respondWithIdentity, requiringClientCertificate(tls.VersionTLS13), func(server *httptest.Server, _ *kubeconfig.Config) { server.EnableHTTP2 = false }),
			unauthorized("the member requires a client certificate"),
		},
		"requires a client certificate of its own CA": {
			newTLSServer(t, respondWithIdentity, requiringClientCertificate(tls.VersionTLS13), withClientCertificate(certificateB())),
			unauthorized("the member does not know the authority that signed the client certificate"),
		},
		"requires a client certificate that has not expired": {
			newTLSServer(t, respondWithIdentity, requiringClientCertificate(tls.VersionTLS13), withClientCertificate(testcert.New(-time.Hour))),
			unauthorized("the member reports that the client certificate has expired"),
		},
		"401": {
			newTLSServer(t, respondWithStatus(http.StatusUnauthorized)),
			conditionState{metav1.ConditionFalse, v1alpha1.ReasonUnauthorized, "the member rejects the credentials; renew the Secret's kubeconfig"},
		},
		"403": {
			newTLSServer(t, respondWithStatus(http.StatusForbidden)),
			conditionState{metav1.ConditionFalse, v1alpha1.ReasonForbidden, "the credentials lack a permission: the server answers 403 Forbidden"},
		},
		"500":                            {newTLSServer(t, respondWithStatus(http.StatusInternalServerError)), unhealthy("the server answers 500 Internal Server Error")},
		"503":                            {newTLSServer(t, respondWithStatus(http.StatusServiceUnavailable)), unhealthy("the server answers 503 Service Unavailable")},
		"a redirect":                     {newTLSServer(t, redirecting(t)), unhealthy("the server answers 302 Found")},
		"a web page":                     {newTLSServer(t, respondWithText("<html>canary</html>")), unhealthy("the server answers, but not as a Kubernetes API server does")},
		"JSON of another kind":           {newTLSServer(t, respondWithText(`{"canary": true}`)), unhealthy("the server answers, but not as a Kubernetes API server does")},
		"an identity that does not end":  {newTLSServer(t, respondWithText(`{"metadata": {"uid": "`+strings.Repeat("canary", 1<<16))), unhealthy("the server answers, but not as a Kubernetes API server does")},
		"a response that does not begin": {newTLSServer(t, hangingHandler(t)), unreachable("timed out")},
		"a truncated response":           {newTLSServer(t, truncatedResponse), unreachable("the connection failed")},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			timeout := wait.Patience
			if test.want == unreachable("timed out") {
				timeout = time.Second
			}
			_, err := probeFor(t, timeout, test.member, true)
			if err == nil {
				t.Fatal("the probe succeeded")
			}
			got := conditionFor(err)
			if diff := cmp.Diff(test.want, got, cmp.AllowUnexported(conditionState{})); diff != "" {
				t.Errorf("%v (-want +got)\n%s", err, diff)
			}
			want := stall.Refused
			if slices.Contains([]string{"sends nothing", "closes the connection", "a response that does not begin"}, name) {
				want = stall.Unanswered
			}
			if got := resultOf(err); got != want {
				t.Errorf("%v: the result of the probe is %d, want %d", err, got, want)
			}
			if strings.Contains(got.message, "127.0.0.1") || strings.Contains(got.message, canary) {
				t.Errorf("the message quotes the kubeconfig or the member: %s", got.message)
			}
		})
	}
}

func TestResult_of_a_probe_without_resources(t *testing.T) {
	for _, errno := range []syscall.Errno{syscall.EMFILE, syscall.ENOBUFS} {
		err := fmt.Errorf("probe: %w", &url.Error{Err: &net.OpError{Op: "dial", Err: os.NewSyscallError("socket", errno)}})
		if got := resultOf(err); got != stall.NotSent {
			t.Errorf("%v: %d", err, got)
		}
	}
}

// canary is part of the values in kubeconfigs and responses. No message may contain it.
const canary = "canary"

var (
	certificateA = sync.OnceValue(func() testcert.Pair { return testcert.New(time.Hour) })
	certificateB = sync.OnceValue(func() testcert.Pair { return testcert.New(time.Hour) })
)

// probeOnce probes a member once.
func probeOnce(t *testing.T, member *kubeconfig.Config, allowLoopback bool) (types.UID, error) {
	return probeFor(t, wait.Patience, member, allowLoopback)
}

// probeFor probes a member once with a timeout.
func probeFor(t *testing.T, timeout time.Duration, member *kubeconfig.Config, allowLoopback bool) (types.UID, error) {
	ctx, cancel := context.WithTimeout(t.Context(), timeout)
	defer cancel()
	connection := transport.New(member, transport.Options{ReadRate: 1, ReadBurst: 1, AllowLoopback: allowLoopback})
	defer connection.Close()
	return probe(ctx, connection)
}

// configFor returns a Config for an address, with a CA in PEM form.
func configFor(address string, ca []byte) *kubeconfig.Config {
	if ca == nil {
		ca = certificateA().Certificate
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(ca)
	return &kubeconfig.Config{Server: "https://" + address, CA: ca, CAPool: pool, Token: "canary-token"}
}

// listenerAddress returns the address of a listener that calls serve for each connection.
func listenerAddress(t *testing.T, serve func(net.Conn)) string {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			connection, err := listener.Accept()
			if err != nil {
				return
			}
			t.Cleanup(func() { _ = connection.Close() })
			serve(connection)
		}
	}()
	return listener.Addr().String()
}

// newTLSServer returns a Config for a TLS server.
func newTLSServer(t *testing.T, handler http.HandlerFunc, changes ...func(*httptest.Server, *kubeconfig.Config)) *kubeconfig.Config {
	server := httptest.NewUnstartedServer(handler)
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.EnableHTTP2 = true
	member := configFor(server.Listener.Addr().String(), nil)
	server.TLS = &tls.Config{Certificates: []tls.Certificate{certificateA().TLS()}}
	for _, change := range changes {
		change(server, member)
	}
	server.StartTLS()
	t.Cleanup(server.Close)
	t.Cleanup(server.CloseClientConnections) // before Close, which waits for them
	return member
}

func withOtherCA(server *httptest.Server, _ *kubeconfig.Config) {
	server.TLS.Certificates[0] = certificateB().TLS()
}

func withExpiredCertificate(server *httptest.Server, member *kubeconfig.Config) {
	old := testcert.New(-time.Hour)
	server.TLS.Certificates[0] = old.TLS()
	*member = *configFor(server.Listener.Addr().String(), old.Certificate)
}

// newHTTPServer returns a Config for a server without TLS.
func newHTTPServer(t *testing.T) *kubeconfig.Config {
	server := httptest.NewServer(http.HandlerFunc(respondWithIdentity))
	t.Cleanup(server.Close)
	return configFor(server.Listener.Addr().String(), nil)
}

// requiringClientCertificate makes a server require client certificates, as a proxy in front of an
// API server may.
func requiringClientCertificate(version uint16) func(*httptest.Server, *kubeconfig.Config) {
	return func(server *httptest.Server, _ *kubeconfig.Config) {
		known := x509.NewCertPool()
		known.AppendCertsFromPEM(certificateA().Certificate)
		server.TLS.ClientAuth, server.TLS.ClientCAs, server.TLS.MaxVersion = tls.RequireAndVerifyClientCert, known, version
		server.Listener = readingListener{server.Listener}
	}
}

// readingListener is a listener whose connections are read to their end before they are closed. If a
// server closes a connection that still has data, the kernel sends a reset, and the client may lose the
// TLS alert that was sent before.
type readingListener struct{ net.Listener }

func (l readingListener) Accept() (net.Conn, error) {
	connection, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return readingConnection{connection.(*net.TCPConn)}, nil
}

type readingConnection struct{ *net.TCPConn }

func (c readingConnection) Close() error {
	_ = c.CloseWrite()
	_ = c.SetReadDeadline(time.Now().Add(wait.Patience))
	_, _ = io.Copy(io.Discard, c.TCPConn)
	return c.TCPConn.Close()
}

// withClientCertificate adds a client certificate to a Config.
func withClientCertificate(p testcert.Pair) func(*httptest.Server, *kubeconfig.Config) {
	return func(server *httptest.Server, member *kubeconfig.Config) {
		if p.TLS().Leaf.NotAfter.Before(time.Now()) {
			server.TLS.ClientCAs.AppendCertsFromPEM(p.Certificate)
		}
		certificate := p.TLS()
		member.Certificate = &certificate
	}
}

const identityPath = "/api/v1/namespaces/kube-system"

func respondWithIdentity(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	_, _ = io.WriteString(w, `{"kind":"Namespace","metadata":{"name":"kube-system","uid":"uid-1"}}`)
}

func respondWithText(body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, body) }
}

func respondWithStatus(status int) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { http.Error(w, canary, status) }
}

// redirecting redirects to a valid server that no request may reach.
func redirecting(t *testing.T) http.HandlerFunc {
	elsewhere := newTLSServer(t, func(w http.ResponseWriter, r *http.Request) {
		t.Errorf("the redirect was followed, with Authorization %q", r.Header.Get("Authorization"))
		respondWithIdentity(w, r)
	})
	return func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, elsewhere.Server+identityPath, http.StatusFound)
	}
}

func hangingHandler(t *testing.T) http.HandlerFunc {
	return func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-r.Context().Done():
		case <-t.Context().Done():
		}
	}
}

func truncatedResponse(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Length", "1000")
	_, _ = io.WriteString(w, `{"metadata": {"uid": "`)
	panic(http.ErrAbortHandler)
}

// These errors do not come from a probe.
func TestConditionFor_other_errors(t *testing.T) {
	deployments := schema.GroupResource{Group: "apps", Resource: "deployments"}
	tests := map[string]struct {
		err  error
		want conditionState
	}{
		"a name without an address": {
			&url.Error{Op: "Get", URL: "https://canary.example", Err: &net.OpError{Op: "dial", Err: &net.DNSError{Err: "no such host", Name: "canary.example", Server: "127.0.0.1"}}},
			conditionState{metav1.ConditionUnknown, v1alpha1.ReasonUnreachable, "the member does not answer: its name cannot be resolved"},
		},
		"a forbidden address": {
			&url.Error{Op: "Get", URL: "https://canary.example", Err: &net.OpError{Op: "dial", Err: &kubeconfig.RejectedError{Reason: v1alpha1.ReasonServerRefused, Message: "not there"}}},
			conditionState{metav1.ConditionFalse, v1alpha1.ReasonNoConnection, "not there"},
		},
		"a forbidden list": {
			fmt.Errorf("list and watch: %w", errors.Join(apierrors.NewForbidden(deployments, "", errors.New("no\nrole\x00")), context.DeadlineExceeded)),
			conditionState{metav1.ConditionFalse, v1alpha1.ReasonForbidden, "the credentials lack a permission: deployments.apps is forbidden: no role "},
		},
		"a list that takes too long": {
			fmt.Errorf("list and watch: %w", errors.Join(nil, context.DeadlineExceeded)),
			conditionState{metav1.ConditionUnknown, v1alpha1.ReasonUnreachable, "the member does not answer: timed out"},
		},
		"a long response": {
			apierrors.NewBadRequest(strings.Repeat("é", transport.MaxMessage)),
			conditionState{metav1.ConditionUnknown, v1alpha1.ReasonUnhealthy, strings.Repeat("é", transport.MaxMessage/2) + "…"},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, conditionFor(test.err), cmp.AllowUnexported(conditionState{})); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

func TestProbe_sends_the_token_and_returns_the_identity(t *testing.T) {
	member := newTLSServer(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer canary-token" || r.URL.Path != identityPath || r.ProtoMajor != 2 {
			t.Errorf("%s %s with Authorization %q", r.Proto, r.URL, r.Header.Get("Authorization"))
		}
		respondWithIdentity(w, r)
	})
	if id, err := probeOnce(t, member, true); id != "uid-1" || err != nil {
		t.Errorf("got %q, %v", id, err)
	}
}

// The address to which a name resolves is known only when it is dialled.
func TestAddress_is_checked_when_it_is_dialled(t *testing.T) {
	dialled := make(chan struct{}, 10)
	_, port, _ := net.SplitHostPort(listenerAddress(t, func(net.Conn) { dialled <- struct{}{} }))
	_, err := probeOnce(t, configFor("localhost:"+port, nil), false)
	var refusal *kubeconfig.RejectedError
	if !errors.As(err, &refusal) || refusal.Reason != v1alpha1.ReasonServerRefused {
		t.Errorf("got %v", err)
	}
	if len(dialled) > 0 {
		t.Error("the address was dialled")
	}
}
