package clusters

import (
	"bytes"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/client-go/util/cert"
	"sigs.k8s.io/yaml"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
)

// Bounds of what is looked at, and of what it costs. hostile_test.go measures that together they hold.
const (
	// maxKubeconfig is how many bytes a kubeconfig may have.
	maxKubeconfig = 64 << 10
	// maxPieces is how many pieces it may have: an empty entry of three bytes costs the parser three KiB.
	maxPieces = 4096
	// maxKey is how many bytes the client's key may have. An RSA key of 8192 bits has 6.4 KB.
	maxKey = 16 << 10
	// maxRSA is how many bits an RSA key may have, as in crypto/tls. A handshake with one of 40,000 takes ten
	// seconds of a core.
	maxRSA = 8192
)

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
	authorization    string // the header with the token; empty for none
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

func refuseSize(size int) *Refusal {
	if size > maxKubeconfig {
		return refuse(v1alpha1.ReasonKubeconfigTooLarge, "the kubeconfig has %d bytes, more than %d", size, maxKubeconfig)
	}
	return nil
}

// refuseText decides on the text alone, whatever YAML makes of it. The parser would take UTF-16; others who look at the
// Secret may not. And it expands aliases: 64 KiB can become GiB, within its own limits, which count nodes and not
// bytes. There is no alias without both of its signs, and hardly a kubeconfig with both.
func refuseText(raw []byte) *Refusal {
	switch {
	case !utf8.Valid(raw):
		return refuse(v1alpha1.ReasonKubeconfigMalformed, "the content is not text in UTF-8")
	case pieces(raw) > maxPieces:
		return refuse(v1alpha1.ReasonKubeconfigTooLarge, "the kubeconfig has more than %d words, lists and entries; keep one context: kubectl config view --minify --flatten", maxPieces)
	case bytes.IndexByte(raw, '&') >= 0 && bytes.IndexByte(raw, '*') >= 0:
		return refuse(v1alpha1.ReasonKubeconfigMalformed, "the content has the signs of YAML aliases (& and *); write it without: kubectl config view --flatten")
	}
	return nil
}

// pieces bounds how many nodes YAML makes of a text, and how deep they are nested: each has a blank, a comma or a bracket before it.
func pieces(raw []byte) int {
	count := bytes.Count(raw, []byte(",")) + bytes.Count(raw, []byte("[")) + bytes.Count(raw, []byte("{"))
	for range bytes.FieldsSeq(raw) {
		count++
	}
	return count
}

// refuseKeys requires keys that are text, and each of them once: of two, another reader of the Secret may take the other.
func refuseKeys(raw []byte) *Refusal {
	if _, err := yaml.YAMLToJSONStrict(raw); err == nil {
		return nil
	}
	if _, err := yaml.YAMLToJSON(raw); err != nil { // its text may quote the content
		return refuse(v1alpha1.ReasonKubeconfigMalformed, "the content is not YAML, or has a key that is no text, but a list, a map or null")
	}
	return refuse(v1alpha1.ReasonKubeconfigMalformed, "the content has a key twice; remove one of the two")
}

// parse decides on a kubeconfig, on its raw form: resolving it with clientcmd would already read the files
// that it names.
func parse(raw []byte, policy Policy) (*target, *Refusal) {
	if refusal := refuseSize(len(raw)); refusal != nil {
		return nil, refusal
	}
	for _, check := range []func([]byte) *Refusal{refuseText, refuseKeys} {
		if refusal := check(raw); refusal != nil {
			return nil, refusal
		}
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
	for _, check := range []func(*api.Cluster, *api.AuthInfo, Policy) *Refusal{
		refusePrograms, refuseFiles, refuseDetours, refuseTLS, refuseServer, refuseToken,
	} {
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
	if err != nil || server.Scheme != "https" || server.Hostname() == "" || server.User != nil || !isPort(server.Port()) ||
		strings.ContainsAny(cluster.Server, "?#") { // also when nothing follows: the path of a request would
		return refuse(v1alpha1.ReasonServerRefused, "server must be an https URL such as https://api.example:6443")
	}
	return nil
}

// isPort tells whether it can be dialled; none is the scheme's own.
func isPort(port string) bool {
	number, err := strconv.ParseUint(port, 10, 16)
	return port == "" || err == nil && number > 0
}

// refuseToken lets no token end the header that it is sent in.
func refuseToken(_ *api.Cluster, user *api.AuthInfo, _ Policy) *Refusal {
	if strings.ContainsFunc(user.Token, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return refuse(v1alpha1.ReasonKubeconfigMalformed, "the token has a character that no token has, such as a line break or a space")
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
		insecure:   cluster.InsecureSkipTLSVerify,
	}
	for _, read := range []func(*api.Cluster, *api.AuthInfo) *Refusal{t.readProxy, t.readRoots, t.readCertificate} {
		if refusal := read(cluster, user); refusal != nil {
			return nil, refusal
		}
	}
	if user.Token != "" {
		const scheme = "Bearer "
		t.authorization = scheme + user.Token // once, not for each request: it is a kilobyte, and a watch holds its request
		t.token = t.authorization[len(scheme):]
	}
	if t.token == "" && t.certificate == nil {
		return nil, refuse(v1alpha1.ReasonNoCredentials, "the kubeconfig has neither a token nor a client certificate")
	}
	t.credentials = sha256.Sum256(fmt.Appendf(nil, "%q %q %q", user.Token, user.ClientCertificateData, user.ClientKeyData))
	return t, nil
}

func (t *target) readProxy(cluster *api.Cluster, _ *api.AuthInfo) *Refusal {
	if cluster.ProxyURL == "" {
		return nil
	}
	proxy, err := url.Parse(cluster.ProxyURL)
	if err != nil || proxy.Host == "" || !slices.Contains([]string{"http", "https", "socks5"}, proxy.Scheme) {
		return refuse(v1alpha1.ReasonKubeconfigMalformed, "proxy-url must be a URL such as http://proxy.example:3128")
	}
	t.proxy = proxy
	return nil
}

// readRoots takes a bundle whole or not at all: what is left out of it is missed at the handshake only.
func (t *target) readRoots(*api.Cluster, *api.AuthInfo) *Refusal {
	t.roots = x509.NewCertPool()
	if t.insecure {
		return nil
	}
	certificates, err := cert.ParseCertsPEM(t.ca)
	if err != nil {
		return refuse(v1alpha1.ReasonKubeconfigMalformed, "certificate-authority-data is not certificates in PEM form")
	}
	for _, certificate := range certificates {
		if tooLarge(certificate) {
			return refuse(v1alpha1.ReasonKubeconfigMalformed, "certificate-authority-data has an RSA key of more than %d bits", maxRSA)
		}
		t.roots.AddCert(certificate)
	}
	return nil
}

func (t *target) readCertificate(_ *api.Cluster, user *api.AuthInfo) *Refusal {
	if len(user.ClientCertificateData) == 0 {
		return nil
	}
	if len(user.ClientKeyData) > maxKey {
		return refuse(v1alpha1.ReasonKubeconfigMalformed, "client-key-data has more than %d bytes", maxKey)
	}
	pair, err := tls.X509KeyPair(user.ClientCertificateData, user.ClientKeyData)
	if err != nil {
		return refuse(v1alpha1.ReasonKubeconfigMalformed, "client-certificate-data and client-key-data are not a certificate and its key in PEM form, not encrypted")
	}
	if tooLarge(pair.Leaf) {
		return refuse(v1alpha1.ReasonKubeconfigMalformed, "client-certificate-data has an RSA key of more than %d bits", maxRSA)
	}
	t.certificate = &pair
	return nil
}

func tooLarge(certificate *x509.Certificate) bool {
	key, isRSA := certificate.PublicKey.(*rsa.PublicKey)
	return isRSA && key.N.BitLen() > maxRSA
}
