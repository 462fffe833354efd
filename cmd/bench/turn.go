package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// settleTime is how long nothing changes before a phase ends, so that late requests belong to the
// phase that caused them.
const settleTime = 2 * time.Second

// turn is a turn of a writer: the writer starts, its scenarios are measured, and it ends. The
// scenarios of all writers are methods of it. Those of writers with a hub are in [reportingTurn], and
// those of the operator alone in [operatorTurn].
type turn struct {
	*fleet
	settings // with the scenarios of this turn
	recorder

	writer    writer
	delivered delivered // of all turns
	// hasStandby is set if the operator runs as it is shipped.
	hasStandby bool
}

// measureNaked measures a turn of the naked writer.
func (t *turn) measureNaked(ctx context.Context, members map[string][]byte) error {
	n, err := startNaked(ctx, t.group, t.dir, slices.Collect(maps.Values(members)))
	if err != nil {
		return err
	}
	t.writer = n
	if err := t.warmUp(ctx); err != nil {
		return err
	}
	if err := t.measureShared(ctx); err != nil {
		return err
	}
	return n.process.Kill()
}

// measureOperator measures a turn of the operator.
func (t *turn) measureOperator(ctx context.Context, program string, hub []byte, members map[string][]byte) error {
	if err := t.join(ctx, members); err != nil {
		return err
	}
	o := &operator{fleet: t.fleet, program: program, hub: hub, hasStandby: t.hasStandby}
	if err := o.start(); err != nil {
		return err
	}
	t.writer = o
	if err := t.warmUp(ctx); err != nil {
		return o.explain(err)
	}
	if err := (&operatorTurn{reportingTurn: &reportingTurn{t, o}, operator: o}).measureAll(ctx); err != nil {
		return o.explain(err)
	}
	if err := o.stop(); err != nil {
		return err
	}
	// As the hub's garbage collector does. The next turn uses the names of the AppServices again.
	return t.servers.hub.api.DeleteAllOf(ctx, &appsv1.ControllerRevision{}, client.InNamespace(namespace))
}

// warmUp waits until the writer has delivered an AppService to all members and has deleted it: the
// operator has engaged all members, and each writer has its connections.
func (t *turn) warmUp(ctx context.Context) error {
	apps := batch("warm", 1)
	if _, err := t.create(ctx, apps, len(t.servers.members)); err != nil {
		return fmt.Errorf("warm up: %w", err)
	}
	return t.delete(ctx, apps)
}

// create creates AppServices, and returns the seconds until a number of members has both objects of
// each.
func (t *turn) create(ctx context.Context, apps []app, members int) (float64, error) {
	return t.timed(ctx, t.observer.expect(2*members*len(apps), isObject(apps)), func() error { return t.writer.apply(ctx, apps) })
}

// delete deletes AppServices, and waits until all of their objects are gone.
func (t *turn) delete(ctx context.Context, apps []app) error {
	if _, err := t.timed(ctx, t.expectGone(apps), func() error { return t.writer.remove(ctx, apps) }); err != nil {
		return err
	}
	return t.finishDeletions(ctx)
}

// finishDeletions waits until a writer has nothing left of what was deleted, so that the rest belongs to
// no later phase. The operator's AppServices are gone last.
func (t *turn) finishDeletions(ctx context.Context) error {
	if k, isKarmada := t.writer.(*karmadaWriter); isKarmada {
		return k.finishDeletions(ctx)
	}
	return nil
}

// expectGone expects that the objects of AppServices go from the members, and what the user deleted
// from the hub.
func (t *turn) expectGone(apps []app) *expectation {
	each := 2 * len(t.servers.members)
	if _, hasHub := t.writer.(reporter); hasHub {
		each++
	}
	return t.observer.expect(each*len(apps), isGone(apps))
}

// timed returns the seconds from the beginning of a function to an expectation.
func (t *turn) timed(ctx context.Context, expected *expectation, do func() error) (float64, error) {
	begin := time.Now()
	if err := do(); err != nil {
		return 0, err
	}
	end, err := t.observer.await(ctx, expected, "the objects")
	return since(begin, end), err
}

// phase measures the resources that a function uses, with a profile.
func (t *turn) phase(ctx context.Context, name string, do func() error) (usage, error) {
	say("  %s", name)
	file := strings.ReplaceAll(fmt.Sprintf("%s%s-%d-%s", name, t.suffix, t.repetition+1, t.writerName), " ", "-")
	endOwn := func() error { return nil }
	if o, ok := t.writer.(*operator); ok {
		var err error
		if endOwn, err = o.profile(ctx, file); err != nil {
			return usage{}, err
		}
	}
	endServers := t.profileServers(ctx, file)
	m, err := t.measure(ctx, t.writer.running())
	if err != nil {
		return usage{}, err
	}
	if err := do(); err != nil {
		return usage{}, fmt.Errorf("%s: %w", name, err)
	}
	u, err := m.end(ctx, t.writer.running())
	if err != nil {
		return usage{}, err
	}
	return u, errors.Join(endOwn(), endServers())
}

// series measures AppServices one after another: from the request to both objects on a number of
// members. The function around gets what to do.
func (t *turn) series(ctx context.Context, scenario string, apps []app, members int, around func(func() error) error) error {
	var took []float64
	create := func() error {
		for i := range apps {
			seconds, err := t.create(ctx, apps[i:i+1], members)
			if err != nil {
				return err
			}
			took = append(took, seconds)
		}
		return nil
	}
	u, err := t.phase(ctx, scenario, func() error { return around(create) })
	if err != nil {
		return err
	}
	t.addTimes(scenario, took, u)
	t.addUsage(scenario, u)
	return nil
}

// burst measures the time from the first request to the last change, and what is used until nothing
// changes any more.
func (t *turn) burst(ctx context.Context, scenario string, expected *expectation, do func() error) error {
	var took float64
	u, err := t.phase(ctx, scenario, func() (err error) {
		if took, err = t.timed(ctx, expected, do); err != nil {
			return err
		}
		if err := t.observer.awaitQuiet(ctx, settleTime); err != nil || scenario != "B9" {
			return err
		}
		return t.finishDeletions(ctx)
	})
	if err != nil {
		return err
	}
	t.add(scenario, tookAll, "s", took, u)
	t.addUsage(scenario, u)
	t.add(scenario, hubObjects, "", float64(u.added.objects), u)
	t.add(scenario, "Events added to the hub", "", float64(u.added.events), u)
	t.add(scenario, "etcd bytes added by the hub", "KiB", float64(u.added.bytes)/1024, u)
	t.add(scenario, "etcd bytes of the hub", "KiB", float64(u.stored.bytes)/1024, u)
	t.add(scenario, appBytes, "", u.stored.bytesOfAnApp(), u)
	return nil
}

// since returns the seconds from a time to another, at least 0.
func since(begin, end time.Time) float64 { return max(0, end.Sub(begin).Seconds()) }

var (
	_ writer   = (*naked)(nil)
	_ reporter = (*operator)(nil)
	_ reporter = (*karmadaWriter)(nil)
)
