package fields

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/workload"
	"github.com/fleetwright/fleetwright/e2e/framework"
)

// fieldCase is how a field is tested.
type fieldCase struct {
	path path
	// context is the spec to which the field is added.
	context object
	// name is the AppService with the field, fresh one that never has it.
	name, fresh string
	// set are one or two specs with different values of the field.
	set []object
	// unset is the spec without the field, or without the smallest part of the spec that has the field
	// and that can be removed.
	unset object
	// isVisible is set if a dry run says that the field changes something on the member, or if it need not;
	// isSeen if it has changed something.
	isVisible, isSeen bool
}

// finder finds specs that the hub and the member accept. It changes nothing there.
type finder struct {
	*generator
	hub, member *framework.Cluster
	cluster     *v1alpha1.MemberCluster

	answers sync.Map // to the dry run of a spec, by the spec as JSON
}

// find returns how a field is tested, or why no spec with the field, or none without it, is accepted.
func (f *finder) find(ctx context.Context, p path) (*fieldCase, error) {
	best := &fieldCase{}
	refusals := []error{errors.New("no spec with the field is accepted: add values, siblings or a context to tables.yaml")}
	for _, spec := range f.contexts(p) {
		for siblings := len(p); siblings >= 0; siblings-- {
			if siblings > 0 && keyOf(f.Siblings, p[:siblings]) == "" {
				continue // as with one less
			}
			found, err := f.findIn(ctx, spec, p, siblings)
			if refusals = append(refusals, err); found.rank() > best.rank() {
				best = found
			}
			if best.rank() == bestRank {
				return best, nil
			}
		}
	}
	if best.rank() == 0 {
		return nil, errors.Join(refusals...)
	}
	return best, nil
}

// bestRank is the rank of a case with two values, one of which changes something on the member.
const bestRank = 4

// rank says how much a case shows.
func (c *fieldCase) rank() int {
	if c.isVisible {
		return len(c.set) + 2
	}
	return len(c.set)
}

// findIn tries a field in a context. The error is the last refusal.
func (f *finder) findIn(ctx context.Context, spec object, p path, siblings int) (c *fieldCase, refusal error) {
	c = &fieldCase{path: p, context: spec}
	isInvisible := keyAround(f.Invisible, p) != ""
	given := ""
	for _, value := range f.candidates(f.at(p), p) {
		set := f.with(spec, nil, p, value, siblings).(object)
		with, err := f.dryRun(ctx, set)
		if err != nil {
			refusal = err
			continue
		}
		if c.unset == nil {
			if c.unset, given, err = f.unset(ctx, spec, set, p); err != nil { // it is the same with another value
				return c, fmt.Errorf("without the field: %w", err)
			}
		}
		switch isVisible := isInvisible || with != given; {
		case slices.ContainsFunc(append(c.set, c.unset), func(known object) bool { return asJSON(known) == asJSON(set) }):
		case len(c.set) < 2:
			c.set, c.isVisible = append(c.set, set), c.isVisible || isVisible
		case isVisible:
			c.set[1], c.isVisible = set, true
		}
		if c.rank() == bestRank {
			break
		}
	}
	return c, refusal
}

// unset returns a spec without a field and the answer of the member to it: the field is removed, or
// the smallest part of the spec around it that can be removed, or everything that was added.
func (f *finder) unset(ctx context.Context, spec, set object, p path) (unset object, given string, err error) {
	for i := len(p); i >= 0; i-- {
		switch {
		case i == 0:
			unset = spec
		case p[i-1] == item:
			continue
		default:
			unset = without(set, p[:i]).(object)
		}
		if given, err = f.dryRun(ctx, unset); err == nil {
			return unset, given, nil
		}
	}
	return nil, "", err
}

// dryRun returns what the member would have of an AppService with a spec, or an error if the hub or the
// member refuses it.
func (f *finder) dryRun(ctx context.Context, spec object) (string, error) {
	type answer struct {
		given string
		err   error
	}
	key := asJSON(spec)
	if known, found := f.answers.Load(key); found {
		return known.(answer).given, known.(answer).err
	}
	given, err := f.send(ctx, spec)
	f.answers.Store(key, answer{given, err})
	return given, err
}

func (f *finder) send(ctx context.Context, spec object) (string, error) {
	sent := appService("dry-run", spec)
	if err := f.hub.Client.Create(ctx, sent, client.DryRunAll); err != nil {
		return "", err
	}
	app := &v1alpha1.AppService{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(sent.Object, app); err != nil {
		return "", err
	}
	entry := &v1alpha1.ClusterStatus{Name: f.cluster.Name, Replicas: app.DesiredReplicas()}
	if scaling := app.Spec.Autoscaling; scaling != nil {
		entry.MinReplicas, entry.MaxReplicas = *scaling.MinReplicas, scaling.MaxReplicas
	}
	rendered, err := workload.Render(app, entry, f.cluster, "hub", nil)
	if err != nil {
		return "", err
	}
	given := object{}
	for _, object := range []*unstructured.Unstructured{rendered.Deployment, rendered.Service, rendered.Autoscaler, rendered.DisruptionBudget} {
		if object == nil {
			continue
		}
		if err := f.member.Client.Apply(ctx, client.ApplyConfigurationFromUnstructured(object), client.DryRunAll, client.FieldOwner(v1alpha1.ManagedBy)); err != nil {
			return "", err
		}
		given[object.GetKind()] = comparison(object)
	}
	return asJSON(given), nil
}

// namespace has all AppServices.
const namespace = "fields"

func appService(name string, spec object) *unstructured.Unstructured {
	app := &unstructured.Unstructured{Object: object{"spec": merge(spec, nil)}}
	app.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("AppService"))
	app.SetNamespace(namespace)
	app.SetName(name)
	return app
}

func asJSON(value any) string {
	text, err := json.Marshal(value)
	if err != nil {
		panic(err) // the values are JSON values
	}
	return string(text)
}
