package growth

import (
	"time"

	"golang.org/x/sys/unix"
)

// cpuTime returns the CPU time of the calling thread.
func cpuTime() time.Duration {
	var used unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &used); err != nil {
		panic(err) // only invalid arguments are an error
	}
	return time.Duration(used.Nano())
}
