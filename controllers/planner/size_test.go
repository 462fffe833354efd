package planner

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/observation"
	"github.com/fleetwright/fleetwright/controllers/placement"
	"github.com/fleetwright/fleetwright/controllers/rollout"
	"github.com/fleetwright/fleetwright/controllers/rollout/stages"
	"github.com/fleetwright/fleetwright/controllers/status"
)

// A bad edit fails on 1,300 clusters, each with a long message. The hub accepts the status.
func TestStatus_with_1300_failures_is_accepted_by_the_hub(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	s.stop() // the test replaces the planner
	s.must(s.hub.Create(t.Context(), s.app))
	in := rollout.Input{App: s.app, Revisions: stages.Revisions{Revision: s.revision}, Members: map[string]*v1alpha1.MemberCluster{}, Observations: map[string]observation.Observation{}, Now: metav1.Now().Rfc3339Copy()}
	for i := range 1300 {
		name := fmt.Sprintf("cluster-%04d.region-%d.example.com", i, i%10)
		member := &v1alpha1.MemberCluster{ObjectMeta: metav1.ObjectMeta{Name: name}}
		member.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue}}
		in.Members[name] = member
		in.Plan = append(in.Plan, placement.Decision{Cluster: name, Replicas: 2})
		seen := s.readyObservation()
		seen.Phase, seen.Reason, seen.Message = v1alpha1.ClusterFailed, v1alpha1.ReasonRefused, fmt.Sprintf("%d: %s", i, strings.Repeat("no ", 340))
		in.Observations[name] = seen
	}
	in.SliceThreshold = 2000
	decision := rollout.Plan(in)
	s.must(s.reconciler(s.hub).write(t.Context(), planned{have: stored{app: s.app}, in: in, decision: decision, next: status.Compute(in, decision)}))
	s.readApp()
	if got := s.app.Status.Summary.Failed; got != 1300 {
		t.Errorf("%d entries are Failed", got)
	}
	content, err := json.Marshal(s.app)
	s.must(err)
	t.Logf("%d bytes", len(content))
}
