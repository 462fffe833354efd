package sources

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
)

// All tests share this hub. Each has its own namespaces.
var (
	hubTypes = runtime.NewScheme()
	hub      client.Client // the administrator's, without a cache
	granted  *rest.Config  // of the operator's ServiceAccount, which has no rights yet
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
	os.Exit(runOnHub(m.Run))
}

// runOnHub runs the tests on a real API server.
func runOnHub(run func() int) int {
	if os.Getenv("KUBEBUILDER_ASSETS") == "" {
		fmt.Fprintln(os.Stderr, "KUBEBUILDER_ASSETS must name the directory of etcd and kube-apiserver: use `make test`, or `make tools` and KUBEBUILDER_ASSETS=$PWD/bin")
		return 1
	}
	environment := &envtest.Environment{
		CRDDirectoryPaths:        []string{"../../config/crd/bases"},
		ErrorIfCRDPathMissing:    true,
		UseExistingCluster:       new(false),
		ControlPlaneStartTimeout: time.Minute,
	}
	defer func() {
		if err := environment.Stop(); err != nil {
			fmt.Fprintln(os.Stderr, "stop the API server:", err)
		}
	}()
	if err := start(environment); err != nil {
		fmt.Fprintln(os.Stderr, "start the hub:", err)
		return 1
	}
	code := run()
	if len(logs.found) > 0 || logs.lines == 0 {
		fmt.Fprintf(os.Stderr, "%d lines were logged, some with the content of a Secret: %q\n", logs.lines, logs.found)
		return 1
	}
	return code
}

func start(environment *envtest.Environment) error {
	config, err := environment.Start()
	if err != nil {
		return err
	}
	config.QPS = -1
	if err := errors.Join(scheme.AddToScheme(hubTypes), v1alpha1.AddToScheme(hubTypes)); err != nil {
		return err
	}
	if hub, err = client.New(config, client.Options{Scheme: hubTypes}); err != nil {
		return err
	}
	// RBAC knows a ServiceAccount by the name of its user.
	user, err := environment.AddUser(envtest.User{Name: "system:serviceaccount:fleetwright-system:fleetwright-operator"}, config)
	if err != nil {
		return err
	}
	granted = user.Config()
	granted.QPS = -1
	return nil
}
