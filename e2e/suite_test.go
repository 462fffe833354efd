// Package e2e tests Fleetwright as its users run it: the operator's own binary, whole clusters and
// kubectl.
//
// A test has a fleet for itself ([testFleet]): a hub and the members north, south and east. It
// leaves the fleet as it found it, for the next test: every member joined and Ready, one replica of
// the operator running, no AppService. Tests mostly wait, so several of them run at once: -parallel
// says how many, and so how many fleets there are.
//
// Clusters run as processes with simulated pods (kwok), or as containers with real pods (kind). On
// kind, there is one fleet, and only the tests that are marked [onKind] run: one of each feature. With
// -full, all run there, except those that are marked [notOnKind], with the reason. If KIND is set, the
// tests that are marked onKind do not run on kwok: another run does them on kind.
//
//	make e2e
//	make e2e-kind
//	make e2e-kind FULL=1
//	make e2e KIND=1                           # without the tests that make e2e-kind runs
//	go test ./e2e -v -run TestOutage          # one test; make e2e builds what it needs
//	go test ./e2e -v -run TestServes -environment kind -image localhost/fleetwright:e2e
package e2e

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/fleetwright/fleetwright/e2e/framework"
	"github.com/fleetwright/fleetwright/internal/environment"
	"github.com/fleetwright/fleetwright/internal/environment/kind"
	"github.com/fleetwright/fleetwright/internal/environment/kwok"
)

var (
	environmentFlag = flag.String("environment", "kwok", "where the clusters run: kwok (processes, simulated pods) or kind (containers)")
	fullFlag        = flag.Bool("full", false, "on kind, run all tests, not only the subset for kind")
	imageFlag       = flag.String("image", "localhost/fleetwright:dev", "the operator's image, on kind")
	binFlag         = flag.String("bin", "../bin", "directory of the programs")
	dirFlag         = flag.String("dir", "", "directory of the environment's files (default ../.e2e, on kind ../.e2e-kind)")
	keepFlag        = flag.Bool("keep", false, "leave the clusters and the operator running at the end")
)

const (
	// namespace is the namespace of the tests' AppServices. Only the hub has it at first: the
	// operator creates it on the members.
	namespace = "e2e"

	// config is the directory of the shipped manifests.
	config = "../config"
)

// images are the images of the tests and of the samples, by the image that stands in for them in
// clusters with real pods.
var images = map[string][]string{
	kind.Workload: {
		"web:1", "web:2", "web:3", "web:4", "away:1", "mine:1",
		"registry.example/library/web:1", "registry.example/mirror/library/web:2", "registry.example/library/web:bad-0", "registry.example/library/web:bad-1",
		"nginx:1.29", "nginx:1.30", "busybox:1.37",
	},
	kind.Unprivileged: {"nginxinc/nginx-unprivileged:1.29"},
}

// regions are the members, and the values of their label topology.kubernetes.io/region.
var regions = map[string]string{"north": "eu", "south": "us", "east": "ap"}

// fleet is the fleet of a test.
type fleet struct{ *framework.Fleet }

// pool is the fleets of the tests. Only TestMain and testFleet use it.
var pool = &framework.Pool[*fleet]{Name: "e2e"}

// mark is a property of a test.
type mark struct {
	// isOnKind is true for a test that runs on kind by default.
	isOnKind bool
	// obstacle is why a test cannot run on kind.
	obstacle string
}

// onKind marks a test that also runs on kind by default: it tests what simulated pods and local
// processes cannot show, or it is the test of a feature that each change must pass on real nodes:
//
//   - delivery, scaling, deletion: TestAppService; drift: TestDrift; requests and logs: TestServes
//   - autoscaling, divided replicas: TestAutoscaling; overrides: TestOverrides; placement: TestPlacement
//   - configuration: TestConfigurationInPods; pod security: TestPodSecurity
//   - stages, approvals, rollback: TestRollback; slices: TestSlices
//   - outage, abandonment: TestOutage; membership: TestMembership; rotation: TestRotation
//   - the policy on a member, adoption: TestMemberPolicy; high availability: TestHighAvailability
//   - the chart, and join by the plugin: e2e/install
var onKind = mark{isOnKind: true}

// notOnKind marks a test that cannot run on kind.
func notOnKind(obstacle string) mark { return mark{obstacle: obstacle} }

// testFleet returns a fleet for a test, which calls it first. It skips a test that is for the other
// environment.
func testFleet(t *testing.T, marks ...mark) *fleet {
	t.Helper()
	isOnKind := slices.Contains(marks, onKind)
	for _, m := range marks {
		if *environmentFlag == "kind" && m.obstacle != "" {
			t.Skip("it cannot run on kind: " + m.obstacle)
		}
	}
	switch {
	case isSubset() && !isOnKind:
		t.Skip("not in the subset for kind; make e2e-kind FULL=1 runs it")
	case isRest() && isOnKind:
		t.Skip("make e2e-kind runs it, because KIND is set")
	}
	if *environmentFlag == "kwok" {
		t.Parallel() // the names of clusters on kind are those of the machine's containers
	}
	return pool.Get(t)
}

// isSubset reports whether only the tests that are marked onKind run.
func isSubset() bool { return *environmentFlag == "kind" && !*fullFlag }

// isRest reports whether the tests that are marked onKind do not run.
func isRest() bool { return *environmentFlag == "kwok" && os.Getenv("KIND") != "" }

func TestMain(m *testing.M) {
	flag.Parse()
	env, err := newEnvironment("")
	if err != nil {
		fmt.Fprintln(os.Stderr, "e2e:", err)
		os.Exit(1)
	}
	pool.SetUp = func(ctx context.Context, number int) (*fleet, error) {
		if *environmentFlag == "kind" {
			return newFleet(ctx, env)
		}
		own, err := newEnvironment(fmt.Sprintf("fleet-%d", number)) // env includes it
		if err != nil {
			return nil, err
		}
		return newFleet(ctx, own)
	}
	os.Exit(framework.Main(m, framework.MainOptions{Name: "e2e", Environment: env, Keep: *keepFlag, Verify: verifyPrivileges}))
}

// newEnvironment returns the environment of a directory in that of the flag.
func newEnvironment(dir string) (framework.Environment, error) {
	switch *environmentFlag {
	case "kwok":
		return kwok.New(kwok.Options{Dir: filepath.Join(cmp.Or(*dirFlag, "../.e2e"), dir), Bin: *binFlag, Config: config})
	case "kind":
		return kind.New(kind.Options{Dir: filepath.Join(cmp.Or(*dirFlag, "../.e2e-kind"), dir), Root: "..", Image: *imageFlag, Workloads: images})
	default:
		return nil, fmt.Errorf("unknown environment %q: want kwok or kind", *environmentFlag)
	}
}

// newFleet creates the clusters, joins the members, starts the operator, and waits until it has connected
// to the members: a test must find that in the audit logs.
func newFleet(ctx context.Context, env framework.Environment) (*fleet, error) {
	created, err := framework.New(ctx, env, "north", "south", "east")
	if err != nil {
		return nil, err
	}
	f := &fleet{created}
	if err := environment.PrepareHub(ctx, f.Hub.Client, filepath.Join(config, "crd", "bases")); err != nil {
		return nil, err
	}
	profiles, err := framework.ModuleFile("sigs.k8s.io/cluster-inventory-api", "config/crd/bases/multicluster.x-k8s.io_clusterprofiles.yaml")
	if err != nil {
		return nil, err
	}
	if err := environment.ApplyFile(ctx, f.Hub.Client, profiles); err != nil {
		return nil, err
	}
	apps := &corev1.Namespace{}
	apps.Name = namespace
	if err := f.Hub.Client.Create(ctx, apps); err != nil {
		return nil, err
	}
	for name, member := range f.Members {
		if err := environment.Join(ctx, f.Hub.Client, member, map[string]string{corev1.LabelTopologyRegion: regions[name]}); err != nil {
			return nil, err
		}
	}
	if err := f.startOperator(ctx, 1); err != nil {
		return nil, err
	}
	return f, environment.Await(ctx, environment.StartTimeout, "the members to be Ready", func(ctx context.Context) error {
		return f.CheckMembersReady(ctx, f.MemberNames()...)
	})
}

// startOperator starts the operator with all optional features, so that it soon notices what happens
// to a member, and with further arguments.
func (f *fleet) startOperator(ctx context.Context, replicas int, args ...string) error {
	return f.StartOperator(ctx, replicas, append([]string{"--publish-cluster-profiles", "--secret-grace=5s", "--member-probe-interval=2s", environment.Propagate}, args...)...)
}
