package clusters

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/fleetwright/fleetwright/clusters/kubeconfig"
)

var (
	ourSecrets  = kubeconfig.Source{Namespace: "fleet", Format: kubeconfig.FormatKubeconfig, Selector: labels.SelectorFromSet(labels.Set{"member": "true"})}
	capiSecrets = kubeconfig.Source{Namespace: "fleet", Format: kubeconfig.FormatClusterAPI}
	argoSecrets = kubeconfig.Source{Namespace: "fleet", Format: kubeconfig.FormatArgoCD}
)

func TestSourcesCacheNoMoreSecretsThanTheyNeed(t *testing.T) {
	in := func(s kubeconfig.Source, namespace string) kubeconfig.Source {
		s.Namespace = namespace
		return s
	}
	type chosen struct{ Labels, Fields string }
	tests := map[string]struct {
		sources kubeconfig.Sources
		want    map[string]chosen
	}{
		"ours":             {kubeconfig.Sources{ourSecrets}, map[string]chosen{"fleet": {"member=true", ""}}},
		"Cluster API's":    {kubeconfig.Sources{capiSecrets}, map[string]chosen{"fleet": {"", "type=cluster.x-k8s.io/secret"}}},
		"Argo CD's":        {kubeconfig.Sources{argoSecrets}, map[string]chosen{"fleet": {"argocd.argoproj.io/secret-type=cluster", ""}}},
		"two of one place": {kubeconfig.Sources{ourSecrets, argoSecrets}, map[string]chosen{"fleet": {}}},
		"three of one":     {kubeconfig.Sources{ourSecrets, argoSecrets, capiSecrets}, map[string]chosen{"fleet": {}}},
		"each of its own": {
			kubeconfig.Sources{ourSecrets, in(argoSecrets, "argocd"), in(capiSecrets, "capi")},
			map[string]chosen{"fleet": {"member=true", ""}, "argocd": {"argocd.argoproj.io/secret-type=cluster", ""}, "capi": {"", "type=cluster.x-k8s.io/secret"}},
		},
		"two of one place, and one of another": {
			kubeconfig.Sources{ourSecrets, in(ourSecrets, "other"), capiSecrets},
			map[string]chosen{"fleet": {}, "other": {"member=true", ""}},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got := map[string]chosen{}
			for namespace, config := range SecretCache(test.sources).Namespaces {
				var c chosen
				if config.LabelSelector != nil {
					c.Labels = config.LabelSelector.String()
				}
				if config.FieldSelector != nil {
					c.Fields = config.FieldSelector.String()
				}
				got[namespace] = c
				if !test.sources.HasNamespace(namespace) {
					t.Errorf("%s is cached and has no source", namespace)
				}
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}
