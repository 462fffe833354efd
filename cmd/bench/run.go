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

// run is a run of the benchmark: the turns of the writers, and the report on all of them.
type run struct {
	*fleet
	settings

	samples   figures.Samples
	delivered delivered
}

// repeat lets the writers take turns: the first one of a repetition is the last one of the next.
// Each has a name and a program, which is empty for the naked writer.
func (r *run) repeat(ctx context.Context, programs map[string]string) error {
	names := slices.Sorted(maps.Keys(programs))
	for repetition := range r.repetitions {
		for _, name := range names {
			say("repetition %d of %d: %s", repetition+1, r.repetitions, name)
			if err := r.once(ctx, recorder{writerName: name, repetition: repetition}, programs[name]); err != nil {
				return fmt.Errorf("repetition %d, %s: %w", repetition+1, name, err)
			}
		}
		slices.Reverse(names)
	}
	return nil
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
type delivered map[string]string

// check returns an error unless the operator and the naked writer deliver the same objects.
func (d delivered) check(writerName, own string) error {
	d[writerName] = own
	if naked := d[nakedWriter]; naked != "" && naked != own {
		return fmt.Errorf("the objects differ\nof the naked writer: %s\nof the operator: %s", naked, own)
	}
	return nil
}
