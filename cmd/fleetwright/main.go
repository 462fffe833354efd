// Command fleetwright is the operator. It runs on, or beside, the hub cluster.
package main

import (
	"fmt"
	"os"
	"runtime/debug"
	"strconv"

	ctrl "sigs.k8s.io/controller-runtime"
)

// version is set when it is built.
var version = "unknown"

// gcPercent is how much the heap grows before garbage is collected, in percent of what is alive; Go's own default is 100. It is
// what a fleet costs at rest: see docs/decisions.md for the memory that it saves and the processor time that it takes.
const gcPercent = 15

func main() {
	if _, set := os.LookupEnv("GOGC"); !set {
		debug.SetGCPercent(gcPercent)
	}
	boundMemory()
	if err := newCommand().ExecuteContext(ctrl.SetupSignalHandler()); err != nil {
		fmt.Fprintln(os.Stderr, "fleetwright:", err)
		os.Exit(1)
	}
}

// boundMemory has garbage collected harder near nine tenths of the container's limit, which the Deployment gives. The rest is for what counts there
// and not for Go: the kernel's buffers of a thousand connections, above all. GOMEMLIMIT is somebody's choice, and goes before.
func boundMemory() {
	if os.Getenv("GOMEMLIMIT") != "" {
		return
	}
	if limit, err := strconv.ParseInt(os.Getenv("MEMORY_LIMIT"), 10, 64); err == nil && limit > 0 {
		debug.SetMemoryLimit(limit / 10 * 9)
	}
}
