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
	thisHub = "hub-1"
	// patience is how long is waited for what must come. It is only ever used up by a test that
	// fails.
	patience = 30 * time.Second
)

// kindOf returns the kind of an object, where a variable has the name of the package.
var kindOf = object.KindOf

// scene is an AppService in a namespace of its own on the hub, and a member of its own that it is
// delivered to. The test is the planner.
type scene struct {
	*testing.T
	*operator
	app     *v1alpha1.AppService
	cluster string
	config  *rest.Config // the member's
}

// operator is one life of a Deliverer that is engaged with one member.
type operator struct {
	deliverer *Deliverer
	told      *recorder
	member    cluster.Cluster
	sent      *traffic // what the member was asked, but for the lists and watches of its cache
	disengage context.CancelFunc
	end       context.CancelFunc // of all of it
}

// declared has an AppService on the hub that is not planned yet, and an operator that runs.
func declared(t *testing.T, changes ...func(*v1alpha1.AppService)) *scene {
	s := undelivered(t, changes...)
	s.start()
	return s
}

// delivered has an AppService that its member runs.
func delivered(t *testing.T, changes ...func(*v1alpha1.AppService)) *scene {
	s := declared(t, changes...)
	s.plan()
	s.reports(s.ready())
	return s
}

// undelivered has no operator yet.
func undelivered(t *testing.T, changes ...func(*v1alpha1.AppService)) *scene {
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "shop-"}}
	s := &scene{T: t, config: granted, app: &v1alpha1.AppService{}}
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

func (s *scene) must(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

// start connects to the member and engages a new Deliverer with it, as a process that starts does.
func (s *scene) start() {
	s.Helper()
	ctx := s.connect()
	s.must(s.deliverer.Engage(ctx, s.clusterName(), s.member))
}

// connect connects to the member and engages nothing: only the test reconciles.
func (s *scene) connect() context.Context {
	s.Helper()
	ctx, cancel := context.WithCancel(s.Context())
	s.Cleanup(cancel)
	o := &operator{end: cancel}
	o.deliverer, o.told = newDeliverer(ctx, s.T, thisHub)
	ctx, o.disengage = context.WithCancel(ctx)
	o.member, o.sent = connected(ctx, s.T, s.config)
	s.operator = o
	return ctx
}

func (s *scene) restart() {
	s.Helper()
	s.end()
	s.start()
}

// beside is the same AppService on another member, of which the test says what it does.
func (s *scene) beside(name string) *scene {
	s.Helper()
	other := *s
	other.cluster = name + "-of-" + s.app.Namespace
	s.must(client.IgnoreAlreadyExists(onHub.Create(s.Context(), &v1alpha1.MemberCluster{ObjectMeta: metav1.ObjectMeta{Name: other.cluster}})))
	return &other
}

// newDeliverer returns one of a hub that runs for as long as the context.
func newDeliverer(ctx context.Context, t *testing.T, hubID string) (*Deliverer, *recorder) {
	told := newRecorder()
	d := New(hubCached, hubID, told)
	ended := make(chan error)
	ctx, cancel := context.WithCancel(ctx)
	go func() { ended <- d.Start(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error("Start ended with:", err)
		}
	})
	return d, told
}

// connected is a member's cluster, made and synced as package clusters does with the options of
// cmd/fleetwright.
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
	bounded, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if !member.GetCache().WaitForCacheSync(bounded) {
		t.Fatal("the member's cache does not sync")
	}
	return member, sent
}

func (s *scene) clusterName() multicluster.ClusterName { return multicluster.ClusterName(s.cluster) }

func (s *scene) key() types.NamespacedName { return client.ObjectKeyFromObject(s.app) }

// plan is the planner: it writes the entry of the member, for the present generation.
func (s *scene) plan(changes ...func(*v1alpha1.ClusterStatus)) {
	s.Helper()
	row := v1alpha1.ClusterStatus{
		Name:               s.cluster,
		Phase:              v1alpha1.ClusterPending,
		Generation:         s.app.Generation,
		Replicas:           s.app.DesiredReplicas(),
		LastTransitionTime: metav1.Now().Rfc3339Copy(),
	}
	for _, change := range changes {
		change(&row)
	}
	s.writeRows(row)
}

func (s *scene) writeRows(rows ...v1alpha1.ClusterStatus) {
	s.Helper()
	s.app.Status.PlannedSpecs = lineage.Planned(s.app)
	s.app.Status.ObservedGeneration = s.app.Generation
	s.app.Status.Clusters = rows
	s.must(onHub.Status().Update(s.Context(), s.app))
}

func inPhase(phase v1alpha1.ClusterPhase) func(*v1alpha1.ClusterStatus) {
	return func(row *v1alpha1.ClusterStatus) { row.Phase = phase }
}

// plannedFor is a entry of another generation than the present.
func plannedFor(generation int64) func(*v1alpha1.ClusterStatus) {
	return func(row *v1alpha1.ClusterStatus) { row.Generation = generation }
}

// edit changes the AppService, which is not planned again by that.
func (s *scene) edit(change func(*v1alpha1.AppService)) {
	s.Helper()
	change(s.app)
	s.must(onHub.Update(s.Context(), s.app))
}

// planned is how many replicas the present entry has.
func (s *scene) planned() int32 {
	if row := s.app.Status.Cluster(s.cluster); row != nil {
		return row.Replicas
	}
	return 0
}

// ready is what is to be reported when the member runs what the present entry says.
func (s *scene) ready() observation.Observation {
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

// failed is what is to be reported when something stands in the way.
func (s *scene) failed(reason, message string) observation.Observation {
	return observation.Observation{
		UID:        s.app.UID,
		Generation: s.app.Generation,
		Planned:    s.planned(),
		Phase:      v1alpha1.ClusterFailed,
		Reason:     reason,
		Message:    message,
	}
}

// reports waits until the newest report of the member is the wanted one.
func (s *scene) reports(want observation.Observation, options ...cmp.Option) {
	s.Helper()
	if want.Planned == 0 {
		want.Planned = s.planned()
	}
	eventually(s.T, func() error {
		if diff := cmp.Diff(want, s.told.last(s.key(), s.cluster), options...); diff != "" {
			return fmt.Errorf("reported (-want +got):\n%s", diff)
		}
		return nil
	})
}

// whateverRuns leaves the counts out, where how far our Deployment has come is not the point.
var whateverRuns = cmpopts.IgnoreFields(observation.Observation{}, "Replicas", "ReadyReplicas")

// look has another reconciler of the member look at the AppService, with all caches up to date. It
// returns what that reports as well, which nobody else hears.
func (s *scene) look() (observation.Observation, reconcile.Result, error) {
	s.Helper()
	s.catchUp()
	return s.lookThrough(hubCached, s.member)
}

func (s *scene) lookThrough(hub, member cluster.Cluster) (observation.Observation, reconcile.Result, error) {
	ctx, cancel := context.WithTimeout(s.Context(), timeout)
	defer cancel()
	told := newRecorder()
	r := New(hub, thisHub, told).reconciler(s.clusterName(), member)
	result, err := r.Reconcile(ctx, request(s.clusterName(), s.key()))
	return told.last(s.key(), s.cluster), result, err
}

// witness is a reconciler of the member that looks when the test says so and remembers what it saw,
// as that of an operator does.
type witness struct {
	*scene
	*reconciler
	heard *recorder
}

func (s *scene) witness() *witness {
	heard := newRecorder()
	return &witness{s, New(hubCached, thisHub, heard).reconciler(s.clusterName(), s.member), heard}
}

func (w *witness) look() (observation.Observation, reconcile.Result) {
	w.Helper()
	w.catchUp()
	ctx, cancel := context.WithTimeout(w.Context(), timeout)
	defer cancel()
	result, err := w.Reconcile(ctx, request(w.clusterName(), w.key()))
	w.must(err)
	return w.heard.last(w.key(), w.scene.cluster), result
}

// catchUp waits until the caches show what the API servers hold.
func (s *scene) catchUp() {
	s.Helper()
	eventually(s.T, func() error {
		return errors.Join(
			hubCached.GetClient().Get(s.Context(), client.ObjectKey{Name: s.cluster}, &v1alpha1.MemberCluster{}),
			s.sameVersion(hubCached.GetClient(), onHub, &v1alpha1.AppService{}),
			s.sameVersion(s.member.GetClient(), onMember, &appsv1.Deployment{}),
			s.sameVersion(s.member.GetClient(), onMember, &corev1.Service{}),
		)
	})
}

func (s *scene) sameVersion(cached, direct client.Reader, object client.Object) error {
	version := func(from client.Reader) string {
		if err := from.Get(s.Context(), s.key(), object); err != nil {
			return "none"
		}
		if _, isApp := object.(*v1alpha1.AppService); !isApp && object.GetLabels()[v1alpha1.LabelManagedBy] != v1alpha1.ManagedBy {
			return "none" // the cache does not show it
		}
		return string(object.GetUID()) + "/" + object.GetResourceVersion()
	}
	if a, b := version(cached), version(direct); a != b {
		return fmt.Errorf("the cache has %T %s, the server %s", object, a, b)
	}
	return nil
}

// runs waits until the member holds what is said, in the words of [outline].
func (s *scene) runs(want string) {
	s.Helper()
	eventually(s.T, func() error {
		if got := s.outline(); got != want {
			return fmt.Errorf("the member runs\n\t%s\nwant\n\t%s", got, want)
		}
		return nil
	})
}

// outline says in a line what the member holds, such as "1 × web:1 A=1; ClusterIP 80→8080/TCP".
func (s *scene) outline() string {
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

// deployment is the member's, nil when there is none.
func (s *scene) deployment() *appsv1.Deployment {
	s.Helper()
	deployment := &appsv1.Deployment{}
	if err := onMember.Get(s.Context(), s.key(), deployment); apierrors.IsNotFound(err) {
		return nil
	} else if err != nil {
		s.Fatal(err)
	}
	return deployment
}

// service is the member's, nil when there is none.
func (s *scene) service() *corev1.Service {
	s.Helper()
	service := &corev1.Service{}
	if err := onMember.Get(s.Context(), s.key(), service); apierrors.IsNotFound(err) {
		return nil
	} else if err != nil {
		s.Fatal(err)
	}
	return service
}

// someone changes an object on the member.
func (s *scene) someone(object client.Object, change func()) {
	s.Helper()
	before := object.DeepCopyObject().(client.Object)
	change()
	s.must(onMember.Patch(s.Context(), object, client.StrategicMergeFrom(before), client.FieldOwner("someone")))
}

// sends fails the test when the member was asked anything else since the operator started than
// said.
func (s *scene) hasSent(want ...string) {
	s.Helper()
	if diff := cmp.Diff(want, s.sent.all()); diff != "" {
		s.Errorf("sent to the member (-want +got):\n%s", diff)
	}
}

// eventually waits until there is no error.
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

// recorder is the planner's ear.
type recorder struct {
	mu        sync.Mutex
	seen      map[place][]observation.Observation
	forgotten []string
}

func newRecorder() *recorder { return &recorder{seen: map[place][]observation.Observation{}} }

type place struct {
	app     types.NamespacedName
	cluster string
}

func (r *recorder) Report(app types.NamespacedName, cluster string, seen observation.Observation) {
	r.mu.Lock()
	defer r.mu.Unlock()
	at := place{app, cluster}
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
	return slices.Clone(r.seen[place{app, cluster}])
}

// last is the newest report, or a zero one.
func (r *recorder) last(app types.NamespacedName, cluster string) observation.Observation {
	all := append([]observation.Observation{{}}, r.all(app, cluster)...)
	return all[len(all)-1]
}

func (r *recorder) forgot() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.forgotten)
}

// traffic is what an API server was asked, but for the lists and watches of caches, each as "VERB
// resource/name", or "GET resource" for a list in a namespace. A dry run is a "DRY-RUN".
type traffic struct {
	mu       sync.Mutex
	requests []string
	answer   func(request string) (*http.Response, error) // in the server's place
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

// line is empty for a list or a watch of all namespaces, as a cache makes.
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

// writes are the requests that may change something, each once: one that the cache lags behind may
// be sent again.
func (f *traffic) writes() []string {
	var writes []string
	for _, request := range f.all() {
		isEvent := strings.HasSuffix(request, " events") // they come when they come
		if !strings.HasPrefix(request, http.MethodGet) && !isEvent && !slices.Contains(writes, request) {
			writes = append(writes, request)
		}
	}
	return writes
}

// count is how often exactly that was asked.
func (f *traffic) count(request string) int {
	return len(slices.DeleteFunc(f.all(), func(r string) bool { return r != request }))
}

func (f *traffic) reset() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.requests = nil
}

// answers has requests answered in the server's place, where the function has an answer.
func (f *traffic) answers(answer func(request string) (*http.Response, error)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.answer = answer
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// behind is a cluster whose cache shows some objects as they were.
type behind struct {
	cluster.Cluster
	shown []client.Object
}

func (b behind) GetClient() client.Client { return behindClient{b.Cluster.GetClient(), b.shown} }

type behindClient struct {
	client.Client
	shown []client.Object
}

func (c behindClient) Get(ctx context.Context, key client.ObjectKey, into client.Object, options ...client.GetOption) error {
	for _, object := range c.shown {
		if reflect.TypeOf(object) == reflect.TypeOf(into) && client.ObjectKeyFromObject(object) == key {
			reflect.ValueOf(into).Elem().Set(reflect.ValueOf(object.DeepCopyObject()).Elem())
			return nil
		}
	}
	return c.Client.Get(ctx, key, into, options...)
}
