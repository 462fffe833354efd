package crash

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/e2e/environment"
)

// edit is something that a user may do at any time, and what befalls the operator then.
type edit struct {
	said   string
	change change
	kill   kill // number 0: none; -1: right after the edit
	pause  time.Duration
}

func (e edit) String() string { return fmt.Sprintf("%s, kill %v, %s", e.said, e.kill, e.pause) }

// Whatever was said before, in whatever order, and whatever befell the operator meanwhile, only what was said last counts.
func TestRandomEdits(t *testing.T) {
	f := theFleet
	checked, edits, kills := 0, 0, 0
	rapid.Check(t, func(t *rapid.T) {
		first := anyEdit.Draw(t, "declared")
		sequence := append([]edit{first}, rapid.SliceOfN(anyEdit, 1, 4).Draw(t, "edits")...)
		killed, err := f.endsAsSaidLast(context.Background(), sequence)
		if err != nil {
			t.Fatal(err)
		}
		checked, edits, kills = checked+1, edits+len(sequence), kills+killed
	})
	t.Logf("%d sequences, %d edits, %d kills", checked, edits, kills)
}

var anyEdit = rapid.Custom(func(t *rapid.T) edit {
	name := rapid.SampledFrom([]string{"web:1", "web:2", "web:3"}).Draw(t, "image")
	count := rapid.Int32Range(0, 4).Draw(t, "replicas")
	listens := rapid.SampledFrom([][]int32{nil, {80}, {81}, {80, 443}}).Draw(t, "ports")
	chosen := rapid.SampledFrom([][]string{members, members[:2], members[1:], {"east"}, {"north"}, {"south"}}).Draw(t, "clusters")
	// An edit changes one thing, or all at once.
	all := []change{image(name), replicas(count), ports(listens...), on(chosen...)}
	what := rapid.IntRange(0, len(all)).Draw(t, "what")
	said := []string{"image " + name, fmt.Sprintf("replicas %d", count), fmt.Sprintf("ports %v", listens), fmt.Sprintf("on %v", chosen), "all"}
	e := edit{said: said[what], change: func(s *v1alpha1.AppServiceSpec) {
		for i, change := range all {
			// What is declared needs an image.
			if what == i || what == len(all) || s.Image == "" {
				change(s)
			}
		}
	}}
	e.kill.number = rapid.SampledFrom([]int{0, -1, 1, 2, 3, 5, 8}).Draw(t, "kill")
	e.kill.way = rapid.SampledFrom(ways).Draw(t, "way")
	e.pause = rapid.SampledFrom([]time.Duration{0, 100 * time.Millisecond, 700 * time.Millisecond, 2 * time.Second}).Draw(t, "pause")
	return e
})

// endsAsSaidLast makes the edits, and compares what comes of them with what comes of an AppService that was declared as it is in
// the end. It returns how often the operator was killed.
func (f *fleet) endsAsSaidLast(ctx context.Context, edits []edit) (kills int, err error) {
	app, err := f.newApp(ctx)
	if err != nil {
		return 0, err
	}
	for _, e := range edits {
		killed, err := f.edit(ctx, app, e)
		if err != nil {
			return kills, fmt.Errorf("%s: %w", e, err)
		}
		kills += killed
	}
	got, err := f.rest(ctx, app, false)
	if err != nil {
		return kills, fmt.Errorf("%s after %v: %w", app.Namespace, edits, err)
	}
	fresh, err := f.newApp(ctx)
	if err != nil {
		return kills, err
	}
	if err := f.act(ctx, fresh, func(s *v1alpha1.AppServiceSpec) { *s = *app.Spec.DeepCopy() }); err != nil {
		return kills, err
	}
	want, err := f.rest(ctx, fresh, false)
	if err != nil {
		return kills, fmt.Errorf("%s, declared at once: %w", fresh.Namespace, err)
	}
	if err := diff(want, got); err != nil {
		return kills, fmt.Errorf("%s after %v: %w", app.Namespace, edits, err)
	}
	return kills, errors.Join(f.end(ctx, app), f.end(ctx, fresh))
}

// edit makes one edit, has the operator killed, waits, and sees to it that the operator runs.
func (f *fleet) edit(ctx context.Context, app *v1alpha1.AppService, e edit) (kills int, err error) {
	var armed *trap
	if e.kill.number > 0 {
		armed = f.proxy.set(app.Namespace, e.kill)
	}
	if err := f.act(ctx, app, e.change); err != nil {
		return 0, err
	}
	if e.kill.number < 0 {
		err = f.kill()
	}
	time.Sleep(e.pause)
	switch {
	case err != nil:
		return 0, err
	case e.kill.number < 0:
	case armed == nil || f.proxy.disarm(armed):
		return 0, nil
	default:
		<-armed.sprung
	}
	return 1, f.start(ctx)
}

// end deletes an AppService and waits until it is gone.
func (f *fleet) end(ctx context.Context, app *v1alpha1.AppService) error {
	if err := f.act(ctx, app, nil); err != nil {
		return err
	}
	return environment.Await(ctx, patience, app.Namespace+" to be gone", func(ctx context.Context) error { return f.settled(ctx, app) })
}

// TestPlan_covers_every_request is about the tests themselves.
func TestPlan_covers_every_request(t *testing.T) {
	before := *everyFlag
	t.Cleanup(func() { *everyFlag = before })
	*everyFlag = 1
	lives := plan(t, []lived{{writes: make([]request, 3)}, {writes: make([]request, 1)}})
	for _, want := range []kill{{number: 1, way: beforeSent}, {number: 3, way: answerLost}, {number: 4, way: beforeSent}} {
		if !slices.ContainsFunc(lives, func(life []kill) bool { return life[0] == want }) {
			t.Errorf("no life is killed at %v in the first step: %v", want, lives)
		}
	}
}
