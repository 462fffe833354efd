package planner

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/observation"
)

// patience is the time limit for every expected state. Only a failing test uses it up.
const patience = time.Minute

// scene is an AppService in its own namespace, and a planner for that namespace. The test plays the
// clusters, and reports observations as delivery does.
type scene struct {
	*testing.T
	*planner
	app *v1alpha1.AppService
}

// planner is one run of the planner.
type planner struct {
	observations *Observations
	client       client.Client // the planner's, which reads from its cache
	sent         *traffic
	stop         func()
}

// undeclared returns a scene with members and a running planner, but without an AppService.
func undeclared(t *testing.T, members ...string) *scene {
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "shop-"}}
	s := &scene{T: t, app: &v1alpha1.AppService{}}
	s.must(hub.Create(t.Context(), namespace))
	s.app.Namespace, s.app.Name = namespace.Name, "web"
	s.app.Spec = v1alpha1.AppServiceSpec{Image: "web:1", Replicas: new(int32(2))}
	for _, member := range members {
		s.join(member)
	}
	s.start()
	return s
}

// planned returns a scene with an AppService that is planned on all members.
func planned(t *testing.T, members ...string) *scene {
	s := undeclared(t, members...)
	s.declare()
	var want []v1alpha1.ClusterStatus
	for _, member := range members {
		want = append(want, s.row(member, v1alpha1.ClusterPending))
	}
	s.has(want...)
	return s
}

// running returns a scene with an AppService that all members run.
func running(t *testing.T, members ...string) *scene {
	s := planned(t, members...)
	s.run(members...)
	return s
}

// run reports that the members run the current generation, and waits for the entries.
func (s *scene) run(members ...string) {
	s.Helper()
	var want []v1alpha1.ClusterStatus
	for _, member := range members {
		s.sees(member, s.ready())
		want = append(want, s.row(member, v1alpha1.ClusterReady))
	}
	s.has(want...)
}

func (s *scene) must(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

func (s *scene) key() client.ObjectKey { return client.ObjectKeyFromObject(s.app) }

func (s *scene) request() reconcile.Request { return reconcile.Request{NamespacedName: s.key()} }

// declare creates the AppService after the planner's cache has all members.
func (s *scene) declare() {
	s.Helper()
	s.catchUp()
	s.must(hub.Create(s.Context(), s.app))
}

// start starts a new planner.
func (s *scene) start() {
	s.Helper()
	p := &planner{observations: NewObservations(), sent: &traffic{}}
	hubConfig := rest.CopyConfig(granted)
	hubConfig.Wrap(p.sent.wrap)
	manager, err := ctrl.NewManager(hubConfig, ctrl.Options{
		Scheme:     kinds,
		Cache:      cache.Options{DefaultNamespaces: map[string]cache.Config{s.app.Namespace: {}}},
		Metrics:    metricsserver.Options{BindAddress: "0"},
		Controller: config.Controller{SkipNameValidation: new(true)},
	})
	s.must(err)
	_, err = SetupWithManager(manager, p.observations)
	s.must(err)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- manager.Start(ctx) }()
	p.client = manager.GetClient()
	p.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			s.Error("the planner ended with:", err)
		}
	})
	s.Cleanup(p.stop)
	s.planner = p
}

func (s *scene) restart() {
	s.Helper()
	s.stop()
	s.start()
}

// join creates a Ready MemberCluster.
func (s *scene) join(name string) *v1alpha1.MemberCluster {
	s.Helper()
	member := &v1alpha1.MemberCluster{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"tier": "prod"}}}
	s.must(hub.Create(s.Context(), member))
	s.Cleanup(func() { s.must(client.IgnoreNotFound(hub.Delete(context.Background(), member))) })
	s.answers(name, metav1.ConditionTrue)
	return member
}

// answers sets the Ready condition of a member.
func (s *scene) answers(name string, status metav1.ConditionStatus) {
	s.Helper()
	s.member(name, func(member *v1alpha1.MemberCluster) {
		member.Status.Conditions = []metav1.Condition{{
			Type:               v1alpha1.ConditionReady,
			Status:             status,
			Reason:             v1alpha1.ReasonConnected,
			LastTransitionTime: metav1.Now(),
		}}
	})
}

// member changes a MemberCluster.
func (s *scene) member(name string, change func(*v1alpha1.MemberCluster)) {
	s.Helper()
	member := &v1alpha1.MemberCluster{}
	s.must(hub.Get(s.Context(), client.ObjectKey{Name: name}, member))
	before := member.DeepCopy()
	change(member)
	s.must(hub.Status().Patch(s.Context(), member.DeepCopy(), client.MergeFrom(before)))
	s.must(hub.Patch(s.Context(), member, client.MergeFrom(before)))
}

func (s *scene) detach(name string) {
	s.Helper()
	s.must(hub.Delete(s.Context(), &v1alpha1.MemberCluster{ObjectMeta: metav1.ObjectMeta{Name: name}}))
}

// edit changes the AppService as a user does.
func (s *scene) edit(change func(*v1alpha1.AppService)) {
	s.Helper()
	s.read()
	before := s.app.DeepCopy()
	change(s.app)
	s.must(hub.Patch(s.Context(), s.app, client.MergeFrom(before)))
}

func (s *scene) read() {
	s.Helper()
	s.must(hub.Get(s.Context(), s.key(), s.app))
}

func (s *scene) delete() {
	s.Helper()
	s.must(hub.Delete(s.Context(), s.app))
	s.read()
}

// sees reports an observation. Like delivery, which shares the cache, it learns of an entry no
// sooner than the planner.
func (s *scene) sees(member string, seen observation.Observation) {
	if seen.Planned == 0 && !seen.Found {
		seen.Planned = s.app.DesiredReplicas() // the replicas of the entry that it answers
	}
	s.Helper()
	s.catchUp()
	s.observations.Report(s.key(), member, seen)
}

// ready returns the observation of a member that runs the current generation.
func (s *scene) ready() observation.Observation {
	return observation.Observation{
		UID:           s.app.UID,
		Generation:    s.app.Generation,
		Planned:       s.app.DesiredReplicas(),
		Phase:         v1alpha1.ClusterReady,
		Applied:       s.app.Generation,
		Replicas:      s.app.DesiredReplicas(),
		ReadyReplicas: s.app.DesiredReplicas(),
	}
}

// gone returns the observation that no object is left, in answer to an entry that has been Removing
// since then.
func (s *scene) gone(since metav1.Time) observation.Observation {
	return observation.Observation{UID: s.app.UID, Generation: s.app.Generation, Phase: v1alpha1.ClusterRemoving, GoneSince: since}
}

// row returns the entry of a member in a phase, for the current generation.
func (s *scene) row(member string, phase v1alpha1.ClusterPhase, changes ...func(*v1alpha1.ClusterStatus)) v1alpha1.ClusterStatus {
	row := v1alpha1.ClusterStatus{
		Name:       member,
		Phase:      phase,
		Generation: s.app.Generation,
		Replicas:   s.app.DesiredReplicas(),
	}
	switch phase {
	case v1alpha1.ClusterPending:
		row.Reason, row.Surging = v1alpha1.ReasonPending, true
	case v1alpha1.ClusterProgressing:
		row.Reason = v1alpha1.ReasonRollingOut
	case v1alpha1.ClusterUnknown:
		row.Reason, row.LastKnownPhase = v1alpha1.ReasonClusterUnreachable, v1alpha1.ClusterReady
	case v1alpha1.ClusterRemoving:
		row.Reason = v1alpha1.ReasonRemoving
	case v1alpha1.ClusterDetached:
		row.LastKnownPhase = v1alpha1.ClusterReady
		row.Reason = v1alpha1.ReasonClusterDetached
	}
	if phase != v1alpha1.ClusterPending {
		ran(row.Generation, row.Replicas)(&row)
	}
	for _, change := range changes {
		change(&row)
	}
	return row
}

// ran sets the last observed state of an entry.
func ran(generation int64, pods int32) func(*v1alpha1.ClusterStatus) {
	return func(row *v1alpha1.ClusterStatus) {
		row.ObservedGeneration, row.ReadyReplicas = generation, pods
	}
}

func saying(reason, message string) func(*v1alpha1.ClusterStatus) {
	return func(row *v1alpha1.ClusterStatus) { row.Reason, row.Message = reason, message }
}

// Transitions are tested in package rollout.
var withoutTimes = cmpopts.IgnoreFields(v1alpha1.ClusterStatus{}, "LastTransitionTime", "Transition")

// has waits until the AppService has exactly these entries, and reads it.
func (s *scene) has(rows ...v1alpha1.ClusterStatus) {
	s.Helper()
	eventually(s.T, func() error {
		s.read()
		if diff := cmp.Diff(rows, s.app.Status.Clusters, withoutTimes); diff != "" {
			return fmt.Errorf("entries (-want +got):\n%s", diff)
		}
		return nil
	})
}

// says fails the test if a condition of the AppService, as last read, differs.
func (s *scene) says(condition string, status metav1.ConditionStatus, reason, message string) {
	s.Helper()
	got := meta.FindStatusCondition(s.app.Status.Conditions, condition)
	if got == nil {
		s.Errorf("there is no condition %s", condition)
		return
	}
	want := metav1.Condition{Type: condition, Status: status, Reason: reason, Message: message, ObservedGeneration: s.app.Generation}
	if diff := cmp.Diff(want, *got, cmpopts.IgnoreFields(metav1.Condition{}, "LastTransitionTime")); diff != "" {
		s.Errorf("condition (-want +got):\n%s", diff)
	}
}

// since returns the lastTransitionTime of a member's entry.
func (s *scene) since(member string) metav1.Time {
	s.Helper()
	row := s.app.Status.Cluster(member)
	if row == nil {
		s.Fatalf("there is no entry for %s", member)
	}
	return row.LastTransitionTime
}

// isGone waits until the AppService is deleted.
func (s *scene) isGone() {
	s.Helper()
	eventually(s.T, s.isDeleted)
}

// isDeleted returns an error while the AppService exists.
func (s *scene) isDeleted() error {
	err := hub.Get(s.Context(), s.key(), &v1alpha1.AppService{})
	if err == nil {
		return errors.New("the AppService is still there")
	}
	return client.IgnoreNotFound(err)
}

// catchUp waits until the planner's cache is up to date.
func (s *scene) catchUp() {
	s.Helper()
	eventually(s.T, func() error {
		cached, direct := s.versions(s.client), s.versions(hub)
		if diff := cmp.Diff(direct, cached); diff != "" {
			return fmt.Errorf("versions (-hub +cache):\n%s", diff)
		}
		return nil
	})
}

// look reconciles the AppService once with an up-to-date cache.
func (s *scene) look() reconcile.Result {
	s.Helper()
	s.catchUp()
	r := s.reconciler(s.client)
	result, err := r.Reconcile(s.Context(), s.request())
	s.must(err)
	return result
}

// reconciler returns a second Reconciler for the test to call. Its events are dropped.
func (s *scene) reconciler(hubClient client.Client) *Reconciler {
	return newReconciler(hubClient, hub, events.NewFakeRecorder(100), s.observations)
}

// versions returns the resource versions of all objects that the planner reads.
func (s *scene) versions(from client.Reader) map[string]string {
	s.Helper()
	var apps v1alpha1.AppServiceList
	var members v1alpha1.MemberClusterList
	versions := map[string]string{}
	if err := errors.Join(from.List(s.Context(), &apps, client.InNamespace(s.app.Namespace)), from.List(s.Context(), &members)); err != nil {
		versions["error"] = err.Error() // the cache has not started yet
	}
	for _, app := range apps.Items {
		versions["AppService "+app.Name] = app.ResourceVersion
	}
	for _, member := range members.Items {
		versions["MemberCluster "+member.Name] = member.ResourceVersion
	}
	return versions
}

// hasSent fails the test if the planner sent other writes since its start.
func (s *scene) hasSent(want ...string) {
	s.Helper()
	if diff := cmp.Diff(want, s.sent.lines()); diff != "" {
		s.Errorf("sent to the hub (-want +got):\n%s", diff)
	}
}

// eventually waits until try returns no error.
func eventually(t *testing.T, try func() error) {
	t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(patience); ; <-tick.C {
		err := try()
		if err == nil {
			return
		}
		if time.Now().After(end) {
			t.Fatal(err)
		}
	}
}

// traffic records the writes that were sent to the hub.
type traffic struct {
	mu     sync.Mutex
	writes []write
	refuse string        // the path suffix of the requests that fail
	held   chan struct{} // closed when writes may continue; nil while no write is blocked
	resets int
}

type write struct {
	line string // such as "PATCH appservices/web/status"
	body string
	at   time.Time
	code int // of the response; 0 if there is none
}

func (f *traffic) wrap(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(r *http.Request) (*http.Response, error) {
		if r.Method == http.MethodGet || strings.HasPrefix(r.URL.Path, "/apis/events.k8s.io/") { // events arrive at any time
			return next.RoundTrip(r)
		}
		w := write{line: r.Method + " " + r.URL.Path, at: time.Now()}
		if _, path, found := strings.Cut(r.URL.Path, "/v1alpha1/namespaces/"); found {
			_, path, _ = strings.Cut(path, "/")
			w.line = r.Method + " " + path
		} else if _, path, found := strings.Cut(r.URL.Path, "/v1alpha1/"); found {
			w.line = r.Method + " " + path
		}
		if r.Body != nil {
			body, err := io.ReadAll(r.Body)
			if err != nil {
				return nil, err
			}
			w.body, r.Body = string(body), io.NopCloser(bytes.NewReader(body))
		}
		f.mu.Lock()
		f.writes = append(f.writes, w)
		number := len(f.writes) - 1
		resets := f.resets
		refused := f.refuse != "" && strings.HasSuffix(r.URL.Path, f.refuse)
		held := f.held
		f.mu.Unlock()
		if held != nil {
			select {
			case <-held:
			case <-r.Context().Done():
			}
		}
		if refused {
			return nil, errors.New("refused by the test")
		}
		response, err := next.RoundTrip(r)
		f.mu.Lock()
		defer f.mu.Unlock()
		if err == nil && resets == f.resets {
			f.writes[number].code = response.StatusCode
		}
		return response, err
	})
}

// hold blocks every write until release.
func (f *traffic) hold() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.held = make(chan struct{})
}

func (f *traffic) release() {
	f.mu.Lock()
	defer f.mu.Unlock()
	close(f.held)
	f.held = nil
}

func (f *traffic) all() []write {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.writes)
}

func (f *traffic) lines() []string {
	var lines []string
	for _, w := range f.all() {
		lines = append(lines, w.line)
	}
	return lines
}

// refusing makes writes to paths with this suffix fail. An empty suffix makes none fail.
func (f *traffic) refusing(end string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.refuse = end
}

func (f *traffic) reset() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.writes = nil
	f.resets++
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
