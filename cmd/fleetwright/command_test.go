package main

import (
	"bytes"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/go-logr/logr"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/fleetwright/fleetwright/internal/servertest"
	"github.com/fleetwright/fleetwright/internal/wait"
)

// TestMain runs the command itself in the processes that these tests start.
func TestMain(m *testing.M) {
	if os.Getenv("TEST_IS_FLEETWRIGHT") != "" {
		go panicOnSignal()
		main()
		return
	}
	ctrl.SetLogger(logr.Discard())
	code := m.Run()
	if startedHub != nil {
		_ = startedHub.environment.Stop()
	}
	os.Exit(code)
}

// panicOnSignal panics on SIGUSR1 as a goroutine of client-go does.
func panicOnSignal() {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGUSR1)
	<-signals
	defer utilruntime.HandleCrash()
	panic("on purpose")
}

// process is a running fleetwright.
type process struct {
	command *exec.Cmd
	output  output
	ended   chan struct{}
}

type output struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

// fleetwright starts the command without environment variables that lead to a hub.
func fleetwright(t *testing.T, args ...string) *process {
	t.Helper()
	p := &process{command: exec.Command(os.Args[0], args...), ended: make(chan struct{})}
	p.command.Env = []string{"TEST_IS_FLEETWRIGHT=1", "HOME=" + t.TempDir()}
	p.command.Stdout, p.command.Stderr = &p.output, &p.output
	if err := p.command.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(p.ended)
		_ = p.command.Wait()
	}()
	t.Cleanup(func() {
		_ = p.command.Process.Kill()
		<-p.ended
	})
	return p
}

// waitForExit waits until the process exits, and returns the exit code.
func (p *process) waitForExit(t *testing.T) int {
	t.Helper()
	select {
	case <-p.ended:
		return p.command.ProcessState.ExitCode()
	case <-time.After(wait.Patience):
		_ = p.command.Process.Signal(syscall.SIGQUIT) // prints its goroutines
		<-p.ended
		t.Fatalf("the process still runs after %s:\n%s", wait.Patience, p.output.String())
		return 0
	}
}

// checkFailure checks that the command exits with code 1 and prints one line that contains the
// text.
func checkFailure(t *testing.T, want string, args ...string) {
	t.Helper()
	p := fleetwright(t, args...)
	code, output := p.waitForExit(t), p.output.String()
	if code != 1 {
		t.Errorf("exit code %d", code)
	}
	if strings.Count(output, "\n") != 1 || !strings.HasPrefix(output, "fleetwright: ") || !strings.Contains(output, want) {
		t.Errorf("want one line with %q, got:\n%s", want, output)
	}
}

func TestInvalid_options_are_reported_in_one_line(t *testing.T) {
	nowhere, malformed := filepath.Join(t.TempDir(), "nowhere"), filepath.Join(t.TempDir(), "malformed")
	if err := os.WriteFile(malformed, []byte("clusters: ["), 0o600); err != nil {
		t.Fatal(err)
	}
	tests := map[string]struct {
		args []string
		want string
	}{
		"an invalid selector":               {[]string{"--secret-selector", "a in"}, `--secret-selector "a in"`},
		"an empty selector":                 {[]string{"--secret-selector", ""}, "--secret-selector is empty"},
		"an unknown log level":              {[]string{"--log-level", "loud"}, `--log-level "loud": want debug, info, warn or error`},
		"an unknown log format":             {[]string{"--log-format", "xml"}, `--log-format "xml": want json or text`},
		"an unknown flag":                   {[]string{"--colour"}, "unknown flag: --colour"},
		"an unknown command":                {[]string{"start"}, `unknown command "start"`},
		"an invalid interval":               {[]string{"--member-probe-interval", "often"}, "--member-probe-interval"},
		"an interval of 0":                  {[]string{"--member-probe-interval", "0s"}, "--member-probe-interval"},
		"a Secret grace of 0":               {[]string{"--secret-grace", "0s"}, "--secret-grace"},
		"a slice threshold of 0":            {[]string{"--slice-threshold", "0"}, "--slice-threshold 0: want 1 to 1300, because more entries may not fit into one object of the hub"},
		"a bad namespace":                   {[]string{"--propagate-from", "shop,Bad"}, `--propagate-from shop,Bad: "Bad" is not the name of a namespace: use names that are separated by commas, or * for all`},
		"all namespaces and another":        {[]string{"--propagate-from", "*,shop"}, `--propagate-from *,shop: * is all namespaces: remove the others`},
		"a slice threshold of 5000":         {[]string{"--slice-threshold", "5000"}, "--slice-threshold 5000: want 1 to 1300, because more entries may not fit into one object of the hub"},
		"a negative interval":               {[]string{"--member-probe-interval", "-1s"}, "--member-probe-interval"},
		"a QPS of 0":                        {[]string{"--member-qps", "0"}, "--member-qps"},
		"a list limit that is too small":    {[]string{"--member-max-list", "1Mi"}, "--member-max-list 1Mi: want 4Mi or more"},
		"a list limit that is not a size":   {[]string{"--member-max-list", "large"}, "--member-max-list"},
		"a burst of 0":                      {[]string{"--member-burst", "0"}, "--member-burst"},
		"a kubeconfig that is missing":      {[]string{"--kubeconfig", nowhere}, nowhere},
		"a malformed kubeconfig":            {[]string{"--kubeconfig", malformed}, malformed},
		"an unknown context":                {[]string{"--kubeconfig", hubAt(t, "https://127.0.0.1:1"), "--context", "other"}, `"other"`},
		"no kubeconfig":                     {nil, "find the hub"},
		"a hub that refuses connections":    {[]string{"--kubeconfig", hubAt(t, "https://"+servertest.FreeAddress(t))}, "reach the hub at https://127.0.0.1:"},
		"an empty namespace":                {[]string{"--secret-namespace", ""}, "--secret-namespace"},
		"a collector that is not a URL":     {[]string{"--tracing-endpoint", "http://a b"}, "--tracing-endpoint: want a URL"},
		"a collector without a scheme":      {[]string{"--tracing-endpoint", "collector:4318"}, `--tracing-endpoint "collector:4318": want a URL`},
		"a collector with gRPC":             {[]string{"--tracing-endpoint", "grpc://collector:4317"}, "--tracing-endpoint"},
		"a collector with a password":       {[]string{"--tracing-endpoint", "http://a:b@collector"}, "--tracing-endpoint contains credentials"},
		"a collector with a query":          {[]string{"--tracing-endpoint", "http://collector?a=b"}, "--tracing-endpoint"},
		"a directory without a certificate": {[]string{"--metrics-cert-path", nowhere}, "--metrics-cert-path " + nowhere + ": open " + nowhere + "/tls.crt"},
		"a certificate without HTTPS":       {[]string{"--metrics-cert-path", nowhere, "--metrics-secure=false"}, "--metrics-secure=false uses no certificate"},
		"a sample of 0":                     {[]string{"--tracing-sample", "0"}, "--tracing-sample 0"},
		"a sample over 1":                   {[]string{"--tracing-sample", "1.1"}, "--tracing-sample 1.1"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			checkFailure(t, test.want, test.args...)
		})
	}
}

// hubAt returns the path of a kubeconfig for a hub at an address.
func hubAt(t *testing.T, server string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "kubeconfig")
	content := `{"apiVersion": "v1", "kind": "Config", "current-context": "hub", "contexts": [{"name": "hub", "context": {"cluster": "hub", "user": "hub"}}],
		"clusters": [{"name": "hub", "cluster": {"server": "` + server + `", "insecure-skip-tls-verify": true}}], "users": [{"name": "hub", "user": {"token": "x"}}]}`
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestVersion_is_printed(t *testing.T) {
	var out bytes.Buffer
	command := newCommand()
	command.SetArgs([]string{"version"})
	command.SetOut(&out)
	if err := command.ExecuteContext(t.Context()); err != nil {
		t.Fatal(err)
	}
	if want := "fleetwright unknown " + runtime.Version() + " " + runtime.GOOS + "/" + runtime.GOARCH + "\n"; out.String() != want {
		t.Errorf("got %q, want %q", out.String(), want)
	}
	if p := fleetwright(t, "--version"); p.waitForExit(t) != 0 || !strings.Contains(p.output.String(), "unknown") {
		t.Errorf("--version prints %q", p.output.String())
	}
}

func TestHelp_lists_the_flags(t *testing.T) {
	p := fleetwright(t, "--help")
	code, output := p.waitForExit(t), p.output.String()
	for _, flag := range []string{"kubeconfig", "secret-namespace", "secret-selector", "allow-loopback-members", "leader-elect", "log-level"} {
		if code != 0 || !strings.Contains(output, "--"+flag) {
			t.Errorf("exit code %d, and --%s is missing in:\n%s", code, flag, output)
		}
	}
}
