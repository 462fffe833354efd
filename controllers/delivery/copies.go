package delivery

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/configuration/snapshots"
	"github.com/fleetwright/fleetwright/controllers/delivery/copies"
	"github.com/fleetwright/fleetwright/controllers/delivery/object"
	"github.com/fleetwright/fleetwright/controllers/observation"
	"github.com/fleetwright/fleetwright/controllers/workload"
)

// maxSerials is how many serials of a member are reported: more than an AppService has sources.
const maxSerials = 64

// copyFacts returns the facts about the copies of a task.
func (t task) copyFacts() copies.Facts {
	facts := copies.Facts{
		App: t.app, Entry: t.entry, Needed: t.copies, Memory: &t.memory.copies, Now: time.Now(),
		Deployment: t.objects.deployment, HasRolledOut: t.objects.hasRolledOut,
	}
	if deployment := t.objects.facts["Deployment"]; deployment != nil {
		facts.IsOwned, facts.IsManaged = deployment.IsOwned(), deployment.IsManagedByThisHub()
	}
	return facts
}

// serials returns the serials in the record of the Deployment, without those of copies that may not
// be there.
func (t task) serials() []observation.ConfigurationSerial {
	var serials []observation.ConfigurationSerial
	for _, recorded := range t.copyFacts().Confirmed() {
		if recorded.Serial > 0 && len(serials) < maxSerials {
			serials = append(serials, observation.ConfigurationSerial{Kind: v1alpha1.ConfigurationKind(recorded.Kind), Copy: recorded.Name, Serial: recorded.Serial})
		}
	}
	slices.SortFunc(serials, func(a, b observation.ConfigurationSerial) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Copy, b.Copy))
	})
	return serials
}

// ensureCopiesOf applies the copies of a Deployment that was created a moment ago, or is about to
// be adopted.
func (r *reconciler) ensureCopiesOf(ctx context.Context, t task, owner types.UID) error {
	facts := t.copyFacts()
	facts.NewOwner = owner
	result, err := r.copies.Ensure(ctx, facts)
	return errors.Join(result.Outdated, err)
}

// deleteCopies deletes the copies that the member does not need any more. A live read of the hub
// confirms each deletion. It reports whether it deleted any.
func (r *reconciler) deleteCopies(ctx context.Context, t task) bool {
	facts, verification := t.copyFacts(), r.remover.verification(t)
	if !facts.Any() {
		return false
	}
	result, err := r.copies.Delete(ctx, facts, func(ctx context.Context) error {
		err := verification.renew(ctx)
		if errors.Is(err, errNotVerified) { // the hub's next event is on its way
			return copies.ErrNotVerified
		}
		return err
	})
	if err != nil {
		ctrl.LoggerFrom(ctx).Info("Cannot delete a copy", "kind", result.Failed.Kind, "name", result.Failed.Name, "reason", redact(err))
	}
	return result.Any
}

// restoreCopies applies the copies again that may be missing according to what was found in the
// pods.
func (r *reconciler) restoreCopies(ctx context.Context, t task) error {
	return r.copies.Restore(ctx, t.copyFacts(), func(needed workload.Copy) bool {
		return t.memory.pods.suspects(needed, t.objects.deployment.Spec.Template.Spec)
	})
}

// suspects reports whether pods may wait for a copy: the kubelet names it, they wait for volumes
// for long, or they cannot pull their image and need it for that.
func (p podDiagnosis) suspects(needed workload.Copy, pod corev1.PodSpec) bool {
	switch p.reason {
	case v1alpha1.ReasonContainerConfig, v1alpha1.ReasonFailedMount:
		if strings.Contains(p.message, needed.Name) {
			return true
		}
	case v1alpha1.ReasonImagePullBackOff:
		return needed.Kind == workload.Secret && slices.Contains(pod.ImagePullSecrets, corev1.LocalObjectReference{Name: needed.Name})
	}
	return p.waitsForVolumes
}

// refusedCopy returns why a cluster stops at a copy that its member refuses, or nil.
func refusedCopy(err error) *object.Blocker {
	var (
		answer  *copies.Error
		notCopy *copies.NotCopyError
	)
	switch {
	case errors.As(err, &notCopy):
		return &object.Blocker{Reason: v1alpha1.ReasonConflict, Message: "the cluster keeps what it runs: " + notCopy.Error()}
	case errors.As(err, &answer) && answer.IsRefused():
		return &object.Blocker{Reason: v1alpha1.ReasonConfigurationRefused, Message: fmt.Sprintf(
			"%v; the cluster keeps what it runs: if permissions are missing, apply config/member/configuration to the member, otherwise see its quotas and admission policies", answer)}
	case snapshots.IsMissing(err):
		return &object.Blocker{Reason: v1alpha1.ReasonSnapshotMissing, Message: "the cluster keeps what it runs: " + err.Error()}
	}
	return nil
}
