package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/fleetwright/fleetwright/cmd/bench/figures"
	"github.com/fleetwright/fleetwright/cmd/bench/karmada"
)

// The names of the writers in the results.
const (
	nakedWriter    = "naked"
	operatorWriter = "operator"
	// The writers of a comparison of two commits.
	baseWriter = "base"
	headWriter = "head"
)

// run is a run of the benchmark: the turns of the writers, and the report on all of them.
type run struct {
	*fleet
	settings

	samples     figures.Samples
	delivered   delivered
	peerVersion string // or ""
}

// contender is a writer that takes turns.
type contender struct {
	name    string
	program string // the operator's
	peer    *peer  // or nil
	flags   karmada.Flags
}

// repeat lets the writers take turns: the first one of a repetition is the last one of the next.
func (r *run) repeat(ctx context.Context, writers []contender) error {
	for repetition := range r.repetitions {
		for _, w := range writers {
			say("repetition %d of %d: %s", repetition+1, r.repetitions, w.name)
			as := recorder{writerName: w.name, repetition: repetition}
			measure := func() error { return r.once(ctx, as, w.program) }
			if w.peer != nil {
				measure = func() error { return r.oncePeer(ctx, as, w) }
			}
			if err := measure(); err != nil {
				return fmt.Errorf("repetition %d, %s: %w", repetition+1, w.name, err)
			}
		}
		slices.Reverse(writers)
	}
	return nil
}

// oncePeer measures a peer once, in the scenarios that it has.
func (r *run) oncePeer(ctx context.Context, as recorder, w contender) error {
	t := &turn{fleet: r.fleet.withHub(w.peer.hub), settings: r.settings, recorder: as, delivered: r.delivered}
	t.scenarios = slices.DeleteFunc(slices.Clone(r.scenarios), func(scenario string) bool { return !slices.Contains(peerScenarios, scenario) })
	err := t.measureKarmada(ctx, w.peer, w.flags)
	r.samples = append(r.samples, t.samples...)
	return err
}

// once measures a writer once. The program is the operator's, or empty for the naked writer.
func (r *run) once(ctx context.Context, as recorder, program string) error {
	if err := r.with(ctx, as, program, nil, r.scenarios); err != nil {
		return err
	}
	if r.has("B16") && program != "" {
		as := as
		as.suffix = shipped
		if err := r.with(ctx, as, program, nil, []string{"B2", "B3", "B9"}); err != nil {
			return fmt.Errorf("with a standby: %w", err)
		}
	}
	if !r.has("B10") {
		return nil
	}
	for _, added := range delays {
		ctx, stop := context.WithCancel(ctx) // the proxies
		err := r.with(ctx, as, program, &added, []string{"B1", "B2"})
		stop()
		if err != nil {
			return fmt.Errorf("with %s added to every round trip: %w", added, err)
		}
	}
	return nil
}

// shipped is the suffix of the scenarios of B16: the operator with leader election and a standby.
const shipped = " with a standby"

// delays are what B10 adds to every round trip.
var delays = []time.Duration{50 * time.Millisecond, 200 * time.Millisecond}

// with starts a writer and measures scenarios, perhaps with a time added to its round trips.
func (r *run) with(ctx context.Context, as recorder, program string, added *time.Duration, scenarios []string) error {
	hub, members := r.servers.hub.operator, r.servers.kubeconfigs()
	if added != nil {
		as.suffix = fmt.Sprintf(" +%d ms", added.Milliseconds())
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
	t := &turn{fleet: r.fleet, settings: r.settings, recorder: as, delivered: r.delivered}
	t.scenarios, t.hasStandby = scenarios, as.suffix == shipped
	var err error
	if program == "" {
		err = t.measureNaked(ctx, members)
	} else {
		err = t.measureOperator(ctx, program, hub, members)
	}
	r.samples = append(r.samples, t.samples...)
	return err
}

// delivered has the objects of the first AppService on a member, by writer.
type delivered map[string]delivery

// delivery is what writers set on the objects of an AppService: the specs, and also the labels and the
// annotations.
type delivery struct{ specs, all string }

// check returns an error unless a writer and the naked writer deliver the same objects. A peer has
// labels and annotations of its own, so only its specs are compared.
func (d delivered) check(writerName string, own delivery) error {
	d[writerName] = own
	naked, hasNaked := d[nakedWriter]
	for name, other := range d {
		got, want := other.all, naked.all
		if isPeer(name) {
			got, want = other.specs, naked.specs
		}
		if hasNaked && got != want {
			return fmt.Errorf("the objects differ\nof the naked writer: %s\nof %s: %s", want, name, got)
		}
	}
	return nil
}
