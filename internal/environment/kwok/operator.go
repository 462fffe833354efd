package kwok

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/fleetwright/fleetwright/internal/environment"
)

const (
	operatorProgram = "fleetwright"
	metricsFlag     = "--metrics-bind-address="
)

// operator is a set of processes, which run copies of the program: a new build does not affect
// them. It has no state.
type operator struct{ env *Environment }

func (e *Environment) operatorDir() string { return filepath.Join(e.dir, "operator") }

// operatorFile returns the path of a replica's program, which identifies the process.
func (e *Environment) operatorFile(replica int) string {
	return filepath.Join(e.operatorDir(), strconv.Itoa(replica), operatorProgram)
}
func (e *Environment) operatorLog() string { return filepath.Join(e.dir, "operator.log") }

// StartOperator is part of [environment.Environment].
func (e *Environment) StartOperator(ctx context.Context, hub environment.Cluster, replicas int, args ...string) (environment.Operator, error) {
	kubeconfig, err := environment.OperatorKubeconfig(ctx, hub.Kubeconfig(), e.config)
	if err != nil {
		return nil, fmt.Errorf("prepare the operator: %w", err)
	}
	return e.StartOperatorWith(ctx, kubeconfig, replicas, args...)
}

// StartOperatorWith is StartOperator with a given kubeconfig of the hub.
func (e *Environment) StartOperatorWith(ctx context.Context, kubeconfig []byte, replicas int, args ...string) (environment.Operator, error) {
	if running, err := e.Operator(); err != nil || running != nil {
		return nil, errors.Join(errors.New("start the operator: an operator is running already"), err)
	}
	started := &operator{env: e}
	for replica := range replicas {
		if err := e.startReplica(ctx, replica, kubeconfig, args); err != nil {
			err = errors.Join(err, started.Kill(context.WithoutCancel(ctx)))
			return nil, fmt.Errorf("start the operator: %w; its log ends:\n%s", err, environment.Tail(started.Log(), 10))
		}
	}
	return started, nil
}

// startReplica starts one replica and waits until it is ready.
func (e *Environment) startReplica(ctx context.Context, replica int, kubeconfig []byte, args []string) error {
	ports, err := e.ports.take(2)
	if err != nil {
		return err
	}
	address := func(i int) string { return net.JoinHostPort(loopback, strconv.Itoa(ports[i])) }
	file := e.operatorFile(replica)
	hub := filepath.Join(filepath.Dir(file), "hub.kubeconfig")
	if err := errors.Join(e.installOperator(file), os.WriteFile(hub, kubeconfig, 0o600)); err != nil {
		return err
	}
	args = append([]string{
		"--kubeconfig=" + hub,
		"--allow-loopback-members",
		metricsFlag + address(0),
		"--metrics-secure=false", // the address is of this machine only
		"--health-probe-bind-address=" + address(1),
	}, args...)
	exited, err := e.launch(file, args)
	if err != nil {
		return err
	}
	// Stop waiting when the operator exits.
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() {
		select {
		case <-ctx.Done():
		case err := <-exited:
			cancel(fmt.Errorf("it exited: %w", err))
		}
	}()
	return environment.Await(ctx, environment.StartTimeout, "the operator to be ready", func(ctx context.Context) error {
		_, err := get(ctx, "http://"+address(1)+"/readyz")
		return err
	})
}

// launch starts the program in a session of its own, so that neither Ctrl-C nor the exit of this
// process ends it. The channel gets how the program exited.
func (e *Environment) launch(program string, args []string) (<-chan error, error) {
	log, err := os.OpenFile(e.operatorLog(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	defer func() { _ = log.Close() }()
	cmd := exec.Command(program, args...)
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

// installOperator copies the program to the path that it runs from.
func (e *Environment) installOperator(file string) error {
	program, err := os.ReadFile(filepath.Join(e.bin, operatorProgram))
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o750); err != nil {
		return err
	}
	// Rename instead of write: the program may still be running.
	if err := os.WriteFile(file+".new", program, 0o750); err != nil {
		return err
	}
	return os.Rename(file+".new", file)
}

// Operator is part of [environment.Environment].
func (e *Environment) Operator() (environment.Operator, error) {
	found, err := processesIn(e.operatorDir())
	if err != nil || len(found) == 0 {
		return nil, err
	}
	return &operator{env: e}, nil
}

// IsOperatorCurrent reports whether the operator runs the program that is in the bin directory.
func (e *Environment) IsOperatorCurrent() bool {
	running, err := os.ReadFile(e.operatorFile(0))
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

// Replicas is part of [environment.Operator].
func (o *operator) Replicas(context.Context) ([]environment.Replica, error) {
	found, err := processesIn(o.env.operatorDir())
	if err != nil {
		return nil, err
	}
	var replicas []environment.Replica
	for _, process := range found {
		replicas = append(replicas, &replica{process})
	}
	return replicas, nil
}

// replica is a process, which may have exited.
type replica struct{ process }

// Name is part of [environment.Replica].
func (r *replica) Name() string { return filepath.Base(filepath.Dir(r.program)) }

// Signal is part of [environment.Replica].
func (r *replica) Signal(_ context.Context, signal syscall.Signal) error {
	if err := syscall.Kill(r.pid, signal); err != nil {
		return fmt.Errorf("send %s to replica %s of the operator: %w", signal, r.Name(), err)
	}
	return nil
}

// Metrics is part of [environment.Replica].
func (r *replica) Metrics(ctx context.Context) ([]byte, error) {
	for _, arg := range r.args {
		if address, ok := strings.CutPrefix(arg, metricsFlag); ok {
			return get(ctx, "http://"+address+"/metrics")
		}
	}
	return nil, fmt.Errorf("replica %s of the operator has no %s", r.Name(), metricsFlag)
}

func get(ctx context.Context, url string) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return nil, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s responds %s", url, response.Status)
	}
	return io.ReadAll(response.Body)
}
