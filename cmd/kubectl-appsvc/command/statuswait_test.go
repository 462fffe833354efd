package command_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/internal/wait"
)

// TestStatus_wait_ends_if_a_user_must_intervene tests that a wait without --timeout does not wait for
// what does not happen by itself.
func TestStatus_wait_ends_if_a_user_must_intervene(t *testing.T) {
	t.Run("when the AppService is Stalled", func(t *testing.T) {
		createLease(t, time.Now().Add(time.Hour)) // it does not expire in this test
		app := &v1alpha1.AppService{}
		create(t, app, "{metadata: {name: stuck, namespace: default}, spec: {image: nginx}}")
		f := follow(t, hubKubeconfig, "status", "stuck", "--wait", "--watch")
		f.out.await(t, "default/stuck  Unknown")
		setStalled(t, app)
		got := f.result(t)
		const want = "error: stuck is not Ready (CrashLoopBackOff), and stays so until a user intervenes: see kubectl appsvc status stuck\n"
		if got.code != 3 || got.errOut != want || !strings.Contains(got.out, "default/stuck  CrashLoopBackOff") {
			t.Errorf("%+v", got)
		}

		app = read(t, app)
		app.Spec.Image = "nginx:2" // the operator has not processed this edit
		if err := hub.Update(t.Context(), app); err != nil {
			t.Fatal(err)
		}
		if got := run(t, "status", "stuck", "--wait", "--timeout", "1ms"); got.code != 3 || got.errOut != "error: stuck is not Ready after 1ms\n" {
			t.Errorf("after an edit: %+v", got)
		}
	})
	for phase, reason := range map[v1alpha1.RolloutPhase]string{
		v1alpha1.RolloutRolledBack: v1alpha1.ReasonRolledBack,
		v1alpha1.RolloutHalted:     v1alpha1.ReasonRolloutHalted,
	} {
		t.Run("when the rollout is "+string(phase), func(t *testing.T) {
			app := createStaged(t, "failed")
			setStatus(t, app, func(s *v1alpha1.AppServiceStatus) {
				s.Rollout.Phase, s.Rollout.FailedRevision = phase, 2
				s.Conditions[0].Reason = reason
			})
			f := follow(t, hubKubeconfig, "status", "failed", "--wait", "-o", "custom-columns=PHASE:.status.rollout.phase", "--no-headers")
			f.result(t).check(t, result{code: 3, out: string(phase) + "\n",
				errOut: "error: failed is not Ready (" + reason + "), and stays so until a user intervenes: see kubectl appsvc status failed\n"})
		})
	}
}

// firstQueries passes on the queries of the first request that reads Fleetwright's objects, and of the
// first one that watches them.
type firstQueries struct{ read, watch chan url.Values }

func (q *firstQueries) add(request *http.Request) {
	if !strings.HasPrefix(request.URL.Path, "/apis/"+v1alpha1.GroupVersion.String()+"/") {
		return
	}
	query := request.URL.Query()
	to := q.read
	if query.Has("watch") {
		to = q.watch
	}
	select {
	case to <- query:
	default: // another one was the first
	}
}

// TestStatus_watch_has_no_time_limit tests that --request-timeout limits what is read, and no watch: a
// limited request has the parameter timeout.
func TestStatus_watch_has_no_time_limit(t *testing.T) {
	createTeam(t, "limited-shop")
	for _, command := range []string{"status --watch", "status staged --watch", "rollout status staged", "clusters --watch"} {
		t.Run(command, func(t *testing.T) {
			first := &firstQueries{make(chan url.Values, 1), make(chan url.Values, 1)}
			kubeconfig, _ := proxyHub(t, first.add)
			f := follow(t, kubeconfig, append(strings.Fields(command), "-n", "limited-shop", "--request-timeout", "1h")...)
			if query := wait.Receive(t, first.read, "the first read"); query.Get("timeout") != "1h0m0s" {
				t.Errorf("the flag does not limit a read: %v", query)
			}
			if query := wait.Receive(t, first.watch, "the watch"); query.Has("timeout") || query.Has("timeoutSeconds") {
				t.Errorf("the watch has a limit: %v", query)
			}
			f.end(t)
		})
	}
}
