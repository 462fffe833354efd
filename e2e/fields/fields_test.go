package fields

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sync/errgroup"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/internal/environment"
	"github.com/fleetwright/fleetwright/internal/sample"
)

// samples is how many samples together have all fields.
const samples = 20

// lag is how long the member may differ after the status says that a spec is delivered: the copies of
// ConfigMaps and Secrets that are not needed any more are deleted later.
const lag = 20 * time.Second

// All fields are tested side by side, each with an AppService of its own. Fields with the same spec without
// them share the AppService that never had them.
func TestField_that_is_removed_leaves_nothing(t *testing.T) {
	g := newGenerator(t)
	only, err := regexp.Compile(*fieldFlag)
	if err != nil {
		t.Fatal(err)
	}
	var paths []path
	all := g.fields(nil)
	for _, p := range all {
		if sample.Takes(p.String(), samples) && only.MatchString(p.String()) {
			paths = append(paths, p)
		}
	}
	start := time.Now()
	took := func(step string) { t.Logf("%s after %s", step, time.Since(start).Round(time.Second)) }
	f := newFleet(t)
	took("the fleet is ready")
	cases := f.findAll(t, g, paths)
	took(fmt.Sprintf("found specs for %d of %d fields", len(cases), len(paths)))

	first, second, unset := map[string]object{}, map[string]object{}, map[string]object{}
	fresh := map[string]string{} // spec → AppService that never had another one
	for _, c := range cases {
		key := asJSON(c.unset)
		if fresh[key] == "" {
			fresh[key] = "fresh-" + c.name
			first[fresh[key]] = c.unset
		}
		c.fresh, first[c.name], second[c.name], unset[c.name] = fresh[key], c.set[0], c.set[len(c.set)-1], c.unset
	}
	created := f.apply(t, first)
	took(fmt.Sprintf("created %d AppServices, of which %d never have a field,", len(first), len(fresh)))
	changed := f.apply(t, second)
	took("changed")
	removed := f.apply(t, unset)
	_ = environment.Await(t.Context(), lag, "", func(ctx context.Context) (err error) { // check says what differs
		if removed.objects, err = f.onMember(ctx); err != nil {
			return err
		}
		for _, c := range cases {
			if !cmp.Equal(removed.objects[c.name], removed.objects[c.fresh]) {
				return errors.New("it differs")
			}
		}
		return nil
	})
	took("removed")

	corrections := f.corrections(t)
	for _, c := range cases {
		if err := errors.Join(corrections[c.name], corrections[c.fresh], c.check(g.tables, created, changed, removed)); err != nil {
			t.Errorf("%s: %v\nset:   %s\nunset: %s", c.path, err, asJSON(c.set), asJSON(c.unset))
		}
	}
	if len(paths) == len(all) {
		g.checkUse(t, cases)
	}
}

// check returns what is wrong with the states of a field. It sets isSeen.
func (c *fieldCase) check(given *tables, created, changed, removed state) error {
	never := removed.objects[c.fresh]
	errs := []error{created.undelivered[c.fresh], created.undelivered[c.name], changed.undelivered[c.name], removed.undelivered[c.name]}
	c.isSeen = !cmp.Equal(created.objects[c.name], never) || !cmp.Equal(changed.objects[c.name], never)
	if !c.isSeen && keyAround(given.Invisible, c.path) == "" {
		errs = append(errs, errors.New("it changes nothing on the member"))
	}
	if isConstant := keyOf(given.Constant, c.path) != ""; isConstant != (len(c.set) == 1) {
		errs = append(errs, fmt.Errorf("%d values of it are accepted, but tables.yaml says of constant: %v", len(c.set), isConstant))
	}
	if diff := cmp.Diff(never, removed.objects[c.name]); diff != "" {
		errs = append(errs, fmt.Errorf("it leaves something on the member (-never had it +had it):\n%s", diff))
	}
	return errors.Join(errs...)
}

// checkUse fails the test if an entry of the tables is of no use for all fields.
func (g *generator) checkUse(t *testing.T, cases []*fieldCase) {
	t.Helper()
	isUsed := map[string]bool{}
	for _, c := range cases {
		isUsed[asJSON(c.context)] = true
		if !c.isSeen {
			isUsed[keyAround(g.Invisible, c.path)] = true
		}
	}
	for _, context := range g.Contexts {
		if !isUsed[asJSON(merge(minimal, context))] {
			t.Errorf("tables.yaml: no field needs the context %s", asJSON(context))
		}
	}
	for key := range g.Invisible {
		if !isUsed[key] {
			t.Errorf("tables.yaml: %s is visible on the member", key)
		}
	}
}

// findAll returns the cases of fields. It fails the test if a field has none, unless tables.yaml lists it.
func (f *fleet) findAll(t *testing.T, g *generator, paths []path) (cases []*fieldCase) {
	t.Helper()
	cluster := &v1alpha1.MemberCluster{}
	if err := f.Hub.Client.Get(t.Context(), client.ObjectKey{Name: memberName}, cluster); err != nil {
		t.Fatal(err)
	}
	find := &finder{generator: g, hub: f.Hub, member: f.member, cluster: cluster}
	found, refusals := make([]*fieldCase, len(paths)), make([]error, len(paths))
	var group errgroup.Group
	group.SetLimit(4)
	for i, p := range paths {
		group.Go(func() error {
			found[i], refusals[i] = find.find(t.Context(), p)
			return nil
		})
	}
	_ = group.Wait() // no function returns an error
	for i, p := range paths {
		key := keyAround(g.Untested, p)
		switch {
		case refusals[i] != nil && key == "":
			t.Errorf("%s: %v", p, refusals[i])
		case refusals[i] == nil && key != "":
			t.Errorf("%s: tables.yaml says that it cannot be tested (%s), but this is accepted: %s", p, g.Untested[key], asJSON(found[i].set))
		case refusals[i] == nil:
			found[i].name = fmt.Sprintf("field-%d", i)
			cases = append(cases, found[i])
		}
	}
	return cases
}
