package kwok

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/fleetwright/fleetwright/e2e/environment"
)

const (
	operatorProgram = "fleetwright"
	metricsFlag     = "--metrics-bind-address="
)

// operator is a process that runs a copy of the program, so that building a new one does not disturb it.
type operator struct {
	env     *Environment
	metrics string
}

func (e *Environment) operatorDir() string  { return filepath.Join(e.dir, "operator") }
func (e *Environment) operatorFile() string { return filepath.Join(e.operatorDir(), operatorProgram) }
func (e *Environment) operatorLog() string  { return filepath.Join(e.dir, "operator.log") }

// StartOperator is part of [environment.Environment].
func (e *Environment) StartOperator(ctx context.Context, hub environment.Cluster, args ...string) (environment.Operator, error) {
	if running, err := e.Operator(); err != nil || running != nil {
		return nil, errors.Join(errors.New("start the operator: one is running already"), err)
	}
	ports, err := e.ports.take(2)
	if err != nil {
		return nil, err
	}
	address := func(i int) string { return net.JoinHostPort(loopback, strconv.Itoa(ports[i])) }
	if err := errors.Join(
		e.installOperator(),
		os.WriteFile(filepath.Join(e.operatorDir(), "hub.kubeconfig"), hub.Kubeconfig(), 0o600),
	); err != nil {
		return nil, fmt.Errorf("prepare the operator: %w", err)
	}
	args = append([]string{
		"--kubeconfig=" + filepath.Join(e.operatorDir(), "hub.kubeconfig"),
		"--allow-loopback-members",
		metricsFlag + address(0),
		"--health-probe-bind-address=" + address(1),
	}, args...)
	exited, err := e.launch(args)
	if err != nil {
		return nil, fmt.Errorf("start the operator: %w", err)
	}
	// The wait is for this long at most, and shorter when the operator ends.
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() {
		select {
		case <-ctx.Done():
		case err := <-exited:
			cancel(fmt.Errorf("it ended: %w", err))
		}
	}()
	started := &operator{env: e, metrics: "http://" + address(0) + "/metrics"}
	if err := environment.Await(ctx, 30*time.Second, "the operator to be ready", func(ctx context.Context) error {
		return get(ctx, "http://"+address(1)+"/readyz")
	}); err != nil {
		err = errors.Join(err, started.Kill(context.WithoutCancel(ctx)))
		return nil, fmt.Errorf("start the operator: %w; its log ends:\n%s", err, environment.Tail(started.Log(), 10))
	}
	return started, nil
}

// launch starts the program in a session of its own: neither Ctrl-C nor the end of this process reaches it.
// How it ended is sent to the channel, if that is while this process lives.
func (e *Environment) launch(args []string) (<-chan error, error) {
	log, err := os.OpenFile(e.operatorLog(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	defer func() { _ = log.Close() }()
	cmd := exec.Command(e.operatorFile(), args...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	exited := make(chan error, 1)
	go func() {
		if err := cmd.Wait(); err != nil {
			exited <- err
			return
		}
		exited <- errors.New("exit status 0")
	}()
	return exited, nil
}

// installOperator copies the program to the place that it runs from.
func (e *Environment) installOperator() error {
	program, err := os.ReadFile(filepath.Join(e.bin, operatorProgram))
	if err != nil {
		return err
	}
	if err := os.MkdirAll(e.operatorDir(), 0o750); err != nil {
		return err
	}
	// Not written in place: the file may still be running.
	if err := os.WriteFile(e.operatorFile()+".new", program, 0o750); err != nil {
		return err
	}
	return os.Rename(e.operatorFile()+".new", e.operatorFile())
}

// Operator is part of [environment.Environment].
func (e *Environment) Operator() (environment.Operator, error) {
	found, err := processesIn(e.operatorDir())
	if err != nil || len(found) == 0 {
		return nil, err
	}
	running := &operator{env: e}
	for _, arg := range found[0].args {
		if address, ok := strings.CutPrefix(arg, metricsFlag); ok {
			running.metrics = "http://" + address + "/metrics"
		}
	}
	return running, nil
}

// OperatorIsCurrent tells whether the operator that runs is the program that lies in the bin directory now.
func (e *Environment) OperatorIsCurrent() bool {
	running, err := os.ReadFile(e.operatorFile())
	if err != nil {
		return false
	}
	built, err := os.ReadFile(filepath.Join(e.bin, operatorProgram))
	return err == nil && bytes.Equal(running, built)
}

// Kill is part of [environment.Operator].
func (o *operator) Kill(ctx context.Context) error {
	return endAll(ctx, o.env.operatorDir(), syscall.SIGKILL)
}

// Stop is part of [environment.Operator].
func (o *operator) Stop(ctx context.Context) error {
	return endAll(ctx, o.env.operatorDir(), syscall.SIGTERM)
}

// Log is part of [environment.Operator].
func (o *operator) Log() string {
	content, err := os.ReadFile(o.env.operatorLog())
	if err != nil {
		return err.Error()
	}
	return string(content)
}

// MetricsURL is part of [environment.Operator].
func (o *operator) MetricsURL() string { return o.metrics }

func get(ctx context.Context, url string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answers %s", url, response.Status)
	}
	return nil
}
