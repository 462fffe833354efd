package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"k8s.io/client-go/util/workqueue"
)

// reportingTurn is a turn of a writer with a hub: it reports a status there, and restarts from nothing.
type reportingTurn struct {
	*turn
	reporter reporter // the writer of the turn
}

// many measures the scenarios with all AppServices.
func (t *reportingTurn) many(ctx context.Context) error {
	apps := batch("b2", t.apps)
	if err := t.atOnce(ctx, apps); err != nil {
		return err
	}
	if t.has("B4", "B5", "B6", "B15") {
		if err := t.whileReady(ctx, apps); err != nil {
			return err
		}
	}
	return t.deleteAll(ctx, apps)
}

// whileReady measures the scenarios that begin when the hub knows that all AppServices are Ready.
func (t *reportingTurn) whileReady(ctx context.Context, apps []app) error {
	if err := t.awaitReady(ctx, apps); err != nil {
		return err
	}
	for _, step := range []struct {
		scenario string
		measure  func() error
	}{
		{"B4", func() error { return t.status(ctx, apps) }},
		{"B15", func() error { return t.unavailable(ctx, apps) }},
		{"B6", func() error { return t.atRest(ctx, "") }},
		{"B5", func() error { return t.restart(ctx, apps, "") }},
	} {
		if t.has(step.scenario) {
			if err := step.measure(); err != nil {
				return fmt.Errorf("%s: %w", step.scenario, err)
			}
		}
	}
	return nil
}

// awaitReady waits until the hub knows that all Deployments are ready.
func (t *reportingTurn) awaitReady(ctx context.Context, apps []app) error {
	return t.observer.awaitState(ctx, len(apps), isReported(apps, t.reporter, t.isReady), "the AppServices to be Ready")
}

func (t *reportingTurn) isReady(r report) bool {
	return r.isCurrent && r.readyMembers == len(t.servers.members)
}

// status is B4: from the last member's write of a Deployment's status to the sum on the hub, for
// one AppService after another and then for all at once.
func (t *reportingTurn) status(ctx context.Context, apps []app) error {
	t.kubelets.disable()
	var took []float64
	u, err := t.phase(ctx, "B4", func() error {
		for i := range apps[:min(single, len(apps))] {
			seconds, err := t.writeReady(ctx, apps[i:i+1], 1)
			if err != nil {
				return err
			}
			took = append(took, seconds)
		}
		return nil
	})
	if err != nil {
		return err
	}
	t.addTimes("B4", took, u)
	t.addUsage("B4", u)
	var all float64
	u, err = t.phase(ctx, "B4-all", func() (err error) {
		all, err = t.writeReady(ctx, apps, 0)
		return err
	})
	if err != nil {
		return err
	}
	t.add("B4", tookAll, "s", all, u)
	if _, err := t.writeReady(ctx, apps, replicas); err != nil {
		return err
	}
	t.kubelets.enable()
	return t.awaitReady(ctx, apps)
}

// unavailableTime is how long B15 measures.
const unavailableTime = 30 * time.Second

// unavailable is B15: all Deployments become unavailable at once, as when a registry is down, and stay so.
func (t *reportingTurn) unavailable(ctx context.Context, apps []app) error {
	t.kubelets.disable()
	u, err := t.phase(ctx, "B15", func() error {
		begin := time.Now()
		if _, err := t.writeReady(ctx, apps, 0); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(time.Until(begin.Add(unavailableTime))):
			return nil
		}
	})
	if err != nil {
		return err
	}
	t.addUsage("B15", u)
	if _, err := t.writeReady(ctx, apps, replicas); err != nil {
		return err
	}
	t.kubelets.enable()
	return t.awaitReady(ctx, apps)
}

// writeReady writes the status of Deployments on all members, with a number of ready pods. It
// returns the seconds from the last response to the last sum on the hub.
func (t *reportingTurn) writeReady(ctx context.Context, apps []app, ready int) (float64, error) {
	sum := ready * len(t.servers.members)
	expected := t.observer.expect(len(apps), isReported(apps, t.reporter, func(r report) bool { return r.readyReplicas == sum }))
	names := namesOf(apps)
	var writes []func() error
	for cluster, deployments := range t.observer.deployments() {
		for _, deployment := range deployments {
			if names[deployment.Name] {
				writes = append(writes, func() error { return t.kubelets.setReady(ctx, cluster, deployment, ready) })
			}
		}
	}
	if err := together(ctx, writes); err != nil {
		return 0, err
	}
	last := time.Now()
	end, err := t.observer.await(ctx, expected, fmt.Sprintf("the sum %d on the hub", sum))
	return since(last, end), err
}

// together calls functions, many at a time.
func together(ctx context.Context, functions []func() error) error {
	var mu sync.Mutex
	var errs []error
	workqueue.ParallelizeUntil(ctx, statusWriters, len(functions), func(i int) {
		if err := functions[i](); err != nil {
			mu.Lock()
			defer mu.Unlock()
			errs = append(errs, err)
		}
	})
	return errors.Join(errs...)
}

// restart is B5: the writer is killed while everything has converged, an AppService is edited, and
// the writer starts. The same edit without a restart shows which writes are the edit's.
func (t *reportingTurn) restart(ctx context.Context, apps []app, when string) error {
	scenario := strings.TrimSpace("B5 " + when)
	if err := t.observer.awaitQuiet(ctx, 2*settleTime); err != nil {
		return err
	}
	control, err := t.phase(ctx, strings.ReplaceAll(scenario, " ", "-")+"-control", func() error {
		if _, err := t.editOne(ctx, apps[0], func() error { return nil }); err != nil {
			return err
		}
		return t.observer.awaitQuiet(ctx, 2*settleTime)
	})
	if err != nil {
		return err
	}
	if err := t.reporter.kill(); err != nil {
		return err
	}
	m, err := t.measure(ctx, nil)
	if err != nil {
		return err
	}
	took, err := t.editOne(ctx, apps[1], t.reporter.start)
	if err != nil {
		return err
	}
	if err := t.observer.awaitQuiet(ctx, 2*settleTime); err != nil {
		return err
	}
	u, err := m.end(ctx, t.reporter.running())
	if err != nil {
		return err
	}
	t.add(scenario, tookAll, "s", took, u)
	t.addUsage(scenario, u)
	t.addRequests(scenario+" without a restart", "the hub", control.hub, control)
	t.addRequests(scenario+" without a restart", "members", control.members, control)
	extra := u.hub.writes() + u.members.writes() - control.hub.writes() - control.members.writes()
	t.add(scenario, extraWrites, "", float64(extra), u)
	return nil
}

// editOne edits an AppService, calls a function, and returns the seconds from that call until every
// member has the edit. It waits until the AppService is Ready again.
func (t *reportingTurn) editOne(ctx context.Context, one app, start func() error) (float64, error) {
	edited := []app{{Name: one.Name, Image: image("3.0.0")}}
	changed := t.observer.expect(len(t.servers.members), hasImage(edited))
	if err := t.writer.edit(ctx, edited); err != nil {
		return 0, err
	}
	took, err := t.timed(ctx, changed, start)
	if err != nil {
		return 0, err
	}
	return took, t.observer.awaitState(ctx, 1, isReported(edited, t.reporter, func(r report) bool {
		return r.image == edited[0].Image && t.isReady(r)
	}), "the edited AppService to be Ready")
}
