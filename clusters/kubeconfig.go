package clusters

import (
	"bytes"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
)

// maxKubeconfig is how many bytes a kubeconfig may have.
const maxKubeconfig = 64 << 10

// kubeconfigKeys are where a Secret may hold its kubeconfig, the first that is there counts: ours and
// Cluster Inventory's, Cluster API's and Rancher Fleet's, Flux's.
var kubeconfigKeys = []string{"kubeconfig", "value", "value.yaml"}

// A Refusal is why a kubeconfig is not used: a reason of the API and a message that says what to do instead.
// It quotes nothing of what it refuses, and trying again without a change is of no use.
type Refusal struct {
	Reason, Message string
}

// Error returns the message.
func (r *Refusal) Error() string { return r.Message }

func refuse(reason, format string, args ...any) *Refusal {
	return &Refusal{Reason: reason, Message: fmt.Sprintf(format, args...)}
}

// target is what is used of a kubeconfig: where the server is, and with which credentials. It is never
// changed once made.
type target struct {
	host, serverName string
	ca               []byte
	roots            *x509.CertPool
	token            string
	certificate      *tls.Certificate
	insecure         bool
	proxy            *url.URL // nil for none
	// credentials is a digest of the token and the certificate with its key.
	credentials [sha256.Size]byte
}

// sameServer tells whether the other target differs in its credentials only.
func (t *target) sameServer(other *target) bool {
	return t.host == other.host && t.serverName == other.serverName && bytes.Equal(t.ca, other.ca) &&
		t.insecure == other.insecure && proxyOf(t) == proxyOf(other)
}

// equal tells whether the two targets are the same in everything.
func (t *target) equal(other *target) bool {
	return t.sameServer(other) && t.credentials == other.credentials
}

// Policy is what an administrator permits beyond what is safe. The zero value permits nothing.
type Policy struct {
	// AllowInsecureTLS permits a kubeconfig that does not check the server's certificate.
	AllowInsecureTLS bool
	// AllowProxy permits a kubeconfig that names a proxy. The proxy then decides which addresses are reached.
	AllowProxy bool
	// AllowLoopback permits members at loopback addresses, for demonstrations and tests on one machine.
	AllowLoopback bool
}

func refuseSize(raw []byte) *Refusal {
	if len(raw) > maxKubeconfig {
		return refuse(v1alpha1.ReasonKubeconfigTooLarge, "the kubeconfig has %d bytes, more than %d", len(raw), maxKubeconfig)
	}
	return nil
}

// parse decides on a kubeconfig, on its raw form: resolving it with clientcmd would already read the files
// that it names.
func parse(raw []byte, policy Policy) (*target, *Refusal) {
	if refusal := refuseSize(raw); refusal != nil {
		return nil, refusal
	}
	config, err := clientcmd.Load(raw)
	if err != nil { // its text may quote the content
		return nil, refuse(v1alpha1.ReasonKubeconfigMalformed, "the content is not a kubeconfig")
	}
	denyPrograms(config)
	context := config.Contexts[config.CurrentContext]
	if context == nil {
		return nil, refuse(v1alpha1.ReasonKubeconfigMalformed, "current-context is missing or names no context of the file")
	}
	cluster, user := config.Clusters[context.Cluster], config.AuthInfos[context.AuthInfo]
	if cluster == nil || user == nil {
		return nil, refuse(v1alpha1.ReasonKubeconfigMalformed, "the current context names a cluster or a user that the file does not have")
	}
	return accept(cluster, user, policy)
}

// accept decides on a cluster and its user, and on nothing else of a kubeconfig: the rest is never used.
func accept(cluster *api.Cluster, user *api.AuthInfo, policy Policy) (*target, *Refusal) {
	for _, check := range []func(*api.Cluster, *api.AuthInfo, Policy) *Refusal{refusePrograms, refuseFiles, refuseDetours, refuseTLS, refuseServer} {
		if refusal := check(cluster, user, policy); refusal != nil {
			return nil, refusal
		}
	}
	return newTarget(cluster, user)
}

// denyPrograms is a second lock: should a kubeconfig with a program ever get past the refusals, client-go runs none.
func denyPrograms(config *api.Config) {
	for _, user := range config.AuthInfos {
		if user.Exec != nil {
			user.Exec.PluginPolicy = api.PluginPolicy{PolicyType: api.PluginPolicyDenyAll}
		}
	}
}

func refusePrograms(_ *api.Cluster, user *api.AuthInfo, _ Policy) *Refusal {
	switch {
	case user.Exec != nil:
		return refuse(v1alpha1.ReasonExecRefused, "the kubeconfig asks to run a program (exec); use a token or a client certificate")
	case user.AuthProvider != nil:
		return refuse(v1alpha1.ReasonAuthProviderRefused, "the kubeconfig asks for an auth-provider; use a token or a client certificate")
	}
	return nil
}

func refuseFiles(cluster *api.Cluster, user *api.AuthInfo, _ Policy) *Refusal {
	for _, file := range []struct{ field, path string }{
		{"certificate-authority", cluster.CertificateAuthority},
		{"client-certificate", user.ClientCertificate},
		{"client-key", user.ClientKey},
		{"tokenFile", user.TokenFile},
	} {
		if file.path != "" {
			return refuse(v1alpha1.ReasonFileRefused, "the kubeconfig names a file (%s); embed it: kubectl config view --flatten", file.field)
		}
	}
	return nil
}

func refuseDetours(cluster *api.Cluster, user *api.AuthInfo, policy Policy) *Refusal {
	switch {
	case cluster.ProxyURL != "" && !policy.AllowProxy:
		return refuse(v1alpha1.ReasonProxyRefused, "the kubeconfig names a proxy (proxy-url); --allow-member-proxies permits it")
	case user.Impersonate != "" || user.ImpersonateUID != "" || len(user.ImpersonateGroups) > 0 || len(user.ImpersonateUserExtra) > 0:
		return refuse(v1alpha1.ReasonImpersonationRefused, "the kubeconfig impersonates another user (as)")
	case user.Username != "" || user.Password != "":
		return refuse(v1alpha1.ReasonBasicAuthRefused, "the kubeconfig holds a user name or password; use a token or a client certificate")
	}
	return nil
}

func refuseTLS(cluster *api.Cluster, _ *api.AuthInfo, policy Policy) *Refusal {
	switch {
	case cluster.InsecureSkipTLSVerify && policy.AllowInsecureTLS:
		return nil
	case cluster.InsecureSkipTLSVerify:
		return refuse(v1alpha1.ReasonInsecureTLSRefused, "the kubeconfig turns off the check of the server's certificate (insecure-skip-tls-verify); embed the CA instead")
	case len(cluster.CertificateAuthorityData) == 0:
		return refuse(v1alpha1.ReasonInsecureTLSRefused, "the kubeconfig has no certificate-authority-data; embed the cluster's CA")
	}
	return nil
}

func refuseServer(cluster *api.Cluster, _ *api.AuthInfo, _ Policy) *Refusal {
	server, err := url.Parse(cluster.Server)
	if err != nil || server.Scheme != "https" || server.Hostname() == "" || server.User != nil || server.RawQuery != "" || server.Fragment != "" {
		return refuse(v1alpha1.ReasonServerRefused, "server must be an https URL such as https://api.example:6443")
	}
	return nil
}

func proxyOf(t *target) string {
	if t.proxy == nil {
		return ""
	}
	return t.proxy.String()
}

func newTarget(cluster *api.Cluster, user *api.AuthInfo) (*target, *Refusal) {
	t := &target{
		host:       strings.TrimRight(cluster.Server, "/"),
		serverName: cluster.TLSServerName,
		ca:         cluster.CertificateAuthorityData,
		roots:      x509.NewCertPool(),
		token:      user.Token,
		insecure:   cluster.InsecureSkipTLSVerify,
	}
	if cluster.ProxyURL != "" {
		proxy, err := url.Parse(cluster.ProxyURL)
		if err != nil || proxy.Host == "" || !slices.Contains([]string{"http", "https", "socks5"}, proxy.Scheme) {
			return nil, refuse(v1alpha1.ReasonKubeconfigMalformed, "proxy-url must be a URL such as http://proxy.example:3128")
		}
		t.proxy = proxy
	}
	if !t.insecure && !t.roots.AppendCertsFromPEM(t.ca) {
		return nil, refuse(v1alpha1.ReasonKubeconfigMalformed, "certificate-authority-data holds no certificate in PEM form")
	}
	if len(user.ClientCertificateData) > 0 {
		pair, err := tls.X509KeyPair(user.ClientCertificateData, user.ClientKeyData)
		if err != nil {
			return nil, refuse(v1alpha1.ReasonKubeconfigMalformed, "client-certificate-data and client-key-data are not a certificate and its key in PEM form")
		}
		t.certificate = &pair
	}
	if t.token == "" && t.certificate == nil {
		return nil, refuse(v1alpha1.ReasonNoCredentials, "the kubeconfig has neither a token nor a client certificate")
	}
	t.credentials = sha256.Sum256(fmt.Appendf(nil, "%q %q %q", user.Token, user.ClientCertificateData, user.ClientKeyData))
	return t, nil
}
