package kubeconfig

import (
	"encoding/json"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/clientcmd/api"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
)

// argoCDConfig has the fields of the config in a cluster Secret of Argo CD that affect the
// decision. See
// https://argo-cd.readthedocs.io/en/stable/operator-manual/declarative-setup/#clusters.
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

// parseArgoCD passes a cluster Secret of Argo CD through the same checks as a kubeconfig. It reads
// the JSON as Argo CD does: the last of two equal keys counts.
func parseArgoCD(secret *corev1.Secret, policy Policy) (*Config, *RejectedError) {
	raw := secret.Data["config"]
	if rejected := checkSize(len(raw) + len(secret.Data["server"])); rejected != nil {
		return nil, rejected
	}
	var config argoCDConfig
	if err := json.Unmarshal(raw, &config); err != nil { // its text may quote the content
		return nil, reject(v1alpha1.ReasonKubeconfigMalformed, "the key config is not the JSON of a cluster Secret of Argo CD")
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
	cluster := &api.Cluster{
		Server:                   string(secret.Data["server"]),
		TLSServerName:            config.TLSClientConfig.ServerName,
		InsecureSkipTLSVerify:    config.TLSClientConfig.Insecure,
		CertificateAuthorityData: config.TLSClientConfig.CAData,
		ProxyURL:                 config.ProxyURL,
	}
	return accept(input{cluster, user, policy})
}

func isObject(raw json.RawMessage) bool { return len(raw) > 0 && string(raw) != "null" }
