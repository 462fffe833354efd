package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
)

const (
	minCores = 2
	// serverMemory is about what an API server needs with its share of etcd.
	serverMemory = 350 << 20
	// otherMemory is about what this process and the operator need.
	otherMemory = 1 << 30
)

// check returns an error if this machine cannot run the benchmark.
func (s settings) check() error {
	var missing []error
	for _, program := range []string{"etcd", "kube-apiserver"} {
		if _, err := os.Stat(filepath.Join(s.bin, program)); err != nil {
			missing = append(missing, fmt.Errorf("%s lacks %s: run make tools", s.bin, program))
		}
	}
	if _, err := os.Stat(configDir); err != nil {
		missing = append(missing, errors.New("run the benchmark from the root of the repository"))
	}
	return errors.Join(append(missing, checkCores(runtime.GOMAXPROCS(0)), s.checkMemory(), s.checkFiles())...)
}

func checkCores(cores int) error {
	if cores < minCores {
		return fmt.Errorf("the benchmark needs %d processors, and may use %d: the API servers alone would fill one", minCores, cores)
	}
	return nil
}

func (s settings) checkMemory() error {
	content, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return err
	}
	available, err := parseAvailable(string(content))
	if err != nil {
		return err
	}
	if need := int64(s.members+1)*serverMemory + otherMemory; available < need {
		return fmt.Errorf("%d API servers need some %d MiB of memory, and %d MiB are available: lower -members", s.members+1, need>>20, available>>20)
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

// checkFiles returns an error if the limit of open files is too low for the API servers.
func (s settings) checkFiles() error {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return fmt.Errorf("read the limit of open files: %w", err)
	}
	if need := uint64(1024 + 256*s.members); limit.Max < need {
		return fmt.Errorf("%d open files are needed, the limit is %d: raise ulimit -n", need, limit.Max)
	}
	return nil
}
