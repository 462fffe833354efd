package informer_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fleetwright/fleetwright/clusters/informer"
	"github.com/fleetwright/fleetwright/internal/servertest"
	"github.com/fleetwright/fleetwright/internal/wait"
)

// TestConformance runs the same script with client-go's informer and with this package's informer,
// on a real API server. The handlers receive the same events, and the methods return the same
// results.
func TestConformance(t *testing.T) {
	t.Parallel()
	scripts := map[string]*script{}
	for name, create := range informers {
		t.Run(name, func(t *testing.T) {
			s := newScript(t, "conformance-"+name, create)
			s.run()
			scripts[name] = s
		})
	}
	if t.Failed() {
		return
	}
	for _, own := range []string{"fleetwright", "direct"} {
		if diff := cmp.Diff(scripts["client-go"].transcript, scripts[own].transcript); diff != "" {
			t.Errorf("(-client-go +%s)\n%s", own, diff)
		}
		if diff := cmp.Diff(scripts["client-go"].events, scripts[own].events); diff != "" {
			t.Errorf("events (-client-go +%s)\n%s", own, diff)
		}
		for name, count := range map[string]int{"early": 16, "removed": 7, "late": 13} { // a script without events would prove nothing
			if events := scripts[own].events[name]; len(events) != count {
				t.Errorf("%s: handler %s: %d events, want %d:\n%s", own, name, len(events), count, strings.Join(events, "\n"))
			}
		}
	}
}

// newInformer creates an informer for ConfigMaps.
type newInformer func(context.Context, *toolscache.ListWatch, toolscache.Indexers) toolscache.SharedIndexInformer

var informers = map[string]newInformer{
	"client-go": func(_ context.Context, lw *toolscache.ListWatch, indexers toolscache.Indexers) toolscache.SharedIndexInformer {
		return toolscache.NewSharedIndexInformer(toolscache.ToListWatcherWithWatchListSemantics(lw, noStreamingLists{}), &corev1.ConfigMap{}, 0, indexers)
	},
	"fleetwright": func(ctx context.Context, lw *toolscache.ListWatch, indexers toolscache.Indexers) toolscache.SharedIndexInformer {
		return informer.New(ctx, informer.Options{ListerWatcher: lw, Object: &corev1.ConfigMap{}, Indexers: indexers})
	},
	"direct": func(ctx context.Context, lw *toolscache.ListWatch, indexers toolscache.Indexers) toolscache.SharedIndexInformer {
		return informer.New(ctx, informer.Options{ListerWatcher: lw, Object: &corev1.ConfigMap{}, Indexers: indexers, DirectHandlers: true})
	},
}

// The tests share an API server. Each test has its own namespace.
var (
	environment = servertest.New()
	server      client.WithWatch
)

func TestMain(m *testing.M) {
	os.Exit(servertest.Run(m.Run, func() (err error) {
		server, err = client.NewWithWatch(environment.Config, client.Options{})
		return err
	}, environment))
}

// script changes ConfigMaps in one namespace, and records the events and results of an informer.
type script struct {
	t         *testing.T
	server    client.WithWatch
	namespace string
	source    *source
	informer  toolscache.SharedIndexInformer
	markers   int

	transcript []string
	events     map[string][]string // by handler
}

func newScript(t *testing.T, namespace string, create newInformer) *script {
	t.Helper()
	if err := server.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}); err != nil {
		t.Fatal(err)
	}
	s := &script{
		t: t, server: server, namespace: namespace, source: &source{server: server, namespace: namespace}, events: map[string][]string{},
	}
	s.informer = create(t.Context(), s.source.listWatch(), toolscache.Indexers{"first letter": func(object any) ([]string, error) {
		return []string{object.(*corev1.ConfigMap).Name[:1]}, nil
	}})
	return s
}

// run runs the script.
func (s *script) run() {
	ctx, cancel := context.WithCancel(s.t.Context())
	defer cancel()
	watchErrors := &eventLog{}
	s.recordErrors("configure", s.informer.SetTransform(func(object any) (any, error) {
		object.(*corev1.ConfigMap).Data["transformed"] = "yes"
		return object, nil
	}), s.informer.SetWatchErrorHandlerWithContext(func(_ context.Context, r *toolscache.Reflector, err error) {
		watchErrors.add("%s: %v", r.TypeDescription(), err)
	}))
	early, removed, late := &eventLog{}, &eventLog{}, &eventLog{}
	first := s.addHandler("early", early)
	second := s.addHandler("removed", removed)
	s.recordState("before the start", first, second)
	s.record("the controller runs the informer", s.controllerRuns())

	s.create("a", "1")
	s.create("b", "1")
	s.source.failLists(1)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		s.informer.RunWithContext(ctx)
	}()
	s.waitFor("the first list to be handled", func() bool { return isDone(s.informer.HasSyncedChecker()) && isDone(first.HasSyncedChecker()) })
	s.createMarker(early, removed)
	s.record("watch errors", watchErrors.lines())
	s.recordState("after the first list", first, second)
	s.recordErrors("configure after the start", s.informer.SetTransform(nil), s.informer.SetWatchErrorHandler(func(*toolscache.Reflector, error) {}))

	s.create("c", "1")
	s.update("a", "2")
	s.delete("b")
	s.createMarker(early, removed)
	third := s.addHandler("late", late)
	s.waitFor("the late handler to be in sync", third.HasSynced)
	s.recordErrors("remove", s.informer.RemoveEventHandler(second), s.informer.RemoveEventHandler(second), s.informer.RemoveEventHandler(s.informer.GetController()))
	s.recordErrors("add an index", s.informer.AddIndexers(toolscache.Indexers{"value": func(object any) ([]string, error) {
		return []string{object.(*corev1.ConfigMap).Data["value"]}, nil
	}}), s.informer.AddIndexers(toolscache.Indexers{"value": toolscache.MetaNamespaceIndexFunc}))
	s.update("a", "3")
	s.createMarker(early, late)

	resume := s.source.interrupt()
	s.create("d", "1")
	s.update("a", "4")
	s.delete("c")
	s.create("e", "1") // no watch sees e
	s.delete("e")
	close(resume)
	s.createMarker(early, late)
	s.recordState("after an interruption", first, third)

	cancel()
	<-ended
	s.recordState("after the end", first)
	_, err := s.informer.AddEventHandler(&eventLog{})
	s.recordErrors("after the end", err, s.informer.AddIndexers(toolscache.Indexers{}), s.informer.RemoveEventHandler(first))
	for name, handler := range map[string]*eventLog{"early": early, "removed": removed, "late": late} {
		s.events[name] = sortInitial(handler.lines())
	}
}

// controllerRuns reports whether the controller of the informer runs it.
func (s *script) controllerRuns() bool {
	ctx, cancel := context.WithCancel(s.t.Context())
	cancel()
	s.informer.GetController().RunWithContext(ctx)
	s.informer.GetController().Run(ctx.Done())
	return s.informer.IsStopped()
}

// addHandler adds a handler to the informer.
func (s *script) addHandler(name string, h toolscache.ResourceEventHandler) toolscache.ResourceEventHandlerRegistration {
	s.t.Helper()
	registration, err := s.informer.AddEventHandler(h)
	s.recordErrors("add handler "+name, err)
	return registration
}

// recordState records what the methods of the informer and of its handlers return.
func (s *script) recordState(when string, handlers ...toolscache.ResourceEventHandlerRegistration) {
	s.t.Helper()
	inSync := []bool{s.informer.HasSynced(), isDone(s.informer.HasSyncedChecker()), s.informer.GetController().HasSynced()}
	for _, h := range handlers {
		inSync = append(inSync, h.HasSynced(), isDone(h.HasSyncedChecker()))
	}
	version := s.informer.LastSyncResourceVersion()
	s.record(when+": in sync", inSync)
	s.record(when+": stopped", s.informer.IsStopped())
	s.record(when+": has a resource version", version != "" && version == s.informer.GetController().LastSyncResourceVersion())
	keys := s.informer.GetStore().ListKeys()
	slices.Sort(keys)
	s.record(when+": keys", strings.ReplaceAll(fmt.Sprint(keys), s.namespace, "ns"))
	for _, index := range [][2]string{{"first letter", "a"}, {"value", "4"}} {
		found, err := s.informer.GetIndexer().IndexKeys(index[0], index[1])
		s.record(when+": by "+index[0], strings.ReplaceAll(fmt.Sprint(found), s.namespace, "ns"))
		s.recordErrors(when+": by "+index[0], err)
	}
}

// recordErrors records which of the results are errors. The texts of the errors may differ.
func (s *script) recordErrors(what string, results ...error) {
	failed := make([]bool, len(results))
	for i, err := range results {
		failed[i] = err != nil
	}
	s.record(what+": fails", failed)
}

func (s *script) record(what string, value any) {
	s.transcript = append(s.transcript, fmt.Sprintf("%s: %v", what, value))
}

// createMarker creates a ConfigMap and waits until the handlers have received it. Events are
// delivered in order, so the handlers have then received all earlier events.
func (s *script) createMarker(handlers ...*eventLog) {
	s.t.Helper()
	s.markers++
	name := fmt.Sprintf("marker-%d", s.markers)
	s.create(name, "1")
	for _, h := range handlers {
		s.waitFor("an event of "+name, func() bool { return strings.Contains(fmt.Sprint(h.lines()), name+" ") })
	}
}

func (s *script) waitFor(what string, done func() bool) {
	s.t.Helper()
	wait.Eventually(s.t, func() error {
		if !done() {
			return errors.New("waiting for " + what)
		}
		return nil
	})
}

func (s *script) configMap(name, value string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: name}, Data: map[string]string{"value": value}}
}

func (s *script) create(name, value string) {
	s.t.Helper()
	s.must(s.server.Create(s.t.Context(), s.configMap(name, value)))
}

func (s *script) update(name, value string) {
	s.t.Helper()
	s.must(s.server.Update(s.t.Context(), s.configMap(name, value)))
}

func (s *script) delete(name string) {
	s.t.Helper()
	s.must(s.server.Delete(s.t.Context(), s.configMap(name, "")))
}

func (s *script) must(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

func isDone(checker toolscache.DoneChecker) bool {
	select {
	case <-checker.Done():
		return true
	default:
		return false
	}
}

// eventLog is a handler that records its calls.
type eventLog struct {
	mu      sync.Mutex
	entries []string
}

func (l *eventLog) add(format string, values ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.entries = append(l.entries, fmt.Sprintf(format, values...))
}

func (l *eventLog) lines() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.entries)
}

func (l *eventLog) OnAdd(object any, initial bool) {
	l.add("add %s (initial %t)", describe(object), initial)
}

func (l *eventLog) OnUpdate(before, after any) {
	l.add("update %s to %s", describe(before), describe(after))
}

func (l *eventLog) OnDelete(object any) { l.add("delete %s", describe(object)) }

// sortInitial sorts the initial events and returns all events. A handler that is added late
// receives its initial events in the order of a map.
func sortInitial(events []string) []string {
	count := slices.IndexFunc(events, func(e string) bool { return !strings.Contains(e, "(initial true)") })
	if count >= 0 {
		slices.Sort(events[:count])
	}
	return events
}

// describe returns the name of a ConfigMap, its value, and whether it was transformed.
func describe(object any) string {
	if tombstone, ok := object.(toolscache.DeletedFinalStateUnknown); ok {
		return "last known state of " + describe(tombstone.Obj)
	}
	c := object.(*corev1.ConfigMap)
	return fmt.Sprintf("%s = %s, transformed: %s", c.Name, c.Data["value"], c.Data["transformed"])
}

// source lists and watches the ConfigMaps of a namespace, and injects faults.
type source struct {
	server    client.WithWatch
	namespace string

	mu       sync.Mutex
	failures int           // the number of next lists that fail
	blocked  chan struct{} // lists wait until it is closed
	watch    *watch.RaceFreeFakeWatcher
}

func (s *source) listWatch() *toolscache.ListWatch {
	return &toolscache.ListWatch{ListWithContextFunc: s.list, WatchFuncWithContext: s.startWatch}
}

// noStreamingLists makes client-go's informer list and then watch, as this package's informer does.
type noStreamingLists struct{}

func (noStreamingLists) IsWatchListSemanticsUnSupported() bool { return true }

// failLists makes the next lists fail.
func (s *source) failLists(count int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failures = count
}

func (s *source) list(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
	s.mu.Lock()
	fails, blocked := s.failures > 0, s.blocked
	if fails {
		s.failures--
	}
	s.mu.Unlock()
	if fails {
		return nil, errors.New("injected failure")
	}
	if blocked != nil {
		<-blocked
	}
	list := &corev1.ConfigMapList{}
	err := s.server.List(ctx, list, client.InNamespace(s.namespace), &client.ListOptions{Raw: &options})
	return list, err
}

// startWatch starts a watch. Its events pass through a fake watch that interrupt can end.
func (s *source) startWatch(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
	if options.SendInitialEvents != nil {
		return nil, errors.New("a streaming list is requested")
	}
	upstream, err := s.server.Watch(ctx, &corev1.ConfigMapList{}, client.InNamespace(s.namespace), &client.ListOptions{Raw: &options})
	if err != nil {
		return nil, err
	}
	fake := watch.NewRaceFreeFake()
	s.mu.Lock()
	s.watch = fake
	s.mu.Unlock()
	go func() {
		for event := range upstream.ResultChan() {
			fake.Action(event.Type, event.Object)
		}
		fake.Stop()
	}()
	return &forwardedWatch{fake, upstream}, nil
}

// forwardedWatch is a watch whose events come from an upstream watch.
type forwardedWatch struct {
	watch.Interface
	upstream watch.Interface
}

// Stop stops both watches.
func (w *forwardedWatch) Stop() {
	w.upstream.Stop()
	w.Interface.Stop()
}

// interrupt ends the watch because its resource version has expired, and blocks lists until the
// returned channel is closed.
func (s *source) interrupt() chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.blocked = make(chan struct{})
	s.watch.Error(&apierrors.NewResourceExpired("too old").ErrStatus)
	return s.blocked
}
