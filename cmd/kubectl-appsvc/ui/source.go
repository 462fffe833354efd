package ui

import (
	"context"
	"errors"
	"fmt"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	hubclient "github.com/fleetwright/fleetwright/cmd/kubectl-appsvc/hub"
)

// source is the informer of one kind, and why it cannot be listed or watched, if so.
type source struct {
	resource string
	informer cache.SharedIndexInformer

	mu      sync.Mutex
	problem error
	// changed is called when the problem begins, changes or ends.
	changed func()
}

// newSource returns a source that is not started. The namespace is empty for all namespaces.
func newSource(client rest.Interface, resource, namespace string, example runtime.Object, changed func()) (*source, error) {
	s := &source{resource: resource, changed: changed}
	base := cache.NewListWatchFromClient(client, resource, namespace, fields.Everything())
	s.informer = cache.NewSharedIndexInformer(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			list, err := base.ListWithContext(ctx, options)
			s.note(err)
			return list, err
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			watcher, err := base.WatchWithContext(ctx, options)
			s.note(err)
			return watcher, err
		},
	}, example, 0, cache.Indexers{})
	if err := s.informer.SetTransform(withoutManagedFields); err != nil {
		return nil, err
	}
	// The default handler would write each failure to the terminal. The page shows the latest one.
	err := s.informer.SetWatchErrorHandlerWithContext(func(context.Context, *cache.Reflector, error) {})
	return s, err
}

// note remembers the result of a request. An expired resource version is no problem: the informer
// lists again.
func (s *source) note(err error) {
	if apierrors.IsResourceExpired(err) || apierrors.IsGone(err) || errors.Is(err, context.Canceled) {
		return
	}
	s.mu.Lock()
	isNew := (err == nil) != (s.problem == nil) || err != nil && err.Error() != s.problem.Error()
	s.problem = err
	s.mu.Unlock()
	if isNew {
		s.changed()
	}
}

// state returns what the page shows of the source.
func (s *source) state() Kind {
	s.mu.Lock()
	defer s.mu.Unlock()
	kind := Kind{Resource: s.resource, Synced: s.informer.HasSynced()}
	if s.problem != nil {
		kind.Problem = describeProblem(s.resource, s.problem)
	}
	return kind
}

// describeProblem returns why a request for a resource failed, and what to do.
func describeProblem(resource string, err error) string {
	switch {
	case apierrors.IsForbidden(err):
		way := hubclient.MembersRole
		if resource == "appservices" {
			way += ", or show a namespace that you may read with --namespace"
		}
		return fmt.Sprintf("you may not read %s: %s (%v)", resource, way, err)
	case apierrors.IsUnauthorized(err):
		return fmt.Sprintf("the hub refuses your credentials: log in again, then restart kubectl appsvc ui (%v)", err)
	case apierrors.IsNotFound(err):
		return fmt.Sprintf("the hub has no %s: check the context, or install the CRDs of Fleetwright (%v)", resource, err)
	default:
		return fmt.Sprintf("%s cannot be read: %v", resource, err)
	}
}

// withoutManagedFields drops what the page never shows.
func withoutManagedFields(object any) (any, error) {
	if accessor, err := meta.Accessor(object); err == nil {
		accessor.SetManagedFields(nil)
	}
	return object, nil
}
