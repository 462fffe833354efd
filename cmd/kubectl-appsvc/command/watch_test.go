package command_test

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/client-go/rest"

	"github.com/fleetwright/fleetwright/cmd/kubectl-appsvc/command"
	"github.com/fleetwright/fleetwright/internal/wait"
)

// proxyHub returns the kubeconfig of a proxy of the hub, which calls seen with each request.
func proxyHub(t *testing.T, seen func(*http.Request)) (kubeconfig string, server *httptest.Server) {
	t.Helper()
	target, err := url.Parse(hubEnvironment.Config.Host)
	if err != nil {
		t.Fatal(err)
	}
	transport, err := rest.TransportFor(hubEnvironment.Config)
	if err != nil {
		t.Fatal(err)
	}
	proxy := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(target) }, Transport: transport}
	server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		seen(r)
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	kubeconfig = filepath.Join(t.TempDir(), "kubeconfig")
	content := fmt.Sprintf(`{"apiVersion": "v1", "kind": "Config", "current-context": "hub", "contexts": [{"name": "hub", "context": {"cluster": "hub", "user": "hub"}}],
		"clusters": [{"name": "hub", "cluster": {"server": %q}}], "users": [{"name": "hub", "user": {}}]}`, server.URL)
	if err := os.WriteFile(kubeconfig, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return kubeconfig, server
}

// appReads counts the requests of a kind for AppServices: get, list, or watch.
type appReads struct {
	lock   sync.Mutex
	counts map[string]int
}

func (r *appReads) add(request *http.Request) {
	_, name, isApps := strings.Cut(request.URL.Path, "/appservices")
	kind := "list"
	switch {
	case !isApps:
		return
	case name != "":
		kind = "get"
	case request.URL.Query().Get("watch") != "":
		kind = "watch"
	}
	r.lock.Lock()
	defer r.lock.Unlock()
	if r.counts == nil {
		r.counts = map[string]int{}
	}
	r.counts[kind]++
}

func (r *appReads) of(kind string) int {
	r.lock.Lock()
	defer r.lock.Unlock()
	return r.counts[kind]
}

// following is a command that runs until it is interrupted.
type following struct {
	out, errOut *notifier
	ended       chan int
	interrupt   context.CancelFunc
}

// follow starts a command with a kubeconfig.
func follow(t *testing.T, kubeconfig string, args ...string) *following {
	t.Helper()
	ctx, interrupt := context.WithCancel(t.Context())
	f := &following{ended: make(chan int, 1), interrupt: interrupt}
	_, f.out = newNotifier()
	_, f.errOut = newNotifier()
	go func() {
		f.ended <- command.Run(ctx, "test", append([]string{"--kubeconfig", kubeconfig}, args...), genericiooptions.IOStreams{In: &bytes.Buffer{}, Out: f.out, ErrOut: f.errOut})
	}()
	return f
}

// String returns what was written.
func (n *notifier) String() string {
	n.lock.Lock()
	defer n.lock.Unlock()
	return n.text.String()
}

// await waits until a stream has a text.
func (n *notifier) await(t *testing.T, text string) {
	t.Helper()
	wait.Eventually(t, func() error {
		if got := n.String(); !strings.Contains(got, text) {
			return fmt.Errorf("no %q in:\n%s", text, got)
		}
		return nil
	})
}

// end interrupts the command, and returns its result.
func (f *following) end(t *testing.T) result {
	t.Helper()
	f.interrupt()
	return f.result(t)
}

// result waits for the end of the command.
func (f *following) result(t *testing.T) result {
	t.Helper()
	code := wait.Receive(t, f.ended, "the end of the command")
	return result{code, f.out.String(), f.errOut.String()}
}
