package clusters_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	mcbuilder "sigs.k8s.io/multicluster-runtime/pkg/builder"
	mccontroller "sigs.k8s.io/multicluster-runtime/pkg/controller"
	mchandler "sigs.k8s.io/multicluster-runtime/pkg/handler"
	mcmanager "sigs.k8s.io/multicluster-runtime/pkg/manager"
	mcreconcile "sigs.k8s.io/multicluster-runtime/pkg/reconcile"

	"github.com/fleetwright/fleetwright/clusters"
	"github.com/fleetwright/fleetwright/internal/wait"
)

// A handler that waits, for one object of one member, delays no other member and no other controller of
// its member.
func TestHandler_that_waits_delays_no_other_member(t *testing.T) {
	t.Parallel()
	env := sharedEnv(t)
	waits, release := make(chan struct{}), make(chan struct{})
	defer close(release)
	var stock stockController
	o := env.newOperator(t, "fleet-handler-waits", func(with *setup) {
		with.DirectHandlers, with.ConnectTimeout = false, time.Hour
		with.addControllers = func(m mcmanager.Manager) error {
			again := mccontroller.Options{SkipNameValidation: new(true)}
			handler := mchandler.EnqueueRequestsFromMapFunc(func(_ context.Context, object client.Object) []reconcile.Request {
				if object.GetName() == "handler-waits" {
					select {
					case waits <- struct{}{}:
					case <-release:
					}
					<-release
				}
				return nil
			})
			none := mcreconcile.Func(func(context.Context, mcreconcile.Request) (ctrl.Result, error) { return ctrl.Result{}, nil })
			waiting := mcbuilder.ControllerManagedBy(m).Named("waiting").Watches(&appsv1.Deployment{}, handler).WithOptions(again).Complete(none)
			return errors.Join(waiting, stock.addTo(m))
		}
	})
	first, second := env.newMember(t, o, "handler-waits"), env.newMember(t, o, "handler-goes-on")
	first.createDeployment(t, "handler-waits") // both have the same API server
	first.createSecret(t, first.kubeconfig(t))
	wait.Receive(t, waits, "the call of the handler for the first member")
	second.createSecret(t, second.kubeconfig(t))
	wait.Receive(t, waits, "the call of the handler for the second member")
	first.createDeployment(t, "handler-waits-not")
	for _, m := range []*testMember{first, second} {
		stock.expectRead(t, m, "handler-waits")
		stock.expectRead(t, m, "handler-waits-not")
		m.waitForEngagement(t, 1)
	}
}

// What was cached before an outage is not returned after it, not even by a Cluster that was kept.
func TestReads_fail_when_the_session_has_ended(t *testing.T) {
	t.Parallel()
	env := sharedEnv(t)
	m := env.newMember(t, env.operator, "kept-cluster")
	m.createDeployment(t, "kept-cluster")
	e := m.join(t)
	e.waitForDeployment(t, "kept-cluster")
	m.link.setMode(t, modeRefuse)
	m.waitForEnd(t, e)
	key := client.ObjectKey{Namespace: memberNamespace, Name: "kept-cluster"}
	for name, err := range map[string]error{
		"Get by the client":  e.cluster.GetClient().Get(ctx, key, &appsv1.Deployment{}),
		"List by the client": e.cluster.GetClient().List(ctx, &appsv1.DeploymentList{}),
		"Get by the cache":   e.cluster.GetCache().Get(ctx, key, &appsv1.Deployment{}),
	} {
		if !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "the connection to the member has ended") {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

// Neither a read nor an index of a kind that is not in Watch sends a request to a member.
func TestKinds_that_are_not_watched_cost_no_request(t *testing.T) {
	t.Parallel()
	env := sharedEnv(t)
	m := env.newMember(t, env.operator, "unwatched-reads")
	e := m.join(t)
	var asked atomic.Int32
	m.proxy.setFault(func(_ http.ResponseWriter, r *http.Request) bool {
		if strings.Contains(r.URL.Path, "configmaps") {
			asked.Add(1)
		}
		return false
	})
	untyped := &unstructured.Unstructured{}
	untyped.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("ConfigMap"))
	key := client.ObjectKey{Namespace: memberNamespace, Name: "x"}
	for name, object := range map[string]client.Object{
		"typed": &corev1.ConfigMap{}, "unstructured": untyped, "metadata": metadataOf(untyped.GroupVersionKind()),
	} {
		if err := e.cluster.GetClient().Get(ctx, key, object); !errors.As(err, new(*cache.ErrResourceNotCached)) {
			t.Errorf("%s: Get returns %v", name, err)
		}
	}
	none := func(client.Object) []string { return nil }
	for name, err := range map[string]error{
		"an index of the member": e.cluster.GetFieldIndexer().IndexField(ctx, &corev1.ConfigMap{}, "x", none),
		"an index of the fleet":  env.operator.provider.IndexField(ctx, &corev1.ConfigMap{}, "x", none),
	} {
		if err == nil || !strings.Contains(err.Error(), "is not watched on members") {
			t.Errorf("%s: got %v", name, err)
		}
	}
	if err := e.cluster.GetCache().RemoveInformer(ctx, &appsv1.Deployment{}); err == nil {
		t.Error("the informer of a kind in Watch is removed")
	}
	m.checkContinues(t, e)
	if n := asked.Load(); n > 0 {
		t.Errorf("the member was sent %d requests", n)
	}
}

func TestIndexField_refuses_what_no_member_can_use(t *testing.T) {
	provider, err := clusters.New(t.Context(), memberOptions())
	if err != nil {
		t.Fatal(err)
	}
	if err := provider.IndexField(ctx, &appsv1.Deployment{}, imageIndex, images); err != nil {
		t.Fatal(err)
	}
	for want, err := range map[string]error{
		"has an index image already":  provider.IndexField(ctx, &appsv1.Deployment{}, imageIndex, images),
		"its function is nil":         provider.IndexField(ctx, &appsv1.Deployment{}, "other", nil),
		"is not watched on members":   provider.IndexField(ctx, &corev1.Pod{}, "other", images),
		"no kind is registered":       provider.IndexField(ctx, &Volatile{}, "other", images),
		"PartialObjectMetadata (Depl": provider.IndexField(ctx, metadataOf(deployments), "other", images),
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}

// A cache may be limited to namespaces.
func TestCache_of_a_namespace(t *testing.T) {
	t.Parallel()
	env := sharedEnv(t)
	o := env.newOperator(t, "fleet-one-namespace", func(with *setup) {
		with.Mapper = clusters.NewMapper(testScheme)
		with.Cache.DefaultNamespaces = map[string]cache.Config{memberNamespace: {}}
	})
	m := env.newMember(t, o, "one-namespace")
	m.createDeployment(t, "one-namespace")
	e := m.join(t)
	var found appsv1.DeploymentList
	if err := e.cluster.GetClient().List(ctx, &found, client.InNamespace(memberNamespace)); err != nil || len(found.Items) == 0 {
		t.Errorf("got %d Deployments (%v)", len(found.Items), err)
	}
	if err := e.cluster.GetClient().List(ctx, &found, client.InNamespace(metav1.NamespaceSystem)); err == nil {
		t.Error("another namespace is in the cache")
	}
}
