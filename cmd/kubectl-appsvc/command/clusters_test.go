package command_test

import (
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/tools/clientcmd"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
)

// createMembers creates a cluster that is Ready, one that is cordoned, and one that is not reachable.
func createMembers(t *testing.T) {
	t.Helper()
	create(t, &v1alpha1.MemberCluster{}, `
metadata: {name: east, labels: {topology.kubernetes.io/region: ap}}
status:
  version: v1.36.3
  appServices: 2
  conditions:
  - {type: Ready, status: "True", reason: Connected, message: "", lastTransitionTime: "2026-01-01T00:00:00Z"}
  - {type: CredentialsValid, status: "True", reason: Accepted, message: "", lastTransitionTime: "2026-01-01T00:00:00Z"}`)
	create(t, &v1alpha1.MemberCluster{}, `
metadata: {name: north, labels: {topology.kubernetes.io/region: eu}}
spec: {unschedulable: true}
status:
  version: v1.36.3
  conditions:
  - {type: Ready, status: "True", reason: Connected, message: "", lastTransitionTime: "2026-01-01T00:00:00Z"}
  - {type: CredentialsValid, status: "True", reason: Accepted, message: "", lastTransitionTime: "2026-01-01T00:00:00Z"}`)
	create(t, &v1alpha1.MemberCluster{}, `
metadata: {name: south}
status:
  conditions:
  - {type: Ready, status: "False", reason: Unreachable, message: "dial tcp 10.0.0.3:6443: connect: connection refused", lastTransitionTime: "2026-01-01T00:00:00Z"}`)
}

func TestClusters(t *testing.T) {
	createLease(t, time.Now().Add(time.Hour)) // it does not expire in this test
	t.Run("without a cluster, the next step is printed", func(t *testing.T) {
		run(t, "clusters").check(t, result{errOut: "No clusters found. Add one with: kubectl appsvc join CONTEXT\n"})
	})
	createMembers(t)
	t.Run("all", func(t *testing.T) { run(t, "clusters").checkGolden(t, "clusters") })
	t.Run("one", func(t *testing.T) { run(t, "clusters", "north").checkGolden(t, "clusters-one") })
	t.Run("of a region, as names", func(t *testing.T) {
		run(t, "clusters", "-l", "topology.kubernetes.io/region=eu", "-o", "name").check(t, result{out: "membercluster.fleetwright.dev/north\n"})
	})
	t.Run("wide, the reason is there", func(t *testing.T) {
		if got := run(t, "clusters", "south", "-o", "wide"); !strings.Contains(got.out, "connection refused") {
			t.Error(got)
		}
	})
	t.Run("names and a selector", func(t *testing.T) {
		run(t, "clusters", "north", "-l", "a=b").check(t, result{code: 1, errOut: "error: names and --selector exclude each other: give one of them\n"})
	})
	t.Run("one as json is the object, and several are a list with kinds", func(t *testing.T) {
		if got := run(t, "clusters", "north", "-o", "json"); !strings.Contains(got.out, `"kind": "MemberCluster"`) || strings.Contains(got.out, `"kind": "MemberClusterList"`) {
			t.Error(got.out)
		}
		if got := run(t, "clusters", "-o", "json"); strings.Count(got.out, `"kind": "MemberCluster"`) != 3 || strings.Count(got.out, `"kind": "MemberClusterList"`) != 1 {
			t.Error(got.out)
		}
	})
	t.Run("sorted, with columns of the user", func(t *testing.T) {
		run(t, "clusters", "--sort-by=.status.appServices", "-o", "custom-columns=NAME:.metadata.name,APPS:.status.appServices,REGION:.metadata.labels['topology\\.kubernetes\\.io/region']").
			check(t, result{out: "NAME    APPS     REGION\nnorth   <none>   eu\nsouth   <none>   <none>\neast    2        ap\n"})
		run(t, "clusters", "--sort-by=.spec.unschedulable", "-o", "name").
			check(t, result{out: "membercluster.fleetwright.dev/east\nmembercluster.fleetwright.dev/south\nmembercluster.fleetwright.dev/north\n"})
		run(t, "clusters", "--sort-by=.spec.none").check(t, result{code: 1, errOut: "error: --sort-by: no object of the list has the field .spec.none\n"})
	})
	t.Run("without headers", func(t *testing.T) {
		if got := run(t, "clusters", "--no-headers"); got.code != 0 || strings.Contains(got.out, "NAME") || strings.Count(got.out, "\n") != 3 {
			t.Error(got)
		}
	})
	t.Run("a name as kubectl prints it", func(t *testing.T) {
		run(t, "clusters", "membercluster.fleetwright.dev/north", "mc/east", "-o", "name").check(t, result{out: "membercluster.fleetwright.dev/north\nmembercluster.fleetwright.dev/east\n"})
	})
	t.Run("a name that does not exist", func(t *testing.T) {
		run(t, "clusters", "west").check(t, result{code: 1, errOut: "error: the hub has no cluster west: see kubectl appsvc clusters\n"})
	})
}

// addressOfHub matches the address of the hub, whose port differs each time.
var addressOfHub = regexp.MustCompile(`https://127\.0\.0\.1:\d{2,}`)

func TestErrors_say_what_to_do(t *testing.T) {
	t.Setenv("HOME", t.TempDir())
	t.Setenv("KUBECONFIG", filepath.Join(t.TempDir(), "none"))
	for name, test := range map[string]struct {
		args []string
		want string
	}{
		"no hub is configured": {
			args: []string{"clusters"},
			want: "no hub is configured: set KUBECONFIG, or use --kubeconfig and --context",
		},
		"the context does not exist": {
			args: []string{"clusters", "--kubeconfig", hubKubeconfig, "--context", "none"},
			want: `context "none" does not exist`,
		},
		"the hub does not answer": {
			args: []string{"clusters", "--kubeconfig", hubKubeconfig, "--server", "https://127.0.0.1:1"},
			want: "https://127.0.0.1:1 does not answer (connect: connection refused): check the context, the network and the VPN",
		},
		"the certificate of the hub is not trusted": {
			args: []string{"clusters", "--kubeconfig", hubKubeconfig, "--tls-server-name", "another"},
			want: "the request to ADDRESS failed: tls: failed to verify certificate: x509",
		},
		"the kubeconfig has no current context": {
			args: []string{"clusters", "--kubeconfig", withoutContext(t)},
			want: "the kubeconfig has no current context: use --context, or kubectl config use-context",
		},
		"the user has no permission": {
			args: []string{"clusters", "--kubeconfig", kubeconfigOf(t, "nobody")},
			want: `memberclusters.fleetwright.dev is forbidden: User "nobody" cannot list resource "memberclusters" in API group "fleetwright.dev" at the cluster scope: ask an administrator of the hub for a ClusterRoleBinding of the ClusterRole fleetwright-view, or of fleetwright-fleet-admin to change clusters`,
		},
		"an output format that does not exist": {
			args: []string{"clusters", "--kubeconfig", hubKubeconfig, "-o", "xml"},
			want: `unable to match a printer suitable for the output format "xml", allowed formats are: custom-columns,custom-columns-file,go-template,go-template-file,json,jsonpath,jsonpath-as-json,jsonpath-file,kyaml,name,template,templatefile,yaml`,
		},
		"a command that does not exist": {
			args: []string{"cluster"},
			want: "unknown command \"cluster\" for \"kubectl appsvc\"\n\nDid you mean this?\n\tclusters",
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := runWith(t, "", test.args...)
			got.errOut = addressOfHub.ReplaceAllString(got.errOut, "ADDRESS")
			if strings.HasPrefix(test.want, "the request to ADDRESS") { // Go's own words follow
				got.errOut = got.errOut[:min(len(got.errOut), len("error: "+test.want))] + "\n"
			}
			got.check(t, result{code: 1, errOut: "error: " + test.want + "\n"})
		})
	}
}

func TestHelp(t *testing.T) {
	if got := runWith(t, "", "--help"); got.code != 0 || !strings.Contains(got.out, "kubectl appsvc [command]") {
		t.Error(got)
	}
}

// withoutContext returns a kubeconfig file without a current context.
func withoutContext(t *testing.T) string {
	t.Helper()
	config, err := clientcmd.LoadFromFile(hubKubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	config.CurrentContext = ""
	file := filepath.Join(t.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(*config, file); err != nil {
		t.Fatal(err)
	}
	return file
}
