package delivery

import (
	"context"
	"fmt"
	"slices"
	"sync"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	toolscache "k8s.io/client-go/tools/cache"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fleetwright/fleetwright/controllers/delivery/object"
	"github.com/fleetwright/fleetwright/controllers/workload"
)

// optionalKind is a kind of object that only some AppServices have on a member. It is watched on a
// member from the first AppService that has one there: a watch for each kind on each member would
// cost more than all the rest. The Deployment lists those that were created with it.
type optionalKind struct {
	kind    string
	empty   func() client.Object
	desired func(workload.Workload) *unstructured.Unstructured
}

var optionalKinds = []optionalKind{
	{"HorizontalPodAutoscaler", func() client.Object { return &autoscalingv2.HorizontalPodAutoscaler{} }, func(w workload.Workload) *unstructured.Unstructured { return w.Autoscaler }},
	{"PodDisruptionBudget", func() client.Object { return &policyv1.PodDisruptionBudget{} }, func(w workload.Workload) *unstructured.Unstructured { return w.DisruptionBudget }},
}

func isOptional(kind string) bool {
	return slices.ContainsFunc(optionalKinds, func(k optionalKind) bool { return k.kind == kind })
}

// addOptional reads the optional objects, before anything is applied: if the credentials do not
// suffice for them, no Deployment lists their kinds. It adds the desired ones to the objects of a
// task, and returns those that are to be deleted.
func (r objectReader) addOptional(ctx context.Context, t task, desired workload.Workload) (unwanted []object.Existing, err error) {
	for _, k := range optionalKinds {
		if k.desired(desired) == nil {
			existing, err := r.unwanted(ctx, t, k)
			if err != nil {
				return nil, err
			}
			if existing != nil {
				unwanted = append(unwanted, *existing)
			}
			continue
		}
		if t.objects.facts[k.kind] != nil {
			continue
		}
		existing, err := r.watched(ctx, t.app, t.entry, k)
		if err != nil {
			return nil, err
		}
		if existing != nil {
			t.objects.facts[k.kind] = existing
		}
	}
	return unwanted, nil
}

// unwanted returns the optional object of a kind that is not desired, or nil if there is none that
// this hub manages. It reads the member itself if there may be one.
func (r objectReader) unwanted(ctx context.Context, t task, k optionalKind) (*object.Existing, error) {
	t.memory.forgetPruned(k.kind)
	isUnlisted := t.memory.ofKind(k.kind).isUnlisted
	// A Deployment that there never was is no sign of optional objects.
	hadDeployment := t.objects.deployment != nil || t.entry.ObservedGeneration > 0
	if !isUnlisted && (!hadDeployment || !t.objects.mayHave(k)) {
		return nil, nil
	}
	existing, err := r.optional(ctx, r.live, t.app, t.entry, k, isUnlisted || t.objects.lists(k))
	switch {
	case err != nil:
		return nil, err
	case existing == nil:
		t.memory.ofKind(k.kind).isUnlisted = false
		return nil, nil
	case !existing.IsManagedByThisHub():
		return nil, nil
	}
	return existing, nil
}

// watches are the watches of optional kinds on one member. They end with the engagement. It is safe
// for concurrent use.
type watches struct {
	cache   cache.Cache
	handler toolscache.ResourceEventHandler

	mu     sync.Mutex
	byKind map[string]cache.Informer
}

func newWatches(from cache.Cache, enqueue func(client.Object)) *watches {
	handle := func(changed any) {
		if gone, isGone := changed.(toolscache.DeletedFinalStateUnknown); isGone {
			changed = gone.Obj
		}
		if changed, isObject := changed.(client.Object); isObject {
			enqueue(changed)
		}
	}
	return &watches{cache: from, byKind: map[string]cache.Informer{}, handler: toolscache.ResourceEventHandlerFuncs{
		AddFunc: handle, UpdateFunc: func(before, after any) { handle(before); handle(after) }, DeleteFunc: handle, // it may have lost its label
	}}
}

// reader returns where to read an optional kind: the cache once it is synced, until then the
// member itself. A direct read also shows that the credentials may not list the kind.
// docs/decisions/optional-objects-are-watched-where-they-exist.md says why.
func (w *watches) reader(ctx context.Context, k optionalKind, cached, live client.Reader) (client.Reader, error) {
	informer, err := w.informer(ctx, k)
	if err != nil {
		return nil, err
	}
	if informer.HasSynced() {
		return cached, nil
	}
	return live, nil
}

func (w *watches) informer(ctx context.Context, k optionalKind) (cache.Informer, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if informer, found := w.byKind[k.kind]; found {
		return informer, nil
	}
	informer, err := w.cache.GetInformer(ctx, k.empty(), cache.BlockUntilSynced(false)) // sends no request
	if err != nil {
		return nil, fmt.Errorf("watch %s: %w", k.kind, err)
	}
	if _, err := informer.AddEventHandler(w.handler); err != nil {
		return nil, fmt.Errorf("watch %s: %w", k.kind, err)
	}
	w.byKind[k.kind] = informer
	ctrl.LoggerFrom(ctx).V(1).Info("Started to watch an optional kind", "kind", k.kind)
	return informer, nil
}
