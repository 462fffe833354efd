package placement

import (
	"fmt"
	"math"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
)

// maxWeight is the maximum weight, so that the weights of a million clusters add up in 64 bits. It
// equals 17 billion CPUs.
const maxWeight = 1 << 44

// replicaPolicy is the compiled form of all fields of a spec that set replicas.
type replicaPolicy struct {
	divided     bool
	allocatable bool
	rules       []rule
	overrides   []override
}

type rule struct {
	Matcher
	*v1alpha1.ReplicaRule
}

type override struct {
	Matcher
	replicas *int32
}

func compileReplicaPolicy(spec *v1alpha1.AppServiceSpec) (replicaPolicy, error) {
	var c replicaPolicy
	for i := range spec.Overrides {
		o := &spec.Overrides[i]
		match, err := CompileMatch(fmt.Sprintf("spec.overrides[name=%s]", o.Name), o.ClusterMatch)
		if err != nil {
			return replicaPolicy{}, err
		}
		if o.Replicas != nil {
			c.overrides = append(c.overrides, override{match, o.Replicas})
		}
	}
	if spec.ReplicaPolicy == nil {
		return c, nil
	}
	c.divided = spec.ReplicaPolicy.Type == v1alpha1.ReplicasDivided
	c.allocatable = spec.ReplicaPolicy.Weights == v1alpha1.WeightsAllocatable
	for i := range spec.ReplicaPolicy.Rules {
		r := &spec.ReplicaPolicy.Rules[i]
		match, err := CompileMatch(fmt.Sprintf("spec.replicaPolicy.rules[name=%s]", r.Name), r.ClusterMatch)
		if err != nil {
			return replicaPolicy{}, err
		}
		c.rules = append(c.rules, rule{match, r})
	}
	return c, nil
}

// decide returns the decisions for the chosen clusters, with their replicas.
func (c replicaPolicy) decide(app *v1alpha1.AppService, chosen []candidate) []Decision {
	decisions := make([]Decision, len(chosen))
	for i, of := range chosen {
		decisions[i].Cluster = of.member.Name
	}
	switch scaling := app.Spec.Autoscaling; {
	case c.divided && scaling != nil:
		c.divideScaling(scaling, chosen, decisions)
	case c.divided:
		c.divideReplicas(int64(app.DesiredReplicas()), chosen, decisions)
	case scaling != nil:
		least, most := scalingBounds(scaling)
		for i := range decisions {
			decisions[i].MinReplicas, decisions[i].MaxReplicas = least, most
			decisions[i].Replicas = within(app.DesiredReplicas(), least, most)
		}
	default:
		for i, of := range chosen {
			decisions[i].Replicas = c.overridden(app.DesiredReplicas(), of.member)
		}
	}
	return decisions
}

// overridden returns the replicas of a member after its overrides. The last matching override wins.
func (c replicaPolicy) overridden(replicas int32, member *v1alpha1.MemberCluster) int32 {
	for _, o := range c.overrides {
		if o.Matches(member) {
			replicas = *o.replicas
		}
	}
	return replicas
}

func scalingBounds(scaling *v1alpha1.Autoscaling) (least, most int32) {
	least = 1
	if scaling.MinReplicas != nil {
		least = *scaling.MinReplicas
	}
	return least, max(least, scaling.MaxReplicas)
}

func (c replicaPolicy) divideReplicas(total int64, chosen []candidate, decisions []Decision) {
	bounds := c.boundsOf(chosen)
	shares := sharesOf(chosen, bounds, func(entry *v1alpha1.ClusterStatus) int32 { return entry.Replicas })
	divide(total, shares)
	for i, share := range shares {
		decisions[i].Replicas, decisions[i].Weight = int32(share.given), c.weightOf(bounds[i])
	}
}

// divideScaling divides the bounds of spec.autoscaling: first minReplicas, then maxReplicas among
// the clusters that got a part of minReplicas.
func (c replicaPolicy) divideScaling(scaling *v1alpha1.Autoscaling, chosen []candidate, decisions []Decision) {
	least, most := scalingBounds(scaling)
	bounds := c.boundsOf(chosen)
	mins := sharesOf(chosen, bounds, currentMin)
	divide(int64(least), mins)
	for i, share := range mins {
		bounds[i].least = share.given
	}
	maxs := sharesOf(chosen, bounds, currentMax)
	var scaled []*share
	for i, share := range maxs {
		if bounds[i].least > 0 {
			scaled = append(scaled, share)
		}
	}
	divide(int64(most), scaled)
	for i, of := range chosen {
		d := &decisions[i]
		d.MinReplicas, d.MaxReplicas = int32(mins[i].given), int32(maxs[i].given)
		d.Weight = c.weightOf(bounds[i])
		d.Replicas = d.MinReplicas
		if of.runs() {
			d.Replicas = within(of.entry.Replicas, d.MinReplicas, d.MaxReplicas)
		}
	}
}

// currentMin returns the current minimum of the autoscaler of a cluster. A cluster without an
// autoscaler has its replicas as both bounds.
func currentMin(entry *v1alpha1.ClusterStatus) int32 {
	if entry.MaxReplicas == 0 {
		return entry.Replicas
	}
	return entry.MinReplicas
}

// currentMax returns the current maximum of the autoscaler of a cluster.
func currentMax(entry *v1alpha1.ClusterStatus) int32 {
	if entry.MaxReplicas == 0 {
		return entry.Replicas
	}
	return entry.MaxReplicas
}

// shareBounds are the weight of a cluster in a division and the bounds of its share.
type shareBounds struct {
	weight      uint64
	least, most int64
}

func (c replicaPolicy) boundsOf(chosen []candidate) []shareBounds {
	all := make([]shareBounds, len(chosen))
	for i, of := range chosen {
		all[i] = c.matchRule(of.member)
	}
	if c.allocatable {
		for i, weight := range capacities(chosen) {
			all[i].weight = weight
		}
	}
	return all
}

// weightOf returns the weight to record in the status: the weight if the share follows the capacity
// of the cluster, otherwise 0.
func (c replicaPolicy) weightOf(t shareBounds) int64 {
	if !c.allocatable {
		return 0
	}
	return int64(t.weight)
}

// matchRule returns the bounds of the first rule that matches the member.
func (c replicaPolicy) matchRule(member *v1alpha1.MemberCluster) shareBounds {
	t := shareBounds{weight: 1, most: math.MaxInt32}
	for _, r := range c.rules {
		if !r.Matches(member) {
			continue
		}
		if r.Weight != nil {
			t.weight = uint64(max(0, *r.Weight))
		}
		if r.MinReplicas != nil {
			t.least = int64(max(0, *r.MinReplicas))
		}
		if r.MaxReplicas != nil {
			t.most = int64(*r.MaxReplicas)
		}
		break
	}
	t.most = max(t.least, t.most)
	return t
}

// capacities returns the CPU of the clusters in thousandths. An unknown capacity counts as the
// smallest known one. A cluster keeps the weight from which its share was computed while its CPU
// differs from that weight by less than a tenth, or is no longer known. So a node that comes and
// goes moves no replicas: docs/decisions/shares-by-capacity-have-hysteresis.md.
func capacities(chosen []candidate) []uint64 {
	all := make([]uint64, len(chosen))
	smallest := uint64(maxWeight)
	known := false
	for i, of := range chosen {
		all[i] = thousandths(of.member.Status.Allocatable[corev1.ResourceCPU])
		if of.entry != nil && isNear(all[i], of.entry.Weight) {
			all[i] = uint64(of.entry.Weight)
		}
		if all[i] > 0 {
			smallest, known = min(smallest, all[i]), true
		}
	}
	if !known {
		smallest = 1
	}
	for i := range all {
		if all[i] == 0 {
			all[i] = smallest
		}
	}
	return all
}

// isNear reports whether a capacity is unknown, or differs by less than a tenth from the weight
// from which the share was computed. It returns false if no valid weight is recorded.
func isNear(capacity uint64, weight int64) bool {
	if weight <= 0 || weight > maxWeight {
		return false
	}
	difference := int64(capacity) - weight
	return capacity == 0 || max(difference, -difference) < (weight+9)/10
}

// thousandths returns a quantity in thousandths, limited to the range from 0 to [maxWeight],
// because a member may report any value.
func thousandths(q resource.Quantity) uint64 {
	switch {
	case q.Sign() <= 0:
		return 0
	case q.CmpInt64(maxWeight/1000) >= 0:
		return maxWeight
	}
	return uint64(q.MilliValue())
}

func within(n, least, most int32) int32 { return min(max(n, least), most) }
