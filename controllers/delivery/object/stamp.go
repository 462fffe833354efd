package object

import (
	"maps"
	"strconv"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/delivery/copies"
	"github.com/fleetwright/fleetwright/controllers/lineage"
	"github.com/fleetwright/fleetwright/controllers/workload"
)

// stamp returns the desired object with the stamp of the AppService's present state. A Deployment
// also gets the revision of the entry, and the record of copies. The stamp and the revision are not
// compared: an edit that changes nothing on a member costs no write, nor does a new version of the
// operator.
func (d *decision) stamp() *unstructured.Unstructured {
	stamped := workload.Stamp(d.desired, d.App.Generation)
	annotations := stamped.GetAnnotations()
	maps.Copy(annotations, lineage.For(d.App, d.Entry).Annotations())
	if d.desired.GetKind() == "Deployment" {
		annotations[v1alpha1.AnnotationRevision] = strconv.FormatInt(d.Entry.Revision, 10)
		// An empty record replaces one that another manager has written, which would stay otherwise.
		if d.Copies != "" || d.Existing != nil && d.Existing.GetAnnotations()[v1alpha1.AnnotationCopies] != "" {
			annotations[v1alpha1.AnnotationCopies] = d.Copies
		}
	}
	stamped.SetAnnotations(annotations)
	return stamped
}

// needsStamp reports whether an object has a stamp that must be replaced although nothing else
// differs. Either the hub cannot account for the stamp: it has been accepted, or the object would be
// blocked, and need not be accepted forever. Or a removal was withdrawn.
func (d *decision) needsStamp(existing client.Object) bool {
	found := lineage.Of(existing)
	return found.UID == d.App.UID && (!lineage.IsPlanned(d.App, found) || lineage.IsRemovalWithdrawn(d.Entry, found))
}

// needsRecord reports whether a Deployment of the AppService has another record of copies than it
// must have.
func (d *decision) needsRecord() bool {
	existing := d.Existing
	withoutUID := func(record string) string { return copies.WithoutUID(record, existing.GetUID()) } // as it is cached
	return isDeployment(existing.Object) && existing.IsOwned() && !existing.IsBeingDeleted() &&
		withoutUID(existing.GetAnnotations()[v1alpha1.AnnotationCopies]) != withoutUID(d.Copies)
}

// hashOf returns the hash of a desired object.
func hashOf(desired *unstructured.Unstructured) string {
	return desired.GetAnnotations()[v1alpha1.AnnotationHash]
}

// isDrift reports whether an object was applied as desired before. If it lacks a field then,
// another manager has changed it. A difference with another hash is an update that was not applied yet.
func isDrift(existing client.Object, desired *unstructured.Unstructured) bool {
	return existing.GetAnnotations()[v1alpha1.AnnotationHash] == hashOf(desired)
}
