package planner

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/configuration"
	"github.com/fleetwright/fleetwright/controllers/numbering"
	"github.com/fleetwright/fleetwright/controllers/observation"
	"github.com/fleetwright/fleetwright/controllers/planner/revise"
	"github.com/fleetwright/fleetwright/controllers/revision"
	"github.com/fleetwright/fleetwright/internal/wait"
)

// foundWith returns an observation of a workload on a cluster without an entry, whose Deployment has
// this value as its revision.
func (s *fixture) foundWith(number string) observation.Observation {
	deployment := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{v1alpha1.AnnotationRevision: number}}}
	return observation.Observation{UID: s.app.UID, Found: true, Planned: 2, Revision: revision.Of(deployment)}
}

// One member that reports an absurd revision raises no number, gets no such entry, and is named.
func TestAbsurd_revision_of_a_member_is_ignored_and_named(t *testing.T) {
	t.Parallel()
	for _, number := range []string{"999999999", "1000000000", "9223372036854775807"} {
		t.Run(number, func(t *testing.T) {
			s := newFixture(t, "east", "west")
			s.app.Spec.Placement = &v1alpha1.Placement{ClusterMatch: v1alpha1.ClusterMatch{ClusterNames: []string{"east"}}}
			s.createApp()
			s.waitForRevision(1)
			s.reportReady("east")
			s.report("west", s.foundWith(number))
			s.waitForEvent(v1alpha1.ReasonImplausibleNumber, "west", "west: an object has the revision "+number+
				", which is more than 1000000 above the revisions of this hub: the number is ignored; find out who writes the annotations of the objects there")
			s.edit(func(app *v1alpha1.AppService) { app.Spec.Image = "web:2" })
			s.waitForStoredRevisions(2)
			s.checkRevisions(map[string]string{"web-1": "web:1", "web-2": "web:2"})
			s.readApp()
			for _, entry := range s.app.Status.Clusters {
				if entry.Revision > 2 {
					t.Errorf("%s has revision %d", entry.Name, entry.Revision)
				}
			}
		})
	}
}

func TestWithoutOutliers(t *testing.T) {
	app := &v1alpha1.AppService{}
	app.Status.Rollout.Revision, app.Status.ConfigurationSerial, app.Status.Placement.Count = 3, 7, 2
	app.Status.Clusters = []v1alpha1.ClusterStatus{{Name: "east", Revision: 4}}
	held := func(serials ...int64) observation.Observation {
		o := observation.Observation{Revision: 4}
		for _, serial := range serials {
			o.Configuration = append(o.Configuration, observation.ConfigurationSerial{Kind: v1alpha1.ConfigurationSecret, Copy: "web-tls", Serial: serial})
		}
		return o
	}
	latest := held(7 + numbering.MaxLead)
	latest.Revision, latest.Placement = 4+numbering.MaxLead, 2+numbering.MaxLead
	bad := held(6, 8+numbering.MaxLead, 7)
	bad.Revision, bad.Placement = 5+numbering.MaxLead, 3+numbering.MaxLead
	seen := map[string]observation.Observation{"east": latest, "north": held(7), "west": bad}
	shared := bad.Configuration
	outliers := withoutOutliers(app, seen)

	good := held(6, 7)
	good.Revision = 0
	if diff := cmp.Diff(map[string]observation.Observation{"east": latest, "north": held(7), "west": good}, seen); diff != "" {
		t.Errorf("observations (-want +got):\n%s", diff)
	}
	want := []outlier{{"west", "revision", "", 5 + numbering.MaxLead}, {"west", "placement", "", 3 + numbering.MaxLead}, {"west", "serial", "Secret web-tls", 8 + numbering.MaxLead}}
	if diff := cmp.Diff(want, outliers, cmp.AllowUnexported(outlier{})); diff != "" {
		t.Errorf("outliers (-want +got):\n%s", diff)
	}
	if shared[1].Serial != 8+numbering.MaxLead {
		t.Error("the observation of the store was modified")
	}
}

// One member that reports an absurd serial uses up no serials, stops no content, and is named.
func TestAbsurd_serial_of_a_member_is_ignored_and_named(t *testing.T) {
	t.Parallel()
	s := newConfigured(t, "east", "west")
	s.edit(func(app *v1alpha1.AppService) { app.Spec.Configuration[0].Update = v1alpha1.ConfigurationInPlace })
	s.waitForSerial(1)
	id := configuration.Identity{Namespace: s.app.Namespace, AppService: "web", Ref: configuration.Ref{Kind: v1alpha1.ConfigurationConfigMap, From: "settings"}}
	bad := s.readyObservation()
	bad.Configuration = []observation.ConfigurationSerial{{Kind: v1alpha1.ConfigurationConfigMap, Copy: configuration.InPlaceCopy(id), Serial: 1_000_000_000}}
	s.report("west", bad)
	s.waitForEvent(v1alpha1.ReasonImplausibleNumber, "west", "west: an object has the serial 1000000000 of ConfigMap "+configuration.InPlaceCopy(id)+
		", which is more than 1000000 above the serials of this hub: the number is ignored; find out who writes the annotations of the objects there")
	s.putSettings("debug=true")
	s.waitForSerial(2)
	if status := s.app.Status.Configuration[0]; strings.Contains(status.Reason, v1alpha1.ReasonHubBehind) {
		t.Errorf("the source has %+v", status)
	}
}

// waitForSerial waits until the content of the ConfigMap settings has this serial.
func (s *fixture) waitForSerial(want int64) {
	s.Helper()
	wait.Eventually(s.T, func() error {
		s.readApp()
		if got := s.settings().Serial; got != want || revise.IsEdited(s.app) {
			return fmt.Errorf("the serial is %d, want %d: %+v", got, want, s.app.Status.Configuration)
		}
		return nil
	})
}
