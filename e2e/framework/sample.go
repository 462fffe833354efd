package framework

import (
	"os"
	"strconv"
)

// Sample returns the number by which suites choose what they run, from the environment variable
// SAMPLE. The Makefile derives it from the commit, so a failure repeats. Without it, or if it is 0,
// the suites run everything, with random seeds.
func Sample() (number uint64, isSample bool) {
	number, err := strconv.ParseUint(os.Getenv("SAMPLE"), 10, 64)
	return number, err == nil && number != 0
}
