package main

import (
	"crypto/tls"
	"fmt"
	"net/http"
	"path/filepath"

	"github.com/spf13/pflag"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/metrics/filters"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

// +kubebuilder:rbac:groups=authentication.k8s.io,resources=tokenreviews,verbs=create
// +kubebuilder:rbac:groups=authorization.k8s.io,resources=subjectaccessreviews,verbs=create

// metricsFlags are the flags of the metrics server. They have the names of Kubebuilder.
type metricsFlags struct {
	address                    string
	secure                     bool
	certDir, certName, keyName string
}

func (s *metricsFlags) addFlags(f *pflag.FlagSet) {
	f.StringVar(&s.address, "metrics-bind-address", ":8443", "`address` of the metrics server; 0 disables it")
	f.BoolVar(&s.secure, "metrics-secure", true, "serve metrics by HTTPS, to clients with a bearer token that the hub authorizes to get /metrics; false serves them by HTTP to everybody")
	f.StringVar(&s.certDir, "metrics-cert-path", "", "`directory` with the certificate and the key of the metrics server; empty uses a self-signed certificate")
	f.StringVar(&s.certName, "metrics-cert-name", "tls.crt", "`name` of the certificate file")
	f.StringVar(&s.keyName, "metrics-cert-key", "tls.key", "`name` of the key file")
}

// check returns an error if the flags are invalid. A certificate that does not exist is an error,
// because the metrics server would use a self-signed one instead.
func (s *metricsFlags) check() error {
	if s.certDir == "" || s.address == "0" {
		return nil
	}
	if !s.secure {
		return fmt.Errorf("--metrics-cert-path %s: --metrics-secure=false uses no certificate; remove one of the flags", s.certDir)
	}
	if _, err := tls.LoadX509KeyPair(filepath.Join(s.certDir, s.certName), filepath.Join(s.certDir, s.keyName)); err != nil {
		return fmt.Errorf("--metrics-cert-path %s: %w", s.certDir, err)
	}
	return nil
}

// options returns the options of the metrics server. The configuration of the hub must have no fence:
// a standby serves metrics too, and each review of a client is a POST request.
func (s *metricsFlags) options(hub *rest.Config) metricsserver.Options {
	options := metricsserver.Options{
		BindAddress: s.address, SecureServing: s.secure,
		CertDir: s.certDir, CertName: s.certName, KeyName: s.keyName,
		// One client needs no multiplexing, and HTTP/2 has attacks of its own (CVE-2023-44487).
		TLSOpts: []func(*tls.Config){func(c *tls.Config) { c.NextProtos = []string{"http/1.1"} }},
	}
	if s.secure {
		options.FilterProvider = func(*rest.Config, *http.Client) (metricsserver.Filter, error) {
			client, err := rest.HTTPClientFor(hub)
			if err != nil {
				return nil, fmt.Errorf("create a client for the hub: %w", err)
			}
			return filters.WithAuthenticationAndAuthorization(hub, client)
		}
	}
	return options
}
