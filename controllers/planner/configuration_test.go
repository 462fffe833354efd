package planner

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
)

// configured makes the AppService have the ConfigMap settings.
func configured(app *v1alpha1.AppService) {
	app.Spec.Configuration = []v1alpha1.ConfigurationSource{{Kind: v1alpha1.ConfigurationConfigMap, Name: "settings"}}
}

// waitsFor makes an entry wait for the configuration.
func waitsFor(reason string) func(*v1alpha1.ClusterStatus) {
	return func(entry *v1alpha1.ClusterStatus) {
		entry.Revision, entry.Reason, entry.Message = 0, reason, "waits for the configuration: the condition Ready says what is missing"
	}
}

func TestAppService_waits_for_its_configuration(t *testing.T) {
	t.Parallel()
	s := newFixture(t, "east")
	configured(s.app)
	s.createApp()
	s.waitForEntries(s.entry("east", v1alpha1.ClusterPending, waitsFor(v1alpha1.ReasonPropagationDisabled)))
	disabled := "nothing may leave namespace " + s.app.Namespace + " of the hub: ask an administrator to add it to the flag --propagate-from of Fleetwright; there is no new revision until then"
	s.checkCondition(v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonPropagationDisabled, disabled+"; 1 of 1 cluster not ready: east (PropagationDisabled)")
	s.checkCondition(v1alpha1.ConditionReconciling, metav1.ConditionTrue, v1alpha1.ReasonPropagationDisabled, disabled+"; 1 of 1 cluster not ready: east (PropagationDisabled)")
	s.checkCondition(v1alpha1.ConditionConfigured, metav1.ConditionFalse, v1alpha1.ReasonPropagationDisabled, disabled)
	s.checkRevisions(map[string]string{})
	s.checkWrites("PATCH appservices/web", "PATCH appservices/web/status")
	s.restart()
	s.reconcileOnce()
	s.checkWrites()

	s.edit(func(app *v1alpha1.AppService) { app.Spec.Configuration = nil })
	s.revision = 1
	s.waitForEntries(s.entry("east", v1alpha1.ClusterPending))
	s.readApp()
	if diff := cmp.Diff([]v1alpha1.ConfigurationStatus(nil), s.app.Status.Configuration); diff != "" {
		t.Errorf("status.configuration (-want +got):\n%s", diff)
	}
}

// An edit that waits for a source changes nothing else: the clusters keep the revision before it, and
// fields that take effect immediately do.
func TestEdit_waits_for_a_source(t *testing.T) {
	t.Parallel()
	s := newRunning(t, "east")
	s.edit(func(app *v1alpha1.AppService) {
		configured(app)
		app.Spec.Image, app.Spec.Replicas = "web:2", new(int32(3))
	})
	s.revision = 1
	s.waitForPlan()
	s.report("east", s.readyObservation())
	s.waitForEntries(s.entry("east", v1alpha1.ClusterReady))
	s.checkCondition(v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonPropagationDisabled,
		"nothing may leave namespace "+s.app.Namespace+" of the hub: ask an administrator to add it to the flag --propagate-from of Fleetwright; there is no new revision until then")
	if got := s.app.Status.Summary; got.UpToDate != "0/1" || got.Display != "1/1" {
		t.Errorf("the summary is %+v", got)
	}
	s.join("west") // it gets the revision that exists
	s.waitForRevisions(map[string]int64{"east": 1, "west": 1})
	s.checkRevisions(map[string]string{"web-1": "web:1"})
	s.checkRestart("east")

	s.edit(func(app *v1alpha1.AppService) { app.Spec.Configuration = nil })
	s.waitForRevisions(map[string]int64{"east": 2, "west": 2})
	s.checkRevisions(map[string]string{"web-1": "web:1", "web-2": "web:2"})
}
