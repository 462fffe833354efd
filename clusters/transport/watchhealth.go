package transport

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	toolscache "k8s.io/client-go/tools/cache"

	"github.com/go-logr/logr"
)

// A session is abandoned after failureThreshold failures of the watch of one kind that are spread
// over failureWindow. Failures less than coalesceWindow apart count once, because one failure may
// be recorded twice. After quietPeriod without a failure, which is longer than the longest back-off
// of a watch, the count starts over.
const (
	failureWindow    = 15 * time.Second
	quietPeriod      = 75 * time.Second
	coalesceWindow   = time.Second / 2
	failureThreshold = 3
)

// WatchHealth collects the errors of a member's watches. It explains why caches do not sync, and
// detects that caches no longer follow a member that still answers probes. It is safe for
// concurrent use. Its fields are set before the first request.
// docs/decisions/failing-watches-end-an-engagement.md says why.
type WatchHealth struct {
	// OnRefused is called when a retry is pointless: the member forbids lists or watches, or
	// exceeds a limit.
	OnRefused func()
	// OnFailed is called, if it is not nil, when a single failure makes PersistentError return an
	// error: a response exceeds a limit, or a watch is silent.
	OnFailed func()
	Log      logr.Logger
	// Silence is how long a watch may send nothing.
	Silence time.Duration

	mu sync.Mutex
	// err is the last error of any kind.
	err error
	// kinds has the failures of each kind since its last event. An event of one kind says nothing
	// about another kind.
	kinds map[string]*failures
}

// failures counts the failed lists and watches of one kind.
type failures struct {
	err         error
	first, last time.Time
	// count is the number of failures since first; countBefore is its value when the current burst
	// began.
	count, countBefore int
	burst              time.Time
}

// requiredKindKey is the context key for the kind of a list or a watch that is required for the
// engagement of a member. Failures of other kinds, whose informers were requested later, do not
// affect the member: their readers see that the cache is not in sync.
type requiredKindKey struct{}

// WithRequiredKind returns a context whose requests are required for the engagement of the member.
func WithRequiredKind(ctx context.Context, kind string) context.Context {
	return context.WithValue(ctx, requiredKindKey{}, kind)
}

// IsRequired reports whether the engagement of the member requires the requests of this context.
func IsRequired(ctx context.Context) bool { return ctx.Value(requiredKindKey{}) != nil }

func requiredKind(ctx context.Context) string {
	kind, _ := ctx.Value(requiredKindKey{}).(string)
	return kind
}

// HandleError is the error handler of the reflectors. It replaces client-go's handler, which logs
// the member's address.
func (w *WatchHealth) HandleError(ctx context.Context, reflector *toolscache.Reflector, err error) {
	if ctx.Err() != nil || !IsRequired(ctx) || errors.Is(err, io.EOF) || apierrors.IsResourceExpired(err) || apierrors.IsGone(err) {
		return
	}
	w.Log.Info("A watch failed", "type", reflector.TypeDescription(), "reason", SafeMessage(err))
	if errors.As(err, new(*LimitError)) { // a retry would be as large
		w.markFailed(requiredKind(ctx), err)
	}
	w.recordFailure(requiredKind(ctx), err, time.Now())
	if apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err) || isOverLimit(err) {
		w.OnRefused()
	}
}

// isOverLimit reports whether a response was ended because it exceeded a limit.
func isOverLimit(err error) bool {
	return errors.As(err, new(*LimitError)) || errors.Is(err, ErrQuantityTooExpensive)
}

// recordFailure records an error of a list or watch of a kind.
func (w *WatchHealth) recordFailure(kind string, err error, now time.Time) {
	w.recordFailures(kind, err, now, 1)
}

// recordFailures records an error that counts as several failures.
func (w *WatchHealth) recordFailures(kind string, err error, now time.Time, weight int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	f := w.kinds[kind]
	if f == nil || now.Sub(f.last) > quietPeriod {
		f = &failures{first: now}
		if w.kinds == nil {
			w.kinds = map[string]*failures{}
		}
		w.kinds[kind] = f
	}
	if now.Sub(f.burst) >= coalesceWindow {
		f.countBefore, f.burst = f.count, now
	}
	f.count = max(f.count, f.countBefore+weight)
	f.err, f.last, w.err = err, now, err
}

// recovered clears the failures of a kind, because an event arrived.
func (w *WatchHealth) recovered(kind string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.kinds, kind)
}

// Reset clears all failures, because synced caches show that they are over.
func (w *WatchHealth) Reset() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.err, w.kinds = nil, nil
}

// LastError returns the last error of any kind, or nil.
func (w *WatchHealth) LastError() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.err
}

// markFailed records an error that ends the session at once.
func (w *WatchHealth) markFailed(kind string, err error) {
	now := time.Now()
	w.recordFailures(kind, err, now, failureThreshold)
	w.mu.Lock()
	if f := w.kinds[kind]; f != nil {
		f.first = now.Add(-failureWindow)
	}
	w.mu.Unlock()
	if w.OnFailed != nil {
		w.OnFailed()
	}
}

// PersistentError returns the last error of a kind whose lists and watches have failed for
// failureWindow and still fail, or nil.
func (w *WatchHealth) PersistentError(now time.Time) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, kind := range slices.Sorted(maps.Keys(w.kinds)) {
		f := w.kinds[kind]
		if f.count >= failureThreshold && now.Sub(f.last) <= quietPeriod && f.last.Sub(f.first) >= failureWindow {
			return fmt.Errorf("the watches fail: %w", f.err)
		}
	}
	return nil
}
