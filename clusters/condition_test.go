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
	"strings"
	"sync"
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
	"github.com/fleetwright/fleetwright/clusters/transport"
)

// The errors come from real connections to servers on this machine.
func TestConditionFor(t *testing.T) {
	unreachable := func(message string) conditionState {
		return conditionState{metav1.ConditionUnknown, v1alpha1.ReasonUnreachable, "the member does not answer: " + message}
	}
	impostor := func(message string) conditionState {
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
		"nobody listens":              {to(refusing(t), nil), unreachable("connection refused")},
		"accepts and is silent":       {to(accepting(t, func(net.Conn) {}), nil), unreachable("timed out")},
		"accepts and hangs up":        {to(accepting(t, func(c net.Conn) { _ = c.(*net.TCPConn).CloseWrite() }), nil), unreachable("the connection failed")},
		"answers without TLS":         {to(accepting(t, func(c net.Conn) { _, _ = io.WriteString(c, "SSH-2.0-canary\r\n") }), nil), impostor("it does not speak TLS")},
		"answers with plain HTTP":     {plainHTTP(t), impostor("it speaks plain HTTP, not HTTPS")},
		"a certificate of another CA": {serving(t, identityAnswer, otherCA), impostor("its certificate is not signed by the CA in the kubeconfig")},
		"a certificate of another name": {
			serving(t, identityAnswer, func(_ *httptest.Server, member *kubeconfig.Config) { member.ServerName = "canary.example" }),
			impostor("its certificate is for another name than the server of the kubeconfig"),
		},
		"an old certificate": {
			serving(t, identityAnswer, expired), impostor("its certificate has expired or is not valid yet"),
		},
		"demands a client certificate, TLS 1.3": {
			serving(t, identityAnswer, demanding(tls.VersionTLS13)), unauthorized("the member requires a client certificate"),
		},
		"demands a client certificate, TLS 1.2": { // TLS 1.2 has no separate alert for this
			serving(t, identityAnswer, demanding(tls.VersionTLS12)),
			unhealthy("cannot connect to the member: it rejects the TLS handshake (tls: handshake failure); it may require a client certificate"),
		},
		"demands a client certificate, HTTP/1.1": {
			serving(t, identityAnswer, demanding(tls.VersionTLS13), func(server *httptest.Server, _ *kubeconfig.Config) { server.EnableHTTP2 = false }),
			unauthorized("the member requires a client certificate"),
		},
		"demands a client certificate of its own CA": {
			serving(t, identityAnswer, demanding(tls.VersionTLS13), bringing(identityB())),
			unauthorized("the member does not know the authority that signed the client certificate"),
		},
		"demands a client certificate that has not ended": {
			serving(t, identityAnswer, demanding(tls.VersionTLS13), bringing(testcert.New(-time.Hour))),
			unauthorized("the member reports that the client certificate has expired"),
		},
		"401": {
			serving(t, code(http.StatusUnauthorized)),
			conditionState{metav1.ConditionFalse, v1alpha1.ReasonUnauthorized, "the member rejects the credentials; renew the Secret's kubeconfig"},
		},
		"403": {
			serving(t, code(http.StatusForbidden)),
			conditionState{metav1.ConditionFalse, v1alpha1.ReasonForbidden, "the credentials lack a permission: the server answers 403 Forbidden"},
		},
		"500":                           {serving(t, code(http.StatusInternalServerError)), unhealthy("the server answers 500 Internal Server Error")},
		"503":                           {serving(t, code(http.StatusServiceUnavailable)), unhealthy("the server answers 503 Service Unavailable")},
		"a redirect, and stays there":   {serving(t, redirecting(t)), unhealthy("the server answers 302 Found")},
		"a web page":                    {serving(t, text("<html>canary</html>")), unhealthy("the server answers, but not as a Kubernetes API server does")},
		"JSON of another kind":          {serving(t, text(`{"canary": true}`)), unhealthy("the server answers, but not as a Kubernetes API server does")},
		"a version that does not end":   {serving(t, text(`{"metadata": {"uid": "`+strings.Repeat("canary", 1<<16))), unhealthy("the server answers, but not as a Kubernetes API server does")},
		"an answer that does not begin": {serving(t, hanging(t)), unreachable("timed out")},
		"an answer that breaks off":     {serving(t, breaking), unreachable("the connection failed")},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := probing(t, test.member, true)
			if err == nil {
				t.Fatal("the probe succeeds")
			}
			got := conditionFor(err)
			if diff := cmp.Diff(test.want, got, cmp.AllowUnexported(conditionState{})); diff != "" {
				t.Errorf("%v (-want +got)\n%s", err, diff)
			}
			if strings.Contains(got.message, "127.0.0.1") || strings.Contains(got.message, canary) {
				t.Errorf("the message quotes the kubeconfig or the member: %s", got.message)
			}
		})
	}
}

// canary is part of what a kubeconfig or a member says, and no message may contain it.
const canary = "canary"

var (
	identityA = sync.OnceValue(func() testcert.Pair { return testcert.New(time.Hour) })
	identityB = sync.OnceValue(func() testcert.Pair { return testcert.New(time.Hour) })
)

// probing probes once, within a second.
func probing(t *testing.T, member *kubeconfig.Config, allowLoopback bool) (types.UID, error) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	connection := transport.New(member, transport.Options{ReadRate: 1, ReadBurst: 1, AllowLoopback: allowLoopback})
	defer connection.Close()
	return probe(ctx, connection)
}

// to returns a Config for an address, with the CA in PEM form.
func to(address string, ca []byte) *kubeconfig.Config {
	if ca == nil {
		ca = identityA().Certificate
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(ca)
	return &kubeconfig.Config{Server: "https://" + address, CA: ca, CAPool: pool, Token: "canary-token"}
}

// refusing returns an address at which no server listens any more.
func refusing(t *testing.T) string {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_ = listener.Close()
	return listener.Addr().String()
}

// accepting returns the address of a listener that calls serve for each connection.
func accepting(t *testing.T, serve func(net.Conn)) string {
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

// serving returns a Config for a TLS server.
func serving(t *testing.T, handler http.HandlerFunc, changes ...func(*httptest.Server, *kubeconfig.Config)) *kubeconfig.Config {
	server := httptest.NewUnstartedServer(handler)
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.EnableHTTP2 = true
	member := to(server.Listener.Addr().String(), nil)
	server.TLS = &tls.Config{Certificates: []tls.Certificate{identityA().TLS()}}
	for _, change := range changes {
		change(server, member)
	}
	server.StartTLS()
	t.Cleanup(server.Close)
	t.Cleanup(server.CloseClientConnections) // before Close, which waits for them
	return member
}

func otherCA(server *httptest.Server, _ *kubeconfig.Config) {
	server.TLS.Certificates[0] = identityB().TLS()
}

func expired(server *httptest.Server, member *kubeconfig.Config) {
	old := testcert.New(-time.Hour)
	server.TLS.Certificates[0] = old.TLS()
	*member = *to(server.Listener.Addr().String(), old.Certificate)
}

// plainHTTP returns a Config for a server without TLS.
func plainHTTP(t *testing.T) *kubeconfig.Config {
	server := httptest.NewServer(http.HandlerFunc(identityAnswer))
	t.Cleanup(server.Close)
	return to(server.Listener.Addr().String(), nil)
}

// demanding makes a server demand client certificates, as a proxy before an API server may.
func demanding(version uint16) func(*httptest.Server, *kubeconfig.Config) {
	return func(server *httptest.Server, _ *kubeconfig.Config) {
		known := x509.NewCertPool()
		known.AppendCertsFromPEM(identityA().Certificate)
		server.TLS.ClientAuth, server.TLS.ClientCAs, server.TLS.MaxVersion = tls.RequireAndVerifyClientCert, known, version
	}
}

// bringing adds a client certificate to a Config.
func bringing(p testcert.Pair) func(*httptest.Server, *kubeconfig.Config) {
	return func(server *httptest.Server, member *kubeconfig.Config) {
		if p.TLS().Leaf.NotAfter.Before(time.Now()) {
			server.TLS.ClientCAs.AppendCertsFromPEM(p.Certificate)
		}
		certificate := p.TLS()
		member.Certificate = &certificate
	}
}

const identityPath = "/api/v1/namespaces/kube-system"

func identityAnswer(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	_, _ = io.WriteString(w, `{"kind":"Namespace","metadata":{"name":"kube-system","uid":"uid-1"}}`)
}

func text(body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, body) }
}

func code(status int) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { http.Error(w, canary, status) }
}

// redirecting redirects to a valid server that no request may reach.
func redirecting(t *testing.T) http.HandlerFunc {
	elsewhere := serving(t, func(w http.ResponseWriter, r *http.Request) {
		t.Errorf("the redirect was followed, with Authorization %q", r.Header.Get("Authorization"))
		identityAnswer(w, r)
	})
	return func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, elsewhere.Server+identityPath, http.StatusFound)
	}
}

func hanging(t *testing.T) http.HandlerFunc {
	return func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-r.Context().Done():
		case <-t.Context().Done():
		}
	}
}

func breaking(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Length", "1000")
	_, _ = io.WriteString(w, `{"metadata": {"uid": "`)
	panic(http.ErrAbortHandler)
}

// Errors that need no server, or more than a probe.
func TestConditionForErrorsWithoutAServer(t *testing.T) {
	deployments := schema.GroupResource{Group: "apps", Resource: "deployments"}
	tests := map[string]struct {
		err  error
		want conditionState
	}{
		"a name without an address": {
			&url.Error{Op: "Get", URL: "https://canary.example", Err: &net.OpError{Op: "dial", Err: &net.DNSError{Err: "no such host", Name: "canary.example", Server: "127.0.0.1"}}},
			conditionState{metav1.ConditionUnknown, v1alpha1.ReasonUnreachable, "the member does not answer: its name cannot be resolved"},
		},
		"an address that no member may have": {
			&url.Error{Op: "Get", URL: "https://canary.example", Err: &net.OpError{Op: "dial", Err: &kubeconfig.RejectedError{Reason: v1alpha1.ReasonServerRefused, Message: "not there"}}},
			conditionState{metav1.ConditionFalse, v1alpha1.ReasonNoConnection, "not there"},
		},
		"a list that is forbidden": {
			fmt.Errorf("list and watch: %w", errors.Join(apierrors.NewForbidden(deployments, "", errors.New("no\nrole\x00")), context.DeadlineExceeded)),
			conditionState{metav1.ConditionFalse, v1alpha1.ReasonForbidden, "the credentials lack a permission: deployments.apps is forbidden: no role "},
		},
		"a list that takes too long": {
			fmt.Errorf("list and watch: %w", errors.Join(nil, context.DeadlineExceeded)),
			conditionState{metav1.ConditionUnknown, v1alpha1.ReasonUnreachable, "the member does not answer: timed out"},
		},
		"an answer without end": {
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

func TestAProbeReturnsTheIdentityAndSendsTheToken(t *testing.T) {
	member := serving(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer canary-token" || r.URL.Path != identityPath || r.ProtoMajor != 2 {
			t.Errorf("%s %s with Authorization %q", r.Proto, r.URL, r.Header.Get("Authorization"))
		}
		identityAnswer(w, r)
	})
	if id, err := probing(t, member, true); id != "uid-1" || err != nil {
		t.Errorf("got %q, %v", id, err)
	}
}

// The address that a name resolves to is known only when it is dialled.
func TestAddressesAreGuardedWhenTheyAreDialled(t *testing.T) {
	dialled := make(chan struct{}, 10)
	_, port, _ := net.SplitHostPort(accepting(t, func(net.Conn) { dialled <- struct{}{} }))
	_, err := probing(t, to("localhost:"+port, nil), false)
	var refusal *kubeconfig.RejectedError
	if !errors.As(err, &refusal) || refusal.Reason != v1alpha1.ReasonServerRefused {
		t.Errorf("got %v", err)
	}
	if len(dialled) > 0 {
		t.Error("it was dialled")
	}
}
