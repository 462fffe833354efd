package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/client-go/util/workqueue"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/cmd/bench/figures"
)

// whileReady measures the scenarios that begin when the hub knows that all AppServices are Ready.
func (r *run) whileReady(ctx context.Context, o *operator, apps []app) error {
	if err := r.awaitReady(ctx, apps); err != nil {
		return err
	}
	for _, step := range []struct {
		scenario string
		measure  func() error
	}{
		{"B4", func() error { return r.status(ctx, o, apps) }},
		{"B6", func() error { return r.atRest(ctx, o, "") }},
		{"B5", func() error { return r.restart(ctx, o, apps, "") }},
	} {
		if r.has(step.scenario) {
			if err := step.measure(); err != nil {
				return fmt.Errorf("%s: %w", step.scenario, err)
			}
		}
	}
	return nil
}

// awaitReady waits until the hub knows that all Deployments are ready.
func (r *run) awaitReady(ctx context.Context, apps []app) error {
	return r.awaitState(ctx, len(apps), isAppService(apps, r.isReady), "the AppServices to be Ready")
}

func (r *run) isReady(a *v1alpha1.AppService) bool {
	return a.Status.ObservedGeneration == a.Generation && int(a.Status.Summary.Ready) == len(r.servers.members)
}

// status is B4: from the last member's write of a Deployment's status to the sum on the hub, for
// one AppService after another and then for all at once.
func (r *run) status(ctx context.Context, w writer, apps []app) error {
	r.kubelets.disable()
	var took []float64
	u, err := r.phase(ctx, w, "B4", func() error {
		for i := range apps[:min(single, len(apps))] {
			seconds, err := r.writeReady(ctx, apps[i:i+1], 1)
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
	slices.Sort(took)
	r.add("B4", tookP50, "s", figures.Percentile(took, 0.5), u)
	r.add("B4", tookP99, "s", figures.Percentile(took, 0.99), u)
	r.addUsage("B4", u)
	var all float64
	u, err = r.phase(ctx, w, "B4-all", func() (err error) {
		all, err = r.writeReady(ctx, apps, 0)
		return err
	})
	if err != nil {
		return err
	}
	r.add("B4", tookAll, "s", all, u)
	if _, err := r.writeReady(ctx, apps, replicas); err != nil {
		return err
	}
	r.kubelets.enable()
	return r.awaitReady(ctx, apps)
}

// writeReady writes the status of Deployments on all members, with a number of ready pods. It
// returns the seconds from the last response to the last sum on the hub.
func (r *run) writeReady(ctx context.Context, apps []app, ready int) (float64, error) {
	sum := int32(ready * len(r.servers.members))
	expected := r.observer.expect(len(apps), isAppService(apps, func(a *v1alpha1.AppService) bool { return a.Status.Summary.ReadyReplicas == sum }))
	names := namesOf(apps)
	var writes []func() error
	for cluster, deployments := range r.observer.deployments() {
		for _, deployment := range deployments {
			if names[deployment.Name] {
				writes = append(writes, func() error { return r.kubelets.setReady(ctx, cluster, deployment, ready) })
			}
		}
	}
	if err := together(ctx, writes); err != nil {
		return 0, err
	}
	last := time.Now()
	end, err := r.observer.await(ctx, expected, fmt.Sprintf("the sum %d on the hub", sum))
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

// restart is B5: the operator is killed while everything has converged, an AppService is edited,
// and the operator starts. The same edit without a restart shows which writes are the edit's.
func (r *run) restart(ctx context.Context, o *operator, apps []app, when string) error {
	scenario := strings.TrimSpace("B5 " + when)
	if err := r.observer.awaitQuiet(ctx, 2*settleTime); err != nil {
		return err
	}
	control, err := r.phase(ctx, o, strings.ReplaceAll(scenario, " ", "-")+"-control", func() error {
		if _, err := r.editOne(ctx, o, apps[0], func() error { return nil }); err != nil {
			return err
		}
		return r.observer.awaitQuiet(ctx, 2*settleTime)
	})
	if err != nil {
		return err
	}
	if err := o.process.Kill(); err != nil {
		return err
	}
	m, err := r.measure(ctx, nil)
	if err != nil {
		return err
	}
	took, err := r.editOne(ctx, o, apps[1], o.start)
	if err != nil {
		return err
	}
	if err := r.observer.awaitQuiet(ctx, 2*settleTime); err != nil {
		return err
	}
	u, err := m.end(ctx, o.process)
	if err != nil {
		return err
	}
	r.add(scenario, tookAll, "s", took, u)
	r.addUsage(scenario, u)
	r.addRequests(scenario+" without a restart", "the hub", control.hub, control)
	r.addRequests(scenario+" without a restart", "members", control.members, control)
	extra := u.hub.writes() + u.members.writes() - control.hub.writes() - control.members.writes()
	r.add(scenario, extraWrites, "", float64(extra), u)
	return nil
}

// editOne edits an AppService, calls a function, and returns the seconds from that call until every
// member has the edit. It waits until the AppService is Ready again.
func (r *run) editOne(ctx context.Context, o *operator, one app, start func() error) (float64, error) {
	edited := []app{{Name: one.Name, Image: image("3.0.0")}}
	changed := r.observer.expect(len(r.servers.members), hasImage(edited))
	if err := o.apply(ctx, edited); err != nil {
		return 0, err
	}
	took, err := r.timed(ctx, changed, start)
	if err != nil {
		return 0, err
	}
	return took, r.awaitState(ctx, 1, isAppService(edited, func(a *v1alpha1.AppService) bool {
		return a.Spec.Image == edited[0].Image && r.isReady(a)
	}), "the edited AppService to be Ready")
}

// atRest is B6: nothing is asked of the writer for some time.
func (r *run) atRest(ctx context.Context, w writer, when string) error {
	if err := r.observer.awaitQuiet(ctx, 2*settleTime); err != nil {
		return err
	}
	scenario := strings.TrimSpace("B6 " + when)
	u, err := r.phase(ctx, w, strings.ReplaceAll(scenario, " ", "-"), func() error {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(r.rest):
			return nil
		}
	})
	if err != nil {
		return err
	}
	r.addUsage(scenario, u)
	r.add(scenario, allWrites, "", float64(u.hub.writes()+u.members.writes()+u.hub[eventVerb]+u.members[eventVerb]), u)
	r.add(scenario, reads, "", float64(u.hub.reads()+u.members.reads()), u)
	return nil
}
