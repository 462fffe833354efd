package command_test

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/internal/wait"
)

// createTeam creates three AppServices in a namespace: ok is Ready, staged waits for an approval, and
// broken was rolled back.
func createTeam(t *testing.T, namespace string) map[string]*v1alpha1.AppService {
	t.Helper()
	createLease(t, time.Now().Add(time.Hour))
	ensureNamespace(t, hub, namespace)
	apps := map[string]*v1alpha1.AppService{}
	for name, labels := range map[string]string{"ok": "{team: a}", "staged": "{team: a}", "broken": "{team: b}"} {
		app := &v1alpha1.AppService{}
		create(t, app, fmt.Sprintf(`{metadata: {name: %s, namespace: %s, labels: %s}, spec: {image: "nginx:1", rollout: {stages: [{name: eu, approval: Required}]}}}`, name, namespace, labels))
		apps[name] = app
	}
	setReason(t, apps["ok"], v1alpha1.ReasonReady, func(s *v1alpha1.AppServiceStatus) {
		s.Rollout = v1alpha1.RolloutStatus{Revision: 4, StableRevision: 4, Phase: v1alpha1.RolloutCompleted}
		s.Summary.Clusters, s.Summary.Ready = 10, 10
	})
	setReason(t, apps["staged"], v1alpha1.ReasonAwaitingApproval, func(s *v1alpha1.AppServiceStatus) {
		s.Rollout = v1alpha1.RolloutStatus{Revision: 2, StableRevision: 1, Phase: v1alpha1.RolloutProgressing,
			Stages: []v1alpha1.RolloutStageStatus{{Name: "eu", Phase: v1alpha1.StageAwaitingApproval, Since: metav1.Now(), Clusters: 5}}}
		s.Summary.Clusters, s.Summary.Ready = 10, 8
	})
	setReason(t, apps["broken"], v1alpha1.ReasonRolledBack, func(s *v1alpha1.AppServiceStatus) {
		s.Rollout = v1alpha1.RolloutStatus{Revision: 3, StableRevision: 2, FailedRevision: 3, FailedStage: "eu", Phase: v1alpha1.RolloutRolledBack}
		s.Summary.Clusters, s.Summary.Ready, s.AvailableReplicas = 3, 3, new(int32(7))
	})
	return apps
}

// setReason writes a status with a reason of the condition Ready.
func setReason(t *testing.T, app *v1alpha1.AppService, reason string, change func(*v1alpha1.AppServiceStatus)) {
	t.Helper()
	setStatus(t, app, func(s *v1alpha1.AppServiceStatus) {
		ready := metav1.Condition{Type: v1alpha1.ConditionReady, Status: metav1.ConditionFalse, Reason: reason, LastTransitionTime: metav1.Now(), ObservedGeneration: app.Generation}
		if reason == v1alpha1.ReasonReady {
			ready.Status = metav1.ConditionTrue
		}
		s.Conditions = []metav1.Condition{ready}
		change(s)
	})
}

var ageCells = regexp.MustCompile(`\b\d+m?\d*s\b`)

// words returns a table with one space between its cells, and AGE in place of an age.
func words(table string) string {
	var lines []string
	for line := range strings.Lines(ageCells.ReplaceAllString(table, "AGE")) {
		lines = append(lines, strings.Join(strings.Fields(line), " "))
	}
	return strings.Join(lines, "\n")
}

func TestStatus_lists_those_first_that_need_attention(t *testing.T) {
	createTeam(t, "shop")
	const header = "NAME REVISION READY STATUS STAGE AGE NEXT"
	const wideHeader = "NAME REVISION READY STATUS STAGE AGE AVAILABLE IMAGE NEXT"
	broken := "broken 3 3/3 RolledBack eu AGE kubectl appsvc rollout retry broken -n shop --revision 3, or edit the spec"
	staged := "staged 2 8/10 AwaitingApproval eu 0/5 AGE kubectl appsvc rollout approve staged -n shop --stage eu --revision 2"
	ok := "ok 4 10/10 Ready <none> AGE <none>"
	for args, want := range map[string][]string{
		"-n shop":                              {header, broken, staged, ok},
		"-n shop ok broken":                    {header, broken, ok},
		"-n shop -l team=a":                    {header, staged, ok},
		"-n shop -l team=a --no-headers":       {staged, ok},
		"-n shop --sort-by .metadata.name":     {header, broken, ok, staged},
		"-n shop -l team=b -o wide":            {wideHeader, strings.Replace(broken, "AGE", "AGE 7 nginx:1", 1)},
		"-n shop ok broken -o wide":            {wideHeader, strings.Replace(broken, "AGE", "AGE 7 nginx:1", 1), strings.Replace(ok, "AGE", "AGE <none> nginx:1", 1)},
		"-A -l team=b":                         {"NAMESPACE " + header, "shop " + broken},
		"-n shop -o name":                      {"appservice.fleetwright.dev/broken", "appservice.fleetwright.dev/ok", "appservice.fleetwright.dev/staged"},
		"-n shop -o custom-columns=N:.kind":    {"N", "AppService", "AppService", "AppService"},
		"-n shop appsvc/ok appservice/ok":      {header, ok},
		"-n shop appsvc/ok appsvc/ok -o name":  {"appservice.fleetwright.dev/ok"},
		"-n shop -l team=nobody":               nil,
		"-n shop -l team=nobody --no-headers ": nil,
	} {
		got := run(t, append([]string{"status"}, strings.Fields(args)...)...)
		if diff := cmp.Diff(strings.Join(want, "\n"), words(got.out)); diff != "" || got.code != 0 || (got.errOut == "") != (want != nil) {
			t.Errorf("%s: exit code %d, %s(-want +got):\n%s", args, got.code, got.errOut, diff)
		}
	}
	ensureNamespace(t, hub, "empty")
	run(t, "status", "-n", "empty").check(t, result{errOut: "No AppServices in namespace empty.\n"})
	run(t, "status", "-A", "-l", "team=nobody").check(t, result{errOut: "No AppServices with these labels on the hub.\n"})
	for args, want := range map[string]string{
		"web -A":        "a name and --all-namespaces exclude each other: use --namespace with the name",
		"web api -A":    "names and --all-namespaces exclude each other: use --namespace with the names",
		"web -l a=b":    "a name and --selector exclude each other: give one of them",
		"--wait":        "--wait is for one AppService: give its name, or use --watch",
		"-n shop ok no": "there is no AppService no in namespace shop of the hub: see kubectl appsvc status -A",
		"-l a==b==c":    "--selector: found '==', expected: ',' or 'end of string'",
	} {
		run(t, append([]string{"status"}, strings.Fields(args)...)...).check(t, result{code: 1, errOut: "error: " + want + "\n"})
	}
	t.Run("a list that cannot be read is an error", func(t *testing.T) {
		if got := runAs(t, kubeconfigOf(t, "nobody"), "status", "-A"); got.code != 1 || !strings.Contains(got.errOut, `cannot list resource "appservices"`) {
			t.Error(got)
		}
	})
	t.Run("it says when the operator does not run", func(t *testing.T) {
		got := run(t, "status", "-n", "shop", "--secret-namespace", "empty")
		if got.code != 0 || !strings.Contains(got.errOut, "no operator runs: there is no Lease empty/fleetwright") {
			t.Error(got)
		}
	})
}

// TestStatus_watches_a_list_with_one_list_and_one_watch tests that changes come from the watch alone,
// that they are gathered, and that only rows that change are printed in a pipe.
func TestStatus_watches_a_list_with_one_list_and_one_watch(t *testing.T) {
	apps := createTeam(t, "watched-shop")
	reads := &appReads{}
	kubeconfig, server := proxyHub(t, reads.add)
	f := follow(t, kubeconfig, "status", "-n", "watched-shop", "--watch")
	f.out.await(t, "\nok ")
	began := time.Now()
	for i := range int32(50) {
		setReason(t, apps["staged"], v1alpha1.ReasonRollingOut, func(s *v1alpha1.AppServiceStatus) { s.Summary.Ready = i % 10 })
	}
	setReason(t, apps["staged"], v1alpha1.ReasonReady, func(s *v1alpha1.AppServiceStatus) {
		s.Rollout.Phase, s.Rollout.Stages = v1alpha1.RolloutCompleted, nil
		s.Summary.Ready = 10
	})
	f.out.await(t, "10/10   Ready              <none>")
	wait.Eventually(t, func() error {
		if got := words(f.out.String()); !strings.HasSuffix(got, "staged 2 10/10 Ready <none> AGE <none>") {
			return errors.New(got)
		}
		return nil
	})
	if lists, watches, gets := reads.of("list"), reads.of("watch"), reads.of("get"); lists != 1 || watches != 1 || gets != 0 {
		t.Errorf("%d lists, %d watches and %d gets", lists, watches, gets)
	}
	got := words(f.out.String())
	shows := 3 + int(time.Since(began)/(500*time.Millisecond)) + int(time.Since(began)/(5*time.Second)) // at first, after changes, and every few seconds
	if strings.Count(got, "NAME REVISION") != 1 || strings.Count(got, "\nok ") != 1 || strings.Count(got, "\nbroken ") != 1 || strings.Count(got, "\nstaged ") > shows {
		t.Error(got)
	}
	// What happens while there is no connection is in the next list.
	server.CloseClientConnections()
	if err := hub.Delete(t.Context(), apps["broken"]); err != nil {
		t.Fatal(err)
	}
	f.out.await(t, "<deleted>")
	if lists := reads.of("list"); lists < 2 {
		t.Errorf("%d lists", lists)
	}
	if end := f.end(t); end.code != 0 {
		t.Error(end)
	}
}

// TestStatus_watches_objects tests that an object is printed again only if something else than its
// version changes.
func TestStatus_watches_objects(t *testing.T) {
	apps := createTeam(t, "object-shop")
	f := follow(t, hubKubeconfig, "status", "-n", "object-shop", "ok", "staged", "--watch", "-o", "custom-columns=NAME:.metadata.name,READY:.status.summary.ready", "--no-headers")
	f.out.await(t, "staged   8\n")
	// Another field manager takes the image over: only managedFields and the version change.
	patch := client.RawPatch(types.MergePatchType, []byte(`{"spec": {"image": "nginx:1"}}`))
	for _, name := range []string{"ok", "broken"} {
		if err := hub.Patch(t.Context(), read(t, apps[name]), patch, client.FieldOwner("another")); err != nil {
			t.Fatal(err)
		}
	}
	setReason(t, read(t, apps["staged"]), v1alpha1.ReasonReady, func(s *v1alpha1.AppServiceStatus) { s.Summary.Ready = 9 })
	f.out.await(t, "staged   9\n")
	if got, want := words(f.end(t).out), "staged 8\nok 10\nstaged 9"; got != want {
		t.Error(got)
	}
}

func TestStatus_list_ends_with_its_timeout(t *testing.T) {
	createTeam(t, "timed-shop")
	got := run(t, "status", "-n", "timed-shop", "--watch", "--timeout", "1ms")
	if got.code != 3 || got.errOut != "error: the time to watch has ended after 1ms\n" {
		t.Error(got)
	}
}
