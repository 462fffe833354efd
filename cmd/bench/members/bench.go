package main

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"time"

	"github.com/fleetwright/fleetwright/internal/environment"
)

// bench is the common part of all measurements.
type bench struct {
	env     environment.Environment
	cluster environment.Cluster // the hub's
	hub     *hub
	front   *front
	hole    string
	made    int // number of members created, for unique names
}

// newBench creates a hub, and clusters for members unless stand-ins serve all of them.
func newBench(ctx context.Context, env environment.Environment, withClusters bool) (*bench, error) {
	var clusters []environment.Cluster
	names := []string{"hub"}
	if withClusters {
		names = append(names, "member-a", "member-b")
	}
	for _, name := range names { // one after the other, for busy machines
		cluster, err := env.Create(ctx, name)
		if err != nil {
			return nil, err
		}
		clusters = append(clusters, cluster)
	}
	b := &bench{env: env, cluster: clusters[0]}
	var err error
	if b.hub, err = newHub(ctx, b.cluster); err != nil {
		return nil, err
	}
	if !withClusters {
		return b, nil
	}
	for _, cluster := range clusters[1:] {
		if err := fill(ctx, cluster); err != nil {
			return nil, err
		}
	}
	if b.front, err = newFront(ctx, clusters[1:]); err != nil {
		return nil, err
	}
	b.hole, err = blackHole(ctx)
	return b, err
}

// withOperator runs a new operator while a function runs.
func (b *bench) withOperator(ctx context.Context, do func(environment.Operator) error) (err error) {
	operator, err := b.env.StartOperator(ctx, b.cluster, 1, "--leader-elect=false", "--secret-grace=1s") // members leave between rounds
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, operator.Kill(context.WithoutCancel(ctx))) }() // if it has not stopped
	if err := do(operator); err != nil {
		return fmt.Errorf("%w; the operator's log:\n%s", err, lastLines(operator.Log()))
	}
	return operator.Stop(ctx)
}

// lastLines returns the part of a log about a crash, or its last lines.
func lastLines(log string) string {
	if crash := regexp.MustCompile(`(?m)^(panic|fatal error|SIG\w+): .*(\n.*){0,20}`).FindString(log); crash != "" {
		return crash
	}
	return environment.Tail(log, 10)
}

func (b *bench) name() string {
	b.made++
	return fmt.Sprintf("member-%04d", b.made)
}

// healthy creates n candidates that will be Ready.
func (b *bench) healthy(n int) (batch []candidate, err error) {
	for range n {
		c := candidate{name: b.name()}
		if c.kubeconfig, err = b.front.add(c.name, false); err != nil {
			return nil, err
		}
		batch = append(batch, c)
	}
	return batch, nil
}

// bad creates three candidates that do not respond, and one that forbids to list.
func (b *bench) bad() (batch []candidate, err error) {
	for range 3 {
		c := candidate{name: b.name(), bad: true}
		if c.kubeconfig, err = kubeconfig(b.hole, b.front.ca, token()); err != nil {
			return nil, err
		}
		batch = append(batch, c)
	}
	forbidding := candidate{name: b.name(), bad: true}
	forbidding.kubeconfig, err = b.front.add(forbidding.name, true)
	return append(batch, forbidding), err
}

// together is the number of healthy members that join in the comparison.
const together = 30

// compareJoining lets members join, alone and after the Secrets of bad members.
func (b *bench) compareJoining(ctx context.Context, rounds int) error {
	var alone, beside []time.Duration
	if err := b.withOperator(ctx, func(environment.Operator) error {
		for range rounds {
			took, err := b.joinAndLeave(ctx, nil)
			if err != nil {
				return fmt.Errorf("join alone: %w", err)
			}
			alone = append(alone, took)
			bad, err := b.bad()
			if err != nil {
				return err
			}
			if took, err = b.joinAndLeave(ctx, bad); err != nil {
				return fmt.Errorf("join beside bad members: %w", err)
			}
			beside = append(beside, took)
		}
		return nil
	}); err != nil || rounds == 0 {
		return err
	}
	reportJoining(alone, beside)
	return nil
}

func (b *bench) joinAndLeave(ctx context.Context, bad []candidate) (time.Duration, error) {
	healthy, err := b.healthy(together)
	if err != nil {
		return 0, err
	}
	took, err := b.hub.join(ctx, slices.Concat(bad, healthy))
	return took, errors.Join(err, b.hub.empty(ctx))
}

// weigh measures a new operator without members, and each time after more members joined.
func (b *bench) weigh(ctx context.Context, counts []int, rest time.Duration) error {
	var stages []stage
	if err := b.withOperator(ctx, func(operator environment.Operator) error {
		joined := 0
		for _, count := range append([]int{0}, counts...) {
			batch, err := b.healthy(count - joined)
			if err != nil {
				return err
			}
			s := stage{members: count, batch: len(batch)}
			if s.took, err = b.hub.join(ctx, batch); err != nil {
				return err
			}
			joined = count
			if err := pause(ctx, rest); err != nil {
				return err
			}
			if s.weight, err = weighAtRest(ctx, operator); err != nil {
				return err
			}
			s.load = loadAverage()
			stages = append(stages, s)
		}
		return nil
	}); err != nil {
		return err
	}
	return reportWeights(stages)
}
