package clusters_test

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fleetwright/fleetwright/internal/wait"
)

// withOwnMemberServer returns a testEnv whose API server for members belongs to this test, and may
// be restarted.
func (env *testEnv) withOwnMemberServer(t *testing.T) *testEnv {
	t.Helper()
	server, err := startAPIServer(filepath.Join(env.dir, "mortal"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.stop() })
	other := &testEnv{dir: env.dir, hub: env.hub, member: server, operator: env.operator}
	if err := other.createMemberRole(); err != nil {
		t.Fatal(err)
	}
	return other
}

// compact makes etcd drop its history, so that a watch from before has expired.
func (s *apiServer) compact(t *testing.T) {
	t.Helper()
	now := &appsv1.DeploymentList{}
	if err := s.admin.List(ctx, now); err != nil {
		t.Fatal(err)
	}
	at := s.environment.ControlPlane.Etcd.URL.String() + "/v3/kv/compaction"
	response, err := http.Post(at, "application/json", bytes.NewBufferString(fmt.Sprintf(`{"revision": "%s", "physical": true}`, now.ResourceVersion)))
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		t.Fatalf("compact: %s", response.Status)
	}
}

// restart kills the API server, and starts it again on the same etcd.
func (s *apiServer) restart(t *testing.T) {
	t.Helper()
	server := s.environment.ControlPlane.GetAPIServer()
	_ = server.Stop()
	wait.Eventually(t, func() error {
		if c, err := net.Dial("tcp", s.address()); err == nil {
			return errors.Join(errors.New("the API server still listens"), c.Close())
		}
		return nil
	})
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
}

// After a restart of the member's API server, with or without its history, the cache gets the
// changes that were made meanwhile, or the member is engaged again.
func TestCache_is_up_to_date_after_the_member_restarts(t *testing.T) {
	t.Parallel()
	env := sharedEnv(t)
	ownEnv := env.withOwnMemberServer(t)
	m := ownEnv.newMember(t, env.newOperator(t, "fleet-mortal", productionProbeInterval), "mortal")
	m.makeWatchesResumable(t, m.join(t))
	for i, compacted := range []bool{false, true} {
		comes, goes := fmt.Sprintf("mortal-comes-%d", i), fmt.Sprintf("mortal-goes-%d", i)
		m.createDeployment(t, goes)
		m.newestEngagement().waitForDeployment(t, goes)
		m.link.setMode(t, modeSilent) // the operator does not see the following changes
		m.createDeployment(t, comes)
		deleted := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: memberNamespace, Name: goes}}
		if err := ownEnv.member.admin.Delete(ctx, deleted); err != nil {
			t.Fatal(err)
		}
		if compacted {
			ownEnv.member.compact(t)
		}
		ownEnv.member.restart(t)
		m.link.resetConnections()
		m.link.setMode(t, modePass)
		logDuration(t, fmt.Sprintf("with compaction %t: up to date", compacted), func() {
			wait.Eventually(t, func() error {
				cached := m.newestEngagement().cluster.GetClient()
				if err := cached.Get(ctx, client.ObjectKey{Namespace: memberNamespace, Name: comes}, &appsv1.Deployment{}); err != nil {
					return err
				}
				if err := cached.Get(ctx, client.ObjectKeyFromObject(deleted), deleted); !apierrors.IsNotFound(err) {
					return fmt.Errorf("the deleted Deployment is still cached: %w", err)
				}
				return nil
			})
		})
		m.waitForConditions(t, summaryConnected)
		m.checkContinues(t, m.newestEngagement())
		t.Logf("%d engagements and %d lists so far", len(m.operator.recorder.engagements(m.name)), len(ownEnv.member.listRequests(m.user())))
	}
}

// newestEngagement returns the newest engagement.
func (m *testMember) newestEngagement() engagement {
	all := m.operator.recorder.engagements(m.name)
	return all[len(all)-1]
}

// A member that flaps causes few events and few writes, and is connected again when it stays
// available.
func TestMember_that_flaps_is_reconnected_with_delays(t *testing.T) {
	t.Parallel()
	env := sharedEnv(t)
	o := env.newOperator(t, "fleet-flapping", func(o *setup) { o.ProbeInterval = 200 * time.Millisecond })
	m := env.newMember(t, o, "flapping")
	m.join(t)
	const sessions = 4
	begun := time.Now()
	// The member fails as soon as it is connected, and recovers as soon as the operator has
	// disengaged it.
	for n := 1; n < sessions; n++ {
		e := m.newestEngagement()
		m.link.setMode(t, modeRefuse)
		m.waitForEnd(t, e)
		m.link.setMode(t, modePass)
		m.waitForEngagement(t, n+1)
	}
	// Sessions begin at 0, 1, 3 and 7 seconds or later. Each session causes two events: when it
	// begins and when it ends. There is one more for the credentials. Each session causes at most
	// three status writes: when it begins, when it ends, and when an attempt before the member
	// recovers fails for another reason, as after a reset connection. The first one is preceded by
	// one write, and followed by one with the nodes. A status write from a cache that is a moment
	// behind is refused, and repeated.
	if took := time.Since(begun); took < 7*time.Second {
		t.Errorf("%d sessions began within %s", sessions, took)
	}
	var status, events int
	for _, r := range env.hub.requests(o.user) {
		switch {
		case !r.succeeded():
		case r.ObjectRef.Resource == "memberclusters" && r.Verb == "patch":
			status++
		case r.ObjectRef.Resource == "events":
			events++
		}
	}
	t.Logf("%d sessions, %d writes of the MemberCluster, %d of events", sessions, status, events)
	if status > 3*sessions+2 || events > 2*sessions+1 {
		t.Error("want at most three status writes and two events for each session")
	}
	logDuration(t, "connected", func() { m.waitForConditions(t, summaryConnected) })
	m.checkContinues(t, m.newestEngagement())
}
