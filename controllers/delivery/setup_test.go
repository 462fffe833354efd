package delivery

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"testing"

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
	"github.com/fleetwright/fleetwright/controllers/configuration/snapshots"
	"github.com/fleetwright/fleetwright/controllers/delivery/object"
	"github.com/fleetwright/fleetwright/controllers/lineage"
	"github.com/fleetwright/fleetwright/controllers/observation"
	"github.com/fleetwright/fleetwright/controllers/revision/reader"
	"github.com/fleetwright/fleetwright/internal/wait"
)

const testHubID = "hub-1"

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
	// revision is the revision of the spec.
	revision int64
	// inSlices is set if the test writes the entries to AppServiceSlices.
	inSlices bool
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
	s := &setup{T: t, config: memberConfig, app: &v1alpha1.AppService{}, revision: 1}
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
	s.isNewFor(o.deliverer)
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

// delivererOf returns a Deliverer of a hub, which has read no template.
func delivererOf(hub cluster.Cluster, hubID string, reporter Reporter) *Deliverer {
	older := reader.New(hub.GetAPIReader(), reader.NeverRestored)
	return New(hub, hubID, older, snapshots.NewReader(hub.GetAPIReader(), snapshots.MaxInUse, newTestKey()), reporter, NamespaceLabels{"cost-center", "team.example.com/"})
}

// newDeliverer returns a Deliverer of a hub, which runs as long as the context.
func newDeliverer(ctx context.Context, t *testing.T, hubID string) (*Deliverer, *recorder) {
	reported := newRecorder()
	d := delivererOf(hubCached, hubID, reported)
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
func connected(ctx context.Context, t testing.TB, config *rest.Config) (cluster.Cluster, *traffic) {
	t.Helper()
	sent := &traffic{}
	config = rest.CopyConfig(config)
	config.Wrap(sent.wrap)
	member, err := cluster.New(config, func(o *cluster.Options) {
		o.Scheme = kinds
		o.MapperProvider = func(*rest.Config, *http.Client) (meta.RESTMapper, error) { return Mapper(), nil }
		o.Cache = cache.Options{
			DefaultLabelSelector:        labels.SelectorFromSet(labels.Set{v1alpha1.LabelManagedBy: v1alpha1.ManagedBy}),
			DefaultTransform:            Transform(),
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
	bounded, cancel := context.WithTimeout(ctx, wait.Patience)
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
		Revision:           s.revision,
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
	s.app.Status.Rollout.Revision = s.revision
	s.app.Status.ObservedGeneration = s.app.Generation
	s.app.Status.ClustersIn, s.app.Status.Clusters = "", entries
	if s.inSlices {
		s.writeSlices(entries)
		s.app.Status.ClustersIn, s.app.Status.Clusters = v1alpha1.ClustersInSlices, nil
		s.app.Status.Summary.Clusters = int32(max(1, len(entries)))
	}
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
	r, err := s.delivererOfNew(hub, reported).reconciler(s.Context(), s.clusterName(), member)
	s.must(err)
	result, err := r.Reconcile(ctx, requestFor(s.clusterName(), s.key()))
	return reported.last(s.key(), s.cluster), result, err
}

// isNewFor makes the AppService new for a Deliverer, whether or not it runs already. So it creates at
// once what is missing.
func (s *setup) isNewFor(d *Deliverer) {
	d.looks.noteAdded(&v1alpha1.AppService{ObjectMeta: metav1.ObjectMeta{UID: s.app.UID}})
}

// delivererOfNew returns a Deliverer that does not run. For it, the AppService is new.
func (s *setup) delivererOfNew(hub cluster.Cluster, reporter Reporter) *Deliverer {
	d := delivererOf(hub, testHubID, reporter)
	s.isNewFor(d)
	return d
}

// testReconciler is a reconciler of the member that runs when the test calls it. It keeps its
// memory between runs, like the reconciler of an operator.
type testReconciler struct {
	*setup
	*reconciler
	reported *recorder
}

func (s *setup) newReconciler() *testReconciler {
	reported := newRecorder()
	r, err := s.delivererOfNew(hubCached, reported).reconciler(s.Context(), s.clusterName(), s.member)
	s.must(err)
	return &testReconciler{s, r, reported}
}

func (w *testReconciler) reconcileOnce() (observation.Observation, reconcile.Result) {
	w.Helper()
	w.catchUp()
	ctx, cancel := context.WithTimeout(w.Context(), timeout)
	defer cancel()
	result, err := w.Reconcile(ctx, requestFor(w.clusterName(), w.key()))
	w.must(err)
	return w.reported.last(w.key(), w.setup.cluster), result
}

// catchUp waits until the caches match the API servers.
func (s *setup) catchUp() {
	s.Helper()
	wait.Eventually(s.T, func() error {
		return errors.Join(
			hubCached.GetClient().Get(s.Context(), client.ObjectKey{Name: s.cluster}, &v1alpha1.MemberCluster{}),
			s.compareVersions(hubCached.GetClient(), onHub, &v1alpha1.AppService{}),
			s.compareSlices(),
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
