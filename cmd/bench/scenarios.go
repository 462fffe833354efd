package main

import (
	"context"
	"strings"
	"time"
)

// single is the number of AppServices that are created one after another.
const single = 30

// measureShared measures the scenarios that all writers have.
func (t *turn) measureShared(ctx context.Context) error {
	if err := t.beforeAll(ctx); err != nil {
		return err
	}
	if !t.has("B2", "B3", "B9") {
		return nil
	}
	apps := batch("b2", t.apps)
	if err := t.atOnce(ctx, apps); err != nil {
		return err
	}
	return t.deleteAll(ctx, apps)
}

// beforeAll measures the scenarios that come first: B6 while there is no AppService yet, and B1.
func (t *turn) beforeAll(ctx context.Context) error {
	if t.repetition == 0 && t.has("B6") {
		if err := t.atRest(ctx, "without AppServices"); err != nil {
			return err
		}
	}
	if t.has("B1", "B7", "B11") {
		return t.oneByOne(ctx)
	}
	return nil
}

// oneByOne is B1: AppServices one after another. The first one shows what the writer delivers.
func (t *turn) oneByOne(ctx context.Context) error {
	apps := batch("single", single)
	if err := t.series(ctx, "B1", apps, len(t.servers.members), func(do func() error) error { return do() }); err != nil {
		return err
	}
	own, err := t.observer.describe(memberName(0), apps[0].Name)
	if err != nil {
		return err
	}
	if err := t.delivered.check(t.writerName, own); err != nil {
		return err
	}
	return t.delete(ctx, apps)
}

// atOnce is B2, all AppServices at once, and then perhaps B3.
func (t *turn) atOnce(ctx context.Context, apps []app) error {
	created := t.observer.expect(2*len(t.servers.members)*len(apps), isObject(apps))
	if err := t.burst(ctx, "B2", created, func() error { return t.writer.apply(ctx, apps) }); err != nil {
		return err
	}
	if t.has("B3") {
		return t.edit(ctx, apps)
	}
	return nil
}

// edit is B3: one field of all AppServices.
func (t *turn) edit(ctx context.Context, apps []app) error {
	edited := withImage(apps, image("2.0.0"))
	return t.burst(ctx, "B3", t.observer.expect(len(t.servers.members)*len(apps), hasImage(edited)), func() error { return t.writer.edit(ctx, edited) })
}

// deleteAll is B9: all AppServices.
func (t *turn) deleteAll(ctx context.Context, apps []app) error {
	return t.burst(ctx, "B9", t.expectGone(apps), func() error { return t.writer.remove(ctx, apps) })
}

// atRest is B6: nothing is asked of the writer for some time.
func (t *turn) atRest(ctx context.Context, when string) error {
	if err := t.observer.awaitQuiet(ctx, 2*settleTime); err != nil {
		return err
	}
	scenario := strings.TrimSpace("B6 " + when)
	u, err := t.phase(ctx, strings.ReplaceAll(scenario, " ", "-"), func() error {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(t.rest):
			return nil
		}
	})
	if err != nil {
		return err
	}
	t.addUsage(scenario, u)
	t.add(scenario, allWrites, "", float64(u.hub.writes()+u.members.writes()+u.hub[eventVerb]+u.members[eventVerb]), u)
	t.add(scenario, reads, "", float64(u.hub.reads()+u.members.reads()), u)
	return nil
}
