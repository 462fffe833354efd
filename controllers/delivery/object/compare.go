package object

import (
	"maps"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/delivery/copies"
	"github.com/fleetwright/fleetwright/controllers/workload"
)

var replicasPath = fieldpath.MakePathOrDie("spec", "replicas")

// comparison identifies the comparison of an object with its desired state: two that are the same have
// the same result. So one that found nothing to do need not be repeated, which saves most of the work
// of a reconcile that changes nothing. The zero value is the same as none.
type comparison struct {
	// object is the existing object, as the cache has it.
	object client.Object
	// hash is the hash of the desired object as it is rendered.
	hash string
	// generation, replicas and maxReplicas decide whether spec.replicas is desired, which the hash does
	// not cover. Only a Deployment has them.
	generation            int64
	replicas, maxReplicas int32
	// isOfVersion is set if an autoscaler was looked for: the next event is a reason to look again.
	isOfVersion bool
}

// toCompare returns the comparison that is to be made. It returns the zero value if the hash does
// not identify the desired state: an adopted Deployment has changed the selectors of all desired
// objects.
func (d *decision) toCompare() comparison {
	if d.KeepsSelector {
		return comparison{}
	}
	c := comparison{object: d.current.Object, hash: hashOf(d.desired)}
	if d.desired.GetKind() == "Deployment" {
		c.generation, c.replicas, c.maxReplicas = d.App.Generation, d.Entry.Replicas, d.Entry.MaxReplicas
	}
	return c
}

// repeats reports whether a comparison that was made has the same result.
func (c comparison) repeats(made comparison) bool {
	if c.object == nil || made.object == nil || !haveSameContent(c.object, made.object) {
		return false
	}
	if made.isOfVersion && c.object.GetResourceVersion() != made.object.GetResourceVersion() {
		return false
	}
	c.object, c.isOfVersion = made.object, made.isOfVersion
	return c == made
}

// haveSameContent reports whether two versions of an object do not differ in what is compared. Most
// events of a Deployment change only its status. Other objects have few events, and their version says it.
func haveSameContent(a, b client.Object) bool {
	if a == b {
		return true
	}
	before, isDeployment := a.(*appsv1.Deployment)
	after, isAlso := b.(*appsv1.Deployment)
	if !isDeployment || !isAlso {
		return a.GetUID() == b.GetUID() && a.GetResourceVersion() == b.GetResourceVersion()
	}
	return before.UID == after.UID && before.DeletionTimestamp.Equal(after.DeletionTimestamp) &&
		maps.Equal(before.Labels, after.Labels) && maps.Equal(before.Annotations, after.Annotations) &&
		equality.Semantic.DeepEqual(before.Spec, after.Spec)
}

// compare compares the cached object with its desired state. That of a Deployment has no
// spec.replicas if an autoscaler sets them. It returns what must be known for that.
func (d *decision) compare() (Need, error) {
	deployment, isDeployment := d.current.Object.(*appsv1.Deployment)
	switch {
	case !isDeployment:
	case d.Entry.MaxReplicas > 0 && ptr.Deref(deployment.Spec.Replicas, 1) == 0:
		// An autoscaler does not start from 0.
		return "", d.compareWith(workload.WithReplicas(d.desired, d.Entry.Replicas))
	case d.App.Spec.ExternallyScaled, d.Entry.MaxReplicas > 0: // the desired state has no replicas
	case d.App.Spec.Autoscaling != nil: // the share of the cluster is 0
	default:
		return d.compareReplicas(deployment)
	}
	return "", d.compareWith(d.desired)
}

// compareReplicas compares a Deployment with a desired state that has replicas, which an autoscaler
// that is not Fleetwright's may set.
func (d *decision) compareReplicas(deployment *appsv1.Deployment) (Need, error) {
	with := d.desired
	without, err := workload.WithoutReplicas(with)
	if err != nil {
		return "", err
	}
	if wasAppliedAs(deployment, without) && d.current.Stamp.Generation >= d.App.Generation {
		return "", d.compareWith(without) // given up for this generation: an autoscaler that is gone for a moment loses nothing
	}
	if err := d.compareWith(with); err != nil || d.missing.Empty() {
		return "", err
	}
	if d.Live.Scaling == "" {
		// Any change sends the replicas too, and the cache may be behind what an autoscaler has
		// just set. An update that leaves the replicas as they are in the cache excludes that by
		// the version.
		isUpdate := d.current.IsOwned() && !wasAppliedAs(deployment, with) && d.Memory.applied != hashOf(with)
		if !isUpdate || d.missing.Has(replicasPath) {
			return NeedAutoscalers, nil
		}
		d.onlyVersion = deployment.ResourceVersion
		return "", nil
	}
	isScaled := d.Live.Scaling == Scaled
	if d.Live.Scaling == ScalingForbidden { // another manager has raised the replicas now or before: perhaps an autoscaler
		isRaised := wasAppliedAs(deployment, with) || wasAppliedAs(deployment, without)
		isScaled = isRaised && ptr.Deref(deployment.Spec.Replicas, 1) > d.Entry.Replicas
	}
	if isScaled {
		return "", d.compareWith(without)
	}
	return "", nil
}

// compareWith compares the cached object with a desired state. Fields that the member is known to
// discard are not missing.
func (d *decision) compareWith(desired *unstructured.Unstructured) error {
	found, err := diff(d.current.Object, desired)
	if err != nil {
		return err
	}
	d.desired, d.missing = desired, found.missing
	d.holdsAll = d.missing.Empty()
	if d.holdsAll {
		return nil
	}
	if known := d.Memory.Pruned.from(d.current.Object, found, d.Now); !known.Empty() {
		d.missing = d.missing.Leaves().Difference(known)
	}
	return nil
}

// needsRecord reports whether a Deployment of the AppService has another record of copies than it
// must have.
func (d *decision) needsRecord() bool {
	withoutUID := func(record string) string { return copies.WithoutUID(record, d.current.GetUID()) } // as it is cached
	return d.desired.GetKind() == "Deployment" && d.current.IsOwned() && !d.current.IsBeingDeleted() &&
		withoutUID(d.current.GetAnnotations()[v1alpha1.AnnotationCopies]) != withoutUID(d.Copies)
}

// hashOf returns the hash of a desired object.
func hashOf(desired *unstructured.Unstructured) string {
	return desired.GetAnnotations()[v1alpha1.AnnotationHash]
}

// wasAppliedAs reports whether an object was applied as desired before. If it lacks a field then,
// another manager has changed it. A difference with another hash is an update that was not applied
// yet.
func wasAppliedAs(existing client.Object, desired *unstructured.Unstructured) bool {
	return existing.GetAnnotations()[v1alpha1.AnnotationHash] == hashOf(desired)
}
