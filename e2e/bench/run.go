package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/fleetwright/fleetwright/e2e/bench/figures"
)

// The names of the writers in the results.
const (
	nakedWriter    = "naked"
	operatorWriter = "operator"
)

// run is a run of the benchmark.
type run struct {
	*fleet
	settings

	samples figures.Samples
	// What is measured now: they belong to each sample.
	writerName string
	repetition int
}

// repeat lets the writers take turns. The first one of a repetition is the last one of the next.
func (r *run) repeat(ctx context.Context, programs map[string]string) error {
	names := []string{nakedWriter}
	for name := range programs {
		names = append(names, name)
	}
	slices.Sort(names)
	if r.compares() {
		names = slices.DeleteFunc(names, func(name string) bool { return name == nakedWriter })
	}
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
	if program == "" {
		n, err := r.startNaked(ctx, operatorKubeconfigs(r.servers))
		if err != nil {
			return err
		}
		if err := r.naked(ctx, n); err != nil {
			return err
		}
		return n.process.Kill()
	}
	o := &operator{fleet: r.fleet, program: program, hub: r.servers.hub.operator}
	if err := r.join(ctx, operatorKubeconfigs(r.servers)); err != nil {
		return err
	}
	if err := o.startAndJoin(ctx); err != nil {
		return err
	}
	if err := r.operator(ctx, o); err != nil {
		return o.explain(err)
	}
	return o.process.Stop()
}

// operatorKubeconfigs returns the kubeconfigs of the members, with the permissions of the operator.
func operatorKubeconfigs(s *servers) map[string][]byte {
	kubeconfigs := map[string][]byte{}
	for _, member := range s.members {
		kubeconfigs[member.name] = member.operator
	}
	return kubeconfigs
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
	if !r.has("B2", "B3", "B4", "B5", "B6", "B9") {
		return nil
	}
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

// whileReady measures the scenarios in which all Deployments are ready.
func (r *run) whileReady(ctx context.Context, o *operator, apps []app) error {
	if err := r.makeReady(ctx, apps); err != nil {
		return err
	}
	defer r.kubelets.disable()
	for _, step := range []struct {
		scenario string
		measure  func() error
	}{
		{"B4", func() error { return r.status(ctx, o, apps) }},
		{"B6", func() error { return r.atRest(ctx, o, "") }},
		{"B5", func() error { return r.restart(ctx, o, apps) }},
	} {
		if r.has(step.scenario) {
			if err := step.measure(); err != nil {
				return fmt.Errorf("%s: %w", step.scenario, err)
			}
		}
	}
	return nil
}

// add records a figure of what is measured now.
func (r *run) add(scenario, name, unit string, value float64, u usage) {
	r.samples = append(r.samples, figures.Sample{
		Key: figures.Key{Scenario: scenario, Name: name}, Writer: r.writerName, Repetition: r.repetition,
		Value: value, Unit: unit, Taken: u.share(),
	})
}

// addUsage records the use of resources.
func (r *run) addUsage(scenario string, u usage) {
	r.add(scenario, cpuOfWriter, "s", u.writer.Seconds(), u)
	r.add(scenario, cpuOfAll, "s", u.all.Seconds(), u)
	r.add(scenario, peakRSS, "MiB", float64(u.peak)/(1<<20), u)
	r.add(scenario, cpuTaken, "s", u.taken.Seconds(), u)
	r.addRequests(scenario, "the hub", u.hub, u)
	r.addRequests(scenario, "members", u.members, u)
}

// addRequests records requests: writes, Events, and every verb.
func (r *run) addRequests(scenario, where string, c counts, u usage) {
	r.add(scenario, writesTo+where, "", float64(c.writes()), u)
	for _, verb := range slices.Concat([]string{"GET", "LIST", "WATCH", eventVerb}, writeVerbs) {
		if n := c[verb]; n != 0 || verb == "GET" || verb == "LIST" {
			r.add(scenario, verb+" requests to "+where, "", float64(n), u)
		}
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

// startNaked starts the naked writer.
func (f *fleet) startNaked(ctx context.Context, kubeconfigs map[string][]byte) (*naked, error) {
	var all [][]byte
	for _, kubeconfig := range kubeconfigs {
		all = append(all, kubeconfig)
	}
	return startNaked(ctx, f.group, f.dir, all)
}

// since returns the seconds from a time to another, at least 0.
func since(begin, end time.Time) float64 { return max(0, end.Sub(begin).Seconds()) }

var (
	_ writer = (*naked)(nil)
	_ writer = (*operator)(nil)
)
