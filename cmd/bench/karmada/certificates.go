package karmada

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"

	certutil "k8s.io/client-go/util/cert"
	"k8s.io/client-go/util/keyutil"
)

// The files of the certificates, with the names that the chart gives them.
const (
	caFile         = "server-ca.crt"
	caKeyFile      = "server-ca.key"
	certFile       = "karmada.crt"
	keyFile        = "karmada.key"
	frontCAFile    = "front-proxy-ca.crt"
	frontCertFile  = "front-proxy-client.crt"
	frontKeyFile   = "front-proxy-client.key"
	webhookCerts   = "webhook"
	frontProxyName = "front-proxy-client"
)

// rsaSize is the size of the chart's keys.
const rsaSize = 3072

// authority is a certificate authority.
type authority struct {
	certificate *x509.Certificate
	key         *rsa.PrivateKey
}

func newAuthority() (authority, error) {
	key, err := rsa.GenerateKey(rand.Reader, rsaSize)
	if err != nil {
		return authority{}, err
	}
	certificate, err := certutil.NewSelfSignedCACert(certutil.Config{CommonName: "ca"}, key)
	return authority{certificate, key}, err
}

// issue returns a certificate of an administrator, which the processes also serve with, and its key.
func (a authority) issue(name string) (certificate, key []byte, err error) {
	private, err := rsa.GenerateKey(rand.Reader, rsaSize)
	if err != nil {
		return nil, nil, err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()),
		Subject:      pkix.Name{CommonName: name, Organization: []string{"system:masters"}},
		NotBefore:    a.certificate.NotBefore,
		NotAfter:     time.Now().Add(365 * 24 * time.Hour),
		KeyUsage:     x509.KeyUsageKeyEncipherment | x509.KeyUsageDigitalSignature,
		ExtKeyUsage:  []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		DNSNames:     []string{"localhost", "karmada-aggregated-apiserver." + systemNamespace + ".svc"},
		IPAddresses:  []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.certificate, &private.PublicKey, a.key)
	if err != nil {
		return nil, nil, err
	}
	key, err = keyutil.MarshalPrivateKeyToPEM(private)
	return pem.EncodeToMemory(&pem.Block{Type: certutil.CertificateBlockType, Bytes: der}), key, err
}

// writeCertificates writes the certificates that the chart creates, and returns the CA.
func writeCertificates(dir string) ([]byte, error) {
	server, err := newAuthority()
	if err != nil {
		return nil, fmt.Errorf("create a CA: %w", err)
	}
	front, err := newAuthority()
	if err != nil {
		return nil, fmt.Errorf("create the CA of the front proxy: %w", err)
	}
	certificate, key, err := server.issue("system:admin")
	if err != nil {
		return nil, fmt.Errorf("create a certificate: %w", err)
	}
	frontCertificate, frontKey, err := front.issue(frontProxyName)
	if err != nil {
		return nil, fmt.Errorf("create the certificate of the front proxy: %w", err)
	}
	caKey, err := keyutil.MarshalPrivateKeyToPEM(server.key)
	if err != nil {
		return nil, err
	}
	ca := encode(server.certificate)
	errs := []error{os.MkdirAll(filepath.Join(dir, webhookCerts), 0o750)}
	for name, content := range map[string][]byte{
		caFile: ca, caKeyFile: caKey, certFile: certificate, keyFile: key, frontCAFile: encode(front.certificate),
		frontCertFile: frontCertificate, frontKeyFile: frontKey,
		filepath.Join(webhookCerts, "tls.crt"): certificate, filepath.Join(webhookCerts, "tls.key"): key,
	} {
		errs = append(errs, os.WriteFile(filepath.Join(dir, name), content, 0o600))
	}
	return ca, errors.Join(errs...)
}

func encode(certificate *x509.Certificate) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: certutil.CertificateBlockType, Bytes: certificate.Raw})
}
