package object

import (
	"context"
	"fmt"
	"maps"
	"strconv"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/delivery/copies"
	"github.com/fleetwright/fleetwright/controllers/lineage"
	"github.com/fleetwright/fleetwright/controllers/workload"
)

// apply sends an object by server-side apply.
func (m *Member) apply(ctx context.Context, desired *unstructured.Unstructured) error {
	begin, kind := time.Now(), desired.GetKind()
	err := m.Client.Apply(ctx, client.ApplyConfigurationFromUnstructured(desired), client.FieldOwner(v1alpha1.ManagedBy), client.ForceOwnership)
	if m.OnApply != nil {
		m.OnApply(err, time.Since(begin))
	}
	if err != nil {
		return fmt.Errorf("apply %s: %w", kind, err)
	}
	return nil
}

// dryRun returns what an apply of the object would give.
func (m *Member) dryRun(ctx context.Context, desired *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	answer := desired.DeepCopy() // the answer takes the place of the object
	err := m.Client.Apply(ctx, client.ApplyConfigurationFromUnstructured(answer), client.FieldOwner(v1alpha1.ManagedBy), client.ForceOwnership, client.DryRunAll)
	return answer, err
}

// stamp returns the object with the stamp of the AppService's present state. A Deployment also gets
// the revision of the entry, and the record of copies. The stamp and the revision are not compared: an
// edit that changes nothing on a member costs no write, nor does a new version of the operator.
func stamp(facts Facts, desired *unstructured.Unstructured) *unstructured.Unstructured {
	stamped := workload.Stamp(desired, facts.App.Generation)
	annotations := stamped.GetAnnotations()
	maps.Copy(annotations, lineage.For(facts.App, facts.Entry).Annotations())
	if desired.GetKind() == "Deployment" {
		annotations[v1alpha1.AnnotationRevision] = strconv.FormatInt(facts.Entry.Revision, 10)
		// An empty record replaces one that another manager has written, which would stay otherwise.
		if facts.Copies != "" || facts.Existing != nil && facts.Existing.GetAnnotations()[v1alpha1.AnnotationCopies] != "" {
			annotations[v1alpha1.AnnotationCopies] = facts.Copies
		}
	}
	stamped.SetAnnotations(annotations)
	return stamped
}

// needsRecord reports whether a Deployment of the AppService has another record of copies than it must
// have.
func needsRecord(facts Facts) bool {
	existing := facts.Existing
	withoutUID := func(record string) string { return copies.WithoutUID(record, existing.GetUID()) } // as it is cached
	return isDeployment(existing.Object) && existing.IsOwned() && !existing.IsBeingDeleted() &&
		withoutUID(existing.GetAnnotations()[v1alpha1.AnnotationCopies]) != withoutUID(facts.Copies)
}

// writeRecord applies a Deployment that lacks nothing but its record of copies. It applies the version
// that was compared: the replicas of any other version may be those of an autoscaler. If the member
// has another version, the watch brings the next try. It returns the new generation of the Deployment:
// a change of its annotations raises it.
func (m *Member) writeRecord(ctx context.Context, facts Facts, found difference) (generation int64, err error) {
	stamped := stamp(facts, found.desired)
	stamped.SetUID(facts.Existing.GetUID())
	stamped.SetResourceVersion(facts.Existing.GetResourceVersion())
	switch err := m.apply(ctx, stamped); {
	case apierrors.IsConflict(err), apierrors.IsNotFound(err):
		return 0, nil
	case err != nil:
		return 0, err
	}
	return stamped.GetGeneration(), nil
}

// needsStamp reports whether an object has a stamp that must be replaced although nothing else
// differs. Either the hub cannot account for the stamp: it has been accepted, or the object would be
// blocked, and need not be accepted forever. Or a removal was withdrawn.
func needsStamp(facts Facts, existing client.Object) bool {
	found := lineage.Of(existing)
	return found.UID == facts.App.UID && (!lineage.IsPlanned(facts.App, found) || lineage.IsRemovalWithdrawn(facts.Entry, found))
}
