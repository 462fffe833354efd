package planner

import (
	"context"
	"errors"
	"flag"
	"os"
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

// All tests share this hub, one after the other, because MemberClusters have no namespace.
var (
	environment = servertest.New("../../config/crd/bases")
	kinds       = runtime.NewScheme()
	hub         client.Client // the administrator's, without a cache
	granted     *rest.Config  // with the rights of config/rbac and no other
)

func TestMain(m *testing.M) {
	flag.Parse()
	if !testing.Verbose() {
		klog.SetLogger(logr.Discard())
	}
	ctrl.SetLogger(klog.Background())
	os.Exit(servertest.Run(m.Run, func() error { return connect(environment) }, environment))
}

// connect sets the clients to those of an API server.
func connect(environment *envtest.Environment) (err error) {
	if err := errors.Join(scheme.AddToScheme(kinds), v1alpha1.AddToScheme(kinds)); err != nil {
		return err
	}
	if hub, err = client.New(environment.Config, client.Options{Scheme: kinds}); err != nil {
		return err
	}
	return grant(environment)
}

// grant gives a user the permissions in config/rbac.
func grant(environment *envtest.Environment) error {
	file, err := os.ReadFile("../../config/rbac/role.yaml")
	if err != nil {
		return err
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
		if err := errors.Join(hub.Create(ctx, role), hub.Create(ctx, binding)); err != nil {
			return err
		}
		user, err := environment.AddUser(envtest.User{Name: "fleetwright"}, environment.Config)
		if err != nil {
			return err
		}
		granted = user.Config()
		granted.QPS = -1
		return nil
	}
	return errors.New("config/rbac has no ClusterRole")
}
