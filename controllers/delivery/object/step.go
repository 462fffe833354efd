package object

import (
	"fmt"
	"maps"
	"strconv"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/lineage"
	"github.com/fleetwright/fleetwright/controllers/workload"
)

// Action is what a step does.
type Action string

const (
	// Unchanged: the object holds every desired field, or lacks only what the member discards.
	Unchanged Action = "Unchanged"
	// Stale: the member's cache is behind the member. The watch brings the next try.
	Stale Action = "Stale"
	// Blocked: the object must not be changed; Blocker says why.
	Blocked Action = "Blocked"
	// NeedLive: the decision needs what Need names, from the member itself.
	NeedLive Action = "NeedLive"
	// Create: there is no object.
	Create Action = "Create"
	// Update: the desired state has changed.
	Update Action = "Update"
	// Record: only the record of copies differs. The pods of the Deployment stay, so it is no
	// change for those who watch its rollout.
	Record Action = "Record"
	// Correct: another manager has changed the object. Managers and Fields name it.
	Correct Action = "Correct"
	// Adopt: the object is unmanaged, or has a PreviousUID. It cannot be undone, so a live read of
	// the hub must confirm it before it is done.
	Adopt Action = "Adopt"
)

// Need is what a decision needs to know from the member itself.
type Need string

const (
	// NeedObject: the object itself.
	NeedObject Need = "Object"
	// NeedAutoscalers: whether an autoscaler scales the Deployment.
	NeedAutoscalers Need = "Autoscalers"
	// NeedDryRun: what an apply of Desired would give.
	NeedDryRun Need = "DryRun"
)

// Step is what to do next for an object. It is a value: nothing has happened yet.
type Step struct {
	Action Action
	// Need is what to read if the action is NeedLive.
	Need Need
	// OnConflict is what to read if the member has another version of the object than the cached
	// one, and the update is allowed only for that one. It is empty if any version may be updated.
	OnConflict Need
	// Object is the object before the step, as it was last read; nil if there is none.
	Object client.Object
	// Desired is what is sent; nil if nothing is. It names the UID of the object, and the version
	// if no other may be changed.
	Desired *unstructured.Unstructured
	// Blocker is set if the action is Blocked.
	Blocker *Blocker
	// Managers changed the Fields of an object that the step corrects.
	Managers, Fields string
	// PreviousUID is the UID of the AppService that an object is inherited from.
	PreviousUID types.UID
	// Restart is why an adoption replaces the pods; empty if it does not.
	Restart string
	// Memory is to be remembered when the step is done.
	Memory Memory

	// takeOver is how an unmanaged object is adopted.
	takeOver takeOver
	// question says what a dry run is for.
	question string
	live     Live
}

// takeOver is how Fleetwright becomes the owner of an unmanaged object.
type takeOver string

const (
	// takeFields takes the fields that the object already has as they are desired.
	takeFields takeOver = "takeFields"
	// replaceLists replaces the lists that an apply would merge, and then takes the fields.
	replaceLists takeOver = "replaceLists"
)

// Drift describes who has changed what of the object.
func (s Step) Drift() string {
	return fmt.Sprintf("%s changed %s of %s %s", s.Managers, s.Fields, KindOf(s.Object), s.Object.GetName())
}

// Result is what came of a step.
type Result struct {
	Step
	// Live is set if the step needs it: decide again with it.
	Live *Live
	// UID is the UID of an object that was created.
	UID types.UID
	// Generation is the generation of a Deployment after its record was written, or 0 if the member
	// has another version of it.
	Generation int64
}

// IsApplied reports whether the desired state was sent.
func (r Result) IsApplied() bool {
	switch r.Action {
	case Create, Update, Correct, Adopt:
		return true
	}
	return false
}

// IsChange reports whether the member may have changed, other than by a record.
func (r Result) IsChange() bool {
	return r.Action != "" && r.Action != Unchanged && r.Action != Record
}

// step returns a step that sends nothing.
func (d *decision) step(action Action) Step {
	step := Step{Action: action, Object: d.current.Object, Memory: d.Memory, live: d.Live}
	if d.holdsAll {
		step.Memory.Pruned = Pruned{}
	}
	return step
}

func (d *decision) readStep(need Need) Step {
	step := d.step(NeedLive)
	step.Need = need
	return step
}

func (d *decision) blocked(blocker *Blocker) Step {
	step := d.step(Blocked)
	step.Blocker = blocker
	return step
}

// createStep returns a step that fails if there is an object of that name. The cache is selected by
// label, so it does not show unmanaged objects: an apply must not overwrite one. An apply with a
// resource version creates an object, or conflicts; no object has version 1.
// docs/decisions/a-create-never-merges.md says why.
func (d *decision) createStep() Step {
	step := d.step(Create)
	step.Object = nil
	step.Desired = d.stamp()
	step.Desired.SetResourceVersion("1")
	step.Memory.applied = hashOf(d.desired)
	return step
}

// applyStep returns a step that applies the desired state to the current object. An object that took
// its place is not changed.
func (d *decision) applyStep(action Action) Step {
	step := d.step(action)
	step.Desired = d.stamp()
	step.Desired.SetUID(d.current.GetUID())
	if d.onlyVersion != "" {
		step.Desired.SetResourceVersion(d.onlyVersion)
		step.OnConflict = NeedAutoscalers
	}
	step.Memory.applied = hashOf(d.desired)
	return step
}

// recordStep returns a step that applies a Deployment that lacks nothing but its record of copies. It
// applies the version that was compared: the replicas of any other version may be those of an
// autoscaler.
func (d *decision) recordStep() Step {
	step := d.step(Record)
	step.Desired = d.stamp()
	step.Desired.SetUID(d.current.GetUID())
	step.Desired.SetResourceVersion(d.current.GetResourceVersion())
	return step
}

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
		// An empty record replaces one that another manager has written, which would stay
		// otherwise.
		if d.Copies != "" || d.Existing != nil && d.current.GetAnnotations()[v1alpha1.AnnotationCopies] != "" {
			annotations[v1alpha1.AnnotationCopies] = d.Copies
		}
	}
	stamped.SetAnnotations(annotations)
	return stamped
}
