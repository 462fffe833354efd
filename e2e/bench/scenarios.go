package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"k8s.io/client-go/util/workqueue"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/e2e/bench/figures"
)

// The names of figures that several scenarios have.
const (
	tookP50     = "p50"
	tookP99     = "p99"
	tookAll     = "all"
	cpuOfWriter = "CPU of the writer"
	cpuOfAll    = "CPU of everything"
	cpuTaken    = "CPU of other programs"
	peakRSS     = "peak RSS of the writer"
	writesTo    = "writes to "
	hubWrites   = writesTo + "the hub"
	allWrites   = writesTo + "the hub and members"
	extraWrites = "writes beyond those of the edit"
	reads       = "GET and LIST requests"
)

// single is the number of AppServices that are created one after another.
const single = 30

// settleTime is how long nothing changes before a phase ends, so that late requests belong to the
// phase that caused them.
const settleTime = 2 * time.Second

// oneByOne is B1: AppServices one after another.
func (r *run) oneByOne(ctx context.Context, w writer) error {
	if !r.has("B1", "B7", "B11") {
		return nil
	}
	apps := batch("single", single)
	if err := r.series(ctx, w, "B1", apps, len(r.servers.members), func(do func() error) error { return do() }); err != nil {
		return err
	}
	if err := r.checkSame(apps[0]); err != nil {
		return err
	}
	_, err := r.delete(ctx, w, apps)
	return err
}

// series measures AppServices one after another: from the request to both objects on a number of
// members. The function around gets what to do.
func (r *run) series(ctx context.Context, w writer, scenario string, apps []app, members int, around func(func() error) error) error {
	var took []float64
	create := func() error {
		for i := range apps {
			one := apps[i : i+1]
			seconds, err := r.timed(ctx, r.observer.expect(2*members, isObject(one)), func() error { return w.apply(ctx, one) })
			if err != nil {
				return err
			}
			took = append(took, seconds)
		}
		return nil
	}
	u, err := r.phase(ctx, w, scenario, func() error { return around(create) })
	if err != nil {
		return err
	}
	slices.Sort(took)
	r.add(scenario, tookP50, "s", figures.Percentile(took, 0.5), u)
	r.add(scenario, tookP99, "s", figures.Percentile(took, 0.99), u)
	r.addUsage(scenario, u)
	return nil
}

// timed returns the seconds from the beginning of a function to an expectation.
func (r *run) timed(ctx context.Context, expected *expectation, do func() error) (float64, error) {
	begin := time.Now()
	if err := do(); err != nil {
		return 0, err
	}
	end, err := r.observer.await(ctx, expected, "the objects")
	return since(begin, end), err
}

// besideBlackHoles is B7: the same while a fifth of the members do not respond. Their API servers
// are stopped by SIGSTOP: the kernel accepts connections, and nothing answers.
func (r *run) besideBlackHoles(ctx context.Context, w writer) error {
	members := r.servers.members
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
	if err := r.series(ctx, w, "B7", apps, len(members)-len(holes), func(create func() error) error {
		return errors.Join(signal(syscall.SIGSTOP), create(), signal(syscall.SIGCONT))
	}); err != nil {
		return err
	}
	if err := r.awaitState(ctx, 2*len(members)*len(apps), isObject(apps), "the objects on all members"); err != nil {
		return err
	}
	if err := r.observer.awaitMembers(ctx, len(members)); err != nil {
		return err
	}
	_, err := r.delete(ctx, w, apps)
	return err
}

// awaitState waits until n objects match.
func (r *run) awaitState(ctx context.Context, n int, matches func(change) bool, what string) error {
	_, err := r.observer.await(ctx, r.observer.expectState(n, matches), what)
	return err
}

// atOnce is B2: all AppServices at once.
func (r *run) atOnce(ctx context.Context, w writer, apps []app) error {
	return r.burst(ctx, w, "B2", r.observer.expect(2*len(r.servers.members)*len(apps), isObject(apps)), func() error { return w.apply(ctx, apps) })
}

// edit is B3: one field of all AppServices.
func (r *run) edit(ctx context.Context, w writer, apps []app) error {
	edited := withImage(apps, image("2.0.0"))
	return r.burst(ctx, w, "B3", r.observer.expect(len(r.servers.members)*len(apps), hasImage(edited)), func() error { return w.apply(ctx, edited) })
}

// deleteAll is B9: all AppServices.
func (r *run) deleteAll(ctx context.Context, w writer, apps []app) error {
	return r.burst(ctx, w, "B9", r.expectGone(w, apps), func() error { return w.remove(ctx, apps) })
}

// burst measures the time from the first request to the last change, and what is used until nothing
// changes any more.
func (r *run) burst(ctx context.Context, w writer, scenario string, expected *expectation, do func() error) error {
	var took float64
	u, err := r.phase(ctx, w, scenario, func() (err error) {
		if took, err = r.timed(ctx, expected, do); err != nil {
			return err
		}
		return r.observer.awaitQuiet(ctx, settleTime)
	})
	if err != nil {
		return err
	}
	r.add(scenario, tookAll, "s", took, u)
	r.addUsage(scenario, u)
	r.add(scenario, "objects added to the hub", "", float64(u.added.objects), u)
	r.add(scenario, "Events added to the hub", "", float64(u.added.events), u)
	r.add(scenario, "etcd bytes added by the hub", "KiB", float64(u.added.bytes)/1024, u)
	return nil
}

// delete deletes AppServices, and returns the seconds until all of their objects are gone.
func (r *run) delete(ctx context.Context, w writer, apps []app) (float64, error) {
	return r.timed(ctx, r.expectGone(w, apps), func() error { return w.remove(ctx, apps) })
}

// expectGone expects that the objects of AppServices go from the members, and the AppServices from
// the hub.
func (r *run) expectGone(w writer, apps []app) *expectation {
	each := 2 * len(r.servers.members)
	if _, isOperator := w.(*operator); isOperator {
		each++
	}
	return r.observer.expect(each*len(apps), isGone(apps))
}

// makeReady makes all Deployments ready, and waits until the hub knows it.
func (r *run) makeReady(ctx context.Context, apps []app) error {
	r.kubelets.enable()
	return r.awaitState(ctx, len(apps), isAppService(apps, r.isReady), "the AppServices to be Ready")
}

func (r *run) isReady(a *v1alpha1.AppService) bool {
	return a.Status.ObservedGeneration == a.Generation && int(a.Status.Summary.Ready) == len(r.servers.members)
}

// status is B4: from the last member's write of a Deployment's status to the sum on the hub, for one
// AppService after another and then for all at once.
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
	return r.makeReady(ctx, apps)
}

// writeReady writes the status of Deployments on all members, with a number of ready pods. It returns
// the seconds from the last response to the last sum on the hub.
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

// restart is B5: the operator is killed while everything has converged, an AppService is edited, and
// the operator starts. The same edit without a restart shows which writes are the edit's.
func (r *run) restart(ctx context.Context, o *operator, apps []app) error {
	if err := r.observer.awaitQuiet(ctx, 2*settleTime); err != nil {
		return err
	}
	control, err := r.phase(ctx, o, "B5-control", func() error {
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
	r.add("B5", tookAll, "s", took, u)
	r.addUsage("B5", u)
	r.addRequests("B5 without a restart", "the hub", control.hub, control)
	r.addRequests("B5 without a restart", "members", control.members, control)
	extra := u.hub.writes() + u.members.writes() - control.hub.writes() - control.members.writes()
	r.add("B5", extraWrites, "", float64(extra), u)
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
