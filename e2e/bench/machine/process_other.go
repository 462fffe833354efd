//go:build !linux

package machine

import (
	"errors"
	"syscall"
)

func attributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

// EndWithParent returns an error: the figures are from /proc, which only Linux has.
func EndWithParent() error { return errors.New("the benchmark needs Linux") }
