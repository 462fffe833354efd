package clusters_test

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/multicluster-runtime/pkg/multicluster"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/internal/wait"
)

// longConnectTimeout sets a ConnectTimeout that is longer than the tests.
func longConnectTimeout(o *setup) { o.ConnectTimeout = 20 * time.Minute }

// newHangingServer returns another server of the same member, which answers only probes. The
// channel is closed at the first other request.
func (m *testMember) newHangingServer(t testing.TB) (to *networkLink, twin *faultProxy, asked <-chan struct{}) {
	t.Helper()
	twin = newFaultProxy(t, m.testEnv.member)
	twin.setIdentity(m.proxy.identity())
	asks := make(chan struct{})
	var once sync.Once
	twin.setFault(exceptProbes(func(w http.ResponseWriter, r *http.Request) {
		once.Do(func() { close(asks) })
		hang(w, r)
	}))
	return newNetworkLink(t, twin.address()), twin, asks
}

func TestConnection_attempt_that_hangs(t *testing.T) {
	t.Parallel()
	env := sharedEnv(t)
	o := env.newOperator(t, "fleet-patient", longConnectTimeout)

	t.Run("does not delay the supervision of the current engagement", func(t *testing.T) {
		t.Parallel()
		m := env.newMember(t, o, "hangs-supervised")
		e := m.join(t)
		to, twin, asked := m.newHangingServer(t)
		m.replaceKubeconfig(t, m.kubeconfig(t, withServer(to.address)))
		<-asked
		m.checkContinues(t, e)
		m.link.setMode(t, modeRefuse)
		logDuration(t, "disengaged", func() { m.waitForEnd(t, e) })
		m.waitForConditions(t, expectedConditions(unreachable, "True Accepted"))
		twin.setFault(nil)
		to.resetConnections()
		second := m.waitForEngagement(t, 2)
		m.checkContinues(t, second)
	})

	t.Run("ends when there is another kubeconfig, which is then tried at once", func(t *testing.T) {
		t.Parallel()
		m := env.newMember(t, o, "hangs-superseded")
		e := m.join(t)
		to, _, asked := m.newHangingServer(t)
		m.replaceKubeconfig(t, m.kubeconfig(t, withServer(to.address)))
		<-asked
		token, _ := m.newToken(t)
		m.replaceKubeconfig(t, m.kubeconfig(t, withToken(token)))
		wait.Eventually(t, func() error {
			// The watch continues with its old token; the probes use the new token.
			if used := m.testEnv.member.credentialIDs(m.user()); !slices.Contains(used, tokenID(token)) {
				return fmt.Errorf("only the credentials %v are used", used)
			}
			if _, open := to.connectionCounts(); open > 0 {
				return errors.New("the operator is still connected to the other server")
			}
			return nil
		})
		m.checkContinues(t, e)
		m.checkConditions(t, summaryConnected)
	})

	t.Run("ends with its Secret", func(t *testing.T) {
		t.Parallel()
		m := env.newMember(t, o, "hangs-removed")
		e := m.join(t)
		to, _, asked := m.newHangingServer(t)
		m.replaceKubeconfig(t, m.kubeconfig(t, withServer(to.address)))
		<-asked
		m.deleteSecret(t)
		m.waitForEnd(t, e)
		wait.Eventually(t, func() error {
			_, first := m.link.connectionCounts()
			if _, second := to.connectionCounts(); first+second > 0 {
				return fmt.Errorf("%d connections are open", first+second)
			}
			if _, err := o.provider.Get(ctx, multicluster.ClusterName(m.name)); !errors.Is(err, multicluster.ErrClusterNotFound) {
				return errors.New("the provider still has the member")
			}
			return nil
		})
	})
}

// isNodeList reports whether a request lists nodes.
func isNodeList(r *http.Request) bool { return r.URL.Path == "/api/v1/nodes" }

func TestReading_cluster_info(t *testing.T) {
	t.Parallel()
	env := sharedEnv(t)

	t.Run("that hangs delays neither the engagement nor the probes", func(t *testing.T) {
		t.Parallel()
		m := env.newMember(t, env.operator, "info-hangs")
		var asked, ended, meanwhile atomic.Int64
		var down atomic.Bool
		m.proxy.setFault(func(w http.ResponseWriter, r *http.Request) bool {
			if isProbe(r) && down.Load() {
				if ended.Load() == 0 {
					meanwhile.Add(1)
				}
				w.WriteHeader(http.StatusServiceUnavailable)
				return true
			}
			if !isNodeList(r) && r.URL.Path != "/version" {
				return false
			}
			asked.Add(1)
			hang(w, r)
			ended.Add(1)
			return true
		})
		begun := time.Now()
		e := m.join(t)
		wait.Eventually(t, func() error {
			if asked.Load() == 0 {
				return errors.New("the nodes were not listed")
			}
			return nil
		})
		m.checkContinues(t, e)
		if c := meta.FindStatusCondition(m.memberCluster(t).Status.Conditions, v1alpha1.ConditionAllocatableKnown); c == nil || c.Reason != v1alpha1.ReasonConnecting {
			t.Errorf("after %s: %+v", time.Since(begun), c)
		}
		down.Store(true)
		m.waitForEnd(t, e)
		if meanwhile.Load() == 0 {
			t.Error("no probe was sent while the list of nodes was hanging")
		}
	})
}

func TestNodes_are_read_in_pages(t *testing.T) {
	t.Parallel()
	const nodes, nodesInPage = 2000, 500
	env := sharedEnv(t)
	m := env.newMember(t, env.operator, "many-nodes")
	var pages, outOfOrder atomic.Int64
	m.proxy.setFault(serveNodes(nodes, &pages, &outOfOrder))
	e := m.join(t)
	wait.Eventually(t, func() error {
		mc := m.memberCluster(t)
		if cpus := mc.Status.Allocatable["cpu"]; cpus.Cmp(*resource.NewQuantity(nodes*4/5*4, resource.DecimalSI)) != 0 {
			return fmt.Errorf("after %d pages: %+v", pages.Load(), mc.Status)
		}
		return nil
	})
	// On a slow machine, the next list may have begun.
	if read := pages.Load(); read < nodes/nodesInPage || outOfOrder.Load() > 0 {
		t.Errorf("%d pages were read, %d of them neither the first one nor the next one", read, outOfOrder.Load())
	}
	m.checkContinues(t, e)
	if times := len(m.operator.recorder.engagements(m.name)); times != 1 {
		t.Errorf("the member was engaged %d times", times)
	}
}

// serveNodes serves that many nodes of 20 KiB and four CPUs, in pages. Every fifth node accepts no
// pods.
func serveNodes(count int, pages, outOfOrder *atomic.Int64) fault {
	var expected atomic.Int64 // the first node of the next page
	images := strings.Repeat(`{"names":["registry.example/a/rather/long/name/of/an/image@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"],"sizeBytes":123456789},`, 50)
	node := `{"metadata":{"name":"node-%d","annotations":{"filler":"` + strings.Repeat("x", 12<<10) + `"}},"spec":{"unschedulable":%t},` +
		`"status":{"allocatable":{"cpu":"4","memory":"8Gi","pods":"110"},"images":[` + strings.TrimSuffix(images, ",") + `]}}`
	return func(w http.ResponseWriter, r *http.Request) bool {
		if !isNodeList(r) {
			return false
		}
		pages.Add(1)
		limit, err := strconv.Atoi(r.URL.Query().Get("limit"))
		if err != nil || limit > 500 {
			w.WriteHeader(http.StatusBadRequest) // the request has no limit or a larger one
			return true
		}
		from, _ := strconv.Atoi(r.URL.Query().Get("continue"))
		to := min(from+limit, count)
		if from != 0 && int64(from) != expected.Swap(int64(to)) {
			outOfOrder.Add(1)
		}
		expected.Store(int64(to))
		next := ""
		if to < count {
			next = strconv.Itoa(to)
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = fmt.Fprintf(w, `{"kind":"NodeList","apiVersion":"v1","metadata":{"continue":"%s"},"items":[`, next)
		for i := from; i < to; i++ {
			if i > from {
				_, _ = w.Write([]byte(","))
			}
			_, _ = fmt.Fprintf(w, node, i, i%5 == 0)
		}
		_, _ = w.Write([]byte("]}"))
		return true
	}
}
