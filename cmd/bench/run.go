package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/fleetwright/fleetwright/cmd/bench/figures"
)

// The names of the writers in the results.
const (
	nakedWriter    = "naked"
	operatorWriter = "operator"
	// The writers of a comparison of two commits.
	baseWriter = "base"
	headWriter = "head"
)

// run is a run of the benchmark.
type run struct {
	*fleet
	settings

	samples figures.Samples
	// What is measured now: they belong to each sample.
	writerName string
	repetition int
	suffix     string // of the scenario

	delivered map[string]string // the objects of the first AppService on a member, by writer
}

// repeat lets the writers take turns: the first one of a repetition is the last one of the next.
// Each has a name and a program, which is empty for the naked writer.
func (r *run) repeat(ctx context.Context, programs map[string]string) error {
	names := slices.Sorted(maps.Keys(programs))
	for r.repetition = range r.repetitions {
		for _, r.writerName = range names {
			say("repetition %d of %d: %s", r.repetition+1, r.repetitions, r.writerName)
			if err := r.once(ctx, programs[r.writerName]); err != nil {
				return fmt.Errorf("repetition %d, %s: %w", r.repetition+1, r.writerName, err)
			}
		}
		slices.Reverse(names)
	}
	return nil
}

// once measures a writer once. The program is the operator's, or empty for the naked writer.
func (r *run) once(ctx context.Context, program string) error {
	if err := r.with(ctx, program, nil, r.scenarios); err != nil {
		return err
	}
	if !r.has("B10") {
		return nil
	}
	for _, added := range delays {
		ctx, stop := context.WithCancel(ctx) // the proxies
		err := r.with(ctx, program, &added, []string{"B1", "B2"})
		stop()
		if err != nil {
			return fmt.Errorf("with %s added to every round trip: %w", added, err)
		}
	}
	return nil
}

// delays are what B10 adds to every round trip.
var delays = []time.Duration{50 * time.Millisecond, 200 * time.Millisecond}

// with starts a writer and measures scenarios, perhaps with a time added to its round trips.
func (r *run) with(ctx context.Context, program string, added *time.Duration, scenarios []string) error {
	measured := *r
	measured.scenarios, measured.suffix = scenarios, ""
	hub, members := r.servers.hub.operator, r.servers.kubeconfigs()
	if added != nil {
		measured.suffix = fmt.Sprintf(" +%d ms", added.Milliseconds())
		var err error
		if hub, err = delayed(ctx, hub, r.servers.hub.address, *added); err != nil {
			return err
		}
		for _, member := range r.servers.members {
			if members[member.name], err = delayed(ctx, member.operator, member.address, *added); err != nil {
				return err
			}
		}
	}
	err := measured.start(ctx, program, hub, members)
	r.samples = measured.samples
	return err
}

// start starts a writer, measures it, and ends it.
func (r *run) start(ctx context.Context, program string, hub []byte, members map[string][]byte) error {
	if program == "" {
		n, err := startNaked(ctx, r.group, r.dir, slices.Collect(maps.Values(members)))
		if err != nil {
			return err
		}
		if err := r.warmUp(ctx, n); err != nil {
			return err
		}
		if err := r.naked(ctx, n); err != nil {
			return err
		}
		return n.process.Kill()
	}
	if err := r.join(ctx, members); err != nil {
		return err
	}
	o := &operator{fleet: r.fleet, program: program, hub: hub}
	if err := o.start(); err != nil {
		return err
	}
	if err := r.warmUp(ctx, o); err != nil {
		return o.explain(err)
	}
	if err := r.operator(ctx, o); err != nil {
		return o.explain(err)
	}
	return o.process.Stop()
}

// checkSame returns an error unless the operator and the naked writer deliver the same objects.
func (r *run) checkSame(of app) error {
	own, err := r.observer.describe(memberName(0), of.Name)
	if err != nil {
		return err
	}
	r.delivered[r.writerName] = own
	if naked := r.delivered[nakedWriter]; naked != "" && naked != own {
		return fmt.Errorf("the objects differ\nof the naked writer: %s\nof the operator: %s", naked, own)
	}
	return nil
}

// warmUp waits until the writer has delivered an AppService to all members and has deleted it: the
// operator has engaged all members, and each writer has its connections.
func (r *run) warmUp(ctx context.Context, w writer) error {
	apps := batch("warm", 1)
	if _, err := r.timed(ctx, r.observer.expect(2*len(r.servers.members), isObject(apps)), func() error { return w.apply(ctx, apps) }); err != nil {
		return fmt.Errorf("warm up: %w", err)
	}
	_, err := r.delete(ctx, w, apps)
	return err
}

// naked measures the scenarios that the naked writer has.
func (r *run) naked(ctx context.Context, n *naked) error {
	if r.repetition == 0 && r.has("B6") {
		if err := r.atRest(ctx, n, "without AppServices"); err != nil {
			return err
		}
	}
	if err := r.oneByOne(ctx, n); err != nil {
		return err
	}
	if !r.has("B2", "B3", "B9") {
		return nil
	}
	apps := batch("b2", r.apps)
	if err := r.atOnce(ctx, n, apps); err != nil {
		return err
	}
	if r.has("B3") {
		if err := r.edit(ctx, n, apps); err != nil {
			return err
		}
	}
	return r.deleteAll(ctx, n, apps)
}

// operator measures the scenarios of the operator, which runs.
func (r *run) operator(ctx context.Context, o *operator) error {
	if r.repetition == 0 && r.has("B6") {
		if err := r.atRest(ctx, o, "without AppServices"); err != nil {
			return err
		}
	}
	if err := r.oneByOne(ctx, o); err != nil {
		return err
	}
	if r.has("B7") {
		if err := r.besideBlackHoles(ctx, o); err != nil {
			return err
		}
	}
	if r.has("B2", "B3", "B4", "B5", "B6", "B9") {
		if err := r.many(ctx, o); err != nil {
			return err
		}
	}
	if r.has("B12", "B13", "B14") {
		if err := r.withConfiguration(ctx, o); err != nil {
			return err
		}
	}
	if r.has("B11") {
		if err := r.besideCrowd(ctx, o); err != nil {
			return fmt.Errorf("B11: %w", err)
		}
	}
	if r.has("B8") {
		if err := r.besideForeign(ctx, o); err != nil {
			return fmt.Errorf("B8: %w", err)
		}
	}
	return nil
}

// many measures the scenarios with all AppServices.
func (r *run) many(ctx context.Context, o *operator) error {
	apps := batch("b2", r.apps)
	if err := r.atOnce(ctx, o, apps); err != nil {
		return err
	}
	if r.has("B3") {
		if err := r.edit(ctx, o, apps); err != nil {
			return err
		}
	}
	if r.has("B4", "B5", "B6") {
		if err := r.whileReady(ctx, o, apps); err != nil {
			return err
		}
	}
	return r.deleteAll(ctx, o, apps)
}

// add records a figure of what is measured now.
func (r *run) add(scenario, name, unit string, value float64, u usage) {
	r.samples = append(r.samples, figures.Sample{
		Key: figures.Key{Scenario: scenario + r.suffix, Name: name}, Writer: r.writerName, Repetition: r.repetition,
		Value: value, Unit: unit, Taken: u.share(),
	})
}

// addUsage records the use of resources.
func (r *run) addUsage(scenario string, u usage) {
	r.add(scenario, cpuOfWriter, "s", u.writer.Seconds(), u)
	r.add(scenario, cpuOfAll, "s", u.all.Seconds(), u)
	for _, name := range slices.Sorted(maps.Keys(u.servers)) {
		r.add(scenario, "CPU of "+name, "s", u.servers[name].Seconds(), u)
	}
	r.add(scenario, peakRSS, "MiB", float64(u.peak)/(1<<20), u)
	r.add(scenario, cpuTaken, "s", u.taken.Seconds(), u)
	r.addRequests(scenario, "the hub", u.hub, u)
	r.addRequests(scenario, "members", u.members, u)
	r.add(scenario, sourceReads, "", float64(u.content.sources), u)
	r.add(scenario, snapshotReads, "", float64(u.content.snapshots), u)
}

// addRequests records requests: writes, reads, Events, and every verb.
func (r *run) addRequests(scenario, where string, c counts, u usage) {
	r.add(scenario, writesTo+where, "", float64(c.writes()), u)
	r.add(scenario, readsFrom+where, "", float64(c.reads()), u)
	for _, verb := range slices.Concat([]string{"GET", "LIST", "WATCH", eventVerb}, writeVerbs) {
		r.add(scenario, verb+" requests to "+where, "", float64(c[verb]), u)
	}
}

// phase measures the resources that a function uses, with a profile.
func (r *run) phase(ctx context.Context, w writer, name string, do func() error) (usage, error) {
	say("  %s", name)
	endProfile := func() error { return nil }
	if o, ok := w.(*operator); ok {
		var err error
		if endProfile, err = o.profile(ctx, fmt.Sprintf("%s-%d", name, r.repetition+1)); err != nil {
			return usage{}, err
		}
	}
	m, err := r.measure(ctx, w.running())
	if err != nil {
		return usage{}, err
	}
	if err := do(); err != nil {
		return usage{}, fmt.Errorf("%s: %w", name, err)
	}
	u, err := m.end(ctx, w.running())
	if err != nil {
		return usage{}, err
	}
	return u, endProfile()
}

// since returns the seconds from a time to another, at least 0.
func since(begin, end time.Time) float64 { return max(0, end.Sub(begin).Seconds()) }

var (
	_ writer = (*naked)(nil)
	_ writer = (*operator)(nil)
)
