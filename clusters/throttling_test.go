package clusters_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fleetwright/fleetwright/clusters"
	"github.com/fleetwright/fleetwright/internal/wait"
)

// deploymentJSON returns a Deployment of some 20 KiB, the size of a Deployment with managed fields.
func deploymentJSON(name string, revision int) string {
	container := `{"name":"app","image":"registry.example/team/app:v1.2.3","env":[` +
		strings.Repeat(`{"name":"A_VARIABLE","value":"a value of usual length"},`, 10) + `{"name":"Z"}]}`
	return fmt.Sprintf(`{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"namespace":"default","name":"%s","uid":"%[1]s","resourceVersion":"%d",`+
		`"labels":{"app.kubernetes.io/managed-by":"fleetwright"},"annotations":{"filler":"%s"}},"spec":{"template":{"spec":{"containers":[%s]}}}}`,
		name, revision, strings.Repeat("x", 19<<10), container)
}

// serveDeployments answers lists and watches of Deployments, and passes other requests to the API
// server.
func serveDeployments(list, watch http.HandlerFunc) fault {
	return func(w http.ResponseWriter, r *http.Request) bool {
		if r.Method != http.MethodGet || !strings.HasSuffix(r.URL.Path, "/deployments") {
			return false
		}
		w.Header().Set("Content-Type", "application/json")
		if r.URL.Query().Has("watch") {
			watch(w, r)
		} else {
			list(w, r)
		}
		return true
	}
}

// listOfDeployments responds with a list of that many Deployments.
func listOfDeployments(count int) http.HandlerFunc {
	var all bytes.Buffer
	all.WriteString(listPrefix)
	for i := range count {
		if i > 0 {
			all.WriteByte(',')
		}
		all.WriteString(deploymentJSON(fmt.Sprintf("busy-%d", i), 1))
	}
	all.WriteString("]}")
	return func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(all.Bytes()) }
}

// A member that is only big and busy is never disconnected. It sends a list that is larger than the
// read burst, and then 2 MiB of events a second. This test does not run in parallel with others,
// because it uses much of the machine.
func TestMember_that_is_big_and_busy_stays_engaged(t *testing.T) {
	const objects, seconds = 1000, 10
	env := sharedEnv(t)
	o := env.newOperator(t, "fleet-busy", func(o *setup) {
		o.MaxListBytes, o.ReadBurst, o.ReadRate = clusters.DefaultMaxListBytes, clusters.DefaultReadBurst/4, clusters.DefaultReadRate/2
	})
	m := env.newMember(t, o, "big-and-busy")
	var sent atomic.Int64
	enough := make(chan struct{})
	m.proxy.setFault(serveDeployments(listOfDeployments(objects), func(w http.ResponseWriter, r *http.Request) {
		tick := time.NewTicker(time.Second / 10)
		defer tick.Stop()
		for {
			for range 10 {
				i := sent.Add(1)
				if i == seconds*100 {
					close(enough)
				}
				if _, err := io.WriteString(w, fmt.Sprintf(`{"type":"MODIFIED","object":%s}`+"\n", deploymentJSON(fmt.Sprintf("busy-%d", i%objects), int(i)+1))); err != nil {
					return
				}
			}
			if http.NewResponseController(w).Flush() != nil {
				return
			}
			select {
			case <-tick.C:
			case <-r.Context().Done():
				return
			}
		}
	}))
	m.createSecret(t, m.kubeconfig(t))
	var e engagement
	logDuration(t, "engaged", func() { e = m.waitForEngagement(t, 1) })
	logDuration(t, "all events sent", func() {
		wait.Receive(t, enough, "the last event")
	})
	last := sent.Load()
	logDuration(t, "cached", func() {
		wait.Eventually(t, func() error {
			var app appsv1.Deployment
			if err := e.cluster.GetClient().Get(ctx, client.ObjectKey{Namespace: memberNamespace, Name: fmt.Sprintf("busy-%d", last%objects)}, &app); err != nil {
				return err
			}
			if app.ResourceVersion < fmt.Sprint(last+1) {
				return fmt.Errorf("the cache has resource version %s, want %d", app.ResourceVersion, last+1)
			}
			return nil
		})
	})
	m.checkContinues(t, e)
	m.checkConditions(t, summaryConnected)
}

// A watch that the operator throttles counts neither as silent nor as slow, and probes get through
// meanwhile. The list takes longer than connecting may take, and the event takes longer than a
// watch may be silent.
func TestMember_that_is_throttled_stays_engaged(t *testing.T) {
	t.Parallel()
	env := sharedEnv(t)
	o := env.newOperator(t, "fleet-throttled", func(o *setup) {
		o.WatchSilence, o.ConnectTimeout, o.ReadBurst, o.ReadRate = 20*time.Second, 20*time.Second, 64<<10, 128<<10
	})
	m := env.newMember(t, o, "throttled")
	// The watch of the other kind sends bookmarks, because it must not be silent either.
	m.proxy.setFault(func(w http.ResponseWriter, r *http.Request) bool {
		if r.URL.Query().Has("watch") && !strings.HasSuffix(r.URL.Path, "/deployments") {
			w.Header().Set("Content-Type", "application/json")
			for http.NewResponseController(w).Flush() == nil {
				_, _ = io.WriteString(w, `{"type":"BOOKMARK","object":{"kind":"Service","apiVersion":"v1","metadata":{"resourceVersion":"1"}}}`+"\n")
				select {
				case <-time.After(time.Second):
				case <-r.Context().Done():
					return true
				}
			}
			return true
		}
		return serveDeployments(listOfDeployments(120), func(w http.ResponseWriter, r *http.Request) {
			for i := 0; ; i++ {
				event := deploymentJSON("throttled", i+1)
				event = strings.Replace(event, `"filler":"`, `"filler":"`+strings.Repeat("x", 3<<20), 1)
				if _, err := io.WriteString(w, fmt.Sprintf(`{"type":"MODIFIED","object":%s}`+"\n", event)); err != nil || r.Context().Err() != nil {
					return
				}
			}
		})(w, r)
	})
	m.createSecret(t, m.kubeconfig(t))
	e := m.waitForEngagement(t, 1)
	logDuration(t, "cached", func() {
		wait.Eventually(t, func() error {
			return e.cluster.GetClient().Get(ctx, client.ObjectKey{Namespace: memberNamespace, Name: "throttled"}, &appsv1.Deployment{})
		})
	})
	if len(m.operator.recorder.engagements(m.name)) != 1 {
		t.Error("the member was engaged again")
	}
	m.checkConditions(t, summaryConnected)
}
