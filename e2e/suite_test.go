// Package e2e tests Fleetwright as its users meet it: the operator's own binary, whole clusters, kubectl.
//
// One hub and three members, north, south and east, are made once and are every test's. A test declares
// AppServices of its own, and leaves the fleet as it was: all members joined and well, the operator running.
//
//	make e2e
//	make e2e-kind
//	go test ./e2e -v -run TestOutage          # one test, with what make e2e has built
//	go test ./e2e -v -run TestServes -environment kind -image localhost/fleetwright:e2e
package e2e

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/e2e/environment"
	"github.com/fleetwright/fleetwright/e2e/environment/kind"
	"github.com/fleetwright/fleetwright/e2e/environment/kwok"
)

var (
	environmentFlag = flag.String("environment", "kwok", "where the clusters run: kwok (processes, with simulated pods) or kind (containers)")
	imageFlag       = flag.String("image", "localhost/fleetwright:dev", "the operator's image, on kind")
	binFlag         = flag.String("bin", "../bin", "directory of the programs")
	dirFlag         = flag.String("dir", "", "directory of everything that the environment keeps (default ../.e2e, on kind ../.e2e-kind)")
	keepFlag        = flag.Bool("keep", false, "leave the clusters and the operator running at the end")
)

const (
	// namespace is where the tests' AppServices are. The members do not have it: the operator makes it there.
	namespace = "e2e"

	// config is the directory of the shipped manifests.
	config = "../config"
)

// patience bounds every wait that has no bound of its own. Pods that really run take longer.
var patience = time.Minute

// workloads are the images of the tests and of the samples, which clusters with real pods have under these names.
var workloads = map[string][]string{
	kind.Workload: {
		"web:1", "web:2", "web:3", "web:4", "away:1", "mine:1",
		"registry.example/library/web:1", "registry.example/mirror/library/web:2", "registry.example/library/web:bad-0", "registry.example/library/web:bad-1",
		"nginx:1.29", "nginx:1.30", "busybox:1.37",
	},
	kind.Unprivileged: {"nginxinc/nginx-unprivileged:1.29"},
}

// regions are the members, and the values of their label region.
var regions = map[string]string{"north": "eu", "south": "us", "east": "ap"}

// theFleet is what all tests share. Only TestMain sets it up.
var theFleet *fleet

// fleet is the hub, its members and its operator.
type fleet struct {
	environment environment.Environment
	hub         *cluster
	members     map[string]*cluster
	operator    environment.Operator
}

// cluster is one with a client.
type cluster struct {
	environment.Cluster
	api    client.Client
	starts []span // when it was started again
}

func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(run(m))
}

func run(m *testing.M) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	env, err := newEnvironment()
	if err != nil {
		fmt.Fprintln(os.Stderr, "e2e:", err)
		return 1
	}
	clean := func() {
		if *keepFlag {
			return
		}
		if err := env.Clean(context.Background()); err != nil {
			fmt.Fprintln(os.Stderr, "e2e: clean up:", err)
		}
	}
	defer clean()
	go func() {
		<-ctx.Done()
		clean()
		os.Exit(1)
	}()
	begun := time.Now()
	if theFleet, err = newFleet(ctx, env); err != nil {
		fmt.Fprintln(os.Stderr, "e2e: set up the fleet:", err)
		return 1
	}
	fmt.Printf("e2e: the fleet is up after %s\n", round(time.Since(begun)))
	code := m.Run()
	whole := flag.Lookup("test.run").Value.String() == "" && flag.Lookup("test.skip").Value.String() == ""
	if err := theFleet.checkPrivileges(ctx, whole && code == 0); err != nil {
		fmt.Fprintln(os.Stderr, "e2e:", err)
		return max(code, 1)
	}
	return code
}

func newEnvironment() (environment.Environment, error) {
	var env interface {
		environment.Environment
		CheckPrograms() error
		Lock() error
	}
	var err error
	switch *environmentFlag {
	case "kwok":
		env, err = kwok.New(kwok.Options{Dir: cmp.Or(*dirFlag, "../.e2e"), Bin: *binFlag, Config: config})
	case "kind":
		patience = 3 * time.Minute
		env, err = kind.New(kind.Options{Dir: cmp.Or(*dirFlag, "../.e2e-kind"), Root: "..", Image: *imageFlag, Workloads: workloads})
	default:
		err = fmt.Errorf("there is no environment %q", *environmentFlag)
	}
	if err != nil {
		return nil, err
	}
	return env, errors.Join(env.CheckPrograms(), env.Lock())
}

// newFleet makes the clusters and starts the operator, which finds the members' Secrets there already.
func newFleet(ctx context.Context, env environment.Environment) (*fleet, error) {
	if err := env.Clean(ctx); err != nil {
		return nil, err
	}
	made, err := environment.CreateAll(ctx, env, "hub", "north", "south", "east")
	if err != nil {
		return nil, err
	}
	f := &fleet{environment: env, members: map[string]*cluster{}}
	for _, c := range made {
		api, err := environment.NewClient(c.Kubeconfig())
		if err != nil {
			return nil, err
		}
		f.members[c.Name()] = &cluster{Cluster: c, api: api}
	}
	f.hub = f.members["hub"]
	delete(f.members, "hub")
	if err := environment.PrepareHub(ctx, f.hub.api, config+"/crd/bases"); err != nil {
		return nil, err
	}
	profiles, err := moduleFile("sigs.k8s.io/cluster-inventory-api", "config/crd/bases/multicluster.x-k8s.io_clusterprofiles.yaml")
	if err != nil {
		return nil, err
	}
	if err := environment.ApplyFile(ctx, f.hub.api, profiles); err != nil {
		return nil, err
	}
	home := &corev1.Namespace{}
	home.Name = namespace
	if err := f.hub.api.Create(ctx, home); err != nil {
		return nil, err
	}
	for name, member := range f.members {
		if err := environment.Join(ctx, f.hub.api, member, map[string]string{"region": regions[name]}); err != nil {
			return nil, err
		}
	}
	return f, f.start(ctx, 1)
}

// start starts the operator, with all that is optional.
func (f *fleet) start(ctx context.Context, replicas int) (err error) {
	f.operator, err = f.environment.StartOperator(ctx, f.hub, replicas, "--publish-cluster-profiles", "--secret-grace=5s")
	return err
}

// moduleFile is the path of a file that comes with a module which this one requires.
func moduleFile(module, file string) (string, error) {
	dir, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", module).Output()
	if err != nil {
		return "", fmt.Errorf("find module %s: %w", module, err)
	}
	return filepath.Join(strings.TrimSpace(string(dir)), file), nil
}

// dump shows what the fleet looks like at the moment.
func (f *fleet) dump(t *testing.T) {
	ctx := context.Background()
	apps, members := &v1alpha1.AppServiceList{}, &v1alpha1.MemberClusterList{}
	if err := errors.Join(f.hub.api.List(ctx, apps), f.hub.api.List(ctx, members)); err != nil {
		t.Logf("the hub's objects cannot be listed: %v", err)
	}
	for i := range apps.Items {
		t.Logf("AppService:\n%s", asYAML(&apps.Items[i]))
	}
	for i := range members.Items {
		t.Logf("MemberCluster:\n%s", asYAML(&members.Items[i]))
	}
	t.Logf("the operator's log ends:\n%s", environment.Tail(f.operator.Log(), 60))
}

func asYAML(object client.Object) string {
	object.SetManagedFields(nil)
	content, err := yaml.Marshal(object)
	if err != nil {
		return err.Error()
	}
	return string(content)
}

// program is the path of one of the programs under test.
func program(name string) string { return filepath.Join(*binFlag, name) }

func round(d time.Duration) time.Duration { return d.Round(10 * time.Millisecond) }
