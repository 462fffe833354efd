package ui

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/entries/appslice"
	"github.com/fleetwright/fleetwright/internal/servertest"
	"github.com/fleetwright/fleetwright/internal/wait"
)

// serve starts a server that ends with the test, and returns it with its address.
func serve(t *testing.T, options Options) (*Server, string) {
	t.Helper()
	options.Address = "127.0.0.1:0"
	server, err := Listen(options)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- server.Serve(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return server, "http://" + server.listener.Addr().String()
}

// get sends a request with the token.
func get(t *testing.T, server *Server, url string) *http.Response {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer "+server.token)
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = response.Body.Close() })
	return response
}

// pageState is what a page knows after some changes.
type pageState struct {
	hub      Hub
	apps     map[string]App
	clusters map[string]Cluster
	// changes is the number of changes, and bytes the size of the last one.
	changes, bytes int
}

// stream reads the changes of a server.
type stream struct {
	state  pageState
	events chan []byte
}

func openStream(t *testing.T, server *Server, address string) *stream {
	t.Helper()
	response := get(t, server, address+"/api/stream")
	if response.StatusCode != http.StatusOK {
		t.Fatalf("got status %d", response.StatusCode)
	}
	s := &stream{state: pageState{apps: map[string]App{}, clusters: map[string]Cluster{}}, events: make(chan []byte)}
	go func() {
		defer close(s.events)
		reader := bufio.NewReader(response.Body)
		for {
			line, err := reader.ReadBytes('\n')
			if err != nil {
				return
			}
			data, isData := strings.CutPrefix(string(line), "data: ")
			if !isData {
				continue
			}
			select {
			case s.events <- []byte(data):
			case <-t.Context().Done():
				return
			}
		}
	}()
	return s
}

// until applies changes until a check of the state returns nil.
func (s *stream) until(t *testing.T, check func(pageState) error) {
	t.Helper()
	timeout := time.After(wait.Patience)
	for {
		err := check(s.state)
		if err == nil {
			return
		}
		select {
		case data, isOpen := <-s.events:
			if !isOpen {
				t.Fatalf("the stream ended: %v", err)
			}
			s.apply(t, data)
		case <-timeout:
			t.Fatalf("timed out: %v", err)
		}
	}
}

func (s *stream) apply(t *testing.T, data []byte) {
	t.Helper()
	var change struct {
		Full     bool
		Hub      Hub
		Clusters []Cluster
		Apps     []App
		Gone     []string
	}
	if err := json.Unmarshal(data, &change); err != nil {
		t.Fatal(err)
	}
	s.state.hub = change.Hub
	s.state.changes++
	s.state.bytes = len(data)
	for _, cluster := range change.Clusters {
		s.state.clusters[cluster.Name] = cluster
	}
	for _, app := range change.Apps {
		s.state.apps[app.Namespace+"/"+app.Name] = app
	}
	for _, key := range change.Gone {
		kind, name, _ := strings.Cut(key, "/")
		if kind == appKind {
			delete(s.state.apps, name)
		} else {
			delete(s.state.clusters, name)
		}
	}
}

// hasCell returns a check that an AppService has a phase on a cluster.
func hasCell(app, cluster string, phase v1alpha1.ClusterPhase) func(pageState) error {
	return func(state pageState) error {
		cells := state.apps[app].Cells
		at := slices.IndexFunc(cells, func(cell Cell) bool { return cell.Cluster == cluster })
		if at < 0 || cells[at].Phase != phase {
			return fmt.Errorf("%s is not %s on %s: %v", app, phase, cluster, cells)
		}
		return nil
	}
}

func TestServer_sends_each_change(t *testing.T) {
	t.Parallel()
	namespace := newNamespace(t)
	app := newApp(namespace, "web", newEntry("east", "Ready"))
	create(t, app)
	server, address := serve(t, Options{Config: hubConfig, Namespace: namespace})
	page := openStream(t, server, address)
	key := namespace + "/web"
	page.until(t, hasCell(key, "east", "Ready"))

	app.Status.Clusters[0].Phase = "Unknown"
	if err := hub.Status().Update(t.Context(), app); err != nil {
		t.Fatal(err)
	}
	page.until(t, hasCell(key, "east", "Unknown"))

	member := &v1alpha1.MemberCluster{ObjectMeta: metav1.ObjectMeta{Name: namespace + "-east", Labels: map[string]string{"region": "eu"}}}
	create(t, member)
	page.until(t, func(state pageState) error {
		if got := state.clusters[member.Name].Region; got != "eu" {
			return fmt.Errorf("the region of %s is %q", member.Name, got)
		}
		return nil
	})

	if err := hub.Delete(t.Context(), app); err != nil {
		t.Fatal(err)
	}
	page.until(t, func(state pageState) error {
		if _, exists := state.apps[key]; exists {
			return fmt.Errorf("%s still exists", key)
		}
		return nil
	})
}

func TestServer_joins_the_entries_of_slices(t *testing.T) {
	t.Parallel()
	namespace := newNamespace(t)
	app := newApp(namespace, "big")
	app.Status.ClustersIn, app.Status.Summary.Clusters = v1alpha1.ClustersInSlices, 2
	create(t, app)
	entries := []v1alpha1.ClusterStatus{newEntry("east", "Ready"), newEntry("west", "Ready")}
	parts := appslice.Split(app, entries)
	for _, slice := range parts {
		create(t, slice)
	}
	server, address := serve(t, Options{Config: hubConfig, Namespace: namespace})
	page := openStream(t, server, address)
	page.until(t, hasCell(namespace+"/big", "east", "Ready"))
	page.until(t, hasCell(namespace+"/big", "west", "Ready"))

	changed := parts[v1alpha1.SlotOf("west")]
	changed.Cluster("west").Phase = "Failed"
	if err := hub.Update(t.Context(), changed); err != nil {
		t.Fatal(err)
	}
	page.until(t, hasCell(namespace+"/big", "west", "Failed"))
}

func TestServer_shows_no_other_namespace(t *testing.T) {
	t.Parallel()
	mine, other := newNamespace(t), newNamespace(t)
	create(t, newApp(other, "theirs", newEntry("east", "Ready")))
	create(t, newApp(mine, "mine", newEntry("east", "Ready")))
	server, address := serve(t, Options{Config: hubConfig, Namespace: mine})
	page := openStream(t, server, address)
	page.until(t, hasCell(mine+"/mine", "east", "Ready"))
	if len(page.state.apps) != 1 {
		t.Errorf("the page shows %v", page.state.apps)
	}
}

// Many changes of an object within a quarter of a second are one change for a page.
func TestServer_coalesces_changes(t *testing.T) {
	t.Parallel()
	namespace := newNamespace(t)
	app := newApp(namespace, "web", newEntry("east", "Ready"))
	create(t, app)
	server, address := serve(t, Options{Config: hubConfig, Namespace: namespace})
	page := openStream(t, server, address)
	page.until(t, hasCell(namespace+"/web", "east", "Ready"))
	before, started := page.state.changes, time.Now()
	for i := range int32(100) {
		app.Status.Clusters[0].ReadyReplicas = i
		if err := hub.Status().Update(t.Context(), app); err != nil {
			t.Fatal(err)
		}
	}
	page.until(t, func(state pageState) error {
		if got := state.apps[namespace+"/web"].Cells[0].Ready; got != 99 {
			return fmt.Errorf("%d pods are ready", got)
		}
		return nil
	})
	// Other tests change MemberClusters meanwhile, so only the rate has a limit.
	if limit := 2 + int(time.Since(started)/streamInterval); page.state.changes-before > limit {
		t.Errorf("got %d changes, want at most %d", page.state.changes-before, limit)
	}
}

func TestServer_says_what_the_user_may_not_read(t *testing.T) {
	t.Parallel()
	namespace := newNamespace(t)
	app := newApp(namespace, "web", newEntry("east", "Ready"))
	create(t, app)
	user, err := hubEnv.AddUser(envtest.User{Name: namespace}, nil)
	if err != nil {
		t.Fatal(err)
	}
	create(t, &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "view"}, Rules: []rbacv1.PolicyRule{{
		APIGroups: []string{v1alpha1.GroupVersion.Group}, Resources: []string{"appservices"}, Verbs: []string{"get", "list", "watch"}}}})
	create(t, &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "view"},
		RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "view"},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "User", Name: namespace}}})
	server, address := serve(t, Options{Config: user.Config(), Namespace: namespace, OperatorNamespace: namespace})
	page := openStream(t, server, address)
	page.until(t, hasCell(namespace+"/web", "east", "Ready"))
	page.until(t, func(state pageState) error {
		for _, kind := range state.hub.Kinds {
			isRefused := strings.Contains(kind.Problem, "you may not read "+kind.Resource)
			if isRefused == (kind.Resource == "appservices") {
				return fmt.Errorf("%s: problem %q", kind.Resource, kind.Problem)
			}
		}
		return nil
	})
	if page.state.hub.Problem != "" {
		t.Errorf("the hub has problem %q, although it answers", page.state.hub.Problem)
	}
	// There is no Lease, but the user may not know that. The Lease is read before each answer counts.
	first := page.state.hub.LastAnswer
	page.until(t, func(state pageState) error {
		if !first.Before(&state.hub.LastAnswer) {
			return fmt.Errorf("the last answer was at %s", state.hub.LastAnswer)
		}
		return nil
	})
	if page.state.hub.OperatorProblem != "" {
		t.Errorf("the operator has problem %q, although the user may not read its Lease", page.state.hub.OperatorProblem)
	}

	var detail Detail
	if err := json.NewDecoder(get(t, server, address+"/api/app?namespace="+namespace+"&name=web").Body).Decode(&detail); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(detail.EventsProblem, "you may not read events") {
		t.Errorf("got problem %q of the events", detail.EventsProblem)
	}
}

func TestServer_says_whether_the_operator_runs(t *testing.T) {
	t.Parallel()
	namespace := newNamespace(t)
	server, address := serve(t, Options{Config: hubConfig, Namespace: namespace, OperatorNamespace: namespace})
	page := openStream(t, server, address)
	check := func(want string) {
		t.Helper()
		page.until(t, func(state pageState) error {
			if got := state.hub.OperatorProblem; state.hub.Problem != "" || (got == "") != (want == "") || !strings.Contains(got, want) {
				return fmt.Errorf("the operator has problem %q, want %q; the hub has problem %q", got, want, state.hub.Problem)
			}
			return nil
		})
	}
	check("no operator runs: there is no Lease " + namespace + "/fleetwright")
	lease := newLease(namespace, time.Now().Add(-3*time.Minute))
	create(t, lease)
	check("the operator has not renewed its Lease for 3m")
	lease.Spec.RenewTime.Time = time.Now().Add(time.Hour) // it does not expire in this test
	if err := hub.Update(t.Context(), lease); err != nil {
		t.Fatal(err)
	}
	check("")
}

func TestServer_reads_events(t *testing.T) {
	t.Parallel()
	namespace := newNamespace(t)
	app := newApp(namespace, "web", newEntry("east", "Failed"))
	create(t, app)
	event := &corev1.Event{
		ObjectMeta:     metav1.ObjectMeta{Namespace: namespace, Name: "web.1"},
		InvolvedObject: corev1.ObjectReference{Kind: "AppService", Namespace: namespace, Name: "web"},
		Related:        &corev1.ObjectReference{Kind: "MemberCluster", Name: "east"},
		Type:           corev1.EventTypeWarning, Reason: "ImagePullBackOff", Message: "east: image pull fails", LastTimestamp: noon, Count: 3,
	}
	if err := hub.Create(t.Context(), event); err != nil {
		t.Fatal(err)
	}
	server, address := serve(t, Options{Config: hubConfig, Namespace: namespace})
	openStream(t, server, address).until(t, hasCell(namespace+"/web", "east", "Failed"))
	var detail Detail
	response := get(t, server, address+"/api/app?namespace="+namespace+"&name=web&cluster=east")
	if err := json.NewDecoder(response.Body).Decode(&detail); err != nil {
		t.Fatal(err)
	}
	if len(detail.Events) != 1 || detail.Events[0].Message != event.Message || detail.Events[0].Count != 3 || !detail.Events[0].Warning {
		t.Errorf("got events %v, problem %q", detail.Events, detail.EventsProblem)
	}
	response = get(t, server, address+"/api/app?namespace="+namespace+"&name=gone")
	if body, _ := io.ReadAll(response.Body); response.StatusCode != http.StatusNotFound || !strings.Contains(string(body), "no AppService gone") {
		t.Errorf("got %d %s", response.StatusCode, body)
	}
}

func TestServer_says_that_the_hub_is_lost_and_returns(t *testing.T) {
	t.Parallel()
	for name, lose := range map[string]func(*link){"refused": (*link).cut, "silent": (*link).silence} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			namespace := newNamespace(t)
			app := newApp(namespace, "web", newEntry("east", "Ready"))
			create(t, app)
			network := newLink()
			config := rest.CopyConfig(hubConfig)
			config.Dial = network.dial
			server, address := serve(t, Options{Config: config, Namespace: namespace})
			page := openStream(t, server, address)
			page.until(t, hasCell(namespace+"/web", "east", "Ready"))

			lose(network)
			page.until(t, func(state pageState) error {
				if !strings.Contains(state.hub.Problem, "the hub does not answer") {
					return fmt.Errorf("the hub has problem %q", state.hub.Problem)
				}
				return nil
			})
			lost := page.state.hub.LastAnswer
			app.Status.Clusters[0].Phase = "Failed"
			if err := hub.Status().Update(t.Context(), app); err != nil {
				t.Fatal(err)
			}
			network.restore()
			page.until(t, func(state pageState) error {
				if state.hub.Problem != "" {
					return fmt.Errorf("the hub has problem %q", state.hub.Problem)
				}
				return nil
			})
			page.until(t, hasCell(namespace+"/web", "east", "Failed"))
			if !lost.Before(&page.state.hub.LastAnswer) {
				t.Errorf("the last answer was at %s, and before the loss at %s", page.state.hub.LastAnswer, lost)
			}
		})
	}
}

func TestServer_says_that_the_hub_has_no_CRDs(t *testing.T) {
	t.Parallel()
	environment := servertest.New()
	servertest.Start(t, environment)
	server, address := serve(t, Options{Config: environment.Config})
	openStream(t, server, address).until(t, func(state pageState) error {
		for _, kind := range state.hub.Kinds {
			if !strings.Contains(kind.Problem, "the hub has no "+kind.Resource) {
				return fmt.Errorf("%s: problem %q", kind.Resource, kind.Problem)
			}
		}
		return nil
	})
}

func TestListen_refuses_an_address_that_others_can_reach(t *testing.T) {
	t.Parallel()
	for _, address := range []string{"0.0.0.0:0", ":0", "192.0.2.1:0", "localhost:0", "127.0.0.1", "[::]:0"} {
		if server, err := Listen(Options{Config: &rest.Config{Host: "https://127.0.0.1:1"}, Address: address}); err == nil || !strings.Contains(err.Error(), "use 127.0.0.1:PORT") {
			t.Errorf("%s: got error %v", address, err)
			if server != nil {
				_ = server.listener.Close()
			}
		}
	}
}

func TestListen_says_that_a_port_is_taken(t *testing.T) {
	t.Parallel()
	server, _ := serve(t, Options{Config: hubConfig})
	if _, err := Listen(Options{Config: hubConfig, Address: server.listener.Addr().String()}); err == nil || !strings.Contains(err.Error(), "address already in use") {
		t.Errorf("got error %v", err)
	}
}
