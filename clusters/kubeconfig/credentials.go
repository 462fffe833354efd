package kubeconfig

import (
	"bytes"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"k8s.io/client-go/util/cert"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
)

const (
	// maxKeyBytes is the largest private key of a client. An RSA key of 8192 bits has 6.4 KB.
	maxKeyBytes = 16 << 10
	// maxRSABits is the largest RSA key, as in crypto/tls. A handshake with one of 40,000 bits
	// takes ten seconds of a core.
	maxRSABits = 8192
)

// Config is what a connection to a member is made with. It is never changed once made.
type Config struct {
	// Server is the URL of the API server, without a slash at its end.
	Server string
	// ServerName is the name in the server's certificate, if it is not that of the URL.
	ServerName string
	// CA are the certificates that sign the server's, in PEM form; CAPool is the same.
	CA     []byte
	CAPool *x509.CertPool
	// Insecure says that the server's certificate is not verified. Only a Policy permits it.
	Insecure bool
	// Proxy is nil for none. Only a Policy permits one.
	Proxy *url.URL

	// Token is the bearer token; empty for none.
	Token string
	// Certificate is the client's; nil for none.
	Certificate *tls.Certificate

	// digest is of the token and of the certificate with its key.
	digest [sha256.Size]byte
}

// SameServer reports whether two Configs differ in their credentials at most.
func (c *Config) SameServer(other *Config) bool {
	return c.Server == other.Server && c.ServerName == other.ServerName && bytes.Equal(c.CA, other.CA) &&
		c.Insecure == other.Insecure && proxyOf(c) == proxyOf(other)
}

// Equal reports whether two Configs are the same in everything.
func (c *Config) Equal(other *Config) bool {
	return c.SameServer(other) && c.digest == other.digest
}

func proxyOf(c *Config) string {
	if c.Proxy == nil {
		return ""
	}
	return c.Proxy.String()
}

// newConfig makes a Config of an input that has passed the chain. It parses what the checks have
// not looked into.
func newConfig(in input) (*Config, *RejectedError) {
	c := &Config{
		Server:     strings.TrimRight(in.cluster.Server, "/"),
		ServerName: in.cluster.TLSServerName,
		CA:         in.cluster.CertificateAuthorityData,
		Insecure:   in.cluster.InsecureSkipTLSVerify,
		Token:      in.user.Token,
	}
	for _, parse := range []check{c.parseProxy, c.parseCA, c.parseCertificate} {
		if rejected := parse(in); rejected != nil {
			return nil, rejected
		}
	}
	if c.Token == "" && c.Certificate == nil {
		return nil, reject(v1alpha1.ReasonNoCredentials, "the kubeconfig has neither a token nor a client certificate")
	}
	c.digest = sha256.Sum256(fmt.Appendf(nil, "%q %q %q", in.user.Token, in.user.ClientCertificateData, in.user.ClientKeyData))
	return c, nil
}

func (c *Config) parseProxy(in input) *RejectedError {
	if in.cluster.ProxyURL == "" {
		return nil
	}
	proxy, err := url.Parse(in.cluster.ProxyURL)
	if err != nil || proxy.Host == "" || !slices.Contains([]string{"http", "https", "socks5"}, proxy.Scheme) {
		return reject(v1alpha1.ReasonKubeconfigMalformed, "proxy-url must be a URL such as http://proxy.example:3128")
	}
	c.Proxy = proxy
	return nil
}

// parseCA accepts a bundle as a whole or not at all: a certificate that is left out would be missed
// only at the handshake.
func (c *Config) parseCA(input) *RejectedError {
	c.CAPool = x509.NewCertPool()
	if c.Insecure {
		return nil
	}
	certificates, err := cert.ParseCertsPEM(c.CA)
	if err != nil {
		return reject(v1alpha1.ReasonKubeconfigMalformed, "certificate-authority-data is not certificates in PEM form")
	}
	for _, certificate := range certificates {
		if hasLargeKey(certificate) {
			return reject(v1alpha1.ReasonKubeconfigMalformed, "certificate-authority-data has an RSA key of more than %d bits", maxRSABits)
		}
		c.CAPool.AddCert(certificate)
	}
	return nil
}

func (c *Config) parseCertificate(in input) *RejectedError {
	if len(in.user.ClientCertificateData) == 0 {
		return nil
	}
	if len(in.user.ClientKeyData) > maxKeyBytes {
		return reject(v1alpha1.ReasonKubeconfigMalformed, "client-key-data has more than %d bytes", maxKeyBytes)
	}
	pair, err := tls.X509KeyPair(in.user.ClientCertificateData, in.user.ClientKeyData)
	if err != nil {
		return reject(v1alpha1.ReasonKubeconfigMalformed, "client-certificate-data and client-key-data are not a certificate and its key in PEM form, not encrypted")
	}
	if hasLargeKey(pair.Leaf) {
		return reject(v1alpha1.ReasonKubeconfigMalformed, "client-certificate-data has an RSA key of more than %d bits", maxRSABits)
	}
	c.Certificate = &pair
	return nil
}

func hasLargeKey(certificate *x509.Certificate) bool {
	key, isRSA := certificate.PublicKey.(*rsa.PublicKey)
	return isRSA && key.N.BitLen() > maxRSABits
}
