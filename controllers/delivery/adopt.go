package delivery

import (
	"context"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/delivery/object"
)

// prepareAdoption does what must come before an object is adopted: the hub confirms it, an adopted
// Deployment has its copies, and it is announced that pods are replaced.
func (r *reconciler) prepareAdoption(ctx context.Context, t task, step object.Step) error {
	if err := r.remover.verifyWithHub(ctx, t); err != nil {
		return err
	}
	kind := object.KindOf(step.Object)
	if kind == "Deployment" {
		if err := r.ensureCopiesOf(ctx, t, step.Object.GetUID()); err != nil {
			return err
		}
	}
	if step.Restart != "" {
		if err := r.objects.CheckAdoption(ctx, step.Object); err != nil {
			return err // it is not announced again and again while the member refuses it
		}
		r.announcer.announce(t.app, step.Object, v1alpha1.ReasonAdoptionRestartsPods, "Adopt",
			"adopting %s %s replaces its pods, because its pod template changes: %s", kind, step.Object.GetName(), step.Restart)
	}
	return nil
}
