package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/cert"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/fleetwright/fleetwright/internal/servertest"
	"github.com/fleetwright/fleetwright/internal/wait"
)

// token creates a ServiceAccount and returns a token of it.
func (h *hub) token(t *testing.T, name string) string {
	t.Helper()
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "fleetwright-system", Name: name}}
	if err := h.admin.Create(t.Context(), account); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = h.admin.Delete(context.Background(), account) })
	request := &authenticationv1.TokenRequest{}
	if err := h.admin.SubResource("token").Create(t.Context(), account, request); err != nil {
		t.Fatal(err)
	}
	return request.Status.Token
}

// readerToken returns the token of a ServiceAccount with the ClusterRole for those who read metrics.
func (h *hub) readerToken(t *testing.T) string {
	t.Helper()
	raw, err := os.ReadFile("../../config/rbac/metrics_reader.yaml")
	if err != nil {
		t.Fatal(err)
	}
	role := &rbacv1.ClusterRole{}
	if err := yaml.UnmarshalStrict(raw, role); err != nil {
		t.Fatal(err)
	}
	for _, object := range []client.Object{role, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "prometheus"},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: "fleetwright-system", Name: "prometheus"}},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role.Name},
	}} {
		if err := h.admin.Create(t.Context(), object); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = h.admin.Delete(context.Background(), object) })
	}
	return h.token(t, "prometheus")
}

// takeReviewPermissions takes the permissions to review clients from the operator, until the end of
// the test.
func (h *hub) takeReviewPermissions(t *testing.T) {
	t.Helper()
	role := &rbacv1.ClusterRole{}
	if err := h.admin.Get(t.Context(), client.ObjectKey{Name: "fleetwright"}, role); err != nil {
		t.Fatal(err)
	}
	rules := slices.Clone(role.Rules)
	role.Rules = slices.DeleteFunc(role.Rules, func(r rbacv1.PolicyRule) bool { return slices.Contains(r.Resources, "tokenreviews") })
	if err := h.admin.Update(t.Context(), role); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		role.Rules = rules
		if err := h.admin.Update(context.Background(), role); err != nil {
			t.Error(err)
		}
	})
}

// scrapedReplica is an operator with a metrics server.
type scrapedReplica struct {
	replica
	metrics string // the address
}

func scraped(t *testing.T, h *hub, flags ...string) scrapedReplica {
	t.Helper()
	address := servertest.FreeAddress(t)
	return scrapedReplica{metrics: address, replica: replicaOn(t, h.kubeconfig, append(flags, "--metrics-bind-address="+address)...)}
}

// waitUntilReady waits until the operator is ready and serves metrics. It becomes ready while the
// server of its metrics starts.
func (r scrapedReplica) waitUntilReady(t *testing.T) {
	t.Helper()
	r.replica.waitUntilReady(t)
	wait.Eventually(t, func() error {
		connection, err := net.Dial("tcp", r.metrics)
		if err != nil {
			return fmt.Errorf("%w\n%s", err, r.output.String())
		}
		return connection.Close()
	})
}

// scrape sends a request to /metrics and returns the status code, the body and, by HTTPS, the
// certificate of the server.
func (r scrapedReplica) scrape(t *testing.T, scheme, method, token string) (int, string, []byte) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, scheme+"://"+r.metrics+"/metrics", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true}
	response, err := (&http.Client{Transport: transport, Timeout: 30 * time.Second}).Do(request)
	if errors.Is(err, syscall.ECONNRESET) { // an HTTPS server resets the connection of an HTTP client after its response
		return http.StatusBadRequest, "", nil
	} else if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	if err != nil && !errors.Is(err, syscall.ECONNRESET) {
		t.Fatal(err)
	}
	if response.TLS == nil {
		return response.StatusCode, string(body), nil
	}
	return response.StatusCode, string(body), response.TLS.PeerCertificates[0].Raw
}

// awaitLeader waits until a replica holds the Lease.
func (h *hub) awaitLeader(t *testing.T) {
	t.Helper()
	wait.Eventually(t, func() error {
		lease := &coordinationv1.Lease{}
		if err := h.admin.Get(t.Context(), client.ObjectKey{Namespace: "fleetwright-system", Name: "fleetwright"}, lease); err != nil {
			return err
		}
		if lease.Spec.HolderIdentity == nil || *lease.Spec.HolderIdentity == "" {
			return errors.New("no replica leads")
		}
		return nil
	})
}

func TestMetrics_are_served(t *testing.T) {
	h := sharedHub(t)
	h.installCRDs(t)
	reader, stranger := h.readerToken(t), h.token(t, "stranger")

	leader := scraped(t, h)
	leader.waitUntilReady(t)
	h.awaitLeader(t)
	standby := scraped(t, h, "--metrics-cert-path", writeCertificate(t, "metrics.example"))
	standby.waitUntilReady(t)
	for name, r := range map[string]scrapedReplica{"the leader": leader, "a standby": standby} {
		for _, test := range []struct {
			name, scheme, method, token string
			code                        int
			body                        string
		}{
			{"to nobody by HTTP", "http", http.MethodGet, reader, http.StatusBadRequest, ""},
			{"to nobody without a token", "https", http.MethodGet, "", http.StatusUnauthorized, "Unauthorized"},
			{"to nobody with an invalid token", "https", http.MethodGet, "x", http.StatusInternalServerError, "Authentication failed"},
			{"to nobody without the permission", "https", http.MethodGet, stranger, http.StatusForbidden, "Authorization denied for user system:serviceaccount:fleetwright-system:stranger"},
			{"with the permission for GET only", "https", http.MethodPost, reader, http.StatusForbidden, "Authorization denied"},
			{"with the permission", "https", http.MethodGet, reader, http.StatusOK, `leader_election_master_status{name="fleetwright"}`},
		} {
			t.Run("by "+name+" "+test.name, func(t *testing.T) {
				code, body, _ := r.scrape(t, test.scheme, test.method, test.token)
				if code != test.code || !strings.Contains(body, test.body) {
					t.Errorf("got %d, want %d with %q:\n%.300s", code, test.code, test.body, body)
				}
				if served := strings.Contains(body, "go_goroutines"); served != (code == http.StatusOK) {
					t.Errorf("the response of %d contains metrics: %v", code, served)
				}
			})
		}
	}
	t.Run("with the given certificate", func(t *testing.T) {
		_, _, certificate := standby.scrape(t, "https", http.MethodGet, "")
		if !bytes.Contains(certificate, []byte("metrics.example")) {
			t.Error("the certificate is not the given one")
		}
	})
	t.Run("to nobody while the hub reviews no token, and the operator works on", func(t *testing.T) {
		another := h.token(t, "another") // which is not cached
		h.takeReviewPermissions(t)
		wait.Eventually(t, func() error {
			if code, body, _ := leader.scrape(t, "https", http.MethodGet, another); code != http.StatusInternalServerError || strings.Contains(body, "go_goroutines") {
				return fmt.Errorf("got %d:\n%.300s", code, body)
			}
			return nil
		})
		leader.waitUntilReady(t)
		h.addHubAsMember(t, "alpha")
		h.removeMember(t, "alpha")
	})
	t.Run("to nobody who fills the log", func(t *testing.T) {
		const times = 50
		for i := range times {
			if code, _, _ := standby.scrape(t, "https", http.MethodGet, fmt.Sprintf("wrong-%d", i)); code != http.StatusInternalServerError {
				t.Fatalf("a wrong token: got %d", code)
			}
			if _, err := tls.Dial("tcp", standby.metrics, &tls.Config{ServerName: "another.example"}); err == nil {
				t.Fatal("the client accepts the certificate")
			}
		}
		standby.waitForLine(t, "http: TLS handshake error")
		written := map[string]int{}
		for line := range strings.Lines(standby.output.String()) {
			var entry struct{ Msg string }
			if err := json.Unmarshal([]byte(line), &entry); err != nil {
				t.Errorf("a line is not in the format of the log: %s", line)
			}
			for _, kind := range clientLines {
				if strings.HasPrefix(entry.Msg, kind) {
					written[kind]++
				}
			}
		}
		// One line a minute, and the test may take some minutes.
		for kind, lines := range written {
			if lines > times/5 {
				t.Errorf("%d lines begin with %q", lines, kind)
			}
		}
	})
	standby.terminateQuietly(t)
	t.Run("to everybody by HTTP with --metrics-secure=false", func(t *testing.T) {
		r := scraped(t, h, "--metrics-secure=false")
		r.waitUntilReady(t)
		if code, body, _ := r.scrape(t, "http", http.MethodGet, ""); code != http.StatusOK || !strings.Contains(body, "go_goroutines") {
			t.Errorf("got %d:\n%.300s", code, body)
		}
		r.terminate(t)
	})
	leader.terminateQuietly(t)
}

// waitForLine waits until the log contains a text.
func (r scrapedReplica) waitForLine(t *testing.T, text string) {
	t.Helper()
	wait.Eventually(t, func() error {
		if !strings.Contains(r.output.String(), text) {
			return fmt.Errorf("the log has no %q", text)
		}
		return nil
	})
}

// terminateQuietly is terminate without its check of the log, which has the refused clients.
func (r scrapedReplica) terminateQuietly(t *testing.T) {
	t.Helper()
	for _, token := range []string{"Bearer", "eyJ"} {
		if strings.Contains(r.output.String(), token) {
			t.Errorf("the log has a token:\n%s", r.output.String())
		}
	}
	_ = r.command.Process.Signal(syscall.SIGTERM)
	if code := r.waitForExit(t); code != 0 {
		t.Errorf("exit code %d", code)
	}
}

// writeCertificate returns a directory with a self-signed certificate and its key.
func writeCertificate(t *testing.T, host string) string {
	t.Helper()
	certificate, key, err := cert.GenerateSelfSignedCertKey(host, []net.IP{net.IPv4(127, 0, 0, 1)}, nil)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := errors.Join(os.WriteFile(filepath.Join(dir, "tls.crt"), certificate, 0o600), os.WriteFile(filepath.Join(dir, "tls.key"), key, 0o600)); err != nil {
		t.Fatal(err)
	}
	return dir
}
