package object

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/workload"
)

// DeletionPoll is when to check again whether the member has finished deleting an object.
const DeletionPoll = 10 * time.Second

// Decide returns the next step for an object to hold its desired fields. It sends nothing, and the
// same arguments give the same step.
func Decide(facts Facts, desired *unstructured.Unstructured) (Step, error) {
	d := decision{Facts: facts, desired: desired}
	if d.Existing == nil {
		if desired.GetKind() == "Deployment" {
			// The initial replicas of an autoscaled Deployment are not compared later.
			d.desired = workload.WithReplicas(desired, d.Entry.Replicas)
		}
		return d.create(), nil
	}
	if d.Existing.Newer {
		return d.blocked(d.Existing.Blocker(d.App.Spec.ConflictPolicy)), nil
	}
	compared := d.toCompare()
	if compared == d.Memory.converged && compared != (comparison{}) && !d.needsStamp(d.Existing.Object) && !d.needsRecord() {
		return d.step(Unchanged), nil
	}
	d.Memory.converged = comparison{}
	need, err := d.compare()
	switch {
	case err != nil:
		return Step{}, err
	case need != "":
		return d.read(need), nil
	}
	if !d.missing.Empty() || d.needsStamp(d.Existing.Object) {
		return d.change()
	}
	if d.holdsAll {
		d.Memory.converged = compared
	}
	if d.needsRecord() {
		return d.record(), nil
	}
	return d.step(Unchanged), nil
}

// decision is what is known while Decide decides.
type decision struct {
	Facts
	// desired is the desired state. That of a Deployment has no spec.replicas if an autoscaler sets
	// them.
	desired *unstructured.Unstructured
	// missing are the desired fields that the existing object lacks, other than those that the
	// member is known to discard.
	missing *fieldpath.Set
	// holdsAll reports that the object holds every desired field, so that the member discards none.
	holdsAll bool
	// onlyVersion is the only version of the object that may be changed; empty if any may be.
	onlyVersion string
	// current is the object on the member itself. It is the cached one where that is trusted.
	current Existing
}

// change decides on an object that lacks fields, or has a stamp to replace.
func (d *decision) change() (Step, error) {
	d.current = *d.Existing
	if d.current.IsBeingDeleted() {
		return d.blocked(&Blocker{Reason: v1alpha1.ReasonRollingOut, Transient: true, Retry: DeletionPoll, Message: fmt.Sprintf(
			"the member is deleting %s %s; Fleetwright creates it again afterwards", KindOf(d.current.Object), d.current.GetName())}), nil
	}
	wasApplied := d.Memory.applied != "" && d.Memory.applied == hashOf(d.desired)
	isDrifted := !d.missing.Empty() && (isDrift(d.current, d.desired) || wasApplied)
	if !d.current.IsOwned() || isDrifted || d.VerifyCached {
		// An adoption and a correction are reported, so the cache is not trusted: it may be behind
		// the last apply.
		if d.Live.Object == nil && !d.Live.IsGone {
			return d.read(NeedObject), nil
		}
		step, isDone, err := d.changeLive()
		if isDone || err != nil {
			return step, err
		}
		isDrifted = isDrifted || isDrift(d.current, d.desired)
	}
	switch {
	case d.current.Owner == Unmanaged:
		return d.adopt()
	case d.current.Owner == PreviousAppService:
		return d.inherit(), nil
	case isDrifted:
		return d.correct()
	}
	return d.apply(Update), nil
}

// changeLive goes on with the object that the member itself has. It reports whether nothing is left
// to change: the watch will report that the object is gone or complete, except perhaps for one with
// VerifyCached, which is created here.
func (d *decision) changeLive() (_ Step, isDone bool, err error) {
	if d.Live.IsGone && d.VerifyCached {
		return d.create(), true, nil
	}
	if d.Live.IsGone {
		return d.step(Stale), true, nil
	}
	found, err := diff(d.Live.Object, d.desired)
	if err != nil {
		return Step{}, false, err
	}
	if found.missing().Empty() && !d.needsStamp(d.Live.Object) {
		if !d.VerifyCached {
			return d.step(Stale), true, nil
		}
		d.current.Object = d.Live.Object
		return d.step(Unchanged), true, nil
	}
	d.current, d.missing = Inspect(d.HubID, d.App, d.Entry, d.Live.Object), found.missing()
	if blocker := d.current.Blocker(d.App.Spec.ConflictPolicy); blocker != nil {
		return d.blocked(blocker), true, nil
	}
	return Step{}, false, nil
}

// inherit takes over the object of an earlier AppService of this name, which the hub no longer has.
// docs/decisions/objects-of-a-previous-appservice-are-inherited.md says why.
func (d *decision) inherit() Step {
	step := d.apply(Adopt)
	step.PreviousUID = types.UID(d.current.GetAnnotations()[v1alpha1.AnnotationUID])
	return step
}

// step returns a step that sends nothing.
func (d *decision) step(action Action) Step {
	step := Step{Action: action, Object: d.object(), Memory: d.Memory, live: d.Live}
	if d.holdsAll {
		step.Memory.Pruned = Pruned{}
	}
	return step
}

// object returns the object as it was last read, or nil if there is none.
func (d *decision) object() client.Object {
	switch {
	case d.current.Object != nil:
		return d.current.Object
	case d.Existing != nil:
		return d.Existing.Object
	}
	return nil
}

func (d *decision) read(need Need) Step {
	step := d.step(NeedLive)
	step.Need = need
	return step
}

func (d *decision) blocked(blocker *Blocker) Step {
	step := d.step(Blocked)
	step.Blocker = blocker
	return step
}

// create returns a step that fails if there is an object of that name. The cache is selected by
// label, so it does not show unmanaged objects: an apply must not overwrite one. An apply with a
// resource version creates an object, or conflicts; no object has version 1.
// docs/decisions/a-create-never-merges.md says why.
func (d *decision) create() Step {
	step := d.step(Create)
	step.Object = nil
	step.Desired = d.stamp()
	step.Desired.SetResourceVersion("1")
	step.Memory.applied = hashOf(d.desired)
	return step
}

// apply returns a step that applies the desired state to the current object. An object that took
// its place is not changed.
func (d *decision) apply(action Action) Step {
	step := d.step(action)
	step.Desired = d.stamp()
	step.Desired.SetUID(d.current.GetUID())
	if d.onlyVersion != "" {
		step.Desired.SetResourceVersion(d.onlyVersion)
		step.Need = NeedAutoscalers
	}
	step.Memory.applied = hashOf(d.desired)
	return step
}

// record returns a step that applies a Deployment that lacks nothing but its record of copies. It
// applies the version that was compared: the replicas of any other version may be those of an
// autoscaler.
func (d *decision) record() Step {
	step := d.step(Record)
	step.Desired = d.stamp()
	step.Desired.SetUID(d.Existing.GetUID())
	step.Desired.SetResourceVersion(d.Existing.GetResourceVersion())
	return step
}
