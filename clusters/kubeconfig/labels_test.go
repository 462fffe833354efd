package kubeconfig

import (
	"os"
	"regexp"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestCopyLabels_leaves_out_labels_of_tools(t *testing.T) {
	tools := map[string]string{
		"app.kubernetes.io/instance": "fleet", "app.kubernetes.io/managed-by": "Helm", "app.kubernetes.io/part-of": "fleet",
		"applyset.kubernetes.io/part-of": "x", "argocd.argoproj.io/instance": "fleet", "argocd.argoproj.io/secret-type": "cluster",
		"reconcile.external-secrets.io/managed": "true", "fleet.cattle.io/managed": "true", "fleetwright.dev/appservice": "web",
		"kustomize.toolkit.fluxcd.io/name": "fleet", "helm.toolkit.fluxcd.io/name": "fleet", "helm.sh/chart": "fleet-1",
		"kapp.k14s.io/app": "1", "objectset.rio.cattle.io/hash": "x", "velero.io/restore-name": "x",
	}
	people := map[string]string{
		"env": "prod", "app": "fleet", "region": "eu", "topology.kubernetes.io/zone": "eu-1", "example.com/helm.sh": "x", "myhelm.sh/chart": "x",
		"cluster.x-k8s.io/cluster-name": "east", "sigs.k8s.io/multicluster-runtime-kubeconfig": "true", "helm.sh": "x",
	}
	all := map[string]string{}
	for _, labels := range []map[string]string{tools, people} {
		for key, value := range labels {
			all[key] = value
		}
	}
	if diff := cmp.Diff(people, CopyLabels(all)); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if len(all) != len(tools)+len(people) {
		t.Error("the Secret's labels were changed")
	}
}

func TestDomains_of_tools_are_documented(t *testing.T) {
	content, err := os.ReadFile("../../docs/kubeconfig.md")
	if err != nil {
		t.Fatal(err)
	}
	table := regexp.MustCompile(`(?s)\| domain \| tool \|\n\|---\|---\|\n(.*?)\n\n`).FindSubmatch(content)
	if table == nil {
		t.Fatal("docs/kubeconfig.md has no table of domains")
	}
	var documented []string
	for _, line := range regexp.MustCompile("(?m)^\\| `([^`]+)` \\|").FindAllSubmatch(table[1], -1) {
		documented = append(documented, string(line[1]))
	}
	if diff := cmp.Diff(toolDomains, documented); diff != "" || !slices.IsSorted(toolDomains) {
		t.Errorf("docs/kubeconfig.md differs from the code, or the code is not sorted (-code +document)\n%s", diff)
	}
}
