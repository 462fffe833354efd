package command_test

import (
	"context"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/fleetwright/fleetwright/config/member"
	"github.com/fleetwright/fleetwright/internal/wait"
)

const secretNamespace = "fleetwright-system"

// memberEnv is an API server that joins, and a kubeconfig with the contexts hub and east of the two
// administrators.
type memberEnv struct {
	client.Client
	environment *envtest.Environment
	kubeconfig  string
	id          types.UID
}

// newMember returns the member. When the test ends, nothing that join creates is left on it.
func newMember(t *testing.T) *memberEnv {
	t.Helper()
	ctrllog.SetLogger(logr.Discard())
	system := &corev1.Namespace{}
	if err := onMember.Get(t.Context(), client.ObjectKey{Name: metav1.NamespaceSystem}, system); err != nil {
		t.Fatal(err)
	}
	m := &memberEnv{Client: onMember, environment: memberEnvironment, id: system.UID}
	m.kubeconfig = m.contexts(t, map[string][]byte{"hub": hubEnvironment.KubeConfig, "east": m.environment.KubeConfig})
	ensureNamespace(t, hub, secretNamespace)
	t.Cleanup(func() { m.removeGrants(t) })
	return m
}

// join joins east, and does not wait for the connection. A join that fails ends the test.
func (m *memberEnv) join(t *testing.T, args ...string) result {
	t.Helper()
	got := m.run(t, append([]string{"join", "east", "--allow-loopback", "--timeout", "0"}, args...)...)
	if got.code != 0 {
		t.Fatal(got)
	}
	return got
}

// doctor returns what doctor says of east, with one space between its words.
func (m *memberEnv) doctor(t *testing.T) string {
	t.Helper()
	return strings.Join(strings.Fields(m.run(t, "doctor", "east").out), " ")
}

// removeGrants deletes what config/member has, for all namespaces and for those of these tests.
func (m *memberEnv) removeGrants(t *testing.T) {
	t.Helper()
	ctx := context.Background()
	for _, object := range allGrants(t) {
		if err := m.Delete(ctx, object); client.IgnoreNotFound(err) != nil {
			t.Error(err)
		}
	}
	// No controller removes the namespace. Until the API server has seen that it is gone, it would
	// refuse what the next test creates there.
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: member.Namespace}}
	if err := m.SubResource("finalize").Update(ctx, namespace); client.IgnoreNotFound(err) != nil {
		t.Error(err)
	}
	wait.Eventually(t, func() error {
		probe := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: member.Namespace, Name: "probe"}}
		if err := m.Create(ctx, probe, client.DryRunAll); !apierrors.IsNotFound(err) {
			return fmt.Errorf("namespace %s is not gone: %w", member.Namespace, err)
		}
		return nil
	})
}

func ensureNamespace(t *testing.T, c client.Client, name string) {
	t.Helper()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if err := c.Create(t.Context(), namespace); client.IgnoreAlreadyExists(err) != nil {
		t.Fatal(err)
	}
}

// contexts writes a kubeconfig with a context for each of these kubeconfigs. The hub is the current
// one.
func (m *memberEnv) contexts(t *testing.T, of map[string][]byte) string {
	t.Helper()
	merged := clientcmdapi.NewConfig()
	for name, content := range of {
		config, err := clientcmd.Load(content)
		if err != nil {
			t.Fatal(err)
		}
		current := config.Contexts[config.CurrentContext]
		merged.Clusters[name], merged.AuthInfos[name] = config.Clusters[current.Cluster], config.AuthInfos[current.AuthInfo]
		merged.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: name}
	}
	merged.CurrentContext = "hub"
	return writeKubeconfig(t, merged)
}

func writeKubeconfig(t *testing.T, config *clientcmdapi.Config) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(*config, file); err != nil {
		t.Fatal(err)
	}
	return file
}

// editKubeconfig returns a copy of the kubeconfig with a change.
func (m *memberEnv) editKubeconfig(t *testing.T, edit func(*clientcmdapi.Config)) string {
	t.Helper()
	return editFile(t, m.kubeconfig, edit)
}

// editFile returns a copy of a kubeconfig file with a change.
func editFile(t *testing.T, file string, edit func(*clientcmdapi.Config)) string {
	t.Helper()
	config, err := clientcmd.LoadFromFile(file)
	if err != nil {
		t.Fatal(err)
	}
	edit(config)
	return writeKubeconfig(t, config)
}

// throughProxy returns a copy of the kubeconfig whose context sends its requests, as an administrator,
// to a proxy before an API server. If answer returns true, it has answered the request.
func (m *memberEnv) throughProxy(t *testing.T, environment *envtest.Environment, name string, answer func(http.ResponseWriter, *http.Request) bool) string {
	t.Helper()
	return m.editKubeconfig(t, leadTo(name, startProxy(t, environment, answer)))
}

// startProxy starts a server before an API server. It passes requests on with the rights of an
// administrator, unless answer returns true.
func startProxy(t *testing.T, environment *envtest.Environment, answer func(http.ResponseWriter, *http.Request) bool) *httptest.Server {
	t.Helper()
	target, err := url.Parse(environment.Config.Host)
	if err != nil {
		t.Fatal(err)
	}
	transport, err := rest.TransportFor(environment.Config)
	if err != nil {
		t.Fatal(err)
	}
	backend := httputil.NewSingleHostReverseProxy(target)
	backend.Transport, backend.ErrorLog = transport, log.New(io.Discard, "", 0)
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !answer(w, r) {
			backend.ServeHTTP(w, r)
		}
	}))
	server.Config.ErrorLog = backend.ErrorLog
	server.StartTLS()
	t.Cleanup(server.Close)
	t.Cleanup(server.CloseClientConnections)
	return server
}

// leadTo returns a kubeconfig edit that leads a context to a server.
func leadTo(name string, server *httptest.Server) func(*clientcmdapi.Config) {
	return func(c *clientcmdapi.Config) {
		ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
		c.Clusters[name] = &clientcmdapi.Cluster{Server: server.URL, CertificateAuthorityData: ca}
		c.AuthInfos[name] = &clientcmdapi.AuthInfo{Token: "any"}
	}
}

// userOf returns the kubeconfig of a user of an API server.
func userOf(t *testing.T, environment *envtest.Environment, name string) []byte {
	t.Helper()
	user, err := environment.AddUser(envtest.User{Name: name}, nil)
	if err != nil {
		t.Fatal(err)
	}
	content, err := user.KubeConfig()
	if err != nil {
		t.Fatal(err)
	}
	return content
}

// run runs the plugin with the two contexts.
func (m *memberEnv) run(t *testing.T, args ...string) result {
	t.Helper()
	return runAs(t, m.kubeconfig, args...).scrub()
}

var (
	times     = regexp.MustCompile(`\d{4}-\d\d-\d\d(\s+\d\d:\d\d\s+UTC)?`)
	addresses = regexp.MustCompile(`127\.0\.0\.1:\d{2,}`)
	uids      = regexp.MustCompile(`[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}`)
	ports     = regexp.MustCompile(`localhost:\d{2,}`)
	durations = regexp.MustCompile(`answers in \d+m?s`)
)

// scrub replaces what differs each time.
func (r result) scrub() result {
	for _, text := range []*string{&r.out, &r.errOut} {
		*text = times.ReplaceAllString(*text, "TIME")
		*text = addresses.ReplaceAllString(*text, "ADDRESS")
		*text = uids.ReplaceAllString(*text, "UID")
		*text = durations.ReplaceAllString(*text, "answers in TIME")
	}
	return r
}

// readSecret returns the Secret of a member on the hub, or nil.
func readSecret(t *testing.T, name string) *corev1.Secret {
	t.Helper()
	secret := &corev1.Secret{}
	err := hub.Get(t.Context(), client.ObjectKey{Namespace: secretNamespace, Name: name}, secret)
	if client.IgnoreNotFound(err) != nil {
		t.Fatal(err)
	}
	if err != nil {
		return nil
	}
	return secret
}

// deleteSecret deletes the Secret of a member when the test ends.
func deleteSecret(t *testing.T, name string) {
	t.Helper()
	t.Cleanup(func() {
		secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: secretNamespace, Name: name}}
		if err := hub.Delete(context.Background(), secret); client.IgnoreNotFound(err) != nil {
			t.Error(err)
		}
	})
}

// clientOf returns a client with the kubeconfig of a Secret.
func clientOf(t *testing.T, secret *corev1.Secret) client.Client {
	t.Helper()
	config, err := clientcmd.RESTConfigFromKubeConfig(secret.Data["kubeconfig"])
	if err != nil {
		t.Fatal(err)
	}
	c, err := client.New(config, client.Options{Scheme: hub.Scheme()})
	if err != nil {
		t.Fatal(err)
	}
	return c
}
