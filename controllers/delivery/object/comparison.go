package object

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fleetwright/fleetwright/controllers/workload"
)

// Comparison identifies the comparison of an object with its desired state: two equal comparisons
// have the same result. The caller remembers one that found nothing to do, so that it need not be
// repeated. That saves most of the work of a reconcile which changes nothing.
type Comparison struct {
	// uid and resourceVersion identify the content of the existing object. A member that was
	// restored may use a resource version again.
	uid             types.UID
	resourceVersion string
	// hash is the hash of the desired object as it is rendered.
	hash string
	// generation, replicas and maxReplicas decide whether spec.replicas is desired. The hash does
	// not cover that.
	generation            int64
	replicas, maxReplicas int32
}

// comparisonOf returns the comparison of an existing object with its desired state. It returns nil
// if the hash does not identify the desired state: an adopted Deployment has changed the selectors
// of all desired objects.
func comparisonOf(facts Facts, desired *unstructured.Unstructured) *Comparison {
	existing := facts.Existing.Object
	if workload.HasOwnSelector(facts.Deployment) {
		return nil
	}
	return &Comparison{
		uid: existing.GetUID(), resourceVersion: existing.GetResourceVersion(), hash: hashOf(desired),
		generation: facts.App.Generation, replicas: facts.Entry.Replicas, maxReplicas: facts.Entry.MaxReplicas,
	}
}

// isRepeated reports whether a comparison was made before.
func (c *Comparison) isRepeated(last *Comparison) bool {
	return c != nil && last != nil && *c == *last
}
