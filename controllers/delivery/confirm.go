package delivery

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/entries"
)

// confirmer reads the hub and the member themselves before something is reported that stops the
// AppService on other clusters. A cache that lags must not cause that.
type confirmer struct {
	hubLive client.Reader
	cluster string
	member  objectReader
}

// isTakenBack reports whether the hub has taken back the revision of the entry. The report may halt
// a rollout.
func (c confirmer) isTakenBack(ctx context.Context, t task) (bool, error) {
	app, entry, err := c.entry(ctx, t)
	if err != nil || entry == nil || entry.Revision != t.entry.Revision {
		return false, err
	}
	found, err := c.member.fromMember(ctx, app, entry)
	if err != nil {
		return false, err
	}
	return isTakenBack(app, entry, found), nil
}

// behind returns what the member has that the hub cannot account for, or nil. The report stops the
// AppService on all clusters until a person accepts it.
func (c confirmer) behind(ctx context.Context, t task) (*v1alpha1.HubBehind, error) {
	app, entry, err := c.entry(ctx, t)
	if err != nil || entry == nil {
		return nil, err
	}
	found, err := c.member.fromMember(ctx, app, entry)
	if err != nil {
		return nil, err
	}
	return behindOf(app, entry, found.all()), nil
}

// entry returns the AppService of a task and its entry as the hub itself has them. Both are nil if
// it does not have them any more.
func (c confirmer) entry(ctx context.Context, t task) (*v1alpha1.AppService, *v1alpha1.ClusterStatus, error) {
	app := &v1alpha1.AppService{}
	if err := c.hubLive.Get(ctx, client.ObjectKeyFromObject(t.app), app); err != nil {
		if apierrors.IsNotFound(err) {
			return nil, nil, nil
		}
		return nil, nil, fmt.Errorf("read AppService: %w", err)
	}
	if app.UID != t.app.UID {
		return nil, nil, nil
	}
	entry, _, err := entries.Of(ctx, c.hubLive, app, c.cluster)
	if err != nil || entry == nil {
		return nil, nil, err
	}
	return withRevisionOf(app, entry), entry, nil
}
