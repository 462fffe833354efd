// Package testcert makes certificates for tests.
package testcert

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"time"
)

// Pair is a certificate and its key in PEM form.
type Pair struct{ Certificate, Key []byte }

// New returns a Pair that is valid from two hours ago until validFor from now.
func New(validFor time.Duration) Pair {
	return NewFor(time.Now().Add(-2*time.Hour), time.Now().Add(validFor))
}

// NewFor returns a Pair for 127.0.0.1 that is signed by itself and valid between two times.
func NewFor(from, until time.Time) Pair {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		panic(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()),
		Subject:      pkix.Name{CommonName: "canary-name"},
		NotBefore:    from,
		NotAfter:     until,
		IPAddresses:  []net.IP{net.IPv4(127, 0, 0, 1)},
		IsCA:         true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		panic(err)
	}
	pkcs8, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		panic(err)
	}
	return Pair{
		Certificate: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		Key:         pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: pkcs8}),
	}
}

// TLS returns the Pair for a server or a client.
func (p Pair) TLS() tls.Certificate {
	certificate, err := tls.X509KeyPair(p.Certificate, p.Key)
	if err != nil {
		panic(err)
	}
	return certificate
}
