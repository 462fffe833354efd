// Package roots provides the certificate authorities of the image. They are Mozilla's, from a pinned
// Go module, so that the same commit gives the same image on every machine.
package roots

import (
	"encoding/pem"
	"io"
	"runtime/debug"

	"golang.org/x/crypto/x509roots/fallback/bundle"
)

// Write writes the certificates in PEM. It omits authorities that Mozilla trusts only under
// conditions, because a file of certificates cannot express conditions.
func Write(w io.Writer) error {
	for root := range bundle.Roots() {
		if root.Constraint != nil {
			continue
		}
		if err := pem.Encode(w, &pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate}); err != nil {
			return err
		}
	}
	return nil
}

// Version returns the module of the certificates and its version.
func Version() (path, version string) {
	const module = "golang.org/x/crypto/x509roots/fallback"
	info, _ := debug.ReadBuildInfo()
	for _, dependency := range info.Deps {
		if dependency.Path == module {
			return module, dependency.Version
		}
	}
	return module, ""
}
