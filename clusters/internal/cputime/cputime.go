// Package cputime measures the processor time of a function, for tests of what a decision may cost.
// The time on a clock would depend on what else the machine does.
package cputime

import (
	"runtime"
	"syscall"
	"time"
)

// rusageThread is RUSAGE_THREAD of Linux: the calling thread only.
const rusageThread = 1

// Of returns the processor time of a function that starts no goroutine.
func Of(do func()) time.Duration {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	begin := used()
	do()
	return used() - begin
}

func used() time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(rusageThread, &usage); err != nil {
		panic(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
