package delivery

import (
	"errors"
	"fmt"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/internal/servertest"
	"github.com/fleetwright/fleetwright/internal/wait"
)

// Changes that no watch sees are corrected as soon as a list shows their result. Another manager makes
// them while the watch of Deployments is cut; in some cases, Fleetwright's own change before them is not
// seen either.
func TestUnobserved_change_is_corrected(t *testing.T) {
	t.Parallel()
	const edited = "1 × web:2 A=1; ClusterIP 80→8080/TCP"
	imageIs := func(image string) func(*appsv1.Deployment) {
		return func(d *appsv1.Deployment) { d.Spec.Template.Spec.Containers[0].Image = image }
	}
	deliver := func(s *setup) {
		s.plan()
		wait.Eventually(s.T, func() error {
			if got := s.reported.last(s.key(), s.cluster).Applied; got != s.app.Generation {
				return fmt.Errorf("generation %d is applied, want %d", got, s.app.Generation)
			}
			return nil
		})
	}
	deliverEdit := func(s *setup) {
		s.edit(editImage)
		deliver(s)
	}
	tests := map[string]struct {
		// isDelivered is set if the AppService was delivered before the cut.
		isDelivered bool
		change      func(*setup)
		want        string
		corrections int
	}{
		"a deletion": {true, func(s *setup) { s.deleteByOther() }, running, 0},
		"two edits": {true, func(s *setup) {
			s.changeImageByOther("other:1")
			s.changeImageByOther("other:2")
		}, running, 1},
		"an edit that is taken back": {true, func(s *setup) {
			s.changeImageByOther("other:1")
			s.changeImageByOther("web:1")
		}, running, 0},
		"a deletion and a creation": {true, func(s *setup) { s.recreateByOther(imageIs("other:1")) }, running, 1},
		"a deletion and a creation, twice": {true, func(s *setup) {
			s.recreateByOther(imageIs("other:1"))
			s.recreateByOther(imageIs("other:2"))
		}, running, 1},
		"a creation and a deletion": {false, func(s *setup) {
			deliver(s)
			s.deleteByOther() // the cache is believed again after maxCacheLag
		}, running, 0},
		"an edit of the AppService and a deletion": {true, func(s *setup) {
			deliverEdit(s)
			s.deleteByOther()
		}, edited, 0},
		"an edit of the AppService, and a creation from an old backup": {true, func(s *setup) {
			backup := s.deployment()
			deliverEdit(s)
			s.recreateByOther(func(d *appsv1.Deployment) { d.Annotations, d.Spec = backup.Annotations, backup.Spec })
		}, edited, 1},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSetup(t)
			cut := &servertest.Cut{Resource: "deployments"}
			s.config = rest.CopyConfig(memberConfig)
			s.config.Wrap(cut.Wrap)
			s.start()
			if test.isDelivered {
				s.plan()
				s.expectReport(s.ready())
				s.catchUp()
			}
			cut.Begin()
			test.change(s)
			if test.isDelivered && s.compareVersions(s.member.GetClient(), onMember, &appsv1.Deployment{}) == nil {
				t.Error("the change was seen")
			}
			cut.End()
			s.catchUp()
			s.expectWorkload(test.want)
			s.expectReport(s.ready())
			s.expectCorrections(test.corrections)
			s.expectAtRestAlsoAfterRestart()
			s.expectCorrections(test.corrections)
		})
	}
}

// expectCorrections waits until that many corrections were counted and announced on the member.
func (s *setup) expectCorrections(want int) {
	s.Helper()
	wait.Eventually(s.T, func() error {
		if counted, announced := int(s.correctionCount()), len(s.eventsOn(onMember, v1alpha1.ReasonDriftCorrected)); counted != want || announced != want {
			return fmt.Errorf("%d corrections are counted and %d announced, want %d", counted, announced, want)
		}
		return nil
	})
}

// deleteByOther deletes the Deployment on the member, and waits until it is gone.
func (s *setup) deleteByOther() {
	s.Helper()
	s.must(onMember.Delete(s.Context(), s.deployment()))
	wait.Eventually(s.T, func() error {
		if s.deployment() != nil {
			return errors.New("the Deployment still exists")
		}
		return nil
	})
}

// recreateByOther deletes the Deployment on the member and creates another one with its labels and
// annotations, as kubectl replace --force does.
func (s *setup) recreateByOther(change func(*appsv1.Deployment)) {
	s.Helper()
	d := s.deployment()
	s.deleteByOther()
	d.ObjectMeta = metav1.ObjectMeta{Namespace: d.Namespace, Name: d.Name, Labels: d.Labels, Annotations: d.Annotations}
	d.Status = appsv1.DeploymentStatus{}
	change(d)
	s.must(onMember.Create(s.Context(), d, client.FieldOwner("editor")))
}
