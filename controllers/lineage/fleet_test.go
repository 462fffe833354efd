package lineage_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/cluster"
	"sigs.k8s.io/controller-runtime/pkg/config"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/multicluster-runtime/pkg/multicluster"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/configuration/snapshots"
	"github.com/fleetwright/fleetwright/controllers/configuration/sources"
	"github.com/fleetwright/fleetwright/controllers/delivery"
	"github.com/fleetwright/fleetwright/controllers/entries"
	"github.com/fleetwright/fleetwright/controllers/entries/appslice"
	"github.com/fleetwright/fleetwright/controllers/observation"
	"github.com/fleetwright/fleetwright/controllers/planner"
	"github.com/fleetwright/fleetwright/controllers/revision/reader"
	"github.com/fleetwright/fleetwright/internal/wait"
)

// fleet is a hub with an AppService in a namespace of its own, two members, and an operator,
// which is the real planner and the real delivery. The members have no controllers, so a Deployment
// becomes available only if the test makes it available.
type fleet struct {
	*testing.T
	*servers
	app      *v1alpha1.AppService
	operator *operator
	// sliceThreshold is the number of entries above which the operator moves them to slices.
	sliceThreshold int
	// waitsForReports makes the next operator wait for the reports of all clusters, without a limit.
	waitsForReports bool
}

// operator is one process lifetime of the planner and of delivery.
type operator struct {
	deliverer    *delivery.Deliverer
	observations *planner.Observations
	ctx          context.Context
	engaged      map[string]context.CancelFunc
	sent         map[string]*traffic // requests, by member
	stop         func()
}

// endlessLooks receives observations of looks that begin later, so that no limit of a look passes
// during the test.
type endlessLooks struct{ *planner.Observations }

func (e endlessLooks) Report(app types.NamespacedName, cluster string, seen observation.Observation) {
	seen.Look.Since.Time = seen.Look.Since.Add(time.Hour)
	e.Observations.Report(app, cluster, seen)
}

// newFleet creates a fleet and an AppService, changed by the given functions. All members are Ready
// and engaged.
func newFleet(t *testing.T, changes ...func(*v1alpha1.AppService)) *fleet {
	t.Helper()
	return newFleetWith(t, appslice.DefaultThreshold, changes...)
}

// newFleetWith creates a fleet whose operator has entries in slices above a threshold.
func newFleetWith(t *testing.T, sliceThreshold int, changes ...func(*v1alpha1.AppService)) *fleet {
	t.Helper()
	f := &fleet{T: t, servers: takeServers(t), app: &v1alpha1.AppService{}, sliceThreshold: sliceThreshold}
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "shop-"}}
	f.must(f.hub.Create(t.Context(), namespace))
	for name := range f.members {
		mc := &v1alpha1.MemberCluster{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"at": name}}}
		f.must(f.hub.Create(t.Context(), mc))
		t.Cleanup(func() {
			ctx, cancel := background()
			defer cancel()
			f.must(client.IgnoreNotFound(f.hub.Delete(ctx, mc)))
		})
		f.setReady(name, metav1.ConditionTrue)
	}
	f.app.Namespace, f.app.Name = namespace.Name, "web"
	f.app.Spec = v1alpha1.AppServiceSpec{Image: "web:1", Replicas: new(int32(2))}
	for _, change := range changes {
		change(f.app)
	}
	f.must(f.hub.Create(t.Context(), f.app))
	f.start()
	return f
}

func (f *fleet) must(err error) {
	f.Helper()
	if err != nil {
		f.Fatal(err)
	}
}

// start starts a new operator and engages all members that are Ready.
func (f *fleet) start() {
	f.Helper()
	manager, err := ctrl.NewManager(f.hub.environment.Config, ctrl.Options{
		Scheme:     kinds,
		Cache:      cache.Options{DefaultNamespaces: map[string]cache.Config{f.app.Namespace: {}}},
		Metrics:    metricsserver.Options{BindAddress: "0"},
		Controller: config.Controller{SkipNameValidation: new(true)},
	})
	f.must(err)
	observations := planner.NewObservations()
	_, err = planner.SetupWithManager(manager, observations, planner.Options{SliceThreshold: f.sliceThreshold})
	f.must(err)
	none, err := sources.New(f.hub.environment.Config, sources.Options{}) // nothing is propagated
	f.must(err)
	older := reader.New(manager.GetAPIReader(), reader.NeverRestored)
	contents := snapshots.NewReader(manager.GetAPIReader(), snapshots.MaxInUse, none)
	var reporter delivery.Reporter = observations
	if f.waitsForReports {
		reporter = endlessLooks{observations}
	}
	o := &operator{deliverer: delivery.New(manager, "hub-1", older, contents, reporter, nil), observations: observations, engaged: map[string]context.CancelFunc{}, sent: map[string]*traffic{}}
	f.must(manager.Add(o.deliverer))
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- manager.Start(ctx) }()
	o.ctx = ctx
	o.stop = func() {
		cancel()
		if err := <-ended; err != nil {
			f.Error("the operator returned:", err)
		}
		ended <- nil
	}
	f.Cleanup(o.stop)
	f.operator = o
	if !manager.GetCache().WaitForCacheSync(f.Context()) {
		f.Fatal("the hub's cache does not sync")
	}
	for name := range f.members {
		mc := &v1alpha1.MemberCluster{}
		f.must(f.hub.Get(f.Context(), client.ObjectKey{Name: name}, mc))
		if mc.IsReady() {
			f.engage(name)
		}
	}
}

// engage connects to a member and makes the operator deliver to it, as package clusters does.
func (f *fleet) engage(name string) {
	f.Helper()
	ctx, cancel := context.WithCancel(f.operator.ctx)
	sent := &traffic{}
	f.operator.sent[name] = sent
	config := rest.CopyConfig(f.members[name].environment.Config)
	config.Wrap(sent.wrap)
	member, err := cluster.New(config, func(o *cluster.Options) {
		o.Scheme = kinds
		o.MapperProvider = func(*rest.Config, *http.Client) (meta.RESTMapper, error) { return delivery.Mapper(), nil }
		o.Cache = cache.Options{
			DefaultLabelSelector:        labels.SelectorFromSet(labels.Set{v1alpha1.LabelManagedBy: v1alpha1.ManagedBy}),
			DefaultTransform:            cache.TransformStripManagedFields(),
			ReaderFailOnMissingInformer: true,
		}
	})
	f.must(err)
	for _, object := range delivery.Kinds() {
		_, err := member.GetCache().GetInformer(ctx, object, cache.BlockUntilSynced(false))
		f.must(err)
	}
	go func() { _ = member.Start(ctx) }()
	if !member.GetCache().WaitForCacheSync(ctx) {
		f.Fatal("the member's cache does not sync")
	}
	f.must(f.operator.deliverer.Engage(ctx, multicluster.ClusterName(name), member))
	f.operator.engaged[name] = cancel
}

// disconnect disconnects a member and makes it not Ready.
func (f *fleet) disconnect(name string) {
	f.Helper()
	if cancel := f.operator.engaged[name]; cancel != nil {
		cancel()
	}
	f.setReady(name, metav1.ConditionFalse)
}

// reconnect connects a member again and makes it Ready.
func (f *fleet) reconnect(name string) {
	f.Helper()
	f.engage(name)
	f.setReady(name, metav1.ConditionTrue)
}

// setReady sets the Ready condition of a member on the hub.
func (f *fleet) setReady(name string, status metav1.ConditionStatus) {
	f.Helper()
	f.patchMember(name, func(mc *v1alpha1.MemberCluster) {
		mc.Status.Conditions = []metav1.Condition{{
			Type: v1alpha1.ConditionReady, Status: status, Reason: v1alpha1.ReasonConnected, LastTransitionTime: metav1.Now(),
		}}
	})
}

func (f *fleet) patchMember(name string, change func(*v1alpha1.MemberCluster)) {
	f.Helper()
	mc := &v1alpha1.MemberCluster{}
	f.must(f.hub.Get(f.Context(), client.ObjectKey{Name: name}, mc))
	before := mc.DeepCopy()
	change(mc)
	f.must(f.hub.Status().Patch(f.Context(), mc.DeepCopy(), client.MergeFrom(before)))
	f.must(f.hub.Patch(f.Context(), mc, client.MergeFrom(before)))
}

// edit changes the AppService as a user does.
func (f *fleet) edit(change func(*v1alpha1.AppService)) {
	f.Helper()
	f.read()
	before := f.app.DeepCopy()
	change(f.app)
	f.must(f.hub.Patch(f.Context(), f.app, client.MergeFrom(before)))
}

// read reads the AppService, with the entries of its slices.
func (f *fleet) read() {
	f.Helper()
	f.app = &v1alpha1.AppService{ObjectMeta: metav1.ObjectMeta{Namespace: f.app.Namespace, Name: f.app.Name}}
	f.must(f.hub.Get(f.Context(), client.ObjectKeyFromObject(f.app), f.app))
	all, _, err := entries.Read(f.Context(), f.hub, f.app)
	f.must(err)
	f.app.Status.Clusters = all
}

// workload returns what a member runs, such as "2 × web:1", and the UID of the Deployment.
func (f *fleet) workload(name string) (outline, uid string) {
	f.Helper()
	deployment := &appsv1.Deployment{}
	err := f.members[name].Get(f.Context(), client.ObjectKeyFromObject(f.app), deployment)
	if apierrors.IsNotFound(err) {
		return "nothing", ""
	}
	f.must(err)
	if !deployment.DeletionTimestamp.IsZero() {
		return "a Deployment that is being deleted", string(deployment.UID)
	}
	return fmt.Sprintf("%d × %s", *deployment.Spec.Replicas, deployment.Spec.Template.Spec.Containers[0].Image), string(deployment.UID)
}

// waitForWorkload waits until the outline of each member is the wanted one.
func (f *fleet) waitForWorkload(want string, names ...string) {
	f.Helper()
	for _, name := range names {
		f.eventually(name+" to run "+want, func() error {
			if got, _ := f.workload(name); got != want {
				return fmt.Errorf("it runs %s", got)
			}
			return nil
		})
	}
}

// rollOut acts as the controllers of the members: all replicas of the Deployment become available.
func (f *fleet) rollOut(names ...string) {
	f.Helper()
	for _, name := range names {
		f.eventually(name+" to roll out", func() error {
			deployment := &appsv1.Deployment{}
			if err := f.members[name].Get(f.Context(), client.ObjectKeyFromObject(f.app), deployment); err != nil {
				return err
			}
			pods := *deployment.Spec.Replicas
			deployment.Status = appsv1.DeploymentStatus{
				ObservedGeneration: deployment.Generation, Replicas: pods, UpdatedReplicas: pods, ReadyReplicas: pods, AvailableReplicas: pods,
				Conditions: []appsv1.DeploymentCondition{
					{Type: appsv1.DeploymentAvailable, Status: corev1.ConditionTrue},
					{Type: appsv1.DeploymentProgressing, Status: corev1.ConditionTrue, Reason: "NewReplicaSetAvailable"},
				},
			}
			return f.members[name].Status().Update(f.Context(), deployment)
		})
	}
}

// waitForEntries waits until the AppService has these entries, by cluster, each as PHASE or PHASE
// REASON.
func (f *fleet) waitForEntries(want map[string]string) {
	f.Helper()
	f.eventually("the entries", func() error {
		f.read()
		got := map[string]string{}
		for _, entry := range f.app.Status.Clusters {
			got[entry.Name] = string(entry.Phase)
			if entry.Reason != "" {
				got[entry.Name] += " " + entry.Reason
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			return errors.New("(-want +got):\n" + diff)
		}
		return nil
	})
}

// waitForReady waits until the Deployments have rolled out and all entries are Ready.
func (f *fleet) waitForReady(names ...string) {
	f.Helper()
	want := map[string]string{}
	for _, name := range names {
		want[name] = "Ready"
	}
	f.eventually("all to be ready", func() error {
		f.rollOut(names...)
		f.read()
		for _, name := range names {
			entry := f.app.Status.Cluster(name)
			if entry == nil || entry.Phase != v1alpha1.ClusterReady || entry.ObservedGeneration != f.app.Generation {
				return fmt.Errorf("%s: %+v", name, entry)
			}
		}
		return nil
	})
	f.waitForEntries(want)
}

func (f *fleet) eventually(what string, try func() error) {
	f.Helper()
	wait.Eventually(f.T, func() error {
		if err := try(); err != nil {
			return fmt.Errorf("wait for %s: %w", what, err)
		}
		return nil
	})
}

// collectGarbage completes a foreground deletion on a member, as its garbage collector would.
func (f *fleet) collectGarbage(name string) {
	f.Helper()
	deployment := &appsv1.Deployment{}
	err := f.members[name].Get(f.Context(), client.ObjectKeyFromObject(f.app), deployment)
	if err == nil && !deployment.DeletionTimestamp.IsZero() && len(deployment.Finalizers) > 0 {
		deployment.Finalizers = nil
		err = f.members[name].Update(f.Context(), deployment)
	}
	if !apierrors.IsConflict(err) {
		f.must(client.IgnoreNotFound(err))
	}
}

// deployment returns the Deployment of a member.
func (f *fleet) deployment(name string) *appsv1.Deployment {
	f.Helper()
	deployment := &appsv1.Deployment{}
	f.must(f.members[name].Get(f.Context(), client.ObjectKeyFromObject(f.app), deployment))
	return deployment
}
