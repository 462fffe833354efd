package object

import (
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
)

// Facts are everything that [Decide] decides on.
type Facts struct {
	HubID string
	App   *v1alpha1.AppService
	Entry *v1alpha1.ClusterStatus
	// Existing is the object in the member's cache; nil if there is none.
	Existing *Existing
	// KeepsSelector is set if the Deployment was adopted with a selector of its own. It is the
	// selector of every object that is desired.
	KeepsSelector bool
	// HasRolledOut is set if the Deployment is owned and completely available. A Service is adopted
	// only then.
	HasRolledOut bool
	// VerifyCached is set for an object whose watch may have ended unnoticed: its cached copy is
	// compared with the member itself before the object is changed.
	VerifyCached bool
	// CorrectionDelay is how long drift must not be corrected.
	CorrectionDelay time.Duration
	// Copies is the record of copies that the Deployment must have; empty if there are none. It is
	// compared with the record that the Deployment has, and a difference is no drift.
	Copies string
	// Memory is that of the last [Result] for the object. It may be empty at any time.
	Memory Memory
	// Live is what was read from the member itself for this decision. It is empty at first.
	Live Live
	Now  time.Time
}

// Live is what was read from the member itself for one decision.
type Live struct {
	// Object is the object with its managed fields, which the cache drops. It is nil if it was not
	// read, or IsGone.
	Object client.Object
	IsGone bool
	// Scaling says whether an autoscaler scales the Deployment; empty if that was not read.
	Scaling Scaling
	// Answer is the answer to a dry run; nil if there was none. Refusal is the error instead of it.
	Answer  *unstructured.Unstructured
	Refusal error
}

// Scaling says whether an autoscaler scales a Deployment.
type Scaling string

const (
	// Scaled: a HorizontalPodAutoscaler names the Deployment.
	Scaled Scaling = "Scaled"
	// NotScaled: none names it.
	NotScaled Scaling = "NotScaled"
	// ScalingForbidden: the credentials do not allow to list autoscalers.
	ScalingForbidden Scaling = "Forbidden"
)
