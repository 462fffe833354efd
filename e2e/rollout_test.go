package e2e

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/fluxcd/cli-utils/pkg/kstatus/status"
	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/e2e/framework"
	"github.com/fleetwright/fleetwright/internal/wait"
)

// inStages makes an edit reach east first, then north after an approval, and then the others. Nothing
// misses its deadlines, on a slow machine neither.
func inStages(s *v1alpha1.AppServiceSpec) {
	region := func(name string) v1alpha1.ClusterMatch {
		return v1alpha1.ClusterMatch{ClusterSelector: &v1alpha1.ClusterSelector{MatchLabels: map[string]string{corev1.LabelTopologyRegion: name}}}
	}
	s.Rollout = &v1alpha1.Rollout{
		RolloutPace: v1alpha1.RolloutPace{MinReadySeconds: new(int32(1))},
		Stages: []v1alpha1.RolloutStage{
			{Name: "canary", ClusterMatch: region("ap"), SoakSeconds: new(int32(2))},
			{Name: "eu", ClusterMatch: region("eu"), Approval: v1alpha1.ApprovalRequired},
		},
	}
}

// deadlines sets how long a Deployment may take, and how long the rollout waits for a cluster, which
// must be longer.
func deadlines(deployment, rollout int32) framework.Change {
	return func(s *v1alpha1.AppServiceSpec) {
		s.ProgressDeadlineSeconds, s.Rollout.ProgressDeadlineSeconds = new(deployment), new(rollout)
	}
}

// patient sets the default deadlines, which nothing misses, on a slow machine neither.
func patient(s *v1alpha1.AppServiceSpec) {
	s.ProgressDeadlineSeconds, s.Rollout.ProgressDeadlineSeconds = nil, nil
}

// TestRollout tests that an edit reaches six clusters in stages, that a failed edit is rolled back
// without a change of the spec, and that the operator continues where it was killed. One stage is
// east, the next one north and paris, and the last one the others.
func TestRollout(t *testing.T) {
	f := testFleet(t)
	f.addMembers(t, map[string]string{"paris": "eu", "dallas": "us", "miami": "us"})
	all := []string{"north", "south", "east", "paris", "dallas", "miami"}
	app := f.createApp(t, "staged", inStages, framework.Replicas(2))
	// imagesOf returns the images that the members run: one on east, and another one on the others.
	imagesOf := func(east, others string) map[string]string {
		images := map[string]string{}
		for _, name := range all {
			images[name] = others
		}
		images["east"] = east
		return images
	}

	t.Run("the first rollout waits for the approval", func(t *testing.T) {
		f.awaitStage(t, app, "eu", v1alpha1.StageAwaitingApproval)
		f.awaitImages(t, app, imagesOf("web:1", ""))
		f.plugin(t, "rollout", "approve", app.Name, "-n", namespace, "--stage", "eu", "--revision", "1")
		f.awaitRollout(t, app, v1alpha1.RolloutCompleted, 1)
		f.awaitReady(t, app, all...)
	})

	t.Run("an edit waits for the approval, and scaling does not", func(t *testing.T) {
		f.EditApp(t, app, framework.Image("web:2"))
		f.awaitStage(t, app, "eu", v1alpha1.StageAwaitingApproval)
		waiting := imagesOf("web:2", "web:1")
		f.awaitImages(t, app, waiting)
		f.expectRollout(t, app, v1alpha1.ReasonAwaitingApproval, status.InProgressStatus)
		f.EditApp(t, app, framework.Replicas(3))
		f.awaitReplicas(t, app, 3, all...)
		f.killAndRestart(t)
		framework.Consistently(t, 2*time.Second, "the clusters to keep their images", func(ctx context.Context) error {
			return f.checkImages(ctx, app, waiting)
		})
		f.plugin(t, "rollout", "approve", app.Name, "-n", namespace, "--stage", "eu", "--revision", "2")
		f.Hub.Kubectl(t, *binFlag, "wait", "appsvc", app.Name, "--namespace", namespace, "--for=condition=RolledOut", "--timeout="+wait.Patience.String())
		f.awaitRollout(t, app, v1alpha1.RolloutCompleted, 2)
		f.awaitReady(t, app, all...)
		f.expectRollout(t, app, v1alpha1.ReasonCompleted, status.CurrentStatus)
	})

	t.Run("a failed edit is rolled back", func(t *testing.T) {
		f.EditApp(t, app, framework.Image("web:doesnotexist"), deadlines(10, 20))
		took := f.awaitRollout(t, app, v1alpha1.RolloutRolledBack, 3)
		t.Logf("RolledBack after %s", framework.Round(took))
		f.awaitImages(t, app, imagesOf("web:2", "web:2"))
		f.expectRollout(t, app, v1alpha1.ReasonRolledBack, status.FailedStatus)
		if app.Spec.Image != "web:doesnotexist" {
			t.Errorf("the spec has the image %s", app.Spec.Image)
		}
		f.EditApp(t, app, framework.Replicas(2), patient) // an undo keeps the deadlines
		f.awaitReplicas(t, app, 2, all...)
	})

	t.Run("an undo needs no approval", func(t *testing.T) {
		f.plugin(t, "rollout", "undo", app.Name, "-n", namespace, "--to-revision", "1")
		f.RefreshApp(t, app)
		f.plugin(t, "rollout", "status", app.Name, "-n", namespace, "--timeout", wait.Patience.String())
		f.awaitRollout(t, app, v1alpha1.RolloutCompleted, 4)
		f.awaitReady(t, app, all...)
	})

	t.Run("a newer edit starts again, and a member that is cut off blocks no stage of two", func(t *testing.T) {
		f.EditApp(t, app, framework.Image("web:3"))
		f.awaitStage(t, app, "eu", v1alpha1.StageAwaitingApproval)
		f.cutOff(t, app, "north")
		f.plugin(t, "rollout", "approve", app.Name, "-n", namespace, "--stage", "eu", "--revision", "5")
		f.EditApp(t, app, framework.Image("web:4"))
		f.awaitStage(t, app, "eu", v1alpha1.StageAwaitingApproval) // the approval was for revision 5
		f.plugin(t, "rollout", "approve", app.Name, "-n", namespace, "--stage", "eu", "--revision", "6")
		f.awaitImages(t, app, map[string]string{"paris": "web:4"})
		f.EditApp(t, app, deadlines(20, 30)) // then a member that is cut off has no result
		f.awaitStage(t, app, "eu", v1alpha1.StageCompleted)
		f.EditApp(t, app, patient)
		f.awaitRollout(t, app, v1alpha1.RolloutCompleted, 6)
		images := imagesOf("web:4", "web:4")
		delete(images, "north")
		f.awaitImages(t, app, images)
		f.bringBack(t, app, "north", all...)
		f.awaitImages(t, app, imagesOf("web:4", "web:4"))
	})

	t.Run("a stage of one member waits for it until it is promoted", func(t *testing.T) {
		f.cutOff(t, app, "east")
		f.EditApp(t, app, framework.Image("web:1"))
		f.expectRollout(t, app, v1alpha1.ReasonWaitingForClusters, status.InProgressStatus)
		f.plugin(t, "rollout", "approve", app.Name, "-n", namespace, "--stage", "eu", "--revision", "7")
		f.plugin(t, "rollout", "promote", app.Name, "-n", namespace, "--stage", "canary")
		f.awaitRollout(t, app, v1alpha1.RolloutCompleted, 7)
		f.bringBack(t, app, "east", all...)
		f.awaitImages(t, app, imagesOf("web:1", "web:1"))
	})

	t.Run("a restart at rest writes nothing", func(t *testing.T) {
		f.awaitNoWrites(t)
		before := f.countWrites(t)
		f.killAndRestart(t)
		f.awaitNoWrites(t)
		if diff := cmp.Diff(before, f.countWrites(t)); diff != "" {
			t.Errorf("written by a restart (-before +after):\n%s", diff)
		}
	})
}

// TestRollback tests on three members, and so on kind, the main steps of TestRollout: an edit waits for its
// approval, and one whose image cannot be pulled is rolled back.
func TestRollback(t *testing.T) {
	f := testFleet(t, onKind)
	app := f.createApp(t, "rolled-back", framework.Replicas(1))
	f.awaitReady(t, app, "north", "south", "east")

	t.Run("an edit waits for the approval", func(t *testing.T) {
		f.EditApp(t, app, inStages, framework.Image("web:2"))
		f.awaitStage(t, app, "eu", v1alpha1.StageAwaitingApproval)
		f.awaitImages(t, app, map[string]string{"east": "web:2", "north": "web:1", "south": "web:1"})
		f.plugin(t, "rollout", "approve", app.Name, "-n", namespace, "--stage", "eu", "--revision", "2")
		f.awaitRollout(t, app, v1alpha1.RolloutCompleted, 2)
		f.awaitReady(t, app, "north", "south", "east")
	})

	t.Run("a failed edit is rolled back", func(t *testing.T) {
		f.EditApp(t, app, framework.Image("web:doesnotexist"), deadlines(10, 20))
		f.awaitRollout(t, app, v1alpha1.RolloutRolledBack, 3)
		f.awaitImages(t, app, map[string]string{"east": "web:2", "north": "web:2", "south": "web:2"})
		f.expectRollout(t, app, v1alpha1.ReasonRolledBack, status.FailedStatus)
	})
}

// cutOff stops the API server of a member until the test ends, and waits until the operator has
// noticed.
func (f *fleet) cutOff(t *testing.T, app *v1alpha1.AppService, name string) {
	t.Helper()
	t.Cleanup(func() { f.startCluster(t, name) })
	if err := f.Members[name].Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	f.Eventually(t, "the entry of "+name+" to be Unknown", func(ctx context.Context) error {
		return f.checkPhase(ctx, app, name, v1alpha1.ClusterUnknown)
	})
}

// bringBack starts a member again, and waits until all are Ready.
func (f *fleet) bringBack(t *testing.T, app *v1alpha1.AppService, name string, all ...string) {
	t.Helper()
	if err := f.Members[name].Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	f.awaitReady(t, app, all...)
}

// awaitReason waits until RolledOut has a reason.
func (f *fleet) awaitReason(t *testing.T, app *v1alpha1.AppService, want string) {
	t.Helper()
	f.Eventually(t, "RolledOut to be "+want, func(ctx context.Context) error {
		current, err := f.ReadApp(ctx, app)
		if err != nil {
			return err
		}
		if condition := meta.FindStatusCondition(current.Status.Conditions, v1alpha1.ConditionRolledOut); condition == nil || condition.Reason != want {
			return fmt.Errorf("RolledOut is %+v", condition)
		}
		return nil
	})
}

// expectRollout checks the conditions, and what kstatus computes. It updates app.
func (f *fleet) expectRollout(t *testing.T, app *v1alpha1.AppService, reason string, want status.Status) {
	t.Helper()
	f.awaitReason(t, app, reason)
	f.RefreshApp(t, app)
	f.expectKstatus(t, app, want)
	ready := meta.FindStatusCondition(app.Status.Conditions, v1alpha1.ConditionReady)
	if isReady, isOver := ready.Status == metav1.ConditionTrue, reason == v1alpha1.ReasonCompleted; isReady != isOver {
		t.Errorf("Ready is %+v", ready)
	}
}

// awaitStage waits until a stage of the rollout of the current generation has a phase.
func (f *fleet) awaitStage(t *testing.T, app *v1alpha1.AppService, stage string, want v1alpha1.RolloutStagePhase) {
	t.Helper()
	f.Eventually(t, fmt.Sprintf("stage %s to be %s", stage, want), func(ctx context.Context) error {
		current, err := f.ReadApp(ctx, app)
		if err != nil {
			return err
		}
		for _, s := range current.Status.Rollout.Stages {
			if s.Name == stage && s.Phase == want {
				return framework.IsObserved(current)
			}
		}
		return fmt.Errorf("the rollout is %+v", current.Status.Rollout)
	})
}

// awaitRollout waits until the rollout of a revision has a phase. It returns how long that took.
func (f *fleet) awaitRollout(t *testing.T, app *v1alpha1.AppService, want v1alpha1.RolloutPhase, revision int64) time.Duration {
	t.Helper()
	return f.Eventually(t, fmt.Sprintf("revision %d to be %s", revision, want), func(ctx context.Context) error {
		current, err := f.ReadApp(ctx, app)
		if err != nil {
			return err
		}
		if state := current.Status.Rollout; state.Revision != revision || state.Phase != want {
			return fmt.Errorf("the rollout is %+v", state)
		}
		return nil
	})
}

// awaitImages waits until each member runs its image, or has no Deployment if that is "".
func (f *fleet) awaitImages(t *testing.T, app *v1alpha1.AppService, want map[string]string) {
	t.Helper()
	f.Eventually(t, fmt.Sprintf("the images %v", want), func(ctx context.Context) error { return f.checkImages(ctx, app, want) })
}

func (f *fleet) checkImages(ctx context.Context, app *v1alpha1.AppService, want map[string]string) error {
	var errs []error
	for name, image := range want {
		if image == "" {
			errs = append(errs, checkRemoved(ctx, f.Members[name], app))
			continue
		}
		deployment, err := f.Members[name].Deployment(ctx, app)
		if err != nil {
			errs = append(errs, err)
		} else if got := deployment.Spec.Template.Spec.Containers[0].Image; got != image {
			errs = append(errs, fmt.Errorf("%s runs %s, want %s", name, got, image))
		}
	}
	return errors.Join(errs...)
}

// awaitReplicas waits until the Deployments on these members have this number of replicas.
func (f *fleet) awaitReplicas(t *testing.T, app *v1alpha1.AppService, want int32, members ...string) {
	t.Helper()
	f.Eventually(t, fmt.Sprintf("%d replicas on %v", want, members), func(ctx context.Context) error {
		for _, name := range members {
			deployment, err := f.Members[name].Deployment(ctx, app)
			if err != nil {
				return err
			}
			if got := *deployment.Spec.Replicas; got != want {
				return fmt.Errorf("%s has %d replicas", name, got)
			}
		}
		return nil
	})
}
