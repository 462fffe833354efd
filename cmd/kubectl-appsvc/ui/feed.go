package ui

import (
	"bytes"
	"encoding/json"
	"fmt"
	"sync"
)

// The kinds of objects that the page shows.
const (
	appKind     = "app"
	clusterKind = "cluster"
)

// objectKey identifies what the page shows: an AppService by its namespace and name, or a
// MemberCluster by its name.
type objectKey struct{ kind, namespace, name string }

// String is the key of an object in [Change.Gone].
func (k objectKey) String() string {
	if k.namespace == "" {
		return k.kind + "/" + k.name
	}
	return k.kind + "/" + k.namespace + "/" + k.name
}

// Change is what a page gets: first the whole state, then what changed since the last Change.
type Change struct {
	// Full is true if the change has the whole state.
	Full bool `json:"full,omitempty"`
	// More is true if another part of the change follows. A page shows the parts together.
	More bool `json:"more,omitempty"`
	Hub  Hub  `json:"hub"`
	// Clusters and Apps have elements of type [Cluster] and [App].
	Clusters []json.RawMessage `json:"clusters,omitempty"`
	Apps     []json.RawMessage `json:"apps,omitempty"`
	// Gone are the keys of objects that do not exist any more.
	Gone []string `json:"gone,omitempty"`
}

// split returns the parts of a change, each with at most this many bytes of objects, or with one object.
// A browser does nothing else while it parses an event, so the state of a large fleet must not be one
// event.
func (c Change) split(limit int) []Change {
	rest := c
	c.Clusters, c.Apps, c.Gone = nil, nil, nil
	part, size := c, 0
	part.Gone = rest.Gone
	var parts []Change
	add := func(to func(*Change) *[]json.RawMessage, objects []json.RawMessage) {
		for _, object := range objects {
			if size > 0 && size+len(object) > limit {
				part.More = true
				parts = append(parts, part)
				part, size = c, 0
				part.Full = false
			}
			list := to(&part)
			*list = append(*list, object)
			size += len(object)
		}
	}
	add(func(to *Change) *[]json.RawMessage { return &to.Clusters }, rest.Clusters)
	add(func(to *Change) *[]json.RawMessage { return &to.Apps }, rest.Apps)
	return append(parts, part)
}

// feed has the latest state of each object as the page shows it, with the version in which it
// changed. A reader asks for what changed since a version. So a slow reader needs no queue, and
// changes of an object between two questions cost nothing.
type feed struct {
	// render returns what the page shows of an object, or false if the object does not exist.
	render func(objectKey) (any, bool)

	mu      sync.Mutex
	version uint64
	shown   map[objectKey]shownObject
	dirty   map[objectKey]struct{}
	news    chan struct{} // closed by the next touch
}

// shownObject is the state of an object. It has no data if the object does not exist any more.
type shownObject struct {
	version uint64
	data    json.RawMessage
}

func newFeed(render func(objectKey) (any, bool)) *feed {
	return &feed{render: render, shown: map[objectKey]shownObject{}, dirty: map[objectKey]struct{}{}, news: make(chan struct{})}
}

// touch notes that objects may have changed, and wakes the readers. Without keys, it only wakes
// them.
func (f *feed) touch(keys ...objectKey) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, key := range keys {
		f.dirty[key] = struct{}{}
	}
	close(f.news)
	f.news = make(chan struct{})
}

// since returns what changed since a version, the version that this is, and a channel that is
// closed when there may be more. Since version 0, it is everything.
func (f *feed) since(seen uint64) (Change, uint64, <-chan struct{}, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.refresh(); err != nil {
		return Change{}, 0, nil, err
	}
	change := Change{Full: seen == 0}
	for key, object := range f.shown {
		switch {
		case object.version <= seen:
		case object.data == nil && !change.Full:
			change.Gone = append(change.Gone, key.String())
		case object.data == nil:
		case key.kind == clusterKind:
			change.Clusters = append(change.Clusters, object.data)
		default:
			change.Apps = append(change.Apps, object.data)
		}
	}
	return change, f.version, f.news, nil
}

// refresh renders the objects that may have changed. The caller holds the lock.
func (f *feed) refresh() error {
	f.version = max(f.version, 1)
	next := f.version + 1
	for key := range f.dirty {
		var data json.RawMessage
		if object, exists := f.render(key); exists {
			var err error
			if data, err = json.Marshal(object); err != nil {
				return fmt.Errorf("encode %s: %w", key, err)
			}
		}
		if !bytes.Equal(data, f.shown[key].data) {
			f.shown[key] = shownObject{version: next, data: data}
			f.version = next
		}
	}
	clear(f.dirty)
	return nil
}
