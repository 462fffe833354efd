package hub

import (
	"context"
	"errors"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
)

const (
	// refreshInterval is how often the state is shown again without a change, because ages in it and
	// the Lease of the operator change.
	refreshInterval = 5 * time.Second
	// retryInterval is the time between two attempts to watch.
	retryInterval = time.Second
)

// Follow calls show with an AppService and its entries, at first and after each change, until show
// returns true or an error, or the context ends. A lost connection is established again; lost is
// called with its error.
func (h Client) Follow(ctx context.Context, name string, show func(AppState) (bool, error), lost func(error)) error {
	current, err := h.ReadState(ctx, name)
	if err != nil {
		return err
	}
	for {
		if err == nil {
			var isDone bool
			if isDone, err = h.followFrom(ctx, current, show); isDone || err != nil {
				return err
			}
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(retryInterval):
		}
		if current, err = h.ReadState(ctx, name); errors.As(err, new(NotFoundError)) {
			return errDeleted(name)
		} else if err != nil && ctx.Err() == nil {
			lost(err)
		}
	}
}

func errDeleted(name string) error { return fmt.Errorf("AppService %s is deleted", name) }

// followFrom shows an AppService, and its changes until the watch ends.
func (h Client) followFrom(ctx context.Context, current AppState, show func(AppState) (bool, error)) (bool, error) {
	if isDone, err := show(current); isDone || err != nil {
		return isDone, err
	}
	app := current.App
	changes, err := h.Watch(ctx, &v1alpha1.AppServiceList{}, client.InNamespace(app.Namespace),
		client.MatchingFieldsSelector{Selector: fields.OneTermEqualSelector("metadata.name", app.Name)},
		&client.ListOptions{Raw: &metav1.ListOptions{ResourceVersion: app.ResourceVersion}})
	if err != nil {
		return false, nil // follow tries again
	}
	defer changes.Stop()
	refresh := time.NewTicker(refreshInterval)
	defer refresh.Stop()
	for {
		select {
		case <-ctx.Done():
			return false, ctx.Err()
		case <-refresh.C:
		case event, isOpen := <-changes.ResultChan():
			switch {
			case !isOpen || event.Type == watch.Error:
				return false, nil
			case event.Type == watch.Deleted:
				return false, errDeleted(app.Name)
			}
		}
		// The entries may be in slices, which have no watch here: they are read again.
		dropPending(changes)
		if current, err = h.ReadState(ctx, app.Name); err != nil {
			return false, nil // follow reads it again
		}
		if isDone, err := show(current); isDone || err != nil {
			return isDone, err
		}
	}
}

// dropPending drops the changes that have arrived, because the AppService is read again anyway. A deletion
// shows in that read.
func dropPending(changes watch.Interface) {
	for {
		select {
		case _, isOpen := <-changes.ResultChan():
			if !isOpen {
				return
			}
		default:
			return
		}
	}
}

// WatchMember calls isDone with the MemberCluster of a name, or nil if there is none, now and after
// each change, until it returns true.
func (h Client) WatchMember(ctx context.Context, name string, isDone func(*v1alpha1.MemberCluster) bool) error {
	for {
		list := &v1alpha1.MemberClusterList{}
		selected := client.MatchingFields{"metadata.name": name}
		if err := h.List(ctx, list, selected); err != nil {
			return fmt.Errorf("read MemberCluster %s: %w", name, err)
		}
		var current *v1alpha1.MemberCluster
		if len(list.Items) > 0 {
			current = &list.Items[0]
		}
		if isDone(current) {
			return nil
		}
		events, err := h.Watch(ctx, list, selected, &client.ListOptions{Raw: &metav1.ListOptions{ResourceVersion: list.ResourceVersion}})
		if err != nil {
			return fmt.Errorf("watch MemberCluster %s: %w", name, err)
		}
		done, err := readEvents(ctx, events, isDone)
		events.Stop()
		if done || err != nil {
			return err
		}
		select { // a server may end each watch at once
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(retryInterval):
		}
	}
}

// readEvents passes the events of a watch on, and returns false when the watch ends.
func readEvents(ctx context.Context, events watch.Interface, isDone func(*v1alpha1.MemberCluster) bool) (bool, error) {
	for {
		select {
		case <-ctx.Done():
			return false, ctx.Err()
		case event, open := <-events.ResultChan():
			found, isMember := event.Object.(*v1alpha1.MemberCluster)
			switch {
			case !open || !isMember: // an error: list again
				return false, ctx.Err()
			case event.Type == watch.Deleted:
				found = nil
			}
			if isDone(found) {
				return true, nil
			}
		}
	}
}

// AppState is an AppService with its entries.
type AppState struct {
	App *v1alpha1.AppService
	// Missing is the number of AppServiceSlices whose entries are not known.
	Missing int
}

// ReadState returns an AppService with the entries that the hub has.
func (h Client) ReadState(ctx context.Context, name string) (AppState, error) {
	app, missing, err := h.ReadKnownEntries(ctx, name)
	return AppState{app, missing}, err
}
