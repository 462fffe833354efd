// Package e2e tests Fleetwright as its users meet it: the operator's own binary, whole clusters, kubectl.
//
// One hub and three members, north, south and east, are made once and are every test's. A test declares
// AppServices of its own, and leaves the fleet as it was: all members joined and well, the operator running.
//
//	make e2e
//	go test ./e2e -v -run TestOutage          # one test, with what make e2e has built
package e2e

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/e2e/environment"
	"github.com/fleetwright/fleetwright/e2e/environment/kwok"
)

var (
	environmentFlag = flag.String("environment", "kwok", "where the clusters run: kwok")
	binFlag         = flag.String("bin", "../bin", "directory of the programs")
	dirFlag         = flag.String("dir", "../.e2e", "directory of everything that the environment keeps")
	keepFlag        = flag.Bool("keep", false, "leave the clusters and the operator running at the end")
)

const (
	// namespace is where the tests' AppServices are. The members do not have it: the operator makes it there.
	namespace = "e2e"

	// config is the directory of the shipped manifests.
	config = "../config"

	// patience bounds every wait that has no bound of its own.
	patience = time.Minute
)

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
	api client.Client
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
	switch *environmentFlag {
	case "kwok":
		env, err := kwok.New(kwok.Options{Dir: *dirFlag, Bin: *binFlag, Config: config})
		if err != nil {
			return nil, err
		}
		return env, errors.Join(env.CheckPrograms(), env.Lock())
	default:
		return nil, fmt.Errorf("there is no environment %q", *environmentFlag)
	}
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
	f.operator, err = env.StartOperator(ctx, f.hub, 1)
	return f, err
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
