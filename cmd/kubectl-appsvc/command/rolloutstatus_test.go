package command_test

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/internal/wait"
)

// setRolledOut sets the condition RolledOut.
func setRolledOut(s *v1alpha1.AppServiceStatus, generation int64, status metav1.ConditionStatus, reason string) {
	s.Conditions = append(s.Conditions, metav1.Condition{Type: v1alpha1.ConditionRolledOut, Status: status, Reason: reason, LastTransitionTime: metav1.Now(), ObservedGeneration: generation})
}

// setStalled writes the status of an AppService of which a cluster has failed, and none makes progress.
func setStalled(t *testing.T, app *v1alpha1.AppService) {
	t.Helper()
	setStatus(t, app, func(s *v1alpha1.AppServiceStatus) {
		s.Summary = v1alpha1.ClusterSummary{Clusters: 2, Ready: 1, Failed: 1}
		for kind, status := range map[string]metav1.ConditionStatus{v1alpha1.ConditionReady: metav1.ConditionFalse, v1alpha1.ConditionStalled: metav1.ConditionTrue} {
			s.Conditions = append(s.Conditions, metav1.Condition{Type: kind, Status: status, Reason: v1alpha1.ReasonCrashLoopBackOff, LastTransitionTime: metav1.Now(), ObservedGeneration: app.Generation})
		}
	})
}

// TestRolloutStatus_waits_by_default tests that each step is a line on the error stream, and that the
// state is printed once, in the end.
func TestRolloutStatus_waits_by_default(t *testing.T) {
	app := createStaged(t, "followed")
	reads := &appReads{}
	kubeconfig, _ := proxyHub(t, reads.add)
	f := follow(t, kubeconfig, "rollout", "status", "followed")
	f.errOut.await(t, "revision 2, stage eu: 0 of 1 clusters updated; AwaitingApproval; next: kubectl appsvc rollout approve followed -n default --stage eu --revision 2\n")
	app = read(t, app)
	before := reads.of("get")
	setStatus(t, app, func(s *v1alpha1.AppServiceStatus) { s.Clusters[0].Message = "no step of the rollout" })
	wait.Eventually(t, func() error {
		if after := reads.of("get"); after <= before {
			return fmt.Errorf("the state was read %d times", after)
		}
		return nil
	})
	stage := func(change func(*v1alpha1.RolloutStageStatus)) {
		setStatus(t, app, func(s *v1alpha1.AppServiceStatus) {
			s.Conditions[0].Reason = v1alpha1.ReasonRollingOut
			change(&s.Rollout.Stages[1])
		})
	}
	stage(func(s *v1alpha1.RolloutStageStatus) { s.Phase = v1alpha1.StageProgressing })
	f.errOut.await(t, "revision 2, stage eu: 0 of 1 clusters updated\n")
	stage(func(s *v1alpha1.RolloutStageStatus) { s.UpToDate = 1 })
	f.errOut.await(t, "revision 2, stage eu: 1 of 1 clusters updated\n")
	if f.out.String() != "" {
		t.Errorf("it printed the state before the end: %s", f.out)
	}
	setStatus(t, app, func(s *v1alpha1.AppServiceStatus) {
		s.Rollout.Phase = v1alpha1.RolloutCompleted
		for i := range s.Rollout.Stages {
			s.Rollout.Stages[i].Phase = v1alpha1.StageCompleted
		}
		setRolledOut(s, app.Generation, metav1.ConditionTrue, v1alpha1.ReasonCompleted)
	})
	got := f.result(t)
	if got.code != 0 || strings.Count(got.out, "default/followed  ") != 1 || !strings.Contains(got.out, "Revision 2  Completed") {
		t.Errorf("%+v", got)
	}
	for line := range strings.Lines(got.errOut) {
		if strings.Count(got.errOut, line) != 1 {
			t.Errorf("twice: %s", line)
		}
	}
}

func TestRolloutStatus_ends(t *testing.T) {
	app := createStaged(t, "ending")
	t.Run("at once with --watch=false", func(t *testing.T) {
		got := run(t, "rollout", "status", "ending", "--watch=false")
		if got.code != 3 || got.errOut != "" || strings.Count(got.out, "Revision 2  Progressing") != 1 {
			t.Errorf("%+v", got)
		}
	})
	t.Run("with its timeout", func(t *testing.T) {
		got := run(t, "rollout", "status", "ending", "--timeout", "1ms")
		if got.code != 3 || !strings.HasSuffix(got.errOut, "\nerror: ending is not RolledOut after 1ms\n") || strings.Count(got.out, "Revision 2  Progressing") != 1 {
			t.Errorf("%+v", got)
		}
	})
	t.Run("when the revision was rolled back", func(t *testing.T) {
		f := follow(t, hubKubeconfig, "rollout", "status", "ending")
		f.errOut.await(t, "AwaitingApproval")
		app = read(t, app)
		setStatus(t, app, func(s *v1alpha1.AppServiceStatus) {
			s.Rollout.Phase, s.Rollout.FailedRevision = v1alpha1.RolloutRolledBack, 2
			setRolledOut(s, app.Generation, metav1.ConditionFalse, v1alpha1.ReasonRolledBack)
		})
		got := f.result(t)
		if got.code != 3 || strings.Count(got.out, "Revision 2  RolledBack") != 1 || !strings.Contains(got.errOut, "; RolledBack; next: kubectl appsvc rollout retry ending -n default") {
			t.Errorf("%+v", got)
		}
	})
	t.Run("when an AppService without stages is Stalled", func(t *testing.T) {
		plain := &v1alpha1.AppService{}
		create(t, plain, "{metadata: {name: stalled, namespace: default}, spec: {image: nginx}}")
		setStalled(t, plain)
		got := run(t, "rollout", "status", "stalled")
		if got.code != 3 || got.errOut != "1 of 2 clusters ready; CrashLoopBackOff\n" {
			t.Errorf("%+v", got)
		}
	})
}

// TestTimeouts_are_refused_if_they_are_negative tests all commands with the flag.
func TestTimeouts_are_refused_if_they_are_negative(t *testing.T) {
	commands := []string{"status web", "status", "rollout status web", "drain east", "unjoin east --delete", "join east"}
	for _, command := range commands {
		got := run(t, append(strings.Fields(command), "--timeout=-5s")...)
		if got.code != 1 || !strings.Contains(got.errOut, "--timeout is -5s") {
			t.Errorf("%s: %+v", command, got)
		}
	}
	reference, err := os.ReadFile("../../../docs/cli.md")
	if err != nil {
		t.Fatal(err)
	}
	if documented := strings.Count(string(reference), "| `--timeout "); documented != len(commands)-1 { // status is there twice
		t.Errorf("%d commands have --timeout", documented)
	}
}

// TestTimeouts_end_with_exit_code_3 tests the shortest timeout of commands that wait: its time begins when
// the state was read, however slow the machine is.
func TestTimeouts_end_with_exit_code_3(t *testing.T) {
	createStaged(t, "timed")
	for command, want := range map[string]string{
		"status timed --wait":         "error: timed is not Ready after 1ms\n",
		"status timed --watch":        "error: the time to watch timed has ended after 1ms\n",
		"status timed --wait --watch": "error: timed is not Ready after 1ms\n",
		"rollout status timed":        "error: timed is not RolledOut after 1ms\n",
	} {
		got := run(t, append(strings.Fields(command), "--timeout", "1ms")...)
		if got.code != 3 || !strings.HasSuffix(got.errOut, want) || strings.Count(got.out, "default/timed  AwaitingApproval") != 1 {
			t.Errorf("%s: %+v", command, got)
		}
	}
	t.Run("a state that was shown is not printed again", func(t *testing.T) {
		got := run(t, "status", "timed", "--watch", "--timeout", "1s")
		if got.code != 3 || strings.Count(got.out, "default/timed  AwaitingApproval") != 1 {
			t.Errorf("%+v", got)
		}
	})
}

// TestStatus_prints_only_changes_in_a_pipe tests that neither the time nor a new version of the object
// is a change.
func TestStatus_prints_only_changes_in_a_pipe(t *testing.T) {
	app := createStaged(t, "quiet")
	since := metav1.NewTime(time.Now().Add(-10 * time.Second)) // its age in the text changes each second
	setStatus(t, app, func(s *v1alpha1.AppServiceStatus) { s.Rollout.Since = &since })
	reads := &appReads{}
	kubeconfig, _ := proxyHub(t, reads.add)
	f := follow(t, kubeconfig, "status", "quiet", "--watch")
	f.out.await(t, "default/quiet")
	for start := time.Now(); time.Since(start) < 2500*time.Millisecond; {
		before := reads.of("get")
		current := read(t, app)
		current.Annotations = map[string]string{"example.com/at": time.Since(start).String()}
		if err := hub.Update(t.Context(), current); err != nil {
			t.Fatal(err)
		}
		wait.Eventually(t, func() error {
			if after := reads.of("get"); after <= before {
				return fmt.Errorf("the state was read %d times", after)
			}
			return nil
		})
	}
	current := read(t, app)
	setStatus(t, current, func(s *v1alpha1.AppServiceStatus) { s.Clusters[0].Phase = v1alpha1.ClusterFailed })
	f.out.await(t, "Failed")
	got := f.end(t)
	if got.code != 3 || strings.Count(got.out, "default/quiet") != 2 {
		t.Errorf("%+v", got)
	}
	t.Run("an object is printed only if more than its version changes", func(t *testing.T) {
		f := follow(t, hubKubeconfig, "status", "quiet", "--watch", "-o", "custom-columns=PHASE:.status.clusters[0].phase")
		f.out.await(t, "Failed")
		current := read(t, app)
		if err := hub.Patch(t.Context(), current, client.RawPatch("application/merge-patch+json", []byte(`{"spec": {"image": "nginx:2"}}`)), client.FieldOwner("another")); err != nil {
			t.Fatal(err)
		}
		setStatus(t, current, func(s *v1alpha1.AppServiceStatus) { s.Clusters[0].Phase = v1alpha1.ClusterReady })
		f.out.await(t, "Ready")
		if got := words(f.end(t).out); got != "PHASE\nFailed\nReady" {
			t.Error(got)
		}
	})
}
