package leasefence

import (
	"fmt"
	"io"
	"net/http"
	"sync/atomic"
	"time"
)

// Fence refuses the writes of a replica that does not hold the Lease. It is safe for concurrent
// use.
// docs/decisions/writes-pass-a-lease-fence.md says why.
type Fence struct {
	renewDeadline time.Duration
	// renewedAt is the time just before the request that renewed the Lease last; nil if the Lease
	// is not held.
	renewedAt atomic.Pointer[time.Time]
}

// New returns a closed fence. It stays open for the renew deadline after each renewal of the Lease.
func New(renewDeadline time.Duration) *Fence {
	return &Fence{renewDeadline: renewDeadline}
}

// Wrap returns a round tripper that sends requests through next while the fence is open.
func (f *Fence) Wrap(next http.RoundTripper) http.RoundTripper {
	return &roundTripper{fence: f, next: next}
}

func (f *Fence) open(renewedAt time.Time) { f.renewedAt.Store(&renewedAt) }

func (f *Fence) close() { f.renewedAt.Store(nil) }

// check returns an error if the fence is closed.
func (f *Fence) check() error {
	renewedAt := f.renewedAt.Load()
	if renewedAt == nil {
		return closedError("does not hold the lease of the leader election")
	}
	// Round(0) drops the monotonic reading: one age per clock, and the greater one counts.
	age := max(time.Since(*renewedAt), time.Since(renewedAt.Round(0)))
	if age >= f.renewDeadline {
		return closedError(fmt.Sprintf("has not renewed the lease of the leader election for %s", age.Round(time.Second)))
	}
	return nil
}

// closedError is the reason why the fence is closed.
type closedError string

// Error returns the reason.
func (e closedError) Error() string { return "fenced: this replica " + string(e) }

// Fenced reports that the fence refused the request, and that it was not sent to the server.
func (closedError) Fenced() bool { return true }

// roundTripper refuses writes while the fence is closed.
type roundTripper struct {
	fence *Fence
	next  http.RoundTripper
}

// RoundTrip sends the request unless it is a write and the fence is closed.
func (t *roundTripper) RoundTrip(request *http.Request) (*http.Response, error) {
	switch request.Method {
	case http.MethodGet, http.MethodHead, http.MethodOptions:
		return t.next.RoundTrip(request)
	}
	if err := t.fence.check(); err != nil {
		if request.Body != nil {
			_ = request.Body.Close()
		}
		return nil, err
	}
	fenced := request.WithContext(request.Context())
	fenced.Body = t.fence.wrapBody(request.Body)
	if request.GetBody != nil {
		fenced.GetBody = func() (io.ReadCloser, error) {
			body, err := request.GetBody()
			return t.fence.wrapBody(body), err
		}
	}
	return t.next.RoundTrip(fenced)
}

// WrappedRoundTripper lets client-go find the transport below.
func (t *roundTripper) WrappedRoundTripper() http.RoundTripper { return t.next }

func (f *Fence) wrapBody(body io.ReadCloser) io.ReadCloser {
	if body == nil || body == http.NoBody {
		return body
	}
	return &fencedBody{ReadCloser: body, fence: f}
}

// fencedBody fails as soon as the fence is closed. A server does not act on an incomplete body.
type fencedBody struct {
	io.ReadCloser
	fence *Fence
}

// Read reads the next part of the body if the fence is open.
func (b *fencedBody) Read(p []byte) (int, error) {
	if err := b.fence.check(); err != nil {
		return 0, err
	}
	return b.ReadCloser.Read(p)
}
