package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"

	"github.com/fleetwright/fleetwright/cmd/bench/karmada"
	"github.com/fleetwright/fleetwright/internal/machine"
)

const (
	minCores = 2
	// serverMemory is about what an API server needs with its share of etcd.
	serverMemory = 350 << 20
	// otherMemory is about what this process and the operator need.
	otherMemory = 1 << 30
	// peerMemory is about what the processes of a peer and its hub need.
	peerMemory = 2 << 30
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
	if s.peer != "" {
		missing = append(missing, s.checkPeer())
	}
	return errors.Join(append(missing, machine.NeedCores(minCores), s.checkMemory(), s.checkFiles())...)
}

// checkPeer returns an error if a peer cannot be built or run.
func (s settings) checkPeer() error {
	if _, err := os.Stat(filepath.Join(s.bin, karmada.GarbageCollectorName)); err != nil {
		return errors.Join(karmada.Check(), fmt.Errorf("%s lacks %s, which Karmada needs: run make tools", s.bin, karmada.GarbageCollectorName))
	}
	return karmada.Check()
}

func (s settings) checkMemory() error {
	n, other := s.members+1, int64(otherMemory)
	if s.peer != "" {
		other += peerMemory
	}
	if err := machine.NeedMemory(int64(n)*serverMemory + other); err != nil {
		return fmt.Errorf("%d API servers: %w: lower -members", n, err)
	}
	return nil
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
