package environment

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
)

// The pause between two checks grows, so that those who wait leave the processors to those who
// work.
const (
	firstPause   = 20 * time.Millisecond
	longestPause = 200 * time.Millisecond
)

// StartTimeout limits how long a step of the start of a cluster or of the operator takes. It is long,
// so that only what will never start fails: on a busy machine, an API server may serve its CRDs after
// a minute.
const StartTimeout = 5 * time.Minute

// Await calls check again and again until it returns nil or the timeout expires. The error contains
// what, the timeout, and the last error of check.
func Await(ctx context.Context, timeout time.Duration, what string, check func(context.Context) error) error {
	limited, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	var last error
	for pause := firstPause; ; pause = min(pause*5/4, longestPause) {
		err := check(limited)
		if err == nil {
			return nil
		}
		// A check that the timeout interrupts has no error of its own.
		if limited.Err() == nil || last == nil {
			last = err
		}
		select {
		case <-time.After(pause):
		case <-limited.Done():
			if ctx.Err() != nil {
				return fmt.Errorf("waiting for %s: %w", what, errors.Join(context.Cause(ctx), last))
			}
			return fmt.Errorf("waited %s for %s: %w", timeout, what, last)
		}
	}
}

// Tail returns the last lines of a log.
func Tail(log string, lines int) string {
	all := strings.Split(strings.TrimRight(log, "\n"), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}
