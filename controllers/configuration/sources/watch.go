package sources

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	apiwatch "k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/tools/cache"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/configuration"
)

// byAppService is an index of snapshots, by the namespace and name of their AppService.
const byAppService = "appservice"

// watch watches the metadata of the labelled objects of one kind, in one namespace or in all. It
// tries again forever: a permission that is missing affects only this kind and these namespaces.
type watch struct {
	kind      v1alpha1.ConfigurationKind
	namespace string // "" is all
	informer  cache.SharedIndexInformer
	// accessChanged is called when the hub begins or ends to forbid list or watch.
	accessChanged func()

	mu sync.Mutex
	// isListForbidden and isWatchForbidden are the results of the last requests.
	isListForbidden, isWatchForbidden bool
	// failure is why the last request failed, apart from a permission. It is nil if it succeeded.
	failure *configuration.Problem
}

func newWatch(reader metadata.Interface, kind v1alpha1.ConfigurationKind, namespace string) (*watch, error) {
	w := &watch{kind: kind, namespace: namespace}
	resource := reader.Resource(resourceOf(kind)).Namespace(namespace)
	w.informer = cache.NewSharedIndexInformer(cache.ToListWatcherWithWatchListSemantics(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			options.LabelSelector = v1alpha1.LabelPropagate
			list, err := resource.List(quietly(ctx), options)
			w.record(err, &w.isListForbidden)
			return list, err
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (apiwatch.Interface, error) {
			options.LabelSelector = v1alpha1.LabelPropagate
			events, err := resource.Watch(quietly(ctx), options)
			if err == nil && options.SendInitialEvents != nil && *options.SendInitialEvents {
				w.record(nil, &w.isWatchForbidden, &w.isListForbidden) // this watch needs no list
				return events, nil
			}
			w.record(err, &w.isWatchForbidden)
			return events, err
		},
	}, reader), &metav1.PartialObjectMetadata{}, 0, cache.Indexers{byAppService: appServicesOf})
	if err := w.informer.SetTransform(strip); err != nil {
		return nil, err
	}
	return w, w.informer.SetWatchErrorHandlerWithContext(func(ctx context.Context, r *cache.Reflector, err error) {
		if !apierrors.IsForbidden(err) { // the AppServices report it
			cache.DefaultWatchErrorHandler(ctx, r, err)
		}
	})
}

// record notes the result of a request: whether the hub has forbidden it, or why it failed.
func (w *watch) record(err error, isForbidden ...*bool) {
	if err != nil && !apierrors.IsForbidden(err) {
		w.fail(err)
		return
	}
	w.mu.Lock()
	w.failure = nil
	before := w.isListForbidden || w.isWatchForbidden
	for _, flag := range isForbidden {
		*flag = err != nil
	}
	after := w.isListForbidden || w.isWatchForbidden
	w.mu.Unlock()
	if before != after {
		ctrl.Log.WithName("sources").Info("The permission to list and watch sources of configuration has changed", "kind", w.kind, "namespace", w.namespace, "forbidden", after)
		w.accessChanged()
	}
}

// fail notes an error that says nothing about permissions. It matters only until the watch is synced:
// then it is what the AppServices wait for.
func (w *watch) fail(err error) {
	w.mu.Lock()
	isFirst := w.failure == nil
	w.failure = failureOf(hideContent(fmt.Sprintf("list the %ss", w.kind), w.kind, err))
	w.mu.Unlock()
	if isFirst && !w.informer.HasSynced() {
		w.accessChanged()
	}
}

// isAnswered reports whether the watch is synced, or the hub has forbidden it. A request that failed is
// no answer: it is repeated.
func (w *watch) isAnswered() bool { return w.informer.HasSynced() || w.isForbidden() }

// lastFailure returns why the last request failed, or nil.
func (w *watch) lastFailure() *configuration.Problem {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.failure
}

// isForbidden reports whether the hub forbids list or watch.
func (w *watch) isForbidden() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.isListForbidden || w.isWatchForbidden
}

// has reports whether a namespace is watched.
func (w *watch) has(namespace string) bool { return w.namespace == "" || w.namespace == namespace }

// get returns a labelled object, or nil.
func (w *watch) get(namespace, name string) *metav1.PartialObjectMetadata {
	found, exists, err := w.informer.GetStore().GetByKey(namespace + "/" + name)
	if err != nil || !exists {
		return nil
	}
	return found.(*metav1.PartialObjectMetadata)
}

// snapshots returns the objects with the label of an AppService and the names of snapshots.
func (w *watch) snapshots(namespace, app string) []configuration.Snapshot {
	found, err := w.informer.GetIndexer().ByIndex(byAppService, namespace+"/"+app)
	if err != nil {
		return nil // the index exists
	}
	all := make([]configuration.Snapshot, 0, len(found))
	for _, object := range found {
		all = append(all, configuration.SnapshotOf(w.kind, object.(*metav1.PartialObjectMetadata)))
	}
	slices.SortFunc(all, func(a, b configuration.Snapshot) int { return strings.Compare(a.Name, b.Name) })
	return all
}

// owners returns the names of the AppServices that have snapshots, each once.
func (w *watch) owners() []types.NamespacedName {
	var owners []types.NamespacedName
	for _, key := range w.informer.GetIndexer().ListIndexFuncValues(byAppService) {
		namespace, name, _ := strings.Cut(key, "/")
		owners = append(owners, types.NamespacedName{Namespace: namespace, Name: name})
	}
	return owners
}

// appServicesOf returns the AppService of a snapshot, for the index.
func appServicesOf(object any) ([]string, error) {
	metadata, isMetadata := object.(*metav1.PartialObjectMetadata)
	if !isMetadata || metadata.Labels[v1alpha1.LabelAppService] == "" || !configuration.IsSnapshot(metadata.Name) {
		return nil, nil
	}
	return []string{metadata.Namespace + "/" + metadata.Labels[v1alpha1.LabelAppService]}, nil
}

// strip removes what is not needed. The annotation last-applied-configuration of kubectl has the
// content.
func strip(object any) (any, error) {
	metadata, isMetadata := object.(*metav1.PartialObjectMetadata)
	if !isMetadata {
		return object, nil
	}
	return &metav1.PartialObjectMetadata{ObjectMeta: *stripped(&metadata.ObjectMeta)}, nil
}

// stripped returns the metadata that are needed.
func stripped(all *metav1.ObjectMeta) *metav1.ObjectMeta {
	needed := &metav1.ObjectMeta{
		Namespace: all.Namespace, Name: all.Name, UID: all.UID, ResourceVersion: all.ResourceVersion,
		CreationTimestamp: all.CreationTimestamp, Labels: all.Labels, OwnerReferences: all.OwnerReferences,
	}
	for _, annotation := range []string{v1alpha1.AnnotationDigest, v1alpha1.AnnotationSource, v1alpha1.AnnotationType, v1alpha1.AnnotationSize, v1alpha1.AnnotationSerial} {
		if value, exists := all.Annotations[annotation]; exists {
			metav1.SetMetaDataAnnotation(needed, annotation, value)
		}
	}
	return needed
}
