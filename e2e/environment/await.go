package environment

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

// Await tries check, twenty times a second, until it returns nil or the timeout is over. The error says what
// was waited for, how long, and what check said last.
func Await(ctx context.Context, timeout time.Duration, what string, check func(context.Context) error) error {
	var last error
	err := wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, timeout, true, func(ctx context.Context) (bool, error) {
		// A check that the end of the time cuts off has nothing to say of its own.
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

// Tail is the last lines of a log.
func Tail(log string, lines int) string {
	all := strings.Split(strings.TrimRight(log, "\n"), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}
