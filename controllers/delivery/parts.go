package delivery

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/workload"
)

// part is a kind of object that only some AppServices have on a member. It is watched only where one has it: a watch for each
// kind on each member would cost more than all the rest. Which parts may be there is written on the Deployment.
type part struct {
	kind   string
	empty  func() client.Object
	wanted func(workload.Workload) *unstructured.Unstructured
}

var parts = []part{
	{"HorizontalPodAutoscaler", func() client.Object { return &autoscalingv2.HorizontalPodAutoscaler{} }, func(w workload.Workload) *unstructured.Unstructured { return w.Autoscaler }},
	{"PodDisruptionBudget", func() client.Object { return &policyv1.PodDisruptionBudget{} }, func(w workload.Workload) *unstructured.Unstructured { return w.DisruptionBudget }},
}

func isPart(object client.Object) bool {
	return slices.ContainsFunc(parts, func(p part) bool { return p.kind == kindOf(object) })
}

// mayHave tells whether a member may hold a part of what it holds of an AppService: where the Deployment says so, and where there is none of
// Fleetwright's to say it, for somebody has deleted that.
func (l live) mayHave(p part) bool {
	return l.deployment == nil || l.deployment.Annotations[v1alpha1.AnnotationHub] == "" || l.lists(p)
}

// lists tells whether a Deployment of Fleetwright's says that there may be a part.
func (l live) lists(p part) bool {
	return l.deployment != nil && l.deployment.Annotations[v1alpha1.AnnotationHub] != "" &&
		slices.Contains(strings.Split(l.deployment.Annotations[v1alpha1.AnnotationOwnedKinds], ","), p.kind)
}

// read returns one part, with its kind; nil when there is none. One that may not be read was not made either, unless the Deployment
// says so.
func (p part) read(ctx context.Context, from client.Reader, key types.NamespacedName, known bool) (client.Object, error) {
	object := p.empty()
	err := from.Get(ctx, key, object)
	if apierrors.IsNotFound(err) || apierrors.IsForbidden(err) && !known {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", p.kind, err)
	}
	setKind(object)
	tame(object)
	return object, nil
}

// dropParts deletes the parts that are wanted no more, those that an AppService before this one left too. It comes before the Deployment, which is
// the record of them; and an autoscaler must be gone before the replicas are ours again.
func (r *reconciler) dropParts(ctx context.Context, t task, want workload.Workload) (dropped bool, err error) {
	for _, p := range parts {
		// A Deployment that there never was is no sign that there are parts.
		known := t.objects.deployment != nil || t.row.ObservedGeneration > 0
		if p.wanted(want) != nil || !(known && t.objects.mayHave(p) || t.memory.created[p.kind]) {
			continue
		}
		left, err := r.dropPart(ctx, t, p)
		if err != nil {
			return dropped, err
		}
		dropped = dropped || left
	}
	return dropped, nil
}

// dropPart deletes one part, and tells whether there was one. An autoscaler that does not go at once is waited for.
func (r *reconciler) dropPart(ctx context.Context, t task, p part) (found bool, err error) {
	read := func() (client.Object, error) {
		return p.read(ctx, r.live, client.ObjectKeyFromObject(t.app), t.objects.lists(p) || t.memory.created[p.kind])
	}
	object, err := read()
	if err != nil {
		return false, err
	}
	if object != nil {
		if !r.isInherited(t.app, object) {
			return false, nil
		}
		if behind := r.ahead(t.app, object); behind != nil {
			return true, behind
		}
		if err := r.takeAway(ctx, t, object); err != nil {
			return true, err
		}
		if object, err = read(); err != nil {
			return true, err
		}
		found = true
	}
	if _, scales := object.(*autoscalingv2.HorizontalPodAutoscaler); scales {
		return true, &obstacle{reason: v1alpha1.ReasonRollingOut, passes: true, retry: removalPoll, message: fmt.Sprintf(
			"waiting for the member to finish deleting %s %s", p.kind, object.GetName())}
	}
	delete(t.memory.created, p.kind)
	return found, nil
}

// cachedParts returns the parts that the Deployment lists. They are read from the member's cache once it is in step.
func (r *reconciler) cachedParts(ctx context.Context, t task) ([]client.Object, error) {
	var objects []client.Object
	for _, p := range parts {
		if !t.objects.lists(p) || slices.ContainsFunc(t.objects.parts, func(o client.Object) bool { return kindOf(o) == p.kind }) {
			continue
		}
		from, err := r.watches.reader(ctx, p, r.member, r.live)
		if err != nil {
			return nil, err
		}
		object, err := p.read(ctx, from, client.ObjectKeyFromObject(t.app), true)
		if err != nil {
			return nil, err
		}
		if object != nil {
			objects = append(objects, object)
		}
	}
	return objects, nil
}

// existingParts are what the member holds of the parts that are wanted, by kind. They are read before anything is sent: where the credentials
// do not suffice, no Deployment says that there may be some.
func (r *reconciler) existingParts(ctx context.Context, t task, want workload.Workload) (map[string]client.Object, error) {
	existing := map[string]client.Object{}
	for _, object := range t.objects.parts {
		existing[kindOf(object)] = object
	}
	for _, p := range parts {
		if p.wanted(want) == nil || existing[p.kind] != nil {
			continue
		}
		from, err := r.watches.reader(ctx, p, r.member, r.live)
		if err != nil {
			return nil, err
		}
		object, err := p.read(ctx, from, client.ObjectKeyFromObject(t.app), true)
		if err != nil {
			return nil, err
		}
		if object != nil {
			existing[p.kind] = object
		}
	}
	return existing, nil
}

// bringPartsInLine sends what the member does not hold of the parts that are wanted.
func (r *reconciler) bringPartsInLine(ctx context.Context, t task, want workload.Workload, existing map[string]client.Object) (sent bool, err error) {
	for _, p := range parts {
		wanted, changed := p.wanted(want), true
		switch object := existing[p.kind]; {
		case wanted == nil:
			t.memory.forgetPruned(p.kind)
			continue
		case object == nil:
			t.memory.created[p.kind] = true
			err = r.create(ctx, t, wanted)
		default:
			changed, err = r.bringObjectInLine(ctx, t, object, wanted)
		}
		if sent = sent || changed; err != nil {
			return sent, err
		}
	}
	return sent, nil
}

// watches are those of parts on one member, begun when the first AppService has one. They end with the engagement. It is safe for concurrent use.
type watches struct {
	cache   cache.Cache
	handler toolscache.ResourceEventHandler

	mu     sync.Mutex
	byKind map[string]cache.Informer
}

func newWatches(from cache.Cache, enqueue func(client.Object)) *watches {
	tell := func(object any) {
		if gone, isGone := object.(toolscache.DeletedFinalStateUnknown); isGone {
			object = gone.Obj
		}
		if object, isObject := object.(client.Object); isObject {
			enqueue(object)
		}
	}
	return &watches{cache: from, byKind: map[string]cache.Informer{}, handler: toolscache.ResourceEventHandlerFuncs{
		AddFunc: tell, UpdateFunc: func(before, after any) { tell(before); tell(after) }, DeleteFunc: tell, // it may have lost its label
	}}
}

// reader is where to read a part: the cache once it is in step, until then the member itself. Credentials that may not list a kind
// are seen by reading it.
func (w *watches) reader(ctx context.Context, p part, cached, live client.Reader) (client.Reader, error) {
	informer, err := w.informer(ctx, p)
	if err != nil {
		return nil, err
	}
	if informer.HasSynced() {
		return cached, nil
	}
	return live, nil
}

func (w *watches) informer(ctx context.Context, p part) (cache.Informer, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if informer, found := w.byKind[p.kind]; found {
		return informer, nil
	}
	informer, err := w.cache.GetInformer(ctx, p.empty(), cache.BlockUntilSynced(false)) // asks the network nothing
	if err != nil {
		return nil, fmt.Errorf("watch %s: %w", p.kind, err)
	}
	if _, err := informer.AddEventHandler(w.handler); err != nil {
		return nil, fmt.Errorf("watch %s: %w", p.kind, err)
	}
	w.byKind[p.kind] = informer
	ctrl.LoggerFrom(ctx).V(1).Info("Watching from now on", "kind", p.kind)
	return informer, nil
}
