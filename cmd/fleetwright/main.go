// Command fleetwright is the operator. It runs on, or beside, the hub cluster.
package main

import (
	"errors"
	"fmt"
	"os"

	"github.com/KimMachineGun/automemlimit/memlimit"
	"github.com/go-logr/logr"
	ctrl "sigs.k8s.io/controller-runtime"
)

// version is set at build time.
var version = "unknown"

func main() {
	if err := newCommand().ExecuteContext(ctrl.SetupSignalHandler()); err != nil {
		fmt.Fprintln(os.Stderr, "fleetwright:", err)
		os.Exit(1)
	}
}

// memoryRatio is the share of the container's memory limit that becomes Go's memory limit. The rest
// is for memory that Go does not manage, mainly the kernel's buffers of a thousand connections.
const memoryRatio = 0.9

// limitMemory sets Go's memory limit from the memory limit of the container. GOMEMLIMIT, and
// AUTOMEMLIMIT as a ratio or "off", take precedence. Without a container there is no limit. It
// returns an error only if AUTOMEMLIMIT is invalid. If the container's limit cannot be read, it
// logs the error, because an operator without a memory limit is better than no operator.
// docs/decisions/go-default-garbage-collection.md says why.
func limitMemory(container memlimit.Provider, log logr.Logger) error {
	asked := false
	_, err := memlimit.Set(memlimit.WithRatio(memoryRatio), memlimit.WithProvider(func() (uint64, error) {
		asked = true
		return container()
	}))
	switch {
	case err == nil, errors.Is(err, memlimit.ErrNoCgroup), errors.Is(err, memlimit.ErrCgroupsNotSupported):
		return nil
	case !asked: // the environment is read first
		return err
	}
	log.Error(err, "Cannot read the memory limit of the container; Go's memory limit is not set. Set GOMEMLIMIT to nine tenths of it")
	return nil
}
