package clusters

import (
	"sigs.k8s.io/controller-runtime/pkg/cache"

	"github.com/fleetwright/fleetwright/clusters/kubeconfig"
)

// SecretCache returns the options of the hub's cache for Secrets, which must hold only Secrets that
// may describe a member. With one source in a namespace, the removal of a label arrives as a
// deletion. With several sources, the cache holds all Secrets of the namespace, and the change
// arrives as an update.
func SecretCache(sources kubeconfig.Sources) cache.ByObject {
	namespaces := map[string]cache.Config{}
	for _, source := range sources {
		var config cache.Config
		if _, several := namespaces[source.Namespace]; !several {
			config.LabelSelector, config.FieldSelector = source.Selectors()
		}
		namespaces[source.Namespace] = config
	}
	return cache.ByObject{Namespaces: namespaces}
}
