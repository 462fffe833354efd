package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/fleetwright/fleetwright/controllers/entries/appslice"
	"github.com/fleetwright/fleetwright/e2e/framework"
	"github.com/fleetwright/fleetwright/e2e/ledger"
	"github.com/fleetwright/fleetwright/internal/environment"
	"github.com/fleetwright/fleetwright/internal/environment/kwok"
)

const (
	// config is the directory of the shipped manifests.
	config = "config"

	// namespace is the namespace of all AppServices and their objects.
	namespace = "soak"

	// sliceThreshold is the number of entries above which they are in slices, if a start of the
	// operator asks for slices.
	sliceThreshold = 2

	// readyTimeout limits the wait for the members at the start of the soak.
	readyTimeout = 2 * time.Minute

	// startAttempts is how often the operator is started until it is ready. A fault can end it
	// during its start, and a kubelet would start it again too.
	startAttempts = 5
)

// fleet is a hub and members, each behind a proxy. The clients of the soak do not use the proxies.
type fleet struct {
	*framework.Fleet

	env     *kwok.Environment
	proxies map[string]*proxy // by cluster
	faults  *faults
	ledger  *ledger.Ledger
	hub     []byte // the operator's kubeconfig, through the proxy

	running   bool      // the operator should run
	slices    bool      // its entries are in slices
	hubCut    time.Time // when the hub was cut, or zero
	starts    int
	approvals int      // of removals
	restarts  []string // why the operator had to be started again, without an action
}

// newFleet creates the clusters, joins the members through the proxies and starts the operator. The
// proxies serve until serving ends.
func newFleet(ctx, serving context.Context, env *kwok.Environment, s settings) (*fleet, error) {
	created, err := framework.New(ctx, env, s.members...)
	if err != nil {
		return nil, err
	}
	f := &fleet{Fleet: created, env: env, proxies: map[string]*proxy{}, faults: newFaults(s.seed), ledger: &ledger.Ledger{}}
	if err := environment.PrepareHub(ctx, f.Hub.Client, filepath.Join(config, "crd", "bases")); err != nil {
		return nil, err
	}
	kubeconfig, err := environment.OperatorKubeconfig(ctx, f.Hub.Kubeconfig(), config)
	if err != nil {
		return nil, err
	}
	if err := f.addProxy(serving, f.Hub, kubeconfig); err != nil {
		return nil, err
	}
	if f.hub, err = f.proxies[framework.HubName].kubeconfig(); err != nil {
		return nil, err
	}
	for name, member := range f.Members {
		if kubeconfig, err = member.MemberKubeconfig(ctx); err != nil {
			return nil, err
		}
		if err := errors.Join(f.addProxy(serving, member, kubeconfig), f.join(ctx, name)); err != nil {
			return nil, err
		}
	}
	of := &corev1.Namespace{}
	of.Name = namespace
	if err := f.Hub.Client.Create(ctx, of); err != nil {
		return nil, err
	}
	if err := f.start(ctx, false); err != nil {
		return nil, err
	}
	return f, environment.Await(ctx, readyTimeout, "the members to be Ready", func(ctx context.Context) error {
		return f.CheckMembersReady(ctx, s.members...)
	})
}

func (f *fleet) addProxy(serving context.Context, c *framework.Cluster, kubeconfig []byte) (err error) {
	f.proxies[c.Name()], err = newProxy(serving, c.Name(), kubeconfig, c.Client, f.faults, f.ledger)
	return err
}

// join writes the Secret of a member, with the newest token.
func (f *fleet) join(ctx context.Context, member string) error {
	kubeconfig, err := f.proxies[member].kubeconfig()
	if err != nil {
		return err
	}
	return environment.JoinWith(ctx, f.Hub.Client, member, kubeconfig, nil)
}

// start starts the operator and waits until it is ready.
func (f *fleet) start(ctx context.Context, inSlices bool) error {
	threshold := appslice.DefaultThreshold
	if inSlices {
		threshold = sliceThreshold
	}
	f.running, f.slices = true, inSlices
	var last error
	for range startAttempts {
		f.starts++
		var operator environment.Operator
		operator, last = f.env.StartOperatorWith(ctx, f.hub, 1, "--leader-elect=false", fmt.Sprintf("--slice-threshold=%d", threshold))
		if last == nil {
			f.Operator = operator
		}
		if last == nil || ctx.Err() != nil {
			return last
		}
		f.restarts = append(f.restarts, last.Error())
	}
	return last
}

// kill ends the operator, as a crash does or as a kubelet does.
func (f *fleet) kill(ctx context.Context, how func(context.Context) error) error {
	f.running = false
	if running, err := f.env.Operator(); err != nil || running == nil {
		return err // it has exited by itself, which supervise will say
	}
	return how(ctx)
}

// supervise starts the operator again if it has exited by itself. It waits for the hub, because a
// start without the hub cannot succeed.
func (f *fleet) supervise(ctx context.Context) error {
	if !f.running || !f.hubCut.IsZero() {
		return nil
	}
	if running, err := f.env.Operator(); err != nil || running != nil {
		return err
	}
	f.restarts = append(f.restarts, "it exited; its log ends:\n"+environment.Tail(f.Operator.Log(), 5))
	return f.start(ctx, f.slices)
}

// blindTime is how long after the end of a cut of the hub the operator may not see the newest
// edits: an informer waits up to 30 s, and longer by chance, before it tries again.
const blindTime = 45 * time.Second

// setGate cuts a cluster, or ends the cut.
func (f *fleet) setGate(cluster string, mode cutMode) {
	f.proxies[cluster].set(mode)
	switch {
	case cluster != framework.HubName:
	case mode == open:
		f.ledger.HideEdits(f.hubCut, time.Now().Add(blindTime))
		f.hubCut = time.Time{}
	default:
		f.hubCut = time.Now()
	}
}

// failures returns what the operator's log says about a crash of its own.
func failures(log string) []string {
	var found []string
	for line := range strings.Lines(log) {
		if strings.HasPrefix(line, "panic:") || strings.HasPrefix(line, "fatal error:") || strings.Contains(line, "Observed a panic") {
			found = append(found, "the operator's log: "+strings.TrimSpace(line))
		}
	}
	return found
}

// lastWrites returns the last requests that changed something.
func (f *fleet) lastWrites(n int) []string {
	var all []ledger.Request
	for _, p := range f.proxies {
		_, last := p.written()
		all = append(all, last...)
	}
	slices.SortFunc(all, func(a, b ledger.Request) int { return a.At.Compare(b.At) })
	var texts []string
	for _, r := range all[max(0, len(all)-n):] {
		texts = append(texts, r.String())
	}
	return texts
}
