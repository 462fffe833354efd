package main

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/watch"
	watchtools "k8s.io/client-go/tools/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
)

// observer watches the hub and the members by itself, for every writer in the same way. It knows
// the time at which each change was visible.
type observer struct {
	mu           sync.Mutex
	err          error // of a watch
	failed       chan struct{}
	present      map[objectKey]client.Object
	lastChange   map[string]time.Time // by cluster
	expectations map[*expectation]bool
	// onDeployment is called for each change of a member's Deployment.
	onDeployment func(cluster string, deployment *appsv1.Deployment)
}

// objectKey identifies an object by its cluster, kind and name. All have one namespace, or none.
type objectKey struct{ cluster, kind, name string }

// change is a change that was seen.
type change struct {
	objectKey
	object client.Object
	gone   bool
}

func newObserver() *observer {
	return &observer{
		failed:       make(chan struct{}),
		present:      map[objectKey]client.Object{},
		lastChange:   map[string]time.Time{},
		expectations: map[*expectation]bool{},
		onDeployment: func(string, *appsv1.Deployment) {},
	}
}

// observe watches the servers until the context ends.
func (o *observer) observe(ctx context.Context, s *servers) error {
	for _, list := range []client.ObjectList{&v1alpha1.AppServiceList{}, &v1alpha1.MemberClusterList{}} {
		if err := o.watch(ctx, s.hub, list); err != nil {
			return err
		}
	}
	for _, member := range s.members {
		for _, list := range []client.ObjectList{&appsv1.DeploymentList{}, &corev1.ServiceList{}} {
			if err := o.watch(ctx, member, list); err != nil {
				return err
			}
		}
	}
	return nil
}

// watch starts a watch of the objects with the operator's label on a member, or of all objects of a
// kind on the hub. There are none yet.
func (o *observer) watch(ctx context.Context, on *server, list client.ObjectList) error {
	selector := client.MatchingLabels{}
	if !isHub(on.name) {
		selector[v1alpha1.LabelManagedBy] = v1alpha1.ManagedBy
	}
	if err := on.api.List(ctx, list, selector); err != nil {
		return fmt.Errorf("list on %s: %w", on.name, err)
	}
	watcher, err := watchtools.NewRetryWatcherWithContext(ctx, list.GetResourceVersion(), watchFunc(func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
		return on.api.Watch(ctx, list, selector, &client.ListOptions{Raw: &options})
	}))
	if err != nil {
		return fmt.Errorf("watch %s: %w", on.name, err)
	}
	go func() {
		for event := range watcher.ResultChan() {
			o.see(on.name, event)
		}
		if ctx.Err() == nil {
			o.fail(fmt.Errorf("the watch of %T on %s ended", list, on.name))
		}
	}()
	return nil
}

type watchFunc func(context.Context, metav1.ListOptions) (watch.Interface, error)

// WatchWithContext is part of [cache.WatcherWithContext].
func (f watchFunc) WatchWithContext(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
	return f(ctx, options)
}

func (o *observer) fail(err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.err == nil {
		o.err = err
		close(o.failed)
	}
}

func (o *observer) see(cluster string, event watch.Event) {
	now := time.Now()
	object, isObject := event.Object.(client.Object)
	if event.Type == watch.Error || !isObject {
		o.fail(fmt.Errorf("a watch of %s: %v", cluster, event.Object))
		return
	}
	c := change{objectKey{cluster, kindOf(object), object.GetName()}, object, event.Type == watch.Deleted}
	o.mu.Lock()
	o.lastChange[cluster] = now
	if c.gone {
		delete(o.present, c.objectKey)
	} else {
		o.present[c.objectKey] = object
	}
	for e := range o.expectations {
		if e.see(c, now) {
			delete(o.expectations, e)
		}
	}
	o.mu.Unlock()
	if deployment, ok := object.(*appsv1.Deployment); ok && !c.gone {
		o.onDeployment(cluster, deployment)
	}
}

// kindOf returns the kind in the key of an object: different for the templates on a peer's hub, which
// are unstructured, and for the same objects on a member.
func kindOf(object client.Object) string {
	if u, ok := object.(*unstructured.Unstructured); ok {
		return "template of " + u.GetKind()
	}
	return fmt.Sprintf("%T", object)
}

// deployments returns the Deployments of all members, by cluster.
func (o *observer) deployments() map[string][]*appsv1.Deployment {
	o.mu.Lock()
	defer o.mu.Unlock()
	all := map[string][]*appsv1.Deployment{}
	for key, object := range o.present {
		if deployment, ok := object.(*appsv1.Deployment); ok {
			all[key.cluster] = append(all[key.cluster], deployment)
		}
	}
	return all
}

// describe returns what writers set on the Deployment and the Service of an AppService on a member,
// without what is different for every AppService.
func (o *observer) describe(cluster, name string) (delivery, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	deployment, hasDeployment := o.present[objectKey{cluster, "*v1.Deployment", name}].(*appsv1.Deployment)
	service, hasService := o.present[objectKey{cluster, "*v1.Service", name}].(*corev1.Service)
	if !hasDeployment || !hasService {
		return delivery{}, fmt.Errorf("%s lacks the objects of %s", cluster, name)
	}
	spec := service.Spec.DeepCopy()
	spec.ClusterIP, spec.ClusterIPs = "", nil
	specs, err := json.Marshal([]any{deployment.Spec, spec})
	if err != nil {
		return delivery{}, err
	}
	metadata, err := json.Marshal([]any{
		deployment.Labels, slices.Sorted(maps.Keys(deployment.Annotations)), service.Labels, slices.Sorted(maps.Keys(service.Annotations)),
	})
	return delivery{specs: string(specs), all: string(metadata) + string(specs)}, err
}
