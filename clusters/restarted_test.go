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
)

// mortal returns a world with an API server for members that belongs to this test and may be
// stopped.
func (w *world) mortal(t *testing.T) *world {
	t.Helper()
	server, err := startAPIServer(filepath.Join(w.dir, "mortal"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.environment.Stop() })
	other := &world{dir: w.dir, hub: w.hub, member: server, operator: w.operator}
	if err := other.permit(); err != nil {
		t.Fatal(err)
	}
	return other
}

// compact makes etcd drop the history before now: a watch from before is "too old".
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
	eventually(t, soon, func() error {
		if c, err := net.Dial("tcp", s.address()); err == nil {
			return errors.Join(errors.New("it still listens"), c.Close())
		}
		return nil
	})
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
}

// After a restart of the API server, with or without its history, the cache follows the member, or
// the member is engaged again: changes made meanwhile are soon in the cache.
func TestARestartedAPIServer(t *testing.T) {
	t.Parallel()
	w := shared(t)
	mortal := w.mortal(t)
	m := mortal.newMember(t, w.own(t, "fleet-mortal", asInProduction), "mortal")
	m.join(t)
	m.settles(t)
	for i, compacted := range []bool{false, true} {
		comes, goes := fmt.Sprintf("mortal-comes-%d", i), fmt.Sprintf("mortal-goes-%d", i)
		m.deploy(t, goes)
		m.newest().has(t, goes, soon)
		m.link.turn(t, silent) // the operator does not see the following changes
		m.deploy(t, comes)
		deleted := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: memberNamespace, Name: goes}}
		if err := mortal.member.admin.Delete(ctx, deleted); err != nil {
			t.Fatal(err)
		}
		if compacted {
			mortal.member.compact(t)
		}
		mortal.member.restart(t)
		m.link.cut()
		m.link.turn(t, pass)
		timed(t, fmt.Sprintf("compacted: %t: in step", compacted), func() {
			eventually(t, mended, func() error {
				cached := m.newest().cluster.GetClient()
				if err := cached.Get(ctx, client.ObjectKey{Namespace: memberNamespace, Name: comes}, &appsv1.Deployment{}); err != nil {
					return err
				}
				if err := cached.Get(ctx, client.ObjectKeyFromObject(deleted), deleted); !apierrors.IsNotFound(err) {
					return fmt.Errorf("what was deleted is still cached: %w", err)
				}
				return nil
			})
		})
		m.shows(t, mended, joined)
		m.goesOn(t, m.newest())
		t.Logf("engaged %d times, lists since the beginning: %d", len(m.operator.engagements.of(m.name)), len(mortal.member.lists(m.user())))
	}
}

// newest returns the newest engagement.
func (m *member) newest() engagement {
	all := m.operator.engagements.of(m.name)
	return all[len(all)-1]
}

// A member that flaps causes few events and few writes, and is connected again when it stays
// available.
func TestAMemberThatFlapsIsDamped(t *testing.T) {
	t.Parallel()
	w := shared(t)
	o := w.own(t, "fleet-flapping", func(o *setup) { o.ProbeInterval = 200 * time.Millisecond })
	m := w.newMember(t, o, "flapping")
	m.join(t)
	const window = 35 * time.Second
	// The member disconnects as soon as it is connected, and returns as soon as the hub has
	// noticed.
	for end := time.Now().Add(window); time.Now().Before(end); {
		e := m.newest()
		m.link.turn(t, refuse)
		m.ends(t, e, soon)
		m.link.turn(t, pass)
		eventually(t, soon, func() error {
			if m.newest().cluster == e.cluster && time.Now().Before(end) {
				return errors.New("it is not connected yet")
			}
			return nil
		})
	}
	// Sessions begin at about 0, 1, 3, 7, 15 and 31 seconds. Each session is connected and lost:
	// two status writes and two events, and one more of each for the credentials. Without damping,
	// a session would begin every two seconds.
	const most = 7
	sessions := len(o.engagements.of(m.name))
	var status, events int
	for _, r := range w.hub.served(o.user) {
		switch {
		case r.ObjectRef.Resource == "memberclusters" && r.Verb == "patch":
			status++
		case r.ObjectRef.Resource == "events":
			events++
		}
	}
	t.Logf("in %s: %d sessions, %d writes of the MemberCluster, %d of events", window, sessions, status, events)
	if sessions < 2 || sessions > most || status > 2*most+3 || events > 2*most+1 {
		t.Errorf("want at most %d sessions, and two writes and events for each", most)
	}
	m.link.turn(t, pass)
	timed(t, "connected", func() { m.shows(t, 90*time.Second, joined) })
	m.goesOn(t, m.newest())
}
