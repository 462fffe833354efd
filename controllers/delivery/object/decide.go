package object

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
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
		return d.createStep(), nil
	}
	d.current = *d.Existing
	if d.current.Newer {
		return d.blocked(d.current.Blocker(d.App.Spec.ConflictPolicy)), nil
	}
	compared := d.toCompare()
	if compared.repeats(d.Memory.converged) && !d.current.needsStamp && !d.needsRecord() {
		d.Memory.converged.object = compared.object // the one before it may be freed
		return d.step(Unchanged), nil
	}
	d.Memory.converged = comparison{}
	need, err := d.compare()
	switch {
	case err != nil:
		return Step{}, err
	case need != "":
		return d.readStep(need), nil
	}
	if !d.missing.Empty() || d.current.needsStamp {
		return d.change()
	}
	if d.holdsAll {
		d.Memory.converged = compared
		d.Memory.converged.isOfVersion = d.Live.Scaling != ""
	}
	if d.needsRecord() {
		return d.recordStep(), nil
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
	// current is the object as it was last read: in the cache, or from the member itself.
	current Existing
}

// change decides on an object that lacks fields, or has a stamp to replace.
func (d *decision) change() (Step, error) {
	if d.current.IsBeingDeleted() {
		return d.blocked(&Blocker{Reason: v1alpha1.ReasonRollingOut, Transient: true, Retry: DeletionPoll, Message: fmt.Sprintf(
			"the member is deleting %s %s; Fleetwright creates it again afterwards", d.desired.GetKind(), d.current.GetName())}), nil
	}
	wasApplied := d.Memory.applied != "" && d.Memory.applied == hashOf(d.desired)
	lacksApplied := !d.missing.Empty() && (wasAppliedAs(d.current, d.desired) || wasApplied)
	if !d.current.IsOwned() || lacksApplied || d.VerifyCached {
		// An adoption and a correction are reported, so the cache is not trusted: it may be behind
		// the last apply.
		if d.Live.Object == nil && !d.Live.IsGone {
			return d.readStep(NeedObject), nil
		}
		if step, isDone, err := d.trustLive(); isDone || err != nil {
			return step, err
		}
		lacksApplied = lacksApplied || wasAppliedAs(d.current, d.desired)
	}
	switch {
	case d.current.Owner == Unmanaged:
		return d.adopt()
	case d.current.Owner == PreviousAppService:
		return d.inherit(), nil
	case lacksApplied:
		return d.correct()
	}
	return d.applyStep(Update), nil
}

// trustLive goes on with the object that the member itself has. It reports whether nothing is left
// to change: the watch will report that the object is gone or complete, except perhaps for one with
// VerifyCached, which is created here.
func (d *decision) trustLive() (_ Step, isDone bool, err error) {
	switch {
	case d.Live.IsGone && d.VerifyCached:
		return d.createStep(), true, nil
	case d.Live.IsGone:
		return d.step(Stale), true, nil
	}
	found, err := diff(d.Live.Object, d.desired)
	if err != nil {
		return Step{}, false, err
	}
	live, missing := Inspect(d.HubID, d.App, d.Entry, d.Live.Object), found.missing
	isComplete := missing.Empty() && !live.needsStamp
	if isComplete && !d.VerifyCached {
		return d.step(Stale), true, nil
	}
	d.current, d.missing = live, missing
	if isComplete {
		return d.step(Unchanged), true, nil
	}
	if blocker := d.current.Blocker(d.App.Spec.ConflictPolicy); blocker != nil {
		return d.blocked(blocker), true, nil
	}
	return Step{}, false, nil
}

// inherit takes over the object of an earlier AppService of this name, which the hub no longer has.
// docs/decisions/objects-of-a-previous-appservice-are-inherited.md says why.
func (d *decision) inherit() Step {
	step := d.applyStep(Adopt)
	step.PreviousUID = types.UID(d.current.GetAnnotations()[v1alpha1.AnnotationUID])
	return step
}
