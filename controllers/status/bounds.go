package status

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
)

// outOfBounds says what to change where a division could not be exact, for the bounds of the clusters contradict what is to be divided; empty
// where it is exact. The clusters run what comes closest. Short tells that they run less than is asked for.
func (in report) outOfBounds() (contradiction string, short bool) {
	if !in.IsDivided() {
		return "", false
	}
	var replicas, least, most int64 // of all chosen; the bounds may be such that 32 bits do not hold their sum
	var chosen bool
	for _, decision := range in.Plan {
		if decision.Chosen() && in.Members[decision.Cluster] != nil {
			chosen = true
			replicas += int64(decision.Replicas)
			least += int64(decision.MinReplicas)
			most += int64(decision.MaxReplicas)
		}
	}
	autoscaling := in.App.Spec.Autoscaling
	switch {
	case !chosen:
		return "", false
	case autoscaling == nil:
		wants := in.App.DesiredReplicas()
		return in.contradiction(replicas, wants, "spec.replicas"), replicas < int64(wants)
	}
	wants := int32(1)
	if autoscaling.MinReplicas != nil {
		wants = *autoscaling.MinReplicas
	}
	return cmp.Or(
		in.contradiction(least, wants, "spec.autoscaling.minReplicas"),
		in.contradiction(most, autoscaling.MaxReplicas, "spec.autoscaling.maxReplicas"),
	), least < int64(wants) || most < int64(autoscaling.MaxReplicas)
}

// contradiction says which bounds keep the shares of all clusters from adding up to what a field asks for, and what can be done.
func (in report) contradiction(sum int64, wants int32, field string) string {
	switch {
	case sum < int64(wants):
		raise := "maxReplicas"
		if slices.ContainsFunc(in.App.Spec.ReplicaPolicy.Rules, func(r v1alpha1.ReplicaRule) bool { return r.Weight != nil && *r.Weight == 0 }) {
			raise = "maxReplicas, or a weight of 0," // a cluster of that weight gets its minReplicas and no more
		}
		return fmt.Sprintf("the clusters' maxReplicas together allow %d of %d replicas: raise %s in spec.replicaPolicy.rules, add clusters, or lower %s", sum, wants, raise, field)
	case sum > int64(wants):
		return fmt.Sprintf("the clusters' minReplicas together ask for %d of %d replicas: lower minReplicas in spec.replicaPolicy.rules, choose fewer clusters, or raise %s", sum, wants, field)
	}
	return ""
}
