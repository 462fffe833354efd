//go:build !linux

package machine

import (
	"errors"
	"syscall"
)

func attributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

// EndWithParent returns an error: the figures are from /proc, which only Linux has.
func EndWithParent() error {
	return errors.New("this measures with /proc, which only Linux has: run it on Linux; to see a fleet on this machine, run `make demo` or `make kind-demo`")
}
