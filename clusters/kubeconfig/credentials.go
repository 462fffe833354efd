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
	// maxKeyBytes is the size of the largest private key of a client. An RSA key of 8192 bits has
	// 6.4 KB.
	maxKeyBytes = 16 << 10
	// maxRSABits is the size of the largest RSA key, as in crypto/tls. A handshake with a key of
	// 40,000 bits takes ten seconds of a core.
	maxRSABits = 8192
)

// Config holds what a connection to a member needs. It is immutable.
type Config struct {
	// Server is the URL of the API server, without a slash at its end.
	Server string
	// ServerName is the name in the server's certificate if it differs from the host of the URL.
	ServerName string
	// CA holds the certificates that sign the server's certificate, in PEM form; CAPool is the
	// same.
	CA     []byte
	CAPool *x509.CertPool
	// Insecure disables verification of the server's certificate. Only a Policy permits it.
	Insecure bool
	// Proxy is nil if there is no proxy. Only a Policy permits a proxy.
	Proxy *url.URL

	// Token is the bearer token, or empty.
	Token string
	// Certificate is the client certificate, or nil.
	Certificate *tls.Certificate

	// digest covers the token and the certificate with its key.
	digest [sha256.Size]byte
}

// SameServer reports whether two Configs are equal except for their credentials.
func (c *Config) SameServer(other *Config) bool {
	return c.Server == other.Server && c.ServerName == other.ServerName && bytes.Equal(c.CA, other.CA) &&
		c.Insecure == other.Insecure && proxyOf(c) == proxyOf(other)
}

// Equal reports whether two Configs are equal in all fields.
func (c *Config) Equal(other *Config) bool {
	return c.SameServer(other) && c.digest == other.digest
}

func proxyOf(c *Config) string {
	if c.Proxy == nil {
		return ""
	}
	return c.Proxy.String()
}

// newConfig returns the Config for an input that has passed the chain. It parses the values that
// the checks have not parsed.
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

// parseCA accepts a bundle only as a whole: if it skipped an invalid certificate, the error would
// appear only at the handshake.
func (c *Config) parseCA(input) *RejectedError {
	c.CAPool = x509.NewCertPool()
	if c.Insecure {
		return nil
	}
	certificates, err := cert.ParseCertsPEM(c.CA)
	if err != nil {
		return reject(v1alpha1.ReasonKubeconfigMalformed, "certificate-authority-data has no certificates in PEM format")
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
		return reject(v1alpha1.ReasonKubeconfigMalformed, "client-certificate-data and client-key-data must be a certificate and its unencrypted key in PEM format")
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
