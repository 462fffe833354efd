package ui

import (
	"context"
	"flag"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/entries/appslice"
)

var (
	browser     = flag.String("browser", "", "run TestBrowser with this Chromium")
	full        = flag.Bool("full", false, "run TestBrowser also on the large fleets for which docs/ui.md has numbers, and limit its times")
	screenshots = flag.String("screenshots", "", "write the screenshots of TestBrowser to this directory")
)

// browserFleet is a fleet and the test file that runs on it.
type browserFleet struct {
	apps, clusters int
	file           string
	create         func(t *testing.T, apps, clusters int)
}

// TestBrowser runs page/test/*.test.mjs in a real browser. They change the objects on the hub
// through a proxy to the API server, and look at the page. `make test-ui` runs it.
func TestBrowser(t *testing.T) {
	if *browser == "" {
		t.Skip("runs only with -browser=/usr/bin/chromium: use `make test-ui`")
	}
	t.Run("small fleet", func(t *testing.T) {
		clearHub(t)
		createShop(t)
		runBrowser(t, "small.test.mjs")
	})
	t.Run("rollouts", func(t *testing.T) {
		clearHub(t)
		createRollouts(t)
		runBrowser(t, "rollouts.test.mjs")
	})
	// These are enough to fold the clusters, and more cells than fit in a window.
	edge := browserFleet{20, 160, "edge.test.mjs", createEdge}
	if *full || *screenshots != "" {
		edge.apps, edge.clusters = 50, 1000
	}
	fleets := []browserFleet{{60, 60, "large.test.mjs", createLarge}, edge}
	if *full {
		fleets = []browserFleet{{200, 200, "large.test.mjs", createLarge}, edge, {20, 10_000, "huge.test.mjs", createLarge}}
	}
	for _, fleet := range fleets {
		t.Run(fmt.Sprintf("%d applications on %d clusters", fleet.apps, fleet.clusters), func(t *testing.T) {
			clearHub(t)
			fleet.create(t, fleet.apps, fleet.clusters)
			runBrowser(t, fleet.file, fmt.Sprintf("UI_APPS=%d", fleet.apps), fmt.Sprintf("UI_CLUSTERS=%d", fleet.clusters), fmt.Sprintf("UI_FULL=%t", *full))
		})
	}
}

// clearHub deletes what other tests left.
func clearHub(t *testing.T) {
	t.Helper()
	deleteAll(t, &v1alpha1.MemberCluster{})
}

// deleteAll deletes all objects of a kind. The API server deletes them one after the other, and on a
// busy machine it may time out before the last one.
func deleteAll(t *testing.T, object client.Object, options ...client.DeleteAllOfOption) {
	t.Helper()
	for {
		err := hub.DeleteAllOf(context.Background(), object, options...)
		if err == nil {
			return
		}
		if !apierrors.IsTimeout(err) && !apierrors.IsServerTimeout(err) {
			t.Fatal(err)
		}
	}
}

// runBrowser serves the page, and runs a test file with its URL.
func runBrowser(t *testing.T, file string, env ...string) {
	t.Helper()
	create(t, newLease(metav1.NamespaceDefault, time.Now().Add(time.Hour))) // it does not expire in these tests
	served := &restartable{network: newLink()}
	served.start(t)
	defer served.stop(t)
	control := httptest.NewServer(served.control(t))
	defer control.Close()
	command := exec.CommandContext(t.Context(), "node", "--test", "--test-reporter=spec", filepath.Join("test", file))
	command.Dir = "page"
	command.Env = append(append(os.Environ(), env...), "UI_URL="+served.server.URL(), "UI_CONTROL="+control.URL, "UI_CHROMIUM="+*browser)
	if *screenshots != "" {
		directory, err := filepath.Abs(*screenshots)
		if err != nil {
			t.Fatal(err)
		}
		command.Env = append(command.Env, "UI_SCREENSHOTS="+directory)
	}
	output, err := command.CombinedOutput()
	t.Logf("%s", output)
	if err != nil {
		t.Errorf("node --test %s: %v", file, err)
	}
}

// restartable is a server that can be stopped, and started again at the same address with the same
// token.
type restartable struct {
	network *link
	server  *Server
	cancel  context.CancelFunc
	ended   chan error
}

func (r *restartable) start(t *testing.T) {
	t.Helper()
	config := rest.CopyConfig(hubConfig)
	config.Dial = r.network.dial
	options := Options{Config: config, Context: "demo", HubFlags: []string{"--context=demo"}, OperatorNamespace: metav1.NamespaceDefault, Address: "127.0.0.1:0"}
	if r.server != nil {
		options.Address = r.server.listener.Addr().String()
	}
	server, err := Listen(options)
	if err != nil {
		t.Error(err)
		return
	}
	if r.server != nil {
		server.http.Handler.(*guard).token = r.server.token
		server.token = r.server.token
	}
	ctx, cancel := context.WithCancel(context.Background())
	r.server, r.cancel, r.ended = server, cancel, make(chan error)
	go func() { r.ended <- server.Serve(ctx) }()
}

func (r *restartable) stop(t *testing.T) {
	t.Helper()
	r.cancel()
	if err := <-r.ended; err != nil {
		t.Error(err)
	}
}

// control passes requests to the API server of the hub, with the rights of an administrator. It
// also cuts the network between the server of the page and the hub, and stops and starts the
// server.
func (r *restartable) control(t *testing.T) http.Handler {
	t.Helper()
	target, err := url.Parse(hubConfig.Host)
	if err != nil {
		t.Fatal(err)
	}
	transport, err := rest.TransportFor(hubConfig)
	if err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.Handle("/apis/", &httputil.ReverseProxy{Transport: transport, Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(target) }})
	for action, act := range map[string]func(){
		"cut":     r.network.cut,
		"restore": r.network.restore,
		"stop":    func() { r.stop(t) },
		"start":   func() { r.start(t) },
	} {
		mux.HandleFunc("POST /control/"+action, func(http.ResponseWriter, *http.Request) { act() })
	}
	return mux
}

// createShop creates a fleet with an application in each phase.
func createShop(t *testing.T) {
	t.Helper()
	now := metav1.Now()
	ago := func(d time.Duration) metav1.Time { return metav1.NewTime(now.Add(-d).Truncate(time.Second)) }
	members := []struct{ name, region, version, tier string }{
		{"eu-north", "eu", "v1.36.1", "gold"}, {"eu-south", "eu", "v1.36.1", "gold"}, {"eu-west", "eu", "v1.35.4", "silver"},
		{"us-east", "us", "v1.36.1", "gold"}, {"us-west", "us", "v1.34.7", "silver"},
		{"ap-east", "ap", "v1.36.0", "silver"}, {"ap-south", "ap", "v1.36.0", "silver"},
	}
	for _, m := range members {
		member := &v1alpha1.MemberCluster{ObjectMeta: metav1.ObjectMeta{Name: m.name, Labels: map[string]string{regionLabel: m.region, "tier": m.tier}}}
		member.Spec.Unschedulable = m.name == "us-west"
		member.Status.Version = m.version
		member.Status.Conditions = []metav1.Condition{{Type: "Ready", Status: "True", Reason: "Connected", LastTransitionTime: ago(30 * time.Hour)}}
		if m.name == "ap-south" {
			member.Status.Conditions = []metav1.Condition{{Type: "Ready", Status: "False", Reason: "Unreachable", Message: "no answer from the cluster", LastTransitionTime: ago(7 * time.Minute)}}
		}
		create(t, member)
	}
	// each returns an entry for each member. change may change it, or return false to drop it.
	each := func(replicas int32, change func(*v1alpha1.ClusterStatus) bool) []v1alpha1.ClusterStatus {
		var entries []v1alpha1.ClusterStatus
		for _, m := range members {
			entry := v1alpha1.ClusterStatus{
				Name: m.name, Generation: 4, ObservedGeneration: 4, Revision: 4, Phase: "Ready",
				Replicas: replicas, ReadyReplicas: replicas, LastTransitionTime: ago(20 * time.Hour),
			}
			if m.name == "ap-south" {
				entry.Phase, entry.LastKnownPhase, entry.Reason = "Unknown", "Ready", "ClusterUnreachable"
				entry.Message, entry.LastTransitionTime = "the cluster does not respond", ago(7*time.Minute)
			}
			if change == nil || change(&entry) {
				entries = append(entries, entry)
			}
		}
		return entries
	}
	except := func(names ...string) func(*v1alpha1.ClusterStatus) bool {
		return func(e *v1alpha1.ClusterStatus) bool {
			for _, name := range names {
				if e.Name == name {
					return false
				}
			}
			return true
		}
	}
	for _, namespace := range []string{"shop", "platform", "lab"} {
		object := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}
		if err := hub.Create(t.Context(), object); err != nil {
			t.Fatal(err)
		}
	}
	selected := []v1alpha1.ExcludedClusters{{Reason: "SelectorMismatch", Count: 3, Examples: []string{"ap-east", "ap-south", "eu-west"}, Requirements: []string{"tier=gold"}}}
	add := func(namespace, name, reason, message string, entries []v1alpha1.ClusterStatus, change func(*v1alpha1.AppService)) {
		app := newApp(namespace, name, entries...)
		app.Labels = map[string]string{"team": namespace}
		app.Status.Summary = summaryOf(entries)
		app.Status.Rollout = v1alpha1.RolloutStatus{Revision: 4, StableRevision: 4, Phase: v1alpha1.RolloutCompleted}
		isReady := metav1.ConditionFalse
		if reason == "Ready" {
			isReady = metav1.ConditionTrue
		}
		app.Status.Conditions = []metav1.Condition{{Type: "Ready", Status: isReady, Reason: reason, Message: message, LastTransitionTime: ago(6 * time.Minute)}}
		if change != nil {
			change(app)
		}
		create(t, app)
	}
	add("shop", "checkout", "ClustersFailed", "1 of 7 clusters failed: eu-west (ImagePullBackOff)", each(6, func(e *v1alpha1.ClusterStatus) bool {
		if e.Name == "eu-west" {
			e.Phase, e.Reason, e.ReadyReplicas, e.UnreadyReplicas = "Failed", "ImagePullBackOff", 4, 2
			e.Message, e.LastTransitionTime = "the image registry.example/shop/checkout:8 cannot be pulled: not found", ago(12*time.Minute)
		}
		return true
	}), nil)
	add("shop", "web", "AwaitingApproval", "revision 5 waits for approval of stage eu (3 clusters): annotate the AppService with fleetwright.dev/approve=5/eu", each(3, func(e *v1alpha1.ClusterStatus) bool {
		if e.Name == "us-east" || e.Name == "us-west" {
			e.Generation, e.ObservedGeneration, e.Revision = 5, 5, 5
		}
		return true
	}), func(app *v1alpha1.AppService) {
		soak := int32(600)
		app.Spec.Rollout = &v1alpha1.Rollout{Stages: []v1alpha1.RolloutStage{{Name: "us", SoakSeconds: &soak}, {Name: "eu", Approval: v1alpha1.ApprovalRequired}}}
		app.Status.Rollout = v1alpha1.RolloutStatus{Revision: 5, StableRevision: 4, Phase: v1alpha1.RolloutProgressing, Stages: []v1alpha1.RolloutStageStatus{
			{Name: "us", Phase: v1alpha1.StageCompleted, Since: ago(8 * time.Minute), Clusters: 2, UpToDate: 2, Available: 2},
			{Name: "eu", Phase: v1alpha1.StageAwaitingApproval, Since: ago(8 * time.Minute), Clusters: 3},
			{Name: "(rest)", Phase: v1alpha1.StagePending, Since: ago(18 * time.Minute), Clusters: 2},
		}}
	})
	add("shop", "search", "Progressing", "2 of 4 clusters are rolling out", each(4, func(e *v1alpha1.ClusterStatus) bool {
		if e.Name == "eu-north" || e.Name == "us-east" {
			e.Phase, e.Reason, e.ReadyReplicas, e.UnreadyReplicas = "Progressing", "RollingOut", 2, 1
			e.LastTransitionTime = ago(40 * time.Second)
		}
		return except("ap-east", "ap-south", "eu-west")(e)
	}), func(app *v1alpha1.AppService) { app.Status.Placement.Excluded = selected })
	add("shop", "cart", "ClustersUnknown", "1 of 7 clusters not ready: ap-south (ClusterUnreachable)", each(5, nil), nil)
	add("shop", "images", "Ready", "all clusters are Ready", each(2, except("ap-south", "us-west")), func(app *v1alpha1.AppService) {
		app.Status.Placement.Excluded = []v1alpha1.ExcludedClusters{{Reason: "LimitReached", Count: 1, Examples: []string{"ap-south"}}, {Reason: "Unschedulable", Count: 1, Examples: []string{"us-west"}}}
	})
	add("platform", "gateway", "ClustersUnknown", "1 of 7 clusters not ready: ap-south (ClusterUnreachable)", each(3, nil), nil)
	add("platform", "mailer", "Progressing", "the removal from us-west waits", each(2, func(e *v1alpha1.ClusterStatus) bool {
		if e.Name == "us-west" {
			e.Phase, e.Reason, e.LastTransitionTime = "Removing", "Removing", ago(15*time.Second)
		}
		return except("ap-east", "ap-south", "eu-west")(e)
	}), func(app *v1alpha1.AppService) { app.Status.Placement.Excluded = selected })
	add("platform", "ledger", "Ready", "all clusters are Ready", each(3, except("ap-east", "ap-south", "eu-west")), func(app *v1alpha1.AppService) { app.Status.Placement.Excluded = selected })
	add("lab", "batch", "NoClusters", "no cluster matches: 7 have other labels (wanted region=sa)", nil, func(app *v1alpha1.AppService) {
		app.Status.Conditions = append(app.Status.Conditions, metav1.Condition{Type: "Stalled", Status: "True", Reason: "NoClusters", Message: "no cluster matches", LastTransitionTime: ago(time.Hour)})
		app.Status.Placement.Excluded = []v1alpha1.ExcludedClusters{{Reason: "SelectorMismatch", Count: 7, Examples: []string{"ap-east", "ap-south", "eu-north"}, Requirements: []string{"region=sa"}}}
	})
	event := &corev1.Event{
		ObjectMeta:     metav1.ObjectMeta{Namespace: "shop", Name: "checkout.1"},
		InvolvedObject: corev1.ObjectReference{Kind: "AppService", Namespace: "shop", Name: "checkout"},
		Related:        &corev1.ObjectReference{Kind: "MemberCluster", Name: "eu-west"},
		Type:           corev1.EventTypeWarning, Reason: "ImagePullBackOff", Message: "eu-west: the image cannot be pulled", LastTimestamp: ago(12 * time.Minute), Count: 4,
	}
	if err := hub.Create(t.Context(), event); err != nil {
		t.Fatal(err)
	}
}

func summaryOf(entries []v1alpha1.ClusterStatus) v1alpha1.ClusterSummary {
	var sum v1alpha1.ClusterSummary
	for _, entry := range entries {
		sum.ReadyReplicas += entry.ReadyReplicas
		if entry.Phase == "Removing" {
			continue
		}
		sum.Clusters++
		sum.Replicas += entry.Replicas
		if entry.Phase == "Ready" {
			sum.Ready++
		}
	}
	sum.Display = fmt.Sprintf("%d/%d", sum.Ready, sum.Clusters)
	return sum
}

// createLarge creates applications that are Ready on all clusters, which are in ten regions.
func createLarge(t *testing.T, apps, clusters int) {
	t.Helper()
	createMany(t, newNamespace(t), apps, clusters, manyObjects{member: newLargeMember, app: newLargeApp})
}

// manyObjects returns the objects of a fleet by their numbers.
type manyObjects struct {
	member func(i int) *v1alpha1.MemberCluster
	app    func(namespace string, i, clusters int) (*v1alpha1.AppService, []v1alpha1.ClusterStatus)
}

// createMany creates the objects of a fleet, some at once.
func createMany(t *testing.T, namespace string, apps, clusters int, objects manyObjects) {
	t.Helper()
	createAll(t, clusters, func(ctx context.Context, i int) error {
		member := objects.member(i)
		created := member.DeepCopy()
		if err := hub.Create(ctx, created); err != nil {
			return err
		}
		created.Status = member.Status
		return hub.Status().Update(ctx, created)
	})
	createAll(t, apps, func(ctx context.Context, i int) error {
		app, sliced := objects.app(namespace, i, clusters)
		created := app.DeepCopy()
		if err := hub.Create(ctx, created); err != nil {
			return err
		}
		created.Status = app.Status
		if err := hub.Status().Update(ctx, created); err != nil || sliced == nil {
			return err
		}
		for _, slice := range appslice.Split(created, sliced) {
			if err := hub.Create(ctx, slice); err != nil {
				return err
			}
		}
		return nil
	})
	t.Cleanup(func() {
		deleteAll(t, &v1alpha1.AppService{}, client.InNamespace(namespace))
		deleteAll(t, &v1alpha1.AppServiceSlice{}, client.InNamespace(namespace))
	})
}

// createAll calls create for each number below count, some at once.
func createAll(t *testing.T, count int, create func(ctx context.Context, i int) error) {
	t.Helper()
	group, ctx := errgroup.WithContext(t.Context())
	group.SetLimit(8)
	for i := range count {
		group.Go(func() error { return create(ctx, i) })
	}
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
}
