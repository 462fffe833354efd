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

func TestSecretCache_holds_only_the_Secrets_of_the_sources(t *testing.T) {
	in := func(s kubeconfig.Source, namespace string) kubeconfig.Source {
		s.Namespace = namespace
		return s
	}
	type selectors struct{ Labels, Fields string }
	tests := map[string]struct {
		sources kubeconfig.Sources
		want    map[string]selectors
	}{
		"kubeconfigs":                  {kubeconfig.Sources{ourSecrets}, map[string]selectors{"fleet": {"member=true", ""}}},
		"Cluster API":                  {kubeconfig.Sources{capiSecrets}, map[string]selectors{"fleet": {"", "type=cluster.x-k8s.io/secret"}}},
		"Argo CD":                      {kubeconfig.Sources{argoSecrets}, map[string]selectors{"fleet": {"argocd.argoproj.io/secret-type=cluster", ""}}},
		"two sources in a namespace":   {kubeconfig.Sources{ourSecrets, argoSecrets}, map[string]selectors{"fleet": {}}},
		"three sources in a namespace": {kubeconfig.Sources{ourSecrets, argoSecrets, capiSecrets}, map[string]selectors{"fleet": {}}},
		"each source in a namespace of its own": {
			kubeconfig.Sources{ourSecrets, in(argoSecrets, "argocd"), in(capiSecrets, "capi")},
			map[string]selectors{"fleet": {"member=true", ""}, "argocd": {"argocd.argoproj.io/secret-type=cluster", ""}, "capi": {"", "type=cluster.x-k8s.io/secret"}},
		},
		"two sources in a namespace, and one in another": {
			kubeconfig.Sources{ourSecrets, in(ourSecrets, "other"), capiSecrets},
			map[string]selectors{"fleet": {}, "other": {"member=true", ""}},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got := map[string]selectors{}
			for namespace, config := range SecretCache(test.sources).Namespaces {
				var c selectors
				if config.LabelSelector != nil {
					c.Labels = config.LabelSelector.String()
				}
				if config.FieldSelector != nil {
					c.Fields = config.FieldSelector.String()
				}
				got[namespace] = c
				if !test.sources.HasNamespace(namespace) {
					t.Errorf("namespace %s is cached and has no source", namespace)
				}
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}
