package status

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
)

// outOfBounds returns what to change when a division is not exact. A division is not exact if the
// bounds of the clusters contradict the total that is divided. The clusters then run the closest
// possible division, and short reports whether they run less than the spec asks for. The
// contradiction is empty if the division is exact.
func (c choice) outOfBounds() (contradiction string, short bool) {
	if !c.app.DividesReplicas() {
		return "", false
	}
	var replicas, least, most int64 // sums over the chosen clusters; a sum of bounds may exceed 32 bits
	var chosen bool
	for decision := range c.chosen() {
		chosen = true
		replicas += int64(decision.Replicas)
		least += int64(decision.MinReplicas)
		most += int64(decision.MaxReplicas)
	}
	autoscaling := c.app.Spec.Autoscaling
	switch {
	case !chosen:
		return "", false
	case autoscaling == nil:
		wants := c.app.DesiredReplicas()
		return c.contradiction(replicas, wants, "spec.replicas"), replicas < int64(wants)
	}
	wants := int32(1)
	if autoscaling.MinReplicas != nil {
		wants = *autoscaling.MinReplicas
	}
	return cmp.Or(
		c.contradiction(least, wants, "spec.autoscaling.minReplicas"),
		c.contradiction(most, autoscaling.MaxReplicas, "spec.autoscaling.maxReplicas"),
	), least < int64(wants) || most < int64(autoscaling.MaxReplicas)
}

// contradiction returns which bounds prevent the shares of all clusters from adding up to the value
// of a field, and what to change. It returns "" if they add up.
func (c choice) contradiction(sum int64, wants int32, field string) string {
	switch {
	case sum < int64(wants):
		raise := "maxReplicas"
		if slices.ContainsFunc(c.app.Spec.ReplicaPolicy.Rules, func(r v1alpha1.ReplicaRule) bool { return r.Weight != nil && *r.Weight == 0 }) {
			raise = "maxReplicas, or a weight of 0," // a cluster of weight 0 gets only its minReplicas
		}
		return fmt.Sprintf("the clusters' maxReplicas together allow %d of %d replicas: raise %s in spec.replicaPolicy.rules, add clusters, or lower %s", sum, wants, raise, field)
	case sum > int64(wants):
		return fmt.Sprintf("the clusters' minReplicas together require %d replicas instead of %d: lower minReplicas in spec.replicaPolicy.rules, choose fewer clusters, or raise %s", sum, wants, field)
	}
	return ""
}
