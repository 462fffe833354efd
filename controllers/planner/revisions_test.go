package planner

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/planner/revise"
	"github.com/fleetwright/fleetwright/controllers/revision"
	"github.com/fleetwright/fleetwright/internal/wait"
)

// nothing is the content of a ControllerRevision that is no revision.
var nothing = runtime.RawExtension{Raw: []byte("{}")}

// listRevisions returns the images of the ControllerRevisions that the AppService owns, by name.
func (s *fixture) listRevisions() map[string]string {
	s.Helper()
	var list appsv1.ControllerRevisionList
	s.must(s.hub.List(s.Context(), &list, client.InNamespace(s.app.Namespace)))
	images := map[string]string{}
	for i := range list.Items {
		if stored, err := revision.Read(s.app, &list.Items[i]); err == nil {
			images[list.Items[i].Name] = stored.Template.Image
		}
	}
	return images
}

func (s *fixture) checkRevisions(want map[string]string) {
	s.Helper()
	if diff := cmp.Diff(want, s.listRevisions()); diff != "" {
		s.Errorf("revisions (-want +got):\n%s", diff)
	}
}

// waitForStoredRevisions waits until the hub has this number of revisions.
func (s *fixture) waitForStoredRevisions(want int) {
	s.Helper()
	wait.Eventually(s.T, func() error {
		if stored := s.listRevisions(); len(stored) != want {
			return fmt.Errorf("revisions: %v", stored)
		}
		return nil
	})
}

// setImage edits the image, and waits until the AppService has the revision with this number.
func (s *fixture) setImage(image string, want int64) {
	s.Helper()
	s.edit(func(app *v1alpha1.AppService) { app.Spec.Image = image })
	s.waitForRevision(want)
}

// waitForRevision waits until the current generation is planned, with this revision on each member.
func (s *fixture) waitForRevision(want int64) {
	s.Helper()
	wait.Eventually(s.T, func() error {
		s.readApp()
		if revise.IsEdited(s.app) {
			return fmt.Errorf("generation %d is not planned", s.app.Generation)
		}
		if got := s.app.Status.Rollout.Revision; got != want {
			return fmt.Errorf("status.rollout.revision is %d, want %d", got, want)
		}
		return nil
	})
	for _, entry := range s.app.Status.Clusters {
		if entry.Revision != want {
			s.Errorf("%s has revision %d, want %d", entry.Name, entry.Revision, want)
		}
	}
}

func TestEdit_of_the_template_is_stored_as_a_revision(t *testing.T) {
	t.Parallel()
	s := newRunning(t, "east", "west")
	s.checkRevisions(map[string]string{"web-1": "web:1"})
	if got := s.app.Status.Summary.UpToDate; got != "2/2" {
		t.Errorf("up to date: %s, want 2/2", got)
	}
	s.edit(func(app *v1alpha1.AppService) { app.Spec.Replicas = new(int32(5)) })
	s.waitForRevision(1)
	s.setImage("web:2", 2)
	if got := s.app.Status.Summary.UpToDate; got != "0/2" {
		t.Errorf("up to date after the edit: %s, want 0/2", got)
	}
	s.setImage("web:1", 1) // the stable revision, because no cluster was ready with 2
	s.checkRevisions(map[string]string{"web-1": "web:1", "web-2": "web:2"})
}

// A process lists no revisions for a new AppService and a new template. What it remembers is no evidence
// that a revision is still there.
func TestEdit_lists_no_revisions_that_are_known(t *testing.T) {
	t.Parallel()
	s := newFixture(t, "east")
	s.sent.refuseReads("/controllerrevisions")
	s.createApp()
	s.waitForRevision(1)
	s.setImage("web:2", 2)
	s.setImage("web:3", 3)
	s.edit(func(app *v1alpha1.AppService) { app.Spec.Replicas = new(int32(5)) })
	s.waitForUnlisted("refused by the test")
	s.must(s.hub.Delete(t.Context(), &appsv1.ControllerRevision{ObjectMeta: metav1.ObjectMeta{Namespace: s.app.Namespace, Name: "web-3"}}))
	s.sent.refuseReads("")
	s.restart() // which tries again at once
	s.waitForRevision(4)
	s.checkRevisions(map[string]string{"web-1": "web:1", "web-2": "web:2", "web-4": "web:3"})
}

// What this process remembers is used only with a status that it fits to.
func TestHistory_is_not_recalled_for_another_status(t *testing.T) {
	t.Parallel()
	app := &v1alpha1.AppService{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: "uid-1"}}
	known, history := newHistories(), revision.History{}
	for number := int64(2); number <= 4; number++ {
		object, err := revision.New(app, number, nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		stored, err := revision.Read(app, object)
		if err != nil {
			t.Fatal(err)
		}
		history = history.With(stored)
	}
	known.remember(app, history)
	for name, test := range map[string]struct {
		change func(*v1alpha1.AppServiceStatus)
		want   bool
	}{
		"that names all":                       {func(*v1alpha1.AppServiceStatus) {}, true},
		"whose revision was stored without it": {func(s *v1alpha1.AppServiceStatus) { s.Rollout.Revision = 5 }, false},
		"with a cluster on an older revision":  {func(s *v1alpha1.AppServiceStatus) { s.Clusters[0].Revision = 1 }, false},
		"with another stable revision":         {func(s *v1alpha1.AppServiceStatus) { s.Rollout.StableRevision = 1 }, false},
		"of a restored hub":                    {func(s *v1alpha1.AppServiceStatus) { s.Rollout.Revision, s.Clusters[0].Revision = 3, 3 }, false},
		"that went back after the latest failed": {func(s *v1alpha1.AppServiceStatus) {
			s.Rollout.Revision, s.Clusters[0].Revision, s.Rollout.LatestRevision = 3, 3, 4
		}, true},
		"that was lost": {func(s *v1alpha1.AppServiceStatus) { *s = v1alpha1.AppServiceStatus{} }, false},
	} {
		app.Status = v1alpha1.AppServiceStatus{Clusters: []v1alpha1.ClusterStatus{{Name: "east", Revision: 4}}}
		app.Status.Rollout.Revision, app.Status.Rollout.StableRevision = 4, 3
		test.change(&app.Status)
		if got := known.of(app) != nil; got != test.want {
			t.Errorf("a status %s: recalled %t", name, got)
		}
	}
}

// Revisions that were stored while the AppService had configuration are not new.
func TestHistory_is_forgotten_with_configuration(t *testing.T) {
	t.Parallel()
	s := newRunning(t, "east")
	s.edit(func(app *v1alpha1.AppService) {
		app.Spec.Configuration = []v1alpha1.ConfigurationSource{{Kind: v1alpha1.ConfigurationConfigMap, Name: "settings"}}
	})
	s.waitForCache()
	s.edit(func(app *v1alpha1.AppService) { app.Spec.Image, app.Spec.Configuration = "web:2", nil })
	s.waitForRevision(2)
	s.revision = 2
	s.reportReady("east")
	s.edit(func(app *v1alpha1.AppService) { app.Spec.Replicas = new(int32(5)) })
	s.waitForRevision(2)
	s.checkRevisions(map[string]string{"web-1": "web:1", "web-2": "web:2"})
}

// Somebody has created an object with the name of the next revision since the history was read.
func TestRemembered_history_is_read_again_if_a_name_is_taken(t *testing.T) {
	t.Parallel()
	s := newRunning(t, "east")
	for number := int64(2); number <= 3; number++ {
		taken := &appsv1.ControllerRevision{ObjectMeta: metav1.ObjectMeta{
			Namespace: s.app.Namespace, Name: fmt.Sprint("web-", number), Labels: map[string]string{v1alpha1.LabelAppService: "web"},
		}, Data: nothing, Revision: number}
		s.must(s.hub.Create(t.Context(), taken))
	}
	s.sent.reset()
	s.setImage("web:2", 4)
	s.checkWrites("POST controllerrevisions", "POST controllerrevisions", "PATCH appservices/web/status")
}

// The revision is stored before a status names it.
func TestRevision_is_stored_once_although_the_operator_is_killed(t *testing.T) {
	t.Parallel()
	s := newRunning(t, "east")
	s.sent.refuseWrites("/status")
	s.edit(func(app *v1alpha1.AppService) { app.Spec.Image = "web:2" })
	s.waitForStoredRevisions(2)
	s.restart()
	s.waitForRevision(2)
	s.checkRevisions(map[string]string{"web-1": "web:1", "web-2": "web:2"})
	s.sent.reset()
	s.restart()
	s.reconcileOnce()
	s.checkWrites()
}

func TestRevision_is_stored_once_although_the_response_is_lost(t *testing.T) {
	t.Parallel()
	s := newRunning(t, "east")
	s.sent.loseResponses("/controllerrevisions")
	s.edit(func(app *v1alpha1.AppService) { app.Spec.Image = "web:2" })
	s.waitForStoredRevisions(2)
	s.sent.loseResponses("")
	s.waitForRevision(2)
	s.checkRevisions(map[string]string{"web-1": "web:1", "web-2": "web:2"})
}

func TestOld_revisions_are_deleted(t *testing.T) {
	t.Parallel()
	s := newFixture(t, "east")
	s.app.Spec.RevisionHistoryLimit = new(int32(1))
	s.createApp()
	s.waitForRevision(1)
	for number := int64(2); number <= 5; number++ {
		s.setImage(fmt.Sprint("web:", number), number)
	}
	s.checkRevisions(map[string]string{"web-3": "web:3", "web-4": "web:4", "web-5": "web:5"}) // 4 was in use when 5 was stored
}

// An object with the name of a revision that is not one stays as it is.
func TestName_of_a_revision_that_is_taken_is_skipped(t *testing.T) {
	t.Parallel()
	s := newRunning(t, "east")
	taken := &appsv1.ControllerRevision{ObjectMeta: metav1.ObjectMeta{Namespace: s.app.Namespace, Name: "web-2"}, Data: nothing, Revision: 2}
	s.must(s.hub.Create(t.Context(), taken))
	s.setImage("web:2", 3)
	s.checkRevisions(map[string]string{"web-1": "web:1", "web-3": "web:2"})
	s.must(s.hub.Get(t.Context(), client.ObjectKeyFromObject(taken), &appsv1.ControllerRevision{}))
}

func TestRevisions_that_were_deleted_are_not_missed(t *testing.T) {
	t.Parallel()
	s := newRunning(t, "east")
	s.must(s.hub.DeleteAllOf(t.Context(), &appsv1.ControllerRevision{}, client.InNamespace(s.app.Namespace)))
	s.edit(func(app *v1alpha1.AppService) { app.Spec.Replicas = new(int32(5)) })
	s.waitForRevision(2)
	s.checkRevisions(map[string]string{"web-2": "web:1"})
}

// refuseRevisions makes a quota refuse every other ControllerRevision.
func (s *fixture) refuseRevisions() *corev1.ResourceQuota {
	s.Helper()
	quota := &corev1.ResourceQuota{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.app.Namespace, Name: "none"},
		Spec:       corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{"count/controllerrevisions.apps": resource.MustParse("1")}},
	}
	s.must(s.hub.Create(s.Context(), quota))
	quota.Status = corev1.ResourceQuotaStatus{Hard: quota.Spec.Hard, Used: quota.Spec.Hard}
	s.must(s.hub.Status().Update(s.Context(), quota)) // there is no quota controller
	trial := &appsv1.ControllerRevision{ObjectMeta: metav1.ObjectMeta{Namespace: s.app.Namespace, Name: "trial"}, Data: nothing}
	wait.Eventually(s.T, func() error { // until the API server knows the quota
		if err := s.hub.Create(s.Context(), trial.DeepCopy(), client.DryRunAll); !apierrors.IsForbidden(err) {
			return fmt.Errorf("the quota does not apply yet: %v", err) //nolint:errorlint // There may be no error.
		}
		return nil
	})
	return quota
}

// waitForRefusedRevision waits until the conditions say that a quota refuses the revision of the spec.
func (s *fixture) waitForRefusedRevision() {
	s.Helper()
	wait.Eventually(s.T, func() error {
		s.readApp()
		for _, conditionType := range []string{v1alpha1.ConditionReady, v1alpha1.ConditionStalled} {
			condition := meta.FindStatusCondition(s.app.Status.Conditions, conditionType)
			if condition == nil || condition.Reason != v1alpha1.ReasonRevisionsRefused || !strings.Contains(condition.Message, "exceeded quota") {
				return fmt.Errorf("conditions %+v", s.app.Status.Conditions)
			}
		}
		return nil
	})
}

// A quota that refuses a revision stops the new template, and says so. What needs no revision goes on.
func TestRefused_revision_is_reported_and_its_template_is_not_planned(t *testing.T) {
	t.Parallel()
	s := newRunning(t, "east")
	quota := s.refuseRevisions()
	s.edit(func(app *v1alpha1.AppService) { app.Spec.Image, app.Spec.Replicas = "web:2", new(int32(5)) })
	s.waitForRefusedRevision()
	if entry := s.app.Status.Cluster("east"); entry.Revision != 1 || entry.Replicas != 5 {
		t.Errorf("the entry of east is %+v", entry)
	}
	if s.app.Status.ObservedGeneration != 1 || s.app.Status.Summary.UpToDate != "0/1" {
		t.Errorf("the status is that of the edit: %+v", s.app.Status)
	}
	before := s.app.ResourceVersion
	s.reconcileOnce()
	if s.readApp(); s.app.ResourceVersion != before {
		t.Error("a plan that changes nothing writes the status")
	}
	s.must(s.hub.Delete(t.Context(), quota))
	s.restart() // which tries again at once
	s.waitForRevision(2)
}

// While a quota refuses the next revision, the rollout of the one before is watched.
func TestRefused_revision_does_not_end_the_watch_on_the_rollout(t *testing.T) {
	t.Parallel()
	members := []string{"east", "west"}
	s := newSoaking(t, members...)
	quota := s.refuseRevisions()
	s.edit(func(app *v1alpha1.AppService) { app.Spec.Image = "web:3" })
	s.waitForRefusedRevision()
	if condition := meta.FindStatusCondition(s.app.Status.Conditions, v1alpha1.ConditionRolledOut); condition == nil || condition.Status != metav1.ConditionFalse {
		t.Errorf("RolledOut is %+v", condition)
	}
	s.edit(annotate(v1alpha1.AnnotationAbort, "2"))
	s.waitForReason(v1alpha1.ReasonRollingBack)
	s.waitForRevisions(map[string]int64{"east": 1, "west": 1})
	s.checkRevisions(map[string]string{"web-1": "web:1", "web-2": "web:2"})
	s.must(s.hub.Delete(t.Context(), quota))
	s.restart() // which tries again at once
	s.waitForStoredRevisions(3)
	s.waitForPlan()
}

// forbidRevisions takes the permissions for ControllerRevisions away from the planner, as somebody does
// who updates the operator without its permissions. It returns a function that gives them back.
func (s *fixture) forbidRevisions() (restore func()) {
	s.Helper()
	role := &rbacv1.ClusterRole{}
	s.must(s.hub.Get(s.Context(), client.ObjectKey{Name: "fleetwright"}, role))
	rules := role.Rules
	setRules := func(rules []rbacv1.PolicyRule) {
		role.Rules = rules
		s.must(s.hub.Update(context.Background(), role))
	}
	setRules(slices.DeleteFunc(slices.Clone(rules), func(rule rbacv1.PolicyRule) bool { return slices.Contains(rule.Resources, "controllerrevisions") }))
	user, err := client.New(s.hub.granted, client.Options{Scheme: kinds})
	s.must(err)
	awaitPermission := func(want bool) {
		s.Helper()
		wait.Eventually(s.T, func() error {
			err := user.List(context.Background(), &appsv1.ControllerRevisionList{}, client.InNamespace(s.app.Namespace))
			if is := !apierrors.IsForbidden(err); is != want {
				return fmt.Errorf("the planner may list revisions: %t (%v)", is, err) //nolint:errorlint // There may be no error.
			}
			return nil
		})
	}
	restore = sync.OnceFunc(func() {
		setRules(rules)
		awaitPermission(true)
	})
	s.Cleanup(restore)
	awaitPermission(false)
	return restore
}

// waitForUnlisted waits until the conditions say that the revisions cannot be read.
func (s *fixture) waitForUnlisted(words string) {
	s.Helper()
	wait.Eventually(s.T, func() error {
		s.readApp()
		ready := meta.FindStatusCondition(s.app.Status.Conditions, v1alpha1.ConditionReady)
		if ready.Reason != v1alpha1.ReasonRevisionsRefused || !strings.Contains(ready.Message, words) {
			return fmt.Errorf("Ready is %+v", ready)
		}
		return nil
	})
}

const cannotList = `cannot list resource "controllerrevisions"`

func TestMissing_permission_to_read_revisions_is_reported(t *testing.T) {
	t.Parallel()
	s := newRunning(t, "east")
	restore := s.forbidRevisions()
	s.restart() // and remembers no revision
	s.edit(func(app *v1alpha1.AppService) { app.Spec.Image, app.Spec.Replicas = "web:2", new(int32(5)) })
	s.waitForUnlisted(cannotList)
	if entry := s.app.Status.Cluster("east"); entry.Revision != 1 || entry.Replicas != 5 {
		t.Errorf("the entry of east is %+v", entry)
	}
	restore()
	s.restart() // which tries again at once
	s.waitForRevision(2)
}

// While the revisions cannot be listed, the rollout of the revision of the status is watched, also by a
// new process, which has read none of them.
func TestUnlisted_revisions_do_not_end_the_watch_on_the_rollout(t *testing.T) {
	t.Parallel()
	for name, isRestarted := range map[string]bool{"in the same process": false, "in a new process": true} {
		t.Run(name, func(t *testing.T) {
			members := []string{"east", "west"}
			s := newSoaking(t, members...)
			restore := s.forbidRevisions()
			s.restart() // and remembers no revision
			s.edit(func(app *v1alpha1.AppService) { app.Spec.Image = "web:3" })
			s.waitForUnlisted(cannotList)
			if isRestarted {
				s.restart()
			}
			s.join("north") // its first delivery would need the content of a revision
			s.edit(annotate(v1alpha1.AnnotationAbort, "2"))
			s.waitForReason(v1alpha1.ReasonRollingBack)
			s.waitForRevisions(map[string]int64{"east": 1, "west": 1})
			if north := s.app.Status.Cluster("north"); isRestarted && (north == nil || north.Revision != 0) {
				t.Errorf("the entry of north is %+v", north)
			}
			restore()
			s.restart() // which tries again at once
			s.waitForStoredRevisions(3)
			s.waitForPlan()
		})
	}
}

// An error that may be temporary ends the watch for ten seconds at most.
func TestRevisions_that_fail_to_be_listed_do_not_end_the_watch_on_the_rollout(t *testing.T) {
	t.Parallel()
	members := []string{"east", "west"}
	s := newSoaking(t, members...)
	s.sent.refuseReads("/controllerrevisions")
	s.edit(func(app *v1alpha1.AppService) { app.Spec.Replicas = new(int32(5)) }) // so that the history must have the revision
	s.waitForUnlisted("refused by the test")
	s.edit(annotate(v1alpha1.AnnotationAbort, "2"))
	s.waitForReason(v1alpha1.ReasonRollingBack)
	s.waitForRevisions(map[string]int64{"east": 1, "west": 1})
	s.sent.refuseReads("")
	s.restart() // which tries again at once
	s.waitForStoredRevisions(2)
	s.waitForPlan()
}

// A newer CRD has a default for a field of the template. The spec differs from the stored revision
// then, although nobody has edited it.
func TestDefault_that_is_added_later_is_no_revision(t *testing.T) {
	t.Parallel()
	s := newFixtureOn(t, ownHub(t), "east")
	s.createPlanned("east")
	s.reportReady("east")
	s.stop()
	crd := &unstructured.Unstructured{}
	crd.SetGroupVersionKind(crdKind)
	s.must(s.hub.Get(t.Context(), client.ObjectKey{Name: crdName}, crd))
	path := []string{"schema", "openAPIV3Schema", "properties", "spec", "properties", "terminationGracePeriodSeconds", "default"}
	versions, _, err := unstructured.NestedSlice(crd.Object, "spec", "versions")
	s.must(err)
	s.must(unstructured.SetNestedField(versions[0].(map[string]any), int64(5), path...))
	s.must(unstructured.SetNestedSlice(crd.Object, versions, "spec", "versions"))
	s.must(s.hub.Update(t.Context(), crd))
	wait.Eventually(t, func() error {
		if s.readApp(); s.app.Spec.TerminationGracePeriodSeconds == nil {
			return errors.New("the API server does not apply the default yet")
		}
		return nil
	})
	s.start()
	s.report("east", s.readyObservation())
	s.reconcileOnce()
	s.checkWrites()
	s.checkRevisions(map[string]string{"web-1": "web:1"})
}
