package machine

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
)

// NeedCores returns an error if this process may use fewer processors.
func NeedCores(need int) error { return needCores(need, runtime.GOMAXPROCS(0)) }

func needCores(need, cores int) error {
	if cores < need {
		return fmt.Errorf("%d processors are needed, and this process may use %d: the API servers alone would fill them", need, cores)
	}
	return nil
}

// NeedMemory returns an error if the machine has less available memory, in bytes.
func NeedMemory(need int64) error {
	content, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return err
	}
	available, err := parseAvailable(string(content))
	if err != nil {
		return err
	}
	if available < need {
		return fmt.Errorf("some %d MiB of memory are needed, and %d MiB are available", need>>20, available>>20)
	}
	return nil
}

// parseAvailable returns the available memory in a /proc/meminfo, in bytes.
func parseAvailable(content string) (int64, error) {
	for line := range strings.Lines(content) {
		var kib int64
		if _, err := fmt.Sscanf(line, "MemAvailable: %d kB", &kib); err == nil {
			return kib << 10, nil
		}
	}
	return 0, errors.New("/proc/meminfo lacks MemAvailable")
}
