package delivery

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/observation"
	"github.com/fleetwright/fleetwright/internal/wait"
)

func TestInvalid_override_stops_the_cluster_and_changes_nothing_there(t *testing.T) {
	t.Parallel()
	s := deliveredSetup(t)
	s.sent.reset()
	s.edit(func(app *v1alpha1.AppService) {
		app.Spec.Image = "web:2"
		app.Spec.Overrides = []v1alpha1.Override{{
			Name:         "eu",
			ClusterMatch: v1alpha1.ClusterMatch{ClusterSelector: &v1alpha1.ClusterSelector{MatchLabels: map[string]string{"region": "eu"}}},
			Env:          []corev1.EnvVar{{Name: "ZONE", Value: "$(cluster.labels['zone'])"}},
		}}
	})
	s.plan()
	wait.Eventually(t, func() error {
		seen := s.reported.last(s.key(), s.cluster)
		if seen.Reason != v1alpha1.ReasonInvalidOverride || seen.Phase != v1alpha1.ClusterFailed || !strings.Contains(seen.Message, `override "eu"`) {
			return fmt.Errorf("reported %+v", seen)
		}
		return nil
	})
	s.expectWorkload(running)
	s.expectNoRequests(t, http.MethodPatch)

	// The missing label is added.
	mc := &v1alpha1.MemberCluster{}
	s.must(onHub.Get(t.Context(), client.ObjectKey{Name: s.cluster}, mc))
	mc.Labels["zone"] = "a"
	s.must(onHub.Update(t.Context(), mc))
	s.expectReady()
	s.expectWorkload("1 × web:2 A=1 ZONE=a; ClusterIP 80→8080/TCP")
}

func TestLoadBalancer_has_an_address_before_it_is_ready(t *testing.T) {
	t.Parallel()
	s := startedSetup(t, func(app *v1alpha1.AppService) {
		app.Spec.Service = &v1alpha1.Service{Type: corev1.ServiceTypeLoadBalancer}
	})
	s.plan()
	pending := s.ready()
	pending.Phase, pending.Reason = v1alpha1.ClusterProgressing, v1alpha1.ReasonLoadBalancerPending
	pending.Message = "Service web of type LoadBalancer has no address yet"
	s.expectReport(pending)

	service := s.service()
	service.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: "192.0.2.7"}, {Hostname: "lb.example"}}
	s.must(onMember.Status().Update(t.Context(), service))
	ready := s.ready()
	ready.Addresses = []string{"192.0.2.7", "lb.example"}
	s.expectReport(ready)
}

// A Deployment has minReadySeconds only if an override or the member adds it.
func TestReport_counts_available_pods(t *testing.T) {
	t.Parallel()
	s := deliveredSetup(t)
	setAvailable := func(available int32) {
		d := s.deployment()
		before := d.DeepCopy()
		d.Status.AvailableReplicas, d.Status.UnavailableReplicas = available, 1-available
		s.must(onMember.Status().Patch(t.Context(), d, client.MergeFrom(before)))
	}
	s.expectReport(s.ready())
	setAvailable(0)
	want := s.ready()
	want.Phase, want.Reason, want.Message = v1alpha1.ClusterProgressing, v1alpha1.ReasonRollingOut, "Available: 0/1"
	want.AvailableReplicas = new(int32(0))
	s.expectReport(want)
	setAvailable(1)
	s.expectReport(s.ready())
}

func TestReport_names_its_generation(t *testing.T) {
	t.Parallel()
	s := deliveredSetup(t)
	var reported []int32
	for _, seen := range s.reported.all(s.key(), s.cluster) {
		reported = append(reported, seen.Planned)
	}
	if slices.ContainsFunc(reported, func(n int32) bool { return n != 1 }) {
		t.Errorf("reports for entries of %v replicas", reported)
	}
}

func TestMember_reports_its_rollout(t *testing.T) {
	t.Parallel()
	s := startedSetup(t)
	s.plan()
	s.expectReport(s.ready())
	rolling := s.ready()
	rolling.Phase, rolling.Reason, rolling.Replicas, rolling.ReadyReplicas = v1alpha1.ClusterProgressing, v1alpha1.ReasonRollingOut, 0, 0
	if diff := cmp.Diff(rolling, s.reported.all(s.key(), s.cluster)[0]); diff != "" {
		t.Errorf("the first report (-want +got):\n%s", diff)
	}
}

// The hub's schema permits 1024 characters: a longer message would block status updates for all
// clusters.
func TestLong_message_of_a_member_is_shortened(t *testing.T) {
	t.Parallel()
	s := deliveredSetup(t)
	story := s.deployment()
	before := story.DeepCopy()
	story.Status.Conditions = append(story.Status.Conditions, appsv1.DeploymentCondition{
		Type: "Stalled", Status: corev1.ConditionTrue, Reason: "Story", Message: "once\n\x1b[31m" + strings.Repeat("é", 5000),
	})
	s.must(onMember.Status().Patch(t.Context(), story, client.MergeFrom(before)))
	var seen observation.Observation
	wait.Eventually(t, func() error {
		if seen = s.reported.last(s.key(), s.cluster); seen.Phase != v1alpha1.ClusterFailed {
			return fmt.Errorf("reported %+v, want Failed", seen)
		}
		return nil
	})
	if len(seen.Message) > 1024 || strings.ContainsAny(seen.Message, "\n\x1b") {
		t.Errorf("the message has %d bytes, and begins with %.20q", len(seen.Message), seen.Message)
	}
}
