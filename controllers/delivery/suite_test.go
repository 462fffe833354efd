package delivery

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/cluster"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/yaml"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/internal/servertest"
)

// All tests share these API servers. Each test has its own namespace and its own cluster: many
// clusters are the same member API server under different names.
var (
	kinds        = runtime.NewScheme()
	onHub        = newServer("../../config/crd/bases")
	onMember     = newServer()
	hubCached    cluster.Cluster // reads from a cache, as in the operator
	hubRequests  traffic         // the requests of all tests that hubCached sent to the hub; never reset
	memberConfig *rest.Config    // the member, with exactly the permissions of config/member
)

// server is an API server with an administrator's client that has no cache.
type server struct {
	client.Client
	environment *envtest.Environment
	config      *rest.Config
}

// addingUser serializes the creation of users, because envtest's certificate authority is not safe
// for concurrent use.
var addingUser sync.Mutex

func TestMain(m *testing.M) {
	if err := flag.Set("test.parallel", "6"); err != nil { // the tests mostly wait
		panic(err)
	}
	flag.Parse() // -parallel has the last word
	if !testing.Verbose() {
		klog.SetLogger(logr.Discard())
	}
	ctrl.SetLogger(klog.Background())
	ctx, cancel := context.WithCancel(context.Background())
	tests := func() int {
		defer cancel() // before the servers stop
		return m.Run()
	}
	os.Exit(servertest.Run(tests, func() error { return connect(ctx) }, onHub.environment, onMember.environment))
}

// newServer returns an API server, because only that implements server-side apply.
func newServer(crds ...string) *server {
	environment := servertest.New(crds...)
	// The default range of envtest has 254 addresses, and the Services of all tests together would
	// exhaust it.
	environment.ControlPlane.GetAPIServer().Configure().Set("service-cluster-ip-range", "10.0.0.0/16")
	return &server{environment: environment}
}

func connect(ctx context.Context) (err error) {
	if err := errors.Join(scheme.AddToScheme(kinds), v1alpha1.AddToScheme(kinds)); err != nil {
		return err
	}
	for _, s := range []*server{onHub, onMember} {
		s.config = s.environment.Config
		if s.Client, err = client.New(s.config, client.Options{Scheme: kinds}); err != nil {
			return err
		}
	}
	if err := errors.Join(connectHub(ctx), runControllers(ctx)); err != nil {
		return err
	}
	memberConfig, err = onMember.grant(ctx, "../../config/member/rbac.yaml")
	return err
}

// connectHub creates hubCached, with the permissions of config/rbac.
func connectHub(ctx context.Context) error {
	config, err := onHub.grant(ctx, "../../config/rbac/role.yaml")
	if err != nil {
		return err
	}
	config.Wrap(hubRequests.wrap)
	if hubCached, err = cluster.New(config, func(o *cluster.Options) { o.Scheme = kinds }); err != nil {
		return err
	}
	for _, object := range []client.Object{&v1alpha1.AppService{}, &v1alpha1.AppServiceSlice{}, &v1alpha1.MemberCluster{}} {
		if _, err = hubCached.GetCache().GetInformer(ctx, object); err != nil {
			return err
		}
	}
	go func() { _ = hubCached.Start(ctx) }()
	if !hubCached.GetCache().WaitForCacheSync(ctx) {
		return errors.New("the hub's cache does not sync")
	}
	return nil
}

// grant returns a config for a user with exactly the permissions of the ClusterRole in a file.
func (s *server) grant(ctx context.Context, file string) (*rest.Config, error) {
	content, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	for document := range strings.SplitSeq(string(content), "---\n") {
		role := &rbacv1.ClusterRole{}
		if err := yaml.UnmarshalStrict([]byte(document), role); err == nil && role.Kind == "ClusterRole" {
			return s.user(ctx, "fleetwright", role.Rules)
		}
	}
	return nil, fmt.Errorf("%s has no ClusterRole", file)
}

// user returns a config for a user with exactly the permissions of the rules.
func (s *server) user(ctx context.Context, name string, rules []rbacv1.PolicyRule) (*rest.Config, error) {
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name}, Rules: rules}
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "User", Name: name}},
	}
	if err := errors.Join(s.Create(ctx, role), s.Create(ctx, binding)); err != nil {
		return nil, err
	}
	addingUser.Lock()
	defer addingUser.Unlock()
	user, err := s.environment.AddUser(envtest.User{Name: name}, s.config)
	if err != nil {
		return nil, err
	}
	return user.Config(), nil
}

// runControllers acts as the member's controller manager: it rolls out Deployments that are not
// paused, and deletes those whose deletion is in the foreground. It ignores Services. As on a real
// member, no pod starts before its copies are there.
func runControllers(ctx context.Context) error {
	manager, err := ctrl.NewManager(onMember.config, ctrl.Options{Scheme: kinds, Metrics: metricsserver.Options{BindAddress: "0"}})
	if err != nil {
		return err
	}
	deployments := reconcile.Func(func(ctx context.Context, r reconcile.Request) (reconcile.Result, error) {
		deployment := &appsv1.Deployment{}
		if err := manager.GetClient().Get(ctx, r.NamespacedName, deployment); err != nil {
			return reconcile.Result{}, client.IgnoreNotFound(err)
		}
		if err := collect(ctx, deployment); err != nil || !hasItsCopies(ctx, deployment) {
			return reconcile.Result{RequeueAfter: 50 * time.Millisecond}, err
		}
		return reconcile.Result{}, rollOut(ctx, deployment)
	})
	err = ctrl.NewControllerManagedBy(manager).For(&appsv1.Deployment{}).Complete(deployments)
	go func() { _ = manager.Start(ctx) }()
	return err
}

func collect(ctx context.Context, object client.Object) error {
	finalizers := slices.DeleteFunc(slices.Clone(object.GetFinalizers()), func(f string) bool { return f == metav1.FinalizerDeleteDependents })
	if object.GetDeletionTimestamp().IsZero() || len(finalizers) == len(object.GetFinalizers()) {
		return nil
	}
	before := object.DeepCopyObject().(client.Object)
	object.SetFinalizers(finalizers)
	return client.IgnoreNotFound(onMember.Patch(ctx, object, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})))
}

// hasItsCopies reports whether the copies exist from which the containers of a Deployment have their
// environment.
func hasItsCopies(ctx context.Context, deployment *appsv1.Deployment) bool {
	if deployment.Annotations[v1alpha1.AnnotationCopies] == "" || *deployment.Spec.Replicas == 0 {
		return true
	}
	for _, from := range deployment.Spec.Template.Spec.Containers[0].EnvFrom {
		key, object := client.ObjectKey{Namespace: deployment.Namespace}, client.Object(nil)
		switch {
		case from.ConfigMapRef != nil && !ptr.Deref(from.ConfigMapRef.Optional, false):
			key.Name, object = from.ConfigMapRef.Name, &corev1.ConfigMap{}
		case from.SecretRef != nil && !ptr.Deref(from.SecretRef.Optional, false):
			key.Name, object = from.SecretRef.Name, &corev1.Secret{}
		}
		if object != nil && apierrors.IsNotFound(onMember.Get(ctx, key, object)) {
			return false
		}
	}
	return true
}

func rollOut(ctx context.Context, deployment *appsv1.Deployment) error {
	if deployment.Spec.Paused || deployment.Status.ObservedGeneration == deployment.Generation || !deployment.DeletionTimestamp.IsZero() {
		return nil
	}
	before := deployment.DeepCopy()
	pods := *deployment.Spec.Replicas
	deployment.Status = appsv1.DeploymentStatus{
		ObservedGeneration: deployment.Generation,
		Replicas:           pods,
		UpdatedReplicas:    pods,
		ReadyReplicas:      pods,
		AvailableReplicas:  pods,
		Conditions: []appsv1.DeploymentCondition{
			{Type: appsv1.DeploymentAvailable, Status: corev1.ConditionTrue},
			{Type: appsv1.DeploymentProgressing, Status: corev1.ConditionTrue, Reason: "NewReplicaSetAvailable"},
		},
	}
	return client.IgnoreNotFound(onMember.Status().Patch(ctx, deployment, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})))
}
