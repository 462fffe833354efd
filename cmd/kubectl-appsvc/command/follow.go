package command

import (
	"context"
	"errors"
	"fmt"
	"strings"
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

// follow calls show with an AppService and its entries, at first and after each change, until show
// returns true or an error, or the context ends. A lost connection is established again; lost is
// called with its error.
func (h hub) follow(ctx context.Context, name string, show func(appState) (bool, error), lost func(error)) error {
	current, err := h.readState(ctx, name)
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
		if current, err = h.readState(ctx, name); errors.As(err, new(notFoundError)) {
			return errDeleted(name)
		} else if err != nil && ctx.Err() == nil {
			lost(err)
		}
	}
}

func errDeleted(name string) error { return fmt.Errorf("AppService %s is deleted", name) }

// followFrom shows an AppService, and its changes until the watch ends.
func (h hub) followFrom(ctx context.Context, current appState, show func(appState) (bool, error)) (bool, error) {
	if isDone, err := show(current); isDone || err != nil {
		return isDone, err
	}
	app := current.app
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
		if current, err = h.readState(ctx, app.Name); err != nil {
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

// screen shows a text in place of the previous one if the output is a terminal, and below it
// otherwise.
type screen struct {
	o    *hubOptions
	last string
}

func (s *screen) show(text string) error {
	if s.o.terminal() == nil {
		if text == s.last {
			return nil
		}
		s.last = text
		return s.o.write(text + "\n")
	}
	_, height := s.o.size()
	lines := strings.SplitAfter(strings.TrimRight(text, "\n")+"\n", "\n")
	lines = lines[:len(lines)-1]
	if height > 1 && len(lines) >= height {
		hidden := len(lines) - (height - 2)
		lines = append(lines[:height-2], fmt.Sprintf("… %d more lines\n", hidden))
	}
	const clearScreen = "\x1b[H\x1b[2J"
	return s.o.write(clearScreen + strings.Join(lines, ""))
}
