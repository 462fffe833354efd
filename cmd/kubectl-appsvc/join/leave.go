package join

import (
	"context"
	"errors"
	"fmt"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/cmd/kubectl-appsvc/drain"
	"github.com/fleetwright/fleetwright/cmd/kubectl-appsvc/hub"
)

// detachTimeout is how long unjoin waits until the operator has seen that the Secret is gone. If the
// MemberCluster were deleted before, the operator could create it again.
const detachTimeout = 15 * time.Second

// leave makes all changes.
func (d *departure) leave(ctx context.Context) error {
	if d.remove {
		if err := d.evict(ctx); err != nil {
			return err
		}
	}
	if err := d.delete(ctx); err != nil {
		return err
	}
	if d.retain {
		d.Say("Its workloads keep running, and nothing manages them now.")
	}
	if err := d.revokeOrPrint(ctx); err != nil {
		return err
	}
	return d.abandonOrPrint(ctx)
}

// evict has the AppServices removed from the cluster, as drain does. It reads everything again,
// because the answer of the user may have taken minutes. An empty cluster is drained too, so that
// nothing is placed there before it is deleted.
func (d *departure) evict(ctx context.Context) error {
	before := d.uids()
	reading, cancel := context.WithTimeout(ctx, departureTimeout)
	defer cancel()
	if err := d.read(reading); err != nil {
		return err
	}
	if d.uids() != before {
		return fmt.Errorf("the Secret or the MemberCluster of %s was deleted or created meanwhile: run the command again", d.name)
	}
	there, err := d.Client.ResidentsOn(reading, d.name)
	if err != nil {
		return err
	}
	if err := d.checkPossible(there); err != nil || d.cluster == nil {
		return err
	}
	err = drain.Drain(ctx, d.unjoinOptions.Options, d.Client, d.name, d.timeout)
	var exit hub.ExitError
	if errors.As(err, &exit) {
		exit.Message += fmt.Sprintf("\n%s stays in the fleet. To remove it and leave these running: kubectl appsvc unjoin %s --retain", d.name, d.name)
		return exit
	}
	return err
}

// delete deletes the Secret and the MemberCluster.
func (d *departure) delete(ctx context.Context) error {
	if d.secret == nil {
		d.Say("The Secret of %s is missing already.", d.name)
	} else {
		if err := d.Client.Delete(ctx, d.secret, client.Preconditions{UID: new(d.secret.UID)}); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("delete Secret %s/%s: %w", d.secret.Namespace, d.secret.Name, err)
		}
		d.Say("secret/%s in namespace %s deleted", d.secret.Name, d.secret.Namespace)
	}
	if d.cluster == nil {
		return nil
	}
	// The operator looks for the Secret only of a MemberCluster that names one.
	needsWait := d.secret != nil || d.cluster.Annotations[v1alpha1.AnnotationSecret] != ""
	if err := d.awaitMember(ctx, func(found *v1alpha1.MemberCluster) bool { return found == nil || !needsWait || !found.HasSecret() }); err != nil {
		if !errors.Is(err, context.DeadlineExceeded) {
			return d.halfDone(ctx, err)
		}
		d.Note("The operator has not seen the deletion of the Secret within %s: it may not run.", detachTimeout)
	}
	if err := d.Client.Delete(ctx, d.cluster, client.Preconditions{UID: new(d.cluster.UID)}); client.IgnoreNotFound(err) != nil {
		return d.halfDone(ctx, err)
	}
	d.Say("membercluster/%s deleted", d.name)
	return nil
}

// halfDone returns the error of a step after the deletion of the Secret.
func (d *departure) halfDone(ctx context.Context, err error) error {
	message := hub.Describe(err)
	if ctx.Err() != nil {
		message = "interrupted"
	}
	return hub.ExitError{Code: 1, Message: fmt.Sprintf("the Secret is deleted, but not MemberCluster %s; run the command again: %s", d.name, message)}
}

func (d *departure) awaitMember(ctx context.Context, isDone func(*v1alpha1.MemberCluster) bool) error {
	waiting, cancel := context.WithTimeout(ctx, detachTimeout)
	defer cancel()
	err := d.Client.WatchMember(waiting, d.name, isDone)
	if waiting.Err() != nil && ctx.Err() == nil {
		return context.DeadlineExceeded
	}
	return err
}
