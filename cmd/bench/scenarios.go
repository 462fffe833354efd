package main

import (
	"context"
	"errors"
	"slices"
	"syscall"
	"time"

	"github.com/fleetwright/fleetwright/cmd/bench/figures"
)

// The names of figures that several scenarios have.
const (
	tookP50      = "p50"
	tookP99      = "p99"
	tookAll      = "all"
	cpuOfWriter  = "CPU of the writer"
	cpuOfAll     = "CPU of everything"
	cpuTaken     = "CPU of other programs"
	peakRSS      = "peak RSS of the writer"
	writesTo     = "writes to "
	readsFrom    = "GET and LIST requests to "
	hubWrites    = writesTo + "the hub"
	memberWrites = writesTo + "members"
	hubReads     = readsFrom + "the hub"
	memberReads  = readsFrom + "members"
	allWrites    = writesTo + "the hub and members"
	extraWrites  = "writes beyond those of the edit"
	reads        = "GET and LIST requests"
	hubObjects   = "objects added to the hub"
	// Of ConfigMaps and Secrets on the hub.
	sourceReads   = "GET requests for sources"
	snapshotReads = "GET requests for snapshots"
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
	r.add(scenario, hubObjects, "", float64(u.added.objects), u)
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
