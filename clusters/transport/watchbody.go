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

// slowList is the number of failures that a list without an end counts as, because it has already
// taken long.
const slowList = 2

// Read extends the timeout by the bytes it reads, and records a list that does not end.
func (b *deadlineBody) Read(into []byte) (int, error) {
	n, err := b.ReadCloser.Read(into)
	for _, timer := range b.timers {
		timer.extend(time.Duration(n) * time.Second / minListRate)
	}
	if err == nil || errors.Is(err, io.EOF) {
		return n, err
	}
	if err = b.explain(err); errors.Is(err, context.DeadlineExceeded) && IsRequired(b.ctx) {
		b.health.recordFailures(requiredKind(b.ctx), errSlowList, time.Now(), slowList)
	}
	return n, err
}

// explain returns the reason for the cancellation if the request took too long.
func (b *deadlineBody) explain(err error) error {
	if errors.Is(context.Cause(b.ctx), context.DeadlineExceeded) {
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
func (s *requiredWatchBody) Read(into []byte) (int, error) {
	n, told, err := s.read(into)
	switch {
	case isOverLimit(err) && !s.refused.Swap(true):
		s.health.recordFailure(s.kind, err, time.Now())
	case told && time.Since(s.begun) >= shortWatch:
		s.health.recovered(s.kind)
	}
	return n, err
}

// Close ends the watch.
func (s *requiredWatchBody) Close() error {
	if now := time.Now(); now.Sub(s.begun) < shortWatch && !s.refused.Load() {
		s.health.recordFailure(s.kind, errShortWatch, now)
	}
	return s.watchBody.Close()
}

// watchBody is the body of a watch: one line for each event.
type watchBody struct {
	io.ReadCloser
	begun   time.Time
	limit   time.Duration // how long the watch may be silent
	silence *Timer
}

// newWatchBody returns the body of a watch that is about to be sent. Its timer is held until the
// watchBody begins.
func newWatchBody(limit time.Duration, silent func()) *watchBody {
	s := &watchBody{limit: limit, silence: NewTimer(limit, silent)}
	s.silence.hold()
	return s
}

func (s *watchBody) begin(body io.ReadCloser) {
	s.ReadCloser, s.begun = body, time.Now()
	s.silence.reset(s.limit)
	s.silence.release()
}

// Read reads from the body.
func (s *watchBody) Read(into []byte) (int, error) {
	n, _, err := s.read(into)
	return n, err
}

// read also reports whether an event has ended; a newline ends an event.
func (s *watchBody) read(into []byte) (n int, told bool, err error) {
	n, err = s.ReadCloser.Read(into)
	if told = bytes.IndexByte(into[:n], '\n') >= 0; told {
		s.silence.reset(s.limit)
	}
	return n, told, err
}

// Close ends the watch.
func (s *watchBody) Close() error {
	s.silence.Stop()
	return s.ReadCloser.Close()
}
