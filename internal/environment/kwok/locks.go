package kwok

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"
)

// lock locks a file that all processes of this machine share, until the file is closed or this process
// ends. The error is EWOULDBLOCK if it is locked.
func lock(kind, name string) (*os.File, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return nil, err
	}
	dir := filepath.Join(cache, "fleetwright", kind)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	file, err := os.OpenFile(filepath.Join(dir, name), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		_ = file.Close()
		return nil, err
	}
	return file, nil
}

// startsAtATime is how many clusters start at a time on a machine. The suites of .ci/run start some
// twenty. If all of them start at once on two processors, components wait so long for their API server
// that they exit, and must be started again.
const startsAtATime = 3

// awaitTurn waits until fewer than startsAtATime clusters of this machine start. The turn ends when end
// is called, or with this process.
func awaitTurn(ctx context.Context) (end func(), err error) {
	for {
		for i := range startsAtATime {
			file, err := lock("starts", strconv.Itoa(i))
			if err == nil {
				return func() { _ = file.Close() }, nil
			}
			if !errors.Is(err, syscall.EWOULDBLOCK) {
				return func() {}, nil // no turns without a cache directory
			}
		}
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-time.After(100 * time.Millisecond):
		}
	}
}
