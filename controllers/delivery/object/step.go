package object

import (
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
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
	// Need is what to read if the action is NeedLive. An Update that is allowed only for the cached
	// version of the object needs it if the member has another version.
	Need Need
	// Object is the object before the step, as it was last read; nil if there is none.
	Object client.Object
	// Desired is what is sent; nil if nothing is. It names the UID of the object, and the version if
	// no other may be changed.
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
