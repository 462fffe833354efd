package kubeconfig

import (
	"maps"
	"slices"
	"strings"
)

// toolDomains are the domains, including their subdomains, of label keys that tools use to identify
// the objects that they manage. These labels are not copied to another object: the tool would treat
// that object as its own and prune it, because it is not in Git. docs/kubeconfig.md has the same
// table.
var toolDomains = []string{
	"app.kubernetes.io",       // Argo CD's label tracking, Helm and others
	"applyset.kubernetes.io",  // kubectl apply --prune --applyset
	"argoproj.io",             // Argo CD
	"external-secrets.io",     // External Secrets
	"fleet.cattle.io",         // Rancher Fleet
	"fleetwright.dev",         // Fleetwright
	"fluxcd.io",               // Flux
	"helm.sh",                 // Helm
	"kapp.k14s.io",            // Carvel
	"objectset.rio.cattle.io", // Rancher
	"velero.io",
}

// CopyLabels returns the labels that a MemberCluster gets from its Secret, and that a
// ClusterProfile gets from its MemberCluster: all except the labels of tools.
func CopyLabels(labels map[string]string) map[string]string {
	copied := maps.Clone(labels)
	maps.DeleteFunc(copied, func(key, _ string) bool { return isToolLabel(key) })
	return copied
}

// isToolLabel reports whether a label key is in one of the domains of tools.
func isToolLabel(key string) bool {
	domain, _, prefixed := strings.Cut(key, "/")
	return prefixed && slices.ContainsFunc(toolDomains, func(tool string) bool {
		return domain == tool || strings.HasSuffix(domain, "."+tool)
	})
}
