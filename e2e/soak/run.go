package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/fleetwright/fleetwright/internal/environment/kwok"
)

const (
	// convergeTimeout limits the time from the end of the last disturbance until everything has
	// converged.
	convergeTimeout = time.Minute

	// sampleEvery is the time between two samples of the operator's memory and goroutines.
	sampleEvery = 2 * time.Second

	// leastMemory, in MiB, and leastGoroutines are growths that are never reported.
	leastMemory, leastGoroutines = 16, 30

	// moreGoroutines is how many goroutines more, for each cluster, an operator may have at rest
	// than one that has just been started: the recorder of a cluster starts nine at its first event,
	// and some connections are idle.
	moreGoroutines = 15

	// restTime is how long goroutines are counted at rest.
	restTime = 10 * time.Second
)

// run is a soak with what it has found.
type run struct {
	*fleet

	settings settings
	script   *script
	log      *os.File // the actions
	begin    time.Time

	actions    map[kind]int
	lag        time.Duration // the largest delay of an action
	sampled    time.Time
	reported   time.Time
	memory     []measured // in MiB, while the operator is not restarted
	goroutines []measured

	results  []string // what was measured at the end
	findings []string // what is wrong
}

// soak creates the fleet, disturbs it, and checks it. The fleet works until serving ends.
func soak(ctx, serving context.Context, env *kwok.Environment, s settings) error {
	file := filepath.Join(s.out, "actions.log")
	log, err := os.Create(file)
	if err != nil {
		return err
	}
	defer func() { _ = log.Close() }()
	r := &run{settings: s, script: newScript(s.seed, s.scale()), log: log, actions: map[kind]int{}}
	say("creating a hub and %d members; the actions are in %s", len(s.members), file)
	if r.fleet, err = newFleet(ctx, serving, env, s); err != nil {
		return err
	}
	r.begin = time.Now()
	err = r.disturb(ctx)
	if err == nil {
		err = r.check(ctx)
	}
	return r.report(ctx, err)
}

// disturb performs the actions of the script, and ends all disturbances.
func (r *run) disturb(ctx context.Context) error {
	for a := range r.script.actions() {
		if err := r.waitUntil(ctx, a.at); err != nil {
			return err
		}
		if err := r.perform(ctx, a); err != nil {
			return err
		}
	}
	if err := r.waitUntil(ctx, r.settings.length); err != nil {
		return err
	}
	r.faults.disable()
	for _, a := range r.script.ending() {
		if err := r.perform(ctx, a); err != nil {
			return err
		}
	}
	return nil
}

func (r *run) perform(ctx context.Context, a action) error {
	late := time.Since(r.begin) - a.at
	r.lag = max(r.lag, late)
	r.actions[a.kind]++
	if _, err := fmt.Fprintf(r.log, "%s %s\n", a.at.Round(time.Millisecond), a); err != nil {
		return err
	}
	if err := r.act(ctx, a); err != nil {
		return fmt.Errorf("%s at %s: %w", a, a.at.Round(time.Second), err)
	}
	return nil
}

// waitUntil waits for a time of the soak. Meanwhile, it supervises and measures the operator.
func (r *run) waitUntil(ctx context.Context, at time.Duration) error {
	for {
		if err := errors.Join(context.Cause(ctx), r.supervise(ctx)); err != nil {
			return err
		}
		if err := r.sample(ctx); err != nil {
			return err
		}
		left := at - time.Since(r.begin)
		if left <= 0 {
			return nil
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(min(left, sampleEvery/4)):
		}
	}
}

// sample measures the operator in the last part of the soak. Once a minute, it approves removals and
// reports the progress.
func (r *run) sample(ctx context.Context) error {
	at := time.Since(r.begin)
	if time.Since(r.reported) >= time.Minute {
		if err := r.approve(ctx); err != nil {
			return err
		}
		r.reported = time.Now()
		sum := r.ledger.Figures()
		requests, _ := r.faults.figures()
		say("%s: %d actions, %d starts of the operator, %d requests, %d deletions, %d scale-downs",
			at.Round(time.Second), total(r.actions), r.starts, requests, sum.Deletions, sum.ScaleDowns)
	}
	// The first part of the time without restarts is the warm-up.
	steady := r.script.steady()
	if warm := steady + (r.settings.length-steady)/4; at < warm || !r.running || time.Since(r.sampled) < sampleEvery {
		return nil
	}
	r.sampled = time.Now()
	memory, goroutines, err := r.measure(ctx)
	if err != nil {
		return nil //nolint:nilerr // it has exited: see supervise
	}
	r.memory = append(r.memory, measured{at, memory})
	r.goroutines = append(r.goroutines, measured{at, goroutines})
	return nil
}

// measure returns the resident memory of the operator, in MiB, and its number of goroutines.
func (f *fleet) measure(ctx context.Context) (memory, goroutines float64, err error) {
	replicas, err := f.Operator.Replicas(ctx)
	if err != nil || len(replicas) != 1 {
		return 0, 0, errors.Join(fmt.Errorf("%d operators run", len(replicas)), err)
	}
	content, err := replicas[0].Metrics(ctx)
	if err != nil {
		return 0, 0, err
	}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(string(content)))
	if err != nil {
		return 0, 0, fmt.Errorf("read the operator's metrics: %w", err)
	}
	memory, goroutines = gauge(families["process_resident_memory_bytes"])/(1<<20), gauge(families["go_goroutines"])
	if memory == 0 || goroutines == 0 {
		return 0, 0, errors.New("the operator's metrics lack its memory or its goroutines")
	}
	return memory, goroutines, nil
}

// gauge returns the value of a metric, or 0 if there is none.
func gauge(family *dto.MetricFamily) float64 {
	if len(family.GetMetric()) == 0 {
		return 0
	}
	return family.GetMetric()[0].GetGauge().GetValue()
}

// check waits until everything has converged, and measures.
func (r *run) check(ctx context.Context) error {
	took, err := r.awaitConverged(ctx, convergeTimeout, r.script.apps)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err != nil {
		r.find("not converged: %v", err)
		return nil
	}
	r.result("converged %s after the last disturbance (limit %s)", took.Round(100*time.Millisecond), convergeTimeout)
	memory, goroutines := newTrend(r.memory), newTrend(r.goroutines)
	r.result("RSS in MiB: %s", memory)
	r.result("goroutines: %s", goroutines)
	for _, err := range []error{memory.check("RSS", leastMemory), goroutines.check("the number of goroutines", leastGoroutines)} {
		if err != nil {
			r.find("%v", err)
		}
	}
	return r.checkRestart(ctx)
}

// checkRestart starts the operator again at rest.
func (r *run) checkRestart(ctx context.Context) error {
	old, err := r.goroutinesAtRest(ctx)
	if err != nil {
		return err
	}
	writes := r.writes()
	oldStacks, err := r.dump(ctx)
	if err != nil {
		return err
	}
	if err := r.start(ctx, r.slices); err != nil {
		return err
	}
	if _, err := r.awaitConverged(ctx, convergeTimeout, r.script.apps); err != nil {
		r.find("after a restart at rest: %v", err)
		return nil
	}
	fresh, err := r.goroutinesAtRest(ctx)
	if err != nil {
		return err
	}
	freshStacks, err := r.dump(ctx)
	if err != nil {
		return err
	}
	r.result("goroutines at rest: %.0f, and %.0f of an operator that has just been started; the difference: %s", old, fresh, oldStacks.more(freshStacks))
	if old > fresh+float64(moreGoroutines*len(r.proxies)) {
		r.find("the operator has %.0f goroutines at rest, and %.0f after a restart", old, fresh)
	}
	writes = r.writes() - writes
	r.result("writes of a restart at rest: %d", writes)
	if writes > 0 {
		r.find("a restart at rest wrote %d times: %s", writes, strings.Join(r.lastWrites(writes), "; "))
	}
	return nil
}

// goroutinesAtRest returns the smallest number of goroutines in some time.
func (r *run) goroutinesAtRest(ctx context.Context) (float64, error) {
	least := math.Inf(1)
	for begin := time.Now(); time.Since(begin) < restTime; {
		_, goroutines, err := r.measure(ctx)
		if err != nil {
			return 0, err
		}
		least = min(least, goroutines)
		select {
		case <-ctx.Done():
			return 0, context.Cause(ctx)
		case <-time.After(sampleEvery / 4):
		}
	}
	return least, nil
}

func (r *run) result(format string, args ...any) {
	r.results = append(r.results, fmt.Sprintf(format, args...))
}

func (r *run) find(format string, args ...any) {
	r.findings = append(r.findings, fmt.Sprintf(format, args...))
}

// report prints what was done and found, and returns an error if anything is wrong. It gets the
// error that ended the soak early.
func (r *run) report(ctx context.Context, ended error) error {
	if !r.hubCut.IsZero() {
		r.ledger.HideEdits(r.hubCut, time.Now().Add(blindTime))
	}
	requests, faults := r.faults.figures()
	sum := r.ledger.Figures()
	say("-seed %d -length %s: %d actions in %s, at most %s late: %s", r.settings.seed, r.settings.length,
		total(r.actions), time.Since(r.begin).Round(time.Second), r.lag.Round(time.Millisecond), counts(r.actions))
	say("%d requests of the operator, %d with a fault: %s", requests, total(faults), counts(faults))
	say("the operator was started %d times, %d of them because it had exited by itself", r.starts, len(r.restarts))
	say("ledger: %d deletions, %d scale-downs, %d untraced; %d removals were approved, because a member had rejoined",
		sum.Deletions, sum.ScaleDowns, len(sum.Untraced), r.approvals)
	for _, result := range r.results {
		say("%s", result)
	}
	for _, why := range r.restarts {
		say("the operator was started again: %s", why)
	}
	for _, lost := range sum.Untraced {
		r.find("not traced to an intent: %s", lost)
	}
	r.findings = append(r.findings, failures(r.Operator.Log())...)
	for _, finding := range r.findings {
		say("FOUND: %s", finding)
	}
	switch {
	case ctx.Err() != nil:
		return fmt.Errorf("interrupted; everything that was started ends; %d findings so far. To replay: -seed %d -length %s", len(r.findings), r.settings.seed, r.settings.length)
	case ended != nil:
		return fmt.Errorf("%w. To replay: -seed %d -length %s", ended, r.settings.seed, r.settings.length)
	case len(r.findings) > 0:
		return fmt.Errorf("%d findings. To replay: -seed %d -length %s", len(r.findings), r.settings.seed, r.settings.length)
	}
	say("no findings")
	return nil
}

func total[K comparable](counts map[K]int) (sum int) {
	for _, n := range counts {
		sum += n
	}
	return sum
}

// counts returns numbers by name, as text.
func counts[K ~string](numbers map[K]int) string {
	var all []string
	for _, name := range slices.Sorted(maps.Keys(numbers)) {
		all = append(all, fmt.Sprintf("%s %d", name, numbers[name]))
	}
	return strings.Join(all, ", ")
}
