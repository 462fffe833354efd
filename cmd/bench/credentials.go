package main

import (
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"

	certutil "k8s.io/client-go/util/cert"

	"github.com/fleetwright/fleetwright/internal/environment/front"
)

// credentials are the files that all API servers share.
type credentials struct {
	certificate, key, tokens string
	ca                       []byte
	token                    string
}

// writeCredentials writes the files.
func writeCredentials(dir string) (credentials, error) {
	c := credentials{
		certificate: filepath.Join(dir, "server.crt"),
		key:         filepath.Join(dir, "server.key"),
		tokens:      filepath.Join(dir, "tokens.csv"),
		token:       front.Token(),
	}
	certificate, key, err := certutil.GenerateSelfSignedCertKey("127.0.0.1", []net.IP{net.IPv4(127, 0, 0, 1)}, nil)
	if err != nil {
		return c, fmt.Errorf("create a certificate: %w", err)
	}
	_, c.ca = pem.Decode(certificate) // the CA's follows the server's
	return c, errors.Join(
		os.WriteFile(c.certificate, certificate, 0o600),
		os.WriteFile(c.key, key, 0o600),
		os.WriteFile(c.tokens, []byte(c.token+",admin,admin,system:masters\n"), 0o600),
	)
}
