package clusters_test

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/fleetwright/fleetwright/clusters/transport"
	"github.com/fleetwright/fleetwright/internal/wait"
)

// Environment variables of a process of this test binary that runs an operator: the kubeconfig of
// the hub, and the namespace of the Secrets.
const (
	operatorProcessHub       = "TEST_OPERATOR_HUB"
	operatorProcessNamespace = "TEST_OPERATOR_NAMESPACE"
)

// runOperatorProcess runs an operator until the standard input is closed.
func runOperatorProcess(kubeconfig string) {
	log := logr.FromSlogHandler(slog.NewTextHandler(os.Stderr, nil))
	ctrl.SetLogger(log)
	klog.SetLogger(log)
	hub, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		panic(err)
	}
	o, err := startOperatorOn(hub, os.Getenv(operatorProcessNamespace))
	if err != nil {
		panic(err)
	}
	_, _ = io.Copy(io.Discard, os.Stdin)
	if err := o.stop(); err != nil {
		panic(err)
	}
	os.Exit(0)
}

// operatorProcess is an operator in a process of its own.
type operatorProcess struct {
	*exec.Cmd
	operator *operator // only its namespace and its user
}

// startOperatorProcess starts an operator in a process of its own. It ends with the test.
func (env *testEnv) startOperatorProcess(t testing.TB, namespace string) *operatorProcess {
	t.Helper()
	if err := env.grantOperator(namespace); err != nil {
		t.Fatal(err)
	}
	o := &operator{namespace: namespace, user: operatorUser(namespace)}
	kubeconfig := filepath.Join(t.TempDir(), "hub")
	if err := writeKubeconfig(kubeconfig, env.hub.userConfig(o.user)); err != nil {
		t.Fatal(err)
	}
	p := &operatorProcess{exec.Command(os.Args[0]), o}
	p.Env = append(os.Environ(), operatorProcessHub+"="+kubeconfig, operatorProcessNamespace+"="+namespace)
	p.Stderr = operatorLog
	input, err := p.StdinPipe()
	if err := errors.Join(err, p.Start()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = input.Close()
		if err := p.Wait(); err != nil {
			t.Errorf("the operator: %v", err)
		}
	})
	return p
}

// writeKubeconfig writes a configuration with a client certificate to a file.
func writeKubeconfig(path string, config *rest.Config) error {
	return clientcmd.WriteToFile(api.Config{
		CurrentContext: "x",
		Contexts:       map[string]*api.Context{"x": {Cluster: "x", AuthInfo: "x"}},
		Clusters:       map[string]*api.Cluster{"x": {Server: config.Host, CertificateAuthorityData: config.CAData}},
		AuthInfos:      map[string]*api.AuthInfo{"x": {ClientCertificateData: config.CertData, ClientKeyData: config.KeyData}},
	}, path)
}

// stopFor stops the process for some time.
func (p *operatorProcess) stopFor(t testing.TB, pause time.Duration) {
	t.Helper()
	if err := p.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	time.Sleep(pause)
	if err := p.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
}

// probeGate holds probes while it is closed.
type probeGate struct {
	mu     sync.Mutex
	opened chan struct{} // nil while the gate is open
	held   int
}

func (g *probeGate) close() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.opened = make(chan struct{})
}

func (g *probeGate) open() {
	g.mu.Lock()
	defer g.mu.Unlock()
	close(g.opened)
	g.opened = nil
}

// heldProbes returns the number of probes that the gate holds.
func (g *probeGate) heldProbes() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.held
}

// fault holds a probe while the gate is closed, and then lets it pass.
func (g *probeGate) fault(_ http.ResponseWriter, r *http.Request) bool {
	g.mu.Lock()
	opened := g.opened
	if !isProbe(r) || opened == nil {
		g.mu.Unlock()
		return false
	}
	g.held++
	g.mu.Unlock()
	select {
	case <-opened:
	case <-r.Context().Done():
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.held--
	return false
}

// A process that is stopped in turns finds each answer after the time for it has passed. It must
// not take its own slowness for the members'.
func TestMembers_of_an_operator_that_stalls(t *testing.T) {
	t.Parallel()
	const count = 20
	env := sharedEnv(t)
	p := env.startOperatorProcess(t, "fleet-stalls")
	gate := &probeGate{}
	var members []*testMember
	for i := range count {
		m := env.newMember(t, p.operator, fmt.Sprintf("stalls-%d", i))
		m.proxy.setFault(gate.fault)
		m.createSecret(t, m.kubeconfig(t))
		members = append(members, m)
	}
	lists := map[string][]string{}
	for _, m := range members {
		m.waitForConditions(t, summaryConnected)
		lists[m.name] = env.member.listRequests(m.user())
	}
	checkConnected := func(members []*testMember) {
		t.Helper()
		for _, m := range members {
			if got := conditionSummary(m.memberCluster(t)); got != summaryConnected {
				t.Errorf("%s: %s", m.name, got)
			}
			if diff := cmp.Diff(lists[m.name], env.member.listRequests(m.user())); diff != "" {
				t.Errorf("%s was connected again: (-before +after)\n%s", m.name, diff)
			}
		}
	}

	// Each probe that is sent is answered after the process was stopped for longer than a member
	// may take. Probes of most members are sent in each turn.
	for range maxProbeFailures + 1 {
		gate.close()
		wait.Eventually(t, func() error {
			if gate.heldProbes() == 0 {
				return errors.New("no member is probed")
			}
			return nil
		})
		time.Sleep(1500 * time.Millisecond) // much less than the timeout
		held := gate.heldProbes()
		p.stopFor(t, transport.GetTimeout+time.Second)
		time.Sleep(300 * time.Millisecond) // its timers fire
		gate.open()
		t.Logf("%d probes were answered late", held)
		wait.Eventually(t, func() error {
			if left := gate.heldProbes(); left > 0 {
				return fmt.Errorf("%d probes are still held", left)
			}
			return nil
		})
	}
	checkConnected(members)
	if t.Failed() {
		return
	}

	// A member that is cut off meanwhile is still found.
	cut := members[0]
	cut.link.setMode(t, modeSilent)
	wait.Eventually(t, func() error {
		p.stopFor(t, 2*time.Second)
		time.Sleep(2 * time.Second)
		if got := conditionSummary(cut.memberCluster(t)); got != "Ready Unknown Unreachable, CredentialsValid True Accepted" {
			return fmt.Errorf("%s: %s", cut.name, got)
		}
		return nil
	})
	checkConnected(members[1:])
}
