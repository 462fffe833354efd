package sources

import (
	"context"
	"errors"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/configuration"
)

// prune deletes snapshots by UID. If the hub refuses it, it is tried again later: what is not deleted
// harms nobody.
func (s *Sources) prune(ctx context.Context, app *v1alpha1.AppService, state *appState, superfluous []configuration.Snapshot) error {
	now := time.Now()
	var failures []error
	for _, snapshot := range superfluous {
		if !state.mayPrune(snapshot.UID, now) {
			continue
		}
		err := s.hub.remove(ctx, objectKey{snapshot.Kind, app.Namespace, snapshot.Name}, snapshot.UID)
		switch {
		case err == nil, apierrors.IsNotFound(err), apierrors.IsConflict(err): // a conflict is another UID
			state.setPruned(snapshot.UID, true, now)
		case isRefusal(err):
			state.setPruned(snapshot.UID, false, now)
			ctrl.LoggerFrom(ctx).Info("The hub refuses to delete an old snapshot; it is tried again in ten minutes", "reason", err.Error())
		default:
			failures = append(failures, err)
		}
	}
	return errors.Join(failures...)
}
