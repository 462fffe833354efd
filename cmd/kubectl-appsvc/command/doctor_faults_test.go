package command_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/cli-runtime/pkg/genericiooptions"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/cmd/kubectl-appsvc/command"
)

// silentServer returns the address of a server that accepts connections and sends nothing.
func silentServer(t *testing.T) string {
	t.Helper()
	return listen(t, func(connection net.Conn) { t.Cleanup(func() { connection.Close() }) })
}

// closingServer returns the address of a server that closes each connection.
func closingServer(t *testing.T) string {
	t.Helper()
	return listen(t, func(connection net.Conn) { connection.Close() })
}

// listen returns an address, and calls accepted with each connection to it.
func listen(t *testing.T, accepted func(net.Conn)) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	go func() {
		for {
			connection, err := listener.Accept()
			if err != nil {
				return
			}
			accepted(connection)
		}
	}()
	return listener.Addr().String()
}

// proxy returns a kubeconfig edit that leads context east to a proxy before the member.
func (m *memberEnv) proxy(t *testing.T, answer func(http.ResponseWriter, *http.Request) bool) func(*clientcmdapi.Config) {
	t.Helper()
	return leadTo("east", startProxy(t, m.environment, answer))
}

// hangAt answers no request whose path contains a text.
func hangAt(text string) func(http.ResponseWriter, *http.Request) bool {
	return func(_ http.ResponseWriter, r *http.Request) bool {
		if !strings.Contains(r.URL.Path, text) {
			return false
		}
		_, _ = io.Copy(io.Discard, r.Body)
		<-r.Context().Done()
		return true
	}
}

// expiredCertificate returns a certificate of a client that has ended, and its key.
func expiredCertificate(t *testing.T) (certificate, key []byte) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "admin"}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
		NotBefore: time.Now().Add(-2 * time.Hour), NotAfter: time.Now().Add(-time.Hour),
	}
	signed, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	if err != nil {
		t.Fatal(err)
	}
	encoded, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: signed}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: encoded})
}

func withExpiredCertificate(t *testing.T) func(*clientcmdapi.Config) {
	certificate, key := expiredCertificate(t)
	return func(c *clientcmdapi.Config) {
		c.AuthInfos["east"] = &clientcmdapi.AuthInfo{ClientCertificateData: certificate, ClientKeyData: key}
	}
}

// setMemberStatus writes the status of a MemberCluster.
func setMemberStatus(t *testing.T, name string, status v1alpha1.MemberClusterStatus) {
	t.Helper()
	cluster := &v1alpha1.MemberCluster{}
	ctx := context.Background() // it is also called when a test has ended
	if err := hub.Get(ctx, client.ObjectKey{Name: name}, cluster); err != nil {
		t.Fatal(err)
	}
	cluster.Status = status
	if err := hub.Status().Update(ctx, cluster); err != nil {
		t.Fatal(err)
	}
}

// TestDoctor_of_a_faulty_server examines servers and kubeconfigs that are wrong in some way. Each
// ends in bounded time, with a line that says what is wrong.
func TestDoctor_of_a_faulty_server(t *testing.T) {
	m := newMember(t)
	createLease(t, time.Now().Add(10*time.Minute))
	deleteSecret(t, "east")
	if got := m.run(t, "join", "east", "--allow-loopback", "--timeout", "0"); got.code != 0 {
		t.Fatal(got)
	}
	m.connect(t, "east")()
	setMemberStatus(t, "east", m.connectedStatus(time.Now().Add(time.Hour)))
	serverAt := func(at string) func(*clientcmdapi.Config) {
		return func(c *clientcmdapi.Config) { c.Clusters["east"].Server = at }
	}
	withUser := func(user *clientcmdapi.AuthInfo) func(*clientcmdapi.Config) {
		return func(c *clientcmdapi.Config) { c.AuthInfos["east"] = user }
	}
	sleeping := filepath.Join(t.TempDir(), "sleeping")
	if err := os.WriteFile(sleeping, []byte("#!/bin/sh\nexec sleep 20\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	plain := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(plain.Close)
	strict := httptest.NewUnstartedServer(http.NotFoundHandler())
	strict.TLS, strict.Config.ErrorLog = &tls.Config{ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: x509.NewCertPool()}, log.New(io.Discard, "", 0)
	strict.StartTLS()
	t.Cleanup(strict.Close)
	answer := func(path string, code int, body string) func(http.ResponseWriter, *http.Request) bool {
		return func(w http.ResponseWriter, r *http.Request) bool {
			if !strings.Contains(r.URL.Path, path) {
				return false
			}
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(code)
			_, _ = io.WriteString(w, body)
			return true
		}
	}
	dateOf := func(offset time.Duration) func(http.ResponseWriter, *http.Request) bool {
		return func(w http.ResponseWriter, r *http.Request) bool {
			if r.URL.Path != "/version" {
				return false
			}
			if offset == 0 {
				w.Header()["Date"] = nil
			} else {
				w.Header().Set("Date", time.Now().Add(offset).UTC().Format(http.TimeFormat))
			}
			_, _ = io.WriteString(w, `{"gitVersion": "v1.36.0"}`)
			return true
		}
	}

	for name, test := range map[string]struct {
		edit func(*clientcmdapi.Config)
		code int
		want string
		// last is true if no other check of the member follows.
		last bool
	}{
		"a server that sends nothing":         {serverAt("https://" + silentServer(t)), 3, "FAIL TLS the server accepts the connection and does not answer within 10s: check the port, and load balancers and firewalls in between", true},
		"a server that closes the connection": {serverAt("https://" + closingServer(t)), 3, "FAIL TLS the server closes the connection (", true},
		"a server without TLS":                {serverAt("https://" + plain.Listener.Addr().String()), 3, "FAIL TLS the server does not speak TLS: check the port in your kubeconfig", true},
		"a URL without TLS":                   {serverAt(plain.URL), 3, "FAIL server the server of context east is http://ADDRESS, without TLS; Fleetwright needs https: correct your kubeconfig", true},
		"a URL without a host":                {serverAt("https://"), 3, "FAIL context ", true},
		"an address without a scheme":         {serverAt("127.0.0.1:6443"), 3, `FAIL server the server of context east is "ADDRESS", which is not a URL: correct your kubeconfig`, true},
		"a name without a scheme":             {serverAt("localhost:6443"), 3, `FAIL server the server of context east is "localhost:6443", which is not a URL: correct your kubeconfig`, true},
		"a server without a URL":              {serverAt("://"), 3, "FAIL context ", true},
		"the name of another server":          {func(c *clientcmdapi.Config) { c.Clusters["east"].TLSServerName = "other.example" }, 3, "FAIL TLS tls: failed to verify certificate: x509: certificate is valid for ", true},
		"no verification": {func(c *clientcmdapi.Config) {
			c.Clusters["east"].InsecureSkipTLSVerify, c.Clusters["east"].CertificateAuthorityData = true, nil
		}, 0, "note TLS context east does not verify the certificate of the server; the hub would refuse that", false},
		"a server that demands a certificate":           {leadTo("east", strict), 3, "FAIL authentication the cluster of context east: the request to https://ADDRESS failed: remote error: tls: certificate required", true},
		"a client certificate that has ended":           {withExpiredCertificate(t), 3, "FAIL authentication the client certificate of context east ended at TIME: log in again", true},
		"a certificate authority without a certificate": {func(c *clientcmdapi.Config) { c.Clusters["east"].CertificateAuthorityData = []byte("canary") }, 3, "FAIL context ", true},
		"a proxy":                               {func(c *clientcmdapi.Config) { c.Clusters["east"].ProxyURL = "http://127.0.0.1:1" }, 3, "note network context east uses a proxy, so DNS, TCP and TLS are not checked; the hub does not use this proxy FAIL authentication the cluster of context east: the request to https://ADDRESS failed: proxyconnect tcp: dial tcp 127.0.0.1:1: connect: connection refused", true},
		"a proxy that sends nothing":            {func(c *clientcmdapi.Config) { c.Clusters["east"].ProxyURL = "http://" + silentServer(t) }, 3, "FAIL authentication the cluster of context east", true},
		"a program for credentials that hangs":  {withUser(&clientcmdapi.AuthInfo{Exec: &clientcmdapi.ExecConfig{APIVersion: "client.authentication.k8s.io/v1", Command: sleeping, InteractiveMode: clientcmdapi.NeverExecInteractiveMode}}), 3, "FAIL authentication the cluster of context east does not answer in time", true},
		"a server that hangs at authentication": {m.proxy(t, hangAt("selfsubjectreviews")), 3, "FAIL authentication the cluster of context east", true},
		"a server that hangs at the identity":   {m.proxy(t, hangAt("/namespaces/kube-system")), 3, "FAIL identity the cluster of context east", true},
		"a server that hangs at the core API": {m.proxy(t, func(w http.ResponseWriter, r *http.Request) bool {
			return r.URL.Path == "/api" && hangAt("/api")(w, r)
		}), 3, "the cluster of context east does not answer in time", true},
		"a server that hangs at the RBAC API":    {m.proxy(t, hangAt("/apis/rbac.authorization.k8s.io")), 3, "FAIL permissions they cannot be checked: the cluster of context east", false},
		"a server that hangs at the account":     {m.proxy(t, hangAt("/serviceaccounts/")), 3, "FAIL permissions ", false},
		"a server that hangs at the permissions": {m.proxy(t, hangAt("subjectaccessreviews")), 3, "FAIL permissions they cannot be checked: the cluster of context east", false},
		"a server that hangs at the version":     {m.proxy(t, hangAt("/version")), 3, "FAIL version the cluster of context east", false},
		"a server with another version":          {m.proxy(t, answer("/version", 200, `{"gitVersion": "v1.20.0"}`)), 3, "FAIL version v1.20.0 is older than 1.33", false},
		"a server without a version":             {m.proxy(t, answer("/version", 404, "")), 3, "FAIL version the cluster of context east: GET /version: 404 Not Found", false},
		"a server whose version is HTML":         {m.proxy(t, answer("/version", 200, "<html>")), 3, "FAIL version the cluster of context east: GET /version: invalid character", false},
		"a server whose clock is ahead":          {m.proxy(t, dateOf(time.Hour+30*time.Second)), 3, "ahead of the clock of this machine: synchronize both (NTP)", false},
		"a server whose clock is behind":         {m.proxy(t, dateOf(-time.Hour-30*time.Second)), 3, "behind the clock of this machine: synchronize both (NTP)", false},
		"a server that does not send its time":   {m.proxy(t, dateOf(0)), 0, "note clock not checked: the server does not send its time", false},
		"a server that forbids the identity":     {m.proxy(t, answer("/namespaces/kube-system", 403, `{"kind":"Status","apiVersion":"v1","status":"Failure","message":"no","reason":"Forbidden","code":403}`)), 3, "FAIL identity the cluster of context east: no: use a context of an administrator of this cluster", true},
		"a server that forbids the account":      {m.proxy(t, answer("/serviceaccounts/", 403, `{"kind":"Status","apiVersion":"v1","status":"Failure","message":"no","reason":"Forbidden","code":403}`)), 3, "FAIL permissions the cluster of context east: no: use a context of an administrator of this cluster", false},
		"a server that forbids the question":     {m.proxy(t, answer("subjectaccessreviews", 403, `{"kind":"Status","apiVersion":"v1","status":"Failure","message":"no","reason":"Forbidden","code":403}`)), 3, "FAIL permissions they cannot be checked: the cluster of context east: no", false},
		"a server without the ServiceAccount":    {m.proxy(t, answer("/serviceaccounts/", 404, `{"kind":"Status","apiVersion":"v1","status":"Failure","message":"no","reason":"NotFound","code":404}`)), 0, "note permissions not checked: there is no ServiceAccount fleetwright in namespace fleetwright-system: it was deleted, or the hub uses another user", false},
	} {
		t.Run(name, func(t *testing.T) {
			file := m.editKubeconfig(t, test.edit)
			t.Parallel()
			got := runAs(t, file, "doctor", "east", "--member-context", "east").scrub()
			text := strings.Join(strings.Fields(got.out), " ")
			failures := 0
			if test.code != 0 {
				failures = 1
			}
			if got.code != test.code || got.errOut != "" || !strings.Contains(text, test.want) || strings.Count(text, "FAIL ") != failures {
				t.Errorf("got exit code %d and\n%s%s\nwant %d FAIL, and\n%s", got.code, got.out, got.errOut, failures, test.want)
			}
			if isLast := !strings.Contains(text, " version "); isLast != test.last || !strings.Contains(text, " clock of hub it differs") {
				t.Errorf("the checks that follow are wrong:\n%s", got.out)
			}
		})
	}
}

func TestDoctor_ends_when_it_is_interrupted(t *testing.T) {
	m := newMember(t)
	create(t, &v1alpha1.MemberCluster{}, `{metadata: {name: interrupted}}`)
	ctx, interrupt := context.WithCancel(t.Context())
	hang := hangAt("selfsubjectreviews")
	edit := m.proxy(t, func(w http.ResponseWriter, r *http.Request) bool {
		if strings.Contains(r.URL.Path, "selfsubjectreviews") {
			interrupt()
		}
		return hang(w, r)
	})
	streams, _, out, errOut := genericiooptions.NewTestIOStreams()
	code := command.Run(ctx, "test", []string{"--kubeconfig", m.editKubeconfig(t, edit), "doctor", "interrupted", "--member-context", "east"}, streams)
	if code != 1 || errOut.String() != "error: interrupted\n" {
		t.Errorf("exit code %d, and\n%s%s", code, out, errOut)
	}
}

// The command ends, with one line.
func TestDoctor_with_a_hub_that_does_not_answer(t *testing.T) {
	m := newMember(t)
	hanging := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { hangAt("")(w, r) }))
	hanging.Config.ErrorLog = log.New(io.Discard, "", 0)
	hanging.StartTLS()
	t.Cleanup(hanging.Close)
	plain := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(plain.Close)
	for name, test := range map[string]struct {
		server, want string
	}{
		"a hub that refuses connections": {"https://127.0.0.1:1", "does not answer (connect: connection refused): check the context, the network and the VPN\n"},
		"a hub that sends nothing":       {"https://" + silentServer(t), "check the context, the network and the VPN\n"},
		"a hub that hangs":               {hanging.URL, "check the context, the network and the VPN\n"},
		"a hub without TLS":              {"https://" + plain.Listener.Addr().String(), "failed: http: server gave HTTP response to HTTPS client\n"},
		"a hub with another authority":   {m.environment.Config.Host, "x509: certificate signed by unknown authority"},
	} {
		t.Run(name, func(t *testing.T) {
			file := m.editKubeconfig(t, func(c *clientcmdapi.Config) {
				c.Clusters["hub"].Server = test.server
				if test.server == hanging.URL {
					c.Clusters["hub"].CertificateAuthorityData = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: hanging.Certificate().Raw})
				}
			})
			t.Parallel()
			got := runAs(t, file, "doctor", "east")
			if got.code != 1 || got.out != "" || !strings.Contains(got.errOut, test.want) || strings.Count(got.errOut, "\n") != 1 {
				t.Errorf("exit code %d, and\n%s%s", got.code, got.out, got.errOut)
			}
		})
	}
}
