// Command image prints the certificate authorities of the image. They are Mozilla's, from a pinned
// Go module, so that the same commit gives the same image on every machine. It omits authorities
// that Mozilla trusts only under conditions, because a file of certificates cannot express
// conditions.
package main

import (
	"encoding/pem"
	"fmt"
	"os"

	"golang.org/x/crypto/x509roots/fallback/bundle"
)

func main() {
	for root := range bundle.Roots() {
		if root.Constraint != nil {
			continue
		}
		if err := pem.Encode(os.Stdout, &pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate}); err != nil {
			fmt.Fprintln(os.Stderr, "image:", err)
			os.Exit(1)
		}
	}
}
