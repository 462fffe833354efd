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
	"github.com/fleetwright/fleetwright/e2e/framework"
	"github.com/fleetwright/fleetwright/e2e/ledger"
	"github.com/fleetwright/fleetwright/internal/environment"
	"github.com/fleetwright/fleetwright/internal/wait"
)

// edit is an edit of a user, with a crash of the operator during its delivery.
type edit struct {
	description string
	change      framework.Change
	kill        kill // number 0: none; -1: right after the edit
	pause       time.Duration
}

func (e edit) String() string { return fmt.Sprintf("%s, kill %v, %s", e.description, e.kill, e.pause) }

// TestRandomEdits tests that the state after a sequence of edits with crashes depends only on the
// last spec.
func TestRandomEdits(t *testing.T) {
	f := testFleet(t)
	checked, edits, kills := 0, 0, 0
	rapid.Check(t, func(t *rapid.T) {
		first := anyEdit.Draw(t, "created")
		sequence := append([]edit{first}, rapid.SliceOfN(anyEdit, 1, 4).Draw(t, "edits")...)
		killed, err := f.runEdits(context.Background(), sequence)
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
	// An edit changes one field or all of them.
	all := []framework.Change{framework.Image(name), framework.Replicas(count), framework.Ports(listens...), on(chosen...)}
	what := rapid.IntRange(0, len(all)).Draw(t, "what")
	descriptions := []string{"image " + name, fmt.Sprintf("replicas %d", count), fmt.Sprintf("ports %v", listens), fmt.Sprintf("on %v", chosen), "all"}
	e := edit{description: descriptions[what], change: func(s *v1alpha1.AppServiceSpec) {
		for i, change := range all {
			// A new AppService needs an image.
			if what == i || what == len(all) || s.Image == "" {
				change(s)
			}
		}
	}}
	e.kill.number = rapid.SampledFrom([]int{0, -1, 1, 2, 3, 5, 8}).Draw(t, "kill")
	e.kill.mode = rapid.SampledFrom(modes).Draw(t, "mode")
	e.pause = rapid.SampledFrom([]time.Duration{0, 100 * time.Millisecond, 700 * time.Millisecond, 2 * time.Second}).Draw(t, "pause")
	return e
})

// runEdits makes the edits, and compares the state with that of an AppService that was created with
// the last spec. It returns how often the operator was killed.
func (f *fleet) runEdits(ctx context.Context, edits []edit) (kills int, err error) {
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
	got, err := f.awaitSettled(ctx, app, false)
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
	want, err := f.awaitSettled(ctx, fresh, false)
	if err != nil {
		return kills, fmt.Errorf("%s, created with the last spec: %w", fresh.Namespace, err)
	}
	if err := diff(want, got); err != nil {
		return kills, fmt.Errorf("%s after %v: %w", app.Namespace, edits, err)
	}
	return kills, errors.Join(f.delete(ctx, app), f.delete(ctx, fresh))
}

// edit makes one edit, kills the operator, waits, and starts the operator again.
func (f *fleet) edit(ctx context.Context, app *v1alpha1.AppService, e edit) (kills int, err error) {
	var armed *killPoint
	if e.kill.number > 0 {
		armed = f.proxy.arm(app.Namespace, e.kill)
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
		<-armed.fired
	}
	return 1, f.start(ctx)
}

// delete deletes an AppService and waits until it is gone.
func (f *fleet) delete(ctx context.Context, app *v1alpha1.AppService) error {
	if err := f.act(ctx, app, nil); err != nil {
		return err
	}
	return environment.Await(ctx, wait.Patience, app.Namespace+" to be gone", func(ctx context.Context) error { return f.checkSettled(ctx, app) })
}

// TestParts tests that the parts of a sample have every step.
func TestParts(t *testing.T) {
	all := map[string]bool{}
	for _, part := range parts {
		for _, name := range namesIn(part) {
			all[name] = true
		}
	}
	for _, step := range allSteps {
		if !all[step.name] && step.name != intoStatus {
			t.Errorf("no part has the step %q", step.name)
		}
		delete(all, step.name)
	}
	if len(all) > 0 {
		t.Errorf("there are no steps %v", all)
	}
}

// TestPlan tests that a campaign covers every request, and one more, in both modes.
func TestPlan(t *testing.T) {
	before := *everyFlag
	t.Cleanup(func() { *everyFlag = before })
	*everyFlag = 1
	planned := plan(t, []stepResult{{writes: make([]ledger.Request, 3)}, {writes: make([]ledger.Request, 1)}})
	for _, want := range []kill{{number: 1, mode: beforeSent}, {number: 3, mode: responseLost}, {number: 4, mode: beforeSent}} {
		if !slices.ContainsFunc(planned, func(kills []kill) bool { return kills[0] == want }) {
			t.Errorf("no lifecycle has the kill %v in the first step: %v", want, planned)
		}
	}
}
