package hub

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// gatherInterval is how long changes of a list are gathered before they are shown together: an edit or
// an outage changes many objects at the same time.
const gatherInterval = 500 * time.Millisecond

// FollowList calls show with all objects that the options select, sorted by namespace and name, at
// first, after changes, and every few seconds. The objects are listed once, and again only if the watch
// ends. show may change the list, but not its
// objects. FollowList ends with the first error of show, or with the context. An error of the first
// listing is returned. Later, a lost connection is established again; lost is called with its error.
func (h Client) FollowList(ctx context.Context, list client.ObjectList, options []client.ListOption, show func(client.ObjectList) error, lost func(error)) error {
	for isFirst := true; ; isFirst = false {
		err := h.List(ctx, list, options...)
		switch {
		case err == nil:
			if err := h.followListed(ctx, list, options, show); err != nil {
				return err
			}
		case isFirst || ctx.Err() != nil:
			return cmp.Or(ctx.Err(), err)
		default:
			lost(err)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(retryInterval):
		}
	}
}

// followListed shows a list, and its changes until the watch ends.
func (h Client) followListed(ctx context.Context, list client.ObjectList, options []client.ListOption, show func(client.ObjectList) error) error {
	objects, err := newObjects(list)
	if err != nil {
		return err
	}
	version := list.GetResourceVersion()
	if err := show(list); err != nil {
		return err
	}
	empty := list.DeepCopyObject().(client.ObjectList)
	changes, err := h.Watch(ctx, empty, append(slices.Clone(options), &client.ListOptions{Raw: &metav1.ListOptions{ResourceVersion: version}})...)
	if err != nil {
		return nil // the list is read again
	}
	defer changes.Stop()
	refresh := time.NewTicker(refreshInterval)
	defer refresh.Stop()
	for gathered := (<-chan time.Time)(nil); ; {
		isOpen := true
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-refresh.C:
		case <-gathered:
			gathered = nil
		case event, hasMore := <-changes.ResultChan():
			if isOpen = hasMore && objects.add(event); !isOpen {
				break // what was gathered is shown now
			}
			if gathered == nil {
				gathered = time.After(gatherInterval)
			}
			continue
		}
		if err := objects.writeTo(list); err != nil {
			return err
		}
		if err := show(list); err != nil || !isOpen {
			return err
		}
	}
}

// objectsByKey are the objects of a list that is followed.
type objectsByKey map[client.ObjectKey]client.Object

func newObjects(list client.ObjectList) (objectsByKey, error) {
	items, err := meta.ExtractListWithAlloc(list) // show may move the items of the list
	if err != nil {
		return nil, err
	}
	all := objectsByKey{}
	for _, item := range items {
		object, isObject := item.(client.Object)
		if !isObject {
			return nil, fmt.Errorf("%T is no object of Kubernetes", item)
		}
		all[client.ObjectKeyFromObject(object)] = object
	}
	return all, nil
}

// add applies an event, and returns false if the watch has failed.
func (all objectsByKey) add(event watch.Event) bool {
	object, isObject := event.Object.(client.Object)
	switch {
	case event.Type == watch.Error || !isObject:
		return false
	case event.Type == watch.Deleted:
		delete(all, client.ObjectKeyFromObject(object))
	case event.Type != watch.Bookmark:
		all[client.ObjectKeyFromObject(object)] = object
	}
	return true
}

// writeTo makes a list have the objects, sorted by namespace and name.
func (all objectsByKey) writeTo(list client.ObjectList) error {
	var items []runtime.Object
	for _, key := range SortedKeys(all) {
		items = append(items, all[key])
	}
	return meta.SetList(list, items)
}
