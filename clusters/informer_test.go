package clusters

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	toolscache "k8s.io/client-go/tools/cache"
)

// handlerCalls records the calls of an event handler.
type handlerCalls struct {
	mu    sync.Mutex
	calls []string
}

func (t *handlerCalls) record(what string, object any) {
	if gone, is := object.(toolscache.DeletedFinalStateUnknown); is {
		object = gone.Obj
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.calls = append(t.calls, what+" "+object.(*corev1.Service).Name)
}

func (t *handlerCalls) OnAdd(o any, _ bool) { t.record("add", o) }
func (t *handlerCalls) OnUpdate(_, o any)   { t.record("update", o) }
func (t *handlerCalls) OnDelete(o any)      { t.record("delete", o) }

func (t *handlerCalls) waitFor(test *testing.T, want ...string) {
	test.Helper()
	for range 200 {
		t.mu.Lock()
		got := slices.Clone(t.calls)
		t.mu.Unlock()
		if slices.Equal(got, want) {
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
	test.Fatalf("the calls are %q, want %q", t.calls, want)
}

func service(name, version string) *corev1.Service {
	return &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, ResourceVersion: version}}
}

func TestInformer_calls_its_handlers_for_every_change(t *testing.T) {
	lists := make(chan []corev1.Service, 2)
	stream := watch.NewFake()
	ctx, cancel := context.WithCancel(t.Context())
	i := newInformer(ctx, &toolscache.ListWatch{
		ListWithContextFunc: func(context.Context, metav1.ListOptions) (runtime.Object, error) {
			return &corev1.ServiceList{ListMeta: metav1.ListMeta{ResourceVersion: "1"}, Items: <-lists}, nil
		},
		WatchFuncWithContext: func(context.Context, metav1.ListOptions) (watch.Interface, error) { return stream, nil },
	}, &corev1.Service{}, toolscache.Indexers{toolscache.NamespaceIndex: toolscache.MetaNamespaceIndexFunc}, &cacheLimit{most: 1 << 30})
	_ = i.SetTransform(toolscache.TransformFunc(func(o any) (any, error) { return o, nil }))
	_ = i.SetWatchErrorHandlerWithContext(toolscache.DefaultWatchErrorHandler)
	first, later := &handlerCalls{}, &handlerCalls{}
	if _, err := i.AddEventHandler(first); err != nil {
		t.Fatal(err)
	}
	lists <- []corev1.Service{*service("a", "1"), *service("b", "1")}
	go i.RunWithContext(context.Background())
	<-i.HasSyncedChecker().Done()
	first.waitFor(t, "add a", "add b") // the handler was added before the first list
	stream.Modify(service("a", "2"))
	stream.Delete(service("a", "3"))
	stream.Add(service("c", "4"))
	first.waitFor(t, "add a", "add b", "update a", "delete a", "add c")
	if _, err := i.AddEventHandler(later); err != nil {
		t.Fatal(err)
	}
	if len(later.calls) != 2 {
		t.Errorf("the handler that was added later was called for %q", later.calls)
	}
	// Objects that are missing from a later list are reported as deleted.
	old := stream
	stream = watch.NewFake()
	lists <- []corev1.Service{*service("c", "4")}
	old.Error(&apierrors.NewResourceExpired("old").ErrStatus)
	first.waitFor(t, "add a", "add b", "update a", "delete a", "add c", "delete b", "update c")
	if keys := fmt.Sprint(i.GetIndexer().ListKeys()); keys != "[shop/c]" {
		t.Errorf("the store has %s", keys)
	}
	cancel()
	for range 200 {
		if i.IsStopped() {
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
	t.Error("the informer still runs after its context has ended")
}
