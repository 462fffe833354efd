package command_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/revision"
)

// createStaged creates an AppService whose revision 2 waits for the approval of stage eu, and the
// revisions 1 and 2. The hub's operator is current.
func createStaged(t *testing.T, name string) *v1alpha1.AppService {
	t.Helper()
	createLease(t, time.Now())
	app := &v1alpha1.AppService{}
	create(t, app, `
metadata: {name: `+name+`, namespace: default}
spec:
  image: nginx:1
  replicas: 3
  rollout: {stages: [{name: canary, limit: 1}, {name: eu, approval: Required}]}`)
	storeRevision(t, app, 1)
	app.Spec.Image, app.Spec.Env = "nginx:2", []corev1.EnvVar{{Name: "MODE", Value: "fast"}}
	if err := hub.Update(t.Context(), app); err != nil {
		t.Fatal(err)
	}
	storeRevision(t, app, 2)
	setStatus(t, app, func(s *v1alpha1.AppServiceStatus) {
		since := metav1.NewTime(time.Now().Add(-90*time.Minute - 30*time.Second)) // shown as 90m
		s.Rollout = v1alpha1.RolloutStatus{Revision: 2, StableRevision: 1, Phase: v1alpha1.RolloutProgressing, Since: &since, Stages: []v1alpha1.RolloutStageStatus{
			{Name: "canary", Phase: v1alpha1.StageCompleted, Since: since, Clusters: 1, Available: 1},
			{Name: "eu", Phase: v1alpha1.StageAwaitingApproval, Since: since, Clusters: 1},
			{Name: "(rest)", Phase: v1alpha1.StagePending, Since: since},
		}}
		s.Clusters = []v1alpha1.ClusterStatus{
			{Name: "east", Revision: 2, Replicas: 3, ReadyReplicas: 3, Phase: v1alpha1.ClusterReady, LastTransitionTime: since},
			{Name: "north", Revision: 1, Replicas: 3, ReadyReplicas: 3, Phase: v1alpha1.ClusterReady, LastTransitionTime: since},
		}
		s.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionReady, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonAwaitingApproval,
			Message: "revision 2 waits for approval of stage eu (1 cluster)", LastTransitionTime: since, ObservedGeneration: app.Generation}}
	})
	return app
}

// createLease creates the Lease of an operator that renewed it at a time.
func createLease(t *testing.T, renewed time.Time) {
	t.Helper()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "fleetwright-system"}}
	if err := hub.Create(t.Context(), namespace); client.IgnoreAlreadyExists(err) != nil {
		t.Fatal(err)
	}
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: "fleetwright", Namespace: "fleetwright-system", Labels: map[string]string{v1alpha1.LabelVersion: "test"}}}
	lease.Spec.RenewTime, lease.Spec.LeaseDurationSeconds = &metav1.MicroTime{Time: renewed}, new(int32(15))
	if err := hub.Create(t.Context(), lease); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := hub.Delete(context.Background(), lease); err != nil {
			t.Error(err)
		}
	})
}

func storeRevision(t *testing.T, app *v1alpha1.AppService, number int64) {
	t.Helper()
	stored, err := revision.New(app, number, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := hub.Create(t.Context(), stored); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := hub.Delete(context.Background(), stored); err != nil {
			t.Error(err)
		}
	})
}

// setStatus changes the status of an AppService, for its current generation.
func setStatus(t *testing.T, app *v1alpha1.AppService, change func(*v1alpha1.AppServiceStatus)) {
	t.Helper()
	app.Status.ObservedGeneration = app.Generation
	change(&app.Status)
	if err := hub.Status().Update(t.Context(), app); err != nil {
		t.Fatal(err)
	}
}

// read returns an AppService as it is now.
func read(t *testing.T, app *v1alpha1.AppService) *v1alpha1.AppService {
	t.Helper()
	current := &v1alpha1.AppService{}
	if err := hub.Get(t.Context(), client.ObjectKeyFromObject(app), current); err != nil {
		t.Fatal(err)
	}
	return current
}

func TestRollout_requests(t *testing.T) {
	app := createStaged(t, "web")
	for _, step := range []struct {
		name, command     string
		annotation, value string
		want              result
	}{
		{"approve the stage that waits", "approve web", v1alpha1.AnnotationApprove, "2/eu", result{out: "appservice/web: approved stage eu of revision 2 (nginx:2)\n"}},
		{"approve it again", "approve web --stage eu", v1alpha1.AnnotationApprove, "2/eu", result{out: "appservice/web: approved stage eu of revision 2 (nginx:2)\n"}},
		{"approve another one in advance", "approve web --stage (rest)", v1alpha1.AnnotationApprove, "2/eu,2/(rest)", result{out: "appservice/web: approved stage (rest) of revision 2 (nginx:2)\n"}},
		{"approve a stage that does not exist", "approve web --stage us", v1alpha1.AnnotationApprove, "2/eu,2/(rest)", result{code: 1, errOut: "error: revision 2 has no stage us: the stages are canary, eu, (rest)\n"}},
		{"approve for another revision than the current one", "approve web --revision 1", v1alpha1.AnnotationApprove, "2/eu,2/(rest)", result{code: 1, errOut: "error: revision 2 of web is current now, and not 1: see kubectl appsvc rollout status web\n"}},
		{"promote a stage", "promote web --stage canary", v1alpha1.AnnotationPromote, "2/canary", result{out: "appservice/web: promoted stage canary of revision 2\n"}},
		{"promote the stage at which it is", "promote web", v1alpha1.AnnotationPromote, "2/canary,2/eu", result{out: "appservice/web: promoted stage eu of revision 2\n"}},
		{"promote all", "promote web --all", v1alpha1.AnnotationPromote, "2/canary,2/eu,2", result{out: "appservice/web: promoted all stages of revision 2\n"}},
		{"pause", "pause web", v1alpha1.AnnotationPause, "2", result{out: "appservice/web: paused revision 2; continue with kubectl appsvc rollout resume web\n"}},
		{"resume", "resume web", v1alpha1.AnnotationPause, "", result{out: "appservice/web: resumed\n"}},
		{"resume what is not paused", "resume web", v1alpha1.AnnotationPause, "", result{out: "appservice/web: is not paused\n"}},
		{"retry what has not failed", "retry web", v1alpha1.AnnotationRetry, "", result{code: 1, errOut: "error: revision 2 of web has not failed: see kubectl appsvc rollout status web\n"}},
		{"pause again", "pause web", v1alpha1.AnnotationPause, "2", result{out: "appservice/web: paused revision 2; continue with kubectl appsvc rollout resume web\n"}},
		{"abort", "abort web", v1alpha1.AnnotationAbort, "2", result{out: "appservice/web: aborted revision 2; the clusters return to revision 1\n"}},
		{"an abort ends the pause", "resume web", v1alpha1.AnnotationPause, "", result{out: "appservice/web: is not paused\n"}},
	} {
		t.Run(step.name, func(t *testing.T) {
			run(t, append([]string{"rollout"}, strings.Fields(step.command)...)...).check(t, step.want)
			current := read(t, app)
			if got := current.Annotations[step.annotation]; got != step.value {
				t.Errorf("%s is %q, want %q", step.annotation, got, step.value)
			}
			for _, managed := range current.ManagedFields {
				if strings.HasPrefix(managed.Manager, "kubectl") {
					t.Errorf("%s is a field manager, whose annotations Flux removes", managed.Manager)
				}
			}
		})
	}
	t.Run("a request of an earlier revision is dropped", func(t *testing.T) {
		current := read(t, app)
		setStatus(t, current, func(s *v1alpha1.AppServiceStatus) { s.Rollout.Revision = 3 })
		run(t, "rollout", "approve", "web", "--stage", "eu")
		if got := read(t, app).Annotations[v1alpha1.AnnotationApprove]; got != "3/eu" {
			t.Errorf("approve is %q", got)
		}
	})
	t.Run("a request that the operator has refused is removed, and counts if it is made again", func(t *testing.T) {
		setStatus(t, read(t, app), func(s *v1alpha1.AppServiceStatus) { s.Rollout.Stages[1].ApprovalRefused = true })
		const refused = "error: fleetwright.dev/approve=3/eu was set before the status showed what it names, so it does not count. It is removed now: look at the revision, and run the command again\n"
		run(t, "rollout", "approve", "web", "--stage", "eu").check(t, result{code: 1, errOut: refused})
		if got := read(t, app).Annotations[v1alpha1.AnnotationApprove]; got != "" {
			t.Errorf("approve is %q", got)
		}
		setStatus(t, read(t, app), func(s *v1alpha1.AppServiceStatus) { s.Rollout.Stages[1].ApprovalRefused = false })
		run(t, "rollout", "approve", "web", "--stage", "eu")
		if got := read(t, app).Annotations[v1alpha1.AnnotationApprove]; got != "3/eu" {
			t.Errorf("approve is %q", got)
		}
	})
	t.Run("nothing has an effect after the revision has failed, but retry", func(t *testing.T) {
		setStatus(t, read(t, app), func(s *v1alpha1.AppServiceStatus) {
			s.Rollout.Phase, s.Rollout.FailedRevision = v1alpha1.RolloutRolledBack, s.Rollout.Revision
		})
		const over = "error: revision 3 of web is not being rolled out (RolledBack): see kubectl appsvc rollout status web\n"
		for _, command := range []string{"approve", "promote", "abort"} {
			run(t, "rollout", command, "web").check(t, result{code: 1, errOut: over})
		}
		run(t, "rollout", "pause", "web").check(t, result{code: 1, errOut: "error: the rollout of revision 3 is over (RolledBack): there is nothing to pause\n"})
		run(t, "restart", "web").check(t, result{code: 1, errOut: "error: revision 3 of web has failed, and a restart would roll out its template again: correct the spec, or use kubectl appsvc rollout undo web or retry web\n"})
		run(t, "rollout", "retry", "web").check(t, result{out: "appservice/web: revision 3 is tried again as a new revision\n"})
		if got := run(t, "rollout", "status", "web"); got.code != 3 || !strings.Contains(got.out, "RolledBack") {
			t.Errorf("the wait for a revision that has failed: %+v", got)
		}
	})
	t.Run("a wait ends if the revision to which the clusters return fails, too", func(t *testing.T) {
		before := read(t, app).Status
		setStatus(t, read(t, app), func(s *v1alpha1.AppServiceStatus) {
			s.Rollout.Phase, s.Rollout.FailedRevision = v1alpha1.RolloutProgressing, 0
			s.Rollout.StableRevision, s.Rollout.ReturnFailedClusters = s.Rollout.Revision, []string{"east"}
		})
		if got := run(t, "rollout", "status", "web", "--timeout", "1m"); got.code != 3 || strings.Contains(got.errOut, "after 1m") {
			t.Errorf("the wait: %+v", got)
		}
		setStatus(t, read(t, app), func(s *v1alpha1.AppServiceStatus) { *s = before })
	})
	t.Run("nothing is approved before the operator has processed an edit", func(t *testing.T) {
		current := read(t, app)
		current.Spec.Image = "nginx:4"
		if err := hub.Update(t.Context(), current); err != nil {
			t.Fatal(err)
		}
		run(t, "rollout", "approve", "web").check(t, result{code: 1, errOut: "error: the operator has not processed the latest edit of web yet: try again in a moment; see kubectl appsvc status web\n"})
	})
}

func TestRollout_without_stages(t *testing.T) {
	createLease(t, time.Now())
	create(t, &v1alpha1.AppService{}, "{metadata: {name: plain, namespace: default}, spec: {image: nginx}}")
	run(t, "rollout", "approve", "plain").check(t, result{code: 1, errOut: "error: plain has no spec.rollout: an edit reaches all clusters at once (docs/rollouts.md)\n"})
}

func TestHistory(t *testing.T) {
	createStaged(t, "listed")
	run(t, "rollout", "history", "listed").checkGolden(t, "history")
	run(t, "rollout", "history", "listed", "--revision", "2").checkGolden(t, "history-revision")
	run(t, "rollout", "history", "listed", "--revision", "7").check(t, result{code: 1, errOut: "error: revision 7 is not stored: there are 1, 2\n"})
}

func TestUndo(t *testing.T) {
	app := createStaged(t, "undone")
	t.Run("an AppService that Flux owns is not changed", func(t *testing.T) {
		current := read(t, app)
		current.Labels = map[string]string{"kustomize.toolkit.fluxcd.io/name": "shop"}
		if err := hub.Update(t.Context(), current); err != nil {
			t.Fatal(err)
		}
		run(t, "rollout", "undo", "undone").check(t, result{code: 1, errOut: "error: Flux owns AppService undone and would change it back: run git revert on the commit that created revision 2 there (see kubectl appsvc rollout history undone); --force changes the spec here nevertheless\n"})
		if got := read(t, app).Spec.Image; got != "nginx:2" {
			t.Errorf("the image is %s", got)
		}
	})
	t.Run("the template returns, and the other fields stay", func(t *testing.T) {
		current := read(t, app)
		current.Labels, current.Spec.Replicas = nil, new(int32(5))
		current.Spec.Overrides = []v1alpha1.Override{{Name: "large", Replicas: new(int32(50))}}
		if err := hub.Update(t.Context(), current); err != nil {
			t.Fatal(err)
		}
		setStatus(t, current, func(*v1alpha1.AppServiceStatus) {})
		run(t, "rollout", "undo", "undone").check(t, result{out: "appservice/undone: the spec has the template of revision 1 again (nginx:1)\n"})
		got := read(t, app)
		overrides := []v1alpha1.Override{{Name: "large", Replicas: new(int32(50))}}
		if diff := cmp.Diff([]any{"nginx:1", []corev1.EnvVar(nil), int32(5), overrides}, []any{got.Spec.Image, got.Spec.Env, *got.Spec.Replicas, got.Spec.Overrides}); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
	t.Run("a second time, there is nothing to do", func(t *testing.T) {
		run(t, "rollout", "undo", "undone", "--to-revision", "1").check(t, result{code: 1, errOut: "error: the spec of undone has the template of revision 1 already\n"})
	})
	t.Run("a revision that is not stored", func(t *testing.T) {
		run(t, "rollout", "undo", "undone", "--to-revision", "9").check(t, result{code: 1, errOut: "error: revision 9 is not stored: there are 1, 2\n"})
	})
}

// The demo suggests to tighten both deadlines, and then an image that does not exist. The API server
// compares one deadline with the other, so the way back must not change one of them alone.
func TestUndo_succeeds_after_an_edit_that_tightens_both_deadlines(t *testing.T) {
	createLease(t, time.Now())
	state := func(latest int64, phase v1alpha1.RolloutPhase) func(*v1alpha1.AppServiceStatus) {
		return func(s *v1alpha1.AppServiceStatus) {
			s.Rollout = v1alpha1.RolloutStatus{Revision: latest, StableRevision: 1, Phase: phase, Since: new(metav1.Now())}
		}
	}
	edit := func(app *v1alpha1.AppService, image string) {
		app.Spec.Image, app.Spec.ProgressDeadlineSeconds = image, new(int32(10))
		app.Spec.Rollout = &v1alpha1.Rollout{RolloutPace: v1alpha1.RolloutPace{MinReadySeconds: new(int32(2))}, ProgressDeadlineSeconds: new(int32(15))}
		if err := hub.Update(t.Context(), app); err != nil {
			t.Fatal(err)
		}
	}
	for name, phase := range map[string]v1alpha1.RolloutPhase{"in-progress": v1alpha1.RolloutProgressing, "rolled-back": v1alpha1.RolloutRolledBack, "completed": v1alpha1.RolloutCompleted} {
		for images, edits := range map[string][]string{"in-one-edit": {"nginx:bad"}, "in-two-edits": {"nginx:1", "nginx:bad"}} {
			t.Run(name+" "+images, func(t *testing.T) {
				app := &v1alpha1.AppService{}
				appName := "tight-" + name + "-" + images
				create(t, app, "{metadata: {name: "+appName+", namespace: default}, spec: {image: 'nginx:1'}}")
				storeRevision(t, app, 1)
				for _, image := range edits {
					edit(app, image)
				}
				storeRevision(t, app, 2)
				setStatus(t, app, state(2, phase))
				run(t, "rollout", "undo", appName, "--to-revision", "1").check(t, result{out: "appservice/" + appName + ": the spec has the template of revision 1 again (nginx:1)\n"})
				if got := read(t, app).Spec; got.Image != "nginx:1" || *got.ProgressDeadlineSeconds != 10 || *got.Rollout.ProgressDeadlineSeconds != 15 {
					t.Errorf("the spec has %s, %d and %d", got.Image, *got.ProgressDeadlineSeconds, *got.Rollout.ProgressDeadlineSeconds)
				}
			})
		}
	}
}

func TestRestart(t *testing.T) {
	app := createStaged(t, "restarted")
	run(t, "restart", "restarted").check(t, result{out: "appservice/restarted: restarted; see kubectl appsvc status restarted --watch\n"})
	got := read(t, app)
	if got.Spec.PodAnnotations["kubectl.kubernetes.io/restartedAt"] == "" || got.Generation != app.Generation+1 {
		t.Errorf("generation %d, pod annotations %v", got.Generation, got.Spec.PodAnnotations)
	}
}

func TestStatus(t *testing.T) {
	createStaged(t, "shown")
	t.Run("of an AppService that is not Ready", func(t *testing.T) { run(t, "status", "shown").checkGolden(t, "status") })
	t.Run("of one that does not exist", func(t *testing.T) {
		run(t, "status", "none").check(t, result{code: 1, errOut: "error: there is no AppService none in namespace default of the hub: see kubectl appsvc status -A\n"})
	})
	t.Run("as a name", func(t *testing.T) {
		run(t, "status", "shown", "-o", "name").check(t, result{code: 3, out: "appservice.fleetwright.dev/shown\n"})
	})
}

func TestStatus_says_when_it_is_old(t *testing.T) {
	for name, test := range map[string]struct {
		renewed time.Time // zero: there is no Lease
		want    string
	}{
		"the operator is current":         {time.Now(), ""},
		"the operator stopped":            {time.Now().Add(-time.Hour), "! the operator has not renewed its Lease for 60m, so what you see may be old:"},
		"there is no operator on the hub": {time.Time{}, "! no operator runs: there is no Lease fleetwright-system/fleetwright (see"},
	} {
		t.Run(name, func(t *testing.T) {
			app := &v1alpha1.AppService{}
			create(t, app, "{metadata: {name: old, namespace: default}, spec: {image: nginx}}")
			setStatus(t, app, func(*v1alpha1.AppServiceStatus) {})
			if !test.renewed.IsZero() {
				createLease(t, test.renewed)
			}
			got := run(t, "status", "old")
			if has := strings.Contains(got.out, "! "); has != (test.want != "") || !strings.Contains(got.out, test.want) {
				t.Errorf("want %q in:\n%s", test.want, got.out)
			}
		})
	}
}

func TestStatus_waits(t *testing.T) {
	createLease(t, time.Now())
	app := &v1alpha1.AppService{}
	create(t, app, "{metadata: {name: awaited, namespace: default}, spec: {image: nginx}}")
	t.Run("until a timeout", func(t *testing.T) {
		got := run(t, "status", "awaited", "--wait", "--timeout", "1s")
		if got.code != 3 || got.errOut != "error: awaited is not Ready after 1s\n" || !strings.Contains(got.out, "default/awaited  Unknown") {
			t.Errorf("%+v", got)
		}
	})
	t.Run("until it is Ready", func(t *testing.T) {
		done := make(chan result)
		first, streams := newNotifier()
		go func() { done <- runStreams(t, streams, "status", "awaited", "--wait", "--watch") }()
		<-first
		setStatus(t, app, func(s *v1alpha1.AppServiceStatus) {
			s.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonReady,
				LastTransitionTime: metav1.Now(), ObservedGeneration: app.Generation}}
		})
		got := <-done
		if got.code != 0 || !strings.Contains(got.out, "default/awaited  Unknown") || !strings.Contains(got.out, "default/awaited  Ready") {
			t.Errorf("%+v", got)
		}
	})
	t.Run("until it is deleted", func(t *testing.T) {
		deleted := &v1alpha1.AppService{}
		create(t, deleted, "{metadata: {name: deleted, namespace: default}, spec: {image: nginx}}")
		done := make(chan result)
		first, streams := newNotifier()
		go func() { done <- runStreams(t, streams, "status", "deleted", "--wait", "--watch") }()
		<-first
		if err := hub.Delete(t.Context(), deleted); err != nil {
			t.Fatal(err)
		}
		if got := <-done; got.code != 1 || got.errOut != "error: AppService deleted is deleted\n" {
			t.Errorf("%+v", got)
		}
	})
}

func TestWhy(t *testing.T) {
	createMembers(t)
	create(t, &v1alpha1.AppService{}, `
metadata: {name: explained, namespace: default}
spec: {image: nginx, placement: {clusterSelector: {matchLabels: {topology.kubernetes.io/region: ap}}}}`)
	run(t, "why", "explained").checkGolden(t, "why")
	run(t, "why", "explained", "north").checkGolden(t, "why-cluster")
	run(t, "why", "explained", "west").check(t, result{code: 1, errOut: "error: the hub has no cluster west: see kubectl appsvc clusters\n"})
	if got := run(t, "why", "explained", "north", "-o", "json"); !strings.Contains(got.out, `"reason": "SelectorMismatch"`) {
		t.Error(got)
	}
}

func TestCordon(t *testing.T) {
	createMembers(t)
	run(t, "cordon", "east", "north", "west", "south").check(t, result{code: 1,
		out:    "membercluster/east cordoned\nmembercluster/north already cordoned\nmembercluster/south cordoned\n",
		errOut: "error: the hub has no cluster west: see kubectl appsvc clusters\n"})
	run(t, "uncordon", "east").check(t, result{out: "membercluster/east uncordoned\n"})
}

func TestDrain(t *testing.T) {
	createMembers(t)
	app := &v1alpha1.AppService{}
	create(t, app, "{metadata: {name: drained, namespace: default}, spec: {image: nginx}}")
	setStatus(t, app, func(s *v1alpha1.AppServiceStatus) {
		s.Clusters = []v1alpha1.ClusterStatus{{Name: "east", Phase: v1alpha1.ClusterProgressing, Reason: v1alpha1.ReasonRemovalPending, LastTransitionTime: metav1.Now(),
			Message: "the removal starts when the AppService is ready on: north", Transition: v1alpha1.ClusterTransition{Type: v1alpha1.TransitionRemovalPending, Cause: v1alpha1.CauseClustersChanged}}}
	})
	ready := []v1alpha1.ClusterStatus{{Name: "east", Phase: v1alpha1.ClusterReady, LastTransitionTime: metav1.Now()}}
	createApp := func(name, spec string) *v1alpha1.AppService {
		app := &v1alpha1.AppService{}
		create(t, app, fmt.Sprintf("{metadata: {name: %s, namespace: default}, spec: {image: nginx, %s}}", name, spec))
		setStatus(t, app, func(s *v1alpha1.AppServiceStatus) { s.Clusters = ready })
		return app
	}
	waiting := createApp("waiting", "replicas: 1")
	tolerating := createApp("tolerating", "placement: {tolerations: [{key: fleetwright.dev/drain, operator: Exists}]}")
	suspended := createApp("suspended", "suspend: true")
	const still = " AppServices still run on east; continue with the same command, or end the drain with kubectl appsvc uncordon east\n"
	run(t, "drain", "east", "--timeout", "1s").check(t, result{code: 3, out: "membercluster/east is being drained\n",
		errOut: "error: after 1s, 4" + still +
			"  default/drained: RemovalPending: the removal starts when the AppService is ready on: north\n" +
			"  default/suspended: stays, because spec.suspend is true\n" +
			"  default/tolerating: stays, because its placement tolerates the taint fleetwright.dev/drain\n" +
			"  default/waiting: the operator has not planned this yet\n"})
	// The drain does not wait for what stays.
	for _, left := range []*v1alpha1.AppService{waiting, suspended, app} {
		setStatus(t, read(t, left), func(s *v1alpha1.AppServiceStatus) { s.Clusters = nil })
	}
	run(t, "drain", "east").check(t, result{code: 3, errOut: "error: 1" + still + "  default/tolerating: stays, because its placement tolerates the taint fleetwright.dev/drain\n"})
	// An edit that removes the toleration counts before the operator has planned it.
	edited := read(t, tolerating)
	edited.Spec.Placement = nil
	if err := hub.Update(t.Context(), edited); err != nil {
		t.Fatal(err)
	}
	run(t, "drain", "east", "--timeout", "1s").check(t, result{code: 3, errOut: "error: after 1s, 1" + still + "  default/tolerating: the operator has not planned this yet\n"})
	setStatus(t, read(t, tolerating), func(s *v1alpha1.AppServiceStatus) { s.Clusters = nil })
	member := &v1alpha1.MemberCluster{}
	if err := hub.Get(t.Context(), client.ObjectKey{Name: "east"}, member); err != nil || !member.Spec.Unschedulable || len(member.Spec.Taints) != 1 {
		t.Errorf("the spec is %+v (%v)", member.Spec, err)
	}
	run(t, "drain", "east").check(t, result{out: "membercluster/east drained\n"})
	// Somebody else ends the drain.
	run(t, "uncordon", "east").check(t, result{out: "membercluster/east uncordoned\n"})
	setStatus(t, read(t, waiting), func(s *v1alpha1.AppServiceStatus) { s.Clusters = ready })
	isDraining, output := newNotifier()
	go func() {
		<-isDraining
		if err := removeTaints(t, "east"); err != nil {
			t.Error(err)
		}
	}()
	runStreams(t, output, "drain", "east").check(t, result{code: 1, out: "membercluster/east is being drained\n",
		errOut: "error: somebody has ended the drain of east: it has no taint fleetwright.dev/drain any more\n"})
	run(t, "uncordon", "east").check(t, result{out: "membercluster/east uncordoned\n"})
	if err := hub.Get(t.Context(), client.ObjectKey{Name: "east"}, member); err != nil || member.Spec.Unschedulable || len(member.Spec.Taints) != 0 {
		t.Errorf("the spec is %+v (%v)", member.Spec, err)
	}
}

func removeTaints(t *testing.T, cluster string) error {
	member := &v1alpha1.MemberCluster{ObjectMeta: metav1.ObjectMeta{Name: cluster}}
	return hub.Patch(t.Context(), member, client.RawPatch(types.MergePatchType, []byte(`{"spec": {"taints": null}}`)))
}
