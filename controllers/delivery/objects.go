package delivery

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/delivery/object"
	"github.com/fleetwright/fleetwright/controllers/observation"
)

// objects are the objects of one AppService on one member, with the facts about each.
type objects struct {
	deployment *appsv1.Deployment // nil if there is none
	service    *corev1.Service    // nil if there is none
	facts      map[string]*object.Existing
	rolledOut  func() bool // computed once; nil if they were not read
}

// hasRolledOut reports whether the Deployment belongs to the AppService and is completely available.
func (o objects) hasRolledOut() bool { return o.rolledOut != nil && o.rolledOut() }

// computeRolledOut computes hasRolledOut from the status of the Deployment.
func (o objects) computeRolledOut() bool {
	if !o.isOwned("Deployment") {
		return false
	}
	seen, err := observation.Observation{}.WithDeployment(o.deployment)
	return err == nil && seen.Phase == v1alpha1.ClusterReady
}

// all returns the objects. Optional ones come before the Deployment, which lists them.
func (o objects) all() []object.Existing {
	var all []object.Existing
	for _, k := range optionalKinds {
		if existing := o.facts[k.kind]; existing != nil {
			all = append(all, *existing)
		}
	}
	for _, kind := range []string{"Deployment", "Service"} {
		if existing := o.facts[kind]; existing != nil {
			all = append(all, *existing)
		}
	}
	return all
}

// hasOptional reports whether any optional object is known.
func (o objects) hasOptional() bool {
	return slices.ContainsFunc(optionalKinds, func(k optionalKind) bool { return o.facts[k.kind] != nil })
}

// isOwned reports whether there is an object of the kind that belongs to the AppService.
func (o objects) isOwned(kind string) bool { return o.facts[kind] != nil && o.facts[kind].IsOwned() }

// owned returns the objects that belong to the AppService.
func (o objects) owned() []object.Existing {
	return slices.DeleteFunc(o.all(), func(e object.Existing) bool { return !e.IsOwned() })
}

// placement returns the highest number of a placement that the objects of the AppService were applied
// for; 0 if they have none.
func (o objects) placement() int64 {
	var highest int64
	for _, existing := range o.owned() {
		highest = max(highest, existing.Stamp.Placement)
	}
	return highest
}

// blocker returns why the objects must not be changed for a spec, or nil.
func (o objects) blocker(spec *v1alpha1.AppServiceSpec) *object.Blocker {
	for _, existing := range o.all() {
		if object.KindOf(existing) == "Service" && len(spec.Ports) == 0 && !existing.IsManagedByThisHub() {
			continue // no Service is wanted, so this one blocks nothing
		}
		if blocker := existing.Blocker(spec.ConflictPolicy); blocker != nil {
			return blocker
		}
	}
	return nil
}

// isManaged reports whether a Fleetwright manages the Deployment. Only then it lists optional
// objects.
func (o objects) isManaged() bool {
	return o.deployment != nil && o.deployment.Annotations[v1alpha1.AnnotationHub] != ""
}

// lists reports whether the Deployment lists a kind among those that were created with it.
func (o objects) lists(k optionalKind) bool {
	return o.isManaged() && slices.Contains(strings.Split(o.deployment.Annotations[v1alpha1.AnnotationOwnedKinds], ","), k.kind)
}

// listsAny reports whether the Deployment lists any kind.
func (o objects) listsAny() bool { return slices.ContainsFunc(optionalKinds, o.lists) }

// mayHave reports whether an optional object may exist: the Deployment lists its kind, or the
// Deployment is missing or another one has taken its place.
func (o objects) mayHave(k optionalKind) bool { return !o.isManaged() || o.lists(k) }

// objectReader reads the objects of a member.
type objectReader struct {
	hubID        string
	cached, live client.Reader
	watches      *watches
}

// fromCache returns the objects of an AppService in the member's cache, without optional ones. The
// entry of this member may be nil.
func (r objectReader) fromCache(ctx context.Context, app *v1alpha1.AppService, entry *v1alpha1.ClusterStatus) (objects, error) {
	return r.read(ctx, r.cached, app, entry)
}

// fromMember returns the objects that the member itself has, with optional ones.
func (r objectReader) fromMember(ctx context.Context, app *v1alpha1.AppService, entry *v1alpha1.ClusterStatus) (objects, error) {
	return r.fromMemberWithout(ctx, app, entry, false)
}

// fromMemberWithout returns the objects that the member itself has. If it is known that there are
// no optional ones, it does not look for them unless there is a Deployment.
func (r objectReader) fromMemberWithout(ctx context.Context, app *v1alpha1.AppService, entry *v1alpha1.ClusterStatus, hasNoOptional bool) (objects, error) {
	return r.fromMemberIf(ctx, app, entry, func(found objects, k optionalKind) bool {
		return found.mayHave(k) && (!hasNoOptional || found.deployment != nil)
	})
}

// allFromMember returns the objects that the member itself has. It also looks for optional objects that
// the Deployment does not list, because the Deployment may belong to another owner now.
func (r objectReader) allFromMember(ctx context.Context, app *v1alpha1.AppService, entry *v1alpha1.ClusterStatus) (objects, error) {
	return r.fromMemberIf(ctx, app, entry, func(objects, optionalKind) bool { return true })
}

// fromMemberIf returns the objects that the member itself has, with the optional ones of some kinds.
func (r objectReader) fromMemberIf(ctx context.Context, app *v1alpha1.AppService, entry *v1alpha1.ClusterStatus, looksFor func(objects, optionalKind) bool) (objects, error) {
	found, err := r.read(ctx, r.live, app, entry)
	if err != nil {
		return found, err
	}
	for _, k := range optionalKinds {
		if !looksFor(found, k) {
			continue
		}
		existing, err := r.optional(ctx, r.live, app, entry, k, found.lists(k))
		if err != nil {
			return objects{}, err
		}
		if existing != nil {
			found.facts[k.kind] = existing
		}
	}
	return found, nil
}

func (r objectReader) read(ctx context.Context, from client.Reader, app *v1alpha1.AppService, entry *v1alpha1.ClusterStatus) (objects, error) {
	found := objects{facts: map[string]*object.Existing{}}
	deployment, service := &appsv1.Deployment{}, &corev1.Service{}
	switch err := from.Get(ctx, client.ObjectKeyFromObject(app), deployment); {
	case err == nil:
		object.SanitizeQuantities(&deployment.Spec)
		found.deployment, found.facts["Deployment"] = deployment, r.inspect(app, entry, deployment)
	case !apierrors.IsNotFound(err):
		return objects{}, fmt.Errorf("read Deployment: %w", err)
	}
	switch err := from.Get(ctx, client.ObjectKeyFromObject(app), service); {
	case err == nil:
		found.service, found.facts["Service"] = service, r.inspect(app, entry, service)
	case !apierrors.IsNotFound(err):
		return objects{}, fmt.Errorf("read Service: %w", err)
	}
	found.rolledOut = sync.OnceValue(found.computeRolledOut)
	return found, nil
}

// optional returns the optional object of a kind, or nil. If it must not be read, it was not
// created either, unless the Deployment lists its kind.
func (r objectReader) optional(ctx context.Context, from client.Reader, app *v1alpha1.AppService, entry *v1alpha1.ClusterStatus, k optionalKind, isListed bool) (*object.Existing, error) {
	found := k.empty()
	err := from.Get(ctx, client.ObjectKeyFromObject(app), found)
	if apierrors.IsNotFound(err) || apierrors.IsForbidden(err) && !isListed {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", k.kind, err)
	}
	object.SanitizeQuantities(found)
	return r.inspect(app, entry, found), nil
}

// watched returns the optional object of a kind from the member's cache, or nil. Its watch begins
// with the first call; the member itself is read until the cache is synced.
func (r objectReader) watched(ctx context.Context, app *v1alpha1.AppService, entry *v1alpha1.ClusterStatus, k optionalKind) (*object.Existing, error) {
	from, err := r.watches.reader(ctx, k, r.cached, r.live)
	if err != nil {
		return nil, err
	}
	return r.optional(ctx, from, app, entry, k, true)
}

// isGone reports whether the member itself does not have an object any more.
func (r objectReader) isGone(ctx context.Context, existing object.Existing) (bool, error) {
	found := existing.DeepCopyObject().(client.Object)
	err := r.live.Get(ctx, client.ObjectKeyFromObject(existing), found)
	if client.IgnoreNotFound(err) != nil {
		return false, fmt.Errorf("read %s: %w", object.KindOf(existing), err)
	}
	return err != nil, nil
}

func (r objectReader) inspect(app *v1alpha1.AppService, entry *v1alpha1.ClusterStatus, found client.Object) *object.Existing {
	object.SetKind(found)
	existing := object.Inspect(r.hubID, app, entry, found)
	return &existing
}
