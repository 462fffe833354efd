package main

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"
)

// clientLines are the beginnings of the log lines that each client of a port of the operator can
// cause by a request, without any permission.
var clientLines = []string{
	"Authentication failed",       // of the metrics server: a wrong token
	"Authorization for user",      // of the metrics server: the hub does not answer
	"Failed to make webhook auth", // the same two, of the library for reviews by the hub
	"http: TLS handshake error",
	"http: ",
}

// clientLinePeriod is the period in which one line of each kind is written.
const clientLinePeriod = time.Minute

// lineLimiter is a slog.Handler that limits clientLines, so that nobody who only reaches a port can
// fill the log.
type lineLimiter struct {
	slog.Handler
	limits []*lineLimit // of clientLines
}

func newLineLimiter(next slog.Handler) *lineLimiter {
	l := &lineLimiter{Handler: next}
	for range clientLines {
		l.limits = append(l.limits, &lineLimit{})
	}
	return l
}

// Handle writes a line, or counts it for the next line of its kind.
func (l *lineLimiter) Handle(ctx context.Context, r slog.Record) error {
	kind := slices.IndexFunc(clientLines, func(beginning string) bool { return strings.HasPrefix(r.Message, beginning) })
	if kind < 0 {
		return l.Handler.Handle(ctx, r)
	}
	omitted, ok := l.limits[kind].next(r.Time)
	if !ok {
		return nil
	}
	if omitted > 0 {
		r = r.Clone()
		r.AddAttrs(slog.Int("omitted", omitted))
	}
	return l.Handler.Handle(ctx, r)
}

// WithAttrs returns a handler with more attributes and the same limits.
func (l *lineLimiter) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &lineLimiter{l.Handler.WithAttrs(attrs), l.limits}
}

// WithGroup returns a handler with a group and the same limits.
func (l *lineLimiter) WithGroup(name string) slog.Handler {
	return &lineLimiter{l.Handler.WithGroup(name), l.limits}
}

// lineLimit lets one line pass in each period.
type lineLimit struct {
	mu      sync.Mutex
	written time.Time // of the last line
	omitted int       // since then
}

// next reports whether a line may be written, and how many lines were omitted before it.
func (l *lineLimit) next(now time.Time) (omitted int, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.written.IsZero() && now.Sub(l.written) < clientLinePeriod {
		l.omitted++
		return 0, false
	}
	omitted = l.omitted
	l.written, l.omitted = now, 0
	return omitted, true
}
