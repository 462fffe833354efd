package kubeconfig

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
)

// SecretFormat is the format in which a Secret holds the credentials of a member.
type SecretFormat string

const (
	// FormatKubeconfig is a kubeconfig under the key kubeconfig, value or value.yaml; the member
	// has the Secret's name.
	FormatKubeconfig SecretFormat = "Kubeconfig"
	// FormatClusterAPI is a Secret of Cluster API: of type cluster.x-k8s.io/secret, named
	// CLUSTER-kubeconfig, with a kubeconfig under the key value. The member has the cluster's name.
	FormatClusterAPI SecretFormat = "ClusterAPI"
	// FormatArgoCD is a cluster Secret of Argo CD: labelled argocd.argoproj.io/secret-type=cluster,
	// with the keys name, server and config. The member has that name if it is a valid one, else
	// the Secret's.
	FormatArgoCD SecretFormat = "ArgoCD"
)

const (
	clusterAPIType   = "cluster.x-k8s.io/secret"
	clusterAPISuffix = "-kubeconfig"
)

var argoCDSelector = labels.SelectorFromSet(labels.Set{"argocd.argoproj.io/secret-type": "cluster"})

// SecretRule selects Secrets of the hub that hold credentials of members.
type SecretRule struct {
	// Namespace of the Secrets.
	Namespace string
	// Format of the Secrets.
	Format SecretFormat
	// Selector selects Secrets by label; only for FormatKubeconfig.
	Selector labels.Selector
}

// Selectors returns selectors for a cache that holds only the Secrets of the rule; nil means all
// Secrets. The selectors also match a few Secrets that do not describe a member.
func (r SecretRule) Selectors() (labels.Selector, fields.Selector) {
	switch r.Format {
	case FormatClusterAPI:
		return nil, fields.OneTermEqualSelector("type", clusterAPIType)
	case FormatArgoCD:
		return argoCDSelector, nil
	}
	return r.Selector, nil
}

// member returns the name of the member that a Secret describes, or "" if the rule does not
// select the Secret.
func (r SecretRule) member(secret *corev1.Secret) string {
	if secret.Namespace != r.Namespace || !secret.DeletionTimestamp.IsZero() {
		return ""
	}
	switch r.Format {
	case FormatClusterAPI:
		name, isKubeconfig := strings.CutSuffix(secret.Name, clusterAPISuffix)
		if secret.Type != clusterAPIType || !isKubeconfig || len(validation.IsDNS1123Subdomain(name)) > 0 {
			return ""
		}
		return name
	case FormatArgoCD:
		if !argoCDSelector.Matches(labels.Set(secret.Labels)) {
			return ""
		}
		// A longer name is not validated, because a name may have a size of a MiB.
		if name := secret.Data["name"]; len(name) <= validation.DNS1123SubdomainMaxLength && len(validation.IsDNS1123Subdomain(string(name))) == 0 {
			return string(name)
		}
		return secret.Name
	}
	if !r.Selector.Matches(labels.Set(secret.Labels)) {
		return ""
	}
	return secret.Name
}

// SecretRules are tried in order: the first rule that selects a Secret decides how the Secret is
// read.
type SecretRules []SecretRule

// HasNamespace reports whether any of the rules is in a namespace.
func (r SecretRules) HasNamespace(namespace string) bool {
	return slices.ContainsFunc(r, func(rule SecretRule) bool { return rule.Namespace == namespace })
}

// MaySelect reports whether a rule may select a Secret, from its metadata. A Secret of Cluster API
// is recognized by its name, because its type is not in the metadata.
func (r SecretRules) MaySelect(secret metav1.Object) bool {
	return slices.ContainsFunc(r, func(rule SecretRule) bool {
		if secret.GetNamespace() != rule.Namespace {
			return false
		}
		switch rule.Format {
		case FormatClusterAPI:
			return strings.HasSuffix(secret.GetName(), clusterAPISuffix)
		case FormatArgoCD:
			return argoCDSelector.Matches(labels.Set(secret.GetLabels()))
		}
		return rule.Selector.Matches(labels.Set(secret.GetLabels()))
	})
}

// MemberSecret is a Secret that describes a member.
type MemberSecret struct {
	// Name of the member.
	Name   string
	Secret *corev1.Secret

	format SecretFormat
}

// Member returns the member that a Secret describes, or nil if no rule selects the Secret.
func (r SecretRules) Member(secret *corev1.Secret) *MemberSecret {
	for _, rule := range r {
		if name := rule.member(secret); name != "" {
			return &MemberSecret{Name: name, Secret: secret, format: rule.Format}
		}
	}
	return nil
}

// Key returns the namespaced name of the Secret.
func (m *MemberSecret) Key() types.NamespacedName {
	return types.NamespacedName{Namespace: m.Secret.Namespace, Name: m.Secret.Name}
}
