package main

import (
	"context"
	"errors"
	"fmt"
	"syscall"
)

// operatorTurn is a turn of the operator, with the scenarios that only the operator has: it shares
// members and a hub with others.
type operatorTurn struct {
	*reportingTurn
	operator *operator // the writer of the turn
}

// measureAll measures all scenarios.
func (t *operatorTurn) measureAll(ctx context.Context) error {
	if err := t.beforeAll(ctx); err != nil {
		return err
	}
	if t.has("B7") {
		if err := t.besideBlackHoles(ctx); err != nil {
			return err
		}
	}
	if t.has("B2", "B3", "B4", "B5", "B6", "B9", "B15") {
		if err := t.many(ctx); err != nil {
			return err
		}
	}
	if t.has("B12", "B13", "B14") {
		if err := t.withConfiguration(ctx); err != nil {
			return err
		}
	}
	if t.has("B11") {
		if err := t.besideCrowd(ctx); err != nil {
			return fmt.Errorf("B11: %w", err)
		}
	}
	if t.has("B8") {
		if err := t.besideForeign(ctx); err != nil {
			return fmt.Errorf("B8: %w", err)
		}
	}
	return nil
}

// besideBlackHoles is B7: B1 while a fifth of the members do not respond. Their API servers are
// stopped by SIGSTOP: the kernel accepts connections, and nothing answers.
func (t *operatorTurn) besideBlackHoles(ctx context.Context) error {
	members := t.servers.members
	holes := members[:max(1, len(members)/5)]
	if len(holes) == len(members) {
		return errors.New("B7 needs at least 2 members: set -members")
	}
	signal := func(signal syscall.Signal) error {
		var errs []error
		for _, hole := range holes {
			errs = append(errs, hole.process.Signal(signal))
		}
		return errors.Join(errs...)
	}
	apps := batch("hole", single)
	if err := t.series(ctx, "B7", apps, len(members)-len(holes), func(create func() error) error {
		return errors.Join(signal(syscall.SIGSTOP), create(), signal(syscall.SIGCONT))
	}); err != nil {
		return err
	}
	if err := t.observer.awaitState(ctx, 2*len(members)*len(apps), isObject(apps), "the objects on all members"); err != nil {
		return err
	}
	if err := t.observer.awaitMembers(ctx, len(members)); err != nil {
		return err
	}
	return t.delete(ctx, apps)
}
