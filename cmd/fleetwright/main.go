// Command fleetwright is the operator. It runs on, or beside, the hub cluster.
package main

import (
	"fmt"
	"os"
	"runtime/debug"

	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	ctrl "sigs.k8s.io/controller-runtime"
)

// version is set when it is built.
var version = "unknown"

// gcPercent is how much the heap grows before garbage is collected, in percent of what is alive; Go's own default is 100. It is
// what a fleet costs at rest: see docs/decisions.md for the memory that it saves and the processor time that it takes.
const gcPercent = 15

func main() {
	// What a member sends must not end the operator: a panic in the decoding of it is logged, and the watch begins anew.
	utilruntime.ReallyCrash = false
	if _, set := os.LookupEnv("GOGC"); !set {
		debug.SetGCPercent(gcPercent)
	}
	if err := newCommand().ExecuteContext(ctrl.SetupSignalHandler()); err != nil {
		fmt.Fprintln(os.Stderr, "fleetwright:", err)
		os.Exit(1)
	}
}
