package planner

import (
	"context"
	"errors"
	"flag"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/yaml"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/internal/servertest"
)

// hubs are the shared hubs that no test uses. A test has one to itself, because MemberClusters have no
// namespace. These tests mostly wait, so more of them may run in parallel than the machine has
// processors.
var hubs = make(chan *testHub, 4)

// testHub is an API server with the CRDs of a hub.
type testHub struct {
	client.Client              // the administrator's, without a cache
	granted       *rest.Config // with the rights of config/rbac and no other
}

var kinds = runtime.NewScheme()

func TestMain(m *testing.M) {
	flag.Parse()
	if !testing.Verbose() {
		klog.SetLogger(logr.Discard())
	}
	ctrl.SetLogger(klog.Background())
	if err := errors.Join(scheme.AddToScheme(kinds), v1alpha1.AddToScheme(kinds), flag.Set("test.parallel", strconv.Itoa(cap(hubs)))); err != nil {
		panic(err)
	}
	var environments []*envtest.Environment
	for range cap(hubs) {
		environments = append(environments, newEnvironment())
	}
	connectAll := func() error {
		for _, environment := range environments {
			hub, err := connect(environment)
			if err != nil {
				return err
			}
			hubs <- hub
		}
		return nil
	}
	os.Exit(servertest.Run(m.Run, connectAll, environments...))
}

func newEnvironment() *envtest.Environment { return servertest.New("../../config/crd/bases") }

// takeHub returns a shared hub that no other test uses until this one ends. A test takes one only: if
// each of them took a second one, all would wait for each other.
func takeHub(t *testing.T) *testHub {
	hub := <-hubs
	t.Cleanup(func() { hubs <- hub })
	return hub
}

// ownHub returns a hub that ends with the test.
func ownHub(t *testing.T) *testHub {
	t.Helper()
	environment := newEnvironment()
	servertest.Start(t, environment)
	hub, err := connect(environment)
	if err != nil {
		t.Fatal(err)
	}
	return hub
}

// connect returns the hub that an API server is.
func connect(environment *envtest.Environment) (*testHub, error) {
	admin, err := client.New(environment.Config, client.Options{Scheme: kinds})
	if err != nil {
		return nil, err
	}
	granted, err := grant(environment, admin)
	return &testHub{admin, granted}, err
}

// grant gives a user the permissions in config/rbac.
func grant(environment *envtest.Environment, admin client.Client) (*rest.Config, error) {
	file, err := os.ReadFile("../../config/rbac/role.yaml")
	if err != nil {
		return nil, err
	}
	for document := range strings.SplitSeq(string(file), "---\n") {
		role := &rbacv1.ClusterRole{}
		if err := yaml.UnmarshalStrict([]byte(document), role); err != nil || role.Kind != "ClusterRole" {
			continue
		}
		binding := &rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: role.Name},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role.Name},
			Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "User", Name: "fleetwright"}},
		}
		ctx := context.Background()
		if err := errors.Join(admin.Create(ctx, role), admin.Create(ctx, binding)); err != nil {
			return nil, err
		}
		user, err := environment.AddUser(envtest.User{Name: "fleetwright"}, environment.Config)
		if err != nil {
			return nil, err
		}
		granted := user.Config()
		granted.QPS = -1
		return granted, nil
	}
	return nil, errors.New("config/rbac has no ClusterRole")
}
