package delivery

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/rollup"
)

// maxMessage is how many bytes are told in a row.
const maxMessage = 512

// failed sorts an error where it is known what it means: what the member refuses is told in the row and
// tried again in minutes; anything else is told, and tried again by the queue's back-off.
func (r *reconciler) failed(ctx context.Context, t task, err error) (reconcile.Result, error) {
	switch {
	case errors.Is(ctx.Err(), context.Canceled), errors.Is(err, errNotMeant):
		return reconcile.Result{}, nil // the engagement has ended, or the hub's next event is on its way
	case apierrors.IsConflict(err):
		return r.collided(ctx, t, err)
	case apierrors.IsForbidden(err), apierrors.IsInvalid(err), apierrors.IsBadRequest(err):
		return r.stopped(t, &obstacle{v1alpha1.ReasonRefused, err.Error()})
	}
	phase := v1alpha1.ClusterProgressing
	if t.row.Phase == v1alpha1.ClusterRemoving {
		phase = v1alpha1.ClusterRemoving
	}
	r.report(t, rollup.Observation{Phase: phase, Reason: v1alpha1.ReasonApplyFailed, Message: err.Error()})
	if seconds, suggested := apierrors.SuggestsClientDelay(err); suggested {
		return reconcile.Result{RequeueAfter: time.Duration(seconds) * time.Second}, nil
	}
	return reconcile.Result{}, err
}

// collided looks at the member itself after a conflict: either an object is there that the cache does not show because it
// is foreign, or the cache is behind and the watch will bring the next try.
func (r *reconciler) collided(ctx context.Context, t task, conflict error) (reconcile.Result, error) {
	objects, err := read(ctx, r.live, client.ObjectKeyFromObject(t.app))
	if err != nil {
		return reconcile.Result{}, errors.Join(conflict, err)
	}
	if obstacle := r.obstacles(t.app, objects); obstacle != nil {
		return r.stopped(t, obstacle)
	}
	return reconcile.Result{}, fmt.Errorf("the member's cache is behind: %w", conflict)
}

// clean makes a text that may come from a member fit for a row: printable, on one line, and bounded.
func clean(text string) string {
	text = strings.Map(func(c rune) rune {
		if unicode.IsPrint(c) {
			return c
		}
		return ' '
	}, text)
	if len(text) > maxMessage {
		text = strings.ToValidUTF8(text[:maxMessage], "") + "…"
	}
	return text
}
