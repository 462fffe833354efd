// Package machine starts processes that end with this one, and reads from the kernel what they and
// the whole machine use.
package machine

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"sync"
	"syscall"
	"time"
)

// Process is a process that this one has started.
type Process struct {
	// Name is the name in messages.
	Name string
	// Log is the file with the output.
	Log string

	cmd  *exec.Cmd
	done chan struct{} // closed when the process has exited
}

// Group is a set of started processes.
type Group struct {
	mu  sync.Mutex
	all []*Process
}

// Start starts a command whose output goes to the end of a log. The kernel kills the process when
// this process ends in any way.
func (g *Group) Start(name string, cmd *exec.Cmd, log string) (*Process, error) {
	file, err := os.OpenFile(log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	cmd.Stderr = file
	if cmd.Stdout == nil {
		cmd.Stdout = file
	}
	cmd.SysProcAttr = attributes()
	if err := onStarter(cmd.Start); err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	p := &Process{Name: name, Log: log, cmd: cmd, done: make(chan struct{})}
	go func() {
		_ = cmd.Wait() // HasExited reports the exit
		close(p.done)
	}()
	g.mu.Lock()
	defer g.mu.Unlock()
	g.all = append(g.all, p)
	return p, nil
}

// starter runs functions on one thread, which lives as long as this process.
var starter = sync.OnceValue(func() chan<- func() {
	tasks := make(chan func())
	go func() {
		runtime.LockOSThread()
		for task := range tasks {
			task()
		}
	}()
	return tasks
})

// onStarter calls start on the thread of the starter: the kernel kills a process when the thread
// that started it ends.
func onStarter(start func() error) error {
	result := make(chan error)
	starter() <- func() { result <- start() }
	return <-result
}

// Running returns the processes that have not exited.
func (g *Group) Running() []*Process {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.all = slices.DeleteFunc(g.all, (*Process).HasExited)
	return slices.Clone(g.all)
}

// End kills all processes, the last one first, and waits until they are gone.
func (g *Group) End() error {
	var errs []error
	for _, p := range slices.Backward(g.Running()) {
		errs = append(errs, p.Kill())
	}
	return errors.Join(errs...)
}

// HasExited reports whether the process has exited.
func (p *Process) HasExited() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// Signal sends a signal.
func (p *Process) Signal(signal syscall.Signal) error {
	if err := p.cmd.Process.Signal(signal); err != nil {
		return fmt.Errorf("send %s to %s: %w", signal, p.Name, err)
	}
	return nil
}

// Kill kills the process, as a crash does, and waits until it is gone.
func (p *Process) Kill() error { return p.end(syscall.SIGKILL) }

// Stop asks the process to exit, and waits until it is gone.
func (p *Process) Stop() error { return p.end(syscall.SIGTERM) }

const endTimeout = 30 * time.Second

func (p *Process) end(signal syscall.Signal) error {
	if err := p.cmd.Process.Signal(signal); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("send %s to %s: %w", signal, p.Name, err)
	}
	select {
	case <-p.done:
		return nil
	case <-time.After(endTimeout):
		return fmt.Errorf("%s did not end within %s of %s", p.Name, endTimeout, signal)
	}
}
