package transport

import (
	"bytes"
	"context"
	"errors"
	"io"
	"sync/atomic"
	"time"
)

// deadlineBody is the body of a response that must end within its timeout.
type deadlineBody struct {
	io.ReadCloser
	health *WatchHealth
	ctx    context.Context // of the request
	cancel context.CancelCauseFunc
	timers []*Timer // the first timer belongs to this body
}

// slowListFailures is the number of failures that a list without an end counts as, because it has
// already taken long.
const slowListFailures = 2

// Read extends the timeout by the bytes it reads, and records a list that does not end.
func (b *deadlineBody) Read(into []byte) (int, error) {
	n, err := b.ReadCloser.Read(into)
	for _, timer := range b.timers {
		timer.extend(time.Duration(n) * time.Second / minListRate)
	}
	if err == nil || errors.Is(err, io.EOF) {
		return n, err
	}
	if err = timeoutOr(b.ctx, err); errors.Is(err, context.DeadlineExceeded) && IsRequired(b.ctx) {
		b.health.recordFailures(requiredKind(b.ctx), errSlowList, time.Now(), slowListFailures)
	}
	return n, err
}

// timeoutOr returns DeadlineExceeded if the request of this context took too long, and the given
// error otherwise.
func timeoutOr(ctx context.Context, err error) error {
	if errors.Is(context.Cause(ctx), context.DeadlineExceeded) {
		return context.DeadlineExceeded
	}
	return err
}

// Close ends the request.
func (b *deadlineBody) Close() error {
	defer b.end()
	return b.ReadCloser.Close()
}

func (b *deadlineBody) end() {
	b.timers[0].Stop()
	b.cancel(nil)
}

// requiredWatchBody is the body of a watch that is required for the engagement of the member.
type requiredWatchBody struct {
	*watchBody
	kind    string
	health  *WatchHealth
	refused atomic.Bool
}

// Read records why the hub ends the watch, because client-go restarts the watch and reports
// nothing. An event of a watch that has lasted for shortWatch shows that the cache follows the
// kind, so Read then clears earlier failures.
func (b *requiredWatchBody) Read(into []byte) (int, error) {
	n, eventEnded, err := b.read(into)
	switch {
	case isOverLimit(err) && !b.refused.Swap(true):
		b.health.recordFailure(b.kind, err, time.Now())
	case eventEnded && time.Since(b.startTime) >= shortWatch:
		b.health.recovered(b.kind)
	}
	return n, err
}

// Close ends the watch.
func (b *requiredWatchBody) Close() error {
	if now := time.Now(); now.Sub(b.startTime) < shortWatch && !b.refused.Load() {
		b.health.recordFailure(b.kind, errShortWatch, now)
	}
	return b.watchBody.Close()
}

// watchBody is the body of a watch: one line for each event.
type watchBody struct {
	io.ReadCloser
	startTime time.Time
	limit     time.Duration // how long the watch may be silent
	silence   *Timer
}

// newWatchBody returns the body of a watch that is about to be sent. Its timer is held until
// attach.
func (m *WatchMonitor) newWatchBody(silent func()) *watchBody {
	b := &watchBody{limit: m.Health.Silence, silence: NewTimer(m.Clock, m.Health.Silence, silent)}
	b.silence.hold()
	return b
}

// attach sets the body of the response, and starts the timer.
func (b *watchBody) attach(body io.ReadCloser) {
	b.ReadCloser, b.startTime = body, time.Now()
	b.silence.reset(b.limit)
	b.silence.release()
}

// Read reads from the body.
func (b *watchBody) Read(into []byte) (int, error) {
	n, _, err := b.read(into)
	return n, err
}

// read also reports whether an event has ended; a newline ends an event.
func (b *watchBody) read(into []byte) (n int, eventEnded bool, err error) {
	n, err = b.ReadCloser.Read(into)
	if eventEnded = bytes.IndexByte(into[:n], '\n') >= 0; eventEnded {
		b.silence.reset(b.limit)
	}
	return n, eventEnded, err
}

// Close ends the watch.
func (b *watchBody) Close() error {
	b.silence.Stop()
	return b.ReadCloser.Close()
}
