package clusters

import (
	"encoding/json"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/cache"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
)

// Form is how a Secret holds the credentials of a member.
type Form string

const (
	// FormKubeconfig is a kubeconfig under the key kubeconfig, value or value.yaml; the member has the Secret's name.
	FormKubeconfig Form = "Kubeconfig"
	// FormClusterAPI is a Secret of Cluster API: of type cluster.x-k8s.io/secret, named CLUSTER-kubeconfig, with a
	// kubeconfig under the key value. The member has the cluster's name.
	FormClusterAPI Form = "ClusterAPI"
	// FormArgoCD is a cluster Secret of Argo CD: labelled argocd.argoproj.io/secret-type=cluster, with the keys
	// name, server and config. The member has that name where it can, else the Secret's.
	FormArgoCD Form = "ArgoCD"
)

const (
	clusterAPIType   = "cluster.x-k8s.io/secret"
	clusterAPISuffix = "-kubeconfig"
)

var argoCDSelector = labels.SelectorFromSet(labels.Set{"argocd.argoproj.io/secret-type": "cluster"})

// Source is where on the hub the credentials of members are found.
type Source struct {
	// Namespace of the Secrets.
	Namespace string
	// Form of the Secrets.
	Form Form
	// Selector chooses among them by label; only for FormKubeconfig.
	Selector labels.Selector
}

// cached is what the hub's cache must hold for the source.
func (s Source) cached() cache.Config {
	switch s.Form {
	case FormClusterAPI:
		return cache.Config{FieldSelector: fields.OneTermEqualSelector("type", clusterAPIType)}
	case FormArgoCD:
		return cache.Config{LabelSelector: argoCDSelector}
	}
	return cache.Config{LabelSelector: s.Selector}
}

// member returns the name of the member that a Secret is for; empty when the source has no such Secret.
func (s Source) member(secret *corev1.Secret) string {
	if secret.Namespace != s.Namespace || !secret.DeletionTimestamp.IsZero() {
		return ""
	}
	switch s.Form {
	case FormClusterAPI:
		name, isKubeconfig := strings.CutSuffix(secret.Name, clusterAPISuffix)
		if secret.Type != clusterAPIType || !isKubeconfig || len(validation.IsDNS1123Subdomain(name)) > 0 {
			return ""
		}
		return name
	case FormArgoCD:
		if !argoCDSelector.Matches(labels.Set(secret.Labels)) {
			return ""
		}
		// Too long a name is not looked at: it can have a MiB.
		if name := secret.Data["name"]; len(name) <= validation.DNS1123SubdomainMaxLength && len(validation.IsDNS1123Subdomain(string(name))) == 0 {
			return string(name)
		}
		return secret.Name
	}
	if !s.Selector.Matches(labels.Set(secret.Labels)) {
		return ""
	}
	return secret.Name
}

// Sources are looked through in their order: the first that has a Secret decides how it is read.
type Sources []Source

// Cache is what the hub's cache must be told of Secrets: only those that can be a member's. With one source in a namespace,
// a label that is removed arrives as a deletion; with several, all Secrets of it are held, and it arrives as
// a change.
func (s Sources) Cache() cache.ByObject {
	namespaces := map[string]cache.Config{}
	for _, source := range s {
		if _, several := namespaces[source.Namespace]; several {
			namespaces[source.Namespace] = cache.Config{}
			continue
		}
		namespaces[source.Namespace] = source.cached()
	}
	return cache.ByObject{Namespaces: namespaces}
}

// in tells whether a namespace has any of the sources.
func (s Sources) in(namespace string) bool {
	return slices.ContainsFunc(s, func(source Source) bool { return source.Namespace == namespace })
}

// claim is a Secret that is a member's.
type claim struct {
	member string
	form   Form
	secret *corev1.Secret
}

// claim returns what a Secret says of a member; nil when it is none's.
func (s Sources) claim(secret *corev1.Secret) *claim {
	for _, source := range s {
		if member := source.member(secret); member != "" {
			return &claim{member: member, form: source.Form, secret: secret}
		}
	}
	return nil
}

// key names the Secret.
func (c *claim) key() types.NamespacedName {
	return types.NamespacedName{Namespace: c.secret.Namespace, Name: c.secret.Name}
}

// read returns the target that the Secret holds, or why it is refused.
func (c *claim) read(policy Policy) (*target, *Refusal) {
	if c.form == FormArgoCD {
		return readArgoCD(c.secret, policy)
	}
	for _, key := range kubeconfigKeys {
		if raw, found := c.secret.Data[key]; found {
			return parse(raw, policy)
		}
	}
	return nil, refuse(v1alpha1.ReasonKubeconfigMissing, "the Secret has none of the keys %q", kubeconfigKeys)
}

// argoCDConfig is the config of a cluster Secret of Argo CD, as far as it is accepted or refused.
// See https://argo-cd.readthedocs.io/en/stable/operator-manual/declarative-setup/#clusters.
type argoCDConfig struct {
	Username           string          `json:"username"`
	Password           string          `json:"password"`
	BearerToken        string          `json:"bearerToken"`
	ProxyURL           string          `json:"proxyUrl"`
	AWSAuthConfig      json.RawMessage `json:"awsAuthConfig"`
	ExecProviderConfig json.RawMessage `json:"execProviderConfig"`
	TLSClientConfig    struct {
		Insecure   bool   `json:"insecure"`
		ServerName string `json:"serverName"`
		CAData     []byte `json:"caData"`
		CertData   []byte `json:"certData"`
		KeyData    []byte `json:"keyData"`
	} `json:"tlsClientConfig"`
}

// readArgoCD reads a cluster Secret of Argo CD as if it were a kubeconfig, so that the same is refused. Its JSON is
// read as Argo CD reads it: of a key that is there twice, the last counts.
func readArgoCD(secret *corev1.Secret, policy Policy) (*target, *Refusal) {
	raw := secret.Data["config"]
	if refusal := refuseSize(len(raw) + len(secret.Data["server"])); refusal != nil {
		return nil, refusal
	}
	var config argoCDConfig
	if err := json.Unmarshal(raw, &config); err != nil { // its text may quote the content
		return nil, refuse(v1alpha1.ReasonKubeconfigMalformed, "the key config is not the JSON of a cluster Secret of Argo CD")
	}
	user := &api.AuthInfo{
		Token:                 config.BearerToken,
		Username:              config.Username,
		Password:              config.Password,
		ClientCertificateData: config.TLSClientConfig.CertData,
		ClientKeyData:         config.TLSClientConfig.KeyData,
	}
	if isObject(config.AWSAuthConfig) || isObject(config.ExecProviderConfig) {
		user.Exec = &api.ExecConfig{}
	}
	return accept(&api.Cluster{
		Server:                   string(secret.Data["server"]),
		TLSServerName:            config.TLSClientConfig.ServerName,
		InsecureSkipTLSVerify:    config.TLSClientConfig.Insecure,
		CertificateAuthorityData: config.TLSClientConfig.CAData,
		ProxyURL:                 config.ProxyURL,
	}, user, policy)
}

func isObject(raw json.RawMessage) bool { return len(raw) > 0 && string(raw) != "null" }
