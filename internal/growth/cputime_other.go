//go:build !linux

package growth

import "time"

var start = time.Now()

// cpuTime stands in for the CPU time of the calling thread. It is right on an idle machine.
func cpuTime() time.Duration { return time.Since(start) }
