package config_test

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/version"
)

// oldestMember is the oldest version that a member may have: the first one with stable
// ValidatingAdmissionPolicies. It is not tested.
const oldestMember = "1.30"

// pinnedVersion returns the version of a module that a go.mod of tools pins.
func pinnedVersion(t *testing.T, file, module string) *version.Version {
	t.Helper()
	found := regexp.MustCompile(`(?m)^\s+` + regexp.QuoteMeta(module) + ` (v[0-9.]+)( // indirect)?$`).FindSubmatch(readFile(t, file))
	if found == nil {
		t.Fatalf("%s does not pin %s", file, module)
	}
	return version.MustParseSemantic(string(found[1]))
}

// tools/go.mod and tools/skew/go.mod decide which versions of Kubernetes are tested. Everything else that
// names the newest or the oldest one must agree. Only members may be older than that.
func TestVersions_that_are_promised_are_those_that_are_tested(t *testing.T) {
	const kubernetes = "k8s.io/kubernetes"
	newest, oldest := pinnedVersion(t, "../tools/go.mod", kubernetes), pinnedVersion(t, "../tools/skew/go.mod", kubernetes)
	etcd := pinnedVersion(t, "../tools/go.mod", "go.etcd.io/etcd/server/v3")
	if want := newest.Minor() - 3; oldest.Minor() != want || oldest.Major() != newest.Major() {
		t.Errorf("tools/skew/go.mod pins %s: want three minor versions before %s, 1.%d", oldest, newest, want)
	}
	newestMinor, oldestMinor := fmt.Sprintf("1.%d", newest.Minor()), fmt.Sprintf("1.%d", oldest.Minor())
	tested := fmt.Sprintf("%s; the API server of %s", newestMinor, oldestMinor)
	for file, sentences := range map[string][]string{
		"../docs/install.md": {
			fmt.Sprintf("| hub | %s | %s and newer;", tested, oldestMinor),
			fmt.Sprintf("| members | %s | %s and newer: the member chart asks for it,", tested, oldestMember),
			fmt.Sprintf("%s is v%s: `make test` uses its API server", newestMinor, newest),
			fmt.Sprintf("For %s only the API server of v%s is tested: `make test-skew`", oldestMinor, oldest),
			fmt.Sprintf("(with etcd v%s, Go 1.26 and kubectl v%s)", etcd, newest),
			fmt.Sprintf("any version other than %s;", newestMinor),
		},
		"../docs/releases.md": {
			fmt.Sprintf("the oldest hub that is supported has Kubernetes %s, three minor versions before the newest that is tested.", oldestMinor),
		},
		"../charts/fleetwright/Chart.yaml":        {fmt.Sprintf(`kubeVersion: ">=%s.0-0"`, oldestMinor)},
		"../charts/fleetwright-member/Chart.yaml": {fmt.Sprintf(`kubeVersion: ">=%s.0-0"`, oldestMember)},
		"../cmd/kubectl-appsvc/doctor/checks.go": {
			fmt.Sprintf("utilversion.MustParseSemantic(\"v%s.0\"), utilversion.MustParseSemantic(\"v%s.0\")", oldestMinor, newestMinor),
		},
		"../tools/maintainer.mk":            {"TEST_ASSET_KUBE_APISERVER=$(BIN)/kube-apiserver-skew"},
		"../Makefile":                       {" properties test-skew "},
		"../.github/workflows/nightly.yaml": {" test-skew,"},
	} {
		text := strings.Join(strings.Fields(string(readFile(t, file))), " ")
		for _, sentence := range sentences {
			if !strings.Contains(text, sentence) {
				t.Errorf("%s does not have %q", file, sentence)
			}
		}
	}
}
