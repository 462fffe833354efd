package rollout

import (
	"cmp"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/placement"
)

// RestStage is the name of the last stage, of the clusters that no other stage matches.
const RestStage = "(rest)"

// The defaults of spec.rollout.
const (
	defaultMaxUnavailable = 25 // percent
	defaultMinReady       = 60 * time.Second
	// A cluster may take this much longer to become available than its Deployment to progress.
	deadlineMargin          = 300 * time.Second
	defaultProgressDeadline = 600 * time.Second
)

// StageError is an error in the selector of a stage.
type StageError struct {
	// Stage is the name of the stage.
	Stage string
	// Err says what is wrong.
	Err error
}

func (e *StageError) Error() string { return e.Err.Error() }

// Unwrap returns what is wrong.
func (e *StageError) Unwrap() error { return e.Err }

// stage is a stage with its clusters.
type stage struct {
	v1alpha1.RolloutStage
	// status is the next status of the stage.
	status v1alpha1.RolloutStageStatus
	// isNew is set if the status of the rollout does not have the stage yet.
	isNew bool
	// clusters are in the order in which they get the target.
	clusters []*stagedCluster
}

// stagedCluster is a cluster in a stage.
type stagedCluster struct {
	*entryPlan
	rank  uint64
	stage *stage
	// isConfirmed is set if this process has observed the cluster.
	isConfirmed bool
}

// stagedClusters returns the clusters that belong to stages, in the order of their placement rank.
// Clusters that leave the plan, are removed or are detached belong to none. Without spec.rollout, the
// order has no meaning.
func (in Input) stagedClusters(plans []entryPlan) []*stagedCluster {
	ranks := placement.RanksOf(in.App)
	all := make([]stagedCluster, 0, len(plans))
	for i := range plans {
		if e := &plans[i]; e.member != nil && !e.isLeaving && IsPlanned(e.entry) && !awaitsRemoval(e.entry) {
			all = append(all, stagedCluster{entryPlan: e, rank: ranks.Of(e.entry.Name), isConfirmed: e.seen != nil && e.member.IsReady() && !e.isOutdated()})
		}
	}
	clusters := make([]*stagedCluster, len(all))
	for i := range all {
		clusters[i] = &all[i]
	}
	if in.App.Spec.Rollout != nil {
		slices.SortFunc(clusters, func(a, b *stagedCluster) int {
			return cmp.Or(cmp.Compare(a.rank, b.rank), cmp.Compare(a.entry.Name, b.entry.Name))
		})
	}
	return clusters
}

// isOutdated reports whether the observation of an entry is from before a restore of the hub. The entry
// had been answered with its revision, and the observation is about another one.
func (e *entryPlan) isOutdated() bool {
	if e.previous == nil || e.seen == nil || e.seen.Found || e.seen.Revision == 0 {
		return false
	}
	return e.previous.ObservedGeneration >= e.previous.Generation && e.seen.Revision != e.previous.Revision
}

// stagesOf returns the stages of spec.rollout, with the clusters.
func (r *revisions) stagesOf(clusters []*stagedCluster) ([]*stage, *StageError) {
	spec := r.in.App.Spec.Rollout
	stages := make([]*stage, 0, len(spec.Stages)+1)
	for _, s := range spec.Stages {
		path := fmt.Sprintf("spec.rollout.stages[name=%s]", s.Name)
		match, err := placement.CompileMatch(path, s.ClusterMatch)
		if err != nil {
			return nil, &StageError{Stage: s.Name, Err: err}
		}
		next := newStage(s, spec.RolloutPace)
		r.take(next, clusters, match.Matches)
		stages = append(stages, next)
	}
	last := newStage(v1alpha1.RolloutStage{Name: RestStage}, spec.RolloutPace)
	r.take(last, clusters, func(*v1alpha1.MemberCluster) bool { return true })
	return append(stages, last), nil
}

// newStage returns a stage without clusters. The pace of the rollout applies where the stage has
// none.
func newStage(spec v1alpha1.RolloutStage, pace v1alpha1.RolloutPace) *stage {
	spec.MaxUnavailable = cmp.Or(spec.MaxUnavailable, pace.MaxUnavailable)
	spec.MinReadySeconds = cmp.Or(spec.MinReadySeconds, pace.MinReadySeconds)
	spec.MaxFailures = cmp.Or(spec.MaxFailures, pace.MaxFailures)
	return &stage{RolloutStage: spec}
}

// take takes the clusters that match a stage and that no earlier stage has, in their order. The limit
// chooses as the limit of a placement does, by their standing.
func (r *revisions) take(s *stage, clusters []*stagedCluster, matches func(*v1alpha1.MemberCluster) bool) {
	var matching []*stagedCluster
	for _, c := range clusters {
		if c.stage == nil && matches(c.member) {
			matching = append(matching, c)
		}
	}
	for _, i := range r.places(s, matching) {
		c := matching[i]
		c.stage = s
		s.clusters = append(s.clusters, c)
	}
}

// places returns the indices of the matching clusters that belong to a stage, in their order.
func (r *revisions) places(s *stage, matching []*stagedCluster) []int {
	contenders := make([]placement.Contender, len(matching)) // in the order of their rank
	for i, c := range matching {
		contenders[i] = placement.Contender{Member: c.member, Standing: r.standing(s, c), Rank: c.rank}
	}
	limit := min(len(matching), s.limitOf(len(matching)))
	places := placement.Order(contenders, s.SpreadKey)[:limit]
	slices.Sort(places)
	return places
}

// standing returns how well a cluster serves a stage with a limit; the lowest is the best. A cluster
// that got the target in the stage keeps its place, so that the choice does not change during a
// rollout. Clusters that cannot be reached, and those without pods, cannot prove the target, and come
// last.
func (r *revisions) standing(s *stage, c *stagedCluster) int {
	e := &c.entry
	switch {
	case e.Revision == r.status.Revision && e.Stage == s.Name:
		return 0
	case e.Phase == v1alpha1.ClusterUnknown, c.isEmpty():
		return 2
	}
	return 1
}

// hasPods reports whether any cluster of the stage runs pods, or is to run some. A scale-down may change
// that within a decision.
func (s *stage) hasPods() bool {
	return slices.ContainsFunc(s.clusters, func(c *stagedCluster) bool { return !c.isEmpty() })
}

// isEmpty reports whether the cluster runs no pods and is to run none. Then it is no evidence for a
// revision or against it. An autoscaler of the member may have scaled it to zero.
func (c *stagedCluster) isEmpty() bool {
	e := &c.entry
	return e.CurrentReplicas() == 0 && (e.Phase == v1alpha1.ClusterReady || e.Replicas == 0 && e.MaxReplicas == 0)
}

// limitOf returns how many of the matching clusters belong to the stage.
func (s *stage) limitOf(matching int) int {
	if s.Limit == nil {
		return matching
	}
	return max(1, scaled(*s.Limit, matching, true))
}

// maxUpdating returns how many clusters of the stage may be updating at the same time.
func (s *stage) maxUpdating() int {
	limit := intstr.FromString(strconv.Itoa(defaultMaxUnavailable) + "%")
	if s.MaxUnavailable != nil {
		limit = *s.MaxUnavailable
	}
	return max(1, scaled(limit, len(s.clusters), false))
}

// maxFailed returns how many clusters of the stage may fail.
func (s *stage) maxFailed() int {
	if s.MaxFailures == nil {
		return 0
	}
	return max(0, scaled(*s.MaxFailures, len(s.clusters), false))
}

// minReady returns how long a cluster of the stage must be Ready to be available.
func (s *stage) minReady() time.Duration {
	if s.MinReadySeconds == nil {
		return defaultMinReady
	}
	return seconds(*s.MinReadySeconds)
}

// soak returns how long the stage soaks.
func (s *stage) soak() time.Duration {
	if s.SoakSeconds == nil {
		return 0
	}
	return seconds(*s.SoakSeconds)
}

// progressDeadline returns how long a cluster may take to become available.
func (in Input) progressDeadline() time.Duration {
	if own := in.App.Spec.Rollout.ProgressDeadlineSeconds; own != nil {
		return seconds(*own)
	}
	if deployment := in.App.Spec.ProgressDeadlineSeconds; deployment != nil {
		return seconds(*deployment) + deadlineMargin
	}
	return defaultProgressDeadline + deadlineMargin
}

func seconds(n int32) time.Duration { return time.Duration(max(0, n)) * time.Second }

// scaled returns a number, or a percentage of the total. The schema allows nothing else: any other
// text is 0.
func scaled(value intstr.IntOrString, total int, roundUp bool) int {
	if value.Type == intstr.Int {
		return int(value.IntVal)
	}
	percent, err := strconv.Atoi(strings.TrimSuffix(value.StrVal, "%"))
	if err != nil {
		return 0
	}
	if roundUp {
		return (total*percent + 99) / 100
	}
	return total * percent / 100
}

// strategyOf returns a hash of what decides in which stage a cluster is, and which stages need
// approval.
func strategyOf(rollout *v1alpha1.Rollout) string {
	hash := fnv.New64a()
	for _, s := range rollout.Stages {
		data, err := json.Marshal(v1alpha1.RolloutStage{Name: s.Name, ClusterMatch: s.ClusterMatch, Limit: s.Limit, SpreadKey: s.SpreadKey, Approval: s.Approval})
		if err != nil {
			panic(err) // these fields can always be encoded
		}
		hash.Write(data)
	}
	return strconv.FormatUint(hash.Sum64(), 36)
}
