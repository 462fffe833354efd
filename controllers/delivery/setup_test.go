package delivery

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/cluster"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/multicluster-runtime/pkg/multicluster"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/delivery/object"
	"github.com/fleetwright/fleetwright/controllers/lineage"
	"github.com/fleetwright/fleetwright/controllers/observation"
)

const (
	testHubID = "hub-1"
	// patience limits how long a test waits for an expected state. Only a failing test waits this
	// long.
	waitTimeout = 30 * time.Second
)

// kindOf returns the kind of an object. It is used where a variable shadows the package object.
var kindOf = object.KindOf

// setup is an AppService in its own namespace on the hub, and its own member that the AppService is
// delivered to. The test acts as the planner.
type setup struct {
	*testing.T
	*operator
	app     *v1alpha1.AppService
	cluster string
	config  *rest.Config // for the member
}

// operator is one lifetime of a Deliverer that is engaged with one member.
type operator struct {
	deliverer *Deliverer
	reported  *recorder
	member    cluster.Cluster
	sent      *traffic // the requests to the member, except for the lists and watches of its cache
	disengage context.CancelFunc
	end       context.CancelFunc // ends the whole operator
}

// startedSetup returns a setup with an AppService that is not planned yet, and a running operator.
func startedSetup(t *testing.T, changes ...func(*v1alpha1.AppService)) *setup {
	s := newSetup(t, changes...)
	s.start()
	return s
}

// deliveredSetup returns a setup with an AppService that its member runs.
func deliveredSetup(t *testing.T, changes ...func(*v1alpha1.AppService)) *setup {
	s := startedSetup(t, changes...)
	s.plan()
	s.expectReport(s.ready())
	return s
}

// newSetup returns a setup without an operator.
func newSetup(t *testing.T, changes ...func(*v1alpha1.AppService)) *setup {
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "shop-"}}
	s := &setup{T: t, config: memberConfig, app: &v1alpha1.AppService{}}
	s.must(onHub.Create(t.Context(), namespace))
	s.cluster = "east-of-" + namespace.Name
	s.must(onHub.Create(t.Context(), &v1alpha1.MemberCluster{ObjectMeta: metav1.ObjectMeta{Name: s.cluster, Labels: map[string]string{"region": "eu"}}}))
	s.app.Namespace, s.app.Name = namespace.Name, "web"
	s.app.Spec = v1alpha1.AppServiceSpec{
		Image:    "web:1",
		Replicas: new(int32(1)),
		Env:      []corev1.EnvVar{{Name: "A", Value: "1"}},
		Ports:    []v1alpha1.ServicePort{{Port: 80, TargetPort: intstr.FromInt32(8080)}},
	}
	for _, change := range changes {
		change(s.app)
	}
	s.must(onHub.Create(t.Context(), s.app))
	return s
}

func (s *setup) must(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

// start connects to the member and engages a new Deliverer with it, as a starting process does.
func (s *setup) start() {
	s.Helper()
	ctx := s.connect()
	s.must(s.deliverer.Engage(ctx, s.clusterName(), s.member))
}

// connect connects to the member and engages no Deliverer: only the test reconciles.
func (s *setup) connect() context.Context {
	s.Helper()
	ctx, cancel := context.WithCancel(s.Context())
	s.Cleanup(cancel)
	o := &operator{end: cancel}
	o.deliverer, o.reported = newDeliverer(ctx, s.T, testHubID)
	ctx, o.disengage = context.WithCancel(ctx)
	o.member, o.sent = connected(ctx, s.T, s.config)
	s.operator = o
	return ctx
}

func (s *setup) restart() {
	s.Helper()
	s.end()
	s.start()
}

// onOtherMember returns a setup with the same AppService on another member, which the test
// controls.
func (s *setup) onOtherMember(name string) *setup {
	s.Helper()
	other := *s
	other.cluster = name + "-of-" + s.app.Namespace
	s.must(client.IgnoreAlreadyExists(onHub.Create(s.Context(), &v1alpha1.MemberCluster{ObjectMeta: metav1.ObjectMeta{Name: other.cluster}})))
	return &other
}

// newDeliverer returns a Deliverer of a hub, which runs as long as the context.
func newDeliverer(ctx context.Context, t *testing.T, hubID string) (*Deliverer, *recorder) {
	reported := newRecorder()
	d := New(hubCached, hubID, reported)
	ended := make(chan error)
	ctx, cancel := context.WithCancel(ctx)
	go func() { ended <- d.Start(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error("Start ended with:", err)
		}
	})
	return d, reported
}

// connected returns a member's cluster, created and synced as package clusters does, with the
// options of cmd/fleetwright.
func connected(ctx context.Context, t *testing.T, config *rest.Config) (cluster.Cluster, *traffic) {
	t.Helper()
	sent := &traffic{}
	config = rest.CopyConfig(config)
	config.Wrap(sent.wrap)
	member, err := cluster.New(config, func(o *cluster.Options) {
		o.Scheme = kinds
		o.MapperProvider = func(*rest.Config, *http.Client) (meta.RESTMapper, error) { return Mapper(), nil }
		o.Cache = cache.Options{
			DefaultLabelSelector:        labels.SelectorFromSet(labels.Set{v1alpha1.LabelManagedBy: v1alpha1.ManagedBy}),
			DefaultTransform:            cache.TransformStripManagedFields(),
			ReaderFailOnMissingInformer: true,
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, object := range Kinds() {
		if _, err := member.GetCache().GetInformer(ctx, object, cache.BlockUntilSynced(false)); err != nil {
			t.Fatal(err)
		}
	}
	go func() { _ = member.Start(ctx) }()
	bounded, cancel := context.WithTimeout(ctx, waitTimeout)
	defer cancel()
	if !member.GetCache().WaitForCacheSync(bounded) {
		t.Fatal("the member's cache does not sync")
	}
	return member, sent
}

func (s *setup) clusterName() multicluster.ClusterName { return multicluster.ClusterName(s.cluster) }

func (s *setup) key() types.NamespacedName { return client.ObjectKeyFromObject(s.app) }

// plan acts as the planner: it writes the member's entry for the current generation.
func (s *setup) plan(changes ...func(*v1alpha1.ClusterStatus)) {
	s.Helper()
	entry := v1alpha1.ClusterStatus{
		Name:               s.cluster,
		Phase:              v1alpha1.ClusterPending,
		Generation:         s.app.Generation,
		Replicas:           s.app.DesiredReplicas(),
		LastTransitionTime: metav1.Now().Rfc3339Copy(),
	}
	for _, change := range changes {
		change(&entry)
	}
	s.writeEntries(entry)
}

func (s *setup) writeEntries(entries ...v1alpha1.ClusterStatus) {
	s.Helper()
	s.app.Status.PlannedSpecs = lineage.Planned(s.app)
	s.app.Status.ObservedGeneration = s.app.Generation
	s.app.Status.Clusters = entries
	s.must(onHub.Status().Update(s.Context(), s.app))
}

func withPhase(phase v1alpha1.ClusterPhase) func(*v1alpha1.ClusterStatus) {
	return func(entry *v1alpha1.ClusterStatus) { entry.Phase = phase }
}

// withGeneration sets another generation in an entry.
func withGeneration(generation int64) func(*v1alpha1.ClusterStatus) {
	return func(entry *v1alpha1.ClusterStatus) { entry.Generation = generation }
}

// edit changes the AppService without planning it again.
func (s *setup) edit(change func(*v1alpha1.AppService)) {
	s.Helper()
	change(s.app)
	s.must(onHub.Update(s.Context(), s.app))
}

// planned returns the replicas of the current entry.
func (s *setup) planned() int32 {
	if entry := s.app.Status.Cluster(s.cluster); entry != nil {
		return entry.Replicas
	}
	return 0
}

// ready returns the expected report when the member runs what the current entry requires.
func (s *setup) ready() observation.Observation {
	pods := s.app.DesiredReplicas()
	return observation.Observation{
		UID:           s.app.UID,
		Generation:    s.app.Generation,
		Planned:       s.planned(),
		Phase:         v1alpha1.ClusterReady,
		Applied:       s.app.Generation,
		Replicas:      pods,
		ReadyReplicas: pods,
	}
}

// failed returns the expected report when delivery is blocked.
func (s *setup) failed(reason, message string) observation.Observation {
	return observation.Observation{
		UID:        s.app.UID,
		Generation: s.app.Generation,
		Planned:    s.planned(),
		Phase:      v1alpha1.ClusterFailed,
		Reason:     reason,
		Message:    message,
	}
}

// expectReport waits until the newest report of the member equals want.
func (s *setup) expectReport(want observation.Observation, options ...cmp.Option) {
	s.Helper()
	if want.Planned == 0 {
		want.Planned = s.planned()
	}
	eventually(s.T, func() error {
		if diff := cmp.Diff(want, s.reported.last(s.key(), s.cluster), options...); diff != "" {
			return fmt.Errorf("reported (-want +got):\n%s", diff)
		}
		return nil
	})
}

// whateverRuns ignores the replica counts, for tests that do not depend on the progress of the
// rollout.
var ignoreReplicas = cmpopts.IgnoreFields(observation.Observation{}, "Replicas", "ReadyReplicas")

// reconcileOnce reconciles the AppService once with another reconciler of the member, after all
// caches are up to date. It returns that reconciler's report, which goes to no planner.
func (s *setup) reconcileOnce() (observation.Observation, reconcile.Result, error) {
	s.Helper()
	s.catchUp()
	return s.reconcileWith(hubCached, s.member)
}

func (s *setup) reconcileWith(hub, member cluster.Cluster) (observation.Observation, reconcile.Result, error) {
	ctx, cancel := context.WithTimeout(s.Context(), timeout)
	defer cancel()
	reported := newRecorder()
	r := New(hub, testHubID, reported).reconciler(s.clusterName(), member)
	result, err := r.Reconcile(ctx, request(s.clusterName(), s.key()))
	return reported.last(s.key(), s.cluster), result, err
}

// witness is a reconciler of the member that runs when the test calls it. It keeps its memory
// between runs, like the reconciler of an operator.
type testReconciler struct {
	*setup
	*reconciler
	reported *recorder
}

func (s *setup) newReconciler() *testReconciler {
	reported := newRecorder()
	return &testReconciler{s, New(hubCached, testHubID, reported).reconciler(s.clusterName(), s.member), reported}
}

func (w *testReconciler) reconcileOnce() (observation.Observation, reconcile.Result) {
	w.Helper()
	w.catchUp()
	ctx, cancel := context.WithTimeout(w.Context(), timeout)
	defer cancel()
	result, err := w.Reconcile(ctx, request(w.clusterName(), w.key()))
	w.must(err)
	return w.reported.last(w.key(), w.setup.cluster), result
}

// catchUp waits until the caches match the API servers.
func (s *setup) catchUp() {
	s.Helper()
	eventually(s.T, func() error {
		return errors.Join(
			hubCached.GetClient().Get(s.Context(), client.ObjectKey{Name: s.cluster}, &v1alpha1.MemberCluster{}),
			s.compareVersions(hubCached.GetClient(), onHub, &v1alpha1.AppService{}),
			s.compareVersions(s.member.GetClient(), onMember, &appsv1.Deployment{}),
			s.compareVersions(s.member.GetClient(), onMember, &corev1.Service{}),
		)
	})
}

func (s *setup) compareVersions(cached, direct client.Reader, object client.Object) error {
	version := func(from client.Reader) string {
		if err := from.Get(s.Context(), s.key(), object); err != nil {
			return "none"
		}
		if _, isApp := object.(*v1alpha1.AppService); !isApp && object.GetLabels()[v1alpha1.LabelManagedBy] != v1alpha1.ManagedBy {
			return "none" // the cache does not have the object
		}
		return string(object.GetUID()) + "/" + object.GetResourceVersion()
	}
	if a, b := version(cached), version(direct); a != b {
		return fmt.Errorf("the cache has %T %s, the server %s", object, a, b)
	}
	return nil
}

// expectWorkload waits until the member's objects match want, in the format of [outline].
func (s *setup) expectWorkload(want string) {
	s.Helper()
	eventually(s.T, func() error {
		if got := s.describeWorkload(); got != want {
			return fmt.Errorf("the member runs\n\t%s\nwant\n\t%s", got, want)
		}
		return nil
	})
}

// describeWorkload returns a line that describes the member's objects, such as "1 × web:1 A=1;
// ClusterIP 80→8080/TCP".
func (s *setup) describeWorkload() string {
	s.Helper()
	deployment, service := s.deployment(), s.service()
	line := "no Deployment"
	if deployment != nil {
		line = fmt.Sprintf("%d ×", *deployment.Spec.Replicas)
		for _, container := range deployment.Spec.Template.Spec.Containers {
			line += " " + container.Image
			for _, variable := range container.Env {
				line += fmt.Sprintf(" %s=%s", variable.Name, variable.Value)
			}
		}
	}
	if service == nil {
		return line + "; no Service"
	}
	line += "; " + string(service.Spec.Type)
	for _, port := range service.Spec.Ports {
		line += fmt.Sprintf(" %d→%d/%s", port.Port, port.TargetPort.IntVal, port.Protocol)
	}
	return line
}

// deployment returns the member's Deployment, or nil.
func (s *setup) deployment() *appsv1.Deployment {
	s.Helper()
	deployment := &appsv1.Deployment{}
	if err := onMember.Get(s.Context(), s.key(), deployment); apierrors.IsNotFound(err) {
		return nil
	} else if err != nil {
		s.Fatal(err)
	}
	return deployment
}

// service returns the member's Service, or nil.
func (s *setup) service() *corev1.Service {
	s.Helper()
	service := &corev1.Service{}
	if err := onMember.Get(s.Context(), s.key(), service); apierrors.IsNotFound(err) {
		return nil
	} else if err != nil {
		s.Fatal(err)
	}
	return service
}

// changeByOther changes an object on the member with another field manager.
func (s *setup) changeByOther(object client.Object, change func()) {
	s.Helper()
	before := object.DeepCopyObject().(client.Object)
	change()
	s.must(onMember.Patch(s.Context(), object, client.StrategicMergeFrom(before), client.FieldOwner("editor")))
}

// expectRequests fails the test unless the member has received exactly these requests since the
// operator started.
func (s *setup) expectRequests(want ...string) {
	s.Helper()
	if diff := cmp.Diff(want, s.sent.all()); diff != "" {
		s.Errorf("sent to the member (-want +got):\n%s", diff)
	}
}

// eventually waits until try returns nil.
func eventually(t *testing.T, try func() error) {
	t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(waitTimeout); ; <-tick.C {
		err := try()
		if err == nil {
			return
		}
		if time.Now().After(end) {
			t.Fatal(err)
		}
	}
}

// recorder receives reports in place of the planner.
type recorder struct {
	mu        sync.Mutex
	seen      map[recorderKey][]observation.Observation
	forgotten []string
}

func newRecorder() *recorder { return &recorder{seen: map[recorderKey][]observation.Observation{}} }

type recorderKey struct {
	app     types.NamespacedName
	cluster string
}

func (r *recorder) Report(app types.NamespacedName, cluster string, seen observation.Observation) {
	r.mu.Lock()
	defer r.mu.Unlock()
	at := recorderKey{app, cluster}
	r.seen[at] = append(r.seen[at], seen)
}

func (r *recorder) ForgetCluster(cluster string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.forgotten = append(r.forgotten, cluster)
	for at := range r.seen {
		if at.cluster == cluster {
			delete(r.seen, at)
		}
	}
}

func (r *recorder) all(app types.NamespacedName, cluster string) []observation.Observation {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.seen[recorderKey{app, cluster}])
}

// last returns the newest report, or a zero one.
func (r *recorder) last(app types.NamespacedName, cluster string) observation.Observation {
	all := append([]observation.Observation{{}}, r.all(app, cluster)...)
	return all[len(all)-1]
}

func (r *recorder) forgottenClusters() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.forgotten)
}

// traffic records the requests to an API server except the lists and watches of caches. A request
// is recorded as "VERB resource/name", or as "GET resource" for a list in a namespace. A dry run is
// a "DRY-RUN".
type traffic struct {
	mu       sync.Mutex
	requests []string
	answer   func(request string) (*http.Response, error) // replaces the response of the server
}

func (f *traffic) wrap(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(r *http.Request) (*http.Response, error) {
		request := line(r)
		if request == "" {
			return next.RoundTrip(r)
		}
		f.mu.Lock()
		f.requests = append(f.requests, request)
		answer := f.answer
		f.mu.Unlock()
		if answer != nil {
			if response, err := answer(request); response != nil || err != nil {
				return response, err
			}
		}
		return next.RoundTrip(r)
	})
}

// line returns the request as a line, or "" for a list or a watch of all namespaces, which only a
// cache sends.
func line(r *http.Request) string {
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	parts = parts[min(len(parts), map[string]int{"api": 2, "apis": 3}[parts[0]]):]
	namespaced := len(parts) > 2 && parts[0] == "namespaces"
	if namespaced {
		parts = parts[2:]
	}
	if r.Method == http.MethodGet && len(parts) < 2 && !namespaced {
		return ""
	}
	verb := r.Method
	if r.URL.Query().Has("dryRun") {
		verb = "DRY-RUN"
	}
	return verb + " " + strings.Join(parts, "/")
}

func (f *traffic) all() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.requests)
}

// writes returns the requests that may change something, without repetitions: while the cache lags
// behind, a request may be sent again.
func (f *traffic) writes() []string {
	var writes []string
	for _, request := range f.all() {
		isEvent := strings.HasSuffix(request, " events") // events arrive at any time
		if !strings.HasPrefix(request, http.MethodGet) && !isEvent && !slices.Contains(writes, request) {
			writes = append(writes, request)
		}
	}
	return writes
}

// count returns how often exactly this request was sent.
func (f *traffic) count(request string) int {
	return len(slices.DeleteFunc(f.all(), func(r string) bool { return r != request }))
}

func (f *traffic) reset() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.requests = nil
}

// answers makes the function answer requests in place of the server, if it returns a response.
func (f *traffic) answers(answer func(request string) (*http.Response, error)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.answer = answer
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// behind is a cluster whose cache shows old versions of some objects.
type staleCluster struct {
	cluster.Cluster
	shown []client.Object
}

func (b staleCluster) GetClient() client.Client { return staleClient{b.Cluster.GetClient(), b.shown} }

type staleClient struct {
	client.Client
	shown []client.Object
}

func (c staleClient) Get(ctx context.Context, key client.ObjectKey, into client.Object, options ...client.GetOption) error {
	for _, object := range c.shown {
		if reflect.TypeOf(object) == reflect.TypeOf(into) && client.ObjectKeyFromObject(object) == key {
			reflect.ValueOf(into).Elem().Set(reflect.ValueOf(object.DeepCopyObject()).Elem())
			return nil
		}
	}
	return c.Client.Get(ctx, key, into, options...)
}
