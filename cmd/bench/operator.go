package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/internal/environment"
	"github.com/fleetwright/fleetwright/internal/environment/kwok"
	"github.com/fleetwright/fleetwright/internal/machine"
)

// configDir is the directory of the shipped manifests.
const configDir = "config"

// operator is the operator as a process.
type operator struct {
	fleet   *fleet
	program string
	hub     []byte // the kubeconfig
	// hasStandby starts the operator as it is shipped: with leader election and a second replica.
	hasStandby bool
	process    *machine.Process
	standby    *machine.Process // or nil
	metrics    string           // the address
	profiler   string           // the address, or nothing
	help       []byte           // the flags of the program
}

// standbyName is the name of the second replica.
const standbyName = "the standby"

// start starts the process and does not wait. With a standby, it waits until the process leads.
func (o *operator) start() (err error) {
	if o.process, err = o.startReplica("the operator"); err != nil || !o.hasStandby {
		return err
	}
	if err := environment.Await(context.Background(), startTimeout, "the operator to lead", o.leads); err != nil {
		return o.explain(err)
	}
	profiler, metrics := o.profiler, o.metrics // of the one that is measured
	o.standby, err = o.startReplica(standbyName)
	o.profiler, o.metrics = profiler, metrics
	return err
}

// leads returns an error unless the operator has the Lease.
func (o *operator) leads(ctx context.Context) error {
	content, err := o.readMetrics(ctx)
	if err == nil && !isLeader.Match(content) {
		err = errors.New("another replica has the Lease")
	}
	return err
}

var isLeader = regexp.MustCompile(`(?m)^leader_election_master_status\{.*\} 1$`)

// readMetrics returns the operator's metrics.
func (o *operator) readMetrics(ctx context.Context) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+o.metrics+"/metrics", http.NoBody)
	if err != nil {
		return nil, err
	}
	return do(http.DefaultClient, request)
}

// stop stops the processes.
func (o *operator) stop() error {
	var err error
	if o.standby != nil { // first, so that it does not take over
		err = o.standby.Stop()
	}
	return errors.Join(err, o.process.Stop())
}

// startReplica starts a process with a name.
func (o *operator) startReplica(name string) (*machine.Process, error) {
	ports, err := kwok.FreePorts(o.fleet.dir, 3)
	if err != nil {
		return nil, err
	}
	hub := filepath.Join(o.fleet.dir, "hub.kubeconfig")
	if err := os.WriteFile(hub, o.hub, 0o600); err != nil {
		return nil, err
	}
	o.metrics = address(ports[0])
	args := append([]string{
		"--kubeconfig=" + hub, "--allow-loopback-members", fmt.Sprintf("--leader-elect=%t", o.hasStandby),
		"--metrics-bind-address=" + o.metrics, "--health-probe-bind-address=" + address(ports[1]),
	}, o.fleet.flags...)
	if err := o.readHelp(); err != nil {
		return nil, err
	}
	if bytes.Contains(o.help, []byte("--metrics-secure")) {
		args = append(args, "--metrics-secure=false")
	}
	if o.fleet.propagates {
		args = append(args, "--propagate-from="+namespace)
	}
	cmd := exec.Command(o.program, args...)
	if o.fleet.profiles != "" {
		o.profiler = address(ports[2])
		cmd.Env = append(os.Environ(), profilerVariable+"="+o.profiler)
	}
	return o.fleet.group.Start(name, cmd, filepath.Join(o.fleet.dir, strings.TrimPrefix(name, "the ")+".log"))
}

// readHelp reads the flags of the program, once: the time of a start is measured. An older operator, which
// -base compares with, always serves metrics by HTTP.
func (o *operator) readHelp() (err error) {
	if o.help != nil {
		return nil
	}
	if o.help, err = exec.Command(o.program, "--help").Output(); err != nil {
		return fmt.Errorf("read the flags of %s: %w", o.program, err)
	}
	return nil
}

// explain adds the end of the operator's log to an error.
func (o *operator) explain(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%w; the operator's log ends:\n%s", err, tailOf(o.process.Log))
}

// editors is the number of AppServices that are edited at a time.
const editors = 32

// apply creates AppServices.
func (o *operator) apply(ctx context.Context, apps []app) error {
	return each(ctx, apps, func(a app) error { return o.fleet.servers.hub.api.Create(ctx, a.appService()) })
}

// edit edits AppServices.
func (o *operator) edit(ctx context.Context, apps []app) error {
	return each(ctx, apps, func(a app) error {
		patch := fmt.Appendf(nil, `{"spec":{"image":%q}}`, a.Image)
		return o.fleet.servers.hub.api.Patch(ctx, a.appService(), client.RawPatch("application/merge-patch+json", patch))
	})
}

// remove deletes AppServices.
func (o *operator) remove(ctx context.Context, apps []app) error {
	return each(ctx, apps, func(a app) error { return o.fleet.servers.hub.api.Delete(ctx, a.appService()) })
}

// each calls a function for AppServices, many at a time.
func each(ctx context.Context, apps []app, do func(app) error) error {
	errs := make([]error, len(apps))
	workqueue.ParallelizeUntil(ctx, editors, len(apps), func(i int) { errs[i] = do(apps[i]) })
	return errors.Join(errs...)
}

func (o *operator) running() []*machine.Process { return []*machine.Process{o.process} }

func (o *operator) kill() error { return o.process.Kill() }

// reported returns what an AppService reports.
func (o *operator) reported(object client.Object) (report, bool) {
	a, ok := object.(*v1alpha1.AppService)
	if !ok {
		return report{}, false
	}
	return report{
		image: a.Spec.Image, isCurrent: a.Status.ObservedGeneration == a.Generation,
		readyMembers: int(a.Status.Summary.Ready), readyReplicas: int(a.Status.Summary.ReadyReplicas),
	}, true
}

// join joins the members with the given kubeconfigs, by name.
func (f *fleet) join(ctx context.Context, kubeconfigs map[string][]byte) error {
	for name, kubeconfig := range kubeconfigs {
		if err := environment.JoinWith(ctx, f.servers.hub.api, name, kubeconfig, nil); err != nil {
			return err
		}
	}
	return nil
}

// goroutines returns the number of goroutines, from the operator's metrics.
func (o *operator) goroutines(ctx context.Context) (int, error) {
	content, err := o.readMetrics(ctx)
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(content)) {
		if text, found := strings.CutPrefix(line, "go_goroutines "); found {
			return strconv.Atoi(strings.TrimSpace(text))
		}
	}
	return 0, errors.New("the operator's metrics lack go_goroutines")
}

// profile starts a CPU profile, if profiles are asked for. The function that it returns ends the
// profile and writes it and a heap profile.
func (o *operator) profile(ctx context.Context, phase string) (func() error, error) {
	if o.profiler == "" {
		return func() error { return nil }, nil
	}
	file := func(kind string) string {
		return filepath.Join(o.fleet.profiles, fmt.Sprintf("%s-%d.%s.pprof", phase, time.Now().Unix(), kind))
	}
	if err := o.askProfiler(ctx, "start", file("cpu")); err != nil {
		return nil, err
	}
	return func() error {
		return errors.Join(o.askProfiler(ctx, "stop", ""), o.askProfiler(ctx, "heap", file("heap")))
	}, nil
}

func (o *operator) askProfiler(ctx context.Context, what, file string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+o.profiler+"/"+what+"?file="+url.QueryEscape(file), bytes.NewReader(nil))
	if err != nil {
		return err
	}
	_, err = do(http.DefaultClient, request)
	return err
}
