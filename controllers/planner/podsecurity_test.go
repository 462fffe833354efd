package planner

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/observation"
	"github.com/fleetwright/fleetwright/controllers/planner/revise"
	"github.com/fleetwright/fleetwright/controllers/podsecurity"
	"github.com/fleetwright/fleetwright/controllers/revision"
	"github.com/fleetwright/fleetwright/internal/wait"
)

const (
	enforce   = "pod-security.kubernetes.io/enforce"
	violation = `violates PodSecurity "baseline:v1.36": host namespaces (hostNetwork=true)`
)

// onHostNetwork makes an override run the pods of some clusters, or of all, in the network of the
// node.
func onHostNetwork(clusters ...string) func(*v1alpha1.AppService) {
	return func(app *v1alpha1.AppService) {
		app.Spec.Overrides = []v1alpha1.Override{{
			Name: "net", ClusterMatch: v1alpha1.ClusterMatch{ClusterNames: clusters},
			Patches: []v1alpha1.Patch{{Target: v1alpha1.PatchDeployment, Operations: []v1alpha1.PatchOperation{
				{Op: "add", Path: "/spec/template/spec/hostNetwork", Value: &v1alpha1.JSON{Raw: []byte("true")}},
			}}},
		}}
	}
}

// newSecured returns a scene with a planner that allows the level baseline to namespaces without a
// label.
func newSecured(t *testing.T, members ...string) *fixture {
	s := newFixture(t, members...)
	s.stop()
	s.options.PodSecurityLevel = podsecurity.Baseline
	s.start()
	return s
}

// label sets the label of the namespace.
func (s *fixture) label(level string) {
	s.Helper()
	namespace := &corev1.Namespace{}
	s.must(s.hub.Get(s.Context(), client.ObjectKey{Name: s.app.Namespace}, namespace))
	before := namespace.DeepCopy()
	metav1.SetMetaDataLabel(&namespace.ObjectMeta, enforce, level)
	s.must(s.hub.Patch(s.Context(), namespace, client.MergeFrom(before)))
}

// waitForRefusal waits until the spec is refused, and checks the message of Ready.
func (s *fixture) waitForRefusal(message string) {
	s.Helper()
	wait.Eventually(s.T, func() error {
		s.readApp()
		ready := meta.FindStatusCondition(s.app.Status.Conditions, v1alpha1.ConditionReady)
		if revise.IsEdited(s.app) || ready == nil || ready.Reason != v1alpha1.ReasonPodSecurityRefused {
			return fmt.Errorf("Ready is %+v", ready)
		}
		if diff := cmp.Diff(message, ready.Message); diff != "" {
			return fmt.Errorf("the message (-want +got):\n%s", diff)
		}
		return nil
	})
}

// checkRollout checks the policy of the revision, and whether the spec is refused.
func (s *fixture) checkRollout(number int64, isRefused bool, policy *v1alpha1.PodSecurity) {
	s.Helper()
	s.readApp()
	got := s.app.Status.Rollout
	want := v1alpha1.RolloutStatus{Revision: number, SpecRefused: isRefused, PodSecurity: policy}
	if diff := cmp.Diff(want, v1alpha1.RolloutStatus{Revision: got.Revision, SpecRefused: got.SpecRefused, PodSecurity: got.PodSecurity}); diff != "" {
		s.Errorf("status.rollout (-want +got):\n%s", diff)
	}
}

// storedRevisions returns the policies of the ControllerRevisions.
func (s *fixture) storedRevisions() map[int64]string {
	s.Helper()
	var list appsv1.ControllerRevisionList
	s.must(s.hub.List(s.Context(), &list, client.InNamespace(s.app.Namespace)))
	found := map[int64]string{}
	for i := range list.Items {
		stored, err := revision.Read(s.app, &list.Items[i])
		s.must(err)
		found[stored.Number] = "everything"
		if stored.PodSecurity != nil {
			found[stored.Number] = string(stored.PodSecurity.Level) + " " + stored.PodSecurity.Version
		}
	}
	return found
}

func (s *fixture) checkStored(want map[int64]string) {
	s.Helper()
	if diff := cmp.Diff(want, s.storedRevisions()); diff != "" {
		s.Errorf("revisions (-want +got):\n%s", diff)
	}
}

func TestPod_template_that_is_refused_is_not_planned(t *testing.T) {
	t.Parallel()
	s := newSecured(t, "east", "west")
	onHostNetwork()(s.app)
	s.createApp()
	s.waitForRefusal("the pod template " + violation + "; no cluster gets the AppService: change the spec, or let an administrator of the hub label namespace " +
		s.app.Namespace + " with another pod-security.kubernetes.io/enforce; 2 of 2 clusters not ready: east (PodSecurityRefused), west (PodSecurityRefused)")
	s.checkRollout(0, true, nil)
	s.checkStored(map[int64]string{})
	waits := []func(*v1alpha1.ClusterStatus){atRevision(0), withReason(v1alpha1.ReasonPodSecurityRefused, "waits for another spec: the condition Ready says why")}
	s.waitForEntries(s.entry("east", v1alpha1.ClusterPending, waits...), s.entry("west", v1alpha1.ClusterPending, waits...))
	s.restart()
	s.reconcileOnce()
	s.checkWrites()

	s.label("privileged") // by an administrator of the hub
	s.waitForEntries(s.entry("east", v1alpha1.ClusterPending), s.entry("west", v1alpha1.ClusterPending))
	s.checkRollout(1, false, nil)
	s.checkStored(map[int64]string{1: "everything"})
}

func TestRefused_edit_changes_everything_but_the_template(t *testing.T) {
	t.Parallel()
	s := newSecured(t, "east", "west")
	s.createApp()
	s.reportReady("east", "west")
	baseline := &v1alpha1.PodSecurity{Level: v1alpha1.PodSecurityBaseline, Version: "v1.36"}
	s.checkRollout(1, false, baseline)
	s.edit(func(app *v1alpha1.AppService) {
		onHostNetwork()(app)
		app.Spec.Image, app.Spec.Replicas = "web:2", new(int32(3))
	})
	s.revision = 1
	s.reportReady("east", "west") // it is scaled
	s.waitForRefusal("the pod template " + violation + "; the clusters keep revision 1: change the spec, or let an administrator of the hub label namespace " +
		s.app.Namespace + " with another pod-security.kubernetes.io/enforce")
	s.checkRollout(1, true, baseline)
	s.checkStored(map[int64]string{1: "baseline v1.36"})

	s.edit(func(app *v1alpha1.AppService) { app.Spec.Overrides = nil })
	s.waitForPlan()
	s.reportReady("east", "west")
	s.checkRollout(2, false, baseline)
}

func TestOverride_that_is_refused_fails_its_clusters(t *testing.T) {
	t.Parallel()
	s := newSecured(t, "east", "west")
	s.createApp()
	s.reportReady("east", "west")
	s.edit(func(app *v1alpha1.AppService) {
		onHostNetwork("east")(app)
		app.Spec.Image = "web:2"
	})
	s.waitForPlan()
	s.report("west", s.readyObservation())
	s.report("east", func() observation.Observation { seen := s.readyObservation(); seen.Revision = 1; return seen }())
	s.waitForEntries(
		s.entry("east", v1alpha1.ClusterFailed, atRevision(1), withReason(v1alpha1.ReasonPodSecurityRefused, "revision 2 "+violation+"; the cluster keeps revision 1")),
		s.entry("west", v1alpha1.ClusterReady))
	s.restart()
	s.reconcileOnce()
	s.checkWrites()

	s.label("privileged") // the same revision, under a policy that allows more
	s.waitForRevisions(map[string]int64{"east": 2})
	s.report("west", s.readyObservation())
	s.report("east", s.readyObservation())
	s.waitForEntries(s.entry("east", v1alpha1.ClusterReady), s.entry("west", v1alpha1.ClusterReady))
	s.checkRollout(2, false, nil)
	s.label("baseline") // what runs goes on
	s.edit(func(app *v1alpha1.AppService) { app.Spec.Replicas = new(int32(3)) })
	s.waitForPlan()
	s.report("west", s.readyObservation())
	s.report("east", s.readyObservation())
	s.waitForEntries(s.entry("east", v1alpha1.ClusterReady), s.entry("west", v1alpha1.ClusterReady))
}

// The operator before the upgrade allowed everything. What runs goes on: an upgrade, a label and a
// flag change no template that was stored before.
func TestPod_template_of_before_an_upgrade_runs_on(t *testing.T) {
	t.Parallel()
	s := newFixture(t, "east", "west")
	onHostNetwork()(s.app)
	s.createApp()
	s.reportReady("east", "west")
	s.checkStored(map[int64]string{1: "everything"})
	s.stop()
	s.options.PodSecurityLevel = podsecurity.Baseline
	s.start()
	s.report("east", s.readyObservation())
	s.report("west", s.readyObservation())
	s.reconcileOnce()
	s.checkWrites() // nothing is written only to add a policy
	s.label("restricted")
	s.waitForCache()
	s.reconcileOnce()
	s.checkWrites()

	s.edit(func(app *v1alpha1.AppService) { app.Spec.Replicas = new(int32(3)) })
	s.reportReady("east", "west")
	s.checkRollout(1, false, nil)

	s.edit(func(app *v1alpha1.AppService) { app.Spec.Image = "web:2" }) // a new template
	s.revision = 1
	s.reportReady("east", "west")
	wait.Eventually(t, func() error {
		if s.readApp(); !s.app.Status.Rollout.SpecRefused {
			return fmt.Errorf("the rollout is %+v", s.app.Status.Rollout)
		}
		return nil
	})
	s.edit(func(app *v1alpha1.AppService) { app.Spec.Image = "web:1" }) // what ran before
	s.revision = 1
	s.reportReady("east", "west")
	s.checkRollout(1, false, nil)

	s.join("north") // a first delivery
	s.report("east", s.readyObservation())
	refusal := `revision 1 violates PodSecurity "restricted:v1.36": host namespaces (hostNetwork=true), allowPrivilegeEscalation != false (container "app" must set securityContext.allowPrivilegeEscalation=false), ` +
		`unrestricted capabilities (container "app" must set securityContext.capabilities.drop=["ALL"]), runAsNonRoot != true (pod or container "app" must set securityContext.runAsNonRoot=true), ` +
		`seccompProfile (pod or container "app" must set securityContext.seccompProfile.type to "RuntimeDefault" or "Localhost"); the cluster does not get the AppService`
	s.waitForEntries(
		s.entry("east", v1alpha1.ClusterReady),
		s.entry("north", v1alpha1.ClusterFailed, atRevision(0), applied(0, 0), withReason(v1alpha1.ReasonPodSecurityRefused, refusal), func(entry *v1alpha1.ClusterStatus) { entry.Surging = true }),
		s.entry("west", v1alpha1.ClusterReady))
}

// An edit back to a template that ran before is no new template, also if another one became stable
// since.
func TestPod_template_of_the_history_keeps_its_policy(t *testing.T) {
	t.Parallel()
	s := newFixture(t, "east")
	onHostNetwork()(s.app)
	s.createApp()
	s.reportReady("east")
	s.stop()
	s.options.PodSecurityLevel = podsecurity.Baseline
	s.start()
	s.edit(func(app *v1alpha1.AppService) { app.Spec.Overrides, app.Spec.Image = nil, "web:2" })
	s.waitForPlan()
	s.reportReady("east")
	s.edit(func(app *v1alpha1.AppService) { onHostNetwork()(app); app.Spec.Image = "web:1" })
	s.waitForPlan()
	s.reportReady("east")
	s.checkStored(map[int64]string{1: "everything", 2: "baseline v1.36", 3: "everything"})
}
