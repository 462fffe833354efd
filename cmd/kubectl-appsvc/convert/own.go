package convert

import (
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
)

// labelName is a label that an AppService sets to its name on all of its objects.
const labelName = "app.kubernetes.io/name"

// ownPrefix begins the labels and annotations that only Fleetwright sets.
const ownPrefix = "fleetwright.dev/"

// setByOthers are the other labels and annotations that Fleetwright, kubectl and the API server set.
var setByOthers = []string{labelName, v1alpha1.LabelManagedBy, corev1.LastAppliedConfigAnnotation, "deployment.kubernetes.io/revision"}

// withoutOwn returns labels or annotations without those that an AppService must not have, because
// Fleetwright, kubectl or the API server sets them.
func withoutOwn(all map[string]string) map[string]string {
	kept := maps.Clone(all)
	maps.DeleteFunc(kept, func(key, _ string) bool {
		return strings.HasPrefix(key, ownPrefix) || slices.Contains(setByOthers, key)
	})
	if len(kept) == 0 {
		return nil
	}
	return kept
}

// noteManaged says that the Deployment is managed by an AppService, if it is.
func (from *source) noteManaged() {
	if name := from.deployment.Labels[v1alpha1.LabelAppService]; name != "" {
		from.note("Deployment %s is managed by AppService %s already, which the hub has: kubectl get appsvc %s -o yaml", from.deployment.Name, name, name)
	}
}
