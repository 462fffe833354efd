// Command fleetwright is the operator. It runs on, or beside, the hub cluster.
package main

import (
	"errors"
	"fmt"
	"os"

	"github.com/KimMachineGun/automemlimit/memlimit"
	ctrl "sigs.k8s.io/controller-runtime"
)

// version is set at build time.
var version = "unknown"

func main() {
	if err := limitMemory(memlimit.FromCgroup); err != nil {
		fmt.Fprintln(os.Stderr, "fleetwright:", err)
		os.Exit(1)
	}
	if err := newCommand().ExecuteContext(ctrl.SetupSignalHandler()); err != nil {
		fmt.Fprintln(os.Stderr, "fleetwright:", err)
		os.Exit(1)
	}
}

// memoryRatio is the share of the container's memory limit that becomes Go's memory limit. The rest
// is for memory that Go does not manage, mainly the kernel's buffers of a thousand connections.
const memoryRatio = 0.9

// limitMemory sets Go's memory limit from the memory limit of the container. GOMEMLIMIT, and
// AUTOMEMLIMIT as a ratio or "off", take precedence. Without a container there is no limit.
func limitMemory(container memlimit.Provider) error {
	_, err := memlimit.Set(memlimit.WithProvider(container), memlimit.WithRatio(memoryRatio))
	if errors.Is(err, memlimit.ErrNoCgroup) || errors.Is(err, memlimit.ErrCgroupsNotSupported) {
		return nil
	}
	return err
}
