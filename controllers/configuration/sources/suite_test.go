package sources

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/internal/servertest"
)

// operatorUser is the operator's ServiceAccount.
const operatorUser = "system:serviceaccount:fleetwright-system:fleetwright-operator"

// All tests share this hub. Each has its own namespaces.
var (
	environment = servertest.New("../../../config/crd/bases")
	hubTypes    = runtime.NewScheme()
	hub         client.Client // the administrator's, without a cache
	granted     *rest.Config  // of the operator's ServiceAccount, which has no rights yet
)

func TestMain(m *testing.M) {
	flag.Parse()
	// All logs, at the highest verbosity, are searched for the content of Secrets.
	levels := flag.NewFlagSet("klog", flag.ExitOnError)
	klog.InitFlags(levels)
	if err := levels.Set("v", "10"); err != nil {
		panic(err)
	}
	klog.SetLoggerWithOptions(logs.logger(), klog.ContextualLogger(true))
	ctrl.SetLogger(logs.logger())
	os.Exit(servertest.Run(func() int { return runLogged(m.Run) }, connect, environment))
}

// runLogged runs the tests, and then fails if something of a Secret was logged.
func runLogged(run func() int) int {
	code := run()
	if len(logs.found) > 0 || logs.lines == 0 {
		fmt.Fprintf(os.Stderr, "%d lines were logged, some with the content of a Secret: %q\n", logs.lines, logs.found)
		return 1
	}
	return code
}

// connect sets the clients and the user of the operator.
func connect() (err error) {
	if err := errors.Join(scheme.AddToScheme(hubTypes), v1alpha1.AddToScheme(hubTypes)); err != nil {
		return err
	}
	if hub, err = client.New(environment.Config, client.Options{Scheme: hubTypes}); err != nil {
		return err
	}
	// RBAC knows a ServiceAccount by the name of its user.
	user, err := environment.AddUser(envtest.User{Name: operatorUser}, environment.Config)
	if err != nil {
		return err
	}
	granted = user.Config()
	granted.QPS = -1
	return nil
}
