package main

import (
	"bufio"
	"context"
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
	running map[testBinary]*running
	done    int
	failed  []string
}

// testBinary is a package, with the race detector or without it.
type testBinary struct {
	name    string // the import path
	isRaced bool
}

func (b testBinary) String() string { return b.name + b.suffix() }

func (b testBinary) suffix() string {
	if b.isRaced {
		return " (race)"
	}
	return ""
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
	return &report{out: out, now: now, started: now(), total: total, running: map[testBinary]*running{}}
}

// begin prints what the next results are of.
func (r *report) begin(g group) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	r.print("--- %d packages %s\n", len(g.packages), g.title)
}

// follow runs `go test -json` and reports its events. A test that fails is no error.
func (r *report) follow(command *exec.Cmd, isRaced bool) error {
	output, err := command.StdoutPipe()
	if err != nil {
		return err
	}
	if err := command.Start(); err != nil {
		return err
	}
	hasFailed := false
	for lines := bufio.NewReader(output); ; {
		line, err := lines.ReadString('\n')
		if line != "" && r.line(line, isRaced) {
			hasFailed = true
		}
		if err != nil {
			break
		}
	}
	if err := command.Wait(); err != nil && !hasFailed {
		return fmt.Errorf("go test: %w", err)
	}
	return nil
}

// line reports one line of the output of `go test -json`, and returns whether a package failed.
func (r *report) line(line string, isRaced bool) bool {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	var e event
	if json.Unmarshal([]byte(line), &e) != nil || e.Action == "build-output" {
		r.print("%s", or(e.Output, line))
		return false
	}
	if e.Package == "" {
		return false
	}
	b := testBinary{e.Package, isRaced}
	p := r.running[b]
	if p == nil {
		p = &running{since: r.now(), pending: map[string]bool{}, crashed: -1}
		r.running[b] = p
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
			r.end(b, p, e.Action)
			return e.Action == "fail"
		}
		if e.Action != "fail" {
			delete(p.pending, e.Test)
		}
		if !strings.Contains(e.Test, "/") {
			p.ended++
		}
	}
	return false
}

func or(a, b string) string {
	if a != "" {
		return a
	}
	return b
}

// end prints the result of a package, and the output of its tests that did not pass, or of its crash.
func (r *report) end(b testBinary, p *running, result string) {
	delete(r.running, b)
	r.done++
	if result == "fail" {
		r.failed = append(r.failed, b.String())
	}
	for i, e := range p.output {
		isResult := strings.HasPrefix(e.Output, "ok  \t") || strings.HasPrefix(e.Output, "?   \t")
		isMark := strings.HasPrefix(e.Output, "=== ") // a test starts, pauses or goes on
		isOfFailure := e.Test == "" || p.pending[e.Test] || p.crashed >= 0 && i >= p.crashed
		if isResult {
			r.print("%s%s\n", strings.TrimSuffix(e.Output, "\n"), b.suffix())
		} else if result == "fail" && !isMark && isOfFailure {
			r.print("%s", e.Output)
		}
	}
}

// isCrash reports whether the runtime of Go writes the line when it ends a process.
func isCrash(line string) bool {
	return strings.HasPrefix(line, "panic: ") || strings.HasPrefix(line, "fatal error: ") || strings.HasPrefix(line, "SIGQUIT: ")
}

// pulseUntilDone prints what runs, every half minute until the context ends.
func (r *report) pulseUntilDone(ctx context.Context) {
	ticker := time.NewTicker(pulse)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			r.pulse()
		}
	}
}

// pulse prints what runs.
func (r *report) pulse() {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	var now []string
	for b, p := range r.running {
		now = append(now, fmt.Sprintf("%s for %s, %d tests done", b, r.now().Sub(p.since).Round(time.Second), p.ended))
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
