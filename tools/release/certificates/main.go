// Command certificates prints the certificate authorities of the image, for the Dockerfile.
package main

import (
	"fmt"
	"os"

	"github.com/fleetwright/fleetwright/tools/release/roots"
)

func main() {
	if err := roots.Write(os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "certificates:", err)
		os.Exit(1)
	}
}
