package clusterprofile

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	clientcmd "k8s.io/client-go/tools/clientcmd/api/v1"
	clusterinventory "sigs.k8s.io/cluster-inventory-api/apis/v1alpha1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/clusters/kubeconfig"
)

const (
	// kubeconfigSecretReader is the name of the access provider of Fleetwright's members: the plugin
	// of the Cluster Inventory API that reads the credentials from a kubeconfig in a Secret.
	// docs/decisions/a-clusterprofile-names-the-secret.md says why.
	kubeconfigSecretReader = "kubeconfig-secretreader"
	// execExtension is the extension of a cluster that client-go passes to the plugin.
	execExtension = "client.authentication.k8s.io/exec"
)

// secretLocation is what the plugin kubeconfig-secretreader reads from the extension.
type secretLocation struct {
	Key       string `json:"key"`
	Name      string `json:"name"`
	Namespace string `json:"namespace"`
}

// toMemberOfSecret maps a Secret to the MemberCluster with the name of its member.
func (r *Reconciler) toMemberOfSecret(_ context.Context, object client.Object) []reconcile.Request {
	secret, isSecret := object.(*corev1.Secret)
	if !isSecret {
		return nil
	}
	memberSecret := r.options.SecretRules.Member(secret)
	if memberSecret == nil {
		return nil // the MemberCluster changes too, because its Secret is missing
	}
	return []reconcile.Request{{NamespacedName: client.ObjectKey{Name: memberSecret.Name}}}
}

// secretOf returns the Secret of a member, or nil if no rule selects it.
func (r *Reconciler) secretOf(ctx context.Context, member *v1alpha1.MemberCluster) (*kubeconfig.MemberSecret, error) {
	namespace, name, found := strings.Cut(member.Annotations[v1alpha1.AnnotationSecret], "/")
	if !found || !r.options.SecretRules.HasNamespace(namespace) {
		return nil, nil // the cache does not have that namespace
	}
	secret := &corev1.Secret{}
	if err := r.hub.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, secret); err != nil {
		return nil, client.IgnoreNotFound(err)
	}
	if memberSecret := r.options.SecretRules.Member(secret); memberSecret != nil && memberSecret.Name == member.Name {
		return memberSecret, nil
	}
	return nil, nil
}

// accessProvider returns how other tools can connect to a member: its server, its CA, and where its
// credentials are. It returns nil if no plugin fits:
//
//   - The member has not accepted the kubeconfig of its Secret, or another cluster answers.
//   - The Secret has another format than a kubeconfig, as that of Argo CD.
//   - The kubeconfig is refused, or only a flag of Fleetwright permits it: a proxy may contain
//     credentials, and another tool has not agreed to a server without a verified certificate.
func accessProvider(member *v1alpha1.MemberCluster, secret *kubeconfig.MemberSecret, policy kubeconfig.Policy) (*clusterinventory.AccessProvider, error) {
	if secret == nil || secret.KubeconfigKey() == "" || !isVerified(member) {
		return nil, nil
	}
	config, rejected := secret.Parse(policy)
	if isForOthers := rejected == nil && !config.Insecure && config.Proxy == nil; !isForOthers {
		return nil, nil
	}
	location, err := json.Marshal(secretLocation{Key: secret.KubeconfigKey(), Name: secret.Secret.Name, Namespace: secret.Secret.Namespace})
	if err != nil {
		return nil, fmt.Errorf("encode the location of the Secret: %w", err)
	}
	return &clusterinventory.AccessProvider{
		Name: kubeconfigSecretReader,
		Cluster: clientcmd.Cluster{
			Server:                   config.Server,
			TLSServerName:            config.ServerName,
			CertificateAuthorityData: config.CA,
			Extensions:               []clientcmd.NamedExtension{{Name: execExtension, Extension: runtime.RawExtension{Raw: location}}},
		},
	}, nil
}

// isVerified reports whether the member has accepted the kubeconfig of its Secret, and is the cluster
// that it was before. After a change of the Secret, the conditions describe the previous content until
// the operator has tried the new one, which takes seconds.
func isVerified(member *v1alpha1.MemberCluster) bool {
	ready := meta.FindStatusCondition(member.Status.Conditions, v1alpha1.ConditionReady)
	isOther := ready != nil && slices.Contains([]string{v1alpha1.ReasonIdentityChanged, v1alpha1.ReasonDuplicateCluster}, ready.Reason)
	return member.HasSecret() && !isOther && meta.IsStatusConditionTrue(member.Status.Conditions, v1alpha1.ConditionCredentialsValid)
}

// withAccess returns access providers with our own set, or removed if it is nil. The others stay,
// because other controllers have added them.
func withAccess(providers []clusterinventory.AccessProvider, own *clusterinventory.AccessProvider) []clusterinventory.AccessProvider {
	i := slices.IndexFunc(providers, func(p clusterinventory.AccessProvider) bool { return p.Name == kubeconfigSecretReader })
	switch {
	case i >= 0 && own != nil:
		providers[i] = *own
	case i >= 0:
		providers = slices.Delete(providers, i, i+1)
	case own != nil:
		providers = append(providers, *own)
	}
	return providers
}
