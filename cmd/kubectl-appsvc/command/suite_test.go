package command_test

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/yaml"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/cmd/kubectl-appsvc/command"
	"github.com/fleetwright/fleetwright/internal/golden"
	"github.com/fleetwright/fleetwright/internal/servertest"
)

// All tests share these API servers. The hub has the CRDs and no operator: the tests write the
// status. A test that changes the member gets it from newMember, and is not parallel.
var (
	hubEnvironment    = servertest.New("../../../config/crd/bases")
	memberEnvironment = servertest.New()
)

// hub and onMember are clients of their administrators, and hubKubeconfig is the file of that of the
// hub.
var (
	hub, onMember client.Client
	hubKubeconfig string
)

// pluginName is the name under which kubectl finds the plugin.
const pluginName = "kubectl-appsvc"

// TestMain runs the tests, or is the plugin if it is called by that name.
func TestMain(m *testing.M) {
	if filepath.Base(os.Args[0]) == pluginName {
		ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
		code := command.Run(ctx, "test", os.Args[1:], genericiooptions.IOStreams{In: os.Stdin, Out: os.Stdout, ErrOut: os.Stderr})
		stop()
		os.Exit(code)
	}
	flag.Parse()
	// Go reads the proxy once. It is not used for the API servers of the tests, which are on localhost.
	for name, value := range map[string]string{"HTTPS_PROXY": "http://proxy.invalid:3128", "NO_PROXY": "east.invalid"} {
		if err := os.Setenv(name, value); err != nil {
			panic(err)
		}
	}
	os.Exit(servertest.Run(m.Run, connect, hubEnvironment, memberEnvironment))
}

// connect sets the clients of the API servers, and writes the kubeconfig of the hub.
func connect() error {
	scheme := runtime.NewScheme()
	err := errors.Join(clientgoscheme.AddToScheme(scheme), v1alpha1.AddToScheme(scheme))
	if err != nil {
		return err
	}
	if hub, err = client.New(hubEnvironment.Config, client.Options{Scheme: scheme}); err != nil {
		return err
	}
	if onMember, err = client.New(memberEnvironment.Config, client.Options{Scheme: scheme}); err != nil {
		return err
	}
	hubKubeconfig = filepath.Join(hubEnvironment.ControlPlane.APIServer.CertDir, "admin.kubeconfig")
	return os.WriteFile(hubKubeconfig, hubEnvironment.KubeConfig, 0o600)
}

// result is what a command printed, and its exit code.
type result struct {
	code        int
	out, errOut string
}

// run runs the plugin as an administrator of the hub.
func run(t *testing.T, args ...string) result {
	t.Helper()
	return runAs(t, hubKubeconfig, args...)
}

// runAs runs the plugin with a kubeconfig.
func runAs(t *testing.T, kubeconfig string, args ...string) result {
	t.Helper()
	return runWith(t, "", append([]string{"--kubeconfig", kubeconfig}, args...)...)
}

// runWith runs the plugin with an input and these arguments only.
func runWith(t *testing.T, input string, args ...string) result {
	t.Helper()
	streams, in, out, errOut := genericiooptions.NewTestIOStreams()
	in.WriteString(input)
	code := command.Run(t.Context(), "test", args, streams)
	return result{code, out.String(), errOut.String()}
}

// notifier is an output that reports the first write.
type notifier struct {
	lock  sync.Mutex
	text  bytes.Buffer
	first chan struct{}
	once  sync.Once
}

// newNotifier returns streams, and a channel that is closed when a command has written to the output.
func newNotifier() (<-chan struct{}, *notifier) {
	n := &notifier{first: make(chan struct{})}
	return n.first, n
}

func (n *notifier) Write(content []byte) (int, error) {
	n.lock.Lock()
	defer n.lock.Unlock()
	n.once.Do(func() { close(n.first) })
	return n.text.Write(content)
}

// runStreams runs the plugin as an administrator of the hub, with this output.
func runStreams(t *testing.T, out *notifier, args ...string) result {
	t.Helper()
	errOut := &bytes.Buffer{}
	code := command.Run(t.Context(), "test", append([]string{"--kubeconfig", hubKubeconfig}, args...), genericiooptions.IOStreams{In: &bytes.Buffer{}, Out: out, ErrOut: errOut})
	return result{code, out.text.String(), errOut.String()}
}

// check fails the test unless the command had this result.
func (r result) check(t *testing.T, want result) {
	t.Helper()
	if diff := cmp.Diff(want, r, cmp.AllowUnexported(result{})); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// checkGolden compares what a command printed with testdata/NAME.txt, and fails if a line has more
// than 80 columns.
func (r result) checkGolden(t *testing.T, name string) {
	t.Helper()
	got := r.out
	if r.errOut != "" {
		got += "--- error stream ---\n" + r.errOut
	}
	if r.code != 0 {
		got += fmt.Sprintf("--- exit code %d ---\n", r.code)
	}
	got = ages.ReplaceAllString(got, "${1}AGE")
	for line := range strings.Lines(r.out) {
		if columns := len([]rune(strings.TrimRight(line, "\n"))); columns > 80 {
			t.Errorf("%d columns: %s", columns, line)
		}
	}
	golden.Check(t, name, got)
}

// ages matches the age of an object at the end of a line of a table.
var ages = regexp.MustCompile(`(?m)(  )\d+s$`)

// create creates an object and then its status, both from YAML.
func create(t *testing.T, object client.Object, content string) {
	t.Helper()
	if err := yaml.UnmarshalStrict([]byte(content), object); err != nil {
		t.Fatal(err)
	}
	withStatus := object.DeepCopyObject().(client.Object)
	if err := hub.Create(t.Context(), object); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := hub.Delete(context.Background(), object); client.IgnoreNotFound(err) != nil {
			t.Error(err)
		}
	})
	withStatus.SetResourceVersion(object.GetResourceVersion())
	if err := hub.Status().Update(t.Context(), withStatus); err != nil {
		t.Fatal(err)
	}
	object.SetResourceVersion(withStatus.GetResourceVersion())
}

// kubeconfigOf returns a kubeconfig file of a user of the hub, who has no permissions.
func kubeconfigOf(t *testing.T, user string) string {
	t.Helper()
	added, err := hubEnvironment.AddUser(envtest.User{Name: user}, nil)
	if err != nil {
		t.Fatal(err)
	}
	content, err := added.KubeConfig()
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(file, bytes.Clone(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}
