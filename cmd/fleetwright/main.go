// Command fleetwright is the operator. It runs on, or beside, the hub cluster.
package main

import (
	"fmt"
	"os"

	ctrl "sigs.k8s.io/controller-runtime"
)

// version is set when it is built.
var version = "unknown"

func main() {
	if err := newCommand().ExecuteContext(ctrl.SetupSignalHandler()); err != nil {
		fmt.Fprintln(os.Stderr, "fleetwright:", err)
		os.Exit(1)
	}
}
