package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"time"
)

// pulse is how often the report says what runs.
const pulse = 30 * time.Second

// event is a line of `go test -json`; `go doc test2json` describes it.
type event struct {
	Action, Package, Test, Output string
}

// report prints the results of packages.
type report struct {
	out     io.Writer
	now     func() time.Time
	started time.Time
	total   int // packages; those of two groups count twice

	mutex   sync.Mutex // protects the fields below, and out
	running map[string]*running
	done    int
	failed  []string
}

// running is a package whose tests run.
type running struct {
	since   time.Time
	ended   int             // top-level tests
	pending map[string]bool // tests that have not passed and are not skipped
	output  []event
	crashed int // output from here on is of a crash, and go test adds it to any test; -1 without one
}

func newReport(out io.Writer, now func() time.Time, total int) *report {
	return &report{out: out, now: now, started: now(), total: total, running: map[string]*running{}}
}

// begin prints what the next results are of.
func (r *report) begin(g group) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	r.print("--- %d packages %s\n", len(g.packages), g.title)
}

// follow runs `go test -json` and reports its events. A test that fails is no error.
func (r *report) follow(command *exec.Cmd) error {
	failedBefore := len(r.failed)
	output, err := command.StdoutPipe()
	if err != nil {
		return err
	}
	if err := command.Start(); err != nil {
		return err
	}
	ticker := time.NewTicker(pulse)
	defer ticker.Stop()
	ended := make(chan struct{})
	defer close(ended)
	go func() {
		for {
			select {
			case <-ended:
				return
			case <-ticker.C:
				r.pulse()
			}
		}
	}()
	for lines := bufio.NewReader(output); ; {
		line, err := lines.ReadString('\n')
		if line != "" {
			r.line(line)
		}
		if err != nil {
			break
		}
	}
	if err := command.Wait(); err != nil && len(r.failed) == failedBefore {
		return fmt.Errorf("go test: %w", err)
	}
	return nil
}

// line reports one line of the output of `go test -json`.
func (r *report) line(line string) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	var e event
	if json.Unmarshal([]byte(line), &e) != nil || e.Action == "build-output" {
		r.print("%s", or(e.Output, line))
		return
	}
	if e.Package == "" {
		return
	}
	p := r.running[e.Package]
	if p == nil {
		p = &running{since: r.now(), pending: map[string]bool{}, crashed: -1}
		r.running[e.Package] = p
	}
	switch e.Action {
	case "run":
		p.pending[e.Test] = true
	case "output":
		if p.crashed < 0 && isCrash(e.Output) {
			p.crashed = len(p.output)
		}
		p.output = append(p.output, e)
	case "pass", "skip", "fail":
		if e.Test == "" {
			r.end(e.Package, p, e.Action)
			return
		}
		if e.Action != "fail" {
			delete(p.pending, e.Test)
		}
		if !strings.Contains(e.Test, "/") {
			p.ended++
		}
	}
}

func or(a, b string) string {
	if a != "" {
		return a
	}
	return b
}

// end prints the result of a package, and the output of its tests that did not pass, or of its crash.
func (r *report) end(name string, p *running, result string) {
	delete(r.running, name)
	r.done++
	if result == "fail" {
		r.failed = append(r.failed, name)
	}
	for i, e := range p.output {
		isResult := strings.HasPrefix(e.Output, "ok  \t") || strings.HasPrefix(e.Output, "?   \t")
		isMark := strings.HasPrefix(e.Output, "=== ") // a test starts, pauses or goes on
		isOfFailure := e.Test == "" || p.pending[e.Test] || p.crashed >= 0 && i >= p.crashed
		if isResult || result == "fail" && !isMark && isOfFailure {
			r.print("%s", e.Output)
		}
	}
}

// isCrash reports whether the runtime of Go writes the line when it ends a process.
func isCrash(line string) bool {
	return strings.HasPrefix(line, "panic: ") || strings.HasPrefix(line, "fatal error: ") || strings.HasPrefix(line, "SIGQUIT: ")
}

// pulse prints what runs.
func (r *report) pulse() {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	var now []string
	for name, p := range r.running {
		now = append(now, fmt.Sprintf("%s for %s, %d tests done", name, r.now().Sub(p.since).Round(time.Second), p.ended))
	}
	slices.Sort(now)
	if len(now) == 0 {
		now = []string{"the compiler"}
	}
	r.print("... %s: %d of %d packages done; running: %s\n", r.elapsed(), r.done, r.total, strings.Join(now, "; "))
}

func (r *report) print(format string, args ...any) { _, _ = fmt.Fprintf(r.out, format, args...) }

func (r *report) elapsed() time.Duration { return r.now().Sub(r.started).Round(time.Second) }

// finish prints a summary, and returns an error if a package failed.
func (r *report) finish() error {
	r.print("%d packages took %s\n", r.total, r.elapsed())
	if len(r.failed) > 0 {
		return errors.New("failed: " + strings.Join(r.failed, ", "))
	}
	return nil
}
