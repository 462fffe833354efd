package stages

import (
	"encoding/json"
	"hash/fnv"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
)

// The defaults of spec.rollout.
const (
	defaultMaxUnavailable = 25 // percent
	defaultMinReady       = 60 * time.Second
	// A cluster may take this much longer to become available than its Deployment to progress.
	deadlineMargin          = 300 * time.Second
	defaultProgressDeadline = 600 * time.Second
)

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
	if rollout := in.App.Spec.Rollout; rollout != nil && rollout.ProgressDeadlineSeconds != nil {
		return seconds(*rollout.ProgressDeadlineSeconds)
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
