package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
)

// expectation is a number of objects that shall reach a state.
type expectation struct {
	matches func(change) bool
	missing int
	reached map[objectKey]bool
	last    time.Time // when the last one reached it
	done    chan struct{}
}

// see reports whether nothing is missing any more.
func (e *expectation) see(c change, now time.Time) bool {
	if e.reached[c.objectKey] || !e.matches(c) {
		return false
	}
	e.reached[c.objectKey] = true
	if e.missing--; e.missing > 0 {
		return false
	}
	e.last = now
	close(e.done)
	return true
}

// expect returns an expectation that n objects match from now on, each at any time. Changes before
// do not count.
func (o *observer) expect(n int, matches func(change) bool) *expectation {
	e := &expectation{matches: matches, missing: n, reached: map[objectKey]bool{}, done: make(chan struct{})}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.expectations[e] = true
	return e
}

// expectState is expect, and the present state counts.
func (o *observer) expectState(n int, matches func(change) bool) *expectation {
	e := o.expect(n, matches)
	o.mu.Lock()
	defer o.mu.Unlock()
	for key, object := range o.present {
		if o.expectations[e] && e.see(change{key, object, false}, time.Now()) {
			delete(o.expectations, e)
		}
	}
	return e
}

// await waits until nothing is missing, and returns when that was.
func (o *observer) await(ctx context.Context, e *expectation, what string) (time.Time, error) {
	select {
	case <-e.done:
		return e.last, nil
	case <-o.failed:
		return time.Time{}, o.err
	case <-ctx.Done():
		return time.Time{}, context.Cause(ctx)
	case <-time.After(patience):
		o.mu.Lock()
		defer o.mu.Unlock()
		return time.Time{}, fmt.Errorf("waited %s for %s: %d objects are missing", patience, what, e.missing)
	}
}

// awaitState waits until n objects match, and the present state counts.
func (o *observer) awaitState(ctx context.Context, n int, matches func(change) bool, what string) error {
	_, err := o.await(ctx, o.expectState(n, matches), what)
	return err
}

// patience is the longest time that a step may take.
const patience = 10 * time.Minute

// awaitMembers waits until n members are Ready.
func (o *observer) awaitMembers(ctx context.Context, n int) error {
	return o.awaitState(ctx, n, func(c change) bool {
		member, ok := c.object.(*v1alpha1.MemberCluster)
		return ok && member.IsReady()
	}, "the members to be Ready")
}

// awaitQuiet waits until nothing has changed on any cluster for some time.
func (o *observer) awaitQuiet(ctx context.Context, quiet time.Duration) error {
	deadline := time.After(patience)
	for {
		o.mu.Lock()
		var last time.Time
		for _, at := range o.lastChange {
			if at.After(last) {
				last = at
			}
		}
		o.mu.Unlock()
		left := quiet - time.Since(last)
		if left <= 0 {
			return nil
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-deadline:
			return errors.New("the objects do not stop changing")
		case <-time.After(left):
		}
	}
}
