package clusters

import (
	"sigs.k8s.io/controller-runtime/pkg/cache"

	"github.com/fleetwright/fleetwright/clusters/kubeconfig"
)

// SecretCache returns the options of the hub's cache for Secrets, which must hold only Secrets that
// may describe a member. With one rule in a namespace, the removal of a label arrives as a
// deletion. With several rules, the cache holds all Secrets of the namespace, and the change
// arrives as an update.
func SecretCache(rules kubeconfig.SecretRules) cache.ByObject {
	namespaces := map[string]cache.Config{}
	for _, rule := range rules {
		var config cache.Config
		if _, several := namespaces[rule.Namespace]; !several {
			config.LabelSelector, config.FieldSelector = rule.Selectors()
		}
		namespaces[rule.Namespace] = config
	}
	return cache.ByObject{Namespaces: namespaces}
}
