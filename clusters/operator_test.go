package clusters_test

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	mcmanager "sigs.k8s.io/multicluster-runtime/pkg/manager"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/clusters"
	"github.com/fleetwright/fleetwright/clusters/kubeconfig"
)

// fleetLabel is the label of the Secrets of one operator, and therefore of its MemberClusters.
const fleetLabel = "test-fleet"

// operator runs the part of the real operator that this package implements.
type operator struct {
	namespace, user string
	// credentialID is the ID in the hub's audit log of its client certificate, which no other
	// operator has.
	credentialID string
	provider     *clusters.Provider
	recorder     *recorder
	// resign stops only the manager, as a loss of the leadership does; exit ends the process.
	resign, exit context.CancelFunc
	ended        chan struct{}
	err          error
}

// grantOperator creates a namespace for Secrets on the hub. It grants the operator of that
// namespace the role in config/rbac, after the changes, and nothing else.
func (env *testEnv) grantOperator(namespace string, changes ...func(*rbacv1.ClusterRole)) error {
	user := rbacv1.Subject{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: operatorUser(namespace)}
	clusterRole, role := &rbacv1.ClusterRole{}, &rbacv1.Role{}
	if err := errors.Join(readObject("../config/rbac/role.yaml", clusterRole), readObject("../config/rbac/role.yaml", role)); err != nil {
		return err
	}
	role.Namespace, clusterRole.Name = namespace, namespace
	for _, change := range changes {
		change(clusterRole)
	}
	meta := metav1.ObjectMeta{Namespace: namespace, Name: namespace}
	for _, object := range []client.Object{
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}},
		clusterRole,
		&rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: namespace}, Subjects: []rbacv1.Subject{user},
			RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: clusterRole.Name},
		},
		role,
		&rbacv1.RoleBinding{
			ObjectMeta: meta, Subjects: []rbacv1.Subject{user},
			RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: role.Name},
		},
	} {
		if err := env.hub.admin.Create(ctx, object); client.IgnoreAlreadyExists(err) != nil {
			return err
		}
	}
	return nil
}

// setup configures an operator: the options of cmd/fleetwright, except for the probe interval, and
// the Secrets of its namespace.
type setup struct {
	clusters.Options
	secretRules kubeconfig.SecretRules
	// wrapHub wraps the round tripper of the requests to the hub.
	wrapHub func(http.RoundTripper) http.RoundTripper
	// addIndexes adds indexes to those that all operators have.
	addIndexes func(*clusters.Provider) error
	// addControllers adds controllers that are engaged before the recorder.
	addControllers func(mcmanager.Manager) error
}

// operatorUser returns the user of the operator of a namespace on the hub.
func operatorUser(namespace string) string { return "operator-of-" + namespace }

// startOperator runs an operator for the Secrets of a namespace, after the changes to its setup.
func (env *testEnv) startOperator(namespace string, changes ...func(*setup)) (*operator, error) {
	return startOperatorOn(env.hub.userConfig(operatorUser(namespace)), namespace, changes...)
}

// startOperatorOn runs an operator with this configuration for the hub.
func startOperatorOn(hub *rest.Config, namespace string, changes ...func(*setup)) (*operator, error) {
	with := setup{Options: memberOptions(), secretRules: kubeconfig.SecretRules{
		{Namespace: namespace, Format: kubeconfig.FormatKubeconfig, Selector: labels.SelectorFromSet(labels.Set{selectedLabel: "true"})},
	}}
	for _, change := range changes {
		change(&with)
	}
	o := &operator{namespace: namespace, user: operatorUser(namespace), credentialID: certificateID(hub), recorder: &recorder{}, ended: make(chan struct{})}
	lifetime, exit := context.WithCancel(ctx)
	running, resign := context.WithCancel(lifetime)
	o.resign, o.exit = resign, exit
	var err error
	if o.provider, err = clusters.New(lifetime, with.Options); err != nil {
		return nil, err
	}
	again := true
	hub.QPS, hub.WrapTransport = -1, with.wrapHub
	m, err := mcmanager.New(hub, o.provider, manager.Options{
		Scheme: testScheme,
		Cache: cache.Options{ByObject: map[client.Object]cache.ByObject{
			&corev1.Secret{}: clusters.SecretCache(with.secretRules),
			// There are several operators on this hub. Each operator treats all MemberClusters that
			// it sees as its own, so its cache holds only those with its label.
			&v1alpha1.MemberCluster{}: {Label: labels.SelectorFromSet(labels.Set{fleetLabel: namespace})},
		}},
		Metrics: metricsserver.Options{BindAddress: "0"},
		Controller: config.Controller{
			SkipNameValidation:      &again, // this process runs several operators
			MaxConcurrentReconciles: 8,      // code that must not run concurrently locks itself
		},
	})
	if err != nil {
		return nil, err
	}
	if with.addControllers != nil {
		if err := with.addControllers(m); err != nil {
			return nil, err
		}
	}
	if _, isWatched := with.Watch[0].(*appsv1.Deployment); isWatched {
		err = o.provider.IndexField(ctx, &appsv1.Deployment{}, imageIndex, images)
	}
	if with.addIndexes != nil {
		err = errors.Join(err, with.addIndexes(o.provider))
	}
	if err := errors.Join(err, m.Add(o.recorder), o.provider.SetupWithManager(lifetime, m.GetLocalManager(), m, with.secretRules)); err != nil {
		return nil, err
	}
	go func() {
		defer close(o.ended)
		o.err = m.Start(running)
	}()
	return o, nil
}

// newOperator runs an operator for one test, in a namespace of its own.
func (env *testEnv) newOperator(t testing.TB, namespace string, changes ...func(*setup)) *operator {
	t.Helper()
	if err := env.grantOperator(namespace); err != nil {
		t.Fatal(err)
	}
	o, err := env.startOperator(namespace, changes...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := o.stop(); err != nil {
			t.Error(err)
		}
	})
	return o
}

// stop ends the operator and waits until it has ended.
func (o *operator) stop() error {
	o.exit()
	<-o.ended
	return o.err
}

func memberOptions() clusters.Options {
	mapper := meta.NewDefaultRESTMapper(nil)
	mapper.Add(appsv1.SchemeGroupVersion.WithKind("Deployment"), meta.RESTScopeNamespace)
	mapper.Add(corev1.SchemeGroupVersion.WithKind("Service"), meta.RESTScopeNamespace)
	mapper.Add(corev1.SchemeGroupVersion.WithKind("Namespace"), meta.RESTScopeRoot)
	mapper.Add(corev1.SchemeGroupVersion.WithKind("Node"), meta.RESTScopeRoot)
	return clusters.Options{
		Scheme: testScheme,
		Mapper: mapper,
		Cache: cache.Options{
			DefaultLabelSelector: labels.SelectorFromSet(labels.Set{v1alpha1.LabelManagedBy: v1alpha1.ManagedBy}),
			DefaultTransform:     cache.TransformStripManagedFields(),
		},
		Watch:          watchedKinds(),
		DirectHandlers: true, // as the operator
		UserAgent:      "fleetwright/test",
		ProbeInterval:  2 * time.Second,
		MaxListBytes:   32 << 20, // limits how much of the machine a lying member uses
		Policy:         kubeconfig.Policy{AllowLoopback: true},
	}
}

// imageIndex is a field index of all members' caches.
const imageIndex = "image"

func images(object client.Object) (images []string) {
	for _, c := range object.(*appsv1.Deployment).Spec.Template.Spec.Containers {
		images = append(images, c.Image)
	}
	return images
}

func watchedKinds() []client.Object { return []client.Object{&appsv1.Deployment{}, &corev1.Service{}} }

// output stores what is written to it. It is safe for concurrent use.
type output struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o == operatorLog && os.Getenv("TEST_LOG") != "" {
		_, _ = os.Stderr.Write(p)
	}
	return o.text.Write(p)
}

// lines returns the lines written so far.
func (o *output) lines() []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return strings.Split(o.text.String(), "\n")
}
