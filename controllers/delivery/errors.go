package delivery

import (
	"cmp"
	"context"
	"errors"
	"fmt"
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
	"github.com/fleetwright/fleetwright/controllers/delivery/memberpolicy"
	"github.com/fleetwright/fleetwright/controllers/delivery/object"
	"github.com/fleetwright/fleetwright/controllers/observation"
	"github.com/fleetwright/fleetwright/controllers/revision/reader"
)

// conflictRetry is when to retry after a conflict, beside the events of the watch.
const conflictRetry = time.Second

// maxMessage is how many bytes a message of an entry has at most.
const maxMessage = 512

// handleError classifies an error. A request that the member refuses is reported in the entry and
// retried in minutes. Any other error is reported and retried with the queue's back-off. A write
// that the lease fence refuses is not reported, because it is not the member's failure.
func (r *reconciler) handleError(ctx context.Context, t task, err error) (reconcile.Result, error) {
	var blocker *object.Blocker
	switch {
	case errors.Is(ctx.Err(), context.Canceled), errors.Is(err, errNotVerified):
		return reconcile.Result{}, nil // the engagement has ended, or the hub's next event is on its way
	case errors.As(err, &blocker):
		return r.reportBlocked(ctx, t, blocker)
	case refusedCopy(err) != nil:
		return r.reportBlocked(ctx, t, refusedCopy(err))
	case reader.IsMissing(err):
		return r.reportBlocked(ctx, t, &object.Blocker{Reason: v1alpha1.ReasonRevisionMissing, Message: "the cluster keeps what it runs: " + err.Error()})
	case isFenced(err), apierrors.IsConflict(err):
		return reconcile.Result{}, err // another manager changed the object, or another replica leads
	case errors.Is(err, errStale):
		ctrl.LoggerFrom(ctx).V(1).Info("Retrying", "reason", err.Error())
		return reconcile.Result{RequeueAfter: conflictRetry}, nil
	case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		return r.reportBlocked(ctx, t, &object.Blocker{Reason: v1alpha1.ReasonNamespaceTerminating, Transient: true, Retry: removalPoll, Message: "the member is deleting the namespace; Fleetwright creates it again afterwards"})
	case adoptionBlocker(t, r.cluster, err) != nil:
		return r.reportBlocked(ctx, t, adoptionBlocker(t, r.cluster, err))
	case isPortTaken(err):
		return r.reportBlocked(ctx, t, &object.Blocker{Reason: v1alpha1.ReasonPortConflict, Message: err.Error()})
	case apierrors.IsForbidden(err), apierrors.IsInvalid(err), apierrors.IsBadRequest(err):
		return r.reportBlocked(ctx, t, &object.Blocker{Reason: v1alpha1.ReasonRefused, Message: err.Error()})
	}
	phase := v1alpha1.ClusterProgressing
	if t.entry.Phase == v1alpha1.ClusterRemoving {
		phase = v1alpha1.ClusterRemoving
	}
	r.report(t, observation.Observation{Phase: phase, Reason: v1alpha1.ReasonApplyFailed, Message: redact(err)})
	if seconds, suggested := apierrors.SuggestsClientDelay(err); suggested && seconds > 0 {
		return reconcile.Result{RequeueAfter: min(time.Duration(seconds)*time.Second, maxBackoff)}, nil
	}
	return reconcile.Result{}, err
}

// kindOfResource is the kind of a resource that can be adopted.
var kindOfResource = map[string]string{
	"deployments": "Deployment", "services": "Service",
	"horizontalpodautoscalers": "HorizontalPodAutoscaler", "poddisruptionbudgets": "PodDisruptionBudget",
}

// adoptionBlocker returns the blocker of an object without Fleetwright's labels that the member does not
// let Fleetwright adopt, or nil if an error has another cause.
func adoptionBlocker(t task, cluster string, err error) *object.Blocker {
	refusal := memberpolicy.RefusalOf(err)
	if refusal == nil || refusal.Code != memberpolicy.AdoptionNotAllowed {
		return nil
	}
	return &object.Blocker{Reason: v1alpha1.ReasonAdoptionNotAllowed, Message: fmt.Sprintf(
		"%s %s exists without Fleetwright's labels, and cluster %s does not allow adoptions in namespace %s: run on that cluster: kubectl label namespace %[4]s %[5]s=%[6]s",
		cmp.Or(kindOfResource[refusal.Resource], refusal.Resource), refusal.Name, cluster, t.app.Namespace, v1alpha1.LabelAdoption, v1alpha1.AdoptionAllowed)}
}

// isFenced reports whether a request was not sent because this replica may not lead any longer.
func isFenced(err error) bool {
	var refusal interface{ Fenced() bool }
	return errors.As(err, &refusal) && refusal.Fenced()
}

// redact returns the text of an error for an entry. Network errors have addresses, which belong to
// the Secret, and ports that differ each time: they are left out.
func redact(err error) string {
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
	return "the request failed: the connection was lost"
}

// isPortTaken reports whether a nodePort belongs to another Service already.
func isPortTaken(err error) bool {
	var status apierrors.APIStatus
	if !apierrors.IsInvalid(err) || !errors.As(err, &status) || status.Status().Details == nil {
		return false
	}
	return slices.ContainsFunc(status.Status().Details.Causes, func(c metav1.StatusCause) bool {
		return strings.HasSuffix(c.Field, ".nodePort") && strings.Contains(c.Message, "already allocated")
	})
}

// escapes matches the escape sequences of terminals, such as colours.
var escapes = regexp.MustCompile("\x1b\\[[0-9;?]*[ -/]*[@-~]")

// sanitize makes a text that may come from a member fit for an entry: printable, on one line, and
// bounded.
func sanitize(text string) string {
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
