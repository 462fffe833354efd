package environment

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

// Await calls check, twenty times a second, until it returns nil or the timeout expires. The error
// contains what, the timeout, and the last error of check.
func Await(ctx context.Context, timeout time.Duration, what string, check func(context.Context) error) error {
	var last error
	err := wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, timeout, true, func(ctx context.Context) (bool, error) {
		// A check that the timeout interrupts has no error of its own.
		if err := check(ctx); err == nil || ctx.Err() == nil || last == nil {
			last = err
		}
		return last == nil, nil
	})
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return fmt.Errorf("waiting for %s: %w", what, errors.Join(context.Cause(ctx), last))
	default:
		return fmt.Errorf("waited %s for %s: %w", timeout, what, last)
	}
}

// Tail returns the last lines of a log.
func Tail(log string, lines int) string {
	all := strings.Split(strings.TrimRight(log, "\n"), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}
