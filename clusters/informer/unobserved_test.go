package informer_test

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fleetwright/fleetwright/internal/servertest"
)

// TestUnobserved_changes lets ConfigMaps change while no watch runs, in every order of up to three
// changes. The next list hides them. This package's informer and client-go's run side by side, each with
// its own connection: their handlers receive the same events, which are a consistent history of each
// ConfigMap, and their stores have what the API server has.
func TestUnobserved_changes(t *testing.T) {
	t.Parallel()
	const namespace = "unobserved"
	s := &script{t: t, server: server, namespace: namespace}
	s.must(server.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}))
	histories, stores, cuts := map[string]*history{}, map[string]toolscache.Store{}, []*servertest.Cut{}
	for name, create := range informers {
		cut := &servertest.Cut{Resource: "configmaps"}
		config := rest.CopyConfig(environment.Config)
		config.Wrap(cut.Wrap)
		watched, err := client.NewWithWatch(config, client.Options{})
		s.must(err)
		i := create(t.Context(), (&source{server: watched, namespace: namespace}).listWatch(), toolscache.Indexers{})
		histories[name], stores[name], cuts = newHistory(t), i.GetStore(), append(cuts, cut)
		_, err = i.AddEventHandler(histories[name])
		s.must(err)
		go i.RunWithContext(t.Context())
	}
	seen := func(what string) {
		s.t.Helper()
		s.create(what, "1")
		for _, h := range histories {
			s.waitFor("an event of "+what, func() bool { return h.of(what) != "" })
		}
	}

	all := allChanges()
	for name := range all {
		if strings.HasPrefix(name, "present") {
			s.create(name, "before")
		}
	}
	seen("z-1") // sorted last in a list
	for _, h := range histories {
		h.forget()
	}
	for _, c := range cuts {
		c.Begin()
	}
	want := map[string]string{}
	for name, changes := range all {
		want[name] = s.change(name, changes)
	}
	for _, c := range cuts {
		c.End()
	}
	seen("z-2")

	for informer, h := range histories {
		for name := range all {
			if got := h.of(name); got != want[name] {
				t.Errorf("%s: handlers received for %s\n%s\nwant\n%s", informer, name, got, want[name])
			}
		}
		if diff := cmp.Diff(s.stored(), versions(stores[informer].List())); diff != "" {
			t.Errorf("%s: the store (-API server +store)\n%s", informer, diff)
		}
	}
	if diff := cmp.Diff(histories["client-go"].events, histories["fleetwright"].events); diff != "" {
		t.Errorf("events (-client-go +fleetwright)\n%s", diff)
	}
}

// allChanges returns each possible order of up to three changes of an object that is present or absent,
// by the name of a ConfigMap.
func allChanges() map[string][]string {
	all := map[string][]string{}
	var extend func(name string, isPresent bool, changes []string)
	extend = func(name string, isPresent bool, changes []string) {
		all[name] = changes
		if len(changes) == 3 {
			return
		}
		possible := []string{"create"}
		if isPresent {
			possible = []string{"update", "delete"}
		}
		for _, change := range possible {
			extend(name+"-"+change, change != "delete", append(slices.Clone(changes), change))
		}
	}
	extend("present", true, nil)
	extend("absent", false, nil)
	return all
}

// change changes a ConfigMap, and returns the event that a handler receives for all changes together: it
// shows the state before them and the state after them, or the last known state if there is none.
func (s *script) change(name string, changes []string) string {
	s.t.Helper()
	before := s.version(name)
	for i, change := range changes {
		switch change {
		case "create":
			s.create(name, fmt.Sprint(i))
		case "update":
			s.update(name, fmt.Sprint(i))
		case "delete":
			s.delete(name)
		}
	}
	after := s.version(name)
	switch {
	case before == "" && after == "":
		return ""
	case before == "":
		return "add " + after
	case after == "":
		return "delete last known state of " + before
	}
	return "update " + before + " to " + after // also if nothing has changed, or the UID
}

// version returns the UID and the resource version of a ConfigMap, or "".
func (s *script) version(name string) string {
	s.t.Helper()
	object := s.configMap(name, "")
	if err := s.server.Get(s.t.Context(), client.ObjectKeyFromObject(object), object); err != nil {
		s.must(client.IgnoreNotFound(err))
		return ""
	}
	return versionOf(object)
}

func versionOf(object any) string {
	c := object.(*corev1.ConfigMap)
	return fmt.Sprintf("%s at %s", c.UID, c.ResourceVersion)
}

// stored returns the versions of all ConfigMaps on the API server.
func (s *script) stored() map[string]string {
	s.t.Helper()
	var list corev1.ConfigMapList
	s.must(s.server.List(s.t.Context(), &list, client.InNamespace(s.namespace)))
	all := make([]any, len(list.Items))
	for i := range list.Items {
		all[i] = &list.Items[i]
	}
	return versions(all)
}

func versions(objects []any) map[string]string {
	all := map[string]string{}
	for _, object := range objects {
		all[object.(*corev1.ConfigMap).Name] = versionOf(object)
	}
	return all
}

// history is a handler that records the events of each ConfigMap. It fails the test if an event does not
// follow from the one before it.
type history struct {
	*testing.T

	mu     sync.Mutex
	known  map[string]string // the version that the handler knows, by name
	events map[string][]string
}

func newHistory(t *testing.T) *history {
	return &history{T: t, known: map[string]string{}, events: map[string][]string{}}
}

// note records an event by which a known version becomes another one.
func (h *history) note(name, event, before, after string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if known := h.known[name]; known != before {
		h.Errorf("event %q of %s, which the handler knows as %q", event, name, known)
	}
	h.known[name] = after
	h.events[name] = append(h.events[name], event)
}

// OnAdd is called for a ConfigMap that the handler does not know.
func (h *history) OnAdd(object any, _ bool) {
	h.note(object.(*corev1.ConfigMap).Name, "add "+versionOf(object), "", versionOf(object))
}

// OnUpdate is called for a ConfigMap that has changed, or was listed again.
func (h *history) OnUpdate(before, after any) {
	h.note(after.(*corev1.ConfigMap).Name, "update "+versionOf(before)+" to "+versionOf(after), versionOf(before), versionOf(after))
}

// OnDelete is called for a ConfigMap that no longer exists. No watch sees a deletion in this test.
func (h *history) OnDelete(object any) {
	tombstone, ok := object.(toolscache.DeletedFinalStateUnknown)
	if !ok {
		h.Errorf("a watch has seen a deletion: %v", object)
		return
	}
	last := tombstone.Obj.(*corev1.ConfigMap)
	h.note(last.Name, "delete last known state of "+versionOf(last), versionOf(last), "")
}

// of returns the events of a ConfigMap.
func (h *history) of(name string) string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return strings.Join(h.events[name], "\n")
}

// forget drops the events so far.
func (h *history) forget() {
	h.mu.Lock()
	defer h.mu.Unlock()
	clear(h.events)
}
