package delivery

import (
	"context"
	"errors"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"
	"unicode"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/observation"
)

// conflictRetry is when to look again after a conflict, beside what the watch tells.
const conflictRetry = time.Second

// maxMessage is how many bytes are told in a row.
const maxMessage = 512

// failed sorts an error where it is known what it means: what the member refuses is told in the row and
// tried again in minutes; anything else is told, and tried again by the queue's back-off. That this replica may change nothing now is
// not told: the member has no part in it.
func (r *reconciler) failed(ctx context.Context, t task, err error) (reconcile.Result, error) {
	var met *obstacle
	switch {
	case errors.Is(ctx.Err(), context.Canceled), errors.Is(err, errNotMeant):
		return reconcile.Result{}, nil // the engagement has ended, or the hub's next event is on its way
	case errors.As(err, &met):
		return r.stopped(ctx, t, met)
	case isFenced(err), apierrors.IsConflict(err):
		return reconcile.Result{}, err // somebody has changed it meanwhile, or another replica may
	case errors.Is(err, errBehind): // we have
		ctrl.LoggerFrom(ctx).V(1).Info("Trying again", "why", err.Error())
		return reconcile.Result{RequeueAfter: conflictRetry}, nil
	case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		return r.stopped(ctx, t, &obstacle{reason: v1alpha1.ReasonNamespaceTerminating, passes: true, retry: removalPoll, message: "the namespace is being deleted on the member; it is made again when it is gone"})
	case takesPort(err):
		return r.stopped(ctx, t, &obstacle{reason: v1alpha1.ReasonPortConflict, message: err.Error()})
	case apierrors.IsForbidden(err), apierrors.IsInvalid(err), apierrors.IsBadRequest(err):
		return r.stopped(ctx, t, &obstacle{reason: v1alpha1.ReasonRefused, message: err.Error()})
	}
	phase := v1alpha1.ClusterProgressing
	if t.row.Phase == v1alpha1.ClusterRemoving {
		phase = v1alpha1.ClusterRemoving
	}
	r.report(t, observation.Observation{Phase: phase, Reason: v1alpha1.ReasonApplyFailed, Message: told(err)})
	if seconds, suggested := apierrors.SuggestsClientDelay(err); suggested && seconds > 0 {
		return reconcile.Result{RequeueAfter: min(time.Duration(seconds)*time.Second, maxBackoff)}, nil
	}
	return reconcile.Result{}, err
}

// isFenced tells whether a request was not sent because this replica may not lead any longer.
func isFenced(err error) bool {
	var refusal interface{ Fenced() bool }
	return errors.As(err, &refusal) && refusal.Fenced()
}

// told is an error for a row. Those of the network hold addresses, which are the Secret's, and ports that are never the same twice.
func told(err error) string {
	var network *url.Error
	if !errors.As(err, &network) {
		return err.Error()
	}
	var errno syscall.Errno
	switch {
	case errors.As(err, &errno):
		return "the request failed: " + errno.Error()
	case network.Timeout():
		return "the request failed: timed out"
	}
	return "the request failed: the connection broke"
}

// takesPort tells whether a nodePort is another Service's already.
func takesPort(err error) bool {
	var status apierrors.APIStatus
	if !apierrors.IsInvalid(err) || !errors.As(err, &status) || status.Status().Details == nil {
		return false
	}
	return slices.ContainsFunc(status.Status().Details.Causes, func(c metav1.StatusCause) bool {
		return strings.HasSuffix(c.Field, ".nodePort") && strings.Contains(c.Message, "already allocated")
	})
}

// escapes are the sequences by which a terminal is told of colours.
var escapes = regexp.MustCompile("\x1b\\[[0-9;?]*[ -/]*[@-~]")

// clean makes a text that may come from a member fit for a row: printable, on one line, and bounded.
func clean(text string) string {
	text = escapes.ReplaceAllString(text, "")
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
