package hub

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// firstRead is how long the first read of a command with --timeout may take, if the flag is shorter.
const firstRead = 30 * time.Second

// CheckTimeout returns an error if the flag --timeout is negative.
func CheckTimeout(timeout time.Duration) error {
	if timeout < 0 {
		return fmt.Errorf("--timeout is %s, and must not be negative; 0 is no limit", timeout)
	}
	return nil
}

// WithTimeout returns a context that ends with the time of the flag --timeout. The time begins with the
// first call of hasRead, so that there is a state to show when it ends, however slow the hub is. 0 is no
// limit.
func WithTimeout(ctx context.Context, timeout time.Duration) (limited context.Context, hasRead func(), cancel context.CancelFunc) {
	limited, end := context.WithCancel(ctx)
	if timeout == 0 {
		return limited, func() {}, end
	}
	timer := time.AfterFunc(max(timeout, firstRead), end)
	begin := sync.OnceFunc(func() { timer.Reset(timeout) })
	return limited, begin, func() {
		timer.Stop()
		end()
	}
}
