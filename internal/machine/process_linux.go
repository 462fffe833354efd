package machine

import (
	"fmt"
	"syscall"
)

// attributes lets a process die with its parent, and keeps Ctrl-C from it: its parent ends it.
func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
}

// EndWithParent makes the kernel send SIGTERM to this process when its parent ends, such as `go
// run`.
func EndWithParent() error {
	const prSetPdeathsig = 1
	if _, _, errno := syscall.RawSyscall(syscall.SYS_PRCTL, prSetPdeathsig, uintptr(syscall.SIGTERM), 0); errno != 0 {
		return fmt.Errorf("ask for a signal when the parent ends: %w", errno)
	}
	return nil
}
