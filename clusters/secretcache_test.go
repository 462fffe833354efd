package clusters

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/fleetwright/fleetwright/clusters/kubeconfig"
)

var (
	ourSecrets  = kubeconfig.SecretRule{Namespace: "fleet", Format: kubeconfig.FormatKubeconfig, Selector: labels.SelectorFromSet(labels.Set{"member": "true"})}
	capiSecrets = kubeconfig.SecretRule{Namespace: "fleet", Format: kubeconfig.FormatClusterAPI}
	argoSecrets = kubeconfig.SecretRule{Namespace: "fleet", Format: kubeconfig.FormatArgoCD}
)

func TestSecretCache_holds_only_the_Secrets_of_the_sources(t *testing.T) {
	in := func(s kubeconfig.SecretRule, namespace string) kubeconfig.SecretRule {
		s.Namespace = namespace
		return s
	}
	type selectors struct{ Labels, Fields string }
	tests := map[string]struct {
		rules kubeconfig.SecretRules
		want  map[string]selectors
	}{
		"kubeconfigs":                {kubeconfig.SecretRules{ourSecrets}, map[string]selectors{"fleet": {"member=true", ""}}},
		"Cluster API":                {kubeconfig.SecretRules{capiSecrets}, map[string]selectors{"fleet": {"", "type=cluster.x-k8s.io/secret"}}},
		"Argo CD":                    {kubeconfig.SecretRules{argoSecrets}, map[string]selectors{"fleet": {"argocd.argoproj.io/secret-type=cluster", ""}}},
		"two rules in a namespace":   {kubeconfig.SecretRules{ourSecrets, argoSecrets}, map[string]selectors{"fleet": {}}},
		"three rules in a namespace": {kubeconfig.SecretRules{ourSecrets, argoSecrets, capiSecrets}, map[string]selectors{"fleet": {}}},
		"each rule in a namespace of its own": {
			kubeconfig.SecretRules{ourSecrets, in(argoSecrets, "argocd"), in(capiSecrets, "capi")},
			map[string]selectors{"fleet": {"member=true", ""}, "argocd": {"argocd.argoproj.io/secret-type=cluster", ""}, "capi": {"", "type=cluster.x-k8s.io/secret"}},
		},
		"two rules in a namespace, and one in another": {
			kubeconfig.SecretRules{ourSecrets, in(ourSecrets, "other"), capiSecrets},
			map[string]selectors{"fleet": {}, "other": {"member=true", ""}},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got := map[string]selectors{}
			for namespace, config := range SecretCache(test.rules).Namespaces {
				var c selectors
				if config.LabelSelector != nil {
					c.Labels = config.LabelSelector.String()
				}
				if config.FieldSelector != nil {
					c.Fields = config.FieldSelector.String()
				}
				got[namespace] = c
				if !test.rules.HasNamespace(namespace) {
					t.Errorf("namespace %s is cached and has no rule", namespace)
				}
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}
